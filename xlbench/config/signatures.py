"""What functions and classes take, read from their source: none of it is imported.

A block of a config holds the arguments of one function. Most of those functions stand in modules
that import jax, which takes seconds; a misspelt key is answered before.
"""

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import xlbench


@dataclasses.dataclass(frozen=True)
class Signature:
    """The keyword arguments of a function, or of a class.

    Attributes:
      name: of the function or class.
      types: {argument: its annotation as it is written, '' without one}.
      needed: the arguments without a default.
      open_ended: whether any other keyword is taken as well.
    """

    name: str
    types: Mapping[str, str]
    needed: frozenset[str]
    open_ended: bool = False

    def without(self, *names: str) -> 'Signature':
        """The same, but for arguments that are given in another way."""
        types = {name: kind for name, kind in self.types.items() if name not in names}
        return dataclasses.replace(self, types=types, needed=self.needed - {*names})


@functools.cache
def of(module: str, name: str) -> Signature:
    """The signature of a function or class of this package.

    Example: of('xlbench.models.lora', 'Lora') ->
      Signature('Lora', {'rank': 'int', 'alpha': 'float', ...}, frozenset())
    """
    module, node = _definition(module, name)
    if isinstance(node, ast.FunctionDef):
        return _of_function(node, name)
    init = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == '__init__']
    if init:
        return _of_function(init[0], name).without('self')
    types, needed = {}, set()
    for base in node.bases:
        if _class_of(base) not in ('Protocol', 'Generic'):
            inherited = of(*_place(module, _class_of(base)))
            types |= inherited.types
            needed |= inherited.needed
    for field in node.body:
        if _is_field(field):
            types[field.target.id] = ast.unparse(field.annotation)
            needed = needed - {field.target.id} | ({field.target.id} if not field.value else set())
    return Signature(name, types, frozenset(needed))


@functools.cache
def catalog(package: str, ending: str = '') -> dict[str, str]:
    """What a package's files define, a file a thing: {'token_loss': 'TokenLoss'} for token_loss.py.

    Args:
      package: whose files are looked at.
      ending: of the classes' names: 'Evaluator' for GenerationEvaluator of generation.py.
    """
    found = {}
    for file in sorted(_path(package).glob('*.py')):
        name = ''.join(word.capitalize() for word in file.stem.split('_')) + ending
        body = _source(f'{package}.{file.stem}').body
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in body):
            found[file.stem] = name
    return found


@functools.cache
def attributes(module: str, name: str) -> dict[str, Any]:
    """What a class says of itself in literals, `family: ClassVar[str] = 'bert'`; its bases' too."""
    module, node = _definition(module, name)
    values: dict[str, Any] = {}
    for base in node.bases:
        place = _place(module, _class_of(base))
        if place[0].startswith('xlbench.'):
            values |= attributes(*place)
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and not _is_field(field) and field.value:
            values[field.target.id] = ast.literal_eval(field.value)
    return values


def table(module: str, name: str) -> dict[str, Signature]:
    """The signatures of what a module's table names.

    Example: table('xlbench.training.optimizers', 'OPTIMIZERS') -> {'adamw': Signature('adamw', ..
    """
    for node in _source(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {
                ast.literal_eval(key): of(*_place(module, ast.unparse(value)))
                for key, value in pairs
            }
    raise LookupError(f'{module} has no table {name}')


def _of_function(node: ast.FunctionDef, name: str) -> Signature:
    arguments = [*node.args.posonlyargs, *node.args.args]
    plain = len(arguments) - len(node.args.defaults)
    needed = {argument.arg for argument in arguments[:plain]}
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        arguments.append(argument)
        if default is None:
            needed.add(argument.arg)
    types = {a.arg: ast.unparse(a.annotation) if a.annotation else '' for a in arguments}
    return Signature(name, types, frozenset(needed - {'self'}), node.args.kwarg is not None)


def _class_of(base: ast.expr) -> str:
    """The name of a base class without its types: 'base.Evaluator' of base.Evaluator[T]."""
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def _is_field(node: ast.AST) -> bool:
    """Whether it declares a field of a dataclass or a Protocol; a ClassVar is none."""
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not ast.unparse(node.annotation).startswith('ClassVar')
    )


def _path(module: str) -> pathlib.Path:
    # importlib.util.find_spec would import the packages that the module is in.
    return pathlib.Path(next(iter(xlbench.__path__)), *module.split('.')[1:])


@functools.cache
def _source(module: str) -> ast.Module:
    path = _path(module)
    file = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
    return ast.parse(file.read_text(encoding='utf-8'))


def _definition(module: str, name: str) -> tuple[str, ast.FunctionDef | ast.ClassDef]:
    """Where something is defined, which may be another module than the one that names it."""
    for node in _source(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return module, node
    origin = _place(module, name)
    if origin == (module, name):
        raise LookupError(f'{module} does not define {name}')
    return _definition(*origin)


def _place(module: str, name: str) -> tuple[str, str]:
    """Where a name of a module comes from.

    Example: _place('xlbench.models.heads', 'bert.BertConfig') ->
      ('xlbench.models.bert', 'BertConfig')
    """
    first, _, rest = name.partition('.')
    for node in _source(module).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == first:
                    return (f'{node.module}.{alias.name}', rest) if rest else (node.module, first)
    return module, name
