"""Prepared examples on disk: one folder for each task and split, written once, read at random.

  <root>/prepared/<vocabulary>/<task>/<split>/
    manifest.json               what is here, made from what, with which vocabulary and metrics
    lengths.npy                 [num_examples, 2] int32: tokens of inputs and of targets
    00000-of-00004.array_record the examples; a record is a msgpack map, see `encode`
  <root>/prepared/<vocabulary>/<mixture>.json   {"name", "code", split: {task: rate}}

The same inputs give the same bytes. A folder is complete or absent: `Writer` fills a hidden folder
beside the target and renames it when every byte is on disk.

Prepared data may have been downloaded, so nothing in it is trusted: JSON, msgpack and plain numpy
only, every size is checked, and no name in it can lead out of its folder.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgpack
import msgspec
import numpy as np
from array_record.python import array_record_module

from xlbench import errors, files, foreign, locks, tasks
from xlbench.benchmarks import languages
from xlbench.data import freshness, readers

FORMAT = 1
MANIFEST = 'manifest.json'
LENGTHS = 'lengths.npy'
SHARD_EXAMPLES = 50_000
_PARTS = 'parts'  # Below a hidden folder: what `write_shard` leaves beside shards.
MAX_RECORD_BYTES = 64 * 2**20
# One record a chunk: random access reads and decompresses only the record that was asked for.
_WRITER_OPTIONS = 'group_size:1,zstd:1'
_READER_OPTIONS = 'readahead_buffer_size:0'
# No file system takes a longer name.
_SAFE_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}')
_MIXTURE_KEYS = frozenset({'name', 'code'})
_CHANGED = 'its task file, or a declared version of what prepares it, has changed'


class NotPrepared(Exception):
    """A preparation that is missing, stale or broken; `xlbench.prepare` can make it (again)."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


# ---------------------------------------------------------------------------------------------
# Names and places.


def _safe_name(name: Any, what: str) -> str:
    """`name` if it is one plain path component, else UserError."""
    if not isinstance(name, str) or not _SAFE_NAME.fullmatch(name) or '..' in name:
        raise errors.UserError(
            f'{what} {errors.shortened(name)} is not a plain name: up to 255 letters, digits, "_", '
            '"-", "." and no folder'
        )
    return name


def vocabulary_folder(vocabulary: str) -> str:
    """The folder name of a vocabulary. Example: google/mt5-base -> google--mt5-base."""
    name = vocabulary.replace('/', '--')
    if _SAFE_NAME.fullmatch(name) and '..' not in name and not vocabulary.startswith('/'):
        return name
    digest = hashlib.sha256(vocabulary.encode()).hexdigest()[:8]
    tail = re.sub(r'[^A-Za-z0-9_]+', '_', os.path.splitext(vocabulary)[0])[-40:].strip('_')
    return f'{tail or "vocabulary"}-{digest}'


def _vocabulary_path(root: str, vocabulary: str) -> str:
    return os.path.join(root, 'prepared', vocabulary_folder(vocabulary))


def folder(root: str, vocabulary: str, task: str, split: str) -> str:
    """The folder of one prepared task and split."""
    return os.path.join(
        _vocabulary_path(root, vocabulary), _safe_name(task, 'task'), _safe_name(split, 'split')
    )


# ---------------------------------------------------------------------------------------------
# One record.


def encode(record: Mapping[str, Any]) -> bytes:
    """A record -> msgpack map of feature name -> bytes of little-endian int32, or str.

    Example: {'inputs': np.array([5, 1]), 'lang': 'de'} ->
      msgpack of {'inputs': b'\\x05\\0\\0\\0\\x01\\0\\0\\0', 'lang': 'de'}
    """
    fields = {}
    for name in sorted(record):
        value = record[name]
        if isinstance(value, str):
            fields[name] = value
            continue
        array = np.asarray(value)
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
            raise ValueError(
                f'feature {name!r} has shape {array.shape} and type {array.dtype}; '
                'a record holds str and one-dimensional integer arrays'
            )
        if array.size and (array.min() < 0 or array.max() > np.iinfo(np.int32).max):
            raise ValueError(f'feature {name!r} has ids outside 0..2**31-1')
        fields[name] = array.astype('<i4').tobytes()
    data = msgpack.packb(fields, use_bin_type=True)
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f'a record of {len(data)} bytes; at most {MAX_RECORD_BYTES} are allowed')
    return data


