"""Reads config.json, which says what a run is: its config, versions, data, labels, ..."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Annotated, Any

import msgspec
from ml_collections import ConfigDict

from xlbench.benchmarks import languages
from xlbench.system import files, untrusted
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json

# What those need who open a run to use its model.
RUN_KEYS = ('data', 'model', 'objective', 'lora', 'stages', 'evals')

# JSON whose inside msgspec does not check.
_Object = dict[str, Any]
_Size = Annotated[int, msgspec.Meta(ge=1, le=2**24)]


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
    """Gives the keys of earlier versions their names of today; anything but a config stays.

    Args:
      config: as a config.json has it; changed in place.
    """
    evals = config.get('evals') if isinstance(config, dict) else None
    for block in evals.values() if isinstance(evals, dict) else ():
        if isinstance(block, dict) and isinstance(block.get('bertscore'), str):
            model, layer = block.pop('bertscore'), block.pop('bertscore_layer', -1)
            if model:
                block['metrics'] = [f'bertscore={model}' + (f'@{layer}' if layer != -1 else '')]


def read_run(workdir: str, needed: Sequence[str] = ()) -> dict[str, Json]:
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
        raise UserError(f'{path} has no config, so {workdir} is not a workdir of xlbench.train')
    files.check_type(about, _About, str(path))
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

    every: Annotated[int, msgspec.Meta(ge=0)] = 0
    tasks: list[str] = []
    split: str = ''
    batch_size: _Size | msgspec.UnsetType = msgspec.UNSET
    lengths: _Lengths | msgspec.UnsetType = msgspec.UNSET
    num_examples: Annotated[int, msgspec.Meta(ge=0)] = 0
    decoding: _Object | None = None
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


class _Batches(msgspec.Struct):
    lengths: dict[str, _Size]


class _Config(msgspec.Struct):
    data: _Data | msgspec.UnsetType = msgspec.UNSET
    model: _Model | msgspec.UnsetType = msgspec.UNSET
    objective: _Objective | msgspec.UnsetType = msgspec.UNSET
    lora: _Lora | msgspec.UnsetType = msgspec.UNSET
    stages: dict[str, _Object] = {}
    evals: dict[str, RunEval] = {}
    batches: _Batches | msgspec.UnsetType = msgspec.UNSET


class RunTask(msgspec.Struct):
    """A task, as a run notes it."""

    trained: bool
    source_lang: str | None = None
    target_lang: str | None = None
    texts: int | None = None


class _Vocabulary(msgspec.Struct):
    sha256: str | None = None


class _About(msgspec.Struct):
    """The keys of config.json that are read to open a run."""

    config: _Config
    tasks: dict[str, RunTask] = {}
    labels: list[str] | None = None
    vocabulary: _Vocabulary | None = None


class Begun(msgspec.Struct):
    """The keys of a config.json, a sweep's too, that are compared with the config of now."""

    config: _Object
    given: dict[str, str] = {}  # Epochs in place of which the config has steps.
    scored: Any = None  # Of xlbench.score alone.


def read_config(workdir: str) -> ConfigDict:
    """The config that a run was started with; see `read_run`."""
    return ConfigDict(read_run(workdir)['config'])


def data_root(about: Mapping[str, Json], given: str = '') -> str:
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


def split_step(spec: str) -> tuple[pathlib.Path, str]:
    """Splits WORKDIR@STEP into (WORKDIR, STEP); anything else is (it, '')."""
    path = pathlib.Path(os.path.expanduser(spec))
    before, at, step = spec.rpartition('@')
    folder = pathlib.Path(os.path.expanduser(before))
    return (folder, step) if at and not path.is_dir() and folder.is_dir() else (path, '')


def refuse_sweep(workdir: str) -> None:
    """Raises UserError for a workdir of xlbench.fewshot where one of a single run is meant."""
    path = untrusted.file(workdir, 'config.json')
    config = files.read_json(path, _Object).get('config') if path else None
    if isinstance(config, dict) and 'adapt' in config and 'stages' not in config:
        source = config.get('source_workdir') or os.path.join(workdir, 'source')
        raise UserError(
            f'{workdir} is the workdir of a sweep of xlbench.fewshot, not of one run; its source '
            f'model is {source}, models that it kept are in {os.path.join(workdir, "adapted")}'
        )


VERSIONED = ('xlbench', 'jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'numpy')


def facts() -> dict[str, Json]:
    """Returns what this process knows of a result's origin: versions, commit, command, folder."""
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
