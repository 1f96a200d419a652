"""A rating that a regressor predicts from automatic scores, fitted on what judges said.

The idea is from arXiv:2108.07140, section 4.3. The paper's own data, settings and model are not
published, so these numbers cannot be compared with the paper's. A file says what it was fitted on,
and so does the signature of every score.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from xlbench import errors, files, limits
from xlbench.errors import UserError
from xlbench.metrics import named, pairs, regressors
from xlbench.metrics.suite import Suite

FORMAT = 'xlbench fitted rating 1'
_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Fit(msgspec.Struct):
    """A file of a fitted regressor.

    Attributes:
        format: `FORMAT`.
        target: The aspect that it predicts, or 'mean' of all.
        regressor: Its name in scikit-learn.
        metrics: Names of the metrics whose scores it takes.
        features: Their scores, in order.
        fitted_on: The data: studies, tasks, numbers of texts and examples.
        sha256: Hash of the rated texts.
        pearson: Correlation with held-out ratings: on those that chose it, and on others.
        langs: ISO codes of the texts.
        versions: Of what fitted it.
        seed: Of the split and the regressor.
        model: Its numbers.
    """

    format: str
    target: _Word
    regressor: _Word
    metrics: Annotated[list[_Word], msgspec.Meta(min_length=1)]
    features: Annotated[list[_Word], msgspec.Meta(min_length=1)]
    fitted_on: _Word
    sha256: _Word
    pearson: dict[str, float | None]
    langs: list[_Word]
    versions: dict[str, str]
    seed: int
    model: regressors.Regressor


@functools.cache
def load(path: str) -> Fit:
    """A file of a fitted regressor.

    Raises:
        UserError: It is none, or its numbers do not fit together.
    """
    fit = files.read_json(path, Fit, limits.JSON_BYTES)
    if fit.format != FORMAT:
        raise UserError(
            f'{path} is not a fitted rating: its format is '
            f'{errors.shortened(fit.format)}'
        )
    regressors.check(fit.model, len(fit.features), path)
    return fit


def encode(fit: Fit) -> bytes:
    """A fitted regressor as its file has it."""
    return msgspec.json.encode(fit) + b'\n'


def features(
    metrics: Sequence[str], lang: str, targets: Sequence[str], predictions: Sequence[str]
) -> tuple[list[str], np.ndarray]:
    """The scores of each text: their names, and numbers [n, score].

    Args:
        metrics: Names of metrics.
        lang: ISO code of the texts.
        targets: References, one or several for each text.
        predictions: The texts.

    Raises:
        UserError: A metric gives no scores of single texts, or needs what is not here.
    """
    suite = _suite(metrics, lang)
    suite.require()
    _, rows = suite.score(targets, [[text] for text in predictions])
    names = list(rows[0])
    if not names or any(list(row) != names for row in rows):
        raise UserError(f'{", ".join(metrics)} give no scores of single texts; name other metrics')
    return names, np.array([list(row.values()) for row in rows])


def _suite(metrics: Sequence[str], lang: str) -> Suite:
    return Suite('ratings', [named.spec(name, lang) for name in metrics])


@dataclasses.dataclass(frozen=True)
class FittedRating:
    """The mean rating that a fitted regressor predicts, in the units of the ratings.

    Attributes:
        path: The file of `python -m xlbench.annotate fit`.
        lang: ISO code of the texts.
    """

    path: str
    lang: str

    @property
    def several_references(self) -> bool:
        """True if all its metrics accept several references."""
        return not _suite(load(self.path).metrics, self.lang).of_one_reference

    def missing(self) -> list[str]:
        """Lists the missing needs of its metrics, a line each, with the command to type."""
        return _suite(load(self.path).metrics, self.lang).missing()

    @property
    def signature(self) -> str:
        """Names the ratings that it was fitted on and every setting that changes a score."""
        fit = load(self.path)
        parts = {
            'target': fit.target,
            'regressor': fit.regressor,
            'features': '+'.join(fit.features),
            'lang': self.lang,
            'fitted_on': f'{fit.fitted_on} ({fit.sha256[:12]})',
            'sklearn': fit.versions.get('scikit-learn', 'unknown'),
        }
        words = [f'{name}:{value.replace("|", "/")}' for name, value in parts.items()]
        return '|'.join(['fitted_rating', *words])

    def __call__(self, targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
        """The mean over texts."""
        return pairs.mean(self.per_example(targets, predictions))

    def per_example(
        self, targets: Sequence[str], predictions: Sequence[str]
    ) -> list[dict[str, float]]:
        """The predicted rating of each text."""
        pairs.check_references(targets, predictions)
        fit = load(self.path)
        names, x = features(fit.metrics, self.lang, targets, predictions)
        if names != fit.features:
            raise UserError(
                f'{self.path} takes the scores {", ".join(fit.features)}, and its metrics now give '
                f'{", ".join(names)}; fit it again'
            )
        return [{'fitted_rating': float(value)} for value in fit.model.predict(x)]
