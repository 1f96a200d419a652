"""Orbax's manager as a run needs it.

Orbax takes most of a second to import, so that a run imports this module with its first step.
"""

import functools
import logging
import pathlib
import sys
import threading
from collections.abc import Callable, Collection

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import preservation_policy

from xlbench.training.train_step import TrainState

# Bytes. The devices that hold the same array write a part each; a part of less costs more than it
# saves, as each is cut off in a program of its own while training waits.
_SMALLEST_PART = 1 << 20


class Manager(ocp.CheckpointManager):
    """The checkpoints of one folder, saved in a thread; the newest `keep` of them stay.

    `complete` is called when all files of a checkpoint are there, before it gets its final name.
    """

    def __init__(self, folder: pathlib.Path, *, keep: int, complete: Callable[[], None]):
        _set_up()
        self._newest = preservation_policy.LatestN(keep)
        self._kept = preservation_policy.AnyPreservationPolicy([self._newest])
        self._wait_for_others = ocp.multihost.get_barrier_sync_fn()
        super().__init__(
            folder,
            item_names=('state',),
            options=ocp.CheckpointManagerOptions(
                preservation_policy=self._kept,
                cleanup_tmp_directories=True,
                enable_async_checkpointing=True,
                # Folders that machines share are seen late by some; all go by process 0.
                single_host_load_and_broadcast=True,
                async_options=ocp.AsyncOptions(
                    barrier_sync_fn=self._barrier, post_finalization_callback=complete
                ),
            ),
        )

    def keep(self, chosen: Collection[int]) -> None:
        """Sets the steps that stay besides the newest ones: the best one, and that of each stage.

        Orbax could find the best one itself, but keeps the scores of a process in memory alone.
        """
        self._kept.policies = [self._newest, preservation_policy.CustomSteps([*chosen])]

    def save_state(self, step: int, state: TrainState) -> None:
        """Begins to save the state of a step."""
        self.save(step, args=ocp.args.Composite(state=ocp.args.StandardSave(state)))

    def restore_state(self, step: int, like: TrainState) -> TrainState:
        """The state of a step, placed like `like`, which may be of shapes with shardings."""
        arguments = ocp.args.Composite(state=ocp.args.StandardRestore(like))
        return self.restore(step, args=arguments)['state']

    def reached_preemption(self, step: int) -> bool:
        """Returns False: the run itself asks whether it has to end.

        Orbax would ask jax with a step, from a thread as well; all who ask must count in the same
        way.
        """
        return False

    def _barrier(self, *, key: str, timeout_ms: int) -> None:
        """Waits for the other processes; a thread that has failed does not: its error shows now."""
        in_main = threading.current_thread() is threading.main_thread()
        if in_main or sys.exception() is None:
            self._wait_for_others(key=key, timeout_ms=timeout_ms)


@functools.cache
def _set_up() -> None:
    """Has Orbax write small arrays whole, and its threads fail without pages of tracebacks."""
    # What stops them is raised by `Checkpoints` and said there, once.

    def is_news(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.levelno < logging.ERROR:
            return not text.startswith('Type handler registry type')
        return 'orbax' not in record.pathname and 'exception was never retrieved' not in text

    for name in ('absl', 'asyncio'):
        logging.getLogger(name).addFilter(is_news)
    hook = sys.unraisablehook
    sys.unraisablehook = lambda args: (
        None if f'{args.exc_value}' == 'Event loop is closed' else hook(args)
    )
    ocp.type_handlers.register_type_handler(
        jax.Array,
        ocp.type_handlers.ArrayHandler(min_slice_bytes_for_replica_parallel=_SMALLEST_PART),
        override=True,
    )
