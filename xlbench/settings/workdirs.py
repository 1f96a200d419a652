"""The workdir of a run: its config.json says what it is, and it belongs to one config."""

import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from ml_collections import ConfigDict

from xlbench import models
from xlbench.benchmarks import languages
from xlbench.settings import epochs
from xlbench.settings.blocks import TRACKING_KEYS, Run, to_dict
from xlbench.settings.checks import block_fields, is_sweep
from xlbench.system import files, machine, untrusted
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json, Setting
from xlbench.system.ranges import COMPUTED, fields_of

# What those need who open a run to use its model.
RUN_KEYS = ('data', 'model', 'objective', 'lora', 'stages', 'evals')

# JSON whose inside msgspec does not check.
_Object = dict[str, Any]
_Size = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


def read_about(workdir: str) -> dict[str, Json]:
    """Reads what config.json says about a run: its config, versions, data, labels, ..."""
    path = untrusted.file(workdir, 'config.json')
    if not path:
        raise UserError(f'{workdir} has no config.json, so it is not a workdir of xlbench.train')
    about = files.read_json(path, _Object)
    languages.restore(about.get('languages'))
    upgrade(about.get('config'))
    return about


def upgrade(config: object) -> None:
    """Renames, in place, what earlier versions named otherwise; anything but a config stays."""
    evals = config.get('evals') if isinstance(config, dict) else None
    for block in evals.values() if isinstance(evals, dict) else ():
        if isinstance(block, dict) and isinstance(block.get('bertscore'), str):
            model, layer = block.pop('bertscore'), block.pop('bertscore_layer', -1)
            if model:
                block['metrics'] = [f'bertscore={model}' + (f'@{layer}' if layer != -1 else '')]


def read_run(workdir: str, needed: Sequence[str] = ()) -> dict[str, Json]:
    """`read_about` of one run, or of xlbench.convert, with its parts checked.

    Raises:
      UserError: a part has another type, the config lacks one of the keys `needed`, or the workdir
        is one of a sweep.
    """
    refuse_sweep(workdir)
    about, path = read_about(workdir), pathlib.Path(workdir) / 'config.json'
    if not isinstance(about.get('config'), dict):
        raise UserError(f'{path} has no config, so {workdir} is not a workdir of xlbench.train')
    files.check_type(about, _ABOUT, str(path))
    try:
        ConfigDict(about['config'])
    except (ValueError, TypeError) as error:  # A key that no config of ours can have.
        raise UserError(f'{path}: {shortened(str(error), 200)}') from None
    for key in needed:
        if key not in about['config']:
            raise UserError(f'{path}: its config lacks {key!r}')
    return about


class _Lengths(msgspec.Struct):
    inputs: _Size
    targets: _Size | msgspec.UnsetType = msgspec.UNSET


class RunEval(msgspec.Struct):
    """The keys of a block of config.evals that are read."""

    every: _Count = 0
    tasks: list[str] = []
    split: str = ''
    batch_size: _Size | msgspec.UnsetType = msgspec.UNSET
    lengths: _Lengths | msgspec.UnsetType = msgspec.UNSET
    num_examples: _Count = 0
    decoding: _Object | None = None
    responses: str = ''


class RunTask(msgspec.Struct):
    """A task, as a run notes it."""

    trained: bool
    source_lang: str | None = None
    target_lang: str | None = None
    texts: int | None = None


def _keys(*fields: tuple) -> type:
    """The type of an object with keys that are read: (key, type), with a default if it may lack."""
    return msgspec.defstruct('Keys', fields)


# Of config.json, to open a run.
_ABOUT = _keys(
    ('config', _keys(
        ('data', _keys(('root', str), ('vocabulary', str), ('sample', bool, False)), None),
        ('model', _keys(('family', str)), None),
        ('objective', _keys(('name', str)), None),
        ('lora', _keys(('rank', _Count, 0)), None),
        ('stages', dict[str, _Object], None),
        ('evals', dict[str, RunEval], None),
        ('batches', _keys(('lengths', dict[str, _Size])), None),
    )),
    ('tasks', dict[str, RunTask], None),
    ('labels', list[str] | None, None),
    ('vocabulary', _keys(('sha256', str | None, None)) | None, None),
)  # fmt: skip


