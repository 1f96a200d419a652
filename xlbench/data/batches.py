"""Prepared examples -> batches of numpy arrays: for training without end, for evaluation once.

How a training batch comes about:

1. Order (`mixing.py`). The tasks are mixed at their rates, each shuffled anew in every pass. Which
   example stands at place i of this stream is a function of the seed and i. The stream is cut into
   windows of `window` examples.
2. Plan (`packing.py`). From the lengths alone (lengths.npy): which examples of the window share a
   row, which rows share a batch, and in which order the batches come.
3. Read. A process reads the examples of its own rows, and only those, in Grain's prefetch thread.

Grain has packers of its own. They pack as examples arrive: the rows still open are part of the
state, every process packs its own part, and a row closes before its best partner has come. Here
the position is two numbers, window and batch; resuming plans one window and reads nothing before
the next batch; one process or many make the same global batches, also when their number changes
at a resume; every example of a window is used exactly once; and since the whole window is known,
rows are fuller.
"""

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import grain
import numpy as np

from xlbench.config.blocks import Batches
from xlbench.data import features, mixing, packing as packing_lib
from xlbench.data.packing import Shape
from xlbench.data.prepared import Prepared
from xlbench.errors import UserError, unknown
from xlbench.files import Setting

Batch = dict[str, np.ndarray]


# ---------------------------------------------------------------------------------------------
# Checks of what the user gave.


def _check_lengths(lengths: Mapping[str, int]) -> Shape:
    if set(lengths) != set(mixing.SIDES) or not all(
        isinstance(lengths[side], int) and lengths[side] >= 2 for side in mixing.SIDES
    ):
        raise UserError(
            f'lengths is {dict(lengths)}; it needs inputs and targets, each 2 tokens or more, '
            'for example lengths=dict(inputs=512, targets=128)'
        )
    return Shape(lengths['inputs'], lengths['targets'])


def _check_processes(rows: int, process_index: int, process_count: int, what: str) -> None:
    if rows < 1 or rows % process_count:
        raise UserError(
            f'{what} {rows} cannot be shared by {process_count} processes; it must be a multiple '
            f'of {process_count}'
        )
    if not 0 <= process_index < process_count:
        raise UserError(f'process {process_index} does not exist among {process_count}')


def _check_tasks(prepared: Sequence[Prepared]) -> features.Conventions:
    if not prepared:
        raise UserError('there is no task to make batches from')
    for task in prepared:
        if not len(task):
            raise UserError(f'{task.name}/{task.split} has no examples; remove it from the mixture')
    labels = [(task.name, task.split) for task in prepared]
    if len(set(labels)) < len(labels):
        raise UserError(f'a task stands twice in {", ".join(name for name, _ in labels)}')
    first = prepared[0].manifest['vocabulary']
    for task in prepared[1:]:
        other = task.manifest['vocabulary']
        if other != first:
            raise UserError(
                f'{task.name} was prepared with vocabulary {other.get("name")!r} '
                f'({str(other.get("sha256"))[:8]}), {prepared[0].name} with {first.get("name")!r} '
                f'({str(first.get("sha256"))[:8]}); prepare both with the same one'
            )
    return features.Conventions.of(prepared[0].manifest)


def check_view(view: str, prepared: Sequence[Prepared], packing: bool = False) -> features.View:
    """The one of features.VIEWS that makes the batches; UserError for tasks of other views."""
    if view not in features.VIEWS:
        raise unknown('view', view, features.VIEWS)
    for task in prepared:
        made_for = task.manifest.get('view', 'generation')
        if made_for != view:
            raise UserError(
                f'{task.name} is prepared for {made_for}, and the objective is {view}; name a task '
                'of that kind, or change config.objective.name'
            )
    if packing and not features.VIEWS[view].packs:
        raise UserError(
            f'packing puts several examples into a row, and a model for {view} reads one; set '
            'packing=False'
        )
    return features.VIEWS[view]


def _check_rates(prepared: Sequence[Prepared], rates: Sequence[float]) -> list[float]:
    if len(rates) != len(prepared):
        raise UserError(f'{len(rates)} rates for {len(prepared)} tasks; each task needs one')
    for task, rate in zip(prepared, rates, strict=True):
        if not (math.isfinite(rate) and rate > 0):
            raise UserError(f'the rate of {task.name} is {rate}; a rate is a positive number')
    total = math.fsum(rates)
    return [rate / total for rate in rates]


