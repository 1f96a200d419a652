"""Batches with equally many rows of every task, for losses that are summed over the tasks.

arXiv:2202.05599, section 5.2: in every step of its pre-training mDialBART sees samples of all its
tasks, and their losses are added up. So each task goes through its own examples here, in its own
passes, and the rates of a mixture have no effect.
"""

from collections.abc import Callable, Sequence

import numpy as np

from xlbench.data import mixing, packing
from xlbench.data.prepared import Prepared

_SMALLEST_WINDOW = 16  # Batches.


class Streams:
    """The streams of several tasks, side by side: a window takes the next examples of each.

    Attributes:
      sizes: [tasks], how many examples of each task a window has.

    Args:
      prepared: the tasks; numbers run from the first task's first example to the last's last.
      sizes: see above.
      seed: of the order.
    """

    def __init__(self, prepared: Sequence[Prepared], sizes: Sequence[int], seed: int):
        self.sizes = sizes
        self._streams = [mixing.Stream([task], [1.0], seed) for task in prepared]
        self._offsets = np.cumsum([0, *(len(task) for task in prepared)])

    def __call__(self, start: int, stop: int) -> np.ndarray:
        """[stop - start]: the example numbers of whole windows, task after task in each."""
        window = sum(self.sizes)
        parts = [
            offset + stream(number * size, (number + 1) * size)
            for number in range(start // window, stop // window)
            for offset, stream, size in zip(self._offsets, self._streams, self.sizes, strict=False)
        ]
        return np.concatenate(parts)


def window_sizes(
    window: int | None, examples: mixing.Examples, layout: packing.Layout
) -> list[int]:
    """Returns how many examples of each task fill about equally many rows.

    Args:
      window: examples of all tasks together, if the config says how many; otherwise a window has
        mixing.WINDOW_BATCHES batches, and less for small data.
      examples: of the tasks.
      layout: of batches.
    """
    tasks = examples.prepared
    share = layout.rows[-1] // len(tasks)
    a_row = np.array([_examples_a_row(examples, task, layout) for task in range(len(tasks))])
    if window is not None:
        batches = window / (share * a_row.sum())
    else:
        longest = max(task.pass_size / (share * n) for task, n in zip(tasks, a_row, strict=True))
        batches = min(mixing.WINDOW_BATCHES, max(_SMALLEST_WINDOW, longest))
    rows = share * max(1, round(batches))
    # Rounded down, so that packing seldom needs a row more than there are.
    return [max(1, int(rows * n)) for n in a_row]


def _examples_a_row(examples: mixing.Examples, task: int, layout: packing.Layout) -> float:
    """Estimates how many examples of a task share a row, from a sample."""
    if not layout.packed:
        return 1.0
    sample = examples.sample_of(task, mixing.SAMPLE)
    return len(sample) / len(packing.pack(sample, layout.packed))


def plan(
    lengths: np.ndarray,
    tasks: np.ndarray,
    layout: packing.Layout,
    permutation: Callable[..., np.ndarray],
) -> list[packing.PlannedBatch]:
    """The batches of a window: the rows of a batch are cut into equal parts, one for each task.

    Every example is in exactly one row. A task whose rows do not fill its part of all batches has
    empty rows, spread evenly.

    Args:
      lengths: [window, 2], inputs and targets of each example, trimmed to the limits.
      tasks: [window], from 1; every task is there.
      layout: of one shape.
      permutation: (n, purpose, task) -> a permutation of n, the same each time.
    """
    count = int(tasks.max(initial=0))
    share = layout.rows[0] // count
    rows_of = []
    for task in range(1, count + 1):
        members = np.flatnonzero(tasks == task)
        rows = [members[[place]].tolist() for place in range(len(members))]
        if layout.packed:  # Packing sorts by size; a batch shall have all sizes.
            packed = packing.pack(lengths[members], layout.packed)
            order = permutation(len(packed), 1, task)
            rows = [members[packed[place]].tolist() for place in order]
        rows_of.append(rows)
    batches = max(-(-len(rows) // share) for rows in rows_of)
    parts = [packing.spread(rows, batches * share) for rows in rows_of]
    return [
        packing.PlannedBatch(
            layout.shapes[0],
            [row for part in parts for row in part[at : at + share]],
        )
        for at in range(0, batches * share, share)
    ]


def weights(lengths: np.ndarray, planned: packing.PlannedBatch, count: int) -> np.ndarray:
    """[rows, tasks] float32: in the column of a row's task, all target tokens over the task's.

    So the sum of weighted losses of tokens, divided by the number of all tokens, is the sum over
    the tasks of each one's mean. The plan alone decides it: it is the same in every process, and in
    every part of a batch whose gradients are accumulated.

    Args:
      lengths: [window, 2], inputs and targets of each example, trimmed to the limits.
      planned: a batch of `plan`.
      count: of the tasks.
    """
    targets = np.array([int(lengths[row, 1].sum()) for row in planned.rows], np.float64)
    of_task = targets.reshape(count, -1).sum(1)
    shares = np.divide(of_task.sum(), of_task, out=np.zeros(count), where=of_task > 0)
    return np.repeat(np.diag(shares), len(targets) // count, axis=0).astype(np.float32)
