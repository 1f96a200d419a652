"""From `--config=FILE[:variant] --config.key=value` to checked blocks of arguments.

A config file is plain Python with one function, `get_config(variant='')`, that returns an
ml_collections.ConfigDict. Each block of it is the keyword arguments of one function, so that the
function's signature is the documentation of the block, and `check_arguments` can name a wrong key
before a run costs anything.
"""

import functools
import hashlib
import importlib.util
import inspect
import json
import math
import operator
import os
import pathlib
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Annotated, Any, NamedTuple

import msgspec
from absl import flags
from ml_collections import ConfigDict, config_dict, config_flags

from xlbench import configs, errors, files, foreign
from xlbench.benchmarks import languages
from xlbench.config import ranges
from xlbench.config.signatures import Signature
from xlbench.errors import UserError, shortened

# What may differ when a run goes on: the devices it then has, and where its data lies; the data
# itself has to be the same (see claim_workdir), so that its numbers stay what they are.
ELASTIC = ('mesh', 'data.root', 'data.vocabulary')
VERSIONED = ('xlbench', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'numpy')


class Command(NamedTuple):
    """What a command line asks for.

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


def parse_flags(
    argv: Sequence[str], *, doc: str, fields: Fields | None = None
) -> tuple[ConfigDict, str]:
    """The config and the workdir that a command line names; see `parse_command`."""
    command = parse_command(argv, doc=doc, fields=fields)
    return command.config, command.workdir


def parse_command(
    argv: Sequence[str], *, doc: str, fields: Fields | None = None, dry_run: bool = False
) -> Command:
    """What a command line of a program with a config asks for.

    Args:
      argv: program name and arguments.
      doc: what `--help` prints first.
      fields: further keys that can be set: those that a block may hold, and this config's does not.
      dry_run: whether the program knows --dry_run.

    Raises:
      UserError: an unknown flag or key, a value of the wrong type, a config that cannot be read.
    """
    name = _config_argument(argv)
    if any(argument in ('--help', '-h', '--helpfull') for argument in argv[1:]):
        flags_line = 'Flags: --config=FILE.py[:variant] --config.KEY=VALUE --workdir=FOLDER'
        print(f'{doc.strip()}\n\n{flags_line}{" --dry_run" if dry_run else ""}')
        raise SystemExit(0)
    if not name:
        raise UserError('no config; try --config=configs/mtg_mt5.py')
    path = _config_file(name)
    config = _load(path)
    rest = _without_config(argv)
    _prepare_overrides(config, rest, fields)
    values = flags.FlagValues()
    flags.DEFINE_string('workdir', '', 'where the run lives', flag_values=values)
    if dry_run:
        flags.DEFINE_boolean('dry_run', False, 'say it, do nothing', flag_values=values)
    try:
        config_flags.DEFINE_config_dict('config', config, flag_values=values, sys_argv=rest)
        left = values(rest)
    except (flags.Error, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise UserError(_one_line(f'{error}')[:500]) from error
    if left[1:]:
        raise UserError(f'unexpected argument {left[1]!r}; flags begin with --')
    _check_values(values.config)
    errors.check_path('--workdir', values.workdir)
    data = values.config.get('data')
    errors.check_path('config.data.root', data.get('root') if isinstance(data, ConfigDict) else '')
    workdir = values.workdir or _default_workdir(path, values.config)
    return Command(values.config, workdir, dry_run and values.dry_run)


def _load(argument: str) -> ConfigDict:
    """What get_config of a config file returns; lists become tuples, which flags can set.

    Raises:
      UserError: the file has a bug (with its line), or does not know what follows the colon.
    """
    path, colon, variant = argument.partition(':')
    spec = importlib.util.spec_from_file_location('xlbench_config', path)
    if spec is None:
        raise UserError(f'{path} is no config file; it is Python, and its name ends in .py')
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
        raise UserError(f'{path} has no function get_config(variant=\'\'), which makes the config')
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
        for key, value in _leaves(config):
            if isinstance(value, list):
                _set(config, key, _tuples(value))
        return config
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f'get_config of {path}: {_one_line(f"{error}")}') from error


def _bug(path: str, error: Exception) -> UserError:
    """Where in a user's config file an error came up. Example: 'mine.py:12: NameError: ...'"""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == path:
            line = frame.lineno
    message = error.msg if isinstance(error, SyntaxError) else _one_line(f'{error}')
    return UserError(f'{path}{f":{line}" if line else ""}: {type(error).__name__}: {message}')


