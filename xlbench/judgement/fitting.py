"""Fits automatic scores to human ratings, as section 4.3 of arXiv:2108.07140 describes it.

Nine regressors of scikit-learn with its defaults; the one whose predictions correlate best with
ratings that it has not seen is kept. Which texts the paper was fitted on is not published, so that
what comes out of here has a name of its own.
"""

import importlib.metadata
import math
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xlbench import __version__
from xlbench.metrics import fitted_rating
from xlbench.metrics.fitted_rating import FORMAT, REGRESSORS, Fit, fitted
from xlbench.reporting.notes import SAMPLE_DATA
from xlbench.reporting.paper_tables.material import MEAN, Fits, read_texts
from xlbench.reporting.statistics import Correlation, coefficient, correlation
from xlbench.reporting.tables import Column, Row, Table, clean
from xlbench.system.errors import UserError, printable

METRICS = ('sacrebleu', 'multilingual_rouge', 'chrf', 'distinct')
_SHARE = 0.2  # Of the examples that choose a regressor, and as many that test it.
_LEAST = 3  # Texts on which a correlation says anything at all.
_NEIGHBORS = 5  # scikit-learn's default.


class Data(NamedTuple):
    """Rated texts as arrays.

    Attributes:
      x: [text, feature].
      ratings: target -> [text].
      groups: the example of each text; one example stands on one side of a split only.
      about: a description of a few words.
      sha256: of the lines.
      is_sample: whether examples are made up.
    """

    x: np.ndarray
    ratings: dict[str, np.ndarray]
    groups: list[str]
    features: list[str]
    langs: list[str]
    about: str
    sha256: str
    is_sample: bool


def read(paths: Sequence[str], metrics: Sequence[str], lang: str) -> Data:
    """Reads files of rated texts that `xlbench annotate score` wrote, and scores the texts.

    `lang` is the ISO code of the texts that do not say theirs.

    Raises:
      UserError: a line is no rated text, or lines differ in their aspects.
    """
    texts, sha256 = read_texts(paths, lang)
    features, rows = list[str](), np.empty(0)
    langs = sorted({text.lang for text in texts})
    for code in langs:
        of_lang = [i for i, text in enumerate(texts) if text.lang == code]
        targets = [texts[i].references for i in of_lang]
        single = [row[0] for row in targets] if max(map(len, targets)) == 1 else targets
        predictions = [texts[i].prediction for i in of_lang]
        features, numbers = fitted_rating.features(metrics, code, single, predictions)
        rows = rows if rows.size else np.empty((len(texts), len(features)))
        rows[of_lang] = numbers
    aspects = list(texts[0].ratings)
    ratings = {name: np.array([text.ratings[name] for text in texts]) for name in aspects}
    ratings[MEAN] = np.mean([ratings[name] for name in aspects], axis=0)
    groups = [f'{text.study} {text.task} {text.id}' for text in texts]
    studies = ', '.join(sorted({clean(text.study or 'unnamed') for text in texts}))
    about = (
        f'{studies}: {len(texts)} texts of {len(set(groups))} examples, '
        f'{", ".join(sorted({clean(text.task) for text in texts}))}'
    )
    is_sample = any(text.data == 'sample' for text in texts)
    about = printable(f'SAMPLE DATA, {about}' if is_sample else about)
    return Data(rows, ratings, groups, features, langs, about, sha256, is_sample)