class _Begun(msgspec.Struct):
    """The keys of a config.json, a sweep's too, that are compared with the config of now."""

    config: _Object
    given: dict[str, str] = {}  # Epochs in place of which the config has steps.
    scored: Any = None  # Of xlbench.score alone.


def read_config(workdir: str) -> ConfigDict:
    """The config that a run was started with; see `read_run`."""
    return ConfigDict(read_run(workdir)['config'])


def data_root(about: Mapping[str, Json], given: str = '') -> str:
    """The data root of a run, wherever its workdir and this process are.

    It is the `given` one, if the user names one. Else a relative root starts in the folder where
    the run was begun; where it is not there any more, in this one. `about` is config.json.

    Raises:
      UserError: there is no such folder, and nothing can make it.
    """
    data = about['config']['data']
    root = given or data['root']
    begun = os.path.join(str(about.get('cwd') or ''), root)
    root = begun if not given and os.path.isdir(begun) else root
    if not os.path.isdir(root) and not data.get('sample'):
        raise UserError(
            f'the data that the run was trained with is not here: there is no folder {root!r}; '
            'name the one that it is in with --root=FOLDER'
        )
    return root


def split_step(spec: str) -> tuple[pathlib.Path, str]:
    """Splits WORKDIR@STEP into (WORKDIR, STEP); anything else is (it, '')."""
    path = pathlib.Path(os.path.expanduser(spec))
    before, at, step = spec.rpartition('@')
    folder = pathlib.Path(os.path.expanduser(before))
    return (folder, step) if at and not path.is_dir() and folder.is_dir() else (path, '')


def steps(workdir: str) -> list[int]:
    """The steps of a workdir's complete checkpoints, in order."""
    names = files.names(pathlib.Path(workdir) / 'checkpoints')
    return sorted(int(name) for name in names if files.is_step(name))


def check_step(workdir: str, name: str) -> list[int]:
    """The same; UserError if there is none, or none of this name: 'best', 'last' or a number."""
    if not (there := steps(workdir)):
        raise UserError(f'{workdir} has no checkpoint yet')
    known = ['best', 'last', *map(str, there)]
    if name not in known:
        raise UserError(f'{workdir} has no checkpoint {name!r}; it has {", ".join(known)}')
    return there


def refuse_sweep(workdir: str) -> None:
    """Raises UserError for a workdir of xlbench.fewshot where one of a single run is meant."""
    path = untrusted.file(workdir, 'config.json')
    config = files.read_json(path, _Object).get('config') if path else None
    if isinstance(config, dict) and is_sweep(config):
        source = config.get('source_workdir') or os.path.join(workdir, 'source')
        raise UserError(
            f'{workdir} is the workdir of a sweep of xlbench.fewshot, not of one run; its source '
            f'model is {source}, models that it kept are in {os.path.join(workdir, "adapted")}'
        )


