"""Shared code of the sample corpora: each is written whole into a folder below the data root.

`<root>/SAMPLE.json` lists the corpora that are complete; with that file, nothing in the root is
real data. The same seed gives the same bytes.
"""

import dataclasses
import functools
import json
import os
import random
import shutil
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from xlbench.system import errors, files, locks
from xlbench.tasks.samples import texts

NOTE = (
    'Made-up text from the grammars of xlbench; not the benchmark it is named after, no real data.'
)
_DESCRIPTION = 'SAMPLE.json'
_MARK = '.sample'  # In <root>/<name>: a sample, which may be replaced.

About = dict[str, int | str]  # All that the bytes of a corpus depend on, such as the seed.
Example = TypeVar('Example')


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample corpus with a vocabulary of its own."""

    name: str  # Also of its folder in the root.
    # Raise it when the code of the corpus changes any byte: older samples are then written anew, as
    # they are when one of the texts has changed.
    generator: int
    texts: tuple[str, ...]  # The text files whose sentences it has.
    vocabulary: str  # Name of the vocabulary's file in the root; another one trains it again.
    fill: Callable[[str, int], None]  # Writes the corpus of a seed into an empty folder.
    train: Callable[[str], bytes]  # Folder of the corpus -> the vocabulary.

    def about(self, seed: int) -> About:
        """Describes all that its bytes depend on; it is written anew when that changes."""
        return {'generator': self.generator, 'seed': seed, 'texts': texts.digest(*self.texts)}

    def write(self, root: str, seed: int = 0) -> bool:
        """Writes the corpus and its vocabulary; nothing, and False, where they are already.

        The data root is made if missing. Official files in it are never replaced.
        """
        about, folder = self.about(seed), os.path.join(root, self.name)
        vocabulary = os.path.join(root, self.vocabulary)

        def is_filled() -> bool:
            return _corpora(root).get(self.name) == about and os.path.exists(folder)

        if is_filled() and os.path.isfile(vocabulary):
            return False
        wait = functools.partial(print, flush=True)
        with locks.file(os.path.join(root, _DESCRIPTION), wait=wait):
            if not is_filled():
                self._fill(root, folder, seed)
            elif os.path.isfile(vocabulary):  # Another one has just written it.
                return False
            files.write(vocabulary, self.train(folder))
            _describe(root, _corpora(root) | {self.name: about})
        return True

    def _fill(self, root: str, folder: str, seed: int) -> None:
        if os.path.exists(folder) and not os.path.exists(os.path.join(folder, _MARK)):
            raise errors.UserError(
                f'{folder} holds files that are no sample; they are kept. Choose another root '
                'for the sample corpora, for example data/sample'
            )
        # From here until the end the corpus is incomplete, and the list says so.
        complete = _corpora(root)
        if complete.pop(self.name, None):
            _describe(root, complete)
        shutil.rmtree(folder, ignore_errors=True)
        with locks.atomic_folder(folder) as new:
            self.fill(str(new), seed)
            write_text(os.path.join(new, _MARK), '')


def _corpora(root: str) -> dict[str, About]:
    """The complete corpora of a root; none if the list is missing, broken or of another form."""
    try:
        with open(os.path.join(root, _DESCRIPTION), encoding='utf-8') as file:
            return dict(json.load(file)['corpora'])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _describe(root: str, corpora: dict[str, About]) -> None:
    text = json.dumps({'corpora': corpora, 'note': NOTE}, indent=1, sort_keys=True)
    files.write(os.path.join(root, _DESCRIPTION), text + '\n')


def write_text(path: str, text: str) -> None:
    """Writes a file of a corpus, which appears as a whole; its folder is made if missing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(text.encode('utf-8'))


def lines(*path: str) -> list[str]:
    """The lines of a file of a corpus."""
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read().removesuffix('\n').split('\n')


def draw_splits(
    name: str,
    sizes: Mapping[str, int],
    seed: int,
    make: Callable[[random.Random, str], Example],
    keys: Callable[[Example], Iterable[Hashable]],
    *,
    repeated: bool = False,
) -> dict[str, list[Example]]:
    """Draws the examples of every split; what has a key of an earlier one is drawn again.

    Other names, splits and seeds draw other examples. `repeated` allows a key twice in a split.
    """
    seen: dict[Hashable, str] = {}
    splits = {}
    for split, size in sizes.items():
        # Seeded by text, which Python hashes the same way on every machine.
        rng = random.Random(f'{name}/{split}/{seed}')
        examples: list[Example] = []
        while len(examples) < size:
            example = make(rng, split)
            found = list(keys(example))
            if repeated:  # What is drawn again has left its first keys here.
                is_new = all(seen.setdefault(key, split) == split for key in found)
            elif is_new := seen.keys().isdisjoint(found):
                seen |= dict.fromkeys(found, split)
            if is_new:
                examples.append(example)
        splits[split] = examples
    return splits


def slip(text: str, rng: random.Random, may_miss: Callable[[str], object]) -> str:
    """A slip of a translating machine: words swapped, one missing, or a word doubled.

    Only a word that `may_miss` allows is missing. A text of fewer than three words stays as it is.
    Example: 'Nora verlor am Montag einen Hut.' -> 'Nora verlor am Montag Hut.'
    """
    words = text.split(' ')
    if len(words) < 3:
        return text
    kind = rng.choice(('swap', 'drop', 'double'))
    at = rng.randrange(1, len(words) - 1)
    missing = [i for i, word in enumerate(words) if may_miss(word)]
    if kind == 'drop' and missing:
        del words[rng.choice(missing)]
    elif kind == 'double':
        words.insert(at, words[at])
    else:
        words[at], words[at - 1] = words[at - 1], words[at]
    return ' '.join(words)
