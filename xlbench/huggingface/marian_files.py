"""Marian's own files, as Mozilla publishes its translators: a model, a vocabulary, no config.json.

These are the translators with a recurrent decoder; others are read as transformers stores them.

  model.PAIR.intgemm.alphas.bin   or model.PAIR.bin: parameters, and their description in YAML
  vocab.PAIR.spm                  a SentencePiece model for both languages

marian-nmt/marian-dev, src/common/binary.cpp: little endian; uint64 version and number of tensors;
for each four uint64 (bytes of its name, type, axes, bytes of data); the names; the shapes as int32;
a gap that a uint64 counts; the data. intgemm8 is int8, followed by the float32 by which numbers
were multiplied; such a kernel is stored [out, in], and others [in, out].
"""

from __future__ import annotations

import math
import pathlib
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
import yaml

from xlbench.huggingface import stored, tensors as tensors_lib
from xlbench.huggingface.mapping import KINDS
from xlbench.huggingface.stored import Stored
from xlbench.models.families import FAMILIES, Fields
from xlbench.system import files as files_lib, untrusted
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

if TYPE_CHECKING:  # A config.json is read without jax.
    from xlbench.models.layers import TransformerConfig

KIND = KINDS['marian_files']
MODEL_TYPE = 'marian_ssru'  # As a config.json would have it.
MODEL, VOCABULARY = 'model.bin', 'vocab.spm'  # As they are written here.
_DESCRIPTION = 'special:model.yml'
_VERSION, _INT8, _FLOAT32, _INTGEMM8 = 1, 0x101, 0x404, 0x4101
_MOST_TENSORS, _MOST_BYTES = 1 << 16, 1 << 20  # Of all names and shapes.
_ALIGNED = 256  # Bytes; where the data begins, as intgemm reads it.
TABLE = 'Wemb'
_Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
_Depth = Annotated[int, msgspec.Meta(ge=1, le=1 << 8)]
_Rows = Annotated[int, msgspec.Meta(ge=2, le=1 << 24)]


class _Sizes(msgspec.Struct, rename=lambda name: name.replace('_', '-')):
    """The keys of the description that give sizes."""

    dim_emb: _Size
    dim_vocabs: Annotated[list[_Rows], msgspec.Meta(min_length=2, max_length=2)]
    enc_depth: _Depth
    dec_depth: _Depth
    transformer_heads: _Size
    transformer_dim_ffn: _Size


class _Head(msgspec.Struct):
    name: str
    kind: int
    shape: tuple[int, ...]
    size: int  # Bytes of data.


def find(folder: str | pathlib.Path) -> pathlib.Path | None:
    """The model in a folder of Marian's; None where there is no such model.

    Raises:
      UserError: there are several models.
    """
    models = _named(folder, 'model.', '.bin')
    if not models or 'config.json' in files_lib.names(folder):
        return None
    return _only(folder, models)


def vocabulary(folder: str | pathlib.Path) -> pathlib.Path:
    """The vocabulary beside the model.

    Raises:
      UserError: there is none, or there are several.
    """
    return _only(folder, _named(folder, 'vocab.', '.spm'))


def _named(folder: str | pathlib.Path, start: str, end: str) -> list[str]:
    names = files_lib.names(folder)
    return [name for name in names if name.startswith(start) and name.endswith(end)]


def _only(folder: str | pathlib.Path, names: list[str]) -> pathlib.Path:
    if len(names) != 1:
        raise UserError(
            f'{folder} has {", ".join(map(shortened, names)) or "no vocabulary"}; a translator of '
            'Marian is one model.*.bin with one vocab.*.spm for both languages'
        )
    path = untrusted.file(folder, names[0])
    assert path is not None  # It is listed.
    return path


