"""Lines of text files, and the items that a reader yields: records, or stand-ins for them."""

import collections
import dataclasses
import glob
import gzip
import hashlib
import io
import os
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar

from xlbench.system import errors, untrusted


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A record that cannot be used."""

    path: str
    line: int  # From 1; 0 if the reason concerns the whole file or names the place itself.
    reason: str

    def __str__(self) -> str:
        place = f'{self.path}:{self.line}' if self.line else self.path
        return f'{place}: {self.reason}'


def broken_file(path: str, line: int, reason: str) -> errors.UserError:
    """Returns the error of a fault after which the rest of a file cannot be trusted."""
    return errors.UserError(str(BadRecord(path, line, reason)))


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A sound record that a task does not use; these are counted by `reason`."""

    reason: str


class BadRecords:
    """Skips bad records while `allow()` is true."""

    def __init__(self, allow: Callable[[], bool] = lambda: False):
        self._allow = allow
        self.skipped: list[BadRecord] = []
        # Reason -> number of sound records that the task does not use.
        self.left_out: collections.Counter[str] = collections.Counter()
        # It ended the reading; another thread may have hidden the exception.
        self.error: errors.UserError | None = None

    def add(self, record: BadRecord) -> None:
        """Skips the record, or raises."""
        if not self._allow():
            raise errors.UserError(
                f'{record}; correct it, or prepare the data with python -m xlbench.prepare '
                '--skip_bad=N, which skips up to N such records'
            )
        self.skipped.append(record)

    def usable(self, items: Iterable['Value | BadRecord | LeftOut']) -> Iterator['Value']:
        """Yields the usable items, notes bad records, and counts what is left out."""
        for item in items:
            if isinstance(item, BadRecord):
                self.add(item)
            elif isinstance(item, LeftOut):
                self.left_out[item.reason] += 1
            else:
                yield item


Record = dict[str, str]
Item = Record | BadRecord | LeftOut  # All that a reader can yield.
Records = Iterator[Record | BadRecord]
Value = TypeVar('Value')
Made = TypeVar('Made')


BOM = b'\xef\xbb\xbf'
# Each read of a file lets other threads have Python's lock, and waits for it afterwards.
_BUFFER = 2**18
UTF16 = (b'\xff\xfe', b'\xfe\xff')


def find(path: str) -> list[str]:
    """Returns the files that a path stands for, sorted; empty if there is none.

    These are the file of this name, or the same with .gz; else those that match its last part as a
    pattern of the shell, such as *.tsv*. A packed file beside its unpacked self is not listed.
    """
    for name in (path, f'{path}.gz'):
        if os.path.isfile(name):
            return [name]
    folder, pattern = os.path.split(path)
    found = (os.path.join(folder, name) for name in glob.glob(pattern, root_dir=folder or '.'))
    paths = set(filter(os.path.isfile, found))
    return sorted(p for p in paths if not (p.endswith('.gz') and p.removesuffix('.gz') in paths))


def open_binary(path: str) -> 'io.BufferedReader[Any]':
    """Opens a file, unpacked on the way if its name ends in .gz; UserError if it is missing."""
    try:
        file = io.BufferedReader(io.FileIO(path), _BUFFER)
    except FileNotFoundError as error:
        raise errors.UserError(f'there is no file {path}') from error
    except OSError as error:
        raise errors.UserError(f'{path} cannot be read: {error.strerror or error}') from error
    if path.endswith('.gz'):
        return untrusted.open_packed(gzip.GzipFile(fileobj=file), file, 'the file')
    return file


def read_whole(path: str) -> bytes:
    """Reads a JSON file, packed or not, without byte order mark; UserError if that fails."""
    try:
        with open_binary(path) as file:
            data = untrusted.read_all(file, 'the file', untrusted.JSON_BYTES)
    except BROKEN as error:
        raise errors.UserError(f'{path}: {broken(error)}') from error
    return data.removeprefix(BOM)


# Errors of a file that cannot be read, packed or not, or that exceeds a limit.
BROKEN = (OSError, EOFError, zlib.error, untrusted.Exceeded)


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file."""
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines of a file with their ends; may raise any of BROKEN."""
    most = untrusted.LINE_BYTES.value
    while raw := file.readline(most + 1):
        if len(raw) > most:
            raise untrusted.LINE_BYTES.exceeded('the line is too long')
        yield raw


