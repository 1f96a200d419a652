"""Writes preparations: whole or not at all, one writer for each."""

import contextlib
import io
import itertools
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType

import numpy as np
from array_record.python import array_record_module

from xlbench.data import readers
from xlbench.data.prepared import freshness
from xlbench.data.prepared.format import (
    FORMAT,
    LENGTHS,
    MANIFEST,
    MIXTURE_KEYS,
    SIDES,
    Manifest,
    NotPrepared,
    Packed,
    Record,
    ShardEntry,
    json_bytes,
    pack,
    read_json,
    safe_name,
    shard_path,
    vocabulary_path,
)
from xlbench.system import errors, files, locks

SHARD_EXAMPLES = 50_000
_BATCH = 1024  # Records that are checked together.
_PARTS = 'parts'  # Below a hidden folder: what `write_shard` leaves beside shards.
# One record a chunk: random access reads and decompresses only the record that was asked for.
_WRITER_OPTIONS = 'group_size:1,zstd:1'


def _host() -> str:
    return re.sub(r'[^A-Za-z0-9]+', '_', socket.gethostname())[:40] or 'host'


def _say(line: str) -> None:
    print(line, flush=True)


@contextlib.contextmanager
def alone(folder: str) -> Iterator[bool]:
    """Holds a preparation in a `with` block, so that no other process makes it at the same time.

    What a process that was killed left of it, on whichever machine, is removed first.

    Args:
      folder: of the preparation, there or not.

    Yields:
      Whether another process was waited for, who may have made it.
    """
    parent, name = os.path.split(os.path.abspath(folder))
    with locks.file(folder, wait=_say) as waited:
        with os.scandir(parent) as entries:
            prefixes = f'.{name}.tmp-', f'.{name}.old-'
            leftovers = [entry.path for entry in entries if entry.name.startswith(prefixes)]
        for path in leftovers:
            shutil.rmtree(path, ignore_errors=True)
        yield waited


