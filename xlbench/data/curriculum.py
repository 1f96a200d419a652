"""Epochs whose parts come one after another, such as pseudo-data before real data.

arXiv:2202.05599, section 6.1: "the training data is converted from pseudo data to real data in each
epoch". An epoch has each example once: all of the first part, shuffled, then all of the second, and
so on. Windows end where a part ends, so that no batch has examples of two parts or two epochs;
those of a part's last window may have empty rows. The position in a run stays two numbers, see
`batches`.
"""

import bisect
import itertools
from collections.abc import Sequence

import numpy as np

from xlbench.data import mixing
from xlbench.data.prepared import Prepared
from xlbench.system.errors import UserError


class Curriculum:
    """The windows of an endless run of epochs; a `mixing.Windows`.

    The tasks of one part are spread evenly over it, each shuffled anew in every epoch.

    Args:
      prepared: the tasks; numbers run from the first task's first example to the last's last.
      parts: the places in `prepared` of the tasks of each part, in order; each task is in one.
      size: examples of a window, at most.
      rows: of a batch: windows hold a multiple of it, but for the last one of a part.
      seed: of the order.
    """

    def __init__(
        self,
        prepared: Sequence[Prepared],
        parts: Sequence[Sequence[int]],
        *,
        size: int,
        rows: int,
        seed: int,
    ):
        self._parts = parts
        self._sizes = [task.pass_size for task in prepared]
        self._offsets = np.cumsum([0, *map(len, prepared)])
        self._streams = [mixing.Stream([task], [1.0], seed) for task in prepared]
        totals = [sum(self._sizes[task] for task in part) for part in parts]
        self._starts = [0, *itertools.accumulate(totals)]  # Of the parts, and the epoch's end.
        cuts = [_cuts(total, size, rows) for total in totals]
        self._windows = [
            (part, *cut) for part, bounds in enumerate(cuts) for cut in itertools.pairwise(bounds)
        ]
        self._cache: tuple[tuple[int, int], np.ndarray] | None = None

    def __call__(self, number: int) -> np.ndarray:
        """[window]: the example numbers of a window."""
        epoch, place = divmod(number, len(self._windows))
        part, start, stop = self._windows[place]
        if self._cache is None or self._cache[0] != (epoch, part):
            self._cache = (epoch, part), self._order(epoch, part)
        return self._cache[1][start:stop]

    def _order(self, epoch: int, part: int) -> np.ndarray:
        """[part]: the example numbers of a part in one epoch."""
        numbers, times = [], []
        for task in self._parts[part]:
            size, stream = self._sizes[task], self._streams[task]
            numbers.append(self._offsets[task] + stream(epoch * size, (epoch + 1) * size))
            times.append((np.arange(size) + 0.5) / size)
        return np.concatenate(numbers)[np.argsort(np.concatenate(times), kind='stable')]

    def before(self, number: int) -> int:
        """Examples of all windows before this one."""
        epoch, place = divmod(number, len(self._windows))
        part, start, _ = self._windows[place]
        return epoch * self._starts[-1] + self._starts[part] + start

    def passes(self, examples: float) -> list[float]:
        """[tasks]: passes over each task when so many examples have come."""
        epoch, rest = divmod(examples, self._starts[-1])
        passes = [0.0] * len(self._sizes)
        for tasks, (start, stop) in zip(self._parts, itertools.pairwise(self._starts), strict=True):
            done = min(1.0, max(0.0, (rest - start) / (stop - start)))
            for task in tasks:
                passes[task] = epoch + done
        return passes

    def typical(self) -> list[tuple[int, int]]:
        """The first window of each part, and the examples of the part."""
        firsts = [bisect.bisect_left(self._windows, (part,)) for part in range(len(self._parts))]
        sizes = [stop - start for start, stop in itertools.pairwise(self._starts)]
        return list(zip(firsts, sizes, strict=True))


def _cuts(total: int, size: int, rows: int) -> list[int]:
    """Where the windows of a part begin, and its end: as few as there may be, of about one size."""
    count = -(-total // size)
    each = -(-total // (count * rows)) * rows
    return [*range(0, total, each), total]


def places(prepared: Sequence[Prepared], parts: Sequence[Sequence[str]]) -> list[list[int]]:
    """The places in `prepared` of the tasks that parts name.

    Raises:
      UserError: a part names none, or one that is not there or in another part, too; or one is
        missing.
    """
    if not all(parts):
        raise UserError('the curriculum has a part without a task')
    at = {task.name: place for place, task in enumerate(prepared)}
    named = [name for part in parts for name in part]
    if extra := [name for name in named if name not in at]:
        raise UserError(
            f'the curriculum has {extra[0]}, which is not in the mixture; it has {", ".join(at)}'
        )
    if twice := [name for name in at if named.count(name) > 1]:
        raise UserError(f'the curriculum has {twice[0]} in two parts; an epoch has each task once')
    if missing := [name for name in at if name not in named]:
        raise UserError(
            f'the curriculum lacks {missing[0]} of the mixture; name it, or a mixture without it'
        )
    return [[at[name] for name in part] for part in parts]
