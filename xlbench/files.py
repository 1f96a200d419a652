"""Writing small files so that a reader, or the next start of a run, never sees half of one."""

import contextlib
import os
import pathlib
import platform
import threading
from collections.abc import Iterator


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


@contextlib.contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """An OSError in this block is about `path`; a full disk by itself names no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
