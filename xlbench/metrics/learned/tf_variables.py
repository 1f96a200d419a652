"""The variables of a TensorFlow checkpoint or SavedModel, read without TensorFlow.

A checkpoint is PREFIX.index, a table of LevelDB's form whose values are protocol buffers
(tensorflow/core/protobuf/tensor_bundle.proto), and PREFIX.data-00000-of-0000N with the bytes of the
variables, one behind the other. Nothing in either is run.
"""

import pathlib
import struct
from collections.abc import Iterator

import numpy as np
from google.protobuf import empty_pb2
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from xlbench.system.errors import UserError, shortened

_MAGIC = 0xDB4775248B80FB57  # Of LevelDB's tables; the last 8 of the 48 bytes of the footer.
_FOOTER = 48
_FLOAT = 1  # DT_FLOAT.


def read(prefix: pathlib.Path) -> dict[str, np.ndarray]:
    """The float32 variables by their names; others, such as a step's counter, are left out.

    `prefix` is FOLDER/variables/variables of a SavedModel, or FOLDER/model.ckpt-1000. UserError if
    a file is missing or broken.
    """
    index = prefix.with_name(f'{prefix.name}.index')
    try:
        entries = dict(_entries(index.read_bytes()))
        header = dict(_fields(entries.pop(b'')))
        shards = header.get(1, 1)
        if not isinstance(shards, int) or not 1 <= shards <= 10_000:
            raise ValueError(f'{shards!r} shards')
        found = {name.decode(): _read(prefix, value, shards) for name, value in entries.items()}
    except (
        OSError, ValueError, KeyError, IndexError, struct.error, TypeError, DecodeError,
    ) as error:  # fmt: skip
        raise UserError(
            f'{index} and its data are no whole TensorFlow checkpoint: {shortened(str(error))}'
        ) from None
    return {name: variable for name, variable in found.items() if variable is not None}


def _read(prefix: pathlib.Path, entry: bytes, shards: int) -> np.ndarray | None:
    """The variable that a BundleEntryProto says the place of; None for one of another type."""
    fields = dict(_fields(entry))
    if 7 in fields:
        raise ValueError('a variable lies in slices')
    shape = [
        int(dict(_fields(bytes(size))).get(1, 0))
        for key, size in _fields(bytes(fields.get(2, b'')))
        if key == 2
    ]
    dtype, shard, offset, size = (int(fields.get(key, 0)) for key in (1, 3, 4, 5))
    if dtype != _FLOAT:
        return None
    path = prefix.with_name(f'{prefix.name}.data-{shard:05}-of-{shards:05}')
    count = int(np.prod(shape, dtype=object))
    if count * 4 != size or offset + size > path.stat().st_size:
        raise ValueError(f'a variable of shape {shape} has {size} bytes')
    return np.fromfile(path, '<f4', count, offset=offset).reshape(shape)


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a table."""
    footer = data[-_FOOTER:]
    if len(footer) < _FOOTER or struct.unpack('<Q', footer[-8:])[0] != _MAGIC:
        raise ValueError('it does not end as such an index ends')
    _, place = _varint(footer, 0)
    _, place = _varint(footer, place)
    for _, handle in _block(data, footer, place):
        yield from _block(data, handle, 0)


def _block(data: bytes, handle: bytes, place: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the block that a handle says the place and the size of."""
    offset, place = _varint(handle, place)
    size, _ = _varint(handle, place)
    block = data[offset : offset + size]
    if len(block) != size or data[offset + size] != 0:
        raise ValueError('a block of it is cut off or compressed')
    end = size - 4 - 4 * struct.unpack('<I', block[-4:])[0]  # Before the list of restarts.
    key, place = b'', 0
    while place < end:
        shared, place = _varint(block, place)
        own, place = _varint(block, place)
        length, place = _varint(block, place)
        if shared > len(key) or place + own + length > end:
            raise ValueError('a block of it is broken')
        key = key[:shared] + block[place : place + own]
        place += own
        yield key, block[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """(number, the place behind it)."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise ValueError('a number of it has no end')


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers: numbers, and bytes of what is longer."""
    for field in UnknownFieldSet(empty_pb2.Empty.FromString(data)):
        yield field.field_number, field.data