@contextlib.contextmanager
def scratch(parent: str, name: str) -> Iterator[str]:
    """A hidden folder to make `name` in, gone afterwards; whoever makes it is `alone` with it."""
    os.makedirs(parent, exist_ok=True)
    path = os.path.join(parent, f'.{name}.tmp-{_host()}-{os.getpid()}')
    shutil.rmtree(path, ignore_errors=True)  # A failed attempt of this process.
    os.mkdir(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _swap_in(temporary: str, target: str, old: str) -> None:
    """Makes `temporary` the folder `target`; what was there goes away as a whole.

    A folder cannot be renamed onto a full one, so an existing target steps aside first. Whoever is
    killed between the two renames leaves no target at all, which is a preparation to be made.
    """
    with contextlib.suppress(FileNotFoundError):
        os.rename(target, old)
    os.rename(temporary, target)
    files.sync_folder(os.path.dirname(target))
    shutil.rmtree(old, ignore_errors=True)


class _Shard:
    """An ArrayRecord file that is being written.

    Args:
      path: of the file.
      first: the number of its first example in the task and split.
      vocabulary_size: every id is below it.
    """

    def __init__(self, path: str, first: int, vocabulary_size: int):
        self.path = path
        self.lengths: list[np.ndarray] = []  # Of each batch, see `Packed`.
        self.examples = 0
        self._first = first
        self._size = vocabulary_size
        self._file = array_record_module.ArrayRecordWriter(path, _WRITER_OPTIONS)

    def write(self, packed: Packed) -> None:
        for side, (name, largest) in enumerate(zip(SIDES, packed.largest, strict=True)):
            sizes = packed.lengths[:, side]
            if not sizes.all():
                number = self._first + self.examples + int(np.argmin(sizes))
                raise ValueError(f'{name} of example {number} is empty; eos is the least')
            if largest >= self._size:
                raise ValueError(f'{name} has id {largest} beyond a vocabulary of {self._size}')
        for data in packed.data:
            self._file.write(data)
        self.lengths.append(packed.lengths)
        self.examples += len(packed)

    def close(self) -> None:
        """Ends it; more than once is harmless."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def finish(self, path: str) -> ShardEntry:
        """Gives the file its name; returns its entry in the manifest."""
        self.close()
        with open(self.path, 'rb') as file:
            os.fsync(file.fileno())
        os.replace(self.path, path)
        return {
            'file': os.path.basename(path),
            'examples': self.examples,
            'bytes': os.path.getsize(path),
            'sha256': readers.sha256(path),
        }


def _batches(records: Iterable[Record]) -> Iterator[Packed]:
    for _, alike in itertools.groupby(records, lambda record: record.keys()):
        while batch := list(itertools.islice(alike, _BATCH)):
            yield pack(batch)


def _joined(lengths: Sequence[np.ndarray]) -> np.ndarray:
    """The lengths of several batches or shards, [examples, 2] int32."""
    return np.concatenate([np.zeros((0, 2), '<i4'), *lengths])


def write_shard(
    folder: str,
    index: int,
    shards: int,
    records: Iterable[Record],
    *,
    first: int,
    vocabulary_size: int,
) -> ShardEntry:
    """Writes one shard for `Writer.adopt`, perhaps on another machine, perhaps more than once.

    Args:
      folder: the `temporary` of the writer.
      index: of the shard.
      shards: how many there are.
      records: its examples; see `Writer.write_batch`.
      first: the number of its first example in the task and split.
      vocabulary_size: every id is below it.

    Returns:
      Its entry in the manifest.
    """
    path = shard_path(folder, index, shards)
    parts = os.path.join(folder, _PARTS)
    os.makedirs(parts, exist_ok=True)
    # Whoever writes the same shard at the same time has a file of its own.
    part = f'{index:05d}-{_host()}-{os.getpid()}-{threading.get_native_id()}'
    shard = _Shard(os.path.join(parts, part), first, vocabulary_size)
    try:
        for batch in _batches(records):
            shard.write(batch)
    finally:
        shard.close()
    lengths = io.BytesIO()
    np.save(lengths, _joined(shard.lengths), allow_pickle=False)
    files.write(os.path.join(parts, f'{os.path.basename(path)}.npy'), lengths.getvalue())
    return shard.finish(path)


class Writer:
    """Writes one preparation; the folder appears, complete, when the `with` block ends well.

    What a killed writer leaves, the next one removes who is `alone` with the folder.

    Args:
      folder: where it shall be; its parents are made.
      manifest: the keys that the caller knows; `format`, `code`, `num_examples`, `shards` and
        `tokens` are filled in here.
      shard_examples: examples of one ArrayRecord file.

    Attributes:
      temporary: the hidden folder that becomes it, inside the `with` block.

    Example:
      with Writer(folder(root, 'mt5', 'mtg_qg_en', 'train'), manifest=manifest) as writer:
        writer.write_batch([{'inputs': ids, 'targets': ids, 'inputs_pretokenized': text}])
    """

    def __init__(self, folder: str, *, manifest: Manifest, shard_examples: int = SHARD_EXAMPLES):
        if shard_examples < 1:
            raise ValueError(f'shard_examples is {shard_examples}; it must be at least 1')
        self.folder = os.path.abspath(folder)
        self._manifest = dict(manifest)
        self._shard_examples = shard_examples
        self._size = (manifest.get('vocabulary') or {}).get('size') or 2**31
        parent, name = os.path.split(self.folder)
        self._scratch = scratch(parent, name)
        self._old = os.path.join(parent, f'.{name}.old-{_host()}-{os.getpid()}')
        self._shards: list[_Shard] = []
        self._adopted: list[ShardEntry] = []

    def __enter__(self) -> 'Writer':
        self.temporary = self._scratch.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for shard in self._shards:
                shard.close()
            if kind is None:
                self._finish()
        finally:
            self._scratch.__exit__(None, None, None)

    def write_batch(self, records: Iterable[Record]) -> None:
        """Appends records, each with `inputs` and `targets` ids (eos included, untruncated)."""
        for packed in _batches(records):
            self.write_packed(packed)

    def write_packed(self, packed: Packed) -> None:
        """Appends what `pack` has made of examples."""
        start = 0
        while start < len(packed):
            if not self._shards or self._shards[-1].examples == self._shard_examples:
                self._next_shard()
            room = self._shard_examples - self._shards[-1].examples
            self._shards[-1].write(packed.part(start, start + room))
            start += room

    def _next_shard(self) -> None:
        if self._shards:
            self._shards[-1].close()
        number = len(self._shards)
        path = os.path.join(self.temporary, f'{number:05d}.part')
        self._shards.append(_Shard(path, number * self._shard_examples, self._size))

    def adopt(self, shards: Sequence[ShardEntry]) -> None:
        """Takes over what `write_shard` has written into `temporary`, in place of batches."""
        self._adopted = list(shards)

    def _finish(self) -> None:
        parts, shards = os.path.join(self.temporary, _PARTS), list(self._adopted)
        lengths_of_shards = [
            np.load(os.path.join(parts, f'{shard["file"]}.npy'), allow_pickle=False)
            for shard in shards
        ]
        shutil.rmtree(parts, ignore_errors=True)
        for index, shard in enumerate(self._shards):
            lengths_of_shards.append(_joined(shard.lengths))
            shards.append(shard.finish(shard_path(self.temporary, index, len(self._shards))))
        lengths = _joined(lengths_of_shards)
        lengths_path = os.path.join(self.temporary, LENGTHS)
        with open(lengths_path, 'wb') as file:
            np.save(file, lengths, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        tokens = {
            name: {
                'total': int(lengths[:, column].sum(dtype=np.int64)),
                'max': int(lengths[:, column].max(initial=0)),
            }
            for column, name in enumerate(('inputs', 'targets'))
        }
        manifest = self._manifest | {
            'format': FORMAT,
            'code': freshness.code_fingerprint(self._manifest['task']),
            'num_examples': len(lengths),
            'shards': shards,
            'lengths': {'file': LENGTHS, 'sha256': readers.sha256(lengths_path)},
            'tokens': tokens,
        }
        files.write(os.path.join(self.temporary, MANIFEST), json_bytes(manifest))
        files.sync_folder(self.temporary)
        _swap_in(self.temporary, self.folder, self._old)


def write_mixture(
    root: str, vocabulary: str, name: str, split: str, rates: Mapping[str, float]
) -> None:
    """Writes or extends `<mixture>.json` by one split: {task: rate}."""
    safe_name(name, 'mixture')
    if safe_name(split, 'split') in MIXTURE_KEYS:
        raise errors.UserError(f'a split cannot be named {split!r} in a mixture file')
    parent = vocabulary_path(root, vocabulary)
    os.makedirs(parent, exist_ok=True)
    path = os.path.join(parent, f'{name}.json')
    new = {safe_name(task, 'task'): float(rate) for task, rate in rates.items()}
    code = freshness.code_fingerprint(name)
    with locks.file(path, wait=_say):  # Others may be adding splits of their own.
        content: dict[str, str | dict[str, float] | None] = {}
        if os.path.isfile(path):
            with contextlib.suppress(NotPrepared):
                content = read_json(path)
        if freshness.is_of_other_code(name, content.get('code')):
            content = {}  # Splits of other code are dropped: they are made anew.
        content |= {'name': name, 'code': code, split: new}
        files.write(path, json_bytes(content))
