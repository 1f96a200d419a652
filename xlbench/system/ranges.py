"""The values that a setting may have: msgspec's constraints in its type, beside its default.

  alpha: Annotated[float, Meta(gt=0)] = 16.0
  batch_size: Annotated[int, Meta(ge=1, le=2**24)]
  row_multiple: Annotated[int, Meta(ge=1)] | None = None
  lengths: Mapping[str, Annotated[int, Meta(ge=1, le=2**20)]]
  schedule: Literal['constant', 'linear'] = 'linear'
"""

import ast
import dataclasses
import math
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta as Meta  # For the modules that declare blocks.

from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

COMPUTED = object()  # A default that only the module of its class can make.
KINDS = {int: 'a whole number', float: 'a number', bool: 'True or False', str: 'a text'}


class Field(NamedTuple):
    """A key of a block: its type, and its default: MISSING if it has none, or COMPUTED."""

    type: Any
    default: Setting = dataclasses.MISSING


Fields = dict[str, Field]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """A block of a config, whose fields' types say what values they take.

    Example: class Mesh(Block, where='config.mesh'), as messages call it
    """

    where: ClassVar[str] = ''

    def __init_subclass__(cls, where: str = '') -> None:
        super().__init_subclass__()
        cls.where = where or cls.where

    def __post_init__(self) -> None:
        for key, field in fields_of(type(self)).items():
            value = getattr(self, key)
            check(field.type, value, f'{self.where}.{key}' if self.where else key)
            if isinstance(value, list):  # Of a file; equal blocks are hashed alike.
                object.__setattr__(self, key, tuple(value))


def fields_of(block: type) -> Fields:
    """Returns the keys of a dataclass."""
    return {field.name: Field(field.type, default_of(field)) for field in dataclasses.fields(block)}


def default_of(field: dataclasses.Field) -> Setting:
    """The default of a field; MISSING if it has none."""
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def check_block(
    fields: Fields, block: Mapping[str, Setting], where: str, open_ended: bool = False
) -> None:
    """Raises UserError for a key that there is not, a value that it does not take, or a lack.

    Messages call the block `where`, such as 'config.mesh'; an `open_ended` one may have any other
    keys as well.
    """
    needed = [key for key, field in fields.items() if field.default is dataclasses.MISSING]
    check_keys(block, needed, where, block if open_ended else fields)
    for key, value in block.items():
        if key in fields:
            check(fields[key].type, value, f'{where}.{key}')


def check_keys(
    block: Mapping[str, Setting], needed: Sequence[str], where: str, optional: Collection[str] = ()
) -> None:
    """Raises UserError for a key that is neither needed nor optional, or a needed one it lacks."""
    for key in block:
        if key not in needed and key not in optional:
            raise errors.unknown(f'key in {where}', key, {*needed, *optional})
    for key in needed:
        if key not in block:
            raise UserError(f'{where} lacks {key!r}; it needs {", ".join(needed)}')


def check(kind: Any, value: Setting, where: str) -> None:
    """Raises UserError, which calls the value `where`, if it is not of a type or out of its range.

    Types are int, Annotated[float, Meta(ge=0)] | None, Literal['a', 'b'], ...
    """
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        if value is None and len(kinds) < len(inner):
            return
        for kind in kinds:
            try:
                return check(kind, value, where)
            except UserError:
                if len(kinds) == 1:
                    raise
        raise _wrong(value, where, ' or '.join(map(_allowed, kinds)))
    elif origin is Mapping:
        if not hasattr(value, 'items'):  # A ConfigDict is no Mapping.
            raise _wrong(value, where, 'a block of keys, like dict(KEY=VALUE)')
        for key, one in value.items() if inner else ():
            check(inner[1], one, f'{where}.{key}')
    elif origin is Sequence:
        if not isinstance(value, list | tuple):
            raise _wrong(value, where, 'a tuple, as (A, B) or (A,)')
        for place, one in enumerate(value if inner else ()):
            check(inner[0], one, f'{where}[{place}]')
    elif origin is Literal:
        if not isinstance(value, str) or value not in inner:
            key = where.rpartition('.')[2]
            raise errors.unknown(key if key == where else f'{key} in {where}', value, inner)
    elif not _converts(value, plain(kind)):
        raise _wrong(value, where, KINDS.get(plain(kind), f'{kind}'))
    elif isinstance(value, float) and not math.isfinite(value):
        raise _wrong(value, where, 'finite')
    elif not _converts(value, kind):
        raise _wrong(value, where, limits(kind))


