"""The workdir of a run: one config's alone, whose config.json says so."""

import json
import os
import pathlib
from collections.abc import Mapping

from ml_collections import ConfigDict

from xlbench import files, foreign
from xlbench.config.blocks import to_dict
from xlbench.config.record import Begun, read_about
from xlbench.errors import UserError, shortened
from xlbench.files import Json

# What may differ when a run goes on: the devices it then has, and where its data lies; the data
# itself has to be the same (see claim_workdir), so that its numbers stay what they are.
ELASTIC = ('mesh', 'data.root', 'data.vocabulary')


def check_workdir(workdir: str, config: ConfigDict) -> bool:
    """Returns whether a run of this config, its mesh aside, was begun in the workdir.

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
        begun = files.read_json(path, Begun)
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
    """Lists the allowed differences from when the run was begun; '' if there is none.

    Example: 'mesh.data was 8, now 4; mesh.fsdp was 1, now 2'
    """
    lines = _difference(read_about(workdir)['config'], to_dict(config))
    return '; '.join(filter(_is_elastic, lines))


def _is_elastic(line: str) -> bool:
    """Whether a line of `_difference` is about something that may differ."""
    key = line.partition(' ')[0]
    return any(key == allowed or key.startswith(f'{allowed}.') for allowed in ELASTIC)


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


def claim_workdir(workdir: str, config: ConfigDict, about: Mapping[str, Json]) -> None:
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


def _difference(before: Json, now: Json, name: str = '') -> list[str]:
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
