"""Names, folders, the types of a manifest, and the bytes of examples, alone or in columns."""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

import msgpack
import msgspec
import numpy as np

from xlbench.benchmarks import languages
from xlbench.system import errors, files

FORMAT = 1
MANIFEST = 'manifest.json'
LENGTHS = 'lengths.npy'
MAX_RECORD_BYTES = 64 * 2**20
# No file system takes a longer name.
_SAFE_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}')
MIXTURE_KEYS = frozenset({'name', 'code'})
SIDES = ('inputs', 'targets')  # What every example has.


Record = dict[str, Any]  # One example: texts, and ids [length] int32.


class NotPrepared(Exception):
    """A preparation that is missing, stale or broken; `xlbench.prepare` can make it (again)."""


def safe_name(name: object, what: str) -> str:
    """Returns a name that is one plain path component; UserError for another one."""
    if not isinstance(name, str) or not _SAFE_NAME.fullmatch(name) or '..' in name:
        raise errors.UserError(
            f'{what} {errors.shortened(name)} is not a plain name: up to 255 letters, digits, "_", '
            '"-", "." and no folder'
        )
    return name


def vocabulary_folder(vocabulary: str) -> str:
    """Returns the folder name of a vocabulary. Example: google/mt5-base -> google--mt5-base."""
    name = vocabulary.replace('/', '--')
    if _SAFE_NAME.fullmatch(name) and '..' not in name and not vocabulary.startswith('/'):
        return name
    digest = hashlib.sha256(vocabulary.encode()).hexdigest()[:8]
    tail = re.sub(r'[^A-Za-z0-9_]+', '_', os.path.splitext(vocabulary)[0])[-40:].strip('_')
    return f'{tail or "vocabulary"}-{digest}'


def vocabulary_path(root: str, vocabulary: str) -> str:
    """Returns the folder of what is prepared with a vocabulary."""
    return os.path.join(root, 'prepared', vocabulary_folder(vocabulary))


def folder(root: str, vocabulary: str, task: str, split: str) -> str:
    """Returns the folder of one prepared task and split."""
    return os.path.join(
        vocabulary_path(root, vocabulary), safe_name(task, 'task'), safe_name(split, 'split')
    )


def checked_size(data: bytes) -> bytes:
    """Returns the bytes of a record; ValueError if they are too many."""
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f'a record of {len(data)} bytes; at most {MAX_RECORD_BYTES} are allowed')
    return data


def decode(data: bytes) -> Record:
    """Decodes what `pack` makes of an example; ValueError for anything else."""
    checked_size(data)
    try:
        fields = msgpack.unpackb(
            data, raw=False, strict_map_key=True, use_list=True,
            max_map_len=64, max_array_len=0, max_ext_len=0,
        )  # fmt: skip
    except Exception as error:  # msgpack raises many kinds; all of them mean a broken record.
        raise ValueError(f'not a msgpack map: {type(error).__name__}: {error}') from error
    if not isinstance(fields, dict):
        raise ValueError('not a msgpack map')
    record: Record = {}
    for name, value in fields.items():
        if isinstance(value, bytes) and len(value) % 4 == 0:
            array = np.frombuffer(value, '<i4')
            record[name] = array if array.dtype == np.int32 else array.astype(np.int32)
        elif isinstance(value, str):
            record[name] = value
        else:
            raise ValueError(f'field {name!r} is neither str nor int32 ids')
    return record


