"""The fields of the dataclasses that blocks of a config make, read from their source.

Objectives, evaluators and models stand in modules that import jax, which takes seconds. A misspelt
key is answered before: their annotations are evaluated, and nothing is imported.
"""

import ast
import builtins
import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, get_origin

from msgspec import Meta

import xlbench
from xlbench.system.files import Setting
from xlbench.system.ranges import COMPUTED, Field, Fields, default_of


class _Names(dict):
    """The names in annotations; one that is not known stands for any type."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


_NAMES = _Names(
    Annotated=Annotated, ClassVar=ClassVar, Literal=Literal, Mapping=Mapping, Meta=Meta,
    Sequence=Sequence, dataclasses=dataclasses,
)  # fmt: skip


def fields(module: str, name: str) -> Fields:
    """Returns the fields of a dataclass of this package.

    Example: fields('xlbench.models.lora', 'Lora') ->
      {'rank': Field(Annotated[int, Meta(ge=0, le=2**16)], 0), ...}
    """
    members = _members(module, name).items()
    return {key: field for key, field in members if get_origin(field.type) is not ClassVar}


def attributes(module: str, name: str) -> dict[str, Setting]:
    """Returns what a class says of itself, such as `family: ClassVar[str] = 'bert'`."""
    members = _members(module, name).items()
    return {key: field.default for key, field in members if get_origin(field.type) is ClassVar}


@functools.cache
def _members(module: str, name: str) -> Fields:
    """The annotated members of a class and its bases."""
    if not (defined := _definition(module, name)):
        raise LookupError(f'{module} does not define {name}')
    found: dict[str, Field] = {}
    module, node = defined
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base  # Evaluator[Task].
        if _definition(module, named := ast.unparse(base)):
            found |= _members(module, named)
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            value = dataclasses.MISSING if line.value is None else _evaluated(line.value)
            value = default_of(value) if isinstance(value, dataclasses.Field) else value
            kind = _evaluated(line.annotation)
            found[line.target.id] = Field(kind, COMPUTED if value is Any else value)
    return found


def _evaluated(node: ast.expr) -> Any:
    """The value of an expression; Any where only its module has the names in it."""
    try:
        return eval(compile(ast.Expression(node), 'annotation', 'eval'), {}, _NAMES)
    except (AttributeError, TypeError):
        return Any


@functools.cache
def catalog(package: str, ending: str = '') -> dict[str, str]:
    """Lists a package's classes, one in each file: {'token_loss': 'TokenLoss'} of token_loss.py.

    With the ending 'Evaluator', generation.py has GenerationEvaluator.
    """
    classes = {}
    for file in sorted(_path(package).glob('*.py')):
        name = ''.join(word.capitalize() for word in file.stem.split('_')) + ending
        body = _source(f'{package}.{file.stem}').body
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in body):
            classes[file.stem] = name
    return classes


def _path(module: str) -> pathlib.Path:
    # importlib.util.find_spec would import the packages that the module is in.
    return pathlib.Path(next(iter(xlbench.__path__)), *module.split('.')[1:])


@functools.cache
def _source(module: str) -> ast.Module:
    path = _path(module)
    file = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
    return ast.parse(file.read_text(encoding='utf-8'))


def _definition(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """The class that a name stands for in a module, and its own module; None for one not ours.

    Example: _definition('xlbench.models.heads', 'bert.BertConfig') -> ('xlbench.models.bert', ...)
    """
    first, _, rest = name.partition('.')
    for node in _source(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and f'{node.module}.'.startswith('xlbench.'):
            for alias in node.names:
                if (alias.asname or alias.name) == first:
                    place = f'{node.module}.{alias.name}' if rest else f'{node.module}'
                    return _definition(place, rest or alias.name)
    return None
