"""The contract of a metric, which evaluators, xlbench.score and a user's own metrics share."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict

from xlbench.system.files import Json

Target = str | Sequence[str]  # A reference, or all of them where an example has several.
Prediction = str | Sequence[str]  # A text, or several of them, the best first.


class Metric(Protocol):
    """A function of the user's own, a functools.partial of one, or an instance of a dataclass.

    It may have the attributes `signature`, what decides its numbers; `num_predictions`, how many
    predictions of an example it takes; `several_references`, whether it takes lists of references;
    and the methods `per_example` and `with_examples`, see suite.score, and `missing`, which gives a
    line for each model or table that it needs and the machine lacks, with what to type.
    """

    def __call__(
        self, targets: Sequence[Target], predictions: Sequence[Prediction]
    ) -> Mapping[str, float]:
        """The scores of a corpus by name."""
        ...


class Only(list[Metric]):
    """The metrics of a task that has no others, see `only`."""


def only(*metrics: Metric) -> Only:
    """Makes these the only metrics of a task; in a plain list they are added to those of its kind.

    Example: pipeline.register_text_task(..., metrics=metrics.only(exact_match))
    """
    return Only(metrics)


class Spec(TypedDict):
    """A metric as manifests keep it: where it is defined, and its arguments."""

    metric: str
    kwargs: dict[str, Json]