def json_bytes(value: object) -> bytes:
    """Returns a manifest as it is written: readable, the same bytes for the same content."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode() + b'\n'


@dataclasses.dataclass(frozen=True)
class Ids:
    """The ids of many examples, one row behind another."""

    values: np.ndarray  # [total] int32.
    stops: np.ndarray  # [rows] int64, where each row ends.

    @classmethod
    def joined(
        cls, rows: Sequence[np.ndarray], before: Sequence[int] = (), behind: Sequence[int] = ()
    ) -> 'Ids':
        """Joins rows, each [length] int32, with the ids before and behind each of them."""
        head, tail = (np.array(ids, np.int32).tobytes() for ids in (before, behind))
        sizes = np.fromiter(map(len, rows), np.int64, len(rows)) + len(before) + len(behind)
        # Arrays are joined as bytes, which is faster than as arrays.
        joined = (tail + head).join(rows)  # type: ignore[arg-type]  # As of Python 3.12 they are.
        data = b''.join((head, joined, tail)) if len(rows) else b''
        return cls(np.frombuffer(data, np.int32), np.cumsum(sizes))

    def __len__(self) -> int:
        return len(self.stops)

    def sizes(self) -> np.ndarray:
        """Returns the number of ids of each row, [rows] int64."""
        return np.diff(self.stops, prepend=0)

    def row_bytes(self) -> list[bytes]:
        """Returns each row as little-endian int32."""
        data = self.values.astype('<i4', copy=False).tobytes()
        stops = (4 * self.stops).tolist()
        return [data[a:b] for a, b in zip([0, *stops], stops, strict=False)]


# The texts or the ids of each example by name, all of one length.
Columns = dict[str, Sequence[str] | Ids]


@dataclasses.dataclass(frozen=True)
class Packed:
    """Examples as bytes; iterating gives their records."""

    data: list[bytes]  # Of each example, see `pack`.
    lengths: np.ndarray  # [examples, 2] int32, the ids of inputs and of targets.
    largest: tuple[int, int]  # The largest id of the inputs and of the targets.

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Record]:
        return map(decode, self.data)

    def part(self, start: int, stop: int) -> 'Packed':
        """Returns the examples from `start` to before `stop`."""
        return Packed(self.data[start:stop], self.lengths[start:stop], self.largest)


def pack(examples: Columns | Sequence[Record]) -> Packed:
    """Packs examples; ValueError if one of them cannot be packed.

    Each becomes a msgpack map of feature name -> bytes of little-endian int32, or str.

    Example: {'inputs': [5, 1], 'targets': [1], 'lang': 'de'} ->
      {'inputs': b'\\5\\0\\0\\0\\1\\0\\0\\0', 'lang': 'de', 'targets': b'\\1\\0\\0\\0'}
    """
    columns = examples if isinstance(examples, dict) else _as_columns(examples)
    sides = [column for side in SIDES if isinstance(column := columns[side], Ids)]
    if len(sides) < len(SIDES):
        raise ValueError(f'{" and ".join(SIDES)} have to be ids')
    lengths = np.stack([ids.sizes() for ids in sides], axis=1).astype(np.int32)
    inputs, targets = (int(ids.values.max(initial=0)) for ids in sides)
    names, values = sorted(columns), []
    for name in names:
        column = columns[name]
        if isinstance(column, Ids) and column.values.min(initial=0) < 0:
            raise ValueError(f'feature {name!r} has ids outside 0..2**31-1')
        values.append(column.row_bytes() if isinstance(column, Ids) else column)
    packer = msgpack.Packer(use_bin_type=True)
    rows = (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
    data = [checked_size(packer.pack(row)) for row in rows]
    return Packed(data, lengths, (inputs, targets))


def _as_columns(examples: Sequence[Record]) -> Columns:
    names = examples[0].keys() if examples else SIDES
    if any(record.keys() != names for record in examples):
        raise ValueError(f'examples have other features than {", ".join(names)}')
    return {name: _column(name, [record[name] for record in examples]) for name in names}


def _column(name: str, values: Sequence[Any]) -> Sequence[str] | Ids:
    """Joins the values of a feature; ValueError for one that is neither a text nor ids."""
    if set(map(type, values)) == {str}:
        return values
    arrays = [np.asarray(value) for value in values]
    plain = {(array.dtype, array.ndim) for array in arrays} == {(np.dtype('<i4'), 1)}
    for array in () if plain else arrays:
        if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
            raise ValueError(
                f'feature {name!r} has shape {array.shape} and type {array.dtype}; '
                'a record holds str and one-dimensional integer arrays'
            )
        if array.size and (array.min() < 0 or array.max() > np.iinfo(np.int32).max):
            raise ValueError(f'feature {name!r} has ids outside 0..2**31-1')
    return Ids.joined([np.ascontiguousarray(array, '<i4') for array in arrays])


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]
_Id = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
_Known = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Row = Annotated[int, msgspec.Meta(ge=0, lt=2**20)]  # Of a model's table of languages.


class ShardEntry(TypedDict):
    """An ArrayRecord file."""

    file: Any  # A name, see `safe_name`.
    examples: _Count
    bytes: _Count
    sha256: str


class VocabularyEntry(TypedDict):
    """Vocabulary that made the ids, see `Tokenizer.manifest`."""

    name: str
    sha256: str
    size: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    pad_id: _Known
    eos_id: _Known
    decoder_start_id: _Known
    bos_id: NotRequired[_Id | None]
    unk_id: NotRequired[_Id | None]
    closing_id: NotRequired[_Known]
    language_rows: NotRequired[dict[str, _Row]]
    family: NotRequired[str]


class InputEntry(TypedDict):
    """A file that was read."""

    path: str
    bytes: NotRequired[int]
    mtime_ns: NotRequired[int]
    sha256: NotRequired[str]


class SkippedEntry(TypedDict):
    """A bad record that was skipped."""

    path: str
    line: int
    reason: str


class Manifest(TypedDict):
    """A manifest.json that `Writer` may have written, with any version of this code.

    What `languages` and `metrics` hold is checked where it is used.
    """

    task: str
    split: str
    format: int
    num_examples: _Count
    draws: NotRequired[Annotated[int, msgspec.Meta(ge=1, lt=2**20)]]  # See `Prepared.draws`.
    shards: list[ShardEntry]
    vocabulary: VocabularyEntry
    code: NotRequired[str | None]
    lengths: NotRequired[dict[str, str]]  # Its file and sha256.
    tokens: NotRequired[dict[str, dict[str, _Count]]]
    splits: NotRequired[list[str]]
    view: NotRequired[str]
    labels: NotRequired[list[str]]
    features: NotRequired[dict[str, dict[str, _Id | None]]]
    answer_mark: NotRequired[list[_Id] | None]
    segment_marks: NotRequired[list[_Id] | None]
    source_lang: NotRequired[str | None]
    target_lang: NotRequired[str | None]
    headline: NotRequired[str | None]
    metrics: NotRequired[list[dict[str, Any]] | None]
    languages: NotRequired[Any]
    inputs: NotRequired[list[InputEntry] | None]
    patterns: NotRequired[list[str] | None]
    unseen: NotRequired[bool]
    postprocessor: NotRequired[bool | str]
    data: NotRequired[str]
    skipped: NotRequired[list[SkippedEntry] | None]
    left_out: NotRequired[dict[str, _Count] | None]


def read_json(path: str) -> dict[str, Any]:
    """Reads a manifest or mixture file; NotPrepared if it is missing or broken."""
    if not os.path.isfile(path):
        raise NotPrepared(f'{path} does not exist')
    try:
        return files.read_json(path, dict[str, Any])
    except errors.Unreadable:
        raise  # It may be as it was, so nothing is prepared in its place.
    except errors.UserError as error:
        raise NotPrepared(str(error)) from error


def checked_manifest(path: str, content: dict[str, Any], task: str, split: str) -> Manifest:
    """Checks the content of a manifest; NotPrepared if no Writer wrote it, UserError if hostile."""
    if (content.get('task'), content.get('split')) != (task, split):
        there = errors.shortened(content.get('task')), errors.shortened(content.get('split'))
        raise NotPrepared(f'{path} is of {"/".join(there)}')
    try:
        manifest = files.check_type(content, Manifest, path)
    except errors.UserError as error:
        raise NotPrepared(str(error)) from error
    shards = [safe_name(shard['file'], f'{path}: shard file') for shard in manifest['shards']]
    if len(set(shards)) < len(shards):
        raise NotPrepared(f'{path} lists a shard twice')
    if manifest['num_examples'] != sum(shard['examples'] for shard in manifest['shards']):
        raise NotPrepared(f'{path}: num_examples is not the sum of its shards')
    if manifest['num_examples'] % (draws := manifest.get('draws', 1)):
        raise NotPrepared(f'{path}: num_examples is no multiple of its {draws} draws')
    languages.restore(manifest.get('languages'))
    labels = manifest.get('labels', [])
    if manifest.get('view') in ('classification', 'tagging') and not labels:
        raise NotPrepared(f'{path} is of {manifest["view"]} and has no labels')
    if len(set(labels)) < len(labels):
        raise NotPrepared(f'{path} has a label twice')
    inputs = [entry['path'] for entry in manifest.get('inputs') or ()]
    if any('\0' in name for name in [*inputs, *(manifest.get('patterns') or ())]):
        raise NotPrepared(f'{path}: the name of an input has a NUL')
    return manifest
