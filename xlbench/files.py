"""Small files: nobody ever sees half of one that we write, and we trust none that we read.

  files.write(path, text)                     the whole file or none of it
  files.read_json(path, dict[str, float])     its content, checked against a type
"""

import contextlib
import os
import pathlib
import platform
import re
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from xlbench import limits
from xlbench.errors import UserError

T = TypeVar('T')


def write(path: str | os.PathLike, data: str | bytes) -> None:
    """Writes a file whole or not at all; what was there stays until the new one is on the disk.

    Args:
        path: Of the file; its folder must be there.
        data: What it shall hold; a text is written as UTF-8, with its line ends as they are.

    Raises:
        OSError: It cannot be written; `path` is its `filename`.
    """
    path = pathlib.Path(path)
    data = data.encode() if isinstance(data, str) else data
    # Threads, processes and machines that write the same file at the same time have one each.
    writer = f'{platform.node()}-{threading.get_native_id()}'
    temporary = path.with_name(f'.{path.name}.{writer}.tmp')
    with naming(path):
        try:
            with open(temporary, 'wb') as file:
                file.write(data)
                file.flush()
                # Without it a machine that loses power may keep the new name and not the content.
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):  # What went wrong first is what matters.
                temporary.unlink()
            raise


def remove_leftovers(folder: str | os.PathLike) -> None:
    """Removes what writers of this machine, killed in the middle of `write`, left below a folder.

    Only whoever owns the folder calls this; files of writers that are alive, and of other
    machines, stay.
    """
    if not os.path.isdir('/proc/self'):
        return  # Whether a thread is alive cannot be asked here.
    pattern = re.compile(rf'\..+\.{re.escape(platform.node())}-(\d+)\.tmp')
    for place, folders, names in os.walk(folder):
        # A checkpoint is whole or absent, and large; its own writer cleans up.
        folders[:] = [name for name in folders if name != 'checkpoints']
        for name in names:
            match = pattern.fullmatch(name)
            if match and not os.path.exists(f'/proc/{match[1]}'):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(place, name))


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """An OSError in this block is about `path`; a full disk by itself names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_step(name: str) -> bool:
    """Whether the name of a folder, in checkpoints/ or eval/, is the number of a step."""
    # isdigit alone is true of ² and of other alphabets' digits, too.
    return name.isascii() and name.isdigit() and len(name) < 19


def read_json(
    path: str | os.PathLike, kind: type[T] | Any, limit: limits.Limit = limits.CONFIG_BYTES
) -> T:
    """The content of a JSON file, checked against a type.

    Args:
        path: Of the file.
        kind: What it shall hold: `dict[str, float]`, a dataclass, a msgspec.Struct or any other
            type that msgspec knows. Keys that a dataclass lacks are left out.
        limit: On the bytes that it may have.

    Raises:
        UserError: It is not there or too large, it is not JSON, or it holds something else.
    """
    return parse_json(limits.read_bytes(path, limit), kind, os.fspath(path))


def check_type(value: Any, kind: type[T] | Any, name: str) -> T:
    """What was read already, checked against a type; see `parse_json`."""
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise UserError(f'{name}: {error}') from None


def parse_json(data: bytes | str | msgspec.Raw, kind: type[T] | Any, name: str) -> T:
    """The value of a JSON text, checked against a type.

    Args:
        data: The text.
        kind: See `read_json`.
        name: Of the text, for the message: a file, or a file and a line.

    Raises:
        UserError: It is no JSON, is nested too deeply, or holds something else.

    Example: parse_json('{"step": "3"}', dict[str, int], 'about.json') ->
      about.json: Expected `int`, got `str` - at `$[...]`
    """
    try:
        data = data.encode() if isinstance(data, str) else bytes(data)
        value = msgspec.json.decode(data, type=kind)
        if data.count(b'[') + data.count(b'{') > limits.JSON_DEPTH.value:
            limits.check_depth(msgspec.json.decode(data), name)
        return value
    except RecursionError:
        raise UserError(f'{name} is nested too deeply') from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UserError(f'{name}: {error}') from None
