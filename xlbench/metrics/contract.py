"""The contract of metrics, for evaluators, xlbench.score and your own; checks of its two lists."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, TypedDict

from xlbench.system import errors
from xlbench.system.files import Json

Target = str | Sequence[str]  # A reference, or all of them where an example has several.
Targets = Sequence[Target]
Prediction = str | Sequence[str]  # A text, or several of them, the best first.
Scores = dict[str, float]
Scored = tuple[Scores, list[Scores]]  # Of a corpus, and of each of its texts.


class Metric(Protocol):
    """A function of the user's own, a functools.partial of one, or an instance of a dataclass.

    It may have the attributes `signature`, what decides its numbers; `num_predictions`, how many
    predictions of an example it takes; `several_references`, whether it takes lists of references
    (these two say what `targets` and `predictions` are made of, see Target and Prediction);
    and the methods `per_example` and `with_examples`, see suite.score, and `missing`, which gives a
    line for each model or table that it needs and the machine lacks, with what to type.
    """

    def __call__(self, targets: Sequence, predictions: Sequence) -> Mapping[str, float]:
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


class OfTexts:
    """A metric that scores a corpus and its texts: one of `per_example` and `with_examples`.

    Without the latter, the score of a corpus is the mean over its texts.
    """

    several_references: ClassVar[bool] = True

    def per_example(self, targets: Sequence, predictions: Sequence) -> list[Scores]:
        """The scores of each text."""
        return self.with_examples(targets, predictions)[1]

    def with_examples(self, targets: Sequence, predictions: Sequence) -> Scored:
        """The scores of the corpus, and those of each text."""
        rows = self.per_example(targets, predictions)
        return mean(rows), rows

    def __call__(self, targets: Sequence, predictions: Sequence) -> Scores:
        """The scores of the corpus."""
        return self.with_examples(targets, predictions)[0]

    def missing(self) -> list[str]:
        """Lists what it needs and this machine lacks, a line each, with the command to type."""
        return []

    def references(self, targets: Targets, predictions: Sequence[str]) -> list[list[str]]:
        """Checks as `check_references` does; UserError, too, if what it needs is not here."""
        rows = check_references(targets, predictions)
        if lines := self.missing():
            raise errors.UserError(lines[0])
        return rows


def check(targets: Sequence[str], predictions: Sequence[str]) -> None:
    """Raises a UserError unless these are two equally long, non-empty lists of strings."""
    for side, texts in (('targets', targets), ('predictions', predictions)):
        if isinstance(texts, str | bytes):
            raise errors.UserError(f'{side} is one text; a metric takes a list of texts')
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise errors.UserError(
                    f'{side}[{i}] is {type(text).__name__}; a metric takes strings: decode it first'
                )
    if len(targets) != len(predictions):
        raise errors.UserError(
            f'{len(targets)} targets but {len(predictions)} predictions; '
            'a metric compares them one by one, so there must be as many of each'
        )
    if not targets:
        raise errors.UserError('no examples to score; is the split empty?')


def check_references(
    targets: Sequence[str | Sequence[str]], predictions: Sequence[str]
) -> list[list[str]]:
    """References with a list for every prediction; a single text becomes a list of one.

    For the metrics that know several references; each example has one or more.
    """
    check([''] * len(targets), predictions)
    rows = _lists(targets)
    for i, row in enumerate(rows):
        if not row:
            raise errors.UserError(f'targets[{i}] has no reference; one or more are needed')
        check(row, [''] * len(row))
    return rows


def check_n_best(
    targets: Sequence[str], predictions: Sequence[str | Sequence[str]]
) -> list[list[str]]:
    """Predictions with a list for every target; a single text becomes a list of one."""
    check(targets, [''] * len(predictions))
    rows = _lists(predictions)
    for i, row in enumerate(rows):
        if wrong := [text for text in row if not isinstance(text, str)]:
            raise errors.UserError(
                f'predictions[{i}] holds {type(wrong[0]).__name__}; it takes a text or a list of '
                'texts: decode them first'
            )
    return rows


def _lists(rows: Sequence[str | Sequence[str]]) -> list[list[str]]:
    return [
        list(row) if isinstance(row, Iterable) and not isinstance(row, str | bytes) else [row]
        for row in rows
    ]


def about_targets(place: str, count: int, seen: Collection[str]) -> str:
    """Warns where all examples have one and the same target; '' where they have not.

    The labels of hidden test sets are published so: one label for all, or none. `place` says where
    the targets stand, and `seen` has the different ones, of tagging the different tags.
    """
    if count < 2 or len(seen) > 1:
        return ''
    target = repr(next(iter(seen)))[:60] if seen else 'no tag at all'
    return (
        f'{place}: all {count} examples have the target {target}; it may stand for labels that '
        'are not published, and then no score here means anything.'
    )


def mean(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """The plain mean over examples of every score."""
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
