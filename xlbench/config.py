"""From `--config=FILE[:variant] --config.key=value` to checked blocks of arguments.

A config file is plain Python with one function, `get_config(variant='')`, that returns an
ml_collections.ConfigDict. Each block of it is the keyword arguments of one function, so that the
function's signature is the documentation of the block, and `check_block` can name a wrong key
before a run costs anything.
"""

import hashlib
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from xlbench import configs, errors, files
from xlbench.errors import UserError

# What may differ when a run goes on: the devices it then has; its numbers stay what they are.
ELASTIC = ('mesh',)
VERSIONED = ('xlbench', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'numpy')


def parse_flags(argv: Sequence[str], *, doc: str) -> tuple[ConfigDict, str]:
    """The config and the workdir that a command line names.

    Args:
      argv: program name and arguments.
      doc: what `--help` prints first.

    Returns:
      (config, workdir): the workdir is `runs/<config>-<variant>-<hash>` unless --workdir is given,
      so that the same command finds its own run again.

    Raises:
      UserError: an unknown flag or key, a value of the wrong type, a config that cannot be read.
    """
    path = _config_argument(argv)
    if any(argument in ('--help', '-h', '--helpfull') for argument in argv[1:]):
        flags_line = 'Flags: --config=FILE.py[:variant] --config.KEY=VALUE --workdir=FOLDER'
        print(f'{doc.strip()}\n\n{flags_line}')
        raise SystemExit(0)
    if not path:
        raise UserError('no config; try --config=configs/mtg_mt5.py')
    argv = [_with_config_file(argument, path) for argument in argv]
    path = _config_argument(argv)
    _check_overrides(_parse([argv[0], f'--config={path}']).config, argv)
    values = _parse(argv)
    return values.config, values.workdir or _default_workdir(path, values.config)


def _parse(argv: Sequence[str]) -> flags.FlagValues:
    values = flags.FlagValues()
    flags.DEFINE_string('workdir', '', 'where the run lives', flag_values=values)
    config_flags.DEFINE_config_file('config', None, 'config', lock_config=True, flag_values=values)
    before, sys.argv = sys.argv, list(argv)  # config_flags looks for overrides there.
    try:
        rest = values(list(argv))
    except flags.Error as error:
        raise UserError(_one_line(f'{error}')) from error
    finally:
        sys.argv = before
    if rest[1:]:
        raise UserError(f'unexpected argument {rest[1]!r}; flags begin with --')
    return values


def _check_overrides(config: ConfigDict, argv: Sequence[str]) -> None:
    """Raises UserError for a --config.KEY that the config does not have, with the nearest."""
    for argument in argv[1:]:
        match = re.match(r'--?(?:no)?config\.([^=]+)', argument)
        block: Any = config
        for depth, key in enumerate(keys := match[1].split('.') if match else []):
            name = '.'.join(['config', *keys[:depth]])
            if not isinstance(block, ConfigDict):
                raise UserError(f'{name} is {block!r} and has no keys; --{name}=VALUE sets it')
            if key not in block:
                raise errors.unknown(f'key in {name}', key, block.keys())
            block = block[key]
        if isinstance(block, ConfigDict) and match:
            raise UserError(f'config.{match[1]} is a block; set one of {", ".join(block)} in it')


def _config_argument(argv: Sequence[str]) -> str:
    for index, argument in enumerate(argv):
        if match := re.fullmatch(r'--?config=(.*)', argument, re.DOTALL):
            return match[1]
        if argument in ('--config', '-config') and index + 1 < len(argv):
            return argv[index + 1]
    return ''


def _with_config_file(argument: str, config: str) -> str:
    """An argument of the command line; where it names the config, with the path of its file."""
    flag, equals, value = argument.partition('=')
    if value == config and flag in ('--config', '-config'):
        return f'{flag}{equals}{_config_file(value)}'
    return _config_file(argument) if argument == config else argument


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
    names = [f.stem for f in folder.glob('*.py') if f.name != '__init__.py']
    raise errors.unknown('config file', name, [*files, *names])


def _one_line(text: str) -> str:
    return re.sub(r'\s+', ' ', text).strip()


def to_dict(config: ConfigDict) -> dict[str, Any]:
    """Plain dicts, lists and scalars."""
    return json.loads(json.dumps(config.to_dict()))


def _default_workdir(argument: str, config: ConfigDict) -> str:
    path, _, variant = argument.partition(':')
    words = [pathlib.Path(path).stem, *re.findall(r'\w+', variant)]
    digest = hashlib.sha256(json.dumps(to_dict(config), sort_keys=True).encode()).hexdigest()
    return os.path.join('runs', '-'.join([*words, digest[:8]]))


def check_block(
    function: Callable[..., Any], block: Mapping[str, Any], name: str, *given: str
) -> dict[str, Any]:
    """The block as keyword arguments, if `function` takes them.

    Args:
      function: what the block will be passed to.
      block: keyword arguments.
      name: how the block is called, for the message: 'config.mesh'.
      *given: arguments that the caller adds itself, not allowed in the block.

    Raises:
      UserError: a key that the function does not take, or a missing one.
    """
    parameters = inspect.signature(function).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    allowed = [n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD and n not in given]
    for key in block:
        if key in given or (key not in allowed and not open_ended):
            raise errors.unknown(f'key in {name}', key, allowed)
    for key, parameter in parameters.items():
        needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        if needed and key not in block and key not in given:
            raise UserError(f'{name} lacks {key!r}, which {function.__name__} needs')
    return dict(block)


