"""Jobs in fresh worker processes, with shared counters. No TensorFlow."""

import ctypes
import dataclasses
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from multiprocessing import connection
from typing import Any

from xlbench import errors


@dataclasses.dataclass(frozen=True)
class Shared:
    """Counters of one run, the same in all its processes.

    Attributes:
      examples: a multiprocessing Value, the examples read so far.
      skips_left: a multiprocessing Value, how many bad records may still be skipped.
    """

    examples: Any
    skips_left: Any

    @classmethod
    def make(cls, skips: int = 0) -> 'Shared':
        """Counters at the start of a run."""
        context = multiprocessing.get_context('spawn')
        return cls(context.Value(ctypes.c_int64, 0), context.Value(ctypes.c_int64, skips))

    def count(self, examples: int) -> None:
        """Adds examples that were read."""
        with self.examples.get_lock():
            self.examples.value += examples

    def allow_skip(self) -> bool:
        """Whether one more bad record may be skipped; takes one from what is left."""
        with self.skips_left.get_lock():
            self.skips_left.value -= 1
            return self.skips_left.value >= 0


_shared: list[Shared] = []  # In a worker process: the counters of its run.


def _start(shared: Shared, start: Callable[..., None], arguments: Sequence[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent decides.
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)  # Nobody is left to take the result.

    threading.Thread(target=end_with_parent, daemon=True).start()
    _shared[:] = [shared]
    start(*arguments)


def _work(work: Callable[[Any, Shared], Any], job: Any) -> Any:
    return work(job, _shared[0])


def run(
    work: Callable[[Any, Shared], Any],
    jobs: Sequence[Any],
    workers: int,
    start: tuple[Any, ...],
    shared: Shared,
    finished: Callable[[Any], None],
) -> None:
    """Runs jobs in worker processes; the first error stops all of them.

    Args:
      work: (job, shared) -> result; like everything here it must be picklable.
      jobs: in the order they are begun.
      workers: processes.
      start: a function and its arguments, called first in each process.
      shared: the counters of the run.
      finished: called in this process with each result, in the order they come.
    """
    before = set(multiprocessing.active_children())
    executor = futures.ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context('spawn'),
        initializer=_start,
        initargs=(shared, start[0], start[1:]),
    )
    try:
        for future in futures.as_completed([executor.submit(_work, work, job) for job in jobs]):
            finished(future.result())
        executor.shutdown()
    except BaseException as error:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        if isinstance(error, futures.process.BrokenProcessPool):
            raise errors.UserError(
                'a worker process died, perhaps for lack of memory; try fewer --workers'
            ) from error
        raise
