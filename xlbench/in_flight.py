"""Work that is begun before earlier work has ended, with the results in order."""

import collections
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Work = TypeVar('Work')
Result = TypeVar('Result')


def in_flight(
    work: Iterable[Work | None], submit: Callable[[Work], Result], depth: int
) -> Iterator[tuple[Work, Result]]:
    """Begins each piece of work while earlier pieces are still under way.

    Args:
      work: the pieces, in order; it is read one piece at a time. None says that it may take a while
        to the next piece, so that those under way are yielded first.
      submit: begins a piece and returns at once, with a future or an array that is being computed.
      depth: how many pieces stay under way while the oldest one is waited for.

    Yields:
      (piece, what `submit` returned), in the order of the pieces. Whoever takes it waits for the
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
