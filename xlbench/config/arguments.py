"""Types of flags for argparse: a text -> a value, or an error that says what the text is."""

import argparse
from collections.abc import Callable

from xlbench.system import errors


def whole(least: int) -> Callable[[str], int]:
    """The type of a whole number that is not below `least`."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f'{text!r} is not a whole number of {least} or more')
        return int(text)

    return parse


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f'{text!r} is not a number from 0 to 1')
    return value


def positive(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float('inf'):
        raise argparse.ArgumentTypeError(f'{text!r} is not a number above 0')
    return value


def engine(text: str) -> str:
    """The name of an engine of translation, which may be the address of a server."""
    if not text.startswith(('http://', 'https://')):
        errors.check_path('--engine', text)
    return text
