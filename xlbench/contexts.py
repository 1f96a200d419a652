"""Context variables that have a value within a block."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TypeVar

Value = TypeVar('Value')


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
