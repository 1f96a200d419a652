"""Tests of the difference between two systems on the same examples, intervals and correlations.

A table of differences has a row of them, and under it a row of p-values that are corrected for
their number, as table 7 of arXiv:2108.07140 has it.

A score that is a mean over examples is tested with the scores of the examples; any other is
computed again for every resample. Resamples and p-values are those of sacreBLEU
(`sacrebleu.significance`), and the rest is scipy's. A number that the data does not define, such as
the correlation with a constant, is NaN.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy  # scipy.stats takes a second to import, and SciPy does so when it is first used.
from sacrebleu.significance import estimate_ci

from xlbench.reporting.tables import Cell, Column, Row, Table

TESTS = {
    't-test': 'two-sided paired t-test over examples',
    'bootstrap': 'paired bootstrap, one-sided as sacreBLEU computes it',
    'randomization': 'approximate randomization, two-sided',
}
LEVEL = 0.05  # A difference with a smaller p-value is called significant.
_SEED = 12345  # sacreBLEU's own.
_FEWEST = 10  # Fewer resamples beyond the difference leave its p-value to the tail.
_BLOCK = 2_000_000  # Numbers that are gathered at once.

# Scores resamples: [resamples, examples] whose text each example has (0: the baseline's, 1: the
# system's) and which example it is -> [resamples].
Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Resamples(NamedTuple):
    """Scores of two systems in resamples, [resamples] each, under the hypothesis of a test.

    Those called `spread` are of examples that were drawn with replacement, for intervals.
    """

    baseline: np.ndarray
    system: np.ndarray
    baseline_spread: np.ndarray
    system_spread: np.ndarray


def resamples(scorer: Scorer, count: int, test: str, samples: int, spread: int) -> Resamples:
    """Scores resamples of the `count` examples of two systems.

    The test is 'bootstrap' (Koehn 2004) or 'randomization' (approximate; Riezler and Maxwell 2005).
    After the samples of a randomization, `spread` others are drawn for intervals.
    """
    rng = np.random.default_rng(_SEED)
    if test == 'randomization':
        # The other texts are the system's where these are the baseline's.
        flips = rng.integers(2, size=(samples, count), dtype=bool)
        index = np.broadcast_to(np.arange(count), flips.shape)
        shuffled = [_in_blocks(scorer, which, index) for which in (~flips, flips)]
        samples = spread
    index = rng.choice(count, size=(samples, count), replace=True)
    drawn = [_in_blocks(scorer, np.full((samples, 1), side), index) for side in (0, 1)]
    return Resamples(*(shuffled if test == 'randomization' else drawn), *drawn)


def _in_blocks(scorer: Scorer, which: np.ndarray, index: np.ndarray) -> np.ndarray:
    parts = -(-index.size // _BLOCK)
    pairs = zip(*(np.array_split(array, parts) for array in (which, index)), strict=True)
    return np.concatenate([scorer(*pair) for pair in pairs])


def of_means(baseline: Sequence[float], system: Sequence[float]) -> Scorer:
    """Scores resamples by the mean of a number of each example."""
    values = np.array([baseline, system], float)

    def score(which: np.ndarray, index: np.ndarray) -> np.ndarray:
        if which.shape == index.shape:  # Every example once: only the texts are exchanged.
            return (values[0].sum() + which @ (values[1] - values[0])) / len(values[0])
        return values[int(which[0, 0])][index].mean(axis=1)

    return score


def p_value(difference: float, drawn: Resamples, test: str) -> tuple[float, bool]:
    """The p-value of a difference, and whether it is that of a normal distribution's tail.

    It is the share of resamples beyond the difference, as sacreBLEU counts them, as long as ten or
    more are; without any it could not be smaller than one in all resamples. Where fewer are, it is
    the tail of a normal distribution that is as wide as the resamples.

    The difference is the system's score minus the baseline's.
    """
    sizes, real = np.abs(drawn.system - drawn.baseline), abs(difference)
    if test == 'bootstrap':
        sizes -= sizes.mean()
    # A size that only rounding makes larger than the difference is not.
    larger = int(np.sum(sizes > real + 1e-12 * max(real, 1.0)))
    if larger >= _FEWEST:
        return (larger + 1) / (len(sizes) + 1), False
    width = math.sqrt(np.mean(sizes**2))
    # The sizes of a bootstrap lie around the difference, so that one side counts. Equal ones have
    # no width, and then no resample is beyond any difference.
    sides = 1 if test == 'bootstrap' else 2
    return float(sides * scipy.stats.norm.sf(real / width)) if width else 0.0, True


def interval(drawn: np.ndarray) -> tuple[float, float]:
    """The mean of resamples, and half of the 95 % interval, as sacreBLEU estimates them."""
    mean, half = estimate_ci(drawn)
    return float(mean), float(half)


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


def half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean, by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None
    # As scipy.stats has it, which takes a second to import.
    quantile = scipy.special.stdtrit(len(values) - 1, 0.975)
    return float(quantile * np.std(values, ddof=1) / math.sqrt(len(values)))


class Correlation(NamedTuple):
    """Correlates two lists of numbers: -1 to 1; NaN if one of them is constant.

    Beside each coefficient (Kendall's is tau-b) stands its two-sided p-value.
    """

    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float
    kendall: float
    kendall_p: float


def correlation(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Correlation:
    """The three coefficients of two lists of numbers, with their p-values."""
    if len(set(x)) < 2 or len(set(y)) < 2:
        return Correlation(*[math.nan] * 6)
    tests = (scipy.stats.pearsonr, scipy.stats.spearmanr, scipy.stats.kendalltau)
    found = (test(x, y) for test in tests)
    return Correlation(*(float(value) for one in found for value in (one.statistic, one.pvalue)))


def coefficient(value: float, best: float | None = None) -> Cell:
    """A correlation or an agreement as a cell; NaN is 'undefined', and one like `best` is bold."""
    return Cell(text='undefined') if math.isnan(value) else Cell(value, None, 3, best=value == best)


class Difference(NamedTuple):
    """The difference of two systems in a score.

    Attributes:
      value: one system's score minus the other's.
      p_value: NaN where the systems are equal in every example.
      half: half of the 95 % interval of the difference; None where there is none.
      drawn: how many resamples decided the p-value; 0 for a t-test.
      is_tail: the p-value is that of the tail of a normal distribution.
    """

    value: float
    p_value: float
    half: float | None = None
    drawn: int = 0
    is_tail: bool = False


def t_test(x: Mapping[str, float], y: Mapping[str, float]) -> Difference | None:
    """The difference of two means over the examples that both have; None for fewer than two.

    The test is the two-sided one of paired numbers, as table 7 of arXiv:2108.07140 has it. x and y
    are the numbers by example, and y is subtracted.
    """
    shared = [key for key in x if key in y]
    if len(shared) < 2:
        return None
    of_x, of_y = ([values[key] for key in shared] for values in (x, y))
    difference = math.fsum(of_x) / len(shared) - math.fsum(of_y) / len(shared)
    if of_x == of_y:
        return Difference(0.0, math.nan)
    with warnings.catch_warnings(), np.errstate(all='ignore'):
        warnings.simplefilter('ignore', RuntimeWarning)  # Equal differences: an infinite t.
        test = scipy.stats.ttest_rel(of_x, of_y)
        low, high = test.confidence_interval()
    half = 0.0 if math.isnan(low) else float(high - low) / 2
    return Difference(difference, float(test.pvalue), half)


def resampled(value: float, drawn: Resamples, test: str) -> Difference:
    """The difference of two systems, whose value is known, from their resamples."""
    if not value and not (drawn.system - drawn.baseline).any():
        return Difference(0.0, math.nan)
    p, is_tail = p_value(value, drawn, test)
    _, half = interval(drawn.system_spread - drawn.baseline_spread)
    return Difference(value, p, half, len(drawn.system), is_tail)


def table(
    title: str,
    columns: Sequence[Column],
    differences: Mapping[str, Sequence[Difference | str | None]],
    test: str,
    decimals: int,
) -> Table:
    """The table, with the p-values corrected for all comparisons in it.

    Each row, such as 'A minus B', has for each column the difference, or why it was not tested;
    None says that the two have fewer than two examples in common.
    """
    cells = [cell for row in differences.values() for cell in row]
    tested = [cell for cell in cells if isinstance(cell, Difference)]
    nothing = 'the two have fewer than two examples in common'
    untested = (cell or nothing for cell in cells if not isinstance(cell, Difference))
    reasons = list(dict.fromkeys(untested))
    if not tested:
        return Table(title, missing='; '.join(reasons) or 'fewer than two systems have this score')
    corrected = holm([one.p_value for one in tested])
    count = sum(not math.isnan(p) for p in corrected)
    significant = sum(p < LEVEL for p in corrected)
    following, rows = iter(corrected), []
    for name, row in differences.items():
        pairs = [
            (cell, next(following)) if isinstance(cell, Difference) else (None, math.nan)
            for cell in row
        ]
        numbers = (
            Cell(cell.value, cell.half, decimals, '+', '*' * (p < LEVEL)) if cell else Cell()
            for cell, p in pairs
        )
        below = (Cell(text=p_text(p, cell)) for cell, p in pairs)
        rows += [Row(name, 'difference', tuple(numbers)), Row('p-value', 'p', tuple(below))]
    said = (
        f'{significant} of {count} differences are significant at {LEVEL} (*): '
        f'{TESTS[test]}{_drawn(tested)}; the p-values are corrected for {count} '
        'comparisons (Holm). ± is half of the 95 % interval of a difference.',
        *(f'-: not tested, because {reason}.' for reason in reasons),
    )
    return Table(title, tuple(columns), tuple(rows), 'difference', said)


def _drawn(tested: Sequence[Difference]) -> str:
    """The number of resamples, and that of the p-values in a tail."""
    counts = sorted({one.drawn for one in tested} - {0})
    if not counts:
        return ''
    span = ' to '.join(f'{count:,}' for count in dict.fromkeys((counts[0], counts[-1])))
    tails = sum(one.is_tail for one in tested)
    said = f', {span} resamples each'
    if tails:
        said += (
            f'; {tails} p-value{"s" if tails > 1 else ""} beyond them '
            f'{"are" if tails > 1 else "is"} the tail of a normal distribution as wide as they are'
        )
    return said


def p_text(p: float, difference: Difference | None) -> str:
    """A p-value as a table has it. Examples: 0.0002 -> <0.001, no difference at all -> identical"""
    if difference is None:
        return '-'
    if math.isnan(p):
        return 'identical'
    return '<0.001' if p < 0.001 else f'{p:.3f}'
