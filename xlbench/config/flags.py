"""Command lines with a config: loads the file, sets the overrides in it and checks the result."""

import argparse
import contextlib
import hashlib
import inspect
import json
import math
import os
import pathlib
import re
import runpy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ml_collections import ConfigDict

import xlbench.configs as configs
from xlbench.config import pretrained
from xlbench.settings import epochs
from xlbench.settings.blocks import for_hash, leaves, to_dict
from xlbench.settings.checks import fields_to_set
from xlbench.system import errors, ranges
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

# What every program with a config takes, and most: for --help.
FLAGS = (
    flag('--config', 'a config, and its variant (required)', metavar='FILE[:VARIANT]'),
    flag('--config.KEY', 'set a key of the config: --config.seed=1', metavar='VALUE'),
)
RUN_FLAGS = (
    FLAGS,
    flag('--workdir', 'folder of the run (default: runs/CONFIG-HASH)', metavar='FOLDER'),
    flag('--dry_run', 'print sizes, memory and data, and stop', False),
)


class Command(NamedTuple):
    """A command line with a config, read.

    Unless --workdir is given, the workdir is `runs/<config>-<variant>-<hash>`, so that the same
    command finds its own run again.
    """

    config: ConfigDict
    workdir: str
    args: argparse.Namespace  # Of all flags, `args.dry_run`.


_RUN = CommandLine('train', flags=RUN_FLAGS)


def parse_command(argv: Sequence[str], *, line: CommandLine = _RUN) -> Command:
    """Reads the command line of a program with a config, the program's name first.

    Its flags, `line`, have FLAGS among them.

    Raises:
      UserError: an unknown flag or key, a value of the wrong type, a config that cannot be read.
    """
    overrides, others = _divided(argv[1:])
    args = line.parse(others)
    if not args.config:
        raise UserError('no config; try --config=configs/mtg_mt5.py')
    name, colon, text = args.config.partition(':')
    path = _config_file(name)
    config = _load(path, text if colon else None)
    given = _set_overrides(config, overrides)
    _check_values(config)
    config.lock()
    pretrained.resolve(config, given)
    data = config.get('data')
    errors.check_path('config.data.root', data.get('root') if isinstance(data, ConfigDict) else '')
    named = getattr(args, 'workdir', None)
    return Command(config, named or _default_workdir(path, text, config), args)


def _load(path: str, variant: str | None) -> ConfigDict:
    """Loads a config file; its lists become tuples, which flags can set."""
    if not path.endswith('.py'):
        raise UserError(f'{path} is not a config file; it is Python, and its name ends in .py')
    with _blaming(path):
        get_config = runpy.run_path(path, run_name='xlbench_config').get('get_config')
    if not callable(get_config):
        raise UserError(f"{path} has no function get_config(variant=''), which makes the config")
    arguments = [] if variant is None else [variant]
    signature = inspect.signature(get_config)
    try:
        signature.bind(*arguments)
    except TypeError:
        what = f'takes nothing after the colon, not {variant!r}' if arguments else 'needs a variant'
        raise UserError(f'{path} {what}: it has get_config{signature}') from None
    with _blaming(path):
        config = get_config(*arguments)
    if not isinstance(config, dict | ConfigDict):
        raise UserError(
            f'get_config of {path} returns {type(config).__name__}; it returns a ConfigDict'
        )
    try:
        config = ConfigDict(config) if isinstance(config, dict) else config
        _part(config, set())
        for key, value in leaves(config):
            if isinstance(value, list):
                epochs.put(config, key, ranges.tuples(value))
        return config
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f'get_config of {path}: {" ".join(f"{error}".split())}') from error


def _part(config: ConfigDict, seen: set[int]) -> None:
    """Gives each place its own copy of a shared block: an override of one would change all."""
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            if id(value) in seen:
                value = value.copy_and_resolve_references()
                with config.unlocked():
                    config[key] = value
            seen.add(id(value))
            _part(value, seen)


