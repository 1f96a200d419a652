"""Steps that a config gives as epochs: num_steps='3epochs', warmup_steps='0.5epochs'.

Their number follows from the data, which is opened later; see `runs.resolve_epochs`. The
config.json of a run has the numbers, and under `given` the texts that they stand for.
"""

import functools
import operator
import re
from collections.abc import Iterator, Mapping

from ml_collections import ConfigDict

from xlbench.system.errors import UserError
from xlbench.system.files import Json, Setting

_TEXT = re.compile(r'(\d+(?:\.\d+)?) ?epochs?')
# Keys of a stage and of its optimizer, with a number that passes all checks in place of a text.
_OF_STAGE = {'num_steps': 2**31 - 1, 'optimizer.warmup_steps': 0, 'optimizer.decay_steps': 1}


def count(value: object) -> float | None:
    """The epochs that a text says: '3epochs' -> 3.0; None for anything else."""
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) if match else None


def words(steps: int | str) -> str:
    """Steps or epochs: 900 -> '900 steps'; '1epochs' -> '1 epoch'."""
    if (epochs := count(steps)) is None:
        return f'{steps} steps'
    return f'{epochs:g} epoch' + ('s' if epochs != 1 else '')


def keys(config: ConfigDict) -> Iterator[tuple[str, str, int]]:
    """(key, the stage whose epochs it counts, a number that passes checks) of all steps."""
    stages, evals = (config.get(key) or {} for key in ('stages', 'evals'))
    for name in stages:
        yield from ((f'stages.{name}.{key}', name, some) for key, some in _OF_STAGE.items())
    only = name if len(stages) == 1 else ''
    yield from ((f'evals.{name}.every', only, 1) for name in evals)
    yield from ((key, only, 1) for key in ('checkpoints.every', 'log_every'))


def texts(config: ConfigDict) -> dict[str, str]:
    """The keys whose steps are given as epochs: {'stages.train.num_steps': '3epochs'}.

    Raises:
      UserError: a text that says no epochs, or epochs of several stages.
    """
    found = {}
    for key, stage, _ in keys(config):
        value = get(config, key)
        if not isinstance(value, str):
            continue
        if not count(value):
            raise UserError(f'config.{key} is {value!r}; give steps, or epochs such as 3epochs')
        if not stage:
            raise UserError(
                f'config.{key} is {value!r}, and the run has {len(config.stages)} stages, each '
                'with epochs of its own; give steps'
            )
        found[key] = value
    return found


def as_steps(config: ConfigDict) -> ConfigDict:
    """The config with numbers for epochs, which pass all checks and mean nothing."""
    if not (given := texts(config)):
        return config
    config = config.copy_and_resolve_references()
    for key, _, some in keys(config):
        if key in given:
            put(config, key, some)
    return config


def restore(config: ConfigDict, about: Mapping[str, Json]) -> None:
    """Puts the steps with which a run was begun, as config.json has them, in place of epochs."""
    begun = ConfigDict(about['config'])
    for key, text in (about.get('given') or {}).items():
        if get(config, key) == text:
            put(config, key, get(begun, key))


def get(config: ConfigDict, key: str) -> Setting:
    """The value of a key with dots; None where there is none."""
    for name in key.split('.'):
        config = config.get(name) if isinstance(config, ConfigDict) else None
    return config


def put(config: ConfigDict, key: str, value: Setting) -> None:
    """Sets a key with dots to a value of whatever type."""
    *blocks, last = key.split('.')
    block = functools.reduce(operator.getitem, blocks, config)
    with config.unlocked(), block.unlocked():
        if last in block:
            del block[last]  # With its type.
        block[last] = value
