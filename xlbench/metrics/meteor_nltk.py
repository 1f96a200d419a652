"""The metric that NLTK calls METEOR: its first form (Lavie and Agarwal 2007, W07-0734), of English.

It is not METEOR 1.5, see meteor/: no function words, no paraphrases, other weights, and matches
that are taken greedily from the end of the texts. So its score has another name.
"""

import dataclasses
import functools
import importlib.metadata
import io
import os
import pathlib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from xlbench import errors
from xlbench.metrics import nltk_loading, pairs

if TYPE_CHECKING:
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

VARIABLE = 'XLBENCH_WORDNET'
_DEBIAN = '/usr/share/wordnet'
_NEEDED = ('index.noun', 'data.noun', 'index.sense', 'noun.exc')
_LEXNAMES = 45  # Files of WordNet's lexicographers, lexnames(5WN); scores do not depend on names.


@dataclasses.dataclass(frozen=True)
class MeteorNltk(pairs.MeanOfTexts):
    """nltk.translate.meteor_score of words between white space, 0 to 100; the mean over texts.

    A target may be several references; the one with the best score counts.

    Attributes:
        alpha: how much precision counts beside recall.
        beta, gamma: the exponent and the weight of the penalty for chunks.
    """

    alpha: float = 0.9
    beta: float = 3.0
    gamma: float = 0.5

    @property
    def signature(self) -> str:
        """NLTK's version and the parameters."""
        version = importlib.metadata.version('nltk')
        return f'nltk:{version}|alpha:{self.alpha}|beta:{self.beta}|gamma:{self.gamma}|wordnet'

    def missing(self) -> list[str]:
        """Returns what is not on this machine and has to be, with what to type."""
        if any(_is_wordnet(folder) for folder in _folders()):
            return []
        return [
            'meteor_nltk needs WordNet 3.0: python -m nltk.downloader wordnet; or apt-get install '
            f'wordnet-base wordnet-sense-index; or name its folder in {VARIABLE}'
        ]

    def per_example(
        self, targets: pairs.Targets, predictions: Sequence[str]
    ) -> list[dict[str, float]]:
        """The score of each text."""
        rows = pairs.references_for(self, targets, predictions)
        nltk_loading.load()
        from nltk.translate.meteor_score import meteor_score

        wordnet = _wordnet()
        options = dict(alpha=self.alpha, beta=self.beta, gamma=self.gamma, wordnet=wordnet)
        return [
            {'meteor_nltk': 100 * meteor_score([t.split() for t in row], text.split(), **options)}
            for row, text in zip(rows, predictions, strict=True)
        ]


def _folders() -> Iterator[pathlib.Path]:
    """Where WordNet may lie: where the user says, where Debian and where NLTK put it."""
    if named := os.environ.get(VARIABLE):
        yield pathlib.Path(named).expanduser()
    yield pathlib.Path(_DEBIAN)
    own = [*filter(None, os.environ.get('NLTK_DATA', '').split(os.pathsep)), '~/nltk_data']
    for place in (*own, '/usr/share/nltk_data', '/usr/local/share/nltk_data'):
        yield pathlib.Path(place).expanduser() / 'corpora' / 'wordnet'


def _is_wordnet(folder: pathlib.Path) -> bool:
    return all((folder / name).is_file() for name in _NEEDED)


@functools.cache
def _wordnet() -> 'WordNetCorpusReader':
    nltk_loading.load()
    from nltk import data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):
        """WordNet, also without the file of its lexicographers' names, which Debian leaves out."""

        def open(self, file: str) -> io.TextIOBase:
            if file == 'lexnames' and not (folder / file).is_file():
                return io.StringIO(''.join(f'{i:02} unnamed 0\n' for i in range(_LEXNAMES)))
            return super().open(file)

        def map_wn(self, version: str = 'wordnet') -> None:
            """Maps to no other version, for which NLTK would look for another WordNet."""

    folder = next(folder for folder in _folders() if _is_wordnet(folder))
    data.path.append(str(folder))  # NLTK opens nothing that lies elsewhere.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # That there are no other languages.
            return Reader(data.FileSystemPathPointer(str(folder)), omw_reader=None)
    except (OSError, ValueError, AssertionError, LookupError) as error:
        raise errors.UserError(f'{folder} does not hold a whole WordNet 3.0: {error}') from None
