"""Metrics as manifests keep them, in plain JSON, and who may name which.

  to_spec(MultilingualRouge('de'))
    -> {'metric': 'xlbench.metrics.rouge:MultilingualRouge', 'kwargs': {'lang': 'de', ...}}
  to_spec(functools.partial(headline_length, unit='words'))  # Of the user's tasks/news.py.
    -> {'metric': 'tasks/news.py:headline_length', 'kwargs': {'unit': 'words'}}

A metric is called with `(targets, predictions)` and returns numbers by name: a plain function, a
functools.partial of one, or an instance of a dataclass. A manifest may be somebody else's, so that
what it names is imported only if it is of xlbench.metrics, of the user's own task files (see
xlbench/benchmarks/task_files.py), or of a module that the user names: in XLBENCH_METRICS, or in an
import statement of a task file.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import inspect
import json
import os
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from xlbench.benchmarks import task_files
from xlbench.metrics.contract import Metric, Spec
from xlbench.system import errors

_Base = TypeVar('_Base')
_PACKAGE = 'xlbench.metrics'
_SPEC = re.compile(r'(?P<place>tasks/[^\W\d]\w*\.py|[^\W\d][\w.]*):(?P<name>[^\W\d]\w*)')
# Settings that METEOR had, at the only values that are left.
_FORMER = dict(
    task='', parameters=[], weights=[], beam=40, characters=False, paraphrases='', function_words=''
)
_HINT = (
    'a metric is a function (targets, predictions) -> {name: number} that has a name at the top '
    'of its file, a functools.partial of one with arguments given by name, or an instance of a '
    'dataclass'
)


def to_spec(metric: Metric) -> Spec:
    """Writes a metric down: where it is defined, and its arguments as plain JSON values."""
    kwargs, defined = {}, metric
    if isinstance(metric, functools.partial):
        kwargs, defined = dict(metric.keywords), metric.func
        if metric.args:
            raise errors.UserError(f'{metric!r} has arguments without a name; {_HINT}')
    if dataclasses.is_dataclass(defined) and not isinstance(defined, type):
        fields = [field.name for field in dataclasses.fields(defined) if field.init]
        if kwargs:
            raise errors.UserError(f'{metric!r} is a partial of an object; {_HINT}')
        kwargs, defined = {name: getattr(metric, name) for name in fields}, type(metric)
    elif not isinstance(defined, types.FunctionType):
        raise errors.UserError(f'{metric!r} is not a metric that can be written down; {_HINT}')
    module, name = defined.__module__, defined.__qualname__
    if not name.isidentifier() or module == '__main__':
        raise errors.UserError(f'{module}.{name} cannot be found again by its name; {_HINT}')
    try:
        json.dumps(kwargs, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise errors.UserError(
            f'the arguments of {module}.{name} cannot be written as JSON: {error}'
        ) from None
    if not _in_package(module):
        _check_call(defined, f'{module}.{name}')
        module = task_files.name_of(getattr(sys.modules.get(module), '__file__', None)) or module
    return {'metric': f'{module}:{name}', 'kwargs': kwargs}


def from_spec(spec: Mapping[str, Any]) -> Metric:
    """The metric that `to_spec` wrote down.

    A spec is read from a file, so it must not be able to import or call just anything.
    """
    if not isinstance(spec, Mapping) or not isinstance(spec.get('metric'), str):
        raise errors.UserError(
            f'{spec!r} is not a metric; a metric is written as {{"metric": "module:name", '
            '"kwargs": {...}}'
        )
    path, kwargs = spec['metric'], spec.get('kwargs', {})
    if not isinstance(kwargs, dict) or not all(isinstance(name, str) for name in kwargs):
        raise errors.UserError(f'metric {path!r} does not take these arguments: {kwargs!r}')
    found: Any = defined(path, 'metric')
    place = path.partition(':')[0]
    if found.__name__ == 'Meteor' and _in_package(place):
        kwargs = {name: value for name, value in kwargs.items() if _FORMER.get(name, ...) != value}
    is_class = isinstance(found, type) and dataclasses.is_dataclass(found)
    if not is_class and (not isinstance(found, types.FunctionType) or _in_package(place)):
        raise errors.UserError(f'{path!r} is not a metric; {_HINT}')
    _check_call(found, repr(path))
    try:
        if is_class:
            return found(**kwargs)
        if kwargs:
            inspect.signature(found).bind([], [], **kwargs)
        return functools.partial(found, **kwargs) if kwargs else found
    except errors.UserError:
        raise
    except Exception as error:  # Whatever a constructor makes of arguments of the wrong kind.
        raise errors.UserError(f'metric {path!r} does not take these arguments: {error}') from error


def function(path: str) -> types.FunctionType:
    """A user's own function that is not a metric, such as a segmenter; see `defined`."""
    thing = defined(path, 'function')
    if not isinstance(thing, types.FunctionType):
        raise errors.UserError(f'{path!r} is not a function')
    return thing