def decoded(raw: bytes, number: int, inner_cr: bool = False) -> str:
    """Decodes line `number` (from 1) of `raw_lines`, without its end or a byte order mark.

    ValueError if it is not a text, or has a \\r without `inner_cr`.
    """
    text = raw.removeprefix(BOM) if number == 1 else raw
    text = text.removesuffix(b'\n').removesuffix(b'\r')
    try:
        if b'\0' in text or (number == 1 and text.startswith(UTF16)):
            kind = 'begins as UTF-16 does' if text.startswith(UTF16) else 'has a NUL byte'
            raise ValueError(f'no text: it {kind}; if it is UTF-16, save it as UTF-8')
        if b'\r' in text and not inner_cr:
            raise ValueError(CR_INSIDE)
        return text.decode()
    except UnicodeDecodeError as error:
        reason = f'not UTF-8: byte 0x{text[error.start]:02x} at byte {error.start}'
        raise ValueError(reason) from None


CR_INSIDE = (
    'has a \\r (carriage return) inside; lines end with \\n or \\r\\n, and not with \\r alone'
)


def numbered(path: str, inner_cr: bool = False) -> Iterator[tuple[int, str] | BadRecord]:
    """Yields the lines of a file with their numbers, from 1; a BadRecord for each that is no text.

    A \\r inside a line is allowed with `inner_cr` only.
    """
    number = 0
    try:
        with open_binary(path) as file:
            for raw in raw_lines(file):
                number += 1
                try:
                    yield number, decoded(raw, number, inner_cr)
                except ValueError as error:
                    # A file without line ends, or in another encoding, is wrong as a whole.
                    if number == 1 and (raw[-1:] != b'\n' or raw.startswith(UTF16)):
                        raise broken_file(path, number, str(error)) from None
                    yield BadRecord(path, number, str(error))
    except BROKEN as error:
        raise broken_file(path, number + 1, broken(error)) from error


def convert(
    path: str,
    values: Iterable[tuple[int, Value] | BadRecord],
    make: Callable[[int, Value], Iterable[Made]],
    what: str | None = None,
) -> Iterator[Made | BadRecord]:
    """Yields the records that are made of each value, or one BadRecord for a wrong value.

    Args:
      path: the file.
      values: with the numbers of their lines, such as those of `numbered`.
      make: (number, value) -> records; raises ValueError for a wrong value.
      what: what is numbered instead of lines, such as 'object'; '' if reasons name the number.
    """
    for item in values:
        if isinstance(item, BadRecord):
            yield item
            continue
        try:
            made = list(make(*item))
        except ValueError as error:
            place = f'{what} {item[0]}: ' if what else ''
            yield BadRecord(path, item[0] if what is None else 0, f'{place}{error}')
        else:
            yield from made


def letters(text: str) -> str:
    """Removes case, punctuation and spaces; a text without letters or digits stays.

    Example: 'Ja !' -> 'ja'; '?!' -> '?!'
    """
    text = text.casefold()
    return ''.join(c for c in text if unicodedata.category(c)[0] in 'LMN') or text


def good(items: Iterable[Value | BadRecord | LeftOut]) -> Iterator[Value]:
    """Yields the usable items; the first BadRecord is a UserError."""
    for item in items:
        if isinstance(item, BadRecord):
            raise errors.UserError(str(item))
        if not isinstance(item, LeftOut):
            yield item


def broken(error: Exception) -> str:
    """Describes one of BROKEN."""
    return str(error) if isinstance(error, untrusted.Exceeded) else f'cannot be read: {error}'


def count_lines(path: str) -> int:
    """Counts the lines of a file; a last line without an end counts."""
    count, last = 0, b'\n'
    with open_binary(path) as file:
        try:
            while block := file.read(2**20):
                count += block.count(b'\n')
                last = block[-1:]
        except BROKEN as error:
            raise errors.UserError(f'{path}: {broken(error)}') from error
    return count + (last != b'\n')
