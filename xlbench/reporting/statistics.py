"""Tests of the difference between two systems on the same examples, intervals and correlations.

A score that is a mean over examples is tested with the scores of the examples; a corpus score, such
as BLEU, with counts that are summed again for every resample. Resampling is sacreBLEU's
(`sacrebleu.significance`), and the rest scipy's. A number that the data does not define, such as
the correlation with a constant, is NaN.
"""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from xlbench.errors import UserError

LEVEL = 0.05  # A difference with a smaller p-value is called significant.
SAMPLES = {'bootstrap': 1000, 'randomization': 10_000}  # sacreBLEU's own.
_SACREBLEU = {'bootstrap': 'bs', 'randomization': 'ar'}
_SEED = 'SACREBLEU_SEED'  # What sacreBLEU takes the seed from; 12345 without it.


class TTest(NamedTuple):
    """A t-test of paired numbers.

    Attributes:
        statistic: t; infinite where all differences are equal, NaN where they are 0.
        p_value: Its probability if there were no difference.
        df: Degrees of freedom.
        interval: 95 % interval of the mean difference, for a two-sided test.
    """

    statistic: float
    p_value: float
    df: int
    interval: tuple[float, float]


def paired_t_test(x: Sequence[float], y: Sequence[float], alternative: str = 'two-sided') -> TTest:
    """Student's t-test of the differences of paired numbers, as table 7 of arXiv:2108.07140 has it.

    Args:
        x: A number for each example.
        y: Those of the other system, in the same order; two or more.
        alternative: 'two-sided'; 'greater' or 'less' for x against y.
    """
    with warnings.catch_warnings(), np.errstate(all='ignore'):
        warnings.simplefilter('ignore', RuntimeWarning)  # Equal differences: NaN says it.
        result = scipy.stats.ttest_rel(x, y, alternative=alternative)
        low, high = result.confidence_interval()
    if math.isnan(low):  # All differences are equal, and so is their mean.
        low = high = float(np.mean(np.subtract(x, y)))
    interval = (float(low), float(high))
    return TTest(float(result.statistic), float(result.pvalue), int(result.df), interval)


class Resampled(NamedTuple):
    """What resampling says of one system.

    Attributes:
        score: Of the examples as they are.
        p_value: Against the baseline; None for the baseline.
        mean: Over the resamples; None where none were drawn.
        half_width: Of the 95 % interval around the mean.
    """

    score: float
    p_value: float | None
    mean: float | None
    half_width: float | None


def paired_resampling(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[Sequence[str | None]],
    metrics: Mapping[str, Metric],
    test: str,
    samples: int = 0,
) -> dict[str, tuple[Resampled, Resampled]]:
    """Resamples the scores of a corpus: the baseline's and the system's, by name of the metric.

    Args:
        baseline: Texts.
        system: Texts of the other system, of the same examples.
        references: A list for the first reference of all examples, one for the second, ...
        metrics: sacreBLEU's, by name.
        test: 'bootstrap' (Koehn 2004) or 'randomization' (approximate; Riezler and Maxwell 2005).
        samples: How many; 0 is the usual number, 1,000 or 10,000.

    Raises:
        UserError: The environment has a seed that makes no test repeatable.
    """
    _seed()  # Which sacreBLEU reads itself.
    scores = {}
    for name, metric in metrics.items():
        _, results = PairedTest(
            [('baseline', baseline), ('system', system)],
            {name: metric},
            references,
            _SACREBLEU[test],
            samples or SAMPLES[test],
        )()
        (of_each,) = (value for key, value in results.items() if key != 'System')
        scores[name] = tuple(Resampled(r.score, r.p_value, r.mean, r.ci) for r in of_each)
    return scores


def resampled_p_value(x: Sequence[float], y: Sequence[float], test: str) -> float:
    """The p-value of the difference of two means, by the same draws as `paired_resampling`.

    Args:
        x: A number for each example, of the baseline.
        y: Those of the other system.
        test: 'bootstrap' or 'randomization'.
    """
    differences = np.subtract(y, x)
    count, samples = len(differences), SAMPLES[test]
    rng = np.random.default_rng(_seed())
    real = abs(differences.mean())
    if test == 'bootstrap':
        indices = rng.choice(count, size=(samples, count), replace=True)
        sizes = np.abs(differences[indices].mean(axis=1))
        sizes -= sizes.mean()
    else:
        swaps = rng.integers(2, size=(samples, count), dtype=bool)
        # In blocks, as the product needs the bits as numbers.
        swapped = np.concatenate([block @ differences for block in np.array_split(swaps, 20)])
        sizes = np.abs(differences.sum() - 2 * swapped) / count
    # What rounding alone makes larger is not.
    larger = np.sum(sizes > real + 1e-12 * np.abs(differences).max())
    return float(larger + 1) / (samples + 1)


def _seed() -> int:
    seed = os.environ.get(_SEED, '12345')
    if not (seed.isascii() and seed.isdigit() and int(seed)):
        raise UserError(f'{_SEED}={seed} does not fix the resamples; set a whole number above 0')
    return int(seed)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979); NaN stays, and is not counted.

    Example: [0.01, 0.04, 0.03] -> [0.03, 0.06, 0.06]
    """
    defined = [i for i, p in enumerate(p_values) if not math.isnan(p)]
    corrected, largest = list(p_values), 0.0
    for rank, i in enumerate(sorted(defined, key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(defined) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def half_width(values: Sequence[float], confidence: float = 0.95) -> float | None:
    """Half of the interval of a mean, by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None
    quantile = scipy.stats.t.ppf(0.5 + confidence / 2, len(values) - 1)
    return float(quantile * scipy.stats.sem(values))


class Correlation(NamedTuple):
    """How alike two lists of numbers go up and down, -1 to 1; NaN if one of them is constant."""

    pearson: float
    spearman: float
    kendall: float  # tau-b


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """The three coefficients of two lists of numbers."""
    if len(set(x)) < 2 or len(set(y)) < 2:
        return Correlation(math.nan, math.nan, math.nan)
    tests = (scipy.stats.pearsonr, scipy.stats.spearmanr, scipy.stats.kendalltau)
    return Correlation(*(float(test(x, y).statistic) for test in tests))
