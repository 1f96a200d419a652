"""Orders of the examples in a training run, in windows that are planned together.

  Stream       tasks mixed at their rates, each shuffled anew in every pass
  EvenWindows  a stream, or those of several tasks, cut into windows of one size
  Curriculum   epochs whose parts come one after another, such as pseudo-data before real data
  Examples     the examples of several tasks under one numbering
  plan_window  a window, and the batches that are planned for it
  permutation  the same in every release of numpy, whole or the part that is needed

Orders work on example numbers; no example is read for them.

Grain can mix and shuffle numbers, too. It takes about 15 microseconds of Python for each (measured
with 1 to 48 tasks), and meanwhile holds the interpreter's lock, which the training loop needs to
dispatch. Whole windows with numpy take well below one.

arXiv:2202.05599, section 6.1: "the training data is converted from pseudo data to real data in each
epoch". An epoch of a curriculum has each example once: all of the first part, shuffled, then all of
the second, and so on. Windows end where a part ends, so that no batch has examples of two parts or
two epochs; those of a part's last window may have empty rows.
"""

import bisect
import dataclasses
import functools
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xlbench.data import packing
from xlbench.data.packing import Shape
from xlbench.data.prepared import SIDES, Prepared, Record
from xlbench.system.errors import UserError

WINDOW_BATCHES = 64  # One half-filled batch among this many: below 1 % of padding.
_SMALLEST_WINDOW_BATCHES = 16
SAMPLE = 4096  # Examples that the shapes are chosen from.
_CHUNK = 2**20  # Random numbers, or lengths, that are in memory at once.
_BLOCK = 2**20  # Places of a permutation that are computed together, about.


class Stream:
    """The endless stream of example numbers: tasks mixed at their rates, shuffled in each pass.

    Example j of task t has the time (j + phase) / rate; the stream is all examples sorted by time.
    So a task is spread evenly (any stretch of the stream has its share, within two examples), and
    where a stretch begins in each task follows from a count, whatever came before.

    Where a task has each example in several draws of noise, pass p reads draw p of each; after the
    last draw the first one comes again. Numbers run from the first task's first example to the last
    one's last; rates have the sum 1.
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
        """Returns [stop - start]: the example numbers at these places of the stream."""
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
        """Returns [tasks]: examples with a smaller time, by the very comparison that sorts them."""
        everyone = slice(None)
        count = np.ceil(time * self._rates - self._phases).clip(0).astype(np.int64)
        while (late := (count > 0) & (self._times(count - 1, everyone) >= time)).any():
            count -= late
        while (early := self._times(count, everyone) < time).any():
            count += early
        return count

    def _shuffled(self, task: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Returns the numbers of examples (task, index); index counts on from pass to pass."""
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


@dataclasses.dataclass(frozen=True)
class EvenWindows:
    """Windows of one size: each takes the next examples of one endless stream or more, in order."""

    # How many examples of a stream a window takes, the number of its first example, the stream.
    stretches: Sequence[tuple[int, int, Stream]]
    tasks: Sequence[tuple[float, int]]  # The rate, with sum 1, and the examples of a pass.

    def __call__(self, number: int) -> np.ndarray:
        """Returns [window]: the example numbers of a window."""
        parts = [
            first + stream(number * size, (number + 1) * size)
            for size, first, stream in self.stretches
        ]
        return np.concatenate(parts)

    def passes(self, examples: float) -> list[float]:
        """Returns [tasks], the passes over each task after a number of examples."""
        return [examples * rate / size for rate, size in self.tasks]

    def typical(self) -> list[tuple[int, int]]:
        """Returns the first window, and its size."""
        return [(0, sum(size for size, _, _ in self.stretches))]


