"""Lines by key in one file, which appears when it is whole.

  frames of zstd, those of key 0 first | num_keys + 1 offsets, uint64 | counts, JSON | _END

A reader of one key seeks to its frames, whatever else the file holds.
"""

import collections
import heapq
import itertools
import json
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO

from backports import zstd

from xlbench.system import files

_END = struct.Struct('<QQ8s')  # num_keys, bytes of the counts, _MAGIC.
_MAGIC = b'mrsshard'
_FLUSH = 16 * 2**20  # Characters that wait for compression.
_LEVEL = 3
_MOST_GROUPS = 2**20


class Writer:
    """Compressed lines wait in a nameless file until `close`.

    Keys are 0 to num_keys - 1; further ones come with their first line.
    """

    def __init__(self, path: str, num_keys: int):
        self._path = path
        self._file = _nameless(os.path.dirname(path) or '.')
        self._frames: list[list[tuple[int, int]]] = [[] for _ in range(num_keys)]  # Start, length.
        self._lines: list[list[str]] = [[] for _ in range(num_keys)]
        self._waiting = 0

    def add(self, key: int, line: str) -> None:
        """Adds a line, without its line end."""
        for _ in range(key + 1 - len(self._lines)):
            self._lines.append([])
            self._frames.append([])
        self._lines[key].append(line)
        self._waiting += len(line)
        if self._waiting > _FLUSH:
            self._flush()

    def _flush(self) -> None:
        for lines, frames in zip(self._lines, self._frames, strict=True):
            if lines:
                lines.append('')
                start, frame = self._file.tell(), zstd.compress('\n'.join(lines).encode(), _LEVEL)
                frames.append((start, self._file.write(frame)))
                lines.clear()
        self._waiting = 0

    def close(self, counts: Mapping[str, int]) -> None:
        """Makes the file appear, with the counts of the job that wrote it."""
        self._flush()
        offsets = [0]
        for frames in self._frames:
            offsets.append(offsets[-1] + sum(length for _, length in frames))
        text = json.dumps(counts).encode()
        with self._file, files.replacing(self._path) as file:
            for start, length in itertools.chain.from_iterable(self._frames):
                self._file.seek(start)
                file.write(self._file.read(length))
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


def groups(
    read: Callable[[], Iterable[str]], key: Callable[[str], int], most: int
) -> Iterator[list[str]]:
    """Yields lines in groups that fit into memory; all lines of a key are in one of them.

    `read` gives the lines, again for each group, and `key` a hash of what keeps lines together.
    `most` bytes are for a group and the objects that are made of its lines; lines of one key that
    need more are a group all the same.
    """
    waiting = [(1, 0)]
    while waiting:
        count, number = waiting.pop()
        group: list[str] = []
        size = 0
        for line in read():
            if count > 1 and key(line) % count != number:
                continue
            group.append(line)
            size += _memory(line)
            while size > most and count < _MOST_GROUPS:
                waiting.append((2 * count, number + count))
                count *= 2
                group = [one for one in group if key(one) % count == number]
                size = sum(map(_memory, group))
        yield group


class Runs:
    """Sorted lines of several groups, merged; groups before the last one wait in nameless files.

    Each group is sorted by the `order` of the lines of a key.
    """

    def __init__(self, folder: str, order: Callable[[str], object]):
        self._folder, self._order = folder, order
        self._lines: dict[int, list[str]] = collections.defaultdict(list)
        self._written: list[BinaryIO] = []

    def begin(self) -> None:
        """Begins a group."""
        if self._lines:
            file = _nameless(self._folder)
            file.writelines(f'{key}\t{line}\n'.encode() for key, line in self._last())
            self._written.append(file)
            self._lines.clear()

    def add(self, key: int, line: str) -> None:
        """Adds a line of the group, behind those before it."""
        self._lines[key].append(line)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """All lines with their keys, those of a key in their order."""
        if not self._written:
            return self._last()
        parts = [self._last(), *map(_written, self._written)]
        return heapq.merge(*parts, key=lambda item: (item[0], self._order(item[1])))

    def _last(self) -> Iterator[tuple[int, str]]:
        return ((key, line) for key in sorted(self._lines) for line in self._lines[key])


def _written(file: BinaryIO) -> Iterator[tuple[int, str]]:
    file.seek(0)
    for line in file:
        key, _, text = line.decode().partition('\t')
        yield int(key), text.removesuffix('\n')


def _nameless(folder: str) -> BinaryIO:
    """A file that is gone when it is closed, or its process ends."""
    return tempfile.TemporaryFile(dir=folder)


def _memory(line: str) -> int:
    """Bytes of a line and of its columns as a tuple of texts in a dict."""
    return 2 * sys.getsizeof(line) + 600


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
    start, pairs = f'{name}/', sorted(counts.items())
    chosen = {key.removeprefix(start): n for key, n in pairs if key.startswith(start) and n}
    return collections.Counter(chosen)


def _end(file: BinaryIO) -> tuple[int, int, bytes]:
    file.seek(-_END.size, os.SEEK_END)
    return _END.unpack(file.read(_END.size))
