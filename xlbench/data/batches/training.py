"""Training batches: endless, mixed, packed, continued at any position."""

import contextlib
import dataclasses
import functools
import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from xlbench.data import features, orders, packing as packing_lib
from xlbench.data.prepared import SIDES, Prepared
from xlbench.settings.blocks import Batches
from xlbench.system import work
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

Batch = dict[str, np.ndarray]


class TaskShare(NamedTuple):
    """Expected number of passes over one task."""

    task: str  # Its name; TASK/SPLIT where several splits of it are mixed.
    examples: int  # Of one pass.
    rate: float  # 0 to 1, of the examples that are drawn.
    epochs: float  # Passes over the task.
    draws: int = 1  # Passes that have noise of their own, before the first one's comes again.


class TrainBatches(Iterator[Batch], contextlib.AbstractContextManager['TrainBatches']):
    """Endless training batches of one process: its rows of the features of a view.

    `shapes` has (rows, inputs, targets) of every kind of batch, rows over all processes; `window`
    is the number of examples that are planned together, with a curriculum at most; and `trimmed`
    says how many examples are longer than `lengths`, by side.
    """

    def __init__(
        self,
        prepared: Sequence[Prepared],
        rates: Sequence[float],  # How often an example of each task is drawn, in any unit.
        *,
        view: str = 'generation',  # Key of features.VIEWS: an objective's `view`.
        # The names of the tasks of each part of an epoch, in order: every epoch has each example
        # once, part after part, whatever the rates are. By default all tasks are mixed.
        curriculum: Sequence[Sequence[str]] = (),
        seed: int,
        position: Mapping[str, int] | None = None,  # `position()` of a feed to continue.
        process_index: int = 0,  # Of the process that reads its rows here.
        process_count: int = 1,  # They have equally many rows, and so have devices.
        devices: int = 1,
        **block: Setting,  # See config.Batches.
    ):
        options = Batches(**block)
        batch_size = options.batch_size
        self._limits = packing_lib.Shape.of(options.lengths)
        self._conventions = features.Conventions.of_tasks(prepared)
        self._features = features.check_view(view, prepared, options.packing)
        parts = orders.curriculum_places(prepared, curriculum) if curriculum else []
        if parts:
            rates = [task.pass_size for task in prepared]
        total = math.fsum(rates)
        self._rates = [rate / total for rate in rates]
        _check_each_task(options, len(prepared), self._features, len(parts))
        if options.widths > 1 and view != 'retrieval':
            raise UserError(
                f'widths={options.widths} is for batches of pairs, and the objective is {view}; '
                'set it to 1, and length_buckets to the number of shapes'
            )
        packing_lib.check_shares(batch_size, process_count, 'batch_size')
        if options.length_buckets > 1 and not options.equal_rows:
            # By default the largest divisor up to an eighth: fine for all shapes.
            divisors = (n for n in range(max(1, batch_size // 8), 0, -1) if batch_size % n == 0)
            row_multiple = options.row_multiple or next(divisors)
            packing_lib.check_shares(row_multiple, process_count, 'row_multiple')
            packing_lib.check_shares(batch_size, row_multiple, 'batch_size')
            options = dataclasses.replace(options, row_multiple=row_multiple)
        self._prepared = list(prepared)
        self._process = (process_index, process_count)
        self._examples = orders.Examples(self._prepared, self._limits)
        sample = self._examples.sample(self._rates)
        self._layout = packing_lib.choose_layout(
            sample, self._examples.largest, self._limits, options
        )
        self.trimmed = self._examples.trimmed
        self._widths: dict[str, packing_lib.Parts] = {}
        if options.widths > 1 and options.length_buckets == 1:
            samples = [sample]
            if options.one_task:
                tasks = range(len(prepared))
                samples = [self._examples.sample_of(task, orders.SAMPLE) for task in tasks]
            self._widths = packing_lib.choose_parts(
                samples, batch_size, self._limits, options.widths, max(devices, process_count)
            )
        self._windows, plan = self._order(options, sample, parts, seed)
        self.shapes = tuple(
            (rows, *shape)
            for rows, shape in zip(self._layout.rows, self._layout.shapes, strict=True)
        )
        self._planner = ThreadPoolExecutor(1, 'xlbench-plan')
        given = self._windows, self._examples, self._layout, seed, plan
        planned = functools.partial(orders.plan_window, *given)
        submit = functools.partial(self._planner.submit, planned)
        self._planned = functools.lru_cache(maxsize=3)(submit)
        self._each_task = options.each_task
        kind = 'each' if options.each_task else options.one_task
        self._feed = self._fingerprint(seed, kind, parts)
        # Where the next batch stands that is taken, and the next one that is read.
        self._place = self._reading = self._check_position(position)
        self._prefetch = options.prefetch
        self._first: tuple[Batch, dict[str, int]] | None = None  # What `first` has read.
        self._is_closed = False
        self._thread: ThreadPoolExecutor | None = None  # It reads ahead.
        self._ahead: Iterator[tuple[int, Future[tuple[Batch, dict[str, int]]]]] = iter(())

    def _order(
        self, options: Batches, sample: np.ndarray, parts: list[list[int]], seed: int
    ) -> tuple[orders.Order, orders.Plan]:
        """Returns the windows and their planner; sets their size, and of each_task the rates."""
        sizes = [task.pass_size for task in self._prepared]
        plan: orders.Plan
        if options.each_task:
            counts = orders.task_window_sizes(options.window, self._examples, self._layout)
            self.window = sum(counts)
            self._rates = [count / self.window for count in counts]
            streams = [orders.Stream([task], [1.0], seed) for task in self._prepared]
            stretches = list(zip(counts, self._examples.offsets, streams, strict=False))
            plan = packing_lib.plan_tasks
        else:
            together = max(map(len, parts)) if parts else len(sizes)
            groups = together if options.one_task else 1
            total, layout = sum(sizes), self._layout
            self.window = orders.window_size(options.window, sample, layout, total, groups)
            plan = (
                packing_lib.plan_groups
                if options.one_task
                else lambda lengths, _, *rest: packing_lib.plan(lengths, *rest)
            )
            if parts:
                shape = dict(size=self.window, rows=layout.rows[-1], seed=seed)
                return orders.Curriculum(self._prepared, parts, **shape), plan
            stretches = [(self.window, 0, orders.Stream(self._prepared, self._rates, seed))]
        return orders.EvenWindows(stretches, list(zip(self._rates, sizes, strict=True))), plan

    def _fingerprint(self, seed: int, one_task: bool | str, parts: list[list[int]]) -> int:
        """Hashes all that the order of examples depends on: not the number of processes."""
        tasks = [
            (task.name, task.split, len(task), *([task.draws] if task.draws > 1 else ()))
            for task in self._prepared
        ]
        text = repr((seed, one_task, self.window, self._limits, self._layout, tasks, self._rates))
        text += repr(parts) if parts else ''
        return zlib.crc32(text.encode(), self._examples.checksum)

    def _check_position(self, position: Mapping[str, int] | None) -> dict[str, int]:
        if position is None:
            return {'window': 0, 'batch': 0}
        start = {key: int(position[key]) for key in ('window', 'batch')}
        if int(position.get('feed', self._feed)) != self._feed:
            raise UserError(
                'the position in the checkpoint is of another feed: the data, mixture, seed, '
                'batch_size, lengths, packing, one_task, each_task, curriculum or buckets have '
                'changed. Restore them, or start a new workdir'
            )
        if min(start.values()) < 0 or (
            start['batch']
            and start['batch'] >= len(self._planned(start['window']).result().batches)
        ):
            raise UserError(f'there is no batch at position {start}')
        return start

    def __next__(self) -> Batch:
        """Returns the next batch: this process's rows. A thread reads those behind it."""
        if self._is_closed:
            raise ValueError('the feed is closed')
        if self._first is not None or not self._prefetch:
            (batch, self._place), self._first = self._first or self._read(), None
            return batch
        if self._thread is None:
            self._thread = thread = ThreadPoolExecutor(1, 'xlbench-read')
            self._ahead = work.in_flight(
                itertools.count(), lambda _: thread.submit(self._read), self._prefetch
            )
        try:
            _, read = next(self._ahead)
            batch, self._place = read.result()
        except BaseException:  # What was read behind it is out of order now.
            self._end_thread()
            self._reading = self._place
            raise
        return batch

    def first(self) -> Batch:
        """Returns the first batch, which stays the next one; to be called before it is taken."""
        if self._first is None:
            self._first = self._read()
        return self._first[0]

    def _read(self) -> tuple[Batch, dict[str, int]]:
        """Reads a batch; returns it, and where the one behind it stands."""
        number, index = self._reading['window'], self._reading['batch']
        planned = self._planned(number)
        self._planned(number + 1)  # While this one is read.
        window = planned.result()
        batch = self._build(window, index)
        is_last = index + 1 == len(window.batches)
        # Only now, so that a failed read can be tried again.
        self._reading = {'window': number + is_last, 'batch': 0 if is_last else index + 1}
        return batch, self._reading

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None

    def position(self) -> dict[str, int]:
        """Returns where the next batch stands; `position=` of a new feed continues there.

        `window` and `batch` are the place; `feed` is a fingerprint of data and settings, so that
        continuing with others is refused.
        """
        return self._place | {'feed': self._feed}

    def _build(self, window: orders.Window, index: int) -> Batch:
        planned = window.batches[index]
        process, count = self._process
        share = len(planned.rows) // count
        rows = planned.rows[process * share : (process + 1) * share]
        numbers = [window.examples[row].tolist() for row in rows]
        shape, limits = planned.shape._asdict(), self._limits._asdict()
        layout = features.Layout(shape, self._conventions, limits)
        batch = self._features(self._examples.read(numbers), layout)
        if self._widths:  # One example a row, of all processes.
            filled = [number for number, row in enumerate(planned.rows) if row]
            places = [planned.rows[number][0] for number in filled]
            lengths = np.zeros((len(planned.rows), 2), np.int32)
            lengths[filled] = self._examples.lengths(window.examples[places])
            if packing_lib.fits_parts(lengths, self._widths, count):
                batch = packing_lib.cut_to_parts(batch, self._widths, process, count)
        if self._each_task:
            lengths = self._examples.lengths(window.examples)
            weights = packing_lib.task_weights(lengths, planned, len(self._prepared))
            batch['task_weights'] = weights[process * share : (process + 1) * share]
        return batch

    def examples(self, position: Mapping[str, int] | None = None) -> list[tuple[str, str, int]]:
        """Lists (task, split, number in it) of a batch over all processes, row by row.

        The batch stands where `position()` was before it came; by default it is the next one.
        """
        position = position or self.position()
        window = self._planned(position['window']).result()
        rows = window.batches[position['batch']].rows
        numbers = window.examples[[place for row in rows for place in row]]
        return self._examples.names(numbers)

    def describe(self, num_steps: int) -> list[TaskShare]:
        """Lists (task, examples, rate, expected passes) in a run of `num_steps` steps."""
        passes = self._windows.passes(self.examples_per_step * num_steps)
        names = [task.name for task in self._prepared]
        return [
            TaskShare(
                task.name if names.count(task.name) == 1 else f'{task.name}/{task.split}',
                task.pass_size, rate, epochs, task.draws,
            )
            for task, rate, epochs in zip(self._prepared, self._rates, passes, strict=True)
        ]  # fmt: skip

    @functools.cached_property
    def _typical(self) -> list[tuple[orders.Window, int]]:
        """Plans typical windows; lists them with the examples that each stands for."""
        return [(self._planned(n).result(), count) for n, count in self._windows.typical()]

    @property
    def steps_per_epoch(self) -> int:
        """Returns about the number of batches of a curriculum's epoch; otherwise of a window."""
        return sum(-(-count * len(w.batches) // len(w.examples)) for w, count in self._typical)

    @property
    def examples_per_step(self) -> float:
        """Returns the mean examples of a batch of all processes, in typical windows."""
        return sum(count for _, count in self._typical) / self.steps_per_epoch

    @property
    def real_share(self) -> float:
        """Returns real tokens over all positions of both sides, in typical windows."""
        examples = np.concatenate([window.examples for window, _ in self._typical])
        batches = [batch for window, _ in self._typical for batch in window.batches]
        share = packing_lib.real_share(self._examples.lengths(examples), batches)
        if self._widths:  # Of batches that fit, which nearly all do.
            parts = [part for side in self._widths.values() for part in side]
            share *= self._layout.rows[0] * sum(self._limits) / sum(map(math.prod, parts))
        return share

    def shape_lines(self) -> list[str]:
        """Describes the shape of a batch in words.

        Example: 'batches of 64 rows x (512 inputs + 128 targets)',
          '4.1 examples a row, 91.3 % of positions are real tokens, 3 % of inputs are trimmed'
        """
        lines = [
            f'batches of {rows} rows x ({inputs} inputs + {targets} targets)'
            for rows, inputs, targets in self.shapes
        ]
        for side, parts in zip(SIDES, self._widths.values(), strict=False):
            listed = ', '.join(f'{part.rows} x {part.width}' for part in parts)
            lines.append(f'{side} in rows of {listed} tokens, the shortest texts in the last')
        rows = sum(len(batch.rows) for window, _ in self._typical for batch in window.batches)
        examples = sum(len(window.examples) for window, _ in self._typical)
        line = (
            f'{examples / rows:.1f} examples a row, {self.examples_per_step:.1f} a batch; '
            f'{self.real_share:.1%} of positions are real tokens'
        )
        total = len(self._examples)
        for side, count in self.trimmed.items():
            if count:
                line += f'; {count} of {total} {side} are too long and are truncated'
        return [*lines, line]

    def close(self) -> None:
        """Stops the threads; the feed gives no further batch."""
        self._is_closed = True
        self._end_thread()
        self._planner.shutdown(cancel_futures=True)

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_each_task(options: Batches, tasks: int, view: features.View, parts: int) -> None:
    """Raises UserError for batches that cannot have rows of each of several tasks.

    `parts` is the number of parts of the curriculum, or 0.
    """
    if not options.each_task:
        return
    if parts:
        raise UserError(
            'each_task has rows of every task in each batch, and the curriculum one part after '
            'another; set each_task=False, or leave out the curriculum'
        )
    if not view.sums_tasks:
        raise UserError(
            'each_task adds up the losses of several tasks of texts to write; with this objective '
            'set each_task=False'
        )
    if options.one_task or options.length_buckets > 1:
        other = 'one_task' if options.one_task else 'length_buckets'
        value = 'False' if options.one_task else '1'
        raise UserError(f'each_task has rows of every task in each batch; set {other}={value}')
    if options.batch_size % tasks:
        raise UserError(
            f'batch_size {options.batch_size} cannot be shared by {tasks} tasks, which each_task '
            f'gives equally many rows; it must be a multiple of {tasks}'
        )
