"""Evaluation batches: every example of a task once, none packed."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xlbench.data import features, packing
from xlbench.data.prepared import SIDES, Prepared
from xlbench.system import work

Batch = dict[str, np.ndarray]

# Every shape is compiled. So there are few, and only as many as bring the cost of padding within a
# twentieth of what the most would.
MOST_SHAPES, NEAR = 6, 1.05
_PREFETCH = 4  # Batches that a thread makes ahead.


class EvalBatches:
    """The batches of every example of a task once; may be iterated any number of times.

    The widest batches come first, and of one shape those with the longest targets. A batch has the
    features of a view and example_index [rows] int32: the example in `prepared`, or -1 for an empty
    row. For `shapes` and `trimmed` see `TrainBatches`; `num_examples` is over all processes, and
    `inputs_of_batches` are the widths of each batch's inputs.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        batch_size: int,  # Rows over all processes.
        lengths: Mapping[str, int],  # In tokens; longer examples are trimmed, and counted.
        num_examples: int | None = None,  # First examples to take; None: all.
        view: str = 'generation',  # Key of features.VIEWS.
        process_index: int = 0,  # Of the process that reads its rows here.
        process_count: int = 1,  # They have equally many rows.
        # Batches are as wide as their longest input, rounded up to one of this number of widths,
        # and have room for `lengths` targets.
        widths: int = 4,
        # Shapes of rows in place of these, ascending in both sides; see `best_shapes`.
        allowed: Sequence[packing.Shape] = (),
    ):
        self._limits = packing.Shape.of(lengths)
        self._conventions = features.Conventions.of_tasks([prepared])
        self._features = features.check_view(view, [prepared])
        packing.check_shares(batch_size, process_count, 'batch_size')
        self._prepared = prepared
        self._share = batch_size // process_count
        self._process = process_index
        self.num_examples = min(num_examples or len(prepared), len(prepared))
        lengths_of = prepared.lengths()[: self.num_examples]
        self.trimmed = {
            side: int((lengths_of[:, i] > self._limits[i]).sum()) for i, side in enumerate(SIDES)
        }
        if not allowed:
            # Multiples of 8 near quarters of the limit: few programs, little padding.
            steps = [-(-self._limits.inputs * i // (8 * widths)) * 8 for i in range(1, widths + 1)]
            steps = np.unique(np.minimum(steps, self._limits.inputs)).tolist()
            allowed = [packing.Shape(width, self._limits.targets) for width in steps]
        needed = packing.smallest(np.minimum(lengths_of, self._limits), allowed)
        # Texts are about as long as their references, and a batch takes as long as its longest.
        order = np.lexsort((-lengths_of[:, 1], -needed))
        padded = np.full(-(-len(order) // batch_size) * batch_size, -1, np.int32)
        padded[: len(order)] = order
        self._batches = padded.reshape(-1, batch_size)
        # The first row needs the largest shape, and is never empty.
        self._shapes = [allowed[i] for i in needed[self._batches[:, 0]]]
        self.shapes = tuple((batch_size, *shape) for shape in sorted(set(self._shapes)))
        self.inputs_of_batches = [shape.inputs for shape in self._shapes]

    def __len__(self) -> int:
        """Returns the number of batches, the same in every process."""
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        thread = ThreadPoolExecutor(1, 'xlbench-read')
        numbers = range(len(self))
        begun = work.in_flight(numbers, lambda n: thread.submit(self.build, n), _PREFETCH)
        try:
            for _, batch in begun:
                yield batch.result()
        finally:
            thread.shutdown(cancel_futures=True)

    def build(self, index: int) -> Batch:
        """Returns batch `index`: this process's rows."""
        start = self._process * self._share
        numbers = self._batches[index, start : start + self._share]
        records, shape = iter(self._prepared.read(numbers[numbers >= 0])), self._shapes[index]
        batch = self._features(
            [[next(records)] if number >= 0 else [] for number in numbers],
            features.Layout(shape._asdict(), self._conventions, self._limits._asdict()),
        )
        return batch | {'example_index': numbers.copy()}


def best_shapes(
    tasks: Sequence[Prepared], lengths: Mapping[str, int], num_examples: int | None = None
) -> tuple[packing.Shape, ...]:
    """Returns few shapes of rows that hold all examples of these tasks with little padding."""
    limits = packing.Shape.of(lengths)
    of_tasks = [task.lengths()[:num_examples] for task in tasks]
    of_all = np.minimum(np.concatenate(of_tasks), limits)
    longest = np.maximum(of_all.max(axis=0), 1)
    largest = packing.Shape(*np.minimum(-(-longest // 8) * 8, limits).tolist())
    chains = [packing.best_chain(of_all, largest, count) for count in range(1, MOST_SHAPES + 1)]
    least = chains[-1][1]
    return next(shapes for shapes, cost in chains if cost <= NEAR * least)