def decode(data: bytes) -> dict[str, Any]:
    """What `encode` wrote: int32 arrays and str. Raises ValueError on anything else."""
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f'a record of {len(data)} bytes; at most {MAX_RECORD_BYTES} are allowed')
    try:
        fields = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            use_list=True,
            max_map_len=64,
            max_array_len=0,
            max_ext_len=0,
        )
    except Exception as error:  # msgpack raises many kinds; all of them mean a broken record.
        raise ValueError(f'not a msgpack map: {type(error).__name__}: {error}') from error
    if not isinstance(fields, dict):
        raise ValueError('not a msgpack map')
    record: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, bytes) and len(value) % 4 == 0:
            array = np.frombuffer(value, '<i4')
            record[name] = array if array.dtype == np.int32 else array.astype(np.int32)
        elif isinstance(value, str):
            record[name] = value
        else:
            raise ValueError(f'field {name!r} is neither str nor int32 ids')
    return record


# ---------------------------------------------------------------------------------------------
# Writing.


def _json_bytes(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode() + b'\n'


def _hash_file(path: str) -> str:
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


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
    for _ in range(10):
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, old)
        try:
            os.rename(temporary, target)
            break
        except OSError:  # Another writer put its own there in the meantime.
            if not os.path.isdir(target):
                raise
            shutil.rmtree(old, ignore_errors=True)
    else:
        raise OSError(f'{target} is replaced by other writers again and again')
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
        self.lengths: list[tuple[int, int]] = []
        self._first = first
        self._size = vocabulary_size
        self._file = array_record_module.ArrayRecordWriter(path, _WRITER_OPTIONS)

    def write(self, record: Mapping[str, Any]) -> None:
        """Appends an example."""
        lengths = self._check_ids(record, 'inputs'), self._check_ids(record, 'targets')
        self._file.write(encode(record))
        self.lengths.append(lengths)

    def _check_ids(self, record: Mapping[str, Any], name: str) -> int:
        ids = np.asarray(record[name])
        if ids.size == 0:
            number = self._first + len(self.lengths)
            raise ValueError(f'{name} of example {number} is empty; eos is the least')
        if ids.max() >= self._size:
            raise ValueError(f'{name} has id {ids.max()} beyond a vocabulary of {self._size}')
        return ids.size

    def close(self) -> None:
        """Ends it; more than once is harmless."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def finish(self, path: str) -> dict[str, Any]:
        """Gives the file its name; returns its entry in the manifest."""
        self.close()
        with open(self.path, 'rb') as file:
            os.fsync(file.fileno())
        os.replace(self.path, path)
        return {
            'file': os.path.basename(path),
            'examples': len(self.lengths),
            'bytes': os.path.getsize(path),
            'sha256': _hash_file(path),
        }


def _shard_path(folder: str, index: int, shards: int) -> str:
    return os.path.join(folder, f'{index:05d}-of-{shards:05d}.array_record')


def write_shard(
    folder: str,
    index: int,
    shards: int,
    records: Iterable[Mapping[str, Any]],
    *,
    first: int,
    vocabulary_size: int,
) -> dict[str, Any]:
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
    path = _shard_path(folder, index, shards)
    parts = os.path.join(folder, _PARTS)
    os.makedirs(parts, exist_ok=True)
    # Whoever writes the same shard at the same time has a file of its own.
    own = f'{index:05d}-{_host()}-{os.getpid()}-{threading.get_native_id()}'
    shard = _Shard(os.path.join(parts, own), first, vocabulary_size)
    try:
        for record in records:
            shard.write(record)
    finally:
        shard.close()
    lengths = io.BytesIO()
    np.save(lengths, np.array(shard.lengths, '<i4').reshape(-1, 2), allow_pickle=False)
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

    def __init__(
        self, folder: str, *, manifest: Mapping[str, Any], shard_examples: int = SHARD_EXAMPLES
    ):
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
        self._adopted: list[dict[str, Any]] = []

    def __enter__(self) -> 'Writer':
        self.temporary = self._scratch.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            for shard in self._shards:
                shard.close()
            if kind is None:
                self._finish()
        finally:
            self._scratch.__exit__(None, None, None)

    def write_batch(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Appends records, each with `inputs` and `targets` ids (eos included, untruncated)."""
        for record in records:
            if not self._shards or len(self._shards[-1].lengths) == self._shard_examples:
                self._next_shard()
            self._shards[-1].write(record)

    def _next_shard(self) -> None:
        if self._shards:
            self._shards[-1].close()
        number = len(self._shards)
        path = os.path.join(self.temporary, f'{number:05d}.part')
        self._shards.append(_Shard(path, number * self._shard_examples, self._size))

    def adopt(self, shards: Sequence[dict[str, Any]]) -> None:
        """Takes over what `write_shard` has written into `temporary`, in place of batches."""
        self._adopted = list(shards)

    def _finish(self) -> None:
        parts, shards = os.path.join(self.temporary, _PARTS), list(self._adopted)
        columns = [
            np.load(os.path.join(parts, f'{shard["file"]}.npy'), allow_pickle=False)
            for shard in shards
        ]
        shutil.rmtree(parts, ignore_errors=True)
        for index, shard in enumerate(self._shards):
            columns.append(np.array(shard.lengths, '<i4'))
            shards.append(shard.finish(_shard_path(self.temporary, index, len(self._shards))))
        lengths = np.concatenate([np.zeros((0, 2), '<i4'), *columns])
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
            'code': code_fingerprint(self._manifest['task']),
            'num_examples': len(lengths),
            'shards': shards,
            'lengths': {'file': LENGTHS, 'sha256': _hash_file(lengths_path)},
            'tokens': tokens,
        }
        files.write(os.path.join(self.temporary, MANIFEST), _json_bytes(manifest))
        files.sync_folder(self.temporary)
        _swap_in(self.temporary, self.folder, self._old)


