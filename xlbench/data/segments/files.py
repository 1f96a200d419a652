"""The topics and stages of a corpus, as a file beside that of its dialogues."""

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xlbench.data import readers, rows
from xlbench.data.segments import stages, texts, topics
from xlbench.system import files

KEYS = ('topics', 'stages')


class Views(NamedTuple):
    """The two views of a dialogue: of each utterance the number of its topic and of its stage."""

    topics: list[int]
    stages: list[int]

    def text(self, utterances: Sequence[str]) -> str:
        """A dialogue in both views, topics first, with a tab between; see `with_segments`."""
        return texts.joined_views([texts.with_segments(utterances, labels) for labels in self])


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
    fitted = spoken[:most_fitted]
    model = stages.fit_stages(stages.initial_stages(fitted), fitted, iterations).model
    views = []
    for dialogues in splits:
        if official_window:
            cut = topics.official_topic_segments(dialogues)
        else:
            cut = map(topics.topic_segments, dialogues)
        views.append(
            [
                Views(labels, model.stages(vectors) if len(vectors) else [])
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
