"""Small files: written whole or not at all, and checked when they are read.

  files.write(path, text)                     the whole file or none of it
  with files.replacing(path) as file:         the same, piece by piece
  files.read_json(path, dict[str, float])     its content, checked against a type
"""

import contextlib
import errno
import gzip
import json
import os
import pathlib
import platform
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import GenericAlias, UnionType
from typing import Any, BinaryIO, TypeAlias, TypeVar

import msgspec

from xlbench.system import untrusted
from xlbench.system.errors import UserError, printable

LOCK = '.lock'  # The file in a folder that is locked; see xlbench/system/locks.py.

T = TypeVar('T')
Kind: TypeAlias = type[T] | GenericAlias | UnionType  # What msgspec knows as a type.
# What JSON holds: bool, int, float, str, lists and dicts of them, None. Who reads it, checks it.
Json: TypeAlias = Any
Setting: TypeAlias = Any  # A value in a config; who reads the block, checks it.
Block: TypeAlias = Mapping[str, Setting]


def write(path: str | os.PathLike, data: str | bytes) -> None:
    """Writes a file whole or not at all; what was there stays until the new one is on the disk.

    Its folder must be there. A text is written as UTF-8, with its line ends as they are.

    Raises:
      OSError: it cannot be written; `path` is its `filename`.
    """
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A binary file to write piece by piece in a `with` block; see `write`."""
    path = pathlib.Path(path)
    # Threads, processes and machines that write the same file at the same time have one each.
    writer = f'{platform.node().replace(".", "_")}-{threading.get_native_id()}'
    temporary = path.with_name(f'.{path.name}.{writer}.tmp')
    try:
        with open(temporary, 'wb') as file:
            yield file
            file.flush()
            # Without it a machine that loses power may keep the new name and not the content.
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # What went wrong first is what matters.
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary), temporary):
            with naming(path):
                raise
        raise


@contextlib.contextmanager
def packing(file: BinaryIO, path: str | os.PathLike) -> Iterator[BinaryIO | gzip.GzipFile]:
    """Yields what writes into a file, packed where the name `path` ends in .gz."""
    if not os.fspath(path).endswith('.gz'):
        yield file
        return
    with gzip.GzipFile('', 'wb', fileobj=file, mtime=0) as packed:
        yield packed


def sync_folder(path: str | os.PathLike) -> None:
    """Makes the disk keep the names in a folder; otherwise a loss of power may undo a rename."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # Some file systems cannot.
            raise
    finally:
        os.close(number)


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Removes what writers that were killed left below a folder: hidden names that end in .tmp.

    Only whoever holds the folder's lock calls this (see locks.py), before it writes: then all of it
    is nobody's. Folders below that have a lock of their own are left to who holds that.
    """
    for place, folders, names in os.walk(folder):
        for name in [name for name in folders if _is_temporary(name)]:
            shutil.rmtree(os.path.join(place, name), ignore_errors=True)
        # A checkpoint is whole or absent, and large; its own writer cleans up.
        folders[:] = [
            name
            for name in folders
            if name != 'checkpoints'
            and not _is_temporary(name)
            and not os.path.lexists(os.path.join(place, name, LOCK))
        ]
        for name in filter(_is_temporary, names):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(place, name))


def remove_leftovers_of(path: str | os.PathLike) -> None:
    """Removes what writers of one file, or of one folder that appears whole, left beside it.

    Call it only with the lock of that file held.
    """
    path = pathlib.Path(path)
    pattern = re.compile(rf'\.{re.escape(path.name)}\.(new|[^.]+-\d+)\.tmp')
    with contextlib.suppress(OSError):
        for entry in path.parent.iterdir():
            if pattern.fullmatch(entry.name):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink()


def _is_temporary(name: str) -> bool:
    return name.startswith('.') and name.endswith('.tmp')


def check_new(path: str | os.PathLike) -> None:
    """Raises UserError if something is at a path that a program writes only once."""
    if os.path.lexists(path):
        raise UserError(f'{path} exists already; name another --output, or remove it')


def check_own(
    path: str | os.PathLike, what: str, marks: Sequence[str] = (), heads: Sequence[str] = ()
) -> None:
    """Raises UserError unless a path is free, or has an empty file or one of ours, to be replaced.

    A file of ours, which is `what`, such as 'a report of xlbench', has one of the `marks` in its
    first 300 characters, or begins with one of the `heads`.
    """
    path = pathlib.Path(path)
    if path.is_file() and not path.is_symlink():
        with path.open(encoding='utf-8', errors='replace') as file:
            start = file.read(300)
        if not start or any(mark in start for mark in marks) or start.startswith(tuple(heads)):
            return
    elif not os.path.lexists(path):
        return
    raise UserError(
        f'{path} exists and is not {what}; move it away, or name another --output if there is one'
    )


def is_free(path: str | os.PathLike) -> bool:
    """Says whether a folder holds nothing but what locks, or writers that were killed, left."""
    return all(name == LOCK or _is_temporary(name) for name in os.listdir(path))


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """An OSError in this block is about `path`; a full disk by itself names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def names(folder: str | os.PathLike) -> list[str]:
    """Lists the names in a folder, in order; none if there is no such folder.

    Raises:
      OSError: it may not be listed; `pathlib.Path.glob` would give nothing then.
    """
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def below(folder: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Gives all files below a folder, in no order; none if it is a file or not there.

    Raises:
      OSError: a folder may not be listed; `pathlib.Path.rglob` would leave it out.
    """
    for name in names(folder):
        path = pathlib.Path(folder, name)
        if path.is_dir():
            yield from below(path)
        else:
            yield path


def is_step(name: str) -> bool:
    """Says whether the name of a folder, in checkpoints/ or eval/, is the number of a step."""
    # isdigit alone is true of ² and of other alphabets' digits, too.
    return name.isascii() and name.isdigit() and len(name) < 19


def read_json(
    path: str | os.PathLike, kind: Kind[T], limit: untrusted.Limit = untrusted.CONFIG_BYTES
) -> T:
    """Reads a JSON file, and checks its content against a type.

    The type is `dict[str, float]`, a dataclass, a msgspec.Struct or any other that msgspec knows.
    Keys that a dataclass lacks are left out.

    Raises:
      UserError: it is not there or too large, it is not JSON, or it holds something else.
    """
    return parse_json(untrusted.read_bytes(path, limit), kind, os.fspath(path))


def as_json(value: object) -> str:
    """Indented JSON in the order given, readable in any editor."""
    return json.dumps(value, indent=1, ensure_ascii=False) + '\n'


def check_type(value: object, kind: Kind[T], name: str) -> T:
    """Checks a value that was read already against a type; see `parse_json`."""
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise UserError(f'{name}: {printable(error)}') from None


def parse_json(data: bytes | str | msgspec.Raw, kind: Kind[T], name: str) -> T:
    """Parses a JSON text, and checks its value against a type; see `read_json`.

    Raises:
      UserError: it is no JSON, is nested too deeply, or holds something else. Example:
        about.json: Expected `int`, got `str` - at `$[...]`
    """
    try:
        data = data.encode() if isinstance(data, str) else bytes(data)
        data.decode()  # msgspec does not look into values that it skips.
        value = msgspec.json.decode(data, type=kind)
        if data.count(b'[') + data.count(b'{') > untrusted.JSON_DEPTH.value:
            untrusted.check_depth(msgspec.json.decode(data), name)
        return value
    except RecursionError:
        raise untrusted.too_deep(name) from None
    except msgspec.ValidationError as error:
        raise UserError(f'{name}: {printable(error)}') from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UserError(f'{name}: not JSON: {error}') from None
