"""The weight files of a Hugging Face folder: tensors read, and written, one at a time.

  model.safetensors, pytorch_model.bin            one file
  model.safetensors.index.json + its shards       several (or pytorch_model.bin.index.json)

The library `safetensors` checks the header of its files. Numbers are read and written here: the
library reads through a memory map, so that a file which is cut short meanwhile, or a disk that
fails, kills the process without a word; and it writes what is in memory as a whole. torch_pickles
reads a .bin file.
"""

import json
import math
import pathlib
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

import huggingface_hub
import msgspec
import numpy as np
import safetensors

from xlbench.huggingface import stored, torch_pickles
from xlbench.huggingface.stored import Stored
from xlbench.system import files as files_lib, untrusted
from xlbench.system.errors import UserError, printable, shortened
from xlbench.system.files import Json

SAFETENSORS, BIN = 'model.safetensors', 'pytorch_model.bin'
WEIGHT_FILES = (SAFETENSORS, BIN)  # In order of preference; each may have an index in its place.
MAX_SHARD = 5 * 10**9  # Bytes; what transformers 4 wrote.
_DTYPES = {name: np.dtype(dtype) for name, (_, dtype) in stored.TYPES.items()}
_HeaderEntry = dict[str, str | list[int]]
_WRITTEN = {'float32': 'F32', 'bfloat16': 'BF16', 'float16': 'F16'}


def find(folder: pathlib.Path) -> dict[str, Stored]:
    """All tensors of a folder by their names, unread.

    Raises:
      UserError: no weights, an index that lies, or a broken or hostile file.
    """
    for name in WEIGHT_FILES:
        if index := untrusted.file(folder, f'{name}.index.json'):
            return _find_sharded(index)
        if file := untrusted.file(folder, name):
            return _find_in_file(file)
    raise UserError(f'{folder} has no weights: neither {" nor ".join(WEIGHT_FILES)} nor an index')


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def index_shards(index: pathlib.Path) -> dict[str, str]:
    """{tensor: name of the file with it} of an index file.

    Raises:
      UserError: it is not an index, or names files that are not beside it.
    """
    shards = files_lib.read_json(index, _Index).weight_map
    if not shards:
        raise UserError(f'{index} has no weight_map from tensors to files')
    for name in shards:
        stored.check_name(index, name)
    for file in set(shards.values()):
        plain = file == pathlib.PurePosixPath(file).name and '\\' not in file
        plain = plain and file.isprintable() and len(file.encode()) <= stored.LONGEST_NAME
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
        if not untrusted.file(index.parent, file):
            raise UserError(f'{index} names the shard {file}, which is not beside it')
        tensors |= _find_in_file(index.parent / file)
    for name, file in shards.items():
        if name not in tensors or tensors[name].file.name != file:
            raise UserError(f'{index.parent / file} lacks the tensor {name} that {index} promises')
    return tensors


def _find_in_file(file: pathlib.Path) -> dict[str, Stored]:
    return _find_safetensors(file) if file.suffix == '.safetensors' else torch_pickles.find(file)


def _find_safetensors(file: pathlib.Path) -> dict[str, Stored]:
    """The tensors of a file, which lie one behind another and fill it, as the library checks."""
    try:
        with safetensors.safe_open(file, 'numpy') as opened:
            slices = {name: opened.get_slice(name) for name in opened.offset_keys()}
            about = {name: (s.get_dtype(), tuple(s.get_shape())) for name, s in slices.items()}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        reason = printable(error).removeprefix('Error while deserializing header: ')
        raise UserError(
            f'{file} is no whole safetensors file ({reason}); fetch or write the file again'
        ) from None
    with open(file, 'rb') as stream:
        start = 8 + int.from_bytes(stream.read(8), 'little')
    tensors = {}
    for name, (kind, shape) in about.items():
        stored.check_name(file, name)
        if kind not in _DTYPES:
            raise UserError(
                f'{file}: tensor {name} is of type {shortened(kind)}; allowed: {", ".join(_DTYPES)}'
            )
        if len(shape) > stored.MOST_AXES:
            raise UserError(
                f'{file}: tensor {name} has {len(shape)} axes; at most {stored.MOST_AXES} are '
                'allowed'
            )
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        tensors[name] = Stored(file, name, _DTYPES[kind], shape, start, strides)
        start += math.prod(shape) * _DTYPES[kind].itemsize
    return tensors


def read_json(file: pathlib.Path) -> dict[str, Json]:
    """A JSON object; a UserError for anything else."""
    return files_lib.read_json(file, dict)


def write_json(file: pathlib.Path, content: Mapping[str, Json]) -> None:
    """Writes a JSON object as transformers lays it out."""
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')


# ------------------------------------------------------------------------------------------ writing


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
    size = _DTYPES[_WRITTEN[dtype]].itemsize
    split = huggingface_hub.split_state_dict_into_shards_factory(
        dict(tensors),
        get_storage_size=lambda spec: math.prod(spec.shape) * size,
        filename_pattern='model{suffix}.safetensors',
        max_shard_size=max_shard,
    )
    for file, names in split.filename_to_tensors.items():
        write_file(folder / file, {name: tensors[name] for name in names}, dtype)
    if split.is_sharded:
        places = dict(sorted(split.tensor_to_filename.items()))
        index = {'metadata': split.metadata, 'weight_map': places}
        (folder / f'{SAFETENSORS}.index.json').write_text(json.dumps(index, indent=1) + '\n')
    return list(split.filename_to_tensors)


def write_file(file: pathlib.Path, tensors: Mapping[str, Spec], dtype: str = 'float32') -> None:
    """Writes one safetensors file; see `write`."""
    kind = _WRITTEN[dtype]
    numbers = _DTYPES[kind]
    header: dict[str, _HeaderEntry] = {'__metadata__': {'format': 'pt'}}  # For transformers.
    begin = 0
    for name, spec in tensors.items():
        end = begin + math.prod(spec.shape) * numbers.itemsize
        header[name] = {'dtype': kind, 'shape': list(spec.shape), 'data_offsets': [begin, end]}
        begin = end
    head = json.dumps(header, separators=(',', ':')).encode()
    head += b' ' * (-len(head) % 8)  # So that the numbers are aligned.
    with files_lib.replacing(file) as stream:
        stream.write(struct.pack('<Q', len(head)) + head)
        for name, spec in tensors.items():
            value = np.ascontiguousarray(spec.make(), numbers)
            assert value.shape == spec.shape, (name, value.shape, spec.shape)
            stream.write(value.reshape(-1).view(np.uint8).data)
