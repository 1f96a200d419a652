"""Folders of the scores of systems that are no runs: xlbench.score and chains write them.

They have the form of a workdir, so that `results.read_run` reads both. `config.json` names the
system and its seed, and what was scored so far.
"""

import json
import os
import pathlib
from collections.abc import Mapping, Sequence

from xlbench.reporting import results
from xlbench.system import files
from xlbench.system.errors import UserError
from xlbench.system.files import Json


def check(workdir: str | os.PathLike, system: str, seed: int) -> None:
    """Raises UserError for a folder that is not this system's; one that is not there may be."""
    workdir = pathlib.Path(workdir)
    path = workdir / 'config.json'
    if not path.is_file():
        if workdir.exists() and not (workdir.is_dir() and files.is_free(workdir)):
            raise UserError(
                f'{workdir} exists and holds no scores of xlbench.score or of a chain; name '
                ' another --workdir'
            )
        return
    about: dict[str, Json] = files.read_json(path, dict)
    if 'scored' not in about:
        raise UserError(
            f'{workdir} is the workdir of a run; name another --workdir, or add scores to the run '
            f'with python -m xlbench.score {workdir} --metrics=NAMES'
        )
    config = about.get('config')
    before = (config.get('system'), config.get('seed')) if isinstance(config, dict) else ()
    if before != (system, seed):
        raise UserError(
            f'{workdir} has the scores of system {before[0]!r} with seed {before[1]}, and this is '
            f'{system!r} with seed {seed}; name another --workdir'
        )


def claim(workdir: str | os.PathLike, system: str, seed: int) -> None:
    """Writes who a folder belongs to, unless that is there; nothing is scored yet."""
    path = pathlib.Path(workdir) / 'config.json'
    if not path.is_file():
        _write_config(path, system, seed, {'scored': {}})


def write(
    workdir: str | os.PathLike,
    task: str,
    split: str,
    result: Mapping[str, Json],
    lines: Sequence[Mapping[str, Json]],
    *,
    system: str,
    seed: int,
    origin: Mapping[str, Json],
) -> pathlib.Path:
    """Writes a result, and config.json: what was scored so far; gives the result's folder.

    The caller has locked the workdir. The result has the step and the facts of metrics.json, see
    `results.Result`; the origin is the file of the predictions, and its SHA-256.
    """
    path = pathlib.Path(workdir) / 'config.json'
    before: dict[str, Json] = files.read_json(path, dict) if path.is_file() else {}
    place = f'{task}/{split}'
    is_sample = 'sample' in (result['data'], before.get('data'))
    facts: dict[str, Json] = {
        'data': 'sample' if is_sample else result['data'],
        'scored': before.get('scored', {}) | {place: dict(origin)},
        'manifests': before.get('manifests', {}) | {place: result['manifest']},
        'examples': before.get('examples', {}) | {place: result['num_examples']},
    }
    _write_config(path, system, seed, facts)
    return results.write_result(workdir, str(result['step']), task, split, result, lines)


def _write_config(path: pathlib.Path, system: str, seed: int, facts: Mapping[str, Json]) -> None:
    from xlbench import config as config_lib  # It loads for longer than a slip may wait.

    about = {'config': {'system': system, 'seed': seed}, 'seed': seed, **facts}
    files.write(path, json.dumps(about | config_lib.facts(), indent=1, ensure_ascii=False) + '\n')