def write_mixture(
    root: str, vocabulary: str, name: str, split: str, rates: Mapping[str, float]
) -> None:
    """Writes or extends `<mixture>.json` by one split: {task: rate}."""
    _safe_name(name, 'mixture')
    if _safe_name(split, 'split') in _MIXTURE_KEYS:
        raise errors.UserError(f'a split cannot be named {split!r} in a mixture file')
    parent = _vocabulary_path(root, vocabulary)
    os.makedirs(parent, exist_ok=True)
    path = os.path.join(parent, f'{name}.json')
    new = {_safe_name(task, 'task'): float(rate) for task, rate in rates.items()}
    code = code_fingerprint(name)
    with locks.file(path, wait=_say):  # Others may be adding splits of their own.
        content: dict[str, Any] = {}
        if os.path.isfile(path):
            with contextlib.suppress(NotPrepared):
                content = _read_json(path)
        if content.get('code') != code:  # Splits of other code are dropped: they are made anew.
            content = {}
        content |= {'name': name, 'code': code, split: new}
        files.write(path, _json_bytes(content))


# ---------------------------------------------------------------------------------------------
# Staleness.


@functools.cache
def code_fingerprint(name: str) -> str | None:
    """What defines task or mixture `name`, as a hash; see freshness.py."""
    word = _safe_name(name, 'task').split('_')[0]
    return freshness.of_task_file(os.path.join(os.path.dirname(tasks.__file__), f'{word}.py'))


