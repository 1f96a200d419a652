"""Writes preparations: whole or not at all, one writer for each."""

import contextlib
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from array_record.python import array_record_module

from xlbench.data import readers
from xlbench.data.prepared import format, freshness
from xlbench.data.prepared.format import Manifest, Packed, Record, ShardEntry
from xlbench.system import errors, files, locks

SHARD_EXAMPLES = 50_000
_PARTS = 'parts'  # Below a hidden folder: shards that have no number yet, and their lengths.
# One record a chunk: random access reads and decompresses only the record that was asked for.
_WRITER_OPTIONS = 'group_size:1,zstd:1'


def _host() -> str:
    return re.sub(r'[^A-Za-z0-9]+', '_', socket.gethostname())[:40] or 'host'


def _say(line: str) -> None:
    print(line, flush=True)


def alone(folder: str) -> contextlib.AbstractContextManager[bool]:
    """Holds the folder of a preparation, so that no other process makes it; see `locks.file`.

    What a killed process left of it, on whichever machine, is removed first.
    """
    return locks.file(folder, wait=_say)


@contextlib.contextmanager
def scratch(parent: str, name: str) -> Iterator[str]:
    """Makes a hidden folder for `name`, gone afterwards; its maker is `alone` with `name`."""
    os.makedirs(parent, exist_ok=True)
    path = os.path.join(parent, f'.{name}.{_host()}-{os.getpid()}.tmp')
    shutil.rmtree(path, ignore_errors=True)  # A failed attempt of this process.
    os.mkdir(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _swap_in(temporary: str, target: str) -> None:
    """Makes `temporary` the folder `target`; what was there goes away as a whole.

    A process that is killed between the two renames leaves no target: a preparation to be made.
    """
    parent, name = os.path.split(target)
    old = os.path.join(parent, f'.{name}.old-{_host()}-{os.getpid()}.tmp')
    with contextlib.suppress(FileNotFoundError):
        os.rename(target, old)
    os.rename(temporary, target)
    files.sync_folder(parent)
    shutil.rmtree(old, ignore_errors=True)


class _Shard:
    """An ArrayRecord file that is being written, see `write_shard`; with its lengths beside it."""

    def __init__(self, path: str, first: int, vocabulary_size: int):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.examples = 0
        self._path, self._first, self._size = path, first, vocabulary_size
        self._lengths: list[np.ndarray] = []  # Of each batch, see `Packed`.
        self._file = array_record_module.ArrayRecordWriter(path, _WRITER_OPTIONS)

    def write(self, packed: Packed) -> None:
        for side, (name, largest) in enumerate(zip(format.SIDES, packed.largest, strict=True)):
            sizes = packed.lengths[:, side]
            if not sizes.all():
                number = self._first + self.examples + int(np.argmin(sizes))
                raise ValueError(f'{name} of example {number} is empty; eos is the least')
            if largest >= self._size:
                raise ValueError(f'{name} has id {largest} beyond a vocabulary of {self._size}')
        for data in packed.data:
            self._file.write(data)
        self._lengths.append(packed.lengths)
        self.examples += len(packed)

    def close(self) -> None:
        """Ends it; more than once is harmless."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def finish(self) -> ShardEntry:
        """Returns its entry in the manifest, with the name of its part."""
        self.close()
        with open(self._path, 'rb') as file:
            os.fsync(file.fileno())
        np.save(f'{self._path}.npy', _joined(self._lengths), allow_pickle=False)
        return {
            'file': os.path.basename(self._path),
            'examples': self.examples,
            'bytes': os.path.getsize(self._path),
            'sha256': readers.sha256(self._path),
        }


def _joined(lengths: Sequence[np.ndarray]) -> np.ndarray:
    """Joins the lengths of several batches or shards: [examples, 2] int32."""
    return np.concatenate([np.zeros((0, 2), '<i4'), *lengths])


def write_shard(
    folder: str, index: int, batches: Iterable[Packed], *, first: int, vocabulary_size: int
) -> ShardEntry:
    """Writes one shard for `Writer.adopt`, perhaps on another machine, perhaps more than once.

    `folder` is the `temporary` of the writer, `first` the number of the shard's first example in
    the task and split; every id is below `vocabulary_size`.
    """
    # Whoever writes the same shard at the same time has a file of its own.
    part = f'{index:05d}-{_host()}-{os.getpid()}-{threading.get_native_id()}'
    path = os.path.join(folder, _PARTS, part)
    with contextlib.closing(_Shard(path, first, vocabulary_size)) as shard:
        for batch in batches:
            shard.write(batch)
        return shard.finish()


class Writer:
    """Writes one preparation; the folder appears, complete, when the `with` block ends well.

    Inside the block it is `temporary`, a hidden folder. The manifest has the keys that the caller
    knows; `format`, `code`, `num_examples`, `shards` and `tokens` are filled in here.

    Example:
      with Writer(folder(root, 'mt5', 'mtg_qg_en', 'train'), manifest=manifest) as writer:
        writer.write_batch([{'inputs': ids, 'targets': ids, 'inputs_pretokenized': text}])
    """

    def __init__(self, folder: str, *, manifest: Manifest, shard_examples: int = SHARD_EXAMPLES):
        if shard_examples < 1:
            raise ValueError(f'shard_examples is {shard_examples}; it must be at least 1')
        self.folder = os.path.abspath(folder)
        self._manifest: dict[str, Any] = dict(manifest)
        self._shard_examples = shard_examples
        self._size = (manifest.get('vocabulary') or {}).get('size') or 2**31
        self._scratch = scratch(*os.path.split(self.folder))
        self._shard: _Shard | None = None  # It is being written.
        self._written: list[ShardEntry] = []  # Named by their parts.

    def __enter__(self) -> 'Writer':
        self.temporary = self._scratch.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
            elif self._shard:
                self._shard.close()
        finally:
            self._scratch.__exit__(None, None, None)

    def write_batch(self, records: Iterable[Record]) -> None:
        """Appends records, each with `inputs` and `targets` ids (eos included, untruncated)."""
        self.write_packed(format.pack(list(records)))

    def write_packed(self, packed: Packed) -> None:
        """Appends examples."""
        start = 0
        while start < len(packed):
            if self._shard is None:
                number = len(self._written)
                path = os.path.join(self.temporary, _PARTS, f'{number:05d}')
                self._shard = _Shard(path, number * self._shard_examples, self._size)
            room = self._shard_examples - self._shard.examples
            self._shard.write(packed.part(start, start + room))
            start += room
            if self._shard.examples == self._shard_examples:
                self._end_shard()

    def _end_shard(self) -> None:
        if self._shard:
            self._written.append(self._shard.finish())
            self._shard = None

    def adopt(self, shards: Sequence[ShardEntry]) -> None:
        """Takes over what `write_shard` has written into `temporary`, in place of batches."""
        self._written = list(shards)

    def _finish(self) -> None:
        self._end_shard()
        parts, count = os.path.join(self.temporary, _PARTS), len(self._written)
        shards, lengths_of_shards = [], []
        for index, entry in enumerate(self._written):
            part = os.path.join(parts, entry['file'])
            lengths_of_shards.append(np.load(f'{part}.npy', allow_pickle=False))
            name = f'{index:05d}-of-{count:05d}.array_record'
            os.replace(part, os.path.join(self.temporary, name))
            shards.append(entry | {'file': name})
        shutil.rmtree(parts, ignore_errors=True)
        lengths = _joined(lengths_of_shards)
        lengths_path = os.path.join(self.temporary, format.LENGTHS)
        with files.replacing(lengths_path) as file:
            np.save(file, lengths, allow_pickle=False)
        tokens = {
            name: {'total': int(column.sum(dtype=np.int64)), 'max': int(column.max(initial=0))}
            for name, column in zip(format.SIDES, lengths.T, strict=True)
        }
        manifest = self._manifest | {
            'format': format.FORMAT,
            'code': freshness.code_fingerprint(self._manifest['task']),
            'num_examples': len(lengths),
            'shards': shards,
            'lengths': {'file': format.LENGTHS, 'sha256': readers.sha256(lengths_path)},
            'tokens': tokens,
        }
        files.write(os.path.join(self.temporary, format.MANIFEST), format.json_bytes(manifest))
        files.sync_folder(self.temporary)
        _swap_in(self.temporary, self.folder)


def write_mixture(
    root: str, vocabulary: str, name: str, split: str, rates: Mapping[str, float]
) -> None:
    """Writes or extends `<mixture>.json` by one split: {task: rate}."""
    format.safe_name(name, 'mixture')
    if format.safe_name(split, 'split') in format.MIXTURE_KEYS:
        raise errors.UserError(f'a split cannot be named {split!r} in a mixture file')
    parent = format.vocabulary_path(root, vocabulary)
    os.makedirs(parent, exist_ok=True)
    path = os.path.join(parent, f'{name}.json')
    new = {format.safe_name(task, 'task'): float(rate) for task, rate in rates.items()}
    code = freshness.code_fingerprint(name)
    with locks.file(path, wait=_say):  # Others may be adding splits of their own.
        content: dict[str, Any] = {}
        if os.path.isfile(path):
            with contextlib.suppress(format.NotPrepared):
                content = format.read_json(path)
        if freshness.is_of_other_code(name, content.get('code')):
            content = {}  # Splits of other code are dropped: they are made anew.
        content |= {'name': name, 'code': code, split: new}
        files.write(path, format.json_bytes(content))
