"""Iterators that are read side by side, each in a thread of its own."""

import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent import futures
from typing import TypeVar

Item = TypeVar('Item')


def merged(iterators: Sequence[Iterator[Item]]) -> Iterator[Item]:
    """Yields the items of all iterators as they come.

    An error in one of them ends all, and is raised here. When this is closed, each of them is read
    up to its next item and no further.

    Args:
      iterators: a single one is read in the caller's thread.
    """
    if len(iterators) == 1:
        yield from iterators[0]
        return
    items: queue.SimpleQueue[Item | _End] = queue.SimpleQueue()
    stop = threading.Event()

    def read(iterator: Iterator[Item]) -> None:
        try:
            for item in iterator:
                items.put(item)
                if stop.is_set():
                    break
        except BaseException:
            stop.set()
            raise
        finally:
            items.put(_End())

    with futures.ThreadPoolExecutor(len(iterators)) as pool:
        reading = [pool.submit(read, iterator) for iterator in iterators]
        try:
            ends = 0
            while ends < len(iterators):
                item = items.get()
                if isinstance(item, _End):
                    ends += 1
                else:
                    yield item
        finally:
            stop.set()
    for thread in reading:
        thread.result()


class _End:
    """The end of one iterator."""