def defined(path: str, what: str) -> types.FunctionType | type:
    """A function or class of a file, imported if it may be; see the head of this file.

    `path` is 'module:name' or 'tasks/FILE.py:name'; `what` is its kind for messages: 'metric'.
    """
    parts = _SPEC.fullmatch(path)
    if parts is None:
        raise errors.UserError(
            f'{what} {path!r} does not exist; write module:name, or tasks/FILE.py:name'
        )
    module = _module(parts['place'], path, what)
    where = getattr(module, '__file__', None) or module.__name__
    if _in_package(module.__name__):
        where = 'xlbench/metrics/__init__.py for those of xlbench'
    thing = vars(module).get(parts['name'])
    if thing is None:
        raise errors.UserError(f'{what} {path!r} does not exist; see {where}')
    # What the module merely imported is not its own: it may do anything.
    home = getattr(thing, '__module__', None) or ''
    if home != module.__name__ and not (_in_package(module.__name__) and _in_package(home)):
        raise errors.UserError(f'{path!r} is no {what}; see {where}')
    return thing


def subclass(name: str, base: type[_Base], package: str, what: str) -> type[_Base]:
    """A class of a package, or of the user's own by the same rules as a metric.

    Args:
      name: of a file of the package, or 'tasks/FILE.py:NAME' or 'module:NAME' of the user's own.
      base: the class is one of its subclasses; its name ends those of the package's classes.
      package: where the files are, 'xlbench.evaluators', and where users import `base` from.
      what: it is, for messages: 'type of evaluator'.

    Raises:
      UserError: there is none, it may not be imported, or it is not a subclass.
    """
    from xlbench.settings import source  # Metrics alone load without it.

    classes = source.catalog(package, base.__name__)
    if name in classes:
        return getattr(importlib.import_module(f'{package}.{name}'), classes[name])
    if ':' not in name:
        hint = 'One of your own is written as tasks/FILE.py:NAME'
        raise errors.unknown(what, name, classes, hint)
    thing = defined(name, base.__name__.lower())
    if not (isinstance(thing, type) and issubclass(thing, base)):
        raise errors.UserError(f'{name!r} is not a subclass of {package}.{base.__name__}')
    return thing


def trusted() -> list[str]:
    """Lists the modules that XLBENCH_METRICS names, comma-separated, and that task files import."""
    named = [name.strip() for name in os.environ.get('XLBENCH_METRICS', '').split(',')]
    imported = map(task_files.imported_modules, task_files.user_paths())
    return sorted({*filter(None, named)}.union(*imported))


def is_foreign(spec: Spec) -> bool:
    """True for a metric of the user's own."""
    return not _in_package(spec['metric'].partition(':')[0])


def fingerprint(metric: Callable) -> str:
    """The file that a metric is defined in, as a hash: which version of it has scored."""
    defined = getattr(metric, 'func', metric)
    path = getattr(sys.modules.get(defined.__module__), '__file__', None)
    with contextlib.suppress(OSError, TypeError), open(path or '', 'rb') as file:
        return f'file:{hashlib.sha256(file.read()).hexdigest()[:12]}'
    return 'file:unknown'


def _in_package(module: str) -> bool:
    return f'{module}.'.startswith(f'{_PACKAGE}.')


def _module(place: str, path: str, what: str) -> types.ModuleType:
    """The module of a metric, or of what else it is, imported if it may be."""
    load, hint = functools.partial(importlib.import_module, place), ''
    if place.startswith('tasks/'):
        file = task_files.find(place[len('tasks/') : -len('.py')])
        if file is None:
            here = f'put {place} into the current folder'
            if task_files.is_in_a_workdir():
                here = 'go to another folder than this one, whose config.json makes it a workdir'
            raise errors.UserError(
                f'{what} {path!r} is in a task file that is not here; {here}, or set '
                'XLBENCH_TASKS to the folder that has it'
            )
        load = functools.partial(task_files.load, file)
        hint = '; what needs less than its task file can stand in a file beside it'
    elif _in_package(place):
        try:
            return load()
        except ImportError as error:  # Any other is a fault of xlbench, not of what was written.
            raise errors.UserError(f'{what} {path!r} does not exist: {error}') from None
    elif not any(f'{place}.'.startswith(f'{name}.') for name in trusted()):
        raise errors.UserError(
            f'{what} {path!r} is in a module that may not be loaded, because only a file names '
            f'it; set XLBENCH_METRICS={place} if you trust it, import it in a task file of yours, '
            'or put it into your tasks/ folder'
        )
    try:
        module = load()
    except errors.UserError:
        raise
    except Exception as error:
        raise errors.UserError(
            f'{what} {path!r} cannot be loaded: {errors.located(error)}'
            f'{hint if isinstance(error, ImportError) else ""}'
        ) from error
    # A task file brings TensorFlow, which would take all memory of the accelerators.
    if config := getattr(sys.modules.get('tensorflow'), 'config', None):
        with contextlib.suppress(RuntimeError, AttributeError):
            config.set_visible_devices([], 'GPU')
    return module


def _check_call(defined: types.FunctionType | type, name: str) -> None:
    """Raises UserError unless it is called with (targets, predictions), as SeqIO has it."""
    function: Any = defined
    if isinstance(defined, type):
        function = next((vars(c)['__call__'] for c in defined.__mro__ if '__call__' in vars(c)), 0)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    taken = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    taken = taken[1:] if isinstance(defined, type) else taken
    if taken[:2] != ['targets', 'predictions']:
        raise errors.UserError(
            f'{name} is not a metric: it is called with ({", ".join(taken)}), and a metric with '
            '(targets, predictions)'
        )
