"""Jobs in worker processes, with shared counters."""

import ctypes
import dataclasses
import functools
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.sharedctypes import Synchronized
from typing import TypeVar

from xlbench.data import tokenizers
from xlbench.system.work import Pool

Job = TypeVar('Job')
Result = TypeVar('Result')


@dataclasses.dataclass(frozen=True)
class Shared:
    """Counters of one run, the same in all its processes.

    Attributes:
      examples: read so far.
      skips_left: how many bad records may still be skipped.
    """

    examples: Synchronized
    skips_left: Synchronized

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
        """Returns whether one more bad record may be skipped; takes one from what is left."""
        with self.skips_left.get_lock():
            self.skips_left.value -= 1
            return self.skips_left.value >= 0


_shared: Shared | None = None  # In a worker process: the counters of its run.


def _start(shared: Shared, threads: int) -> None:
    global _shared
    _shared = shared
    tokenizers.limit_threads(threads)


def _work(work: Callable[[Job, Shared], Result], job: Job) -> Result:
    return work(job, _shared)


def run(
    work: Callable[[Job, Shared], Result],
    jobs: Sequence[Job],
    workers: int,
    shared: Shared,
    threads: int = 1,
) -> Iterator[Result]:
    """Runs jobs in worker processes, or in this process; the first error stops all of them.

    Args:
      work: (job, shared) -> result; for several workers it must be picklable.
      jobs: in the order they are begun.
      workers: processes; with one, the jobs run in this process.
      shared: the counters of the run.
      threads: of the tokenizer, in each process.

    Yields:
      The results, in the order they come.
    """
    if workers == 1:
        yield from (work(job, shared) for job in jobs)
        return
    with Pool(workers, _start, shared, threads) as processes:
        yield from processes.run(functools.partial(_work, work), ((job,) for job in jobs))