def _is_changed(path: str, expected: Mapping[str, Any]) -> bool | None:
    """Whether an input file differs from what was read; None if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size != expected.get('bytes'):
        return True
    # The hash decides: a fresh checkout has other times and the same bytes.
    return status.st_mtime_ns != expected.get('mtime_ns') and (
        _hash_file(path) != expected.get('sha256')
    )


def stale_reason(manifest: Mapping[str, Any], root: str | None = None) -> str | None:
    """Why a preparation no longer fits its inputs and code, or None if it does.

    Prepared data that was copied somewhere without any of its input files stays valid: nothing
    there could contradict it, and nothing there could make it again.

    Args:
      manifest: the content of manifest.json.
      root: what relative input paths start from; default XLBENCH_DATA, else `data`.
    """
    root = root or os.environ.get('XLBENCH_DATA') or 'data'
    if manifest.get('format') != FORMAT:
        return f'its format is {manifest.get("format")!r}, this code writes {FORMAT}'
    code = code_fingerprint(manifest['task'])
    if code and manifest.get('code') and manifest['code'] != code:
        return _CHANGED
    inputs = manifest.get('inputs') or []
    changed = [_is_changed(os.path.join(root, entry['path']), entry) for entry in inputs]
    for entry, state in zip(inputs, changed, strict=True):
        if state:
            return f'its input {entry["path"]} has changed'
    if inputs and all(state is None for state in changed):
        return None
    if None in changed:
        return f'its input {inputs[changed.index(None)]["path"]} is gone'
    known = {os.path.join(root, entry['path']) for entry in inputs}
    for pattern in manifest.get('patterns') or []:
        for path in readers.find(os.path.join(root, pattern)):
            if path not in known:
                return f'there is a further input {path}'
    return None


# ---------------------------------------------------------------------------------------------
# Reading.


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]
_Id = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]


class _ShardEntry(msgspec.Struct):
    file: Any  # See `_safe_name`.
    examples: _Count
    bytes: _Count
    sha256: str


class _VocabularyEntry(msgspec.Struct):
    name: str
    sha256: str
    size: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    pad_id: _Id | None = None
    eos_id: _Id | None = None
    bos_id: _Id | None = None
    unk_id: _Id | None = None
    decoder_start_id: _Id | None = None
    family: str = ''


class _InputEntry(msgspec.Struct):
    path: str
    bytes: int = 0
    mtime_ns: int = 0
    sha256: str = ''


class _LengthsEntry(msgspec.Struct, frozen=True):
    file: str = LENGTHS
    sha256: str = ''


class _SkippedEntry(msgspec.Struct):
    path: str
    line: int
    reason: str


class _Manifest(msgspec.Struct):
    """The types of a manifest.json that `Writer` may have written, with any version of this code.

    What `languages` and `metrics` hold is checked where it is used.
    """

    task: str
    split: str
    format: int
    num_examples: _Count
    shards: list[_ShardEntry]
    vocabulary: _VocabularyEntry
    code: str | None = None
    lengths: _LengthsEntry = _LengthsEntry()
    tokens: dict[str, dict[str, _Count]] = {}
    splits: list[str] = []
    view: str = 'generation'
    labels: list[str] = []
    features: dict[str, dict[str, _Id | None]] = {}
    answer_mark: list[_Id] | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    headline: str | None = None
    metrics: list[dict[str, Any]] | None = None
    inputs: list[_InputEntry] | None = None
    patterns: list[str] | None = None
    unseen: bool = False
    postprocessor: bool = False
    data: str = ''
    skipped: list[_SkippedEntry] | None = None
    left_out: dict[str, _Count] | None = None


def _read_json(path: str) -> dict[str, Any]:
    """The content of a manifest or mixture file; NotPrepared if it is missing or broken."""
    if not os.path.isfile(path):
        raise NotPrepared(f'{path} does not exist')
    try:
        return files.read_json(path, dict[str, Any])
    except errors.Unreadable:
        raise  # It may be as it was, so nothing is prepared in its place.
    except errors.UserError as error:
        raise NotPrepared(str(error)) from error


def _check_manifest(path: str, manifest: dict[str, Any], task: str, split: str) -> None:
    """Raises NotPrepared on a manifest that no Writer wrote, UserError on one that is hostile."""
    if (manifest.get('task'), manifest.get('split')) != (task, split):
        there = errors.shortened(manifest.get('task')), errors.shortened(manifest.get('split'))
        raise NotPrepared(f'{path} is of {"/".join(there)}')
    try:
        typed = files.check_type(manifest, _Manifest, path)
    except errors.UserError as error:
        raise NotPrepared(str(error)) from error
    for shard in typed.shards:
        _safe_name(shard.file, f'{path}: shard file')
    if len({shard.file for shard in typed.shards}) < len(typed.shards):
        raise NotPrepared(f'{path} lists a shard twice')
    if typed.num_examples != sum(shard.examples for shard in typed.shards):
        raise NotPrepared(f'{path}: num_examples is not the sum of its shards')
    languages.restore(manifest.get('languages'))
    if typed.view in ('classification', 'tagging') and not typed.labels:
        raise NotPrepared(f'{path} is of {typed.view} and has no labels')
    if len(set(typed.labels)) < len(typed.labels):
        raise NotPrepared(f'{path} has a label twice')
    names = [*(entry.path for entry in typed.inputs or ()), *(typed.patterns or ())]
    if any('\0' in name for name in names):
        raise NotPrepared(f'{path}: the name of an input has a NUL')


@dataclasses.dataclass(frozen=True)
class Prepared:
    """One prepared task and split: random access to its examples."""

    folder: str
    manifest: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def name(self) -> str:
        """The SeqIO task."""
        return self.manifest['task']

    @property
    def split(self) -> str:
        """The split of it."""
        return self.manifest['split']

    @functools.cached_property
    def sha256(self) -> str:
        """Of manifest.json, which names the sha256 of everything else."""
        return _hash_file(os.path.join(self.folder, MANIFEST))

    @property
    def content(self) -> str:
        """A hash of the examples alone; `sha256` changes with the manifest, too."""
        shards = ' '.join(shard['sha256'] for shard in self.manifest['shards'])
        return hashlib.sha256(shards.encode()).hexdigest()

    @property
    def num_examples(self) -> int:
        """How many examples there are."""
        return self.manifest['num_examples']

    def __len__(self) -> int:
        return self.num_examples

    def lengths(self) -> np.ndarray:
        """[num_examples, 2] int32: tokens of inputs and targets, eos included, untruncated."""
        return self._lengths

    @functools.cached_property
    def _lengths(self) -> np.ndarray:
        path = os.path.join(self.folder, LENGTHS)
        try:
            if not os.path.isfile(path):
                raise FileNotFoundError
            # The header decides how much is read, so it is checked before.
            array = np.lib.format.open_memmap(path, mode='r')
            if array.dtype != np.dtype('<i4') or array.shape != (self.num_examples, 2):
                raise ValueError(f'{array.dtype}{list(array.shape)} for {len(self)} examples')
            array = np.array(array, np.int32)
        except FileNotFoundError as error:
            raise NotPrepared(f'{path} does not exist') from error
        except Exception as error:  # numpy reads the header as Python code, whose errors are many.
            if isinstance(error, OSError) and errors.is_withheld(error):
                raise
            reason = ' '.join(str(error).split())[:300]
            raise NotPrepared(f'{path} cannot be read: {reason}') from error
        if array.size and array.min() < 1:
            raise NotPrepared(f'{path} has an example without tokens')
        array.flags.writeable = False
        return array

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        """[num_shards]: the number of examples up to the end of each shard."""
        return np.cumsum([shard['examples'] for shard in self.manifest['shards']], dtype=np.int64)

    @functools.cached_property
    def _readers(self) -> dict[int, Any]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # Open files and caches stay behind when this goes to another process.
        return {'folder': self.folder, 'manifest': self.manifest}

    def _shard_path(self, shard: int) -> str:
        name = _safe_name(self.manifest['shards'][shard]['file'], 'shard file')
        return os.path.join(self.folder, name)

    def _reader(self, shard: int) -> Any:
        if shard not in self._readers:
            path = self._shard_path(shard)
            try:
                with open(path, 'rb'):  # The reader takes one that it cannot open for an empty one.
                    pass
                reader = array_record_module.ArrayRecordReader(
                    path, options=_READER_OPTIONS, file_reader_buffer_size=32768
                )
                found = reader.num_records()
            except (RuntimeError, ValueError, OSError) as error:
                if isinstance(error, OSError) and errors.is_withheld(error):
                    raise
                raise self._broken(path, error) from error
            if found != (expected := self.manifest['shards'][shard]['examples']):
                raise self._broken(path, f'{found} records instead of {expected}')
            self._readers[shard] = reader
        return self._readers[shard]

    def _broken(self, path: str, detail: Any) -> errors.UserError:
        line = ' '.join(str(detail).split())[:300]
        return errors.UserError(
            f'{path} is broken ({line}); prepare {self.name}/{self.split} again with --force'
        )

    def read(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """The records at `indices`, in that order, one read for each shard they lie in."""
        wanted = np.asarray(indices, np.int64)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f'{self.name}/{self.split} has {len(self)} examples')
        shards = np.searchsorted(self._ends, wanted, side='right')
        records: list[Any] = [None] * len(wanted)
        for shard in np.unique(shards).tolist():
            where = np.flatnonzero(shards == shard)
            start = int(self._ends[shard - 1]) if shard else 0
            reader = self._reader(shard)
            path = self._shard_path(shard)
            try:
                data = reader.read((wanted[where] - start).tolist())
                if len(data) != len(where):
                    raise ValueError(f'{len(data)} records instead of {len(where)}')
                for at, value in zip(where.tolist(), data, strict=True):
                    records[at] = self._checked(decode(value), int(wanted[at]))
            except (RuntimeError, ValueError) as error:
                raise self._broken(path, error) from error
        return records

    def _checked(self, record: dict[str, Any], index: int) -> dict[str, Any]:
        """The plan of a batch is made from lengths.npy, so a record must be as long as it says."""
        for name, expected in zip(('inputs', 'targets'), self._lengths[index], strict=True):
            value = record.get(name)
            if not isinstance(value, np.ndarray) or len(value) != expected:
                raise ValueError(f'{name} of example {index} has not the {expected} tokens listed')
            if value.view(np.uint32).max() >= self._vocabulary_size:  # Numbers below 0, too.
                raise ValueError(f'{name} of example {index} has ids beyond the vocabulary')
        return record

    @functools.cached_property
    def _vocabulary_size(self) -> int:
        return self.manifest['vocabulary']['size']

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One record: {'inputs': [length] int32, 'targets': ..., 'inputs_pretokenized': str}."""
        return self.read([index])[0]

    def verify(self) -> None:
        """Compares the sha256 of every file with the manifest's; UserError if one differs."""
        path = os.path.join(self.folder, LENGTHS)
        if _hash_file(path) != (self.manifest.get('lengths') or {}).get('sha256'):
            raise self._broken(path, 'its sha256 is not the one in the manifest')
        for index, shard in enumerate(self.manifest['shards']):
            path = self._shard_path(index)
            if _hash_file(path) != shard.get('sha256'):
                raise self._broken(path, 'its sha256 is not the one in the manifest')


