"""Files that torch.save wrote, read as data, so that they can run nothing.

A .bin file is a pickle, which in general may call anything when it is loaded. Here it is read by a
machine that knows no calls: it builds dicts, lists, numbers, strings and descriptions of tensors,
and refuses a file that asks for more. Of a training checkpoint of fairseq, which holds its options
and the optimizer's state beside the model, the model is taken.
"""

import io
import math
import pathlib
import pickletools
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xlbench.huggingface import stored
from xlbench.huggingface.stored import Stored
from xlbench.system.errors import UserError, printable

_MAX_HEADER = 10**8  # Bytes of a pickle, which only describes.
_STORAGES = {f'torch {name}': np.dtype(dtype) for name, dtype in stored.TYPES.values()}
_Places = dict[str, tuple[int, int]]  # First byte and number of bytes of each storage.
_T = TypeVar('_T')


class _Global(NamedTuple):
    """A name that the pickle asks for; never looked up."""

    name: str


class _Storage(NamedTuple):
    """Numbers in a row, which tensors are views of."""

    dtype: np.dtype
    key: str
    size: int  # In numbers.


class _View(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_Value = None | bool | int | float | str | dict | list | tuple | _Global | _Storage | _View


class _Refused(Exception):
    """A pickle holds something else than tensors."""


# What reading a broken archive or pickle raises.
_BROKEN = (
    ArithmeticError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError,
    struct.error, zipfile.BadZipFile,
)  # fmt: skip


def find(file: pathlib.Path) -> dict[str, Stored]:
    """The tensors of what torch.save wrote: a zip archive, or a plain stream before torch 1.6."""
    try:
        is_zip = zipfile.is_zipfile(file)
        content, starts = (_open_zip if is_zip else _open_legacy)(file)
    except _Refused as error:
        raise UserError(
            f'{file} is refused; none of its code was run: {printable(error)}'
        ) from None
    except _BROKEN as error:
        raise UserError(
            f'{file} is cut short, or is not what torch.save writes ({type(error).__name__}); '
            'fetch it again, or take model.safetensors'
        ) from None
    if not isinstance(content, dict):
        raise UserError(f'{file} holds a {type(content).__name__}, not a dict of tensors')
    model = content.get('model')
    if isinstance(model, dict) and 'args' in content:  # A checkpoint of fairseq.
        content = model or content
    views = {name: view for name, view in content.items() if isinstance(view, _View)}
    for name in content:
        if not isinstance(name, str):
            raise UserError(f'{file}: {name!r} is not a name of a tensor')
        stored.check_name(file, name)
    for name in content.keys() - views.keys():
        raise UserError(f'{file}: {name!r} is not a tensor; a file of weights holds nothing else')
    return {name: _stored(file, name, view, starts) for name, view in views.items()}


def _stored(file: pathlib.Path, name: str, view: _View, starts: _Places) -> Stored:
    """A checked view. `starts`: first byte and number of bytes of each storage."""
    storage = view.storage
    sizes = (view.offset, *view.shape, *view.strides)
    is_whole = all(type(size) is int and size >= 0 for size in sizes)
    if not is_whole or len(view.shape) > stored.MOST_AXES:
        raise UserError(f'{file}: tensor {name} has an impossible shape or stride')
    if len(view.shape) != len(view.strides) or storage.key not in starts:
        raise UserError(f'{file}: tensor {name} has no numbers, or fewer strides than axes')
    start, length = starts[storage.key]
    size = min(storage.size, length // storage.dtype.itemsize)
    span = stored.span(view.shape, view.strides)
    # A stride of 0 would make a huge tensor of few numbers.
    if view.offset + span > size or math.prod(view.shape) > size:
        raise UserError(
            f'{file}: tensor {name} of shape {list(view.shape)} does not fit its storage of {size} '
            'numbers; the file is cut short or forged'
        )
    start += view.offset * storage.dtype.itemsize
    return Stored(file, name, storage.dtype, view.shape, start, view.strides)


def _open_zip(file: pathlib.Path) -> tuple[_Value, _Places]:
    """(what was pickled, first byte and bytes of each storage) of NAME/{data.pkl,data/0,...}."""
    with zipfile.ZipFile(file) as archive, open(file, 'rb') as stream:
        members = archive.infolist()
        pickles = [m for m in members if m.filename.endswith('/data.pkl')]
        if len(pickles) != 1 or pickles[0].filename.count('/') != 1:
            raise _Refused('it has not exactly one NAME/data.pkl')
        root = pickles[0].filename.removesuffix('data.pkl')
        starts: _Places = {}
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
        content = _read(io.BytesIO(archive.read(pickles[0])))
    storages = {k.removeprefix('data/'): v for k, v in starts.items() if k.startswith('data/')}
    return content, storages


# torch/serialization.py of any version: MAGIC_NUMBER and PROTOCOL_VERSION.
_LEGACY_MAGIC, _LEGACY_VERSION = 0x1950A86A20F9469CFC6C, 1001


def _open_legacy(file: pathlib.Path) -> tuple[_Value, _Places]:
    """Opens magic number, version, about, content, keys and storages, in that order."""
    with open(file, 'rb') as stream:
        head = io.BytesIO(stream.read(_MAX_HEADER))
        if _read(head) != _LEGACY_MAGIC or _read(head) != _LEGACY_VERSION:
            raise _Refused('it is neither a zip archive nor what torch.save wrote before 1.6')
        _read(head)  # About the machine that wrote it.
        storages: dict[str, _Storage] = {}
        content = _read(head, storages)
        keys: Any = _read(head)
        starts, at = {}, head.tell()
        for key in keys:
            stream.seek(at)
            (size,) = struct.unpack('<q', stream.read(8))
            if size != storages[key].size:
                raise ValueError(key)
            starts[key] = at + 8, size * storages[key].dtype.itemsize
            at += 8 + starts[key][1]
    return content, starts


# -------------------------------------------------------------------------------------- the machine


_OPTIONS = 'argparse Namespace'  # Of a training, in fairseq's checkpoints.
# Opcodes that put the same on the stack each time.
_NEW: dict[str, Callable[[], _Value]] = {
    'NONE': lambda: None,
    'NEWTRUE': lambda: True,
    'NEWFALSE': lambda: False,
    'EMPTY_DICT': dict,
    'EMPTY_LIST': list,
    'EMPTY_TUPLE': tuple,
}


def _read(stream: io.BytesIO, storages: dict[str, _Storage] | None = None) -> _Value:
    """One pickle as data, by the opcodes that torch.save uses; there is no way to call anything.

    `stream` stands behind the pickle afterwards, and `storages` has all that the pickle speaks of.

    Raises:
      _Refused: an opcode or a name that has no place in a file of tensors.
    """
    stack: list[_Value] = []
    marks: list[int] = []
    memo: dict[int, _Value] = {}

    def since_mark() -> list[_Value]:
        mark = marks.pop()
        items = stack[mark:]
        del stack[mark:]
        return items

    argument: Any
    for opcode, argument, _ in pickletools.genops(stream):
        match opcode.name:
            case 'PROTO':
                pass
            case 'STOP':
                return stack.pop()
            case 'BININT' | 'BININT1' | 'BININT2' | 'LONG1' | 'BINFLOAT' | 'BINUNICODE':
                stack.append(argument)
            case name if name in _NEW:
                stack.append(_NEW[name]())
            case 'MARK':
                marks.append(len(stack))
            case 'TUPLE':
                stack.append(tuple(since_mark()))
            case 'TUPLE1' | 'TUPLE2' | 'TUPLE3':
                count = int(opcode.name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case 'APPEND' | 'APPENDS':
                items = [stack.pop()] if opcode.name == 'APPEND' else since_mark()
                _expect(list, stack[-1]).extend(items)
            case 'SETITEM' | 'SETITEMS':
                one = opcode.name == 'SETITEM'
                items = [stack.pop(-2), stack.pop()] if one else since_mark()
                _set_items(stack[-1], items)
            case 'BINPUT' | 'LONG_BINPUT':
                memo[argument] = stack[-1]
            case 'BINGET' | 'LONG_BINGET':
                stack.append(memo[argument])
            case 'GLOBAL':
                if argument not in (*_STORAGES, *_BUILDERS, _OPTIONS):
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
            case 'NEWOBJ':
                given, name = stack.pop(), _expect(_Global, stack.pop()).name
                if name != _OPTIONS or given != ():
                    raise _Refused(f'it uses the pickle opcode NEWOBJ for {name!r}')
                stack.append({})  # Whose attributes BUILD leaves out.
            case 'BUILD':
                stack.pop()  # Attributes: an OrderedDict's are versions of the modules.
                _expect(dict, stack[-1])
            case _:
                raise _Refused(f'it uses the pickle opcode {opcode.name}')
    raise EOFError


def _expect(kind: type[_T], value: _Value) -> _T:
    if type(value) is not kind:
        raise _Refused(f'it treats a {type(value).__name__} as a {kind.__name__.lstrip("_")}')
    return value


def _set_items(target: _Value, items: Sequence[_Value]) -> None:
    for key, value in zip(items[::2], items[1::2], strict=True):
        if type(key) not in (str, int):  # Numbers are those of an optimizer's parameters.
            raise _Refused(f'it has a {type(key).__name__} as a key')
        _expect(dict, target)[key] = value


def _storage(identity: _Value) -> _Storage:
    """From ('storage', its class, key, device, size) and, in old files, None."""
    word, kind, key, _, size, *view = _expect(tuple, identity)
    if word != 'storage' or type(size) is not int or any(view):
        raise _Refused('it refers to something that is no plain storage')
    if _expect(_Global, kind).name not in _STORAGES:
        raise _Refused(f'it stores numbers as {kind.name}')
    return _Storage(_STORAGES[kind.name], _expect(str, key), size)


def _rebuild_tensor(arguments: tuple) -> _View:
    storage, offset, shape, strides, *_ = arguments  # Then: requires_grad and hooks.
    return _View(_expect(_Storage, storage), offset, _expect(tuple, shape), _expect(tuple, strides))


def _ordered_dict(arguments: tuple) -> dict[str, _Value]:
    result: dict[str, _Value] = {}
    for pairs in arguments:
        for pair in _expect(list, pairs):
            _set_items(result, _expect(list, pair))
    return result


# The names that a file may ask for, and what stands in for them.
_BUILDERS: dict[str, Callable[[tuple], _Value]] = {
    'collections OrderedDict': _ordered_dict,
    'torch._utils _rebuild_tensor_v2': _rebuild_tensor,
    'torch._utils _rebuild_parameter': lambda arguments: _expect(_View, arguments[0]),
}
