"""Labels as the targets of tasks, and what kind of batches a task is for."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlbench.pipeline.binding import Feature, PlainVocabulary, vocabulary
from xlbench.system import errors

if TYPE_CHECKING:
    from xlbench.pipeline.declarations import DeclaredTask


class Labels(PlainVocabulary):
    """The labels of a task; the id of one is its place among them.

    Args:
      labels: their texts.
      view: 'classification', a label for a text, or 'tagging', one for each of its words.
    """

    def __init__(self, labels: Sequence[str], view: str):
        self._labels = tuple(labels)
        self.view = view

    @property
    def labels(self) -> tuple[str, ...]:
        """Their texts, in the order of their ids."""
        return self._labels

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Labels)
        return same and (self.labels, self.view) == (other.labels, other.view)

    __hash__ = None

    @property
    def vocab_size(self) -> int:
        """How many labels there are."""
        return len(self.labels)

    def ids(self, texts: Sequence[str]) -> np.ndarray:
        """The ids of labels, [length] int32; UserError for one that is not there."""
        if unknown := [text for text in texts if text not in self.labels]:
            raise errors.unknown('label', unknown[0], self.labels)
        return np.array([self.labels.index(text) for text in texts], np.int32)


class LabelsOfData(Labels):
    """Labels that are read from the training data when they are first needed.

    Args:
      read: gives them.
      view: see `Labels`.
    """

    def __init__(self, read: Callable[[], tuple[str, ...]], view: str):
        self._read = read
        super().__init__((), view)

    @property
    def labels(self) -> tuple[str, ...]:
        """Their texts, in the order of their ids."""
        return self._read()


def label_features(labels: Sequence[str] | Labels, view: str) -> dict[str, Feature]:
    """Output features of a task of labels.

    They are `inputs`, all that the encoder reads; `targets`, ids of labels; and `piece_counts`, the
    number of ids of each text (classification) or word (tagging), without special ones.

    Args:
      labels: their texts, in the order of their ids.
      view: 'classification' or 'tagging'.
    """
    return {
        'inputs': Feature(vocabulary('inputs'), add_eos=False),
        'targets': Feature(as_labels(labels, view), add_eos=False),
        'piece_counts': Feature(PlainVocabulary(2**31 - 1), add_eos=False),
    }


def as_labels(labels: Sequence[str] | Labels, view: str) -> Labels:
    """Names of labels as the vocabulary of a feature."""
    return labels if isinstance(labels, Labels) else Labels(labels, view)


def labels(task: 'DeclaredTask') -> tuple[str, ...]:
    """The labels of a task, () where it has texts to write."""
    targets = task.output_features.get('targets')
    return getattr(targets and targets.vocabulary, 'labels', ())


def view(task: 'DeclaredTask') -> str:
    """How the examples of a task are read.

    'classification' or 'tagging' where it has labels; 'retrieval' if its targets are written like
    inputs; else 'generation'.
    """
    targets = task.output_features.get('targets')
    return getattr(targets and targets.vocabulary, 'view', 'generation')
