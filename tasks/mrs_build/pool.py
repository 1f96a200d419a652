"""Jobs in processes, few of them under way at a time, and a line that says how far they are."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from multiprocessing import connection
from types import TracebackType
from typing import TypeVar, TypeVarTuple

from xlbench.errors import UserError

_WAIT = 0.2  # Seconds.
_SAY = 10.0  # Seconds between lines where they stay.
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


class Progress:
    """Says on standard error how far a step is, now and then."""

    def __init__(self, step: str, total: int, unit: str):
        self._step, self._total, self._unit = step, total, unit
        self._live = sys.stderr.isatty()
        self._first: tuple[float, int] | None = None
        self._said = time.monotonic()

    def at(self, done: int) -> None:
        """What was done when this is called first does not count for the speed."""
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
        if now > self._said + (_WAIT if self._live else _SAY):
            self._said = now
            self._print(self.line(done, now - self._first[0]))

    def line(self, done: int, seconds: float) -> str:
        """Example: scan: 1,200 of 6,000 MB, 40.0 MB/s, 2 min left"""
        rate = (done - self._first[1]) / max(seconds, 1e-9)
        left = f'{(self._total - done) / rate / 60:,.0f} min left' if rate else 'starting'
        return (
            f'{self._step}: {done:,} of {self._total:,} {self._unit}, {rate:,.1f} {self._unit}/s, '
            f'{left}'
        )

    def end(self, line: str) -> None:
        """A line that stays."""
        self._print(f'{self._step}: {line}')
        if self._live:
            print(file=sys.stderr, flush=True)

    def _print(self, line: str) -> None:
        start, end = ('\r', '\x1b[K') if self._live else ('', '\n')
        print(f'{start}{line}', end=end, file=sys.stderr, flush=True)
