"""Files from elsewhere: only regular files inside a folder are read, and only so much of them.

A downloaded checkpoint, a workdir or prepared data may hold a link to any file of this machine. A
program that opened the link would read that file, and a copy of the folder would publish it. A
program that opened a FIFO would wait forever.

  untrusted.file(folder, 'config.json')     its path, or None if nothing has that name
  untrusted.check_tree(workdir, folder)     the same of all files below, for others to open

Links that stay inside a folder are followed. So are those of a snapshot in the cache of
huggingface_hub, models--NAME/snapshots/REVISION/FILE, that lead to its models--NAME/blobs/. With
XLBENCH_LINKS=follow all links are followed, for those that a user has made.

No file can fill the memory, or keep a program busy without end. SECURITY.md lists the limits, each
with a variable of the environment that changes it:

  untrusted.LINE_BYTES.value                             the number that holds now
  untrusted.read_bytes(path, untrusted.CONFIG_BYTES)     a small file as a whole
  untrusted.open_packed(gzip.GzipFile(fileobj=raw), raw, path)   what unpacks, counted as it is read
  untrusted.check_depth(value, path)                     a JSON value
"""

import contextlib
import dataclasses
import errno
import io
import os
import pathlib
import stat
from typing import IO, BinaryIO, Protocol

from xlbench.system import errors
from xlbench.system.errors import UserError, shortened

FOLLOW = 'XLBENCH_LINKS', 'follow'  # The variable of the environment, and its value.

_KINDS = (
    (stat.S_ISDIR, 'a folder'),
    (stat.S_ISFIFO, 'a FIFO'),
    (stat.S_ISSOCK, 'a socket'),
    (stat.S_ISCHR, 'a device'),
    (stat.S_ISBLK, 'a device'),
)


def file(folder: str | os.PathLike, name: str | os.PathLike) -> pathlib.Path | None:
    """The path of a regular file inside a folder, such as 'left/config.json'; None if it is absent.

    The folder, which somebody has named, may itself be a link.

    Raises:
      UserError: what is there is a link that leads out of the folder or nowhere, or no file.
    """
    path = pathlib.Path(folder, name)
    status = _status(path, pathlib.Path(folder))
    if status is None:
        return None
    _check_regular(path, status)
    return path


def check_tree(folder: str | os.PathLike, tree: str | os.PathLike) -> None:
    """Raises UserError unless all below `tree` are folders and regular files inside `folder`.

    Nothing is wrong with a tree that is not there. Whoever locks a folder to write into it asks it,
    too; see locks.py.
    """
    folder, rest, seen = pathlib.Path(folder), [pathlib.Path(tree)], set()
    while rest:
        path = rest.pop()
        status = _status(path, folder)
        if status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            _check_regular(path, status)
        elif (place := (status.st_dev, status.st_ino)) not in seen:  # Links may lead in circles.
            seen.add(place)
            with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
                # A file itself is inside, as its folder is: of many files, only links cost time.
                rest += [pathlib.Path(e) for e in entries if not e.is_file(follow_symlinks=False)]


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Opens a regular file to read bytes; nothing else is waited for.

    Raises:
      UserError: it is a FIFO, a device, a socket or a folder.
      OSError: it cannot be opened.
    """
    # Without O_NONBLOCK, opening a FIFO lasts until somebody writes into it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(pathlib.Path(path), os.fstat(handle))
        return os.fdopen(handle, 'rb')
    except BaseException:
        os.close(handle)
        raise


def _check_regular(path: pathlib.Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for test, kind in _KINDS if test(status.st_mode)), 'something else')
        raise UserError(f'{path} cannot be read: it is {kind}, not a file')


def _status(path: pathlib.Path, folder: pathlib.Path) -> os.stat_result | None:
    """Looks up a path that must stay inside a folder; None if nothing has its name."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL, or a surrogate.
        if getattr(error, 'errno', None) not in (None, errno.ENAMETOOLONG, errno.ELOOP):
            raise
        place = f'{folder}'[:300]  # It may have been named by a file, too.
        raise UserError(f'{place}: {shortened(path.name)} is not a name of a file') from None
    try:
        target, root = path.resolve(strict=True), folder.resolve(strict=True)
        status = os.stat(target)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop, before Python 3.13.
        if isinstance(error, PermissionError):
            raise
        if not os.path.lexists(path):  # Somebody has just removed it.
            return None
        raise UserError(f'{path} is a link that leads nowhere') from None
    if os.environ.get(FOLLOW[0]) == FOLLOW[1]:
        return status
    places, hub = [root], root.parent.parent
    if root.parent.name == 'snapshots' and hub.name.startswith('models--'):  # In the hub's cache.
        places.append(hub / 'blobs')
    if not any(map(target.is_relative_to, places)):
        raise UserError(
            f'{path} leads to {target}, outside of {folder}, and only files inside are used; put '
            f'a copy in its place, or set {"=".join(FOLLOW)} if you made the link yourself'
        )
    return status


# Limits.
_FREE = 1 << 20  # Bytes of expansion: small files may repeat themselves as often as they like.
_BLOCK = 1 << 20


class Exceeded(UserError):
    """A file is over a limit."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """A limit, and the environment variable that changes it."""

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
      UserError: it cannot be read, or it has more bytes than the limit allows; Unreadable if it
        is there, and the disk or the system does not give it.
    """
    try:
        with open_regular(path) as file:
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

    The limit on the whole size holds for a file that `has_end`; it does not for dumps, which are
    read block by block and are truly large.
    """

    def __init__(self, name: str, has_end: bool = True):
        self._name = name
        self._ratio = EXPANSION.value
        self._most = EXPANDED_BYTES.value if has_end else 1 << 62
        self.size = 0

    def add(self, unpacked: int, position: int) -> None:
        """Counts bytes that have come out; Exceeded if they are too many for the `position`.

        That is how many bytes of the packed file have been read by now.
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

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # of BufferedReader
        data = self._file.read1(len(buffer))
        self._expansion.add(len(data), self._packed.tell())
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._packed.close()
        super().close()


def open_packed(file: _Unpacking, packed: IO[bytes], name: str) -> io.BufferedReader:
    """A packed file of which too much cannot come out; it is read from the front to the end.

    It unpacks with `read1`, as gzip.GzipFile(fileobj=packed) does.
    """
    return io.BufferedReader(_Counted(file, packed, name), _BLOCK)
