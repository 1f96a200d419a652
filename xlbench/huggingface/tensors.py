"""The weight files of a Hugging Face folder: tensors read, and written, one at a time.

  model.safetensors, pytorch_model.bin            one file
  model.safetensors.index.json + its shards       several (or pytorch_model.bin.index.json)

A safetensors file is a length (8 bytes, little-endian), that many bytes of JSON, the tensors
(huggingface.co/docs/safetensors). A .bin file is a pickle, which in general may call anything when
it is loaded. Here it is read by a machine that knows no calls: it builds dicts, lists, numbers,
strings and descriptions of tensors, and refuses a file that asks for more.
"""

import dataclasses
import io
import json
import math
import os
import pathlib
import pickletools
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import ml_dtypes
import msgspec
import numpy as np

from xlbench import files as files_lib, foreign
from xlbench.errors import UserError, printable, shortened

SAFETENSORS, BIN = 'model.safetensors', 'pytorch_model.bin'
WEIGHT_FILES = (SAFETENSORS, BIN)  # In order of preference; each may have an index in its place.
MAX_SHARD = 5 * 10**9  # Bytes; what transformers 4 wrote.
_MAX_HEADER = 10**8  # Bytes of JSON or of pickle, which only describe; safetensors' own limit.
_BLOCK = 1 << 26  # Bytes compared at once.
_MOST_AXES = 64  # numpy's own limit.
_LONGEST_NAME = 255  # Of a tensor or a file; file systems take no more bytes.

# What safetensors calls a type, and the storage class that torch pickles.
_TYPES = {
    'F64': ('DoubleStorage', np.float64),
    'F32': ('FloatStorage', np.float32),
    'F16': ('HalfStorage', np.float16),
    'BF16': ('BFloat16Storage', ml_dtypes.bfloat16),
    'I64': ('LongStorage', np.int64),
    'I32': ('IntStorage', np.int32),
    'I16': ('ShortStorage', np.int16),
    'I8': ('CharStorage', np.int8),
    'U8': ('ByteStorage', np.uint8),
    'BOOL': ('BoolStorage', np.bool_),
}
_SAFETENSORS_TYPES = {name: np.dtype(dtype) for name, (_, dtype) in _TYPES.items()}
_WRITTEN = {'float32': 'F32', 'bfloat16': 'BF16', 'float16': 'F16'}
_STORAGE_TYPES = {f'torch {name}': np.dtype(dtype) for name, dtype in _TYPES.values()}


