"""Harm to the files of a checkpoint, as disks and copies do it, or somebody who edits them."""

import hashlib
import json
import os
import pathlib
from typing import Any

RECORD = 'checkpoint.json'


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


def alter_bit(path: pathlib.Path, number: int) -> None:
    """Changes one bit of a file; the first one has the number 0."""
    content = bytearray(path.read_bytes())
    content[number // 8] ^= 1 << number % 8
    path.write_bytes(content)


def edit_progress(workdir: pathlib.Path, step: int, **changes: Any) -> None:
    """Changes values of the progress of a checkpoint, and the checksum to fit them."""
    path = workdir / 'checkpoints' / str(step) / RECORD
    content = json.loads(path.read_bytes())
    content['progress'] |= changes
    sign(path, content)


def sign(path: pathlib.Path, content: dict[str, Any]) -> None:
    """Writes the record of a checkpoint with the right checksum."""
    body = json.dumps({k: v for k, v in content.items() if k != 'sha256'}).encode()[1:]
    path.write_bytes(b'{"sha256": "%s",' % hashlib.sha256(body).hexdigest().encode() + body)


def as_earlier(workdir: pathlib.Path, step: int) -> pathlib.Path:
    """Gives a checkpoint the files that earlier versions wrote, without sums; its progress."""
    folder = workdir / 'checkpoints' / str(step)
    content = json.loads((folder / RECORD).read_bytes())
    files = {
        'progress/metadata': content['progress'],
        'sums/metadata': content['sums'] | {'formula': content['formula']},
    }
    for name, value in files.items():
        (folder / name).parent.mkdir()
        (folder / name).write_text(json.dumps(value))
    sizes = {name: size for name, (size, _) in content['files'].items()}
    sizes['sums/metadata'] = (folder / 'sums' / 'metadata').stat().st_size
    (folder / 'files.json').write_text(json.dumps(sizes))
    (folder / RECORD).unlink()
    return folder / 'progress' / 'metadata'
