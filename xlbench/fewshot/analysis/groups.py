"""Groups of adaptations that differ only in the bucket, and their scores.

Every number is over the buckets of a group, with the learning rate that is best on dev (see
sweeps.Sweep), and with the seed that has the most buckets.
"""

import collections
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.results import ZERO_SHOT, Group, Row


@dataclasses.dataclass(frozen=True, eq=False)
class Adaptations:
    """The finished adaptations of a group in one sweep, with the learning rate that was chosen.

    Attributes:
      shots: K; 0 without adaptation.
      rows: one for each bucket and seed.
      empty: numbers of the buckets without an example.
      learning_rate: None without adaptation.
    """

    sweep: Sweep
    task: str
    language: str
    shots: int
    method: str
    start: str
    rows: tuple[Row, ...]
    empty: tuple[int, ...] = ()
    learning_rate: float | None = None

    @functools.cached_property
    def by_bucket(self) -> tuple[Row, ...]:
        """Returns the rows of the seed that has most buckets."""
        return _most(self.rows, lambda row: row.seed, lambda row: row.bucket)

    @functools.cached_property
    def by_seed(self) -> tuple[Row, ...]:
        """Returns the rows of the bucket that has most seeds."""
        return _most(self.rows, lambda row: row.bucket, lambda row: row.seed)

    @functools.cached_property
    def scores(self) -> np.ndarray:
        """Returns [buckets], test scores, 0 to 100."""
        return np.array([row.score for row in self.by_bucket])

    @property
    def mean(self) -> float:
        """Returns the mean score over buckets."""
        return statistics.fmean(self.scores.tolist())

    @property
    def deviation(self) -> float | None:
        """Returns standard deviation of the sample (n - 1); None for a single bucket."""
        return statistics.stdev(self.scores.tolist()) if len(self.scores) > 1 else None

    @property
    def population(self) -> float:
        """Returns standard deviation of the population (n)."""
        return statistics.pstdev(self.scores.tolist())

    @property
    def seed(self) -> int | None:
        """Returns the seed of the adaptations in `by_bucket`."""
        return self.by_bucket[0].seed if self.rows else None

    @property
    def has_dev(self) -> bool:
        """Returns whether the learning rate was chosen on a dev set."""
        return all(row.dev_score is not None for row in self.by_bucket)

    @property
    def missing(self) -> int:
        """Returns the number of buckets that the sweep still has to adapt to."""
        if not self.shots:
            return 0
        group = Group(self.language, self.shots, self.method, self.start)
        asked = self.sweep.buckets(group)
        return len(asked - {row.bucket for row in self.by_bucket} - {*self.empty})

    @functools.cached_property
    def zero_shot(self) -> float:
        """Returns the test score of the source-trained model in the sweep; NaN without one."""
        group = self.task, Group(self.language, 0, ZERO_SHOT)
        scores = [row.score for row in self.sweep.rows if (row.task, row.group) == group]
        return scores[0] if scores and scores[0] is not None else math.nan


def adaptations(sweep: Sweep, task: str) -> dict[Group, Adaptations]:
    """Returns the groups of one sweep and task."""
    rows: dict[Group, list[Row]] = {}
    for row in sweep.rows:
        if row.task == task:
            rows.setdefault(row.group, []).append(row)
    made = {}
    for group, of_group in rows.items():
        rate = sweep.learning_rate(task, group) if group.shots else None
        done = (row for row in of_group if row.status == 'done' and row.learning_rate == rate)
        empty = sorted({row.bucket for row in of_group if row.status == 'empty'})
        made[group] = Adaptations(sweep, task, *group, tuple(done), tuple(empty), rate)
    return made


def _most(
    rows: Sequence[Row], same: Callable[[Row], int], order: Callable[[Row], int]
) -> tuple[Row, ...]:
    """Returns the most rows that are the `same`, in `order`; of equally many the first."""
    groups = collections.defaultdict(list)
    for row in sorted(rows, key=lambda row: (same(row), order(row))):
        groups[same(row)].append(row)
    return tuple(max(groups.values(), key=len, default=()))
