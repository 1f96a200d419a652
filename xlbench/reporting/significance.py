"""A table of differences between systems: which are significant, once their number is corrected.

As table 7 of arXiv:2108.07140 has it: a row of differences, and under it a row of p-values.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xlbench.reporting import statistics
from xlbench.reporting.statistics import Resamples
from xlbench.reporting.tables import Cell, Column, Row, Table

TESTS = {
    't-test': 'two-sided paired t-test over examples',
    'bootstrap': 'paired bootstrap, one-sided as sacreBLEU computes it',
    'randomization': 'approximate randomization, two-sided',
}


class Difference(NamedTuple):
    """The difference of two systems in a score.

    Attributes:
        value: One system's score minus the other's.
        p_value: NaN where the systems are equal in every example.
        half: Half of the 95 % interval of the difference; None where there is none.
        drawn: How many resamples decided the p-value; 0 for a t-test.
        is_tail: The p-value is that of the tail of a normal distribution.
    """

    value: float
    p_value: float
    half: float | None = None
    drawn: int = 0
    is_tail: bool = False


def t_test(x: Mapping[str, float], y: Mapping[str, float]) -> Difference | None:
    """The difference of two means over the examples that both have; None for fewer than two.

    Args:
        x: Example -> number, of the first system.
        y: Those of the system that is subtracted.
    """
    shared = [key for key in x if key in y]
    if len(shared) < 2:
        return None
    of_x, of_y = ([values[key] for key in shared] for values in (x, y))
    difference = math.fsum(of_x) / len(shared) - math.fsum(of_y) / len(shared)
    if of_x == of_y:
        return Difference(0.0, math.nan)
    test = statistics.paired_t_test(of_x, of_y)
    low, high = test.interval
    return Difference(difference, test.p_value, (high - low) / 2)


def resampled(value: float, drawn: Resamples, test: str) -> Difference:
    """The difference of two systems whose scores were resampled.

    Args:
        value: Of the examples as they are.
        drawn: Their resamples.
        test: 'bootstrap' or 'randomization'.
    """
    if not value and not (drawn.system - drawn.baseline).any():
        return Difference(0.0, math.nan)
    p_value, is_tail = statistics.p_value(value, drawn, test)
    _, half = statistics.interval(drawn.system_spread - drawn.baseline_spread)
    return Difference(value, p_value, half, len(drawn.system), is_tail)


def table(
    title: str,
    columns: Sequence[Column],
    differences: Mapping[str, Sequence[Difference | str | None]],
    test: str,
    decimals: int,
    notes: Sequence[str] = (),
) -> Table:
    """The table, with the p-values corrected for all comparisons in it.

    Args:
        title: What the differences are of.
        columns: Their heads.
        differences: 'A minus B' -> for each column the difference, or why it was not tested; None
            says that the two have fewer than two examples in common.
        test: One of `TESTS`.
        decimals: Of the differences.
        notes: What has to be said besides.
    """
    places = {
        (name, i): cell
        for name, row in differences.items()
        for i, cell in enumerate(row)
        if isinstance(cell, Difference)
    }
    cells = (cell for row in differences.values() for cell in row)
    reasons = [cell or _NOTHING_SHARED for cell in cells if not isinstance(cell, Difference)]
    reasons = list(dict.fromkeys(reasons))
    if not places:
        return Table(title, missing='; '.join(reasons) or 'fewer than two systems have this score')
    corrected = dict(
        zip(places, statistics.holm([d.p_value for d in places.values()]), strict=True)
    )
    count = sum(not math.isnan(p) for p in corrected.values())
    significant = sum(p < statistics.LEVEL for p in corrected.values())
    rows = []
    for name, row in differences.items():
        cells, below = [], []
        for i, cell in enumerate(row):
            cell = places.get((name, i))
            p = corrected.get((name, i), math.nan)
            mark = '*' if p < statistics.LEVEL else ''
            cells.append(Cell(cell.value, cell.half, decimals, '+', mark) if cell else Cell())
            below.append(Cell(text=p_text(p, cell)))
        rows += [Row(name, 'difference', tuple(cells)), Row('p-value', 'p', tuple(below))]
    said = (
        f'{significant} of {count} differences are significant at {statistics.LEVEL} (*): '
        f'{TESTS[test]}{_drawn(list(places.values()))}; the p-values are corrected for {count} '
        'comparisons (Holm). ± is half of the 95 % interval of a difference.',
        *(f'-: not tested, because {reason}.' for reason in reasons),
    )
    return Table(title, tuple(columns), tuple(rows), 'difference', (*said, *notes))


_NOTHING_SHARED = 'the two have fewer than two examples in common'


def _drawn(tested: Sequence[Difference]) -> str:
    """How many resamples were drawn, and how many p-values are a tail."""
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


def p_text(p: float | None, difference: Difference | None) -> str:
    """A p-value as a table has it. Examples: 0.0002 -> <0.001, no difference at all -> identical"""
    if difference is None or p is None:
        return '-'
    if math.isnan(p):
        return 'identical'
    return '<0.001' if p < 0.001 else f'{p:.3f}'
