"""The fields of the dataclasses that blocks of a config make, read from their source.

Many of them stand in modules that import jax, which takes seconds; a misspelt key is answered
before, because nothing is imported.
"""

import ast
import dataclasses
import functools
import pathlib
from collections.abc import Mapping

import xlbench
from xlbench.system.files import Setting


@dataclasses.dataclass(frozen=True)
class Signature:
    """The keys that a block may hold.

    Attributes:
      name: of the dataclass.
      types: {field: its annotation as it is written}.
      needed: the fields without a default.
      open_ended: whether any other key is taken as well.
      defaults: {field: its default}, where that is a literal or an empty collection.
    """

    name: str
    types: Mapping[str, str]
    needed: frozenset[str]
    open_ended: bool = False
    defaults: Mapping[str, Setting] = dataclasses.field(default_factory=dict)

    def __or__(self, other: 'Signature') -> 'Signature':
        """Both together, with the other's name."""
        return Signature(
            other.name,
            {**self.types, **other.types},
            self.needed | other.needed,
            defaults={**self.defaults, **other.defaults},
        )


@functools.cache
def of(module: str, name: str) -> Signature:
    """Returns the signature of a dataclass of this package.

    Example: of('xlbench.models.lora', 'Lora') ->
      Signature('Lora', {'rank': "Annotated[int, '0 to 2**16']", ...}, frozenset(), False,
        {'rank': 0, ...})
    """
    module, node = _definition(module, name)
    types, needed, defaults = {}, set(), {}
    for base in node.bases:
        inherited = of(*_place(module, ast.unparse(base)))
        types |= inherited.types
        needed |= inherited.needed
        defaults |= inherited.defaults
    for field in node.body:
        if _is_field(field):
            key = field.target.id
            types[key] = ast.unparse(field.annotation)
            needed = needed - {key} | ({key} if not field.value else set())
            defaults.pop(key, None)
            defaults |= _default(key, field.value)
    return Signature(name, types, frozenset(needed), defaults=defaults)


def of_class(block: type) -> Signature:
    """Returns the signature of a dataclass of this package that is imported anyway."""
    return of(block.__module__, block.__name__)


@functools.cache
def catalog(package: str, ending: str = '') -> dict[str, str]:
    """Lists a package's classes, one in each file: {'token_loss': 'TokenLoss'} of token_loss.py.

    Args:
      package: whose files are looked at.
      ending: of the classes' names: 'Evaluator' for GenerationEvaluator of generation.py.
    """
    classes = {}
    for file in sorted(_path(package).glob('*.py')):
        name = ''.join(word.capitalize() for word in file.stem.split('_')) + ending
        body = _source(f'{package}.{file.stem}').body
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in body):
            classes[file.stem] = name
    return classes


@functools.cache
def attributes(module: str, name: str) -> dict[str, Setting]:
    """Reads the literals of a class and its bases, such as `family: ClassVar[str] = 'bert'`."""
    module, node = _definition(module, name)
    values: dict[str, Setting] = {}
    for base in node.bases:
        place = _place(module, _class_of(base))
        if place[0].startswith('xlbench.'):
            values |= attributes(*place)
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and not _is_field(field) and field.value:
            values[field.target.id] = ast.literal_eval(field.value)
    return values


def _class_of(base: ast.expr) -> str:
    """The name of a base class without its types: 'base.Evaluator' of base.Evaluator[T]."""
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def _is_field(node: ast.AST) -> bool:
    """Returns whether a node declares a field of a dataclass; a ClassVar is none."""
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not ast.unparse(node.annotation).startswith('ClassVar')
    )


_EMPTY: Mapping[str, Setting] = {'dict': {}, 'list': [], 'tuple': ()}


def _default(key: str, value: ast.expr | None) -> dict[str, Setting]:
    """{field: its default}; {} for a field without one, and for one that has to be computed."""
    if isinstance(value, ast.Call):  # dataclasses.field(default_factory=dict)
        for keyword in value.keywords:
            if keyword.arg == 'default_factory' and ast.unparse(keyword.value) in _EMPTY:
                return {key: _EMPTY[ast.unparse(keyword.value)]}
        return {}
    try:
        return {key: ast.literal_eval(value)} if value else {}
    except ValueError:
        return {}


def _path(module: str) -> pathlib.Path:
    # importlib.util.find_spec would import the packages that the module is in.
    return pathlib.Path(next(iter(xlbench.__path__)), *module.split('.')[1:])


@functools.cache
def _source(module: str) -> ast.Module:
    path = _path(module)
    file = path / '__init__.py' if path.is_dir() else path.with_suffix('.py')
    return ast.parse(file.read_text(encoding='utf-8'))


def _definition(module: str, name: str) -> tuple[str, ast.ClassDef]:
    """Finds the class, which another module may define than the one that names it."""
    for node in _source(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
    origin = _place(module, name)
    if origin == (module, name):
        raise LookupError(f'{module} does not define {name}')
    return _definition(*origin)


def _place(module: str, name: str) -> tuple[str, str]:
    """Finds the module that a name comes from.

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
