"""Agreement of judges: Fleiss' and Randolph's kappa, Krippendorff's alpha; best-worst scaling.

A number that the answers do not define, such as the agreement of judges who all gave one and the
same rating, is NaN.
"""

import collections
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import krippendorff
import numpy as np


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float:
    """Agreement beyond chance on categories (Fleiss 1971), at most 1; 0 is chance.

    Args:
        counts: [unit, category], how many judges chose it; equally many judged every unit.
    """
    table = np.asarray(counts, float)
    return _beyond(_observed(table), np.square(table.sum(axis=0) / table.sum()).sum())


def randolph_kappa(counts: Sequence[Sequence[int]], categories: int = 0) -> float:
    """Agreement beyond chance where each category is as likely (Randolph 2005, eq. 6), at most 1.

    Args:
        counts: [unit, category], as for `fleiss_kappa`.
        categories: that a judge can choose from; 0 takes those of the table.
    """
    table = np.asarray(counts, float)
    return _beyond(_observed(table), 1 / (categories or table.shape[1]))


def _observed(table: np.ndarray) -> float:
    """The share of pairs of judges that agree, the mean over units."""
    judges = table.sum(axis=1)
    if not table.size or judges[0] < 2 or (judges != judges[0]).any():
        raise ValueError('every unit needs the same number of judges, two or more')
    judges = judges[0]
    return np.mean((np.square(table).sum(axis=1) - judges) / (judges * (judges - 1)))


def _beyond(observed: float, expected: float) -> float:
    return math.nan if expected == 1 else float((observed - expected) / (1 - expected))


def krippendorff_alpha(ratings: Sequence[Sequence[float | None]], level: str) -> float:
    """Agreement beyond chance for any number of judges, with gaps (Krippendorff 2011).

    Args:
        ratings: [judge, unit]; None where a judge did not rate.
        level: 'nominal' for categories, 'ordinal' for ratings on a scale, 'interval' or 'ratio'.
    """
    table = np.array(ratings, float)  # None becomes NaN, which is a gap.
    pairable = table[:, np.isfinite(table).sum(axis=0) > 1]
    if len(np.unique(pairable[np.isfinite(pairable)])) < 2:
        return math.nan
    return float(krippendorff.alpha(reliability_data=table, level_of_measurement=level))


class BestWorst(NamedTuple):
    """Counts of choices as best and as worst."""

    best: int
    worst: int
    shown: int

    @property
    def score(self) -> float:
        """-1 (always the worst) to 1 (always the best)."""
        return (self.best - self.worst) / self.shown


def best_worst(choices: Iterable[tuple[Iterable[str], str, str]]) -> dict[str, BestWorst]:
    """Counts choices (Kiritchenko and Mohammad 2017), as table 6 of arXiv:2202.05599 scores them.

    Args:
        choices: (what was shown, the best of it, the worst).

    Example: [('AB', 'A', 'B'), ('AB', 'A', 'B')] -> A: 2, 0, 2, score 1; B: 0, 2, 2, score -1
    """
    best, worst, shown = (collections.Counter[str]() for _ in range(3))
    for names, first, last in choices:
        shown.update(names)
        best[first] += 1
        worst[last] += 1
    return {name: BestWorst(best[name], worst[name], count) for name, count in shown.items()}