@dataclasses.dataclass(frozen=True)
class Stored:
    """A tensor in a file, not read yet.

    Attributes:
      file: where it is.
      name: how the file calls it.
      dtype: of the file's numbers.
      shape: its own.
      start: byte of the file at which its first number lies.
      strides: numbers to pass for a step along each axis.
    """

    file: pathlib.Path
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    strides: tuple[int, ...]

    def __post_init__(self):
        if self.start + self.span * self.dtype.itemsize > self.file.stat().st_size:
            raise self.broken('ends beyond the file, which must be cut short')

    @property
    def span(self) -> int:
        """Numbers from its first to its last, in the file."""
        return _span(self.shape, self.strides)

    def broken(self, what: str) -> UserError:
        """The error that names file and tensor."""
        return UserError(f'{self.file}: tensor {self.name} {what}; fetch or write the file again')

    def read(self) -> np.ndarray:
        """The tensor, in the file's type."""
        numbers = np.fromfile(self.file, self.dtype, self.span, offset=self.start)
        if numbers.size != self.span:
            raise self.broken('is not whole')
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers, self.shape, strides)

    def equals(self, other: 'Stored') -> bool:
        """Whether both hold the same numbers; reads them in blocks, if they lie apart."""
        if self.shape != other.shape:
            return False
        place = ('file', 'start', 'strides', 'dtype')
        if all(getattr(self, key) == getattr(other, key) for key in place):
            return True
        blocks = zip(self._blocks(), other._blocks(), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in blocks)

    def _blocks(self) -> Iterator[np.ndarray]:
        if not self.shape:
            yield self.read()
            return
        rows = max(_BLOCK // (4 * max(math.prod(self.shape[1:]), 1)), 1)
        for row in range(0, self.shape[0], rows):
            shape = (min(rows, self.shape[0] - row), *self.shape[1:])
            start = self.start + row * self.strides[0] * self.dtype.itemsize
            yield dataclasses.replace(self, shape=shape, start=start).read()


def _span(shape: Sequence[int], strides: Sequence[int]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def find(folder: pathlib.Path) -> dict[str, Stored]:
    """All tensors of a folder by their names, unread.

    Raises:
      UserError: no weights, an index that lies, or a broken or hostile file.
    """
    for name in WEIGHT_FILES:
        if index := foreign.file(folder, f'{name}.index.json'):
            return _find_sharded(index)
        if file := foreign.file(folder, name):
            return _find_in_file(file)
    raise UserError(f'{folder} has no weights: neither {" nor ".join(WEIGHT_FILES)} nor an index')


class _Index(msgspec.Struct):
    """What is read of an index file."""

    weight_map: dict[str, str]


def index_shards(index: pathlib.Path) -> dict[str, str]:
    """{tensor: name of the file with it} of an index file.

    Raises:
      UserError: it is no index, or names files that are not beside it.
    """
    shards = files_lib.read_json(index, _Index).weight_map
    if not shards:
        raise UserError(f'{index} has no weight_map from tensors to files')
    for name in shards:
        _check_name(index, name)
    for file in set(shards.values()):
        plain = file == pathlib.PurePosixPath(file).name and '\\' not in file
        plain = plain and file.isprintable() and len(file.encode()) <= _LONGEST_NAME
        if not plain or not file.endswith(('.safetensors', '.bin')) or file.startswith('.'):
            raise UserError(
                f'{index} names the file {shortened(file)}; shards lie beside it, as *.bin or '
                '*.safetensors'
            )
    return shards


def _find_sharded(index: pathlib.Path) -> dict[str, Stored]:
    shards = index_shards(index)
    tensors: dict[str, Stored] = {}
    for file in sorted(set(shards.values())):
        if not foreign.file(index.parent, file):
            raise UserError(f'{index} names the shard {file}, which is not beside it')
        tensors |= _find_in_file(index.parent / file)
    for name, file in shards.items():
        if name not in tensors or tensors[name].file.name != file:
            raise UserError(f'{index.parent / file} lacks the tensor {name} that {index} promises')
    return tensors


def _find_in_file(file: pathlib.Path) -> dict[str, Stored]:
    return _find_safetensors(file) if file.suffix == '.safetensors' else _find_bin(file)


def _check_name(file: pathlib.Path, name: str) -> None:
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        raise UserError(f'{file}: {name[:80]!r} is no name of a tensor')


def read_json(file: pathlib.Path) -> dict[str, Any]:
    """A JSON object; a UserError for anything else."""
    return files_lib.read_json(file, dict[str, Any])


def write_json(file: pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object as transformers lays it out."""
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')


# ------------------------------------------------------------------------------------- safetensors


_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Entry(msgspec.Struct):
    """A tensor in the header; the offsets count from the header's end."""

    dtype: str
    shape: Annotated[tuple[_Count, ...], msgspec.Meta(max_length=_MOST_AXES)]
    data_offsets: tuple[_Count, _Count]


def _check_places(file: pathlib.Path, entries: Mapping[str, _Entry], size: int) -> None:
    """Raises UserError unless tensors lie one behind another and fill the file, as the format asks.

    Otherwise two could share bytes, and bytes could hide between them.
    """
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        begin, after = entry.data_offsets
        if begin != end:
            raise UserError(
                f'{file}: tensor {name} begins at byte {begin}, and the one before it ends at {end}'
            )
        end = after
    if end != size:
        why = 'is cut short' if size < end else 'holds more than its tensors'
        raise UserError(f'{file} {why}: its header speaks of {end} bytes, and there are {size}')


def _find_safetensors(file: pathlib.Path) -> dict[str, Stored]:
    with open(file, 'rb') as stream:
        length = int.from_bytes(stream.read(8), 'little')
        head = stream.read(length) if length <= _MAX_HEADER else b''
    if not head or len(head) < length:
        raise UserError(f'{file} is no safetensors file, or is cut short in its header')
    header = files_lib.parse_json(head, dict[str, msgspec.Raw], f'the header of {file}')
    header.pop('__metadata__', None)
    entries, tensors = {}, {}
    for name, raw in header.items():
        _check_name(file, name)
        where = f'{file}: tensor {name} has a broken entry in the header'
        entries[name] = entry = files_lib.parse_json(raw, _Entry, where)
        (begin, end), shape, kind = entry.data_offsets, entry.shape, entry.dtype
        if kind not in _SAFETENSORS_TYPES:
            raise UserError(
                f'{file}: tensor {name} is of type {shortened(kind)}; allowed: '
                f'{", ".join(_SAFETENSORS_TYPES)}'
            )
        dtype = _SAFETENSORS_TYPES[kind]
        if end - begin != math.prod(shape) * dtype.itemsize:
            raise UserError(
                f'{file}: tensor {name} of shape {list(shape)} needs '
                f'{math.prod(shape) * dtype.itemsize} bytes and has {end - begin}'
            )
        tensors[name] = Stored(file, name, dtype, shape, 8 + length + begin, _contiguous(shape))
    _check_places(file, entries, os.path.getsize(file) - 8 - length)
    return tensors


class Spec(NamedTuple):
    """A tensor that is to be written: its shape, and what makes it when its turn has come."""

    shape: tuple[int, ...]
    make: Callable[[], np.ndarray]


def write(
    folder: pathlib.Path,
    tensors: Mapping[str, Spec],
    dtype: str = 'float32',
    max_shard: int = MAX_SHARD,
) -> list[str]:
    """Writes model.safetensors, or shards and their index; makes one tensor at a time.

    Args:
      folder: exists already.
      tensors: by name, in the order in which they are written.
      dtype: of the file: 'float32', 'bfloat16' or 'float16'.
      max_shard: bytes in a file; a larger tensor has a file of its own.

    Returns:
      The names of the files.
    """
    shards: list[list[str]] = [[]]
    size = total = 0
    for name, spec in tensors.items():
        needed = math.prod(spec.shape) * _SAFETENSORS_TYPES[_WRITTEN[dtype]].itemsize
        if size + needed > max_shard and shards[-1]:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size, total = size + needed, total + needed
    stem = pathlib.PurePath(SAFETENSORS).stem
    files = [f'{stem}-{i + 1:05}-of-{len(shards):05}.safetensors' for i in range(len(shards))]
    if len(shards) == 1:
        files = [SAFETENSORS]
    for file, names in zip(files, shards, strict=True):
        write_file(folder / file, {name: tensors[name] for name in names}, dtype)
    if len(shards) > 1:
        places = {name: f for f, names in zip(files, shards, strict=True) for name in names}
        index = {'metadata': {'total_size': total}, 'weight_map': dict(sorted(places.items()))}
        (folder / f'{SAFETENSORS}.index.json').write_text(json.dumps(index, indent=1) + '\n')
    return files


def write_file(file: pathlib.Path, tensors: Mapping[str, Spec], dtype: str = 'float32') -> None:
    """Writes one safetensors file; see `write`."""
    kind = _WRITTEN[dtype]
    dtype = _SAFETENSORS_TYPES[kind]
    header: dict[str, Any] = {'__metadata__': {'format': 'pt'}}  # transformers asks for it.
    begin = 0
    for name, spec in tensors.items():
        end = begin + math.prod(spec.shape) * dtype.itemsize
        header[name] = {'dtype': kind, 'shape': list(spec.shape), 'data_offsets': [begin, end]}
        begin = end
    head = json.dumps(header, separators=(',', ':')).encode()
    head += b' ' * (-len(head) % 8)  # So that the numbers are aligned.
    with files_lib.replacing(file) as stream:
        stream.write(struct.pack('<Q', len(head)) + head)
        for name, spec in tensors.items():
            value = np.ascontiguousarray(spec.make(), dtype)
            assert value.shape == spec.shape, (name, value.shape, spec.shape)
            stream.write(value.reshape(-1).view(np.uint8).data)


# ------------------------------------------------------------------------------- pytorch_model.bin


class _Global(NamedTuple):
    """A name that the pickle asks for; never looked up."""

    name: str


class _Storage(NamedTuple):
    """Numbers in a row, which tensors are views of."""

    dtype: np.dtype
    key: str
    size: int  # In numbers.


class _View(NamedTuple):
    """A tensor as torch pickles it."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Refused(Exception):
    """What a pickle holds besides tensors."""


# What reading a broken archive or pickle raises.
_BROKEN = (
    ArithmeticError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError,
    struct.error, zipfile.BadZipFile,
)  # fmt: skip


def _find_bin(file: pathlib.Path) -> dict[str, Stored]:
    """The tensors of what torch.save wrote: a zip archive, or a plain stream before torch 1.6."""
    try:
        is_zip = zipfile.is_zipfile(file)
        content, starts = (_open_zip if is_zip else _open_legacy)(file)
    except _Refused as error:
        raise UserError(
            f'{file} is refused and nothing of it was run: {printable(error)}'
        ) from None
    except _BROKEN as error:
        raise UserError(
            f'{file} is cut short, or is not what torch.save writes ({type(error).__name__}); '
            'fetch it again, or take model.safetensors'
        ) from None
    if not isinstance(content, dict):
        raise UserError(f'{file} holds a {type(content).__name__}, not a dict of tensors')
    views = {name: view for name, view in content.items() if isinstance(view, _View)}
    for name in content:
        _check_name(file, name)
    for name in content.keys() - views.keys():
        raise UserError(f'{file}: {name!r} is no tensor; a file of weights holds nothing else')
    return {name: _stored(file, name, view, starts) for name, view in views.items()}


def _stored(
    file: pathlib.Path, name: str, view: _View, starts: Mapping[str, tuple[int, int]]
) -> Stored:
    """A checked view. `starts`: first byte and number of bytes of each storage."""
    storage = view.storage
    sizes = (view.offset, *view.shape, *view.strides)
    is_whole = all(type(size) is int and size >= 0 for size in sizes)
    if not is_whole or len(view.shape) > _MOST_AXES:
        raise UserError(f'{file}: tensor {name} has an impossible shape or stride')
    if len(view.shape) != len(view.strides) or storage.key not in starts:
        raise UserError(f'{file}: tensor {name} has no numbers, or fewer strides than axes')
    start, length = starts[storage.key]
    size = min(storage.size, length // storage.dtype.itemsize)
    span = _span(view.shape, view.strides)
    # A stride of 0 would make a huge tensor of few numbers.
    if view.offset + span > size or math.prod(view.shape) > size:
        raise UserError(
            f'{file}: tensor {name} of shape {list(view.shape)} does not fit its storage of {size} '
            'numbers; the file is cut short or forged'
        )
    start += view.offset * storage.dtype.itemsize
    return Stored(file, name, storage.dtype, view.shape, start, view.strides)


def _open_zip(file: pathlib.Path) -> tuple[Any, dict[str, tuple[int, int]]]:
    """(what was pickled, first byte and bytes of each storage) of NAME/{data.pkl,data/0,...}."""
    with zipfile.ZipFile(file) as archive, open(file, 'rb') as stream:
        members = archive.infolist()
        pickles = [m for m in members if m.filename.endswith('/data.pkl')]
        if len(pickles) != 1 or pickles[0].filename.count('/') != 1:
            raise _Refused('it has not exactly one NAME/data.pkl')
        root = pickles[0].filename.removesuffix('data.pkl')
        starts = {}
        for member in members:
            # The storages are read from the file itself, so they must lie in it as they are.
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                raise _Refused(f'its member {member.filename!r} is compressed or encrypted')
            name = member.filename.removeprefix(root)
            if not member.filename.startswith(root) or '..' in name.split('/') or '\\' in name:
                raise _Refused(f'its member {member.filename!r} lies outside of {root}')
            if name in starts:
                raise _Refused(f'it has two members {member.filename!r}')
            stream.seek(member.header_offset)
            # The local header: 30 bytes, of which the last four are the lengths of what follows.
            name_length, extra_length = struct.unpack('<26xHH', stream.read(30))
            start = member.header_offset + 30 + name_length + extra_length
            starts[name] = start, member.file_size
        if 'byteorder' in starts and archive.read(f'{root}byteorder') != b'little':
            raise _Refused('its numbers are big-endian; save it again on a usual machine')
        if pickles[0].file_size > _MAX_HEADER:
            raise _Refused('its pickle is larger than any description of tensors')
        content = _read_pickle(io.BytesIO(archive.read(pickles[0])))
    storages = {k.removeprefix('data/'): v for k, v in starts.items() if k.startswith('data/')}
    return content, storages


# torch/serialization.py of any version: MAGIC_NUMBER and PROTOCOL_VERSION.
_LEGACY_MAGIC, _LEGACY_VERSION = 0x1950A86A20F9469CFC6C, 1001


def _open_legacy(file: pathlib.Path) -> tuple[Any, dict[str, tuple[int, int]]]:
    """The same of a stream: magic number, version, about, content, keys, storages in that order."""
    with open(file, 'rb') as stream:
        head = io.BytesIO(stream.read(_MAX_HEADER))
        if _read_pickle(head) != _LEGACY_MAGIC or _read_pickle(head) != _LEGACY_VERSION:
            raise _Refused('it is neither a zip archive nor what torch.save wrote before 1.6')
        _read_pickle(head)  # About the machine that wrote it.
        storages: dict[str, _Storage] = {}
        content = _read_pickle(head, storages)
        keys = _read_pickle(head)
        starts, at = {}, head.tell()
        for key in keys:
            stream.seek(at)
            (size,) = struct.unpack('<q', stream.read(8))
            if size != storages[key].size:
                raise ValueError(key)
            starts[key] = at + 8, size * storages[key].dtype.itemsize
            at += 8 + starts[key][1]
    return content, starts


def _read_pickle(stream: io.BytesIO, storages: dict[str, _Storage] | None = None) -> Any:
    """One pickle as data, by the opcodes that torch.save uses; there is no way to call anything.

    Args:
      stream: stands behind the pickle afterwards.
      storages: filled with those that the pickle speaks of.

    Raises:
      _Refused: an opcode or a name that has no place in a file of tensors.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        mark = marks.pop()
        items = stack[mark:]
        del stack[mark:]
        return items

    for opcode, argument, _ in pickletools.genops(stream):
        match opcode.name:
            case 'PROTO':
                pass
            case 'STOP':
                return stack.pop()
            case 'MARK':
                marks.append(len(stack))
            case 'NONE':
                stack.append(None)
            case 'NEWTRUE' | 'NEWFALSE':
                stack.append(opcode.name == 'NEWTRUE')
            case 'BININT' | 'BININT1' | 'BININT2' | 'LONG1' | 'BINFLOAT' | 'BINUNICODE':
                stack.append(argument)
            case 'EMPTY_DICT':
                stack.append({})
            case 'EMPTY_LIST':
                stack.append([])
            case 'EMPTY_TUPLE':
                stack.append(())
            case 'TUPLE':
                stack.append(tuple(since_mark()))
            case 'TUPLE1' | 'TUPLE2' | 'TUPLE3':
                count = int(opcode.name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case 'APPEND':
                item = stack.pop()
                _expect(list, stack[-1]).append(item)
            case 'APPENDS':
                items = since_mark()
                _expect(list, stack[-1]).extend(items)
            case 'SETITEM':
                key, value = stack.pop(-2), stack.pop()
                _set_items(stack[-1], [key, value])
            case 'SETITEMS':
                items = since_mark()
                _set_items(stack[-1], items)
            case 'BINPUT' | 'LONG_BINPUT':
                memo[argument] = stack[-1]
            case 'BINGET' | 'LONG_BINGET':
                stack.append(memo[argument])
            case 'GLOBAL':
                if argument not in (*_STORAGE_TYPES, *_BUILDERS):
                    raise _Refused(f'it asks for {argument.replace(" ", ".")!r}')
                stack.append(_Global(argument))
            case 'BINPERSID':
                storage = _storage(stack.pop())
                if storages is not None:
                    storages[storage.key] = storage
                stack.append(storage)
            case 'REDUCE':
                arguments = _expect(tuple, stack.pop())
                builder = _BUILDERS.get(_expect(_Global, stack.pop()).name)
                if builder is None:
                    raise _Refused('it calls what builds no tensor')
                stack.append(builder(arguments))
            case 'BUILD':
                stack.pop()  # An OrderedDict's attributes: versions of the modules.
                _expect(dict, stack[-1])
            case _:
                raise _Refused(f'it uses the pickle opcode {opcode.name}')
    raise EOFError


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _Refused(f'it treats a {type(value).__name__} as a {kind.__name__.lstrip("_")}')
    return value


def _set_items(target: Any, items: Sequence[Any]) -> None:
    for key, value in zip(items[::2], items[1::2], strict=True):
        _expect(dict, target)[_expect(str, key)] = value


def _storage(identity: Any) -> _Storage:
    """From ('storage', its class, key, device, size) and, in old files, None."""
    word, kind, key, _, size, *view = _expect(tuple, identity)
    if word != 'storage' or type(size) is not int or any(view):
        raise _Refused('it refers to something that is no plain storage')
    if _expect(_Global, kind).name not in _STORAGE_TYPES:
        raise _Refused(f'it stores numbers as {kind.name}')
    return _Storage(_STORAGE_TYPES[kind.name], _expect(str, key), size)


def _rebuild_tensor(arguments: tuple) -> _View:
    storage, offset, shape, strides, *_ = arguments  # Then: requires_grad and hooks.
    return _View(_expect(_Storage, storage), offset, _expect(tuple, shape), _expect(tuple, strides))


def _rebuild_parameter(arguments: tuple) -> _View:
    return _expect(_View, arguments[0])


def _ordered_dict(arguments: tuple) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for pairs in arguments:
        for pair in _expect(list, pairs):
            _set_items(result, _expect(list, pair))
    return result


# The names that a file may ask for, and what stands in for them.
_BUILDERS: dict[str, Callable[[tuple], Any]] = {
    'collections OrderedDict': _ordered_dict,
    'torch._utils _rebuild_tensor_v2': _rebuild_tensor,
    'torch._utils _rebuild_parameter': _rebuild_parameter,
}