_RANGES = {
    'widths': (1, 64),
    'seed': (0, 2**63 - 1),
    'prefetch': (0, 10_000),
    'num_examples': (1, 2**63 - 1),
}


def _check_numbers(**values: int) -> None:
    for name, value in values.items():
        low, high = _RANGES[name]
        if not isinstance(value, int) or not low <= value <= high:
            raise UserError(f'{name} is {value!r}; whole numbers from {low} to {high} are allowed')


def _default_row_multiple(batch_size: int) -> int:
    """The largest divisor of the batch size up to an eighth of it: fine enough for all shapes."""
    return next(n for n in range(max(1, batch_size // 8), 0, -1) if batch_size % n == 0)


# ---------------------------------------------------------------------------------------------
# Training.


class TaskShare(NamedTuple):
    """How often a run sees one task."""

    task: str
    examples: int
    rate: float  # 0 to 1, of the examples that are drawn.
    epochs: float  # Passes over the task.


class _Reader:
    """The batches of one process in order, with a position; what the prefetch thread runs."""

    def __init__(self, planner: mixing.Planner, build: Any, position: Mapping[str, int]):
        self._planner = planner
        self._build = build
        self.set_state(position)

    def __next__(self) -> Batch:
        window = self._planner(self._window, then_next=True)
        batch = self._build(window, self._batch)
        # Only now, so that a failed read can be tried again.
        self._batch += 1
        if self._batch == len(window.batches):
            self._window, self._batch = self._window + 1, 0
        return batch

    def get_state(self) -> dict[str, int]:
        return {'window': self._window, 'batch': self._batch}

    def set_state(self, state: Mapping[str, int]) -> None:
        self._window, self._batch = state['window'], state['batch']


class TrainBatches:
    """Endless training batches of one process: its rows of the features of a view.

    Args:
      prepared: the tasks of a mixture.
      rates: how often an example of each is drawn, in any unit.
      view: which of features.VIEWS the batches have: an objective's `view`.
      seed: of the order.
      position: `position()` of an earlier feed; continues exactly there.
      process_index: which share of the rows is read here.
      process_count: shares.
      **block: config.batches, see config.Batches.

    Attributes:
      shapes: (rows, inputs, targets) of every kind of batch, rows over all processes.
      window: examples that are planned together.
      trimmed: how many examples are longer than `lengths`, by side.
    """

    def __init__(
        self,
        prepared: Sequence[Prepared],
        rates: Sequence[float],
        *,
        view: str = 'generation',
        seed: int,
        position: Mapping[str, int] | None = None,
        process_index: int = 0,
        process_count: int = 1,
        **block: Setting,
    ):
        options = Batches(**block)
        batch_size, length_buckets = options.batch_size, options.length_buckets
        row_multiple, one_task = options.row_multiple, options.one_task
        self._limits = _check_lengths(options.lengths)
        self._conventions = _check_tasks(prepared)
        self._features = check_view(view, prepared, options.packing)
        self._rates = _check_rates(prepared, rates)
        _check_processes(batch_size, process_index, process_count, 'batch_size')
        _check_numbers(seed=seed)
        if options.equal_rows:
            row_multiple = None
        elif length_buckets > 1:
            row_multiple = row_multiple or _default_row_multiple(batch_size)
            _check_processes(row_multiple, process_index, process_count, 'row_multiple')
            _check_processes(batch_size, 0, row_multiple, 'batch_size')
        self._prepared = list(prepared)
        self._process = (process_index, process_count)
        self._examples = mixing.Examples(self._prepared, self._limits)
        sample = self._examples.sample(self._rates)
        self._layout = packing_lib.choose_layout(
            sample,
            Shape(*self._examples.lengths.max(0).tolist()),
            self._limits,
            batch_size=batch_size,
            packing=options.packing,
            length_buckets=length_buckets,
            row_multiple=row_multiple,
        )
        self.trimmed = self._examples.trimmed
        groups = len(prepared) if one_task else 1
        self.window = mixing.window_size(
            options.window, sample, self._layout, len(self._examples.lengths), groups
        )
        self.shapes = tuple(
            (rows, *shape)
            for rows, shape in zip(self._layout.rows, self._layout.shapes, strict=True)
        )
        self._planner = mixing.Planner(
            mixing.Stream(self._prepared, self._rates, seed),
            self._examples,
            self._layout,
            window=self.window,
            seed=seed,
            one_task=one_task,
        )
        self._feed = self._fingerprint(seed, one_task)
        reader = _Reader(self._planner, self._build, self._check_position(position))
        self._batches = grain.experimental.ThreadPrefetchDatasetIterator(reader, options.prefetch)

    def _fingerprint(self, seed: int, one_task: bool) -> int:
        """A number that differs if the order of examples may; not of the number of processes."""
        tasks = [(task.name, task.split, len(task)) for task in self._prepared]
        text = repr((seed, one_task, self.window, self._limits, self._layout, tasks, self._rates))
        return zlib.crc32(text.encode(), zlib.crc32(self._examples.lengths.tobytes()))

    def _check_position(self, position: Mapping[str, int] | None) -> dict[str, int]:
        if position is None:
            return {'window': 0, 'batch': 0}
        start = {key: int(position[key]) for key in ('window', 'batch')}
        if int(position.get('feed', self._feed)) != self._feed:
            raise UserError(
                'the position in the checkpoint is of another feed: the data, mixture, seed, '
                'batch_size, lengths, packing, one_task or buckets have changed. Restore them, or '
                'start a new workdir'
            )
        if min(start.values()) < 0 or (
            start['batch'] and start['batch'] >= len(self._planner(start['window']).batches)
        ):
            raise UserError(f'there is no batch at position {start}')
        return start

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """The next batch: this process's rows."""
        return next(self._batches)

    def position(self) -> dict[str, int]:
        """Where the next batch stands, in whole numbers; `position=` of a new feed continues there.

        `window` and `batch` are the place; `feed` is a fingerprint of data and settings, so that
        continuing with others is refused.
        """
        return dict(self._batches.get_state()) | {'feed': self._feed}

    def _build(self, window: mixing.Window, index: int) -> Batch:
        planned = window.batches[index]
        process, count = self._process
        share = len(planned.rows) // count
        rows = planned.rows[process * share : (process + 1) * share]
        numbers = [window.examples[row].tolist() for row in rows]
        return self._features(
            self._examples.read(numbers),
            lengths=planned.shape._asdict(),
            limits=self._limits._asdict(),
            conventions=self._conventions,
        )

    def examples(self, position: Mapping[str, int] | None = None) -> list[tuple[str, str, int]]:
        """(task, split, number in it) of each example of a batch, over all processes, row by row.

        Args:
          position: where the batch stands, as `position()` was before it came; default: the next.
        """
        position = position or self.position()
        window = self._planner(position['window'])
        rows = window.batches[position['batch']].rows
        numbers = window.examples[[place for row in rows for place in row]]
        return self._examples.names(numbers)

    def examples_seen(self, position: Mapping[str, int] | None = None) -> int:
        """Examples of all processes before `position`; default: of the next batch."""
        position = position or self.position()
        batches = self._planner(position['window']).batches if position['batch'] else []
        inside = sum(len(row) for batch in batches[: position['batch']] for row in batch.rows)
        return position['window'] * self.window + inside

    def epochs(self, position: Mapping[str, int] | None = None) -> dict[str, float]:
        """Passes over each task before `position`; default: of the next batch."""
        seen = self.examples_seen(position)
        return {share.task: share.epochs for share in self._shares(seen)}

    def _shares(self, examples: float) -> list[TaskShare]:
        return [
            TaskShare(task.name, len(task), rate, examples * rate / len(task))
            for task, rate in zip(self._prepared, self._rates, strict=True)
        ]

    @property
    def examples_per_step(self) -> float:
        """Examples of a batch over all processes, the mean of the first window."""
        return self.window / len(self._planner(0).batches)

    @property
    def real_share(self) -> float:
        """Real tokens over all positions in the first window, inputs and targets together."""
        first = self._planner(0)
        return packing_lib.real_share(self._examples.lengths[first.examples], first.batches)

    def describe(self, num_steps: int) -> list[TaskShare]:
        """(task, examples, rate, expected passes) of each task in a run of `num_steps` steps."""
        return self._shares(self.examples_per_step * num_steps)

    def shape_lines(self) -> list[str]:
        """What a batch looks like, in words.

        Example: 'batches of 64 rows x (512 inputs + 128 targets)',
          '4.1 examples a row, 91.3 % of positions are real tokens, 3 % of inputs are trimmed'
        """
        lines = [
            f'batches of {rows} rows x ({inputs} inputs + {targets} targets)'
            for rows, inputs, targets in self.shapes
        ]
        rows = sum(len(batch.rows) for batch in self._planner(0).batches)
        line = (
            f'{self.window / rows:.1f} examples a row, {self.examples_per_step:.1f} a batch; '
            f'{self.real_share:.1%} of positions are real tokens'
        )
        total = len(self._examples.lengths)
        for side, count in self.trimmed.items():
            if count:
                line += f'; {side} of {count} of {total} examples are longer, and are trimmed'
        return [*lines, line]

    def close(self) -> None:
        """Stops the threads; the feed gives no further batch."""
        self._batches.close()
        self._planner.close()

    def __enter__(self) -> 'TrainBatches':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


train_batches = TrainBatches


# ---------------------------------------------------------------------------------------------
# Evaluation.


class EvalBatches:
    """Every example of a task once, longest inputs first; may be iterated any number of times.

    A batch has the features of a view and example_index [rows] int32: the example in `prepared`, or
    -1 for an empty row.

    Args:
      prepared: the task.
      batch_size: rows over all processes.
      lengths: dict(inputs=..., targets=...), in tokens; longer examples are trimmed, and counted.
      num_examples: only the first so many; None takes all.
      view: which of features.VIEWS the batches have.
      process_index: which share of the rows is read here.
      process_count: shares.
      widths: batches are as wide as their longest input, rounded up to one of so many widths.
      prefetch: batches made ahead by a thread.

    Attributes:
      shapes: (rows, inputs, targets) of the batches that occur, rows over all processes.
      trimmed: how many examples are longer than `lengths`, by side.
      num_examples: over all processes.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        batch_size: int,
        lengths: Mapping[str, int],
        num_examples: int | None = None,
        view: str = 'generation',
        process_index: int = 0,
        process_count: int = 1,
        widths: int = 4,
        prefetch: int = 4,
    ):
        self._limits = _check_lengths(lengths)
        self._conventions = _check_tasks([prepared])
        self._features = check_view(view, [prepared])
        _check_processes(batch_size, process_index, process_count, 'batch_size')
        _check_numbers(widths=widths, prefetch=prefetch, num_examples=num_examples or 1)
        self._prepared = prepared
        self._share = batch_size // process_count
        self._process = process_index
        self._prefetch = prefetch
        self.num_examples = min(num_examples or len(prepared), len(prepared))
        lengths_of = prepared.lengths()[: self.num_examples]
        self.trimmed = {
            side: int((lengths_of[:, i] > self._limits[i]).sum())
            for i, side in enumerate(mixing.SIDES)
        }
        inputs = np.minimum(lengths_of[:, 0], self._limits.inputs)
        padded = np.full(-(-len(inputs) // batch_size) * batch_size, -1, np.int32)
        padded[: len(inputs)] = np.argsort(-inputs, kind='stable')
        self._batches = padded.reshape(-1, batch_size)
        # Multiples of 8 near quarters of the limit: few programs, little padding.
        steps = [-(-self._limits.inputs * i // (8 * widths)) * 8 for i in range(1, widths + 1)]
        allowed = np.unique(np.minimum(steps, self._limits.inputs))
        longest = inputs[self._batches[:, 0]]  # The first row is the longest, and never empty.
        self._widths = allowed[np.searchsorted(allowed, longest)].tolist()
        self.shapes = tuple(
            (batch_size, width, self._limits.targets) for width in sorted(set(self._widths))
        )

    def __len__(self) -> int:
        """The number of batches, the same in every process."""
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        reader = _EvalReader(self)
        batches = grain.experimental.ThreadPrefetchDatasetIterator(reader, self._prefetch)
        try:
            yield from batches
        finally:
            batches.close()

    def build(self, index: int) -> Batch:
        """Batch `index`: this process's rows."""
        start = self._process * self._share
        numbers = self._batches[index, start : start + self._share]
        records = iter(self._prepared.read(numbers[numbers >= 0]))
        batch = self._features(
            [[next(records)] if number >= 0 else [] for number in numbers],
            lengths={'inputs': self._widths[index], 'targets': self._limits.targets},
            limits=self._limits._asdict(),
            conventions=self._conventions,
        )
        return batch | {'example_index': numbers.copy()}


class _EvalReader:
    """One pass over EvalBatches, for the prefetch thread."""

    def __init__(self, batches: EvalBatches):
        self._batches = batches
        self._next = 0

    def __iter__(self) -> '_EvalReader':
        return self

    def __next__(self) -> Batch:
        if self._next == len(self._batches):
            raise StopIteration
        batch = self._batches.build(self._next)
        self._next += 1
        return batch

    def get_state(self) -> dict[str, int]:
        return {'batch': self._next}

    def set_state(self, state: Mapping[str, int]) -> None:
        self._next = state['batch']


eval_batches = EvalBatches