def open_task(root: str, vocabulary: str, task: str, split: str) -> Prepared:
    """One prepared task. Raises NotPrepared if it is missing, stale or broken."""
    found = _open(root, vocabulary, task, split)
    if reason := stale_reason(found.manifest, root):
        raise NotPrepared(f'{task}/{split} in {found.folder} is stale: {reason}')
    return found


def open_recorded(
    root: str, vocabulary: str, task: str, split: str, content: str | None
) -> Prepared:
    """One prepared task with the examples that a run has read, whether it is stale by now or not.

    Args:
        root: The data root.
        vocabulary: As `xlbench.prepare --vocabulary` takes it.
        task: Name of the SeqIO task.
        split: Of the task.
        content: Its `Prepared.content`, as the run noted it; None if it did not, and then a stale
            one will not do.

    Raises:
        NotPrepared: It is missing or broken, or holds other examples.
    """
    if content is None:
        return open_task(root, vocabulary, task, split)
    found = _open(root, vocabulary, task, split)
    if found.content != content:
        raise NotPrepared(f'{task}/{split} in {found.folder} holds other examples by now')
    return found


def _open(root: str, vocabulary: str, task: str, split: str) -> Prepared:
    """One prepared task, stale or not. Raises NotPrepared if it is missing or broken."""
    place = folder(root, vocabulary, task, split)
    foreign.check_tree(os.path.join(root, 'prepared'), place)
    path = os.path.join(place, MANIFEST)
    if not os.path.isfile(path):
        raise NotPrepared(f'{task}/{split} is not prepared in {place}')
    manifest = _read_json(path)
    _check_manifest(path, manifest, task, split)
    prepared = Prepared(place, manifest)
    for index, shard in enumerate(manifest['shards']):
        shard_path = prepared._shard_path(index)
        if not os.path.isfile(shard_path) or os.path.getsize(shard_path) != shard['bytes']:
            raise NotPrepared(f'{shard_path} is missing or has not {shard["bytes"]} bytes')
    prepared.lengths()
    return prepared


