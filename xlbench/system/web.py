"""Asks a server that may lie, drip or never end; its answer has a time and a size all the same."""

import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

_BLOCK = 1 << 16
T = TypeVar('T')


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no server elsewhere; the library would first read all of its answer, however long."""

    def redirect_request(self, *_: object) -> None:
        """Gives no other request."""


def ask(request: urllib.request.Request, seconds: float, most: int) -> tuple[int, bytes]:
    """Sends a request, and returns the status and the content of the answer.

    The timeout of a socket is for each read, and a server that sends a byte a second has no end:
    here the whole answer, its head included, has to come in time.

    At most a block more than `most` bytes of the content is returned.

    Raises:
      OSError: there is no answer in time, or none of HTTP.
    """
    deadline = time.monotonic() + seconds

    def work() -> tuple[int, bytes]:
        try:
            answer = urllib.request.build_opener(_Stay).open(request, timeout=seconds)
        except urllib.error.HTTPError as error:
            answer = error  # Which has an answer, too.
        content = bytearray()
        with answer:
            while len(content) <= most and time.monotonic() < deadline:
                if not (block := answer.read1(_BLOCK)):
                    break
                content += block
        return answer.status, bytes(content)

    try:
        return within(seconds, work)
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f'no answer of HTTP: {type(error).__name__} {error}'.strip()) from error


def within(seconds: float, work: Callable[[], T]) -> T:
    """Returns what a function does, or raises what it raises, if that comes in time.

    Raises:
      TimeoutError: it does not, and goes on in its thread, which does not keep the process alive.
    """
    begin, begun = time.monotonic(), _begun(work)
    done, _ = futures.wait([begun], seconds)
    if done and (begun.exception() or time.monotonic() - begin < seconds):
        return begun.result()
    raise TimeoutError(f'it took more than {seconds:g} s')


def while_growing(work: Callable[[], T], size: Callable[[], int], seconds: float, least: int) -> T:
    """Returns what a function does, or raises what it raises, while what it makes grows.

    Its `size` in bytes has to grow by `least` in so many seconds.

    Raises:
      TimeoutError: it grows by less; the function goes on, as in `within`.
    """
    begun = _begun(work)
    while True:
        before = size()
        if futures.wait([begun], seconds).done:
            return begun.result()
        if size() - before < least:
            raise TimeoutError(f'it sent less than {least:,} bytes in {seconds:g} s')


def _begun(work: Callable[[], T]) -> futures.Future[T]:
    """Begins a function in a thread that does not keep the process alive, and gives its future."""
    begun: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            begun.set_result(work())
        except Exception as error:  # It is raised where somebody waits for it.
            begun.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return begun
