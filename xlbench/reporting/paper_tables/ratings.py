"""Exhibits of judges' ratings, and of ratings that a regressor predicts for texts."""

import dataclasses
import hashlib
import statistics
from collections.abc import Sequence
from typing import Annotated

import msgspec

from xlbench.data import readers
from xlbench.metrics import fitted_rating
from xlbench.reporting import predictions
from xlbench.reporting.results import Result, task_name
from xlbench.reporting.systems import Pick
from xlbench.system import errors, files

MEAN = 'mean'  # Of all aspects.


class RatedText(msgspec.Struct):
    """A line of ratings.jsonl, as `python -m xlbench.annotate score` writes it.

    Attributes:
      task: its task.
      id: of the example.
      prediction: the text.
      references: what it should have been.
      ratings: aspect -> the mean of the judges.
      lang: ISO code of the text.
      study: title and hash of the study.
      data: 'sample' where the example is made up.
      system: that wrote it.
    """

    task: str
    id: str
    prediction: str
    references: Annotated[list[str], msgspec.Meta(min_length=1)]
    ratings: Annotated[dict[str, float], msgspec.Meta(min_length=1)]
    lang: str = ''
    study: str = ''
    data: str = 'files'
    system: str = ''


def read_texts(paths: Sequence[str], lang: str = '') -> tuple[list[RatedText], str]:
    """Reads files of rated texts.

    Args:
      paths: files that `python -m xlbench.annotate score` wrote.
      lang: ISO code of the texts that do not say theirs.

    Returns:
      The texts, and the SHA-256 of their lines.

    Raises:
      UserError: a line is no rated text, or lines differ in their aspects.
    """
    texts: list[RatedText] = []
    digest = hashlib.sha256()
    for path in paths:
        for number, line in enumerate(readers.lines(path), 1):
            if isinstance(line, readers.BadRecord):
                raise errors.UserError(str(line))
            text = files.parse_json(line, RatedText, f'{path}:{number}')
            if texts and text.ratings.keys() != texts[0].ratings.keys():
                raise errors.UserError(f'{path}:{number}: it has other aspects than the first text')
            text.lang = text.lang or lang
            if not text.lang:
                raise errors.UserError(f'{path}:{number}: nothing says its language; set --lang=de')
            texts.append(text)
            digest.update(f'{line}\n'.encode())
    if not texts:
        raise errors.UserError(f'{paths[0]} has no rated texts')
    return texts, digest.hexdigest()


def rated(pick: Pick, path: str) -> Pick:
    """A run whose texts have the rating that a file of `xlbench.annotate fit` predicts."""
    return dataclasses.replace(
        pick, results={task: _rated(result, path) for task, result in pick.results.items()}
    )


def _rated(result: Result, path: str) -> Result:
    """A result with the rating among its scores and those of its examples."""
    rows = predictions.of_result(result)
    if not rows or any(row.prediction is None for row in rows.values()):
        return result  # It has no texts, or not those of a system that writes some.
    if not (lang := task_name(result.task).target):  # A task of the user's own.
        return result
    references = [row.references or [row.target] for row in rows.values()]
    is_single = all(len(texts) == 1 for texts in references)
    targets = [texts[0] for texts in references] if is_single else references
    rating = fitted_rating.FittedRating(path, lang)
    texts = [row.prediction or '' for row in rows.values()]
    values = [of_text['fitted_rating'] for of_text in rating.per_example(targets, texts)]
    return msgspec.structs.replace(
        result,
        scores={**result.scores, 'fitted_rating': statistics.fmean(values)},
        signatures={**result.signatures, 'FittedRating': rating.signature},
        added={'fitted_rating': dict(zip(rows, values, strict=True))},
    )
