"""Arguments as flags, failures as one line, rows as pandas frames: what all of them share."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.system import errors, ranges
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

if TYPE_CHECKING:
    import pandas as pd

# What a cell of a frame may hold.
Cell = str | int | float | Sequence[str] | Sequence[float] | None
_Arguments = ParamSpec('_Arguments')
_Answer = TypeVar('_Answer')


def plainly(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Has a function raise UserError where its program would print a line and end."""

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
    given = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            value = [f'{key}={size}' for key, size in value.items()]
        if isinstance(value, list | tuple):
            value = ','.join(map(str, value))
        if value not in (None, False):
            given.append(f'--{name}' if value is True else f'--{name}={value}')
    return given


def overrides(changes: Mapping[str, Setting]) -> list[str]:
    """Writes changes of a config as flags.

    Example: {'seed': 1, 'stages': {'stage1': {'num_steps': 50}}, 'baselines': []} ->
      ['--config.seed=1', '--config.stages.stage1.num_steps=50', '--config.baselines=()']
    """
    # Flags of a config are read as Python, but for texts.
    return [f'--config.{key}={ranges.tuples(value)}' for key, value in config_lib.leaves(changes)]


def frame(rows: Iterable[Mapping[str, Cell]], index: Sequence[str] = ()) -> 'pd.DataFrame':
    """Makes a frame of rows, named by the columns of `index`; a row without a column has NaN there.

    Raises:
      UserError: pandas is not installed.
    """
    try:  # Here alone, when the first frame is made.
        import pandas as pd
    except ImportError:
        raise UserError(
            "frames need the package pandas: python -m uv pip install 'pandas>=2.2'"
        ) from None
    made = pd.DataFrame(list(rows))
    return made.set_index(list(index)) if index and len(made) else made


@plainly
def load_config(
    name: str | os.PathLike, changes: Mapping[str, Setting] | None = None
) -> ConfigDict:
    """Loads a config, of a run or of a sweep, and changes some of its keys.

    The name is as --config takes it. Keys that the config leaves out, and `model.from`, are for
    `changes` alone; other keys of the result can be changed further: `config.seed = 1`.

    Example: load_config('mtg_mt5:sample', {'stages.stage1.num_steps': 50, 'seed': 1})

    Raises:
      UserError: there is no such config, variant or key, or it does not take the value.
    """
    argv = ['load_config', f'--config={os.fspath(name)}', *overrides(changes or {})]
    config, *_ = config_lib.parse_command(argv)
    config_lib.check_names(config)
    return config
