"""Command lines with a config: loads the file, sets the overrides in it and checks the result."""

import hashlib
import importlib.util
import inspect
import itertools
import json
import math
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from absl import flags
from ml_collections import ConfigDict, config_dict, config_flags

from xlbench import configs
from xlbench.config import epochs, ranges
from xlbench.config.blocks import for_hash, leaves, to_dict
from xlbench.system import errors
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.files import Setting

# What every program with a config takes, and most: for --help.
FLAGS = (
    flag('--config', 'a config, and its variant', required=True, metavar='FILE[:VARIANT]'),
    flag('--config.KEY', 'set a key of the config: --config.seed=1', metavar='VALUE'),
)
RUN_FLAGS = (
    FLAGS,
    flag('--workdir', 'folder of the run (default: runs/CONFIG-HASH)', metavar='FOLDER'),
    flag('--dry_run', 'print sizes, memory and data, and stop', False),
)


class Command(NamedTuple):
    """A command line with a config, read.

    Attributes:
      config: with the overrides.
      workdir: `runs/<config>-<variant>-<hash>` unless --workdir is given, so that the same command
        finds its own run again.
      dry_run: whether --dry_run is given.
    """

    config: ConfigDict
    workdir: str
    dry_run: bool


# (config, keys of a block) -> {key that the block may hold: its annotation, like 'int | None'}.
Fields = Callable[[ConfigDict, Sequence[str]], Mapping[str, str]]
# (config, keys that the command line sets) changes the config.
Resolve = Callable[[ConfigDict, Collection[str]], None]


def parse_flags(
    argv: Sequence[str], *, fields: Fields | None = None, resolve: Resolve | None = None
) -> tuple[ConfigDict, str]:
    """The config and the workdir that a command line names; see `parse_command`."""
    command = parse_command(argv, fields=fields, resolve=resolve)
    return command.config, command.workdir


def parse_command(
    argv: Sequence[str],
    *,
    line: CommandLine | None = None,
    fields: Fields | None = None,
    resolve: Resolve | None = None,
    dry_run: bool = False,
) -> Command:
    """Reads the command line of a program with a config.

    Args:
      argv: program name and arguments.
      line: what `--help` lists.
      fields: further keys that can be set: those that a block may hold, and this config's does not.
      resolve: replaces what stands for other keys, such as config.model.from.
      dry_run: whether the program knows --dry_run.

    Raises:
      UserError: an unknown flag or key, a value of the wrong type, a config that cannot be read.
    """
    name = _config_argument(argv)
    if line and any(argument in ('--help', '-h', '--helpfull') for argument in argv[1:]):
        line.parse(['--help'])
    if not name:
        raise UserError('no config; try --config=configs/mtg_mt5.py')
    path = _config_file(name)
    config = _load(path)
    rest = _with_from(config, _without_config(argv))
    _prepare_overrides(config, rest, fields)
    values = flags.FlagValues()
    flags.DEFINE_string('workdir', '', 'where the run lives', flag_values=values)
    if dry_run:
        flags.DEFINE_boolean('dry_run', False, 'say it, do nothing', flag_values=values)
    try:
        config_flags.DEFINE_config_dict('config', config, flag_values=values, sys_argv=rest)
        left = values(rest)
    except (flags.Error, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise UserError(_without_python(_one_line(f'{error}'))[:500]) from error
    if left[1:]:
        raise UserError(f'unexpected argument {left[1]!r}; flags begin with --')
    _check_values(values.config)
    if resolve:
        overrides = (_OVERRIDE.fullmatch(argument) for argument in rest)
        resolve(values.config, {match[2] for match in overrides if match})
    errors.check_path('--workdir', values.workdir)
    data = values.config.get('data')
    errors.check_path('config.data.root', data.get('root') if isinstance(data, ConfigDict) else '')
    workdir = values.workdir or _default_workdir(path, values.config)
    return Command(values.config, workdir, dry_run and values.dry_run)


def _load(argument: str) -> ConfigDict:
    """Loads a config file; its lists become tuples, which flags can set.

    Raises:
      UserError: the file has a bug (with its line), or does not know what follows the colon.
    """
    path, colon, variant = argument.partition(':')
    spec = importlib.util.spec_from_file_location('xlbench_config', path)
    if spec is None:
        raise UserError(f'{path} is not a config file; it is Python, and its name ends in .py')
    module = importlib.util.module_from_spec(spec)
    # A file that is edited twice within a second would be taken for what was compiled of it.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except Exception as error:
        raise _bug(path, error) from error
    finally:
        sys.dont_write_bytecode = before
    get_config = getattr(module, 'get_config', None)
    if not callable(get_config):
        raise UserError(f"{path} has no function get_config(variant=''), which makes the config")
    arguments = [variant] if colon else []
    try:
        inspect.signature(get_config).bind(*arguments)
    except TypeError:
        takes = f'get_config{inspect.signature(get_config)}'
        what = f'takes nothing after the colon, not {variant!r}' if colon else 'needs a variant'
        raise UserError(f'{path} {what}: it has {takes}') from None
    try:
        config = get_config(*arguments)
    except UserError:
        raise
    except Exception as error:
        raise _bug(path, error) from error
    if not isinstance(config, dict | ConfigDict):
        raise UserError(
            f'get_config of {path} returns {type(config).__name__}; it returns a ConfigDict'
        )
    try:
        config = ConfigDict(config) if isinstance(config, dict) else config
        _part(config, set())
        for key, value in leaves(config):
            if isinstance(value, list):
                epochs.put(config, key, _tuples(value))
        return config
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f'get_config of {path}: {_one_line(f"{error}")}') from error


