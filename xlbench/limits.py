"""Limits on what is read, so that no file can fill the memory or keep a program busy without end.

  environment variable        default   of what
  XLBENCH_MAX_LINE_BYTES       16 MiB   a line of a text file, a cell of a table, an interview of
                                        MediaSum
  XLBENCH_MAX_JSON_BYTES      512 MiB   a JSON file of a corpus, which is held in memory as a whole
  XLBENCH_MAX_CONFIG_BYTES     64 MiB   a JSON file of a run, a checkpoint, a preparation or a
                                        model; a vocabulary file
  XLBENCH_MAX_ANSWERS_BYTES     4 MiB   a judge's answers, which their page saved
  XLBENCH_MAX_JSON_DEPTH           64   lists and objects inside each other
  XLBENCH_MAX_DOWNLOAD_BYTES   32 GiB   an archive that is downloaded, whose size nobody knows
  XLBENCH_MAX_DOWNLOAD_SECONDS 86,400   the time for one file that is downloaded
  XLBENCH_MAX_EXPANSION           100   bytes that come out of a packed file, for each byte in it;
                                        the first MiB is free
  XLBENCH_MAX_EXPANDED_BYTES  256 GiB   all that comes out of a packed file or an archive

Text that people wrote becomes 3 to 20 times as long when it is unpacked, and the largest corpora
here are far below these sizes. A file that is over a limit is refused in one line, which names the
variable; whoever trusts the file sets it to more: XLBENCH_MAX_LINE_BYTES=100000000.

  limits.LINE_BYTES.value                             the number that holds now
  limits.read_bytes(path, limits.CONFIG_BYTES)        a small file as a whole
  limits.open_packed(gzip.GzipFile(fileobj=raw), raw, path)   what unpacks, counted as it is read
  limits.check_depth(value, path)                     a JSON value
"""

import dataclasses
import io
import os
from typing import IO, Protocol

from xlbench import errors, foreign
from xlbench.errors import UserError

_FREE = 1 << 20  # Bytes of expansion: small files may repeat themselves as often as they like.
_BLOCK = 1 << 20


class Exceeded(UserError):
    """A file is over a limit."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """One limit.

    Attributes:
        variable: The environment variable that changes it.
        default: What holds without it.
    """

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The number that holds now; UserError if the variable is no whole number above 0."""
        text = os.environ.get(self.variable, '').strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdecimal() and 0 < len(text) < 19 and int(text)):
            raise UserError(f'{self.variable}={text} is not a whole number above 0')
        return int(text)

    def exceeded(self, what: str, unit: str = 'bytes') -> Exceeded:
        """The error for what is over this limit.

        Args:
            what: Subject and verb, with the amount if that is known: 'a.json has 600 bytes'.
            unit: Of the limit.

        Example: LINE_BYTES.exceeded('the line is too long') -> the line is too long: at most
          16,777,216 bytes are allowed; if you trust the file, set XLBENCH_MAX_LINE_BYTES to more
        """
        return Exceeded(
            f'{what}: at most {self.value:,} {unit} are allowed; if you trust the file, set '
            f'{self.variable} to more'
        )


LINE_BYTES = Limit('XLBENCH_MAX_LINE_BYTES', 16 << 20)
JSON_BYTES = Limit('XLBENCH_MAX_JSON_BYTES', 512 << 20)
CONFIG_BYTES = Limit('XLBENCH_MAX_CONFIG_BYTES', 64 << 20)
ANSWERS_BYTES = Limit('XLBENCH_MAX_ANSWERS_BYTES', 4 << 20)
JSON_DEPTH = Limit('XLBENCH_MAX_JSON_DEPTH', 64)
DOWNLOAD_BYTES = Limit('XLBENCH_MAX_DOWNLOAD_BYTES', 32 << 30)
DOWNLOAD_SECONDS = Limit('XLBENCH_MAX_DOWNLOAD_SECONDS', 24 * 3600)
EXPANSION = Limit('XLBENCH_MAX_EXPANSION', 100)
EXPANDED_BYTES = Limit('XLBENCH_MAX_EXPANDED_BYTES', 256 << 30)
ALL = (
    LINE_BYTES, JSON_BYTES, CONFIG_BYTES, ANSWERS_BYTES, JSON_DEPTH, DOWNLOAD_BYTES,
    DOWNLOAD_SECONDS, EXPANSION, EXPANDED_BYTES,
)  # fmt: skip


def read_bytes(path: str | os.PathLike, limit: Limit = CONFIG_BYTES) -> bytes:
    """The content of a file that is held in memory as a whole.

    Raises:
        UserError: It cannot be read, or it has more bytes than the limit allows; Unreadable if it
            is there, and the disk or the system does not give it.
    """
    try:
        with foreign.open_regular(path) as file:
            return read_all(file, os.fspath(path), limit)
    except OSError as error:
        kind = errors.Unreadable if errors.is_withheld(error) else UserError
        raise kind(f'{path} cannot be read: {error.strerror or error}') from None


def read_all(file: IO[bytes], name: str, limit: Limit) -> bytes:
    """The rest of a file; Exceeded, before it is in memory, if it is over the limit."""
    most, blocks, size = limit.value, [], 0
    while block := file.read(_BLOCK):  # A read of all would make room for `most` at once.
        blocks.append(block)
        size += len(block)
        if size > most:
            raise limit.exceeded(f'{name} is too large')
    return b''.join(blocks)


def check_depth(value: object, name: str) -> None:
    """Raises Exceeded for a JSON value with too many lists and objects inside each other."""
    level = [value]
    for _ in range(JSON_DEPTH.value):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise too_deep(name)


def too_deep(name: str) -> Exceeded:
    """The error for JSON with too many lists and objects inside each other."""
    return JSON_DEPTH.exceeded(f'{name} is nested too deeply', 'levels')


class Expansion:
    """Counts what comes out of a packed file.

    Args:
        name: Of the file, for the message.
        has_end: Whether the limit on the whole size holds. It does not for dumps, which are read
            block by block and are truly large.
    """

    def __init__(self, name: str, has_end: bool = True):
        self._name = name
        self._ratio = EXPANSION.value
        self._most = EXPANDED_BYTES.value if has_end else 1 << 62
        self.size = 0

    def add(self, unpacked: int, position: int) -> None:
        """Takes note of more bytes.

        Args:
            unpacked: How many have come out.
            position: How many bytes of the packed file have been read by now.

        Raises:
            Exceeded: It is too many.
        """
        self.size += unpacked
        if self.size > self._ratio * position + _FREE:
            raise EXPANSION.exceeded(
                f'{self._name} expands too far, to {self.size:,} bytes or more from {position:,}',
                'times its size',
            )
        if self.size > self._most:
            raise EXPANDED_BYTES.exceeded(f'{self._name} is too large when it is unpacked')


class _Unpacking(Protocol):
    def read1(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class _Counted(io.RawIOBase):
    """An unpacking file whose output is counted."""

    def __init__(self, file: _Unpacking, packed: IO[bytes], name: str):
        self._file, self._packed = file, packed
        self._expansion = Expansion(name)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        data = self._file.read1(len(buffer))
        self._expansion.add(len(data), self._packed.tell())
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._packed.close()
        super().close()


def open_packed(file: _Unpacking, packed: IO[bytes], name: str) -> IO[bytes]:
    """A packed file of which too much cannot come out; it is read from the front to the end.

    Args:
        file: What unpacks, with `read1`: gzip.GzipFile(fileobj=packed), and the like.
        packed: What it reads from.
        name: Of the file, for messages.
    """
    return io.BufferedReader(_Counted(file, packed, name), _BLOCK)
