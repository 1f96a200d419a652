"""Dialogues as MV-BART reads them, vectors of their words, and the file of their two views."""

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xlbench.data import readers, rows
from xlbench.data.segments import cuts
from xlbench.system import errors, files

MARK = ' |'  # Before each segment; MV-BART weighs the views by what its encoder gives for these.
BETWEEN = '\t'  # The two views of a text.


def with_segments(utterances: Sequence[str], labels: Sequence[int]) -> str:
    """Returns a dialogue on one line with a mark before each segment.

    A mark inside an utterance becomes a space.

    Args:
      utterances: such as 'Anna: Hi!'.
      labels: the segment of each utterance; where the number changes, another begins.

    Example: ['A: hi', 'B: hello', 'A: bye'], [1, 1, 2] -> ' | A: hi B: hello | A: bye'
    """
    if len(utterances) != len(labels):
        raise errors.UserError(f'{len(labels)} labels of {len(utterances)} utterances')
    text, before = '', None
    for utterance, label in zip(utterances, labels, strict=True):
        mark = '' if label == before else MARK
        text += f'{mark} {utterance.replace(MARK, " ")}'
        before = label
    return text


def joined_views(views: Sequence[str]) -> str:
    """Returns views of a dialogue as one text; a tab inside one becomes a space.

    Example: [' | A: hi B: ho', ' | A: hi | B: ho'] -> ' | A: hi B: ho\\t | A: hi | B: ho'
    """
    return BETWEEN.join(view.replace(BETWEEN, ' ') for view in views)


def parted_views(text: str) -> list[str]:
    """Returns the inverse of `joined_views`: two views, or the one of a text without a tab."""
    first, between, second = text.partition(BETWEEN)
    return [first, second] if between else [first]


def utterances(dialogue: str) -> list[str]:
    """Returns the lines of a dialogue that are not empty, each with single spaces.

    Example: 'Anna:  Hi!\\r\\nBen: Hello.' -> ['Anna: Hi!', 'Ben: Hello.']
    """
    return [' '.join(line.split()) for line in dialogue.splitlines() if line.strip()]


def word_vectors(dialogues: Sequence[Sequence[str]], size: int = 500) -> list[np.ndarray]:
    """Returns TF-IDF: counts of words, times log(utterances / utterances with the word).

    Args:
      dialogues: the utterances of each.
      size: words that count, those in most utterances; of equally frequent ones the first by name.

    Returns:
      Of each dialogue [utterances, words] float32.
    """
    from sklearn.feature_extraction.text import CountVectorizer  # It loads for a second.

    texts = [text for dialogue in dialogues for text in dialogue]
    counts = CountVectorizer(token_pattern=r'\w+').fit_transform(texts)  # Words by name.
    frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = np.argsort(-frequencies, kind='stable')[:size]
    weights = np.log(len(texts) / frequencies[kept])
    vectors = counts[:, kept].multiply(weights).astype(np.float32).toarray()
    return np.split(vectors, np.cumsum([len(dialogue) for dialogue in dialogues])[:-1])


KEYS = ('topics', 'stages')


class Views(NamedTuple):
    """The two views of a dialogue: of each utterance the number of its topic and of its stage."""

    topics: list[int]
    stages: list[int]

    def text(self, utterances: Sequence[str]) -> str:
        """A dialogue in both views, topics first, with a tab between; see `with_segments`."""
        return joined_views([with_segments(utterances, labels) for labels in self])


def views_of(
    splits: Sequence[Sequence[np.ndarray]],
    *,
    official_window: bool = False,
    iterations: int = 50,
    most_fitted: int | None = None,
) -> list[list[Views]]:
    """Cuts dialogues into topics by C99, and into the stages of one model of all of them.

    Args:
      splits: of each dialogue of each split, [utterances, dimensions]; one without utterances has
        no segments.
      official_window: see `official_topic_segments`; each split begins with the whole window.
      iterations: of Baum-Welch, at most.
      most_fitted: number of first dialogues that fit the model of stages; None: all.

    Raises:
      UserError: no dialogue is long enough to tell stages apart.
    """
    spoken = [vectors for dialogues in splits for vectors in dialogues if len(vectors)]
    model = cuts.fit_stages(spoken[:most_fitted], iterations)
    views = []
    for dialogues in splits:
        if official_window:
            cut = cuts.official_topic_segments(dialogues)
        else:
            cut = map(cuts.topic_segments, dialogues)
        views.append(
            [
                Views(labels, cuts.stages(model, vectors))
                for labels, vectors in zip(cut, dialogues, strict=True)
            ]
        )
    return views


def views_path(path: str) -> str:
    """Returns the file of views beside one of dialogues.

    Example: 'XSAMSum/train.json.gz' -> 'XSAMSum/train.views.jsonl'
    """
    file = pathlib.Path(path.removesuffix('.gz'))
    return str(file.with_suffix('.views.jsonl'))


def write_views(path: str, views: Iterable[Views]) -> None:
    """Writes a line of JSON for each dialogue: {"topics": [1, 1, 2], "stages": [0, 2, 2]}."""
    files.write(path, ''.join(json.dumps(one._asdict()) + '\n' for one in views))


def read_views(path: str) -> Iterator[Views | readers.BadRecord]:
    """Reads the output of `write_views`, dialogue by dialogue."""

    def views(_: int, values: rows.Values) -> Iterator[Views]:
        lists = [values[key] for key in KEYS]
        if not all(isinstance(x, list) and all(type(n) is int for n in x) for x in lists):
            raise ValueError('topics and stages are no lists of numbers')
        yield Views(*lists)

    return readers.convert(path, rows.read(path, KEYS, rows.Layout('jsonl')), views)