def _tuples(value: Any) -> Any:
    """Lists as tuples, as deep as they go."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _leaves(config: ConfigDict, prefix: str = '') -> Iterator[tuple[str, Any]]:
    """(key with dots, value) of all that is no block."""
    for key, value in config.items():
        if isinstance(value, ConfigDict):
            yield from _leaves(value, f'{prefix}{key}.')
        else:
            yield f'{prefix}{key}', value


def _set(config: ConfigDict, key: str, value: Any) -> None:
    *blocks, last = key.split('.')
    block = functools.reduce(operator.getitem, blocks, config)
    with config.unlocked(), block.unlocked():
        del block[last]  # With its type.
        block[last] = value


# Of annotations, the types that a flag can set.
_TYPES = {'int': int, 'float': float, 'bool': bool, 'str': str}
_OVERRIDE = re.compile(r'--?(no)?config\.([^=]*)(=.*)?', re.DOTALL)


def _prepare_overrides(config: ConfigDict, argv: Sequence[str], fields: Fields | None) -> None:
    """Raises UserError for a --config.KEY that there is not, with the nearest.

    A key that `fields` knows and the config leaves out is added to it, without a value.
    """
    for argument in argv[1:]:
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
    for key, value in _leaves(config):
        for number in _tuples(value) if isinstance(value, list | tuple) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise UserError(f'config.{key} is {value}; give a finite number')
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise UserError(f'config.{key} has more than 64 bits; give a smaller number')
        if value == ('',):  # --config.baselines= has none.
            _set(config, key, ())


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


def check_arguments(signature: Signature, block: Mapping[str, Any], name: str) -> None:
    """Raises UserError for a key or value that `signature` does not take, or a key it needs."""
    for key in block:
        if key not in signature.types and not signature.open_ended:
            raise errors.unknown(f'key in {name}', key, signature.types)
    for key in signature.types:
        if key in signature.needed and key not in block:
            raise UserError(f'{name} lacks {key!r}, which {signature.name} needs')
    ranges.check_arguments(signature, block, name)


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
    if folder.exists() and not folder.is_dir():
        raise UserError(f'{workdir} is a file and no folder; choose another --workdir')
    if not path.exists():
        if folder.exists() and not files.is_free(folder):
            raise UserError(
                f'{workdir} is not empty and holds no run of ours (no config.json); '
                'choose another --workdir'
            )
        return False
    try:
        begun = files.read_json(path, _Begun)
        before = begun.config
    except UserError as error:
        raise UserError(f'{error}; this is no workdir to go on in, choose another') from None
    if begun.scored is not None:
        raise UserError(
            f"{workdir} holds a system's scores of xlbench.score and no run; choose another "
            '--workdir'
        )
    now = to_dict(config)
    if difference := [line for line in _difference(before, now) if not _is_elastic(line)]:
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
    lines = _difference(read_about(workdir)['config'], to_dict(config))
    return '; '.join(filter(_is_elastic, lines))


def _is_elastic(line: str) -> bool:
    """Whether a line of `_difference` is about something that may differ."""
    key = line.partition(' ')[0]
    return any(key == allowed or key.startswith(f'{allowed}.') for allowed in ELASTIC)


def data_root(about: Mapping[str, Any], given: str = '') -> str:
    """The data root of a run, wherever its workdir and this process are.

    A relative root starts in the folder where the run was begun; where it is not there any more,
    in this one.

    Args:
      about: the content of config.json.
      given: the root that the user names now, if any.

    Raises:
      UserError: there is no such folder, and nothing can make it.
    """
    data = about['config']['data']
    root = given or data['root']
    begun = os.path.join(str(about.get('cwd') or ''), root)
    root = begun if not given and os.path.isdir(begun) else root
    if not os.path.isdir(root) and not data['sample']:
        raise UserError(
            f'the data that the run was trained with is not here: there is no folder {root!r}; '
            'name the one that it is in with --root=FOLDER'
        )
    return root


def read_about(workdir: str) -> dict[str, Any]:
    """All that config.json says about a run: its config, versions, data, labels, ..."""
    path = foreign.file(workdir, 'config.json')
    if not path:
        raise UserError(f'{workdir} has no config.json, so it is no workdir of xlbench.train')
    about = files.read_json(path, dict[str, Any])
    languages.restore(about.get('languages'))
    return about


def read_run(workdir: str, needed: Sequence[str] = ()) -> dict[str, Any]:
    """`read_about` of one run, or of xlbench.convert, whose parts have the types that they need.

    Args:
      workdir: of the run.
      needed: keys that its config must have.

    Raises:
      UserError: a part has another type, or the workdir is one of a sweep.
    """
    refuse_sweep(workdir)
    about, path = read_about(workdir), pathlib.Path(workdir) / 'config.json'
    if not isinstance(about.get('config'), dict):
        raise UserError(f'{path} has no config, so {workdir} is no workdir of xlbench.train')
    files.check_type(about, _About, str(path))
    try:
        ConfigDict(about['config'])
    except (ValueError, TypeError) as error:  # A key that no config of ours can have.
        raise UserError(f'{path}: {shortened(str(error), 200)}') from None
    for key in needed:
        if key not in about['config']:
            raise UserError(f'{path}: its config lacks {key!r}')
    return about


# What those need who open a run to use its model.
RUN_KEYS = ('data', 'model', 'objective', 'lora', 'stages', 'evals')


_Size = Annotated[int, msgspec.Meta(ge=1, le=2**24)]


class _Lengths(msgspec.Struct):
    inputs: _Size
    targets: _Size | msgspec.UnsetType = msgspec.UNSET


class RunEval(msgspec.Struct):
    """What is read of a block of config.evals."""

    every: Annotated[int, msgspec.Meta(ge=0)] = 0
    tasks: list[str] = []
    split: str = ''
    batch_size: _Size | msgspec.UnsetType = msgspec.UNSET
    lengths: _Lengths | msgspec.UnsetType = msgspec.UNSET
    num_examples: Annotated[int, msgspec.Meta(ge=0)] = 0
    decoding: dict[str, Any] | None = None
    responses: str = ''


class _Data(msgspec.Struct):
    root: str
    vocabulary: str
    sample: bool = False


class _Model(msgspec.Struct):
    family: str


class _Objective(msgspec.Struct):
    name: str


class _Lora(msgspec.Struct):
    rank: Annotated[int, msgspec.Meta(ge=0)] = 0


class _Config(msgspec.Struct):
    data: _Data | msgspec.UnsetType = msgspec.UNSET
    model: _Model | msgspec.UnsetType = msgspec.UNSET
    objective: _Objective | msgspec.UnsetType = msgspec.UNSET
    lora: _Lora | msgspec.UnsetType = msgspec.UNSET
    stages: dict[str, dict[str, Any]] = {}
    evals: dict[str, RunEval] = {}


class RunTask(msgspec.Struct):
    """What a run notes of a task."""

    trained: bool
    source_lang: str | None = None
    target_lang: str | None = None
    texts: int | None = None


class _Vocabulary(msgspec.Struct):
    sha256: str | None = None


class _About(msgspec.Struct):
    """What those who open a run read of its config.json."""

    config: _Config
    tasks: dict[str, RunTask] = {}
    labels: list[str] | None = None
    vocabulary: _Vocabulary | None = None


class _Begun(msgspec.Struct):
    """What is read of a config.json, a sweep's too, to compare it with the config of now."""

    config: dict[str, Any]
    scored: Any = None  # Of xlbench.score alone.


