"""The workdir of a run, which belongs to the config in its config.json."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from ml_collections import ConfigDict

from xlbench import models
from xlbench.config import epochs
from xlbench.config.checks import block_fields, is_sweep
from xlbench.config.record import Begun, read_about, upgrade
from xlbench.settings.blocks import TRACKING_KEYS, Run, to_dict
from xlbench.settings.ranges import COMPUTED, fields_of
from xlbench.system import files
from xlbench.system.errors import UserError, shortened
from xlbench.system.files import Json, Setting

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
        upgrade(before)
    except UserError as error:
        raise UserError(f'{error}; this is not a workdir to go on in, choose another') from None
    if begun.scored is not None:
        raise UserError(
            f"{workdir} holds a system's scores of xlbench.score and no run; choose another "
            '--workdir'
        )
    if begun.given:
        config = config.copy_and_resolve_references()
        epochs.restore(config, {'config': before, 'given': begun.given})
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
    """Returns whether a line of `_difference` names a setting that may differ."""
    key = line.partition(' ')[0]
    return any(key == allowed or key.startswith(f'{allowed}.') for allowed in ELASTIC)


def claim_workdir(workdir: str, config: ConfigDict, about: Mapping[str, Json]) -> None:
    """Makes the workdir this config's own: writes config.json, unless it did so before.

    The caller holds the workdir's lock, and so has checked its links.

    Args:
      workdir: of the run.
      config: of the run.
      about: what config.json says besides. 'contents', if it is there, is {data: its hash}, which
        must be what it was when the run was begun.

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
    text = json.dumps({'config': to_dict(config), **about}, indent=1, ensure_ascii=False)
    files.write(path, text + '\n')


def _difference(before: Json, now: Json) -> list[str]:
    """['optimizer.learning_rate was 0.1, now 0.2', ...]"""
    return list(_differences((before, now), (before, now), ()))


def _differences(
    configs: tuple[Json, Json], values: tuple[Json, Json], path: tuple[str, ...]
) -> Iterator[str]:
    """The lines of `_difference` for one place of both configs.

    Args:
      configs: before and now, whole.
      values: what they have there; `_ABSENT` for what one lacks.
      path: the keys that lead there.
    """
    if all(isinstance(value, dict) for value in values):
        before, now = values
        for key in [*before, *(key for key in now if key not in before)]:
            pair = tuple(_value(*side, path, key) for side in zip(configs, values, strict=True))
            yield from _differences(configs, pair, (*path, key))
    elif values[0] != values[1] and not _are_defaults(configs, values, path):
        was, now = (shortened(value, 200) for value in values)
        yield f'{".".join(path)[:200]} was {was}, now {now}'


def _value(config: Json, block: dict[str, Json], path: tuple[str, ...], key: str) -> Json:
    """Returns the value of a block's key, or its default."""
    return block[key] if key in block else _left_out(config, path).get(key, _ABSENT)


def _are_defaults(
    configs: tuple[Json, Json], values: tuple[Json, Json], path: tuple[str, ...]
) -> bool:
    """Returns whether one config lacks a block whose keys all have their defaults in the other."""
    blocks = tuple({} if value in (_ABSENT, None) else value for value in values)
    are_blocks = all(isinstance(block, dict) for block in blocks)
    return are_blocks and not any(_differences(configs, blocks, path))


def _left_out(config: Json, path: Sequence[str]) -> dict[str, Json]:
    """Gives the defaults of a block of any version, where they are known without the data.

    Example: of config.evals.test.decoding -> {'method': 'greedy', 'num_beams': 1, ...}
    """
    try:
        return {key: _as_json(value) for key, value in _defaults(config, path).items()}
    except (UserError, KeyError, AttributeError, TypeError):  # It is not a config of ours.
        return {}


def _defaults(config: dict[str, Json], path: Sequence[str]) -> dict[str, Setting]:
    if is_sweep(config) and path[:1] == ('source',):
        return _defaults(config['source'], path[1:])
    if path == ('model',):
        return _of_model(**config['model'])
    fields = block_fields(config, *path) if path or is_sweep(config) else fields_of(Run)
    unknown = (COMPUTED, dataclasses.MISSING)
    known = {key: field.default for key, field in fields.items() if field.default not in unknown}
    if path[:1] == ('stages',) and path[2:] == ('batches',):  # What differs from config.batches.
        known |= config['batches']
    if path[:1] == ('evals',) and path[2:] == ('decoding',):
        known['max_length'] = config['evals'][path[1]]['lengths']['targets']
    return known


def _of_model(family: str, size: str = '', **fields: Setting) -> dict[str, Setting]:
    """The fields of a model; what is 0 becomes the vocabulary's size, or the data's labels."""
    known = dataclasses.asdict(models.config(family, size, **fields))
    return known | dict.fromkeys(known.keys() & {'vocab_size', 'num_labels'}, 0)


def _as_json(value: Setting) -> Json:
    return [_as_json(part) for part in value] if isinstance(value, list | tuple) else value
