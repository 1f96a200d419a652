"""Jobs in processes, few of them under way at a time."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from multiprocessing import connection
from types import TracebackType
from typing import TypeVar, TypeVarTuple

from xlbench.errors import UserError

_WAIT = 0.2  # Seconds.
_END = object()

Args = TypeVarTuple('Args')
Item = TypeVar('Item')
Result = TypeVar('Result')


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent decides.
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


class Pool:
    """Processes for the jobs of all steps; with one worker the jobs run in this process."""

    def __init__(self, workers: int):
        self.workers = workers
        self._executor: futures.ProcessPoolExecutor | None = None

    def __enter__(self) -> 'Pool':
        self._others = set(multiprocessing.active_children())
        if self.workers > 1:
            # Not forked: this process has threads.
            context = multiprocessing.get_context('spawn')
            self._executor = futures.ProcessPoolExecutor(self.workers, context, _start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._executor:
            self._executor.shutdown(wait=not kind, cancel_futures=True)
        if kind:  # What the others are at is lost; nobody waits for it.
            for process in set(multiprocessing.active_children()) - self._others:
                process.terminate()

    def run(
        self, work: Callable[[*Args], Result], jobs: Iterable[tuple[*Args]]
    ) -> Iterator[Result]:
        """Yields work(*job) for each job, as they end; at most two more than workers are begun."""
        if self._executor is None:
            for job in jobs:
                yield work(*job)
            return
        begun: set[futures.Future] = set()
        try:
            for job in jobs:
                begun.add(self._executor.submit(work, *job))
                if len(begun) >= self.workers + 2:
                    done, begun = futures.wait(begun, return_when=futures.FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in futures.as_completed(begun))
        except futures.process.BrokenProcessPool as error:
            raise UserError(
                'a worker process died, perhaps for lack of memory; the same command goes on from '
                'here, also with fewer --workers'
            ) from error


def merged(streams: Sequence[Iterable[Item]], threads: int) -> Iterator[Item]:
    """The items of several streams, `threads` of which are read ahead at a time.

    The first error of a stream is raised here.
    """
    if threads < 2:
        for stream in streams:
            yield from stream
        return
    left: queue.SimpleQueue = queue.SimpleQueue()
    for stream in streams:
        left.put(stream)
    items: queue.Queue = queue.Queue(1)
    stop = threading.Event()

    def put(item: object, error: BaseException | None = None) -> None:
        while not stop.is_set():
            try:
                return items.put((item, error), timeout=_WAIT)
            except queue.Full:
                pass

    def read() -> None:
        try:
            while not stop.is_set():
                for item in left.get_nowait():
                    put(item)
                    if stop.is_set():
                        return
        except queue.Empty:
            put(_END)
        except BaseException as error:
            put(None, error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(threads)]
    for reader in readers:
        reader.start()
    try:
        while threads:
            item, error = items.get()
            if error:
                raise error
            if item is _END:
                threads -= 1
            else:
                yield item
    finally:
        stop.set()