def read_config(workdir: str) -> ConfigDict:
    """The config that a run was started with; see `read_run`."""
    return ConfigDict(read_run(workdir)['config'])


def refuse_sweep(workdir: str) -> None:
    """Raises UserError for a workdir of xlbench.fewshot where one of a single run is meant."""
    path = foreign.file(workdir, 'config.json')
    config = files.read_json(path, dict[str, Any]).get('config') if path else None
    if isinstance(config, dict) and 'adapt' in config and 'stages' not in config:
        source = config.get('source_workdir') or os.path.join(workdir, 'source')
        raise UserError(
            f'{workdir} is the workdir of a sweep of xlbench.fewshot, not of one run; its source '
            f'model is {source}, models that it kept are in {os.path.join(workdir, "adapted")}'
        )


def claim_workdir(workdir: str, config: ConfigDict, about: Mapping[str, Any]) -> None:
    """Makes the workdir this config's own: writes config.json, unless it did so before.

    Whoever calls this holds the workdir's lock.

    Args:
      workdir: of the run.
      config: of the run.
      about: what config.json says besides. 'contents', if it is there, is {data: its hash}, which
        must be what it was when the run was begun.

    Raises:
      UserError: the workdir is another config's, or somebody's, or of other data, or has links
        that lead out of it.
    """
    begun = check_workdir(workdir, config)
    if os.path.isdir(workdir):
        foreign.check_tree(workdir, workdir)
        files.remove_leftovers(workdir)
    if begun:
        began = read_about(workdir)
        hashes = [(content.get('vocabulary') or {}).get('sha256') for content in (began, about)]
        if all(hashes) and hashes[0] != hashes[1]:
            raise UserError(
                f'{workdir} was begun with another vocabulary than {about["vocabulary"]["name"]!r} '
                'is now; put it back, or choose another --workdir'
            )
        before = began.get('contents', {})
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
    if before == now:
        return []
    return [f'{name[:200]} was {shortened(before, 200)}, now {shortened(now, 200)}']


def facts() -> dict[str, Any]:
    """Where a result comes from, as far as this process can tell: versions, commit, command."""
    versions = {'python': sys.version.split()[0]}
    for package in VERSIONED:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = 'not installed'
    return {'versions': versions, 'git': _git_commit(), 'argv': sys.argv, 'cwd': os.getcwd()}


def _git_commit() -> str:
    """The commit of this source tree, with '+changes' if it was edited since; '' outside git."""
    folder = pathlib.Path(__file__).parents[1]
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