VERSIONED = ('xlbench', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy')


def facts() -> dict[str, Json]:
    """Returns what this process knows of a result's origin: versions, commit, command, folder."""
    versions = {'python': sys.version.split()[0]}
    versions |= {name: machine.installed(name) or 'not installed' for name in VERSIONED}
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


# ---------------------------------------------------------------------------------------------
# The config that a workdir belongs to.

# What may differ when a run goes on: the devices it then has, how its steps are compiled, its
# trackers, and the places of its data. The data itself has to be the same (see claim_workdir), so
# that its numbers stay what they are.
ELASTIC = (
    'mesh', 'model.scan_layers', 'data.root', 'data.vocabulary',
    *TRACKING_KEYS, *(f'source.{key}' for key in TRACKING_KEYS),
)  # fmt: skip
_ABSENT = 'absent'


def check_workdir(workdir: str, config: ConfigDict) -> bool:
    """Returns whether a run of this config, its mesh aside, was begun in the workdir.

    A key that one of the configs lacks, as those of earlier versions do, has its default.

    Raises:
      UserError: the workdir is another config's (the difference is in the message), or somebody's.
    """
    folder = pathlib.Path(workdir)
    path = folder / 'config.json'
    if folder.exists() and not folder.is_dir():
        raise _other(f'{workdir} is a file and no folder')
    if not path.exists():
        if folder.exists() and not files.is_free(folder):
            raise _other(f'{workdir} is not empty and holds no run of ours (no config.json)')
        return False
    try:
        begun = files.read_json(path, _Begun)
        before = begun.config
        upgrade(before)
    except UserError as error:
        raise UserError(f'{error}; this is not a workdir to go on in, choose another') from None
    if begun.scored is not None:
        raise _other(f"{workdir} holds a system's scores of xlbench.score and no run")
    if begun.given:
        config = config.copy_and_resolve_references()
        epochs.restore(config, {'config': before, 'given': begun.given})
    now = to_dict(config)
    lines = _differences((before, now), (before, now))
    if difference := [line for line in lines if not _is_elastic(line)]:
        more = f' and {len(difference) - 5} more' if len(difference) > 5 else ''
        first = '; '.join(difference[:5])
        raise _other(f'{workdir} holds a run with another config: {first}{more}')
    return True


def _other(reason: str) -> UserError:
    return UserError(f'{reason}; choose another --workdir')


def begun_with(workdir: str, config: ConfigDict) -> str:
    """Lists the allowed differences from when the run was begun; '' if there is none.

    Example: 'mesh.data was 8, now 4; mesh.fsdp was 1, now 2'
    """
    both = read_about(workdir)['config'], to_dict(config)
    return '; '.join(filter(_is_elastic, _differences(both, both)))


def _is_elastic(line: str) -> bool:
    """Returns whether a line of `_differences` names a setting that may differ."""
    key = line.partition(' ')[0]
    return any(key == allowed or key.startswith(f'{allowed}.') for allowed in ELASTIC)


def claim_workdir(workdir: str, config: ConfigDict, about: Mapping[str, Json]) -> None:
    """Makes the workdir this config's own: writes config.json, unless it did so before.

    The caller holds the workdir's lock, and so has checked its links. `about` is what config.json
    says besides; its 'contents', {data: its hash}, must be what they were when the run was begun.

    Raises:
      UserError: the workdir is another config's, or somebody's, or of other data.
    """
    begun = check_workdir(workdir, config)
    if os.path.isdir(workdir):
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
    files.write(path, files.as_json({'config': to_dict(config), **about}))


def _differences(
    configs: tuple[Json, Json], blocks: tuple[Json, Json], path: tuple[str, ...] = ()
) -> Iterator[str]:
    """Lines like 'optimizer.rate was 0.1, now 0.2'; a key or block that one lacks has defaults."""
    for key in dict.fromkeys([*blocks[0], *blocks[1]]):
        was, now = (
            block[key] if key in block else _left_out(config, path).get(key, _ABSENT)
            for config, block in zip(configs, blocks, strict=True)
        )
        if was == now:
            continue
        inner = tuple({} if value in (_ABSENT, None) else value for value in (was, now))
        if all(isinstance(block, dict) for block in inner):
            lines = list(_differences(configs, inner, (*path, key)))
            if inner == (was, now) or not lines:
                yield from lines
                continue
        name = '.'.join((*path, key))[:200]
        yield f'{name} was {shortened(was, 200)}, now {shortened(now, 200)}'


def _left_out(config: Json, path: Sequence[str]) -> dict[str, Json]:
    """Gives the defaults of a block of any version, where they are known without the data."""
    unknown = (COMPUTED, dataclasses.MISSING)
    try:
        if is_sweep(config) and path[:1] == ('source',):
            return _left_out(config['source'], path[1:])
        if path == ('model',):  # What is 0 becomes the vocabulary's size, or the data's labels.
            known = dataclasses.asdict(models.config(**config['model']))
            known |= dict.fromkeys(known.keys() & {'vocab_size', 'num_labels'}, 0)
        else:
            fields = block_fields(config, *path) if path or is_sweep(config) else fields_of(Run)
            known = {key: f.default for key, f in fields.items() if f.default not in unknown}
        if path[:1] == ('stages',) and path[2:] == ('batches',):
            known |= config['batches']  # From which it differs.
        if path[:1] == ('evals',) and path[2:] == ('decoding',):
            known['max_length'] = config['evals'][path[1]]['lengths']['targets']
    except (UserError, KeyError, AttributeError, TypeError):  # It is not a config of ours.
        return {}
    return {key: _as_json(value) for key, value in known.items()}


def _as_json(value: Setting) -> Json:
    return [_as_json(part) for part in value] if isinstance(value, list | tuple) else value