def _part(config: ConfigDict, seen: set[int]) -> None:
    """Gives each place its own copy of a block that a file has put into several.

    Otherwise an override of one of them, such as the lengths of an evaluation, would change all.
    """
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            if id(value) in seen:
                value = value.copy_and_resolve_references()
                with config.unlocked():
                    config[key] = value
            seen.add(id(value))
            _part(value, seen)


def _bug(path: str, error: Exception) -> UserError:
    """Returns an error with the line of a user's config file: 'mine.py:12: NameError: ...'."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            line = frame.lineno
    message = error.msg if isinstance(error, SyntaxError) else _one_line(f'{error}')
    return UserError(f'{path}{f":{line}" if line else ""}: {type(error).__name__}: {message}')


def _tuples(value: Setting) -> Setting:
    """Lists as tuples, as deep as they go."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


# Of annotations, the types that a flag can set.
_TYPES = {'int': int, 'float': float, 'bool': bool, 'str': str}
_OVERRIDE = re.compile(r'--?(no)?config\.([^=]*)(=.*)?', re.DOTALL)


def _prepare_overrides(config: ConfigDict, argv: Sequence[str], fields: Fields | None) -> None:
    """Raises UserError for a --config.KEY that there is not, with the nearest.

    A key that `fields` knows and the config leaves out is added to it, without a value.
    """
    for argument, following in itertools.zip_longest(argv[1:], argv[2:], fillvalue=''):
        match = _OVERRIDE.fullmatch(argument)
        if not match:
            continue
        block, keys = config, match[2].split('.')
        for depth, key in enumerate(keys):
            where = '.'.join(['config', *keys[:depth]])
            if not isinstance(block, ConfigDict):
                raise UserError(f'{where} is {block!r} and has no keys; --{where}=VALUE sets it')
            known = fields(config, keys[:depth]) if fields else {}
            if key not in block or block[key] is None:
                _add(block, key, known.get(key, ''), where)
            if key not in block:
                raise errors.unknown(f'key in {where}', key, {*block.keys(), *known})
            block = block[key] if depth + 1 < len(keys) else block.get(key)
        if isinstance(block, ConfigDict):
            names = ', '.join(block) or 'its keys'
            raise UserError(f'config.{match[2]} is a block; set one of {names} in it')
        if any(key == match[2] for key, _, _ in epochs.keys(config)):
            is_text = epochs.count(match[3][1:] if match[3] else following)
            if is_text or isinstance(block, str):  # Steps for epochs, or epochs for steps.
                kind = str if is_text else float if key == 'warmup_steps' else int
                epochs.put(config, match[2], config_dict.placeholder(kind))


def _add(block: ConfigDict, key: str, annotation: str, where: str) -> None:
    """Makes room for a value of an annotation's type; does nothing for an unknown one."""
    kind = ranges.plain(annotation).partition(' |')[0]
    if kind not in _TYPES and not kind.startswith(('Sequence', 'Mapping')):
        return
    with block.unlocked():
        if key in block:
            del block[key]  # None, with its type.
        if kind in _TYPES:
            block[key] = config_dict.placeholder(_TYPES[kind])
        elif kind.startswith('Sequence'):
            block[key] = ()
        else:
            block[key] = ConfigDict()


def _check_values(config: ConfigDict) -> None:
    """Raises UserError for numbers that no setting has: not finite, or beyond 64 bits."""
    for key, value in leaves(config):
        for number in _tuples(value) if isinstance(value, list | tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f'config.{key} is {value}; give a finite number')
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise UserError(f'config.{key} has more than 64 bits; give a smaller number')
        if value == ('',):  # --config.baselines= has none.
            epochs.put(config, key, ())


