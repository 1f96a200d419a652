"""Scores of labels: accuracy, macro-F1, and which labels are taken for which.

Classification()(['1', '1', '2'], ['1', '2', '2']) -> {'accuracy': 66.7, 'macro_f1': 66.7}
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from xlbench.metrics import contract
from xlbench.metrics.contract import Scores
from xlbench.system import errors


@dataclasses.dataclass(frozen=True)
class Classification:
    """Accuracy, the metric of arXiv:2012.15682, and the mean F1 of the labels, 0 to 100."""

    # The labels that macro_f1 averages over; one that is neither right nor predicted anywhere
    # counts as 0. By default, as in scikit-learn, those that are right or predicted somewhere;
    # then the mean of a small split can lack a rare label.
    labels: tuple[str, ...] = ()

    def __post_init__(self):
        # Lists come out of JSON; a metric must be hashable.
        object.__setattr__(self, 'labels', tuple(self.labels))

    @property
    def signature(self) -> str:
        return f'classification|labels:{",".join(self.labels) or "seen"}|empty:0|version:1'

    def __call__(self, targets: Sequence[str], predictions: Sequence[str]) -> Scores:
        """Computes accuracy and macro_f1 of all examples."""
        contract.check(targets, predictions)
        seen = sorted({*targets, *predictions})
        table = confusion(targets, predictions, seen)
        labels = [seen.index(label) for label in self.labels or seen if label in seen]
        if self.labels and (strange := sorted(set(targets) - set(self.labels))):
            raise errors.unknown('label among the targets', strange[0], self.labels)
        right = np.diag(table)
        scores = 2.0 * right / (table.sum(0) + table.sum(1))
        return {
            'accuracy': 100.0 * float(right.sum()) / len(targets),
            'macro_f1': 100.0 * float(scores[labels].sum()) / len(self.labels or seen),
        }

    def per_example(self, targets: Sequence[str], predictions: Sequence[str]) -> list[Scores]:
        """Computes the accuracy of each example: 100 or 0."""
        contract.check(targets, predictions)
        return [
            {'accuracy': 100.0 * (target == prediction)}
            for target, prediction in zip(targets, predictions, strict=True)
        ]


def confusion(
    targets: Sequence[str], predictions: Sequence[str], labels: Sequence[str]
) -> np.ndarray:
    """Counts the predicted labels of each true label (arXiv:2012.15682, figure 5).

    Gives [labels, labels] integers: a row for each right label, a column for each predicted one.
    """
    contract.check(targets, predictions)
    numbers = {label: i for i, label in enumerate(labels)}
    for label in (*targets, *predictions):
        if label not in numbers:
            raise errors.unknown('label', label, labels)
    table = np.zeros((len(numbers), len(numbers)), int)
    np.add.at(table, ([numbers[t] for t in targets], [numbers[p] for p in predictions]), 1)
    return table