def open_mixture(
    root: str, vocabulary: str, name: str, split: str
) -> tuple[list[Prepared], list[float]]:
    """The prepared tasks of a mixture and their rates; a task is a mixture of itself alone."""
    path = os.path.join(_vocabulary_path(root, vocabulary), f'{_safe_name(name, "mixture")}.json')
    if not foreign.file(os.path.join(root, 'prepared'), os.path.abspath(path)):
        return [open_task(root, vocabulary, name, split)], [1.0]
    content = _read_json(path)
    code = code_fingerprint(name)
    if code and content.get('code') and content['code'] != code:
        raise NotPrepared(f'{path} is stale: {_CHANGED}')
    rates = content.get(split) if split not in _MIXTURE_KEYS else None
    if not isinstance(rates, dict) or not rates:
        raise NotPrepared(f'{path} has no split {split!r}')
    for task, rate in rates.items():
        if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate < 1e30:
            what = f'the rate of {errors.shortened(task)} is {errors.shortened(rate)}'
            raise NotPrepared(f'{path}: {what}, not a positive number')
    tasks = [open_task(root, vocabulary, task, split) for task in rates]
    return tasks, [float(rate) for rate in rates.values()]


def is_there(root: str, vocabulary: str, name: str) -> bool:
    """Whether any split of a task or mixture has been prepared, up to date or not."""
    place = os.path.join(_vocabulary_path(root, vocabulary), _safe_name(name, 'name'))
    return os.path.isdir(place) or os.path.isfile(f'{place}.json')


