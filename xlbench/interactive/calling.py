"""Calls programs as functions: arguments become their flags, failures one line."""

import functools
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from xlbench import config as config_lib
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

_Arguments = ParamSpec('_Arguments')
_Answer = TypeVar('_Answer')


def plainly(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Has a function raise UserError where its program would print a line and end.

    Whatever else fails keeps its traceback, as it does in a program.
    """

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
        try:
            return function(*args, **kwargs)
        except SystemExit as ending:  # Of a child that prepares data; it has said why.
            raise UserError(
                f'the preparation of the data ended with code {ending.code}; the lines above say '
                'why'
            ) from None
        except Exception as error:
            line = errors.plain(error)
            if line is None or line is error:
                raise
            raise line from error

    return call


def flags(options: Mapping[str, Setting]) -> list[str]:
    """Writes arguments as flags of a program; those that are None or False are left out.

    Example: {'split': 'test', 'tasks': ['a', 'b'], 'mesh': {'data': 2}, 'scores': True} ->
      ['--split=test', '--tasks=a,b', '--mesh=data=2', '--scores']
    """
    given = {name: value for name, value in options.items() if value not in (None, False)}
    return [
        f'--{name}' if value is True else f'--{name}={_text(value)}'
        for name, value in given.items()
    ]


def _text(value: Setting) -> str:
    if isinstance(value, Mapping):
        return ','.join(f'{key}={size}' for key, size in value.items())
    return ','.join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def overrides(changes: Mapping[str, Setting]) -> list[str]:
    """Writes changes of a config as flags.

    Example: {'seed': 1, 'stages': {'stage1': {'num_steps': 50}}, 'baselines': []} ->
      ['--config.seed=1', '--config.stages.stage1.num_steps=50', '--config.baselines=()']
    """
    return [f'--config.{key}={_literal(value)}' for key, value in config_lib.leaves(changes)]


def _literal(value: Setting) -> str:
    """A value as flags of a config are written, which are read as Python, but for texts."""
    return repr(with_tuples(value)) if isinstance(value, list | tuple) else str(value)


def with_tuples(value: Setting) -> Setting:
    """Gives a value with tuples in place of lists, as configs have them, as deep as they go.

    Example: {'tasks': ['a', 'b']} -> {'tasks': ('a', 'b')}
    """
    if isinstance(value, Mapping):
        return {key: with_tuples(inner) for key, inner in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list | tuple) else value
