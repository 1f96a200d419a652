"""The allowed values of a setting: its annotation has them, beside the default.

  alpha: Annotated[float, 'above 0'] = 16.0
  dropout_rate: Annotated[float, '0 or more, below 1'] = 0.1
  batch_size: Annotated[int, '1 to 2**24']
  row_multiple: Annotated[int, '1 to 2**24'] | None = None
  lengths: Mapping[str, Annotated[int, '1 to 2**20']]
  schedule: Literal['constant', 'linear'] = 'linear'

Annotations are read as they are written (xlbench/config/signatures.py), so that a config is checked
before the modules are imported that its blocks are for. Types that are not named here take
anything.
"""

import ast
import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from xlbench.config import signatures
from xlbench.config.signatures import Signature
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

_NUMBER = r'-?\d+(?:\.\d+)?(?:\*\*\d+)?'
_WORDS = re.compile(
    rf'(?P<above>above )?(?P<least>{_NUMBER})(?: \(\w+\))?(?: or more)?'
    rf'(?:,? (?P<most_is>below|up to|to) (?P<most>{_NUMBER}))?'
)
_PLAIN = {
    'int': ((int,), 'a whole number'),
    'float': ((int, float), 'a number'),
    'bool': ((bool,), 'True or False'),
    'str': ((str,), 'a text'),
}


class Range(NamedTuple):
    """Numbers from `least` to `most`; the ends belong to it unless they are open."""

    least: float
    most: float
    is_open_below: bool
    is_open_above: bool

    def __contains__(self, number: float) -> bool:
        above = number > self.least if self.is_open_below else number >= self.least
        return above and (number < self.most if self.is_open_above else number <= self.most)


@functools.cache
def parse(words: str) -> Range:
    """The range that words say: 'above 0', '1 or more', '0 to 1', '0 or more, below 2**32'."""
    match = _WORDS.fullmatch(words)
    if not match:
        raise ValueError(f'{words!r} is not a range')
    most = _number(match['most']) if match['most'] else math.inf
    return Range(_number(match['least']), most, bool(match['above']), match['most_is'] == 'below')


def _number(text: str) -> float:
    base, power, exponent = text.partition('**')
    number = float(base) if '.' in base else int(base)
    return number ** int(exponent) if power else number


def plain(annotation: str) -> str:
    """An annotation without its ranges: "Annotated[int, '1 or more'] | None" -> 'int | None'."""
    annotation = re.sub(r"Literal\['[^]]*\]", 'str', annotation)
    return re.sub(r"Annotated\[(\w+), '[^']*'\]", r'\1', annotation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """A block of a config, whose fields' annotations say what values they take.

    Attributes:
      where: the block's name in messages, such as 'config.mesh'.
    """

    where: ClassVar[str] = ''

    def __post_init__(self) -> None:
        check_own(type(self), vars(self), self.where)


def check_own(owner: type, values: Mapping[str, Setting], name: str = '') -> None:
    """Checks the fields of a dataclass of this package, as `check_arguments` does."""
    if owner.__module__.startswith('xlbench.'):
        check_arguments(signatures.of_class(owner), values, name)


def check_arguments(signature: Signature, values: Mapping[str, Setting], name: str) -> None:
    """Raises UserError for a value that its argument does not take.

    Args:
      signature: with the annotations.
      values: some of the arguments.
      name: what is before their names in the message: 'config.mesh'.
    """
    for key, value in values.items():
        if key in signature.types:
            check(signature.types[key], value, f'{name}.{key}' if name else key)


def check(annotation: str, value: Setting, where: str) -> None:
    """Raises UserError unless an annotation allows the value.

    Args:
      annotation: as it is written in the source.
      value: to be checked.
      where: what the value is called, for the message.
    """
    if annotation:
        _check(_parsed(annotation), value, where)


@functools.cache
def _parsed(annotation: str) -> ast.expr:
    return ast.parse(annotation, mode='eval').body


def _check(node: ast.expr, value: Setting, where: str) -> None:
    if isinstance(node, ast.BinOp):
        _check_any(_alternatives(node), value, where)
    elif isinstance(node, ast.Name) and node.id in _PLAIN:
        kinds, words = _PLAIN[node.id]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise _wrong(value, where, words)
        if isinstance(value, float) and not math.isfinite(value):
            raise _wrong(value, where, 'finite')
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        _check_parts(node.value.id, node.slice, value, where)


def _check_parts(kind: str, inner: ast.expr, value: Setting, where: str) -> None:
    """Checks against what has square brackets: a range, or the parts of a collection."""
    if kind == 'Annotated':
        base, words = inner.elts
        _check(base, value, where)
        if value not in parse(words.value):
            raise _wrong(value, where, words.value)
    elif kind == 'Literal':
        allowed = [ast.literal_eval(node) for node in getattr(inner, 'elts', [inner])]
        if not isinstance(value, str) or value not in allowed:
            key = where.rpartition('.')[2]
            raise errors.unknown(key if key == where else f'{key} in {where}', value, allowed)
    elif kind == 'Sequence':
        if not isinstance(value, list | tuple):
            raise _wrong(value, where, 'a tuple, as (A, B) or (A,)')
        for place, one in enumerate(value):
            _check(inner, one, f'{where}[{place}]')
    elif kind == 'Mapping':
        if not hasattr(value, 'items'):  # A ConfigDict is no Mapping.
            raise _wrong(value, where, 'a block of keys, like dict(KEY=VALUE)')
        for key, one in value.items():
            _check(inner.elts[1], one, f'{where}.{key}')


def _check_any(nodes: Sequence[ast.expr], value: Setting, where: str) -> None:
    others = [node for node in nodes if not (isinstance(node, ast.Constant) and node.value is None)]
    if value is None and len(others) < len(nodes):
        return
    failures = []
    for node in others:
        try:
            _check(node, value, where)
            return
        except UserError as error:
            failures.append(error)
    raise failures[-1]


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The sides of A | B | C."""
    if isinstance(node, ast.BinOp):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _wrong(value: Setting, where: str, words: str) -> UserError:
    return UserError(f'{where} is {errors.shortened(value, 100)}; it must be {words}')
