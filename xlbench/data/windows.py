"""Windows of a run: the examples of several tasks under one numbering, and their plans."""

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xlbench.data import packing
from xlbench.data.orders import Order, permutation
from xlbench.data.packing import Shape
from xlbench.data.prepared import SIDES, Prepared, Record

WINDOW_BATCHES = 64  # One half-filled batch among this many: below 1 % of padding.
_SMALLEST_WINDOW_BATCHES = 16
SAMPLE = 4096  # Examples that the shapes are chosen from.
_CHUNK = 2**20  # Lengths that are in memory at once.


class Examples:
    """The examples of several tasks under one numbering: task after task.

    Their lengths stay in the files and are read once here, in parts, so that memory does not grow
    with the data.
    """

    def __init__(self, prepared: Sequence[Prepared], limits: Shape):
        self.prepared = prepared
        # [tasks + 1], the number of each task's first example, and the total.
        self.offsets = np.cumsum([0, *(len(task) for task in prepared)])
        self._limits = np.array(limits, np.int32)
        largest, longer = np.zeros(2, np.int32), np.zeros(2, np.int64)
        self.checksum = 0  # CRC-32 of the trimmed lengths of all examples.
        for task in prepared:
            raw = task.lengths()
            for start in range(0, len(raw), _CHUNK):
                chunk = raw[start : start + _CHUNK]
                trimmed = np.minimum(chunk, self._limits)
                largest = np.maximum(largest, trimmed.max(0, initial=0))
                longer += (chunk > self._limits).sum(0)
                self.checksum = zlib.crc32(np.ascontiguousarray(trimmed).data, self.checksum)
        self.largest = Shape(*largest.tolist())  # Of the trimmed lengths, by side.
        # How many examples are longer than the limits, by side.
        self.trimmed = dict(zip(SIDES, longer.tolist(), strict=True))

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """Returns [n, 2] int32: the lengths of examples [n], trimmed to the limits."""
        lengths = np.empty((len(numbers), 2), np.int32)
        for task, where, places in self._by_task(numbers):
            lengths[where] = task.lengths()[places]
        return np.minimum(lengths, self._limits)

    def read(self, rows: Sequence[Sequence[int]]) -> list[list[Record]]:
        """Reads the examples of each row, one read for each task."""
        numbers = np.array([number for row in rows for number in row], np.int64)
        records: list[Record] = [{}] * len(numbers)
        for task, where, places in self._by_task(numbers):
            for at, record in zip(where.tolist(), task.read(places), strict=True):
                records[at] = record
        ordered = iter(records)
        return [[next(ordered) for _ in row] for row in rows]

    def names(self, numbers: np.ndarray) -> list[tuple[str, str, int]]:
        """Returns (task, split, number in it) of each example."""
        names = [('', '', 0)] * len(numbers)
        for task, where, places in self._by_task(numbers):
            for at, number in zip(where.tolist(), places.tolist(), strict=True):
                names[at] = task.name, task.split, number
        return names

    def _by_task(self, numbers: np.ndarray) -> Iterator[tuple[Prepared, np.ndarray, np.ndarray]]:
        """Yields each task that some examples are of, where these stand, and their places in it."""
        tasks = np.searchsorted(self.offsets, numbers, side='right') - 1
        for task in np.unique(tasks).tolist():
            where = np.flatnonzero(tasks == task)
            yield self.prepared[task], where, numbers[where] - self.offsets[task]

    def sample(self, rates: Sequence[float]) -> np.ndarray:
        """Returns [about SAMPLE, 2]: lengths of evenly spaced examples, by the rates of tasks."""
        counts = [max(1, round(rate * SAMPLE)) for rate in rates]
        return np.concatenate([self.sample_of(task, count) for task, count in enumerate(counts)])

    def sample_of(self, task: int, count: int) -> np.ndarray:
        """Returns [count, 2]: lengths of evenly spaced examples of the task with this number."""
        start, end = self.offsets[task : task + 2]
        return self.lengths(start + np.arange(count) * (end - start) // count)


@dataclasses.dataclass(frozen=True)
class Window:
    """One planned window."""

    examples: np.ndarray  # [window], example numbers in stream order.
    batches: list[packing.PlannedBatch]  # Their rows list places in `examples`.


# (lengths [window, 2], tasks [window] from 1, layout, permutation) -> the batches of a window.
Plan = Callable[
    [np.ndarray, np.ndarray, packing.Layout, Callable[..., np.ndarray]], list[packing.PlannedBatch]
]


def plan_window(
    order: Order, examples: Examples, layout: packing.Layout, seed: int, plan: Plan, number: int
) -> Window:
    """Returns a window of the order, planned."""
    numbers = order(number)
    tasks = np.searchsorted(examples.offsets, numbers, side='right')  # From 1.
    batches = plan(
        examples.lengths(numbers),
        tasks,
        layout,
        lambda count, *purpose: permutation(count, seed, number, *purpose),
    )
    return Window(numbers, batches)


def window_size(
    window: int | None, sample: np.ndarray, layout: packing.Layout, examples: int, groups: int
) -> int:
    """Returns the examples of a window: as given, or enough for WINDOW_BATCHES of each group.

    Groups do not share batches, so that each has a last one that may be half filled. Small data has
    a smaller window, down to a quarter of that: in one that holds many passes an example could come
    again long before others have come once.
    """
    if window is not None:
        return window
    rows = packing.to_rows(sample, layout)
    shapes = packing.smallest(packing.row_lengths(sample, rows), layout.shapes)
    batches = (1 / np.array(layout.rows))[shapes].sum()
    per_batch = len(sample) / batches
    size = min(
        groups * WINDOW_BATCHES * per_batch, max(examples, _SMALLEST_WINDOW_BATCHES * per_batch)
    )
    # Whole batches where rows are examples, so that there no row is empty.
    return max(1, round(size / layout.rows[-1])) * layout.rows[-1]


def task_window_sizes(window: int | None, examples: Examples, layout: packing.Layout) -> list[int]:
    """Returns how many examples of each task a window has, which fill about equally many rows.

    `window` is the number of all tasks together, if the config gives it; otherwise a window has
    WINDOW_BATCHES batches, or fewer for small data.
    """
    tasks = examples.prepared
    share = layout.rows[-1] // len(tasks)
    samples = [examples.sample_of(task, SAMPLE) for task in range(len(tasks))]
    a_row = SAMPLE / np.array([len(packing.to_rows(sample, layout)) for sample in samples])
    if window is not None:
        batches = window / (share * a_row.sum())
    else:
        longest = max(task.pass_size / (share * n) for task, n in zip(tasks, a_row, strict=True))
        batches = min(WINDOW_BATCHES, max(_SMALLEST_WINDOW_BATCHES, longest))
    rows = share * max(1, round(batches))
    # Rounded down, so that packing seldom needs a row more than there are.
    return [max(1, int(rows * n)) for n in a_row]
