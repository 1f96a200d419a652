"""A table of differences between systems: which are significant, once their number is corrected.

As table 7 of arXiv:2108.07140 has it: a row of differences, and under it a row of p-values.
"""

import math
from collections.abc import Mapping, Sequence

from xlbench.reporting import statistics
from xlbench.reporting.tables import Cell, Column, Row, Table

Difference = tuple[float, float]  # Of two systems, and its p-value; NaN where it has none.
TESTS = {
    't-test': 'two-sided paired t-test over examples',
    'bootstrap': 'paired bootstrap resampling, 1,000 resamples',
    'randomization': 'approximate randomization, 10,000 trials',
}


def of_means(x: Mapping[str, float], y: Mapping[str, float], test: str) -> Difference | None:
    """The difference of two means over the examples that both have; None for fewer than two.

    Args:
        x: Example -> number, of the first system.
        y: Those of the system that is taken away.
        test: One of `TESTS`.
    """
    shared = [key for key in x if key in y]
    if len(shared) < 2:
        return None
    of_x, of_y = ([values[key] for key in shared] for values in (x, y))
    difference = math.fsum(of_x) / len(shared) - math.fsum(of_y) / len(shared)
    if of_x == of_y:
        return 0.0, math.nan
    if test == 't-test':
        return difference, statistics.paired_t_test(of_x, of_y).p_value
    return difference, statistics.resampled_p_value(of_y, of_x, test)


def table(
    title: str,
    columns: Sequence[Column],
    differences: Mapping[str, Sequence[Difference | None]],
    test: str,
    decimals: int,
    notes: Sequence[str] = (),
) -> Table:
    """The table, with the p-values corrected for all comparisons in it.

    Args:
        title: What the differences are of.
        columns: Their heads.
        differences: 'A minus B' -> one for each column, or None.
        test: One of `TESTS`.
        decimals: Of the differences.
        notes: What has to be said besides.
    """
    places = [(name, i) for name, row in differences.items() for i, cell in enumerate(row) if cell]
    if not places:
        return Table(title, missing='no two systems have scores of the same examples')
    p_values = [differences[name][i][1] for name, i in places]
    corrected = dict(zip(places, statistics.holm(p_values), strict=True))
    count = sum(not math.isnan(p) for p in p_values)
    significant = sum(p < statistics.LEVEL for p in corrected.values())
    rows = []
    for name, row in differences.items():
        cells, below = [], []
        for i, cell in enumerate(row):
            p = corrected.get((name, i), math.nan)
            mark = '*' if p < statistics.LEVEL else ''
            cells.append(Cell(cell[0], None, decimals, '+', mark) if cell else Cell())
            below.append(Cell(text=p_text(p, cell)))
        rows += [Row(name, 'difference', tuple(cells)), Row('p-value', 'p', tuple(below))]
    said = (
        f'{significant} of {count} differences are significant at {statistics.LEVEL} (*): '
        f'{TESTS[test]}; the p-values are corrected for {count} comparisons (Holm).'
    )
    return Table(title, tuple(columns), tuple(rows), 'difference', (said, *notes))


def p_text(p: float | None, difference: Difference | None) -> str:
    """A p-value as a table has it. Examples: 0.0002 -> <0.001, no difference at all -> identical"""
    if difference is None or p is None:
        return '-'
    if math.isnan(p):
        return 'identical'
    return '<0.001' if p < 0.001 else f'{p:.3f}'