def check_keys(block: Mapping[str, Any], allowed: Sequence[str], name: str) -> None:
    """Raises UserError for a key that is not allowed, or one of `allowed` that is missing."""
    for key in block:
        if key not in allowed:
            raise errors.unknown(f'key in {name}', key, allowed)
    for key in allowed:
        if key not in block:
            raise UserError(f'{name} lacks {key!r}; it holds {", ".join(allowed)}')


def check_workdir(workdir: str, config: ConfigDict) -> bool:
    """Whether a run of this config, its mesh aside, was begun in the workdir; writes nothing.

    Raises:
      UserError: the workdir is another config's (the difference is in the message), or somebody's.
    """
    folder = pathlib.Path(workdir)
    path = folder / 'config.json'
    if not path.exists():
        if folder.exists() and any(not e.name.startswith('.config') for e in folder.iterdir()):
            raise UserError(
                f'{workdir} is not empty and holds no run of ours (no config.json); '
                'choose another --workdir'
            )
        return False
    try:
        before = dict(json.loads(path.read_text(encoding='utf-8'))['config'])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f'{path} is broken ({error}); choose another --workdir') from None
    now = to_dict(config)
    if difference := _difference(*({**c, **dict.fromkeys(ELASTIC)} for c in (before, now))):
        more = f' and {len(difference) - 5} more' if len(difference) > 5 else ''
        raise UserError(
            f'{workdir} holds a run with another config: {"; ".join(difference[:5])}{more}; '
            'choose another --workdir'
        )
    return True


def begun_with(workdir: str, config: ConfigDict) -> str:
    """What is other now than when the run was begun, and may be; '' if nothing is.

    Example: 'mesh.data was 8, now 4; mesh.fsdp was 1, now 2'
    """
    before, now = read_about(workdir)['config'], to_dict(config)
    return '; '.join(
        line for key in ELASTIC for line in _difference(before.get(key), now.get(key), key)
    )


def read_about(workdir: str) -> dict[str, Any]:
    """All that config.json says about a run: its config, versions, data, labels, ..."""
    path = pathlib.Path(workdir) / 'config.json'
    if not path.is_file():
        raise UserError(f'{workdir} has no config.json, so it is no workdir of xlbench.train')
    return json.loads(path.read_text(encoding='utf-8'))


def read_config(workdir: str) -> ConfigDict:
    """The config that a run was started with."""
    return ConfigDict(read_about(workdir)['config'])


def claim_workdir(workdir: str, config: ConfigDict, about: Mapping[str, Any]) -> None:
    """Makes the workdir this config's own: writes config.json, unless it did so before.

    Args:
      workdir: of the run.
      config: of the run.
      about: what config.json says besides. 'contents', if it is there, is {data: its hash}, which
        must be what it was when the run was begun.

    Raises:
      UserError: the workdir is another config's, or somebody's, or of other data.
    """
    if check_workdir(workdir, config):
        before = read_about(workdir).get('contents', {})
        for name, content in about.get('contents', {}).items():
            if content != before.get(name, content):
                raise UserError(
                    f'{name} holds other examples than when {workdir} was begun; put back those '
                    'that it held, or choose another --workdir'
                )
        return
    path = pathlib.Path(workdir) / 'config.json'
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({'config': to_dict(config), **about}, indent=1, ensure_ascii=False)
    files.write(path, text + '\n')


def _difference(before: Any, now: Any, name: str = '') -> list[str]:
    """['optimizer.learning_rate was 0.1, now 0.2', ...]"""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [*before, *(key for key in now if key not in before)]
        return [
            line
            for key in keys
            for line in _difference(
                before.get(key, 'absent'), now.get(key, 'absent'), f'{name}.{key}'.lstrip('.')
            )
        ]
    return [] if before == now else [f'{name} was {before!r}, now {now!r}']


def facts() -> dict[str, Any]:
    """Where a result comes from, as far as this process can tell: versions, commit, command."""
    versions = {'python': sys.version.split()[0]}
    for package in VERSIONED:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = 'not installed'
    return {'versions': versions, 'git': _git_commit(), 'argv': sys.argv}


def _git_commit() -> str:
    """The commit of this source tree, with '+changes' if it was edited since; '' outside git."""
    folder = pathlib.Path(__file__).parent
    try:
        commit, changes = (
            subprocess.run(
                ['git', '-C', folder, *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (('rev-parse', 'HEAD'), ('status', '--porcelain', '--', '.'))
        )
    except (OSError, subprocess.CalledProcessError):
        return ''
    return commit + ('+changes' if changes else '')


def variant(text: str, sizes: Sequence[str], **defaults: Any) -> dict[str, Any]:
    """What follows the colon of `--config=FILE:...`, as a dict.

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
