"""Keeps the rows that a tracker has not taken, in WORKDIR/unsent.jsonl, until it takes them."""

import math
import os
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from xlbench.system import files, untrusted
from xlbench.system.errors import UserError
from xlbench.system.logs import Sample, Samples

FILE = 'unsent.jsonl'


class Row(NamedTuple):
    """Numbers and samples of one step; see `Tracker.write`."""

    step: int
    scalars: Mapping[str, float]
    samples: Samples


class _Line(msgspec.Struct):
    """A line of the file. A number that JSON does not have is null."""

    tracker: str
    step: int
    scalars: dict[str, float | None]
    samples: dict[str, list[tuple[str, str, str]]]

    def row(self) -> Row:
        """Returns the row as trackers get it."""
        numbers = {tag: math.nan if one is None else one for tag, one in self.scalars.items()}
        return Row(
            self.step,
            numbers,
            {tag: [Sample(*answer) for answer in answers] for tag, answers in self.samples.items()},
        )


class Unsent:
    """The file of one workdir, for the threads of its trackers.

    Args:
      workdir: of the run.
    """

    def __init__(self, workdir: str | os.PathLike):
        self._folder, self._writing = pathlib.Path(workdir), threading.Lock()

    def rows(self, until: int | None, say: Callable[[str], None]) -> dict[str, list[Row]]:
        """Reads the rows of each tracker, in the order in which they were written.

        Args:
          until: the step that the run goes on from: it sends later rows again, so they are removed.
          say: is told of lines that are no rows, which are removed, too.
        """
        found: dict[str, list[Row]] = {}
        with self._writing:
            lines, unread = self._lines()
            kept = [line for line in lines if until is None or line.step <= until]
            if unread:
                say(f'{FILE}: {unread} lines that cannot be read were left out')
            if unread or len(kept) < len(lines):
                self._write(kept)
        for line in kept:
            found.setdefault(line.tracker, []).append(line.row())
        return found

    def add(self, tracker: str, row: Row) -> None:
        """Appends a row."""
        with self._writing:
            untrusted.file(self._folder, FILE)
            with open(self._folder / FILE, 'ab') as file:
                file.write(_encoded(_line(tracker, row)))

    def replace(self, tracker: str, rows: Sequence[Row]) -> None:
        """Makes these the tracker's rows; without rows of any tracker, there is no file."""
        with self._writing:
            kept = [line for line in self._lines()[0] if line.tracker != tracker]
            self._write(kept + [_line(tracker, row) for row in rows])

    def _write(self, lines: Sequence[_Line]) -> None:
        if lines:
            files.write(self._folder / FILE, b''.join(map(_encoded, lines)))
        else:
            (self._folder / FILE).unlink(missing_ok=True)

    def _lines(self) -> tuple[list[_Line], int]:
        """Reads the rows, and counts the lines that are malformed."""
        path, found, unread = untrusted.file(self._folder, FILE), list[_Line](), 0
        if path is None:
            return found, unread
        with untrusted.open_regular(path) as file:
            while text := file.readline(untrusted.LINE_BYTES.value):
                try:
                    found.append(files.parse_json(text, _Line, FILE))
                except UserError:
                    unread += 1
        return found, unread


def _line(tracker: str, row: Row) -> _Line:
    numbers = {tag: one if math.isfinite(one) else None for tag, one in row.scalars.items()}
    answers = {tag: [(*one,) for one in some] for tag, some in row.samples.items()}
    return _Line(tracker, row.step, numbers, answers)


def _encoded(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b'\n'
