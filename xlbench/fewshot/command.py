"""The command that begins a sweep or adds to it: its flags, and the config.json of its workdir.

A later command may ask for more, see `GROWING`; nothing else may change. config.json has the config
that the sweep started with, and under 'asked' what each command asked for. Nothing here needs jax.
"""

import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.config import flags as config_flags
from xlbench.system import files
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.files import Json

COMMAND = CommandLine(
    'fewshot',
    flags=(
        config_flags.RUN_FLAGS,
        flag('--report', 'write tables and figures at the end', metavar='FOLDER'),
    ),
    commands={'report': 'xlbench.fewshot.report', 'attention': 'xlbench.fewshot.attention'},
)

# The keys of config.adapt of which a later command may name others.
GROWING = (
    'languages', 'shots', 'buckets', 'starts', 'methods', 'learning_rates', 'head_learning_rates',
    'lora_learning_rates', 'seeds',
)  # fmt: skip

_PLACES = ('root', 'vocabulary')  # Of config.source.data.


def read(argv: Sequence[str]) -> config_lib.Command:
    """Reads a command line of xlbench.fewshot, and checks every name in it and its config."""
    command = config_lib.parse_command(argv, line=COMMAND)
    if command.args.report == '':
        raise UserError('--report= needs a folder to write tables and figures into')
    check(command.config, command.workdir)
    return command


def check(config: ConfigDict, workdir: str) -> None:
    """Raises UserError for a name in a config that nothing has, or for another sweep's workdir."""
    config_lib.check_sweep_names(config)
    if check_workdir(workdir, config):
        return
    if config.source_workdir:
        config_lib.check_checkpoint(config.source_workdir, 'config.source_workdir')
    else:
        config_lib.check_places(config.source)


def check_workdir(workdir: str, config: ConfigDict) -> bool:
    """Checks that a config continues the workdir's sweep; returns whether one had begun.

    Raises:
      UserError: it is another sweep's (the difference is in the message), or somebody's.
    """
    return config_lib.check_workdir(workdir, _as_begun(workdir, config))


def claim_workdir(workdir: str, config: ConfigDict, about: Mapping[str, Json]) -> None:
    """Makes the workdir this sweep's own, or notes in its config.json what is asked for now.

    `about` is what config.json says besides, see `sweep.facts`.

    Raises:
      UserError: it is another sweep's, or somebody's, or was begun with other data.
    """
    now = config_lib.to_dict(config)
    asked = _growing(now['adapt'])
    begun = check_workdir(workdir, config)
    before = config_lib.read_about(workdir) if begun else {}
    if before.get('source_model', about['source_model']) != about['source_model']:
        raise UserError(
            f'config.source_workdir={config.source_workdir} has another model than when {workdir} '
            'was started; name the original one, or choose another --workdir'
        )
    if now['adapt'].get('dev') == 'other_shots':
        _check_other_shots(workdir, before.get('contents') or {}, about['contents'])
    # This also compares the contents of the data with those that the sweep was begun with.
    config_lib.claim_workdir(workdir, _as_begun(workdir, config), dict(about, asked=[asked]))
    if not begun:
        return
    known = before.get('asked')
    if not isinstance(known, list):  # Earlier versions do not have it.
        known = [_growing(before['config']['adapt'])]
    source = before['config']['source']
    # Where data and source model lie now.
    data = source['data'] | {key: now['source']['data'][key] for key in _PLACES}
    places = {'source': source | {'data': data}, 'source_workdir': now['source_workdir']}
    new = {
        'config': before['config'] | places,
        'cwd': about.get('cwd'),
        'asked': known if asked in known else [*known, asked],
        'source_model': about['source_model'],
    }
    for key in ('manifests', 'contents', 'examples'):
        there = before.get(key)  # What is said of data that was there before stays as it was.
        new[key] = {**about[key], **(there if isinstance(there, dict) else {})}
    if new != {key: before.get(key) for key in new}:
        files.write(pathlib.Path(workdir) / 'config.json', files.as_json(before | new))


def _growing(adapt: Mapping[str, Json]) -> dict[str, Json]:
    """The part of a block config.adapt that another command may give anew."""
    return {key: adapt[key] for key in GROWING if key in adapt}


def _check_other_shots(workdir: str, before: Mapping[str, Json], now: Mapping[str, Json]) -> None:
    """Raises UserError if dev sets would be of other buckets than those of the sweep so far."""
    for task in sorted({name.partition('/')[0] for name in before}):
        place = f'{task}/shots_'
        was, is_now = (
            sorted((n.removeprefix(place) for n in names if n.startswith(place)), key=int)
            for names in (before, now)
        )
        if was and is_now and was != is_now:
            raise UserError(
                f'{task} had buckets of {", ".join(was)} shots when {workdir} was begun, and now '
                f'{", ".join(is_now)}; its dev sets are made of them: put those back, or choose '
                'another --workdir'
            )


def _as_begun(workdir: str, config: ConfigDict) -> ConfigDict:
    """Returns the config with what may change as the sweep in the workdir was begun with it."""
    if not (pathlib.Path(workdir) / 'config.json').is_file():
        return config
    now = config_lib.to_dict(config)
    try:
        before = config_lib.read_about(workdir)
        begun = before['config']
        grown, source = _growing(dict(begun['adapt'])), begun['source_workdir']
        now['source']['data'] |= {key: begun['source']['data'][key] for key in _PLACES}
    except (ValueError, KeyError, TypeError):
        return config  # Whoever compares it says what is wrong.
    fixed = {key: value for key, value in now['adapt'].items() if key not in GROWING}
    now['adapt'] = fixed | grown
    # Whether data and a finished source model are the same is compared by their contents.
    if source and now['source_workdir'] and before.get('source_model'):
        now['source_workdir'] = source
    return ConfigDict(now)