def members(root: str, vocabulary: str, name: str) -> dict[str, tuple[str, ...]]:
    """The prepared tasks of a task or mixture, with the splits that each of them can have."""
    parent, tasks = _vocabulary_path(root, vocabulary), [_safe_name(name, 'name')]
    with contextlib.suppress(NotPrepared):
        content = _read_json(os.path.join(parent, f'{name}.json'))
        rates = [content[key] for key in content if key not in _MIXTURE_KEYS]
        tasks = [task for of_split in rates if isinstance(of_split, dict) for task in of_split]
    splits_of: dict[str, tuple[str, ...]] = {}
    for task in dict.fromkeys(tasks):
        folder = os.path.join(parent, _safe_name(task, 'task'))
        for split in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, split, MANIFEST)
            if split.startswith('.') or not os.path.isfile(path):
                continue
            with contextlib.suppress(NotPrepared):
                splits = _read_json(path).get('splits')
                splits_of[task] = tuple(map(str, splits)) if isinstance(splits, list) else ()
    return splits_of


def open_optional(root: str, vocabulary: str, name: str, split: str) -> list['Prepared']:
    """The tasks of a task or mixture of which a split is prepared; there may be none."""
    tasks = []
    for task in members(root, vocabulary, name):
        with contextlib.suppress(NotPrepared):
            tasks.append(open_task(root, vocabulary, task, split))
    return tasks


def _is_missing(root: str, vocabulary: str, name: str, split: str) -> bool:
    """Whether a task has, or may have, a split that is not prepared."""
    known = members(root, vocabulary, name)
    if not known:
        return True
    having = [task for task, splits in known.items() if not splits or split in splits]
    return len(having) > sum(
        task.name in having for task in open_optional(root, vocabulary, name, split)
    )


def _all_prepared(root: str, vocabulary: str, needed: Sequence[tuple[str, str]]) -> bool:
    try:
        for name, split in needed:
            open_mixture(root, vocabulary, name, split)
    except NotPrepared:
        return False
    return True