class Curriculum:
    """The windows of an endless run of epochs.

    The tasks of one part are spread evenly over it, each shuffled anew in every epoch. Numbers are
    those of `Stream`.
    """

    def __init__(
        self,
        prepared: Sequence[Prepared],
        parts: Sequence[Sequence[int]],  # Of each, places in `prepared`; each task is in one.
        *,
        size: int,  # Examples of a window, at most.
        rows: int,  # Of a batch: windows hold a multiple of it, but for the last one of a part.
        seed: int,
    ):
        self._parts = parts
        self._sizes = [task.pass_size for task in prepared]
        self._offsets = np.cumsum([0, *map(len, prepared)])
        self._streams = [Stream([task], [1.0], seed) for task in prepared]
        totals = [sum(self._sizes[task] for task in part) for part in parts]
        self._starts = [0, *itertools.accumulate(totals)]  # Of the parts, and the epoch's end.
        cuts = [_cuts(total, size, rows) for total in totals]
        self._windows = [
            (part, *cut) for part, bounds in enumerate(cuts) for cut in itertools.pairwise(bounds)
        ]
        self._part_order = functools.lru_cache(maxsize=1)(self._order)

    def __call__(self, number: int) -> np.ndarray:
        """Returns [window]: the example numbers of a window."""
        epoch, place = divmod(number, len(self._windows))
        part, start, stop = self._windows[place]
        return self._part_order(epoch, part)[start:stop]

    def _order(self, epoch: int, part: int) -> np.ndarray:
        """Returns [part]: the example numbers of a part in one epoch."""
        numbers, times = [], []
        for task in self._parts[part]:
            size, stream = self._sizes[task], self._streams[task]
            numbers.append(self._offsets[task] + stream(epoch * size, (epoch + 1) * size))
            times.append((np.arange(size) + 0.5) / size)
        return np.concatenate(numbers)[np.argsort(np.concatenate(times), kind='stable')]

    def passes(self, examples: float) -> list[float]:
        """Returns [tasks], the passes over each task after a number of examples."""
        epoch, rest = divmod(examples, self._starts[-1])
        passes = [0.0] * len(self._sizes)
        for tasks, (start, stop) in zip(self._parts, itertools.pairwise(self._starts), strict=True):
            done = min(1.0, max(0.0, (rest - start) / (stop - start)))
            for task in tasks:
                passes[task] = epoch + done
        return passes

    def typical(self) -> list[tuple[int, int]]:
        """Returns the first window of each part, and the examples of the part."""
        firsts = [bisect.bisect_left(self._windows, (part,)) for part in range(len(self._parts))]
        sizes = [stop - start for start, stop in itertools.pairwise(self._starts)]
        return list(zip(firsts, sizes, strict=True))


# Divides a run into windows of examples that are planned together, from 0 on, without end.
Order = EvenWindows | Curriculum


def _cuts(total: int, size: int, rows: int) -> list[int]:
    """Returns where the windows of a part begin, and its end: few of them, of about one size."""
    count = -(-total // size)
    each = -(-total // (count * rows)) * rows
    return [*range(0, total, each), total]


def curriculum_places(
    prepared: Sequence[Prepared], parts: Sequence[Sequence[str]]
) -> list[list[int]]:
    """Finds the places in `prepared` of the tasks of parts; UserError unless each is named once."""
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


def _generator(seeds: tuple[int, ...]) -> np.random.PCG64:
    """Seeds random bits: numpy promises these to stay the same, but not its own `permutation`."""
    return np.random.PCG64(np.random.SeedSequence(seeds))


def permutation(count: int, *seeds: int) -> np.ndarray:
    """Returns [count] int32: 0 to count - 1, sorted by random bits."""
    bits = _generator(seeds).random_raw(count)
    return np.argsort(bits, kind='stable').astype(np.int32)


class Permutation:
    """A `permutation` of which only the parts in use are worked out.

    A block of it is all numbers whose random bits begin alike, about as many as `block`. So memory
    does not grow with the count, nor does the time until the first numbers are there, but for
    drawing the bits: about two nanoseconds a number.
    """

    def __init__(self, count: int, *seeds: int, block: int = _BLOCK):
        self._count, self._seeds = count, seeds
        self._prefix_bits = max(1, (count // block).bit_length())
        sizes = np.zeros(2**self._prefix_bits, np.int64)
        for _, bits in self._random_bits():
            sizes += np.bincount(self._prefixes(bits), minlength=len(sizes))
        self._ends = np.cumsum(sizes)
        self._blocks: dict[int, np.ndarray] = {}

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """Returns [n] int32: the numbers at these places."""
        numbers = np.empty(len(places), np.int32)
        blocks = np.searchsorted(self._ends, places, side='right')
        used: dict[int, np.ndarray] = {}
        for block in np.unique(blocks).tolist():
            used[block] = self._blocks[block] if block in self._blocks else self._block(block)
            where = np.flatnonzero(blocks == block)
            start = self._ends[block - 1] if block else 0
            numbers[where] = used[block][places[where] - start]
        self._blocks = used  # Whoever goes on from here goes on in these.
        return numbers

    def _random_bits(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (the first number, random bits [up to _CHUNK]) of all numbers, in order."""
        generator = _generator(self._seeds)
        for start in range(0, self._count, _CHUNK):
            yield start, generator.random_raw(min(_CHUNK, self._count - start))

    def _prefixes(self, bits: np.ndarray) -> np.ndarray:
        """Returns the block of each number, from its bits."""
        return (bits >> np.uint64(64 - self._prefix_bits)).astype(np.int64)

    def _block(self, block: int) -> np.ndarray:
        """Returns [block] int32: the numbers of one block in their order."""
        numbers, keys = [], []
        for start, bits in self._random_bits():
            here = np.flatnonzero(self._prefixes(bits) == block)
            numbers.append((here + start).astype(np.int32))
            keys.append(bits[here])
        # Ascending numbers before, so that equal bits are ordered as in `permutation`.
        return np.concatenate(numbers)[np.argsort(np.concatenate(keys), kind='stable')]


# ---------------------------------------------------------------------------------------------
# Windows.


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
    """Examples that are planned together, and the batches of them."""

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
    lengths = examples.lengths(numbers)
    batches = plan(lengths, tasks, layout, lambda n, *why: permutation(n, seed, number, *why))
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
