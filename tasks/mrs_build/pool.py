"""Streams that threads read ahead."""

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_WAIT = 0.2  # Seconds.
_END = object()

Item = TypeVar('Item')


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
