"""A rating that a regressor predicts from automatic scores, fitted on what judges said.

The idea is from arXiv:2108.07140, section 4.3. The paper's own data, settings and model are not
published, so these numbers cannot be compared with the paper's. A file has the scores and ratings
of the texts that it is fitted to, and the regressor is fitted to them again where it is asked: so
nothing in it can run. It says what it was fitted on, and so does the signature of every score.
"""

import dataclasses
import functools
import importlib.metadata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from xlbench.metrics import contract, suite as suite_lib
from xlbench.metrics.contract import Scores
from xlbench.metrics.suite import Suite
from xlbench.system import errors, files, untrusted
from xlbench.system.errors import UserError

if TYPE_CHECKING:
    from sklearn.base import RegressorMixin

FORMAT = 'xlbench fitted rating 2'
# scikit-learn's regressors with its defaults (arXiv:2108.07140, appendix): name -> module, class.
REGRESSORS = {
    'AdaBoost': ('ensemble', 'AdaBoostRegressor'),
    'Bagging': ('ensemble', 'BaggingRegressor'),
    'DecisionTree': ('tree', 'DecisionTreeRegressor'),
    'ExtraTrees': ('ensemble', 'ExtraTreesRegressor'),
    'GradientBoosting': ('ensemble', 'GradientBoostingRegressor'),
    'KNeighbors': ('neighbors', 'KNeighborsRegressor'),
    'LinearRegression': ('linear_model', 'LinearRegression'),
    'RandomForest': ('ensemble', 'RandomForestRegressor'),
    'SVR': ('svm', 'SVR'),
}
_NO_SEED = ('KNeighbors', 'LinearRegression', 'SVR')
_MOST_TEXTS = 20_000  # Nobody rates more, and each use of a file fits them again.
_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Fit(msgspec.Struct):
    """A file of a fitted regressor."""

    format: str
    target: _Word  # The aspect that it predicts, or 'mean' of all.
    regressor: _Word
    metrics: Annotated[list[_Word], msgspec.Meta(min_length=1)]  # Their names.
    features: Annotated[list[_Word], msgspec.Meta(min_length=1)]  # Their scores, in order.
    fitted_on: _Word  # Studies, tasks, numbers of texts and examples.
    sha256: _Word  # Of the rated texts.
    # Correlation with held-out ratings: on those that chose it, and on others.
    pearson: dict[str, float | None]
    langs: list[_Word]
    versions: dict[str, str]  # Of the packages that fitted it.
    seed: int  # Of the split and the regressor.
    # [text, feature] and [text]: the scores and ratings that it is fitted to.
    x: Annotated[list[list[float]], msgspec.Meta(min_length=1, max_length=_MOST_TEXTS)]
    y: list[float]


@functools.cache
def load(path: str) -> Fit:
    """Reads a file of a fitted regressor; UserError if its numbers do not fit together."""
    fit = files.read_json(path, Fit, untrusted.JSON_BYTES)
    if fit.format != FORMAT:
        raise UserError(
            f'{path} is not a fitted rating: its format is {errors.shortened(fit.format)}, not '
            f'{FORMAT}; make it with xlbench.annotate fit'
        )
    errors.check_known(f'regressor of {path}', fit.regressor, REGRESSORS)
    if len(fit.x) != len(fit.y) or any(len(row) != len(fit.features) for row in fit.x):
        raise UserError(f'{path}: scores and ratings do not fit its {len(fit.features)} features')
    return fit


def fitted(name: str, x: np.ndarray, y: np.ndarray, seed: int) -> 'RegressorMixin':
    """Fits one of `REGRESSORS` to unscaled scores x [text, feature] and ratings y [text].

    UserError if scikit-learn cannot fit these numbers.
    """
    place, kind = REGRESSORS[name]
    regressor = getattr(importlib.import_module(f'sklearn.{place}'), kind)
    seeded = {} if name in _NO_SEED else {'random_state': seed}
    try:
        return regressor(**seeded).fit(x, y)
    except ValueError as error:
        message = f'{name} cannot be fitted to these numbers: {errors.located(error)}'
        raise UserError(message) from None


@functools.cache
def _of_file(path: str) -> 'RegressorMixin':
    fit = load(path)
    return fitted(fit.regressor, np.array(fit.x), np.array(fit.y), fit.seed)


def encode(fit: Fit) -> bytes:
    """A fitted regressor as its file has it."""
    return msgspec.json.encode(fit) + b'\n'


def features(
    metrics: Sequence[str], lang: str, targets: contract.Targets, predictions: Sequence[str]
) -> tuple[list[str], np.ndarray]:
    """The scores of each text: their names, and numbers [n, score].

    UserError if a metric gives no scores of single texts, or needs what is not here.
    """
    suite = _suite(metrics, lang)
    suite.require()
    _, rows = suite.score(targets, [[text] for text in predictions])
    names = list(rows[0])
    if not names or any(list(row) != names for row in rows):
        raise UserError(f'{", ".join(metrics)} give no scores of single texts; name other metrics')
    return names, np.array([list(row.values()) for row in rows])


def _suite(metrics: Sequence[str], lang: str) -> Suite:
    return Suite('ratings', [suite_lib.named(name, lang) for name in metrics])


@dataclasses.dataclass(frozen=True)
class FittedRating(contract.OfTexts):
    """The mean rating that a fitted regressor predicts, in the units of the ratings.

    `path` is a file of `python -m xlbench.annotate fit`.
    """

    path: str
    lang: str

    @property
    def several_references(self) -> bool:  # type: ignore[override]  # Of the others a constant.
        """True if all its metrics accept several references."""
        return not _suite(load(self.path).metrics, self.lang).of_one_reference

    def missing(self) -> list[str]:
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
            'sklearn': importlib.metadata.version('scikit-learn'),
        }
        words = [f'{name}:{value.replace("|", "/")}' for name, value in parts.items()]
        return '|'.join(['fitted_rating', *words])

    def per_example(self, targets: Sequence[str], predictions: Sequence[str]) -> list[Scores]:
        """The predicted rating of each text."""
        contract.check_references(targets, predictions)
        fit = load(self.path)
        names, x = features(fit.metrics, self.lang, targets, predictions)
        if names != fit.features:
            raise UserError(
                f'{self.path} takes the scores {", ".join(fit.features)}, and its metrics now give '
                f'{", ".join(names)}; fit it again'
            )
        return [{'fitted_rating': float(value)} for value in _of_file(self.path).predict(x)]