def ensure(
    needed: Sequence[tuple[str, str]],
    *,
    root: str,
    vocabulary: str,
    sample: bool = False,
    to_stderr: bool = False,
    optional: Sequence[tuple[str, str]] = (),
    vocabulary_size: int = 0,
    texts: Sequence[tuple[str, str]] = (),
    has_copy: bool = False,
) -> None:
    """Makes what is missing or stale in a child process, the only one that needs TensorFlow.

    Args:
      needed: (task or mixture, split) pairs.
      root: the data root.
      vocabulary: as `xlbench.prepare --vocabulary` takes it.
      sample: whether the sample corpora are written into `root` where there is nothing yet.
      to_stderr: whether all that is said about it goes to standard error, and not to standard
        output.
      optional: more such pairs, of which only the tasks are meant that have the split.
      vocabulary_size: above 0, a SentencePiece model that is not there is trained, with so many
        pieces at most.
      texts: pairs whose texts it is trained on; by default the first of `needed`.
      has_copy: whether the run keeps a copy of the vocabulary. Another one is then trained only if
        there is something to prepare with it.

    Raises:
      SystemExit: the child failed; it has said why.
    """
    command = [sys.executable, '-m', 'xlbench.prepare', f'--root={root}']
    out = 2 if to_stderr else None
    path = os.path.expanduser(vocabulary)
    is_new = vocabulary_size and vocabulary.endswith('.model') and not os.path.isfile(path)
    if is_new and not (has_copy and _all_prepared(root, vocabulary, needed)):
        named = ','.join(dict.fromkeys(map(':'.join, texts or needed[:1])))
        line = f'training the vocabulary {vocabulary} on {named}'
        print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)
        more = [f'--mixture={named}', f'--new_vocabulary={path}']
        # Another run may be training it, or have just done so.
        more += [f'--vocabulary_size={vocabulary_size}', '--if_missing']
        _end_as(subprocess.run(command + more, check=False, stdout=out).returncode)
    missing, unseen = [], []
    for name, split in needed:
        try:
            tasks, _ = open_mixture(root, vocabulary, name, split)
        except NotPrepared as error:
            missing.append(f'{name}:{split}')
            reason = error.reason
            continue
        for task in tasks:
            if task.manifest.get('unseen'):
                unseen.append(f'{task.name}:{split}')
    if unseen:
        names = ','.join(dict.fromkeys(unseen))
        print(
            f'a function reads the data of {names}: what was prepared is used, and if the data has '
            f'changed since: python -m xlbench.prepare --force --mixture={names} --root={root} '
            f'--vocabulary={vocabulary}',
            file=sys.stderr if to_stderr else sys.stdout,
            flush=True,
        )
    for name, split in optional:
        if _is_missing(root, vocabulary, name, split):
            missing.append(f'{name}:{split}?')
            reason = f'{name} has no prepared split {split!r}'
    if not missing:
        return
    line = f'preparing {len(missing)} of {len(needed) + len(optional)} inputs: {reason}'
    print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)
    command += [f'--mixture={",".join(missing)}', f'--vocabulary={vocabulary}']
    command += ['--sample'] if sample else []
    _end_as(subprocess.run(command, check=False, stdout=out).returncode)
    for name, split in optional:
        if not members(root, vocabulary, name):
            raise errors.UserError(f'{name} has no split {split!r}; name another one, or none')


def _end_as(code: int) -> None:
    """Ends the program if its child that prepares data has ended badly, with the same code.

    Raises:
      SystemExit: the child has said why, or was told to end, as this process was.
      UserError: it was killed.
    """
    if code < 0 and -code not in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        raise errors.UserError(
            f'the preparation was ended by signal {-code} ({signal.Signals(-code).name})'
            + (', perhaps by the system for lack of memory' if -code == signal.SIGKILL else '')
            + '; what was finished stays: run python -m xlbench.prepare --workers=1 ahead, or give '
            'it more memory, and start the same command again'
        )
    if code:
        raise SystemExit(code)


def wait_for(
    needed: Sequence[tuple[str, str]],
    *,
    root: str,
    vocabulary: str,
    seconds: float = 2.0,
    optional: Sequence[tuple[str, str]] = (),
) -> None:
    """Looks every few seconds until another process has prepared (task or mixture, split) pairs.

    `optional` is as for `ensure`. If that process fails, the coordination service of the run ends
    this one as well.
    """
    for name, split in needed:
        while True:
            try:
                open_mixture(root, vocabulary, name, split)
                break
            except NotPrepared:
                time.sleep(seconds)
    for pair in optional:
        while _is_missing(root, vocabulary, *pair):
            time.sleep(seconds)
