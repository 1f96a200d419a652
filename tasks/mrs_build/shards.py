"""Lines by key in one file, which appears when it is whole.

  frames of zstd, those of key 0 first | num_keys + 1 offsets, uint64 | counts, JSON | _END

A reader of one key seeks to its frames, whatever else the file holds.
"""

import collections
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

from backports import zstd

from xlbench.system import files

_END = struct.Struct('<QQ8s')  # num_keys, bytes of the counts, _MAGIC.
_MAGIC = b'mrsshard'
_FLUSH = 16 * 2**20  # Characters that wait for compression.
_LEVEL = 3


class Writer:
    """Holds compressed lines in memory until `close`, so a job's output has to fit there.

    Args:
      path: of the file; its folder exists.
      num_keys: keys are 0 to num_keys - 1.
    """

    def __init__(self, path: str, num_keys: int):
        self._path = path
        self._frames: list[list[bytes]] = [[] for _ in range(num_keys)]
        self._lines: list[list[str]] = [[] for _ in range(num_keys)]
        self._waiting = 0

    def add(self, key: int, line: str) -> None:
        """Adds a line, without its line end."""
        self._lines[key].append(line)
        self._waiting += len(line)
        if self._waiting > _FLUSH:
            self._flush()

    def _flush(self) -> None:
        for lines, frames in zip(self._lines, self._frames, strict=True):
            if lines:
                lines.append('')
                frames.append(zstd.compress('\n'.join(lines).encode(), _LEVEL))
                lines.clear()
        self._waiting = 0

    def close(self, counts: Mapping[str, int]) -> None:
        """Makes the file appear, with the counts of the job that wrote it."""
        self._flush()
        offsets = [0]
        for frames in self._frames:
            offsets.append(offsets[-1] + sum(map(len, frames)))
        text = json.dumps(counts).encode()
        with files.replacing(self._path) as file:
            for frames in self._frames:
                file.writelines(frames)
            file.write(struct.pack(f'<{len(offsets)}Q', *offsets))
            file.write(text)
            file.write(_END.pack(len(self._frames), len(text), _MAGIC))


def data(path: str, key: int) -> bytes:
    """The lines of a key, each with its line end."""
    with open(path, 'rb') as file:
        num_keys, length, _ = _end(file)
        file.seek(-_END.size - length - 8 * (num_keys + 1 - key), os.SEEK_END)
        start, end = struct.unpack('<2Q', file.read(16))
        file.seek(start)
        return zstd.decompress(file.read(end - start)) if end > start else b''


def lines(path: str, key: int) -> Iterator[str]:
    """The lines of a key, without line ends."""
    text = data(path, key).decode()
    yield from text.split('\n')[:-1]


def counts(path: str) -> collections.Counter[str]:
    """The counts that the file was closed with."""
    with open(path, 'rb') as file:
        _, length, _ = _end(file)
        file.seek(-_END.size - length, os.SEEK_END)
        return collections.Counter(json.loads(file.read(length)))


def total(paths: Iterable[str]) -> collections.Counter[str]:
    """The counts of several files."""
    every: collections.Counter[str] = collections.Counter()
    for path in paths:
        every.update(counts(path))
    return every


def reasons(counts: Mapping[str, int], name: str) -> collections.Counter[str]:
    """The counts of NAME/REASON by reason, without zeros."""
    start = f'{name}/'
    return collections.Counter(
        {
            key.removeprefix(start): n
            for key, n in sorted(counts.items())
            if key.startswith(start) and n
        }
    )


def _end(file: BinaryIO) -> tuple[int, int, bytes]:
    file.seek(-_END.size, os.SEEK_END)
    return _END.unpack(file.read(_END.size))
