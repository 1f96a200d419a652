"""The items that a reader yields: records, and stand-ins for those that cannot be used."""

import collections
import dataclasses
import json
from collections.abc import Callable

from xlbench import errors


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A record that cannot be used.

    Attributes:
      path: the file.
      line: 1-based; 0 if the reason is about the file as a whole or names a place inside.
      reason: what is wrong, in plain words.
      fatal: True if the rest of the file cannot be trusted either; it must not be skipped.
    """

    path: str
    line: int
    reason: str
    fatal: bool = False

    def __str__(self) -> str:
        place = f'{self.path}:{self.line}' if self.line else self.path
        return f'{place}: {self.reason}'


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A sound record that a task does without; they are counted by `reason`."""

    reason: str


class BadRecords:
    """Skips unusable records, at most `allowed()` of them.

    Attributes:
      skipped: the records that were skipped.
      left_out: reason -> number of sound records that the task did without.
      error: what stopped the reading; reading in another thread may hide the exception.
    """

    def __init__(self, allow: Callable[[], bool] = lambda: False):
        self._allow = allow
        self.skipped: list[BadRecord] = []
        self.left_out: collections.Counter[str] = collections.Counter()
        self.error: errors.UserError | None = None

    def add(self, record: BadRecord) -> None:
        """Skips the record, or raises."""
        if not record.fatal and self._allow():
            self.skipped.append(record)
            return
        hint = (
            '; correct it, or prepare the data with python -m xlbench.prepare --skip_bad=N, which '
            'skips up to N such records'
        )
        self.error = errors.UserError(f'{record}{"" if record.fatal else hint}')
        raise self.error


Record = dict[str, str]
Item = Record | BadRecord | LeftOut  # What a reader yields.


def as_bad_record(path: str, error: ValueError) -> BadRecord:
    """Turns the error of a whole JSON file into a BadRecord."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b'\n', 0, error.start) + 1
        return BadRecord(path, line, f'not UTF-8: byte 0x{error.object[error.start]:02x}', True)
    if isinstance(error, json.JSONDecodeError):
        return BadRecord(path, error.lineno, f'not JSON: {error.msg} at column {error.colno}', True)
    return BadRecord(path, 0, str(error), fatal=True)
