"""Turns workdirs into the experiments of a page: their commands, costs and scores.

Workdirs of one config that differ only in the seed are one experiment. Only means and standard
deviations over them are computed; everything else is copied from the workdirs.
"""

import dataclasses
import hashlib
import json
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from xlbench.fewshot.analysis import systems as sweep_systems, tables as sweep_tables
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.analysis.systems import System
from xlbench.reporting import command_lines, costs, layout, notes, sections as sections_lib, systems
from xlbench.reporting.results import Run, read_run, without
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import Cell, Table
from xlbench.system import files, untrusted
from xlbench.system.files import Json

# Where a sweep's data and its source model lie is no part of what the sweep is.
_LEFT_OUT = ('seed', 'seeds', 'root', 'vocabulary', 'source_workdir')


@dataclasses.dataclass(frozen=True)
class Part:
    """The tables of one benchmark and split.

    Attributes:
      title: what they are about.
      headline: the main score, an average where there is one; '' if there is none.
      notes: sentences that belong beside them.
      tables: with their own notes: the signatures of metrics.
    """

    title: str
    headline: str
    notes: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One experiment.

    Attributes:
      name: of the config, or else of the first workdir.
      workdir: last name of the first workdir.
      commands: that made it, for a shell.
      facts: seeds, hours, hardware, dtype, data and so on, by name.
      parts: its scores.
    """

    name: str
    workdir: str
    commands: tuple[str, ...]
    facts: Mapping[str, str]
    parts: tuple[Part, ...]


class _Recorded(msgspec.Struct):
    """The part of a config.json that says how the workdir was made."""

    argv: list[str] = []
    cwd: str = ''


def read(folders: Sequence[str]) -> list[Entry]:
    """Reads workdirs: the experiments, in the order in which their first ones are named.

    Raises:
      UserError: a folder is none.
    """
    runs: dict[str, list[Run]] = {}
    sweeps: dict[str, list[Sweep]] = {}
    order: dict[str, None] = {}
    for folder in dict.fromkeys(map(pathlib.Path, folders)):
        if untrusted.file(folder, 'results.jsonl'):
            sweep = Sweep.read(folder)
            sweeps.setdefault(key := _sweep_hash(sweep), []).append(sweep)
        else:
            run = read_run(folder)
            key = f'system {run.system}' if run.system else run.config_hash
            runs.setdefault(key, []).append(run)
        order[key] = None
    return [_of_runs(runs[key]) if key in runs else _of_sweeps(sweeps[key]) for key in order]


def _sweep_hash(sweep: Sweep) -> str:
    """The same of sweeps that differ in the seed only."""
    text = json.dumps(without(sweep.config, _LEFT_OUT), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _of_runs(runs: Sequence[Run]) -> Entry:
    """One experiment of runs, or of systems that were scored."""
    sections = sections_lib.sections(runs)
    picks = [pick for section in sections for pick in section.picks]
    scored: list[Json] = [
        {f'{task}/{pick.split}': result.manifest for task, result in pick.results.items()}
        for pick in picks
    ]
    first, prepared = runs[0], (run.info.get('manifests') for run in runs)
    start = systems.model_name(first) if first.config.get('init_from') else 'random weights'
    return _entry(
        [run.workdir for run in runs],
        [_typed(run.info, run.config) for run in runs],
        {'seeds': ', '.join(str(run.seed) for run in runs)},
        {
            'parameters': first.info.get('parameters'),
            'starts from': '' if first.system else start,
            'trained on': first.scenario.mixture if first.scenario else '',
            'step': ', '.join(dict.fromkeys(str(pick.step) for pick in picks)),
        },
        notes.short_hashes([*scored, *prepared]),
        first.config_hash,
        map(_part, sections),
        first.system,
    )


def _of_sweeps(sweeps: Sequence[Sweep]) -> Entry:
    """One experiment of sweeps, whose tables have means over their seeds."""
    adapted = [row for sweep in sweeps for row in sweep.rows if row.shots]
    configs = [sweep.source_config for sweep in sweeps]
    by_task: dict[str, list[System]] = {}
    for sweep in sweeps:
        for system in sweep_systems.systems([sweep]):
            by_task.setdefault(system.task, []).append(system)
    return _entry(
        [sweep.workdir for sweep in sweeps],
        [_typed(msgspec.structs.asdict(sweep.about), sweep.source_config) for sweep in sweeps],
        {
            'seeds': ', '.join(
                map(str, sorted({row.seed for row in adapted if row.seed is not None}))
            ),
            'seeds of source training': _common(config.get('seed') for config in configs),
            'adaptations': sum(row.status == 'done' for row in adapted),
        },
        {
            'source model': ', '.join(
                dict.fromkeys(sweep.source_workdir.resolve().name for sweep in sweeps)
            ),
            'starts from': _common(config.get('init_from') for config in configs),
        },
        notes.short_hashes(sweep.about.contents for sweep in sweeps),
        _sweep_hash(sweeps[0]),
        map(_part_of_sweeps, by_task.values()),
    )


def _entry(
    workdirs: Sequence[pathlib.Path],
    infos: Sequence[Mapping[str, Json]],
    seeds: Mapping[str, Json],
    start: Mapping[str, Json],
    hashes: Mapping[str, Json],
    config_hash: str,
    parts: Iterable[Part],
    system: str = '',
) -> Entry:
    """An experiment of workdirs: their own facts between those that all kinds have."""
    typed, configs = [], []
    for workdir in workdirs:
        about = files.read_json(workdir / 'config.json', _Recorded)
        for words in costs.commands(workdir) or [about.argv]:
            typed.append(command_lines.command(words, about.cwd))
            configs.append(command_lines.config_of(words, about.cwd))
    first = workdirs[0].resolve().name
    shared = {key: _common(info.get(key) for info in infos)
              for key in ('dtype', 'data', 'git', 'versions')}  # fmt: skip
    facts: dict[str, Json] = {
        **seeds,
        **costs.facts(workdirs),
        'dtype': shared['dtype'],
        **start,
        'data': shared['data'],
        'data hashes': hashes,
        'config hash': config_hash[:12],
        'code': shared['git'],
        'versions': shared['versions'],
    }
    known = {key: notes.plain_fact(fact) for key, fact in facts.items() if _is_known(fact)}
    name = system or next(filter(None, configs), first)
    return Entry(name, first, tuple(dict.fromkeys(filter(None, typed))), known, tuple(parts))


def _typed(info: Mapping[str, Json], config: Mapping[str, Json]) -> dict[str, Json]:
    """A workdir's facts, with the types of all its numbers in place of the activations' alone."""
    return {**info, 'dtype': notes.number_types(info.get('dtype'), config)}


def _is_known(fact: Json) -> bool:
    return fact not in (None, '', {})


def _common(values: Iterable[Json]) -> str:
    """Returns the value of all workdirs; where they differ, each value."""
    return '; '.join(dict.fromkeys(notes.plain_fact(fact) for fact in values if _is_known(fact)))


def _without_notes(table: Table, notes_above: Sequence[str]) -> Table:
    """A table without the notes that stand above it on the page."""
    own = tuple(note for note in table.notes if note not in notes_above)
    return dataclasses.replace(table, notes=own)


def _part(section: Section) -> Part:
    """The tables of a section, and the average of its main score, or one for each setting."""
    score, column = section.scores[0], section.columns[-1]
    named = ' '.join(filter(None, (score, column.group, column.label)))
    runs = [system for system in section.systems if system.kind == 'run']
    decimals = section.decimals_of(score)
    cells = {system.name: system.cell(score, column.tasks, decimals) for system in runs}
    said = [f'{n}: {c}' if len(runs) > 1 else str(c) for n, c in cells.items() if not c.is_missing]
    headline = f'{named} {", ".join(said)}' if said else ''
    tables = [_without_notes(table, section.notes) for table in layout.tables(section)]
    return Part(f'{section.title}, {section.split} split', headline, section.notes, tuple(tables))


def _part_of_sweeps(same: Sequence[System]) -> Part:
    """The tables of one task, and the mean over languages with most shots."""
    above = (same[0].about_data,)
    made = tuple(_without_notes(table, above) for table in _tables(same))
    return Part(same[0].title, _headline(same), above, made)


def _headline(same: Sequence[System]) -> str:
    """The mean score over languages without adaptation, and with the most shots of `System.way`."""
    way, shots = same[0].way, max((k for system in same for k in system.way_shots), default=0)
    languages = [
        lang
        for lang in same[0].languages
        if all(system.stats(lang, k) for system in same for k in (0, shots))
    ]
    if way.start != 'source' or not shots or not languages:
        return ''

    def mean_over(k: int) -> Cell:
        found = ([system.stats(lang, k) for lang in languages] for system in same)
        means = (statistics.fmean(one.mean for one in of_sweep if one) for of_sweep in found)
        return _mean_cell(list(map(Cell, means)))

    over = f'mean over {len(languages)} languages' if len(languages) > 1 else languages[0]
    how = sweep_tables.METHODS.get(way.method, way.method)
    scored = f'K=0: {mean_over(0)}, K={shots} ({how}): {mean_over(shots)}'
    return f'{same[0].metric}, {over}, {scored}'


def _tables(same: Sequence[System]) -> list[Table]:
    """The tables of one task that need nothing but results, as means over sweeps."""
    makers = (sweep_tables.scores, sweep_tables.starts, sweep_tables.methods)
    made = [[make(system) for system in same] for make in makers]
    return [_mean(tables) for tables in made if not any(table.missing for table in tables)]


def _mean(tables: Sequence[Table]) -> Table:
    """Joins tables of sweeps that differ in the seed: each number is the mean, ± its deviation.

    Cells and rows that only some of them have are left out.
    """
    first = tables[0]
    if len(tables) == 1:
        return first
    columns = [c for c in first.columns if all(c in table.columns for table in tables)]
    grids = [
        {row.name: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows}
        for table in tables
    ]
    rows = []
    for row in first.rows:
        cells = [[grid.get(row.name, {}).get(c, Cell()) for grid in grids] for c in columns]
        joined = row._replace(cells=tuple(map(_mean_cell, cells)))
        if not joined.is_missing:
            rows.append(joined)
    said = f'Mean ± standard deviation over {len(tables)} sweeps, of the mean over buckets of each.'
    # What one of them says of its own spread, or of itself alone, is not true of all.
    kept = (n for n in first.notes if '±' not in n and all(n in table.notes for table in tables))
    return dataclasses.replace(first, columns=tuple(columns), rows=tuple(rows), notes=(said, *kept))


def _mean_cell(cells: Sequence[Cell]) -> Cell:
    """The mean of numbers; of other texts what all of them say."""
    values = [cell.value for cell in cells if cell.value is not None]
    if len(cells) == 1 or len(values) < len(cells):
        return cells[0] if len({str(cell) for cell in cells}) == 1 else Cell()
    return Cell.of(values, cells[0].decimals, sign=cells[0].sign, mark=cells[0].mark)