def _allowed(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ', '.join(map(repr, get_args(kind)))
    return KINDS.get(plain(kind), 'a tuple, as (A, B) or (A,)')


def _converts(value: Setting, kind: Any) -> bool:
    try:
        msgspec.convert(float(value) if isinstance(value, float) else value, kind)  # NumPy's, too.
    except msgspec.ValidationError:
        return False
    return True


def _wrong(value: Setting, where: str, words: str) -> UserError:
    return UserError(f'{where} is {errors.shortened(value, 100)}; it must be {words}')


def read(text: str, kinds: Sequence[Any], where: str) -> Setting:
    """Reads a text of a command line as a value of one of several types; see `alternatives`.

    Such texts are '3', 'True', "('a', 'b')", 'a' for ('a',), or '' for (). The range is not
    checked; a text of none of the types is a UserError.
    """
    for kind in filter(kinds.__contains__, _READERS):
        try:
            return _READERS[kind](text)
        except (KeyError, ValueError):
            continue
    words = [KINDS[kind] for kind in kinds if kind in KINDS]
    raise _wrong(text, where, ' or '.join(words))


def _read_tuple(text: str) -> tuple:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = text
    return tuples(value) if isinstance(value, list | tuple) else (value,) if value != '' else ()


def tuples(value: Setting) -> Setting:
    """Lists as tuples, also in blocks, as deep as they go: configs have no lists."""
    if isinstance(value, Mapping):
        return {key: tuples(inner) for key, inner in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list | tuple) else value


# In the order in which a text is tried.
_READERS: Mapping[Any, Callable[[str], Setting]] = {
    bool: lambda text: {'true': True, '1': True, 'false': False, '0': False}[text.lower()],
    int: int,
    float: float,
    type(None): lambda text: {'None': None}[text],
    Sequence: _read_tuple,
    str: str,
}


def alternatives(kind: Any) -> Sequence[Any]:
    """The types of A | B, each without its range; one that is no union stands for itself."""
    is_union = get_origin(kind) in (Union, types.UnionType)
    return tuple(map(plain, get_args(kind) if is_union else (kind,)))


def plain(kind: Any) -> Any:
    """The first of a type's alternatives, without its range: Annotated[int, ...] | None -> int."""
    while inner := get_args(kind):
        if get_origin(kind) in (Mapping, Sequence):
            return get_origin(kind)
        if get_origin(kind) is Literal:
            return type(inner[0])
        kind = inner[0]
    return kind


def limits(kind: Any) -> str:
    """The range of a type in words: '1 to 2**24', '0 or more, below 1', 'above 0'."""
    _, meta = get_args(kind)
    least = f'above {_number(meta.gt)}' if meta.ge is None else _number(meta.ge)
    if meta.le is not None:
        return f'{least}{" to" if meta.gt is None else ", up to"} {_number(meta.le)}'
    least += ' or more' if meta.gt is None else ''
    return least if meta.lt is None else f'{least}, below {_number(meta.lt)}'


def _number(limit: float) -> str:
    """A limit as one writes it: 16777216 -> '2**24'."""
    size = abs(limit)
    if isinstance(size, int) and size >= 1024 and size & (size - 1) == 0:
        return f'{"-" if limit < 0 else ""}2**{size.bit_length() - 1}'
    return f'{limit}'
