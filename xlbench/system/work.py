"""Work in other processes, or begun before earlier work has ended; and a context's variables."""

import collections
import contextlib
import contextvars
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from multiprocessing import connection
from typing import ClassVar, TypeVar, TypeVarTuple

from xlbench.system.errors import UserError

Args = TypeVarTuple('Args')
Work = TypeVar('Work')
Result = TypeVar('Result')
Value = TypeVar('Value')
Item = TypeVar('Item')


def in_flight(
    work: Iterable[Work | None], submit: Callable[[Work], Result], depth: int
) -> Iterator[tuple[Work, Result]]:
    """Begins each piece of work while `depth` earlier pieces are still under way.

    `work` is read one piece at a time. None says that it may take a while to the next piece, so
    that those under way are yielded first. `submit` begins a piece and returns at once, with a
    future or an array that is being computed.

    Yields:
      (piece, what `submit` returned), in the order of the pieces. The caller waits for the
      result itself, and sees the error of a piece there.

    Example: depth 1, pieces a, b, c -> begins a, begins b, yields a, begins c, yields b, yields c
    """
    begun: collections.deque[tuple[Work, Result]] = collections.deque()
    for piece in work:
        if piece is not None:
            begun.append((piece, submit(piece)))
        while len(begun) > (depth if piece is not None else 0):
            yield begun.popleft()
    while begun:
        yield begun.popleft()


def _next(stream: Iterator[Item]) -> list[Item]:
    """The next item; none at the end."""
    return list(itertools.islice(stream, 1))


def merged(streams: Iterable[Iterable[Item]], threads: int) -> Iterator[Item]:
    """Yields the items of streams as they come, `threads` of which are read ahead at a time.

    With fewer than two threads, the caller reads one stream after another. An error in one of them
    ends all, and is raised here. When this is closed, each of those that are begun is read up to
    its next item and no further.
    """
    if threads < 2:
        yield from itertools.chain.from_iterable(streams)
        return
    left = map(iter, streams)
    with futures.ThreadPoolExecutor(threads) as pool:
        begun = {pool.submit(_next, one): one for one in itertools.islice(left, threads)}
        while begun:
            for done in futures.wait(begun, return_when=futures.FIRST_COMPLETED).done:
                stream, items = begun.pop(done), done.result()
                following = stream if items else next(left, None)
                if following is not None:  # It goes on while the caller looks at the item.
                    begun[pool.submit(_next, following)] = following
                yield from items


def _start(initialize: Callable[[*Args], None] | None, arguments: tuple[*Args]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent decides.
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        assert parent is not None
        connection.wait([parent.sentinel])
        os._exit(1)  # Nobody is left to take the result.

    threading.Thread(target=end_with_parent, daemon=True).start()
    if initialize:
        initialize(*arguments)


class Pool:
    """Fresh processes for jobs; with one worker the jobs run in this process.

    If there are several, `initialize(*arguments)` is called first in each of them.
    """

    is_elsewhere: ClassVar[bool] = False

    def __init__(
        self, workers: int, initialize: Callable[[*Args], None] | None = None, *arguments: *Args
    ):
        self.workers = workers
        self._start = initialize, arguments
        self._executor: futures.ProcessPoolExecutor | None = None

    def __enter__(self) -> 'Pool':
        self._others = set(multiprocessing.active_children())
        if self.workers > 1:
            # Not forked: this process has threads.
            context = multiprocessing.get_context('spawn')
            self._executor = futures.ProcessPoolExecutor(self.workers, context, _start, self._start)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._executor:
            self._executor.shutdown(wait=not kind, cancel_futures=True)
        if kind:  # What the others are at is lost; nobody waits for it.
            for process in set(multiprocessing.active_children()) - self._others:
                process.terminate()

    def run(
        self,
        work: Callable[[*Args], Result],
        jobs: Iterable[tuple[*Args]],
        *,
        in_order: bool = False,
    ) -> Iterator[Result]:
        """Yields work(*job) as jobs end, or in their order; at most two more than workers begin."""
        if self._executor is None:
            yield from (work(*job) for job in jobs)
            return
        executor, begun, most = self._executor, set[futures.Future[Result]](), self.workers + 2
        try:
            if in_order:
                ahead = in_flight(jobs, lambda job: executor.submit(work, *job), most)
                yield from (future.result() for _, future in ahead)
                return
            for job in jobs:
                begun.add(executor.submit(work, *job))
                if len(begun) >= most:
                    done, begun = futures.wait(begun, return_when=futures.FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in futures.as_completed(begun))
        except futures.process.BrokenProcessPool as error:
            raise UserError(
                'a worker process died, perhaps for lack of memory; the same command continues '
                'from here, also with fewer --workers'
            ) from error


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar[Value], value: Value) -> Iterator[None]:
    """The variable has the value in the block, and afterwards what it had before.

    From Python 3.14 on it is `with variable.set(value)`.
    """
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