def read(file: pathlib.Path) -> tuple[dict[str, Json], dict[str, Stored]]:
    """Reads what a model is, and finds its tensors.

    Returns:
      What config.json says of the models of other families, and the tensors by Marian's names, with
      kernels [out, in] and vectors [n].

    Raises:
      UserError: the file is damaged, or holds a model of another kind.
    """
    try:
        heads, start = _read_heads(file)
    except (struct.error, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise _damaged(file, 'its head is cut short') from error
    if start + sum(head.size for head in heads) > file.stat().st_size:
        raise _damaged(file, 'it is cut short')
    tensors, description = {}, None
    for head in heads:
        if head.name in tensors:
            raise _damaged(file, f'tensor {head.name} is there twice')
        if head.name == _DESCRIPTION and head.size <= _MOST_BYTES:
            description = np.fromfile(file, np.uint8, head.size, offset=start).tobytes()
        elif head.kind in (_FLOAT32, _INTGEMM8):
            tensors[head.name] = _tensor(file, head, start)
        start += head.size
    if description is None:
        raise UserError(f'{file} has no {_DESCRIPTION}, which says what model it is')
    return _config(file, description.rstrip(b'\0')), tensors


def _read_heads(file: pathlib.Path) -> tuple[list[_Head], int]:
    """The heads, and the place where the data begins."""
    with untrusted.open_regular(file) as stream:

        def take(form: str) -> tuple[int, ...]:
            return struct.unpack(f'<{form}', stream.read(struct.calcsize(f'<{form}')))

        version, count = take('2Q')
        if version != _VERSION or not 0 < count <= _MOST_TENSORS:
            raise _damaged(file, f'it begins with version {version} and {count} tensors')
        sizes = [take('4Q') for _ in range(count)]
        if sum(length + 4 * axes for length, _, axes, _ in sizes) > _MOST_BYTES:
            raise _damaged(file, 'its names and shapes are too long')
        names = [stream.read(size[0]).rstrip(b'\0').decode() for size in sizes]
        shapes = [take(f'{size[2]}i') for size in sizes]
        (gap,) = take('Q')
        start = stream.tell() + gap
    for name in names:
        stored.check_name(file, name)
    rows = zip(names, sizes, shapes, strict=True)
    return [_Head(name, size[1], shape, size[3]) for name, size, shape in rows], start


def _tensor(file: pathlib.Path, head: _Head, start: int) -> Stored:
    count, is_int8 = math.prod(head.shape), head.kind == _INTGEMM8
    needed = count + 4 if is_int8 else 4 * count
    if len(head.shape) != 2 or min(head.shape) < 1 or needed > head.size:
        raise _damaged(file, f'tensor {head.name} has shape {head.shape} and {head.size} bytes')
    multiplier = None
    if is_int8:
        multiplier = float(np.fromfile(file, '<f4', 1, offset=start + count)[0])
        if not (math.isfinite(multiplier) and multiplier):
            raise _damaged(file, f'tensor {head.name} has the multiplier {multiplier}')
    inputs, outputs = head.shape
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    if head.name == TABLE:
        shape, strides = head.shape, (outputs, 1)
    elif inputs == 1:
        shape, strides = (outputs,), (1,)
    else:
        shape, strides = (outputs, inputs), (inputs, 1) if is_int8 else (1, outputs)
    dtype = np.dtype('i1' if is_int8 else '<f4')
    return Stored(file, head.name, dtype, shape, start, strides, multiplier)


def _config(file: pathlib.Path, description: bytes) -> dict[str, Json]:
    """The description of a model, in YAML -> the keys of a config.json."""
    try:
        content = yaml.safe_load(description)
        sizes = msgspec.convert(content, _Sizes)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = str(error).partition('\n')[0]
        raise UserError(f'{file}: {_DESCRIPTION} does not describe a model: {reason}') from error
    for key, value in KIND.fixed.items():
        if content.get(key, value) != value:
            raise UserError(
                f'{file}: {key} is {shortened(content[key])}; supported: {value!r}, as in the '
                "translators that Mozilla publishes; Marian's other models are read in the form "
                'that transformers has for them'
            )
    rows, others = sizes.dim_vocabs
    if rows != others or sizes.dim_emb % sizes.transformer_heads:
        raise UserError(
            f'{file}: dim-vocabs is {[rows, others]} and dim-emb {sizes.dim_emb}; supported: one '
            f'vocabulary, and a multiple of transformer-heads, {sizes.transformer_heads}'
        )
    named = {key: content[key] for key in KIND.keys.values() if key in content}
    named |= {'is_encoder_decoder': True, 'vocab_size': rows}
    return {'model_type': MODEL_TYPE, **named}


def from_config(config: Mapping[str, Json]) -> Fields:
    """Maps the output of `read` to arguments of models.build."""
    family = config['model_type']
    return {'family': family, **FAMILIES[family].fields, **KIND.read(config), **KIND.fields}


def _damaged(file: pathlib.Path, why: str) -> UserError:
    return UserError(f'{file} is no whole model of Marian: {why}; fetch the file again')


# ------------------------------------------------------------------------------------------ writing


def write(
    file: pathlib.Path, config: TransformerConfig, tensors: Mapping[str, tensors_lib.Spec]
) -> None:
    """Writes a model in float32, which Marian and its relatives open.

    Args:
      file: its path.
      config: the model's.
      tensors: by Marian's names, with kernels [out, in] and vectors [n]; made one at a time.
    """
    sizes = KIND.written(config)
    sizes['dim-vocabs'] = [sizes.pop('vocab_size')] * 2
    content = dict(sorted({**KIND.defaults, **KIND.fixed, **sizes}.items()))
    description = yaml.safe_dump(content).encode() + b'\0'
    heads = [_Head(_DESCRIPTION, _INT8, (len(description),), len(description))]
    for name, spec in tensors.items():
        shape = spec.shape if name == TABLE else (*spec.shape[1:], spec.shape[0])
        shape = shape if len(shape) == 2 else (1, *shape)
        heads.append(_Head(name, _FLOAT32, shape, 4 * math.prod(shape)))
    encoded = [head.name.encode() + b'\0' for head in heads]
    with files_lib.replacing(file) as stream:
        stream.write(struct.pack('<2Q', _VERSION, len(heads)))
        for text, head in zip(encoded, heads, strict=True):
            stream.write(struct.pack('<4Q', len(text), head.kind, len(head.shape), head.size))
        stream.write(b''.join(encoded))
        for head in heads:
            stream.write(struct.pack(f'<{len(head.shape)}i', *head.shape))
        gap = -(stream.tell() + 8) % _ALIGNED
        stream.write(struct.pack('<Q', gap) + bytes(gap) + description)
        for head in heads[1:]:
            value = np.asarray(tensors[head.name].make(), '<f4')
            value = value if head.name == TABLE else value.T
            stream.write(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