def _without_config(argv: Sequence[str]) -> list[str]:
    """The command line without --config=..., and with the value of a flag beside its name."""
    rest, skip = [], False
    for argument in argv:
        if skip:
            skip = False
        elif argument in ('--config', '-config'):
            skip = True
        elif not re.match(r'--?config=', argument):
            rest.append(argument)
    return rest


def _with_from(config: ConfigDict, argv: Sequence[str]) -> list[str]:
    """Sets config.BLOCK.from, which is not a name in Python, and so none to config_flags.

    Returns:
      The other arguments.

    Raises:
      UserError: there is no such block.
    """
    rest, arguments = [], iter(argv)
    for argument in arguments:
        match = re.fullmatch(r'--?config\.([\w.]+)\.from(=(.*))?', argument, re.DOTALL)
        if not match:
            rest.append(argument)
            continue
        block = config
        for depth, key in enumerate(keys := match[1].split('.')):
            if not isinstance(block.get(key), ConfigDict):
                raise errors.unknown(f'block in {".".join(["config", *keys[:depth]])}', key, block)
            block = block[key]
        with block.unlocked():
            block['from'] = next(arguments, '') if match[2] is None else match[3]
    return rest


def _config_argument(argv: Sequence[str]) -> str:
    for index, argument in enumerate(argv):
        if match := re.fullmatch(r'--?config=(.*)', argument, re.DOTALL):
            return match[1]
        if argument in ('--config', '-config') and index + 1 < len(argv):
            return argv[index + 1]
    return ''


def _config_file(text: str) -> str:
    """The file and variant that --config names.

    Args:
      text: a path, or the name of a config that comes with the package, and the variant after a
        colon. Example: 'mtg_mt5:base' -> '/.../xlbench/configs/mtg_mt5.py:base'

    Raises:
      UserError: neither is there.
    """
    name, colon, variant = text.partition(':')
    path = pathlib.Path(name)
    if path.is_file():
        return text
    folder = pathlib.Path(configs.__file__).parent
    ours = folder / f'{path.name.removesuffix(".py")}.py'
    if ours.is_file() and str(path.parent) in ('.', 'configs'):
        return f'{ours}{colon}{variant}'
    files = [str(f) for f in path.parent.glob('*.py') if f.name != '__init__.py']
    raise errors.unknown('config file', name, [*files, *config_files()])


def config_files() -> dict[str, pathlib.Path]:
    """The configs that come with the package, by the names that --config takes."""
    paths = sorted(pathlib.Path(configs.__file__).parent.glob('*.py'))
    return {path.stem: path for path in paths if path.name != '__init__.py'}


def _one_line(text: str) -> str:
    return re.sub(r'\s+', ' ', text).strip()


def _without_python(message: str) -> str:
    """Says what Python says about a number in words that need no Python.

    Example: "flag --config.seed=x: invalid literal for int() with base 10: 'x'" ->
      "flag --config.seed=x: 'x' is not a whole number"
    """
    whole = r"invalid literal for int\(\) with base 10: ('.*')"
    message = re.sub(whole, r'\1 is not a whole number', message)
    return re.sub(r"could not convert string to float: ('.*')", r'\1 is not a number', message)


def _default_workdir(argument: str, config: ConfigDict) -> str:
    path, _, variant = argument.partition(':')
    words = [pathlib.Path(path).stem, *re.findall(r'\w+', variant)]
    text = json.dumps(for_hash(to_dict(config)), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return os.path.join('runs', '-'.join([*words, digest[:8]]))


def variant(text: str, sizes: Sequence[str], **defaults: str | None) -> dict[str, str | None]:
    """Reads what follows the colon of `--config=FILE:...` into a dict.

    Example: variant('base,task=qg', ('sample', 'base'), task=None, source=None) ->
      {'size': 'base', 'task': 'qg', 'source': None}

    Args:
      text: words with commas between; one without '=' is the size.
      sizes: allowed sizes, the default one first.
      **defaults: the other keys and what they are when the text is silent.

    Raises:
      UserError: an unknown size or key.
    """
    result = {'size': sizes[0], **defaults}
    for word in filter(None, text.split(',')):
        key, equals, value = word.partition('=')
        if not equals:
            key, value = 'size', word
        if key not in result:
            raise errors.unknown('key after the colon of --config', key, result)
        result[key] = value
    if result['size'] not in sizes:
        raise errors.unknown('size after the colon of --config', result['size'], sizes)
    return result
