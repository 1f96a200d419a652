"""A model's outputs for every example of a task, batch after batch, gathered on every process."""

from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from xlbench.data.batches import Batch
from xlbench.evaluators.base import Check, Task
from xlbench.parallel import freed_memory, partitioning
from xlbench.system.work import in_flight

# Batches that may be in flight: enough to keep a device busy, few enough that `check` is asked, and
# memory given back, at the pace of the device.
BATCHES_AHEAD = 2


def score_examples(
    task: Task,
    predict: Callable[[dict[str, jax.Array]], Mapping[str, jax.Array]],
    mesh: Mesh,
    check: Check,
    more: Callable[[Batch], Batch] = lambda batch: {},
) -> dict[str, np.ndarray]:
    """Runs `predict` on all batches of a task.

    Args:
      task: whose examples are scored.
      predict: from a batch on the devices to arrays [rows, ...].
      mesh: where it runs.
      check: called after every batch.
      more: features that are added to those of a batch.

    Returns:
      Arrays [examples, ...] in the order of the examples, without padding, on every process;
      'index' among them.
    """

    def begin(local: Batch) -> dict[str, jax.Array]:
        batch = partitioning.put_batch({**local, **more(local)}, mesh)
        return {'index': batch['example_index'], **predict(batch)}

    results = []
    with partitioning.activate(mesh):
        for _, result in in_flight(task.batches, begin, BATCHES_AHEAD):
            results.append(jax.block_until_ready(result))
            freed_memory.keep_by_peak(mesh)
            check()
    rows = {key: np.concatenate([_fetch(r[key]) for r in results]) for key in results[0]}
    real = rows['index'] >= 0
    order = np.argsort(rows['index'][real], kind='stable')
    rows = {key: value[real][order] for key, value in rows.items()}
    if not np.array_equal(rows['index'], np.arange(task.batches.num_examples)):
        raise RuntimeError(
            f'{task.prepared.name}: {len(rows["index"])} rows were scored, not each of '
            f'{task.batches.num_examples} examples once'
        )
    return rows


def _fetch(value: jax.Array) -> np.ndarray:
    """The whole array on every process."""
    if jax.process_count() == 1:
        return np.asarray(value)
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))
