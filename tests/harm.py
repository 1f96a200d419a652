"""Harm to the files of a checkpoint, as disks and copies do it."""

import os
import pathlib


def array_files(workdir: pathlib.Path, step: int) -> list[pathlib.Path]:
    """All files that hold arrays of a checkpoint.

    Harm all of them: how the arrays are shared out among files differs from save to save, and some
    bytes of a file are of an index that a later one replaced, so that nothing reads them.
    """
    return [p for p in (workdir / 'checkpoints' / str(step)).rglob('d/*') if p.is_file()]


def alter(path: pathlib.Path) -> None:
    """Changes a few bits here and there; the size stays."""
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 2 % 500, len(content), 500):
        content[place] ^= 0x5A
    path.write_bytes(content)


def alter_arrays(workdir: pathlib.Path, step: int) -> None:
    """Changes a few bits of every file that holds arrays."""
    for path in array_files(workdir, step):
        alter(path)


def cut_arrays(workdir: pathlib.Path, step: int) -> None:
    """Leaves 100 bytes of every file that holds arrays."""
    for path in array_files(workdir, step):
        os.truncate(path, 100)