def fit(data: Data, target: str, metrics: Sequence[str], seed: int) -> tuple[Fit, list[Table]]:
    """Fits all regressors to all targets, and keeps the best one for one of them.

    The target is an aspect, or 'mean'; the features are scores of the metrics, and the seed is that
    of the split and the regressors.

    Returns:
      The best regressor, and the tables: each regressor's correlation with the ratings that choose,
      and each score's with those that test.

    Raises:
      UserError: there is no such target, or too few texts.
    """
    if target not in data.ratings:
        raise UserError(f'--target={target}; the texts are rated for {", ".join(data.ratings)}')
    train, choose, test = _split(data, seed)
    fits = correlations(data, seed)
    regressor, tested = _best(fits.regressors[target]), fits.scores[target]
    if not regressor:
        raise UserError(
            f'no regressor correlates with {target}: all ratings of the {len(choose)} texts that '
            'choose are equal, or all predictions are; more rated texts are needed'
        )
    pearson = tested['fitted_rating'].pearson
    pearsons = {
        'choose': fits.regressors[target][regressor],
        'test': None if math.isnan(pearson) else pearson,
    }
    sklearn = importlib.metadata.version('scikit-learn')
    kept = Fit(
        format=FORMAT, target=target, regressor=regressor, metrics=list(metrics),
        features=data.features, fitted_on=data.about, sha256=data.sha256, pearson=pearsons,
        langs=data.langs, seed=seed, x=data.x[train].tolist(),
        y=data.ratings[target][train].tolist(),
        versions={'xlbench': __version__, 'scikit-learn': sklearn, 'numpy': np.__version__},
    )  # fmt: skip
    counts = f'{len(train)} texts fit, {len(choose)} choose and {len(test)} test'
    notes = (f'{counts}; no example is on two sides.', f'Fitted on {data.about}.')
    chosen = Table(
        'Pearson correlation of each regressor with the ratings that choose',
        Column.named(REGRESSORS),
        tuple(
            Row(name, '', tuple(coefficient(r, of.get(_best(of))) for r in of.values()))
            for name, of in fits.regressors.items()
        ),
        'target',
        (SAMPLE_DATA, *notes) if data.is_sample else notes,
    )
    figure = Table(
        f'Correlation of each score with {target} on the texts that test',
        Column.named(name.replace('_p', ', p') for name in Correlation._fields),
        tuple(Row(name, '', tuple(map(coefficient, of))) for name, of in tested.items()),
        'score',
        (f'fitted_rating is {regressor}, fitted on the texts that fit.',),
    )
    return kept, [chosen, figure]


def correlations(data: Data, seed: int) -> Fits:
    """Fits all regressors to the ratings of each target, and correlates them and scores; see `fit`.

    Of what tests, `fitted_rating` is last: the regressor that correlates best where one is chosen.
    """
    train, choose, test = _split(data, seed)
    x, regressors, scores = data.x, {}, {}
    for target, y in data.ratings.items():
        models = {name: fitted(name, x[train], y[train], seed) for name in REGRESSORS}
        regressors[target] = {
            name: correlation(model.predict(x[choose]), y[choose]).pearson
            for name, model in models.items()
        }
        best = models.get(_best(regressors[target]))
        columns = {name: x[test, i] for i, name in enumerate(data.features)}
        columns['fitted_rating'] = np.empty(0) if best is None else best.predict(x[test])
        scores[target] = {name: correlation(column, y[test]) for name, column in columns.items()}
    notes = (*([SAMPLE_DATA] if data.is_sample else []), f'Fitted on {data.about}.')
    return Fits(regressors, scores, notes)


def _best(pearsons: Mapping[str, float]) -> str:
    """The regressor that correlates best; '' where no correlation is defined."""
    # NaN, where all predictions or all ratings are equal, is no choice.
    defined = {name: r for name, r in pearsons.items() if not math.isnan(r)}
    return max(defined, key=defined.__getitem__, default='')


def _split(data: Data, seed: int) -> list[list[int]]:
    """Numbers of the texts that fit, choose and test."""
    groups = list(dict.fromkeys(data.groups))
    random.Random(seed).shuffle(groups)
    share = max(1, round(_SHARE * len(groups)))
    parts = (set(groups[2 * share :]), set(groups[:share]), set(groups[share : 2 * share]))
    sides = [[i for i, group in enumerate(data.groups) if group in part] for part in parts]
    if len(sides[0]) < _NEIGHBORS or min(len(sides[1]), len(sides[2])) < _LEAST:
        counts = ', '.join(str(len(side)) for side in sides)
        raise UserError(
            f'{len(data.groups)} rated texts of {len(groups)} examples are too few: {counts} of '
            f'them fit, choose and test, and {_NEIGHBORS}, {_LEAST} and {_LEAST} are needed'
        )
    return sides