@contextlib.contextmanager
def _blaming(path: str) -> Iterator[None]:
    """Errors in this block name the line of a user's config file: 'mine.py:12: NameError: ...'."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise errors.mistake(error, path) from error


def _divided(argv: Iterable[str]) -> tuple[list[list[Any]], list[str]]:
    """The overrides, each as ('no' or None, key, value or None), and the other arguments.

    They are --config.KEY=VALUE, --config.KEY VALUE, --config.FLAG and --noconfig.FLAG.
    """
    overrides: list[list[Any]] = []
    others: list[str] = []
    lacks_value = False
    for argument in argv:
        argument = re.sub('^-(?=(no)?config)', '--', argument)
        if match := re.fullmatch(r'--(no)?config\.([^=]*)(?:=(.*))?', argument, re.DOTALL):
            overrides.append([*match.groups()])
            lacks_value = not match[1] and match[3] is None
        elif lacks_value and not argument.startswith('--'):
            overrides[-1][2], lacks_value = argument, False
        else:
            others.append(argument)
            lacks_value = False
    return overrides, others


def _set_overrides(config: ConfigDict, overrides: Iterable[Sequence[Any]]) -> set[str]:
    """Sets what `_divided` has found, and returns the keys."""
    given: dict[str, Setting] = {}
    for negated, key, text in overrides:
        block, last, kinds = _find(config, key)
        if negated and bool not in kinds:
            raise UserError(f'config.{key} is not True or False; --config.{key}=VALUE sets it')
        if text is None and bool not in kinds:
            raise UserError(f'config.{key} has no value; give one: --config.{key}=VALUE')
        text = f'{not negated}' if text is None else text
        in_epochs = epochs.count(text) and key in {name for name, _, _ in epochs.keys(config)}
        value = text if in_epochs else ranges.read(text, kinds, f'config.{key}')
        if key in given and isinstance(value, tuple):  # Named again, it adds.
            value = (*given[key], *value)
        given[key] = value
        with config.unlocked(), block.unlocked():
            try:
                block[last] = value  # Wherever the config refers to it.
            except TypeError:
                epochs.put(config, key, value)
    return set(given)


def _find(config: ConfigDict, name: str) -> tuple[ConfigDict, str, Sequence[type]]:
    """(the block that a key is in, the key in it, the types that it takes)."""
    block, keys = config, name.split('.')
    for depth, key in enumerate(keys):
        where = '.'.join(['config', *keys[:depth]])
        if not isinstance(block, ConfigDict):
            raise UserError(f'{where} is {block!r} and has no keys; --{where}=VALUE sets it')
        known = fields_to_set(config, keys[:depth])
        if key not in block and key not in known and key != 'from':
            raise errors.unknown(f'key in {where}', key, {*block.keys(), *known})
        if depth + 1 == len(keys):
            break
        if block.get(key) is None and ranges.plain(known[key].type) is Mapping:
            epochs.put(block, key, ConfigDict())
        block = block.get(key)
    value = block.get(key, '')
    if key in known:
        kinds = ranges.alternatives(known[key].type)
        if float in kinds and type(value) is int:  # The hash of a config knows 300 from 300.0.
            kinds = (int, *kinds)
        if Sequence in kinds and isinstance(value, tuple):  # And 1 from (1,).
            kinds = tuple(kind for kind in kinds if kind is not int)
    else:
        kind = block.get_type(key) if key in block else str  # Of a placeholder, too.
        kinds = (Sequence if kind is tuple else str if kind is type(None) else kind,)
    if ConfigDict in kinds or Mapping in kinds:
        names = ', '.join(block.get(key) or ()) or 'its keys'
        raise UserError(f'config.{name} is a block; set one of {names} in it')
    return block, key, kinds


def _check_values(config: ConfigDict) -> None:
    """Raises UserError for numbers that no setting has: not finite, or beyond 64 bits."""
    for key, value in leaves(config):
        for number in ranges.tuples(value) if isinstance(value, list | tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f'config.{key} is {value}; give a finite number')
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise UserError(f'config.{key} has more than 64 bits; give a smaller number')


def _config_file(name: str) -> str:
    """The file that --config names: 'mtg_mt5' -> '/.../configs/mtg_mt5.py'."""
    path, ours = pathlib.Path(name), config_files()
    if path.is_file():
        return name
    stem = path.name.removesuffix('.py')
    if stem in ours and str(path.parent) in ('.', 'configs'):
        return str(ours[stem])
    files = [str(f) for f in path.parent.glob('*.py') if f.name != '__init__.py']
    raise errors.unknown('config file', name, [*files, *ours])


def config_files() -> dict[str, pathlib.Path]:
    """The configs that come with the package, by the names that --config takes."""
    paths = sorted(pathlib.Path(configs.__file__).parent.glob('*.py'))
    return {path.stem: path for path in paths if path.name != '__init__.py'}


def _default_workdir(path: str, variant: str, config: ConfigDict) -> str:
    words = [pathlib.Path(path).stem, *re.findall(r'\w+', variant)]
    text = json.dumps(for_hash(to_dict(config)), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return os.path.join('runs', '-'.join([*words, digest[:8]]))


def variant(
    text: str, sizes: Sequence[str], **defaults: str | Sequence[str] | None
) -> dict[str, Setting]:
    """Reads what follows the colon of `--config=FILE:...` into a dict.

    Example: variant('base,task=qg', ('sample', 'base'), task=None, stages=('both', 'first')) ->
      {'size': 'base', 'task': 'qg', 'stages': 'both'}

    Args:
      text: words with commas between; one without '=' is the size.
      sizes: allowed sizes, the default one first.
      **defaults: the other keys and what they are when the text is silent; a tuple has all that
        are allowed, the default one first.

    Raises:
      UserError: an unknown size or key, or a value that is not allowed.
    """
    allowed = {'size': sizes} | {k: v for k, v in defaults.items() if isinstance(v, tuple)}
    first = {key: values[0] for key, values in allowed.items()}
    result: dict[str, Setting] = {**defaults, **first}
    for word in filter(None, text.split(',')):
        key, equals, value = word.partition('=')
        if not equals:
            key, value = 'size', word
        errors.check_known('key after the colon of --config', key, result)
        result[key] = value
    for key, values in allowed.items():
        errors.check_known(f'{key} after the colon of --config', result[key], values)
    return result
