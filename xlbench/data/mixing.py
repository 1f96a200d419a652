"""The order of the examples in a training run: the stream, and the plans of its windows.

Everything here works on example numbers and lengths; nothing is read.

Grain can mix and shuffle numbers, too. It takes about 15 microseconds of Python for each (measured
with 1 to 48 tasks), in every process for the examples of all processes, and meanwhile holds the
interpreter's lock, which the training loop needs to dispatch. In whole windows with numpy it is
well below one.
"""

import concurrent.futures
import dataclasses
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from xlbench.data import packing, permutations
from xlbench.data.packing import Shape
from xlbench.data.permutations import Permutation
from xlbench.data.prepared import Prepared, Record
from xlbench.system.errors import UserError

WINDOW_BATCHES = 64  # One half-filled batch among this many: below 1 % of padding.
_SMALLEST_WINDOW_BATCHES = 16
SAMPLE = 4096  # Examples that the shapes are chosen from.
SIDES = ('inputs', 'targets')
_CHUNK = 2**20  # Lengths that are in memory at once.


class Examples:
    """The examples of several tasks under one numbering: task after task.

    Their lengths stay in the files. They are read through once here, in parts, so that memory does
    not grow with the data.

    Attributes:
      offsets: [tasks + 1], the number of each task's first example, and the total.
      largest: of the trimmed lengths.
      trimmed: how many examples are longer than the limits, by side.
      checksum: of the trimmed lengths of all examples.
    """

    def __init__(self, prepared: Sequence[Prepared], limits: Shape):
        self.prepared = prepared
        self.offsets = np.cumsum([0, *(len(task) for task in prepared)])
        self._limits = np.array(limits, np.int32)
        largest, longer, self.checksum = np.zeros(2, np.int32), np.zeros(2, np.int64), 0
        for task in prepared:
            raw = task.lengths()
            for start in range(0, len(raw), _CHUNK):
                chunk = raw[start : start + _CHUNK]
                trimmed = np.minimum(chunk, self._limits)
                largest = np.maximum(largest, trimmed.max(0, initial=0))
                longer += (chunk > self._limits).sum(0)
                self.checksum = zlib.crc32(np.ascontiguousarray(trimmed), self.checksum)
        self.largest = Shape(*largest.tolist())
        self.trimmed = dict(zip(SIDES, longer.tolist(), strict=True))

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """[n, 2] int32: tokens of inputs and targets of examples [n], trimmed to the limits."""
        tasks = self._tasks_of(numbers)
        lengths = np.empty((len(numbers), 2), np.int32)
        for task in np.unique(tasks).tolist():
            where = np.flatnonzero(tasks == task)
            lengths[where] = self.prepared[task].lengths()[numbers[where] - self.offsets[task]]
        return np.minimum(lengths, self._limits)

    def read(self, rows: Sequence[Sequence[int]]) -> list[list[Record]]:
        """The examples of each row, one read for each task."""
        numbers = np.array([number for row in rows for number in row], np.int64)
        tasks = self._tasks_of(numbers)
        records: list[Record] = [{}] * len(numbers)
        for task in np.unique(tasks).tolist():
            where = np.flatnonzero(tasks == task)
            records_of_task = self.prepared[task].read(numbers[where] - self.offsets[task])
            for at, record in zip(where.tolist(), records_of_task, strict=True):
                records[at] = record
        ordered = iter(records)
        return [[next(ordered) for _ in row] for row in rows]

    def names(self, numbers: np.ndarray) -> list[tuple[str, str, int]]:
        """(task, split, number in it) of each example."""
        tasks = self._tasks_of(numbers)
        places = (numbers - self.offsets[tasks]).tolist()
        prepared = [self.prepared[task] for task in tasks.tolist()]
        return [(task.name, task.split, n) for task, n in zip(prepared, places, strict=True)]

    def _tasks_of(self, numbers: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, numbers, side='right') - 1

    def sample(self, rates: Sequence[float]) -> np.ndarray:
        """[about SAMPLE, 2]: lengths of evenly spaced examples, as many of a task as its rate."""
        counts = [max(1, round(rate * SAMPLE)) for rate in rates]
        return np.concatenate([self.sample_of(task, count) for task, count in enumerate(counts)])

    def sample_of(self, task: int, count: int) -> np.ndarray:
        """[count, 2]: lengths of evenly spaced examples of the task with this number."""
        start, end = self.offsets[task : task + 2]
        return self.lengths(start + np.arange(count) * (end - start) // count)


class Stream:
    """The endless stream of example numbers: tasks mixed at their rates, shuffled in each pass.

    Example j of task t has the time (j + phase) / rate; the stream is all examples sorted by time.
    So a task is spread evenly (any stretch of the stream has its share, within two examples), and
    where a stretch begins in each task follows from a count, whatever came before.

    Where a task has each example in several draws of noise, pass p reads draw p of each; behind the
    last draw the first one comes again.

    Args:
      prepared: the tasks; numbers run from the first task's first example to the last's last.
      rates: of the tasks, with sum 1.
      seed: of the order.
    """

    def __init__(self, prepared: Sequence[Prepared], rates: Sequence[float], seed: int):
        # From the name, not from the place in the list: a new task leaves the others' order.
        self._seeds = [
            (seed, zlib.crc32(f'{task.name}/{task.split}'.encode())) for task in prepared
        ]
        phases = [np.random.SeedSequence(seeds).generate_state(1)[0] for seeds in self._seeds]
        self._phases = np.array(phases, np.float64) / 2**32
        self._rates = np.array(rates, np.float64)
        self._sizes = [task.pass_size for task in prepared]
        self._draws = [task.draws for task in prepared]
        self._passes: dict[tuple[int, int], Permutation] = {}

    def __call__(self, start: int, stop: int) -> np.ndarray:
        """[stop - start]: the example numbers at these places of the stream."""
        # The number of examples before time x differs from x by less than the number of tasks.
        margin = len(self._sizes) + 1
        first = self._count_before(max(0, start - margin))
        last = self._count_before(stop + margin)
        task = np.repeat(np.arange(len(first)), last - first)
        index = np.arange(len(task)) - np.repeat(np.cumsum(last - first) - last, last - first)
        order = np.lexsort((task, self._times(index, task)))
        skip = start - int(first.sum())
        order = order[skip : skip + stop - start]
        return self._shuffled(task[order], index[order])

    def _times(self, index: np.ndarray, task: np.ndarray | slice) -> np.ndarray:
        return (index + self._phases[task]) / self._rates[task]

    def _count_before(self, time: float) -> np.ndarray:
        """[tasks]: examples with a smaller time, by the very comparison that sorts them."""
        everyone = slice(None)
        count = np.ceil(time * self._rates - self._phases).clip(0).astype(np.int64)
        while (late := (count > 0) & (self._times(count - 1, everyone) >= time)).any():
            count -= late
        while (early := self._times(count, everyone) < time).any():
            count += early
        return count

    def _shuffled(self, task: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Example numbers of places (task, index), where index counts on from pass to pass."""
        numbers = np.empty(len(task), np.int64)
        used: dict[tuple[int, int], Permutation] = {}
        offset = 0
        for t, (size, draws) in enumerate(zip(self._sizes, self._draws, strict=True)):
            where = np.flatnonzero(task == t)
            passes, places = np.divmod(index[where], size)
            for number in np.unique(passes).tolist():
                key = (t, number)
                if key not in self._passes:
                    self._passes[key] = Permutation(size, *self._seeds[t], number)
                used[key] = self._passes[key]
                inside = passes == number
                examples = used[key](places[inside]).astype(np.int64)
                numbers[where[inside]] = offset + examples * draws + number % draws
            offset += size * draws
        self._passes = used  # The next window goes on in these passes.
        return numbers


class Windows(Protocol):
    """Groups of examples that are planned together: windows of a run, from 0 on, without end."""

    def __call__(self, number: int) -> np.ndarray:
        """[window]: the example numbers of a window, in the order of the stream."""
        ...

    def before(self, number: int) -> int:
        """Examples of all windows before this one."""
        ...

    def passes(self, examples: float) -> list[float]:
        """[tasks]: passes over each task when so many examples have come."""
        ...

    def typical(self) -> list[tuple[int, int]]:
        """Windows that tell what the others are like, each with the examples it stands for."""
        ...


@dataclasses.dataclass(frozen=True)
class EvenWindows:
    """The windows of an endless stream, all of one size.

    Attributes:
      stream: (start, stop) -> the example numbers at these places.
      size: of a window.
      tasks: the rate of each task, with sum 1, and the examples of a pass over it.
    """

    stream: Callable[[int, int], np.ndarray]
    size: int
    tasks: Sequence[tuple[float, int]]

    def __call__(self, number: int) -> np.ndarray:
        """[size]: the example numbers of a window."""
        return self.stream(number * self.size, (number + 1) * self.size)

    def before(self, number: int) -> int:
        """Examples of all windows before this one."""
        return number * self.size

    def passes(self, examples: float) -> list[float]:
        """[tasks]: passes over each task when so many examples have come."""
        return [examples * rate / size for rate, size in self.tasks]

    def typical(self) -> list[tuple[int, int]]:
        """The first window."""
        return [(0, self.size)]


@dataclasses.dataclass(frozen=True)
class Window:
    """One planned window.

    Attributes:
      examples: [window], example numbers in stream order.
      batches: whose rows list places in `examples`.
    """

    examples: np.ndarray
    batches: list[packing.PlannedBatch]


# (lengths [window, 2], tasks [window] from 1, layout, permutation) -> the batches of a window.
Plan = Callable[
    [np.ndarray, np.ndarray, packing.Layout, Callable[..., np.ndarray]], list[packing.PlannedBatch]
]


class Planner:
    """Plans windows, the next one while the current one is being read; safe between threads.

    Args:
      windows: which examples are planned together.
      examples: that are numbered.
      layout: the shapes of batches.
      seed: of the order.
      plan: makes the batches of a window.
    """

    def __init__(
        self,
        windows: Windows,
        examples: Examples,
        layout: packing.Layout,
        *,
        seed: int,
        plan: Plan = packing.plan_mixed,
    ):
        self._windows = windows
        self._examples = examples
        self._layout = layout
        self._seed = seed
        self._make = plan
        self._worker = concurrent.futures.ThreadPoolExecutor(1, 'xlbench-plan')
        self._lock = threading.Lock()
        self._futures: dict[int, concurrent.futures.Future] = {}

    def __call__(self, window: int, *, then_next: bool = False) -> Window:
        """The plan of a window; `then_next` has the next one planned, and forgets all others."""
        with self._lock:
            future = self._submit(window)
            if then_next:
                self._futures = {window: future, window + 1: self._submit(window + 1)}
        return future.result()

    def _submit(self, window: int) -> concurrent.futures.Future:
        if window not in self._futures:
            self._futures[window] = self._worker.submit(self._plan, window)
        return self._futures[window]

    def _plan(self, window: int) -> Window:
        examples = self._windows(window)

        def permutation(count: int, *purpose: int) -> np.ndarray:
            return permutations.permutation(count, self._seed, window, *purpose)

        lengths = self._examples.lengths(examples)
        tasks = np.searchsorted(self._examples.offsets, examples, side='right')  # From 1.
        return Window(examples, self._make(lengths, tasks, self._layout, permutation))

    def close(self) -> None:
        """Stops planning."""
        self._worker.shutdown(wait=True, cancel_futures=True)


def window_size(
    window: int | None,
    sample: np.ndarray,
    layout: packing.Layout,
    examples: int,
    groups: int = 1,
) -> int:
    """Examples of a window: given, or WINDOW_BATCHES batches' worth of each of the groups.

    Groups do not share batches, so that each has a last one that may be half filled.

    A small data set gets a smaller one, down to a quarter of that: a window that holds many passes
    would let an example come again long before others have come once.
    """
    if window is not None:
        if not isinstance(window, int) or window < 1:
            raise UserError(f'window is {window!r}; it counts examples, 1 or more')
        return window
    rows = (
        packing.pack(sample, layout.packed) if layout.packed else [[i] for i in range(len(sample))]
    )
    shapes = packing.smallest(packing.row_lengths(sample, rows), layout.shapes)
    batches = (1 / np.array(layout.rows))[shapes].sum()
    per_batch = len(sample) / batches
    size = min(
        groups * WINDOW_BATCHES * per_batch, max(examples, _SMALLEST_WINDOW_BATCHES * per_batch)
    )
    # Whole batches where rows are examples, so that there no row is empty.
    return max(1, round(size / layout.rows[-1])) * layout.rows[-1]
