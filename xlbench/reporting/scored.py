"""Writes results, and the folders of systems that are no runs: of xlbench.score, and of chains.

Such a folder has the form of a workdir, so that `results.read_run` reads both. Its config.json
names the system and its seed, and what was scored so far.
"""

import json
import os
import pathlib
import warnings
from collections.abc import Mapping, Sequence

from xlbench.reporting import results
from xlbench.settings import workdirs
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
    known = config if isinstance(config, dict) else {}
    before = known.get('system'), known.get('seed')
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
    return write_result(workdir, str(result['step']), task, split, result, lines)


def _write_config(path: pathlib.Path, system: str, seed: int, facts: Mapping[str, Json]) -> None:
    about = {'config': {'system': system, 'seed': seed}, 'seed': seed, **facts}
    files.write(path, files.as_json(about | workdirs.facts()))


def write_result(
    workdir: str | os.PathLike,
    step: str,  # A number, or 'baselines/<name>'.
    task: str,
    split: str,
    facts: Mapping[str, Json],  # 'scores', 'signatures', 'num_examples' ...; see results.Result.
    predictions: Sequence[Mapping[str, Json]],  # Lines of predictions.jsonl; none: no such file.
) -> pathlib.Path:
    """Writes <workdir>/eval/<step>/<split>/<task>/metrics.json, each file whole or not at all.

    Scores that `xlbench.reporting.adding` has added to the result of an earlier call stay, if the
    texts are the same; otherwise a warning names them. Returns the folder of the files.
    """
    folder = pathlib.Path(workdir) / 'eval' / step / split / task
    folder.mkdir(parents=True, exist_ok=True)
    facts, predictions = _with_added(folder, facts, predictions)
    write_files(folder, {'task': task, 'split': split, **facts}, predictions)
    return folder


def _with_added(
    folder: pathlib.Path, facts: Mapping[str, Json], lines: Sequence[Mapping[str, Json]]
) -> tuple[Mapping[str, Json], Sequence[Mapping[str, Json]]]:
    """A result and its predictions, with the scores that only the files of its folder have."""
    try:
        before: dict[str, Json] = files.read_json(folder / 'metrics.json', dict)
        added = before['signatures'].keys() - facts.get('signatures', {}).keys()
        old = results.read_lines(folder) if added else []
    except (OSError, KeyError, AttributeError, UserError):  # Nothing, or nothing whole.
        return facts, lines
    if not added:
        return facts, lines
    if list(map(_compared, old)) != list(map(_compared, lines)):
        warnings.warn(
            f'{folder} has other predictions than before, so that the scores of '
            f'{", ".join(sorted(added))} are gone; add them again with xlbench.score',
            stacklevel=3,
        )
        return facts, lines
    merged = [
        {**line, 'scores': {**was.get('scores', {}), **line.get('scores', {})}}
        for line, was in zip(lines, old, strict=True)
    ]
    return {**facts, **joined(before, facts)}, merged


def _compared(line: Mapping[str, Json]) -> list[Json]:
    """The part of a line that the scores of its example are made from."""
    return [line.get('id'), line.get('references', line.get('target')), results.texts(line)]


def joined(before: Mapping[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """Entries of metrics.json of two scorings of the same texts; those of `more` hold."""
    both: dict[str, Json] = {
        name: {**before.get(name, {}), **more.get(name, {})}
        for name in ('scores', 'signatures', 'hashes')
        if name in before or name in more
    }
    specs = before.get('metrics', [])
    both['metrics'] = [*specs, *(spec for spec in more.get('metrics', []) if spec not in specs)]
    return both


def write_files(
    folder: pathlib.Path, facts: Mapping[str, Json], predictions: Sequence[Mapping[str, Json]]
) -> None:
    """Writes the two files of a result, metrics.json last; see `write_result`."""
    if predictions:
        rows = (json.dumps(row, ensure_ascii=False) for row in predictions)
        files.write(folder / 'predictions.jsonl', '\n'.join(rows) + '\n')
    files.write(folder / 'metrics.json', files.as_json(facts))
