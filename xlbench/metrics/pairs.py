"""What every metric checks about its two lists, and the mean it takes."""

from collections.abc import Sequence

from xlbench import errors


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
    rows = [[row] if isinstance(row, str) else list(row) for row in targets]
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
    rows = [[row] if isinstance(row, str) else list(row) for row in predictions]
    for i, row in enumerate(rows):
        for text in row:
            if not isinstance(text, str):
                raise errors.UserError(
                    f'predictions[{i}] holds {type(text).__name__}; it takes a text or a list of '
                    'texts: decode them first'
                )
    return rows


def mean(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """The plain mean over examples of every score."""
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
