"""Experiments of few-shot sweeps."""

import dataclasses
import hashlib
import json
import statistics
from collections.abc import Sequence

from xlbench.fewshot.analysis import systems as systems_lib, tables as tables_lib
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.fewshot.analysis.systems import System
from xlbench.fewshot.results import ZERO_SHOT, Group, Row
from xlbench.reporting import costs, notes
from xlbench.reporting.results import without
from xlbench.reporting.tables import Cell, Table
from xlbench.system.files import Json
from xlbench.zoo import experiments
from xlbench.zoo.experiments import Entry, Part

# Where a sweep's data and its source model lie is no part of what the sweep is.
_LEFT_OUT = ('seed', 'seeds', 'root', 'vocabulary', 'source_workdir')


def key(sweep: Sweep) -> str:
    """The same of sweeps that differ in the seed only."""
    text = json.dumps(without(sweep.config, _LEFT_OUT), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def entry(sweeps: Sequence[Sweep]) -> Entry:
    """One experiment of sweeps, whose tables have means over their seeds."""
    workdirs = [sweep.workdir for sweep in sweeps]
    name, commands = experiments.origin(workdirs)
    first = sweeps[0]
    adapted = [row for sweep in sweeps for row in sweep.rows if row.shots]
    facts: dict[str, Json] = {
        'seeds': ', '.join(map(str, sorted({row.seed for row in adapted if row.seed is not None}))),
        'seeds of source training': experiments.common(
            sweep.source_config.get('seed') for sweep in sweeps
        ),
        'adaptations': sum(row.status == 'done' for row in adapted),
        **costs.facts(workdirs),
        'dtype': experiments.common(sweep.about.dtype for sweep in sweeps),
        'source model': ', '.join(dict.fromkeys(s.source_workdir.resolve().name for s in sweeps)),
        'starts from': experiments.common(sweep.source_config.get('init_from') for sweep in sweeps),
        'data': experiments.common(sweep.about.data for sweep in sweeps),
        'data hashes': notes.short_hashes(sweep.about.contents for sweep in sweeps),
        'config hash': key(first)[:12],
        'code': experiments.common(sweep.about.git for sweep in sweeps),
        'versions': experiments.common(sweep.about.versions for sweep in sweeps),
    }
    by_task: dict[str, list[System]] = {}
    for sweep in sweeps:
        for system in systems_lib.systems([sweep]):
            by_task.setdefault(system.task, []).append(system)
    parts = tuple(_part_of_sweeps(same) for same in by_task.values())
    workdir = first.workdir.resolve().name
    return Entry(name, workdir, commands, experiments.present(facts), parts)


def _part_of_sweeps(same: Sequence[System]) -> Part:
    """The tables of one task, and the mean over languages with most shots."""
    above = (same[0].about_data,)
    made = tuple(experiments.without_notes(table, above) for table in _tables(same))
    return Part(same[0].title, _headline(same), above, made)


def _headline(same: Sequence[System]) -> str:
    """The mean score over languages without adaptation, and with the most shots of one method.

    It is the method that adapts the most languages; of several, the full model comes first.
    """
    groups = {group for system in same for group in system.groups if group.start == 'source'}
    methods = {group.method for group in groups if group.shots}
    ordered = sorted(methods, key=lambda name: (name != 'full', name))
    if not ordered:
        return ''
    by_method = {method: _languages(same, method) for method in ordered}
    method = max(ordered, key=lambda name: len(by_method[name]))
    shots, languages = _most_shots(same, method), by_method[method]
    if not languages:
        return ''
    zero = _mean_over(same, languages, Group('', 0, ZERO_SHOT))
    high = _mean_over(same, languages, Group('', shots, method))
    over = f'mean over {len(languages)} languages' if len(languages) > 1 else languages[0]
    how = tables_lib.METHODS.get(method, method)
    return f'{same[0].metric}, {over}, K=0: {zero}, K={shots} ({how}): {high}'


def _most_shots(same: Sequence[System], method: str) -> int:
    return max(k for system in same for k in system.shots(method=method, start='source'))


def _languages(same: Sequence[System], method: str) -> list[str]:
    """The languages that every sweep scores without adaptation and with the most shots."""
    needed = Group('', 0, ZERO_SHOT), Group('', _most_shots(same, method), method)
    return [
        lang
        for lang in same[0].languages
        if all(_rows(system, lang, group) for system in same for group in needed)
    ]


def _rows(system: System, lang: str, group: Group) -> tuple[Row, ...]:
    stats = system.groups.get(group._replace(language=lang))
    return stats.rows if stats else ()


def _mean_over(same: Sequence[System], languages: Sequence[str], group: Group) -> Cell:
    """The mean score of a group in these languages; over several sweeps with its deviation."""
    groups = [group._replace(language=lang) for lang in languages]
    means = [statistics.fmean(system.groups[g].mean for g in groups) for system in same]
    return _mean_cell([Cell(mean) for mean in means])


def _tables(same: Sequence[System]) -> list[Table]:
    """The tables of one task that need nothing but results, as means over sweeps."""
    makers = (tables_lib.scores, tables_lib.growth, tables_lib.starts, tables_lib.methods)
    made = [[make(system) for system in same] for make in makers]
    return [mean(tables) for tables in made if not any(table.missing for table in tables)]


def mean(tables: Sequence[Table]) -> Table:
    """Joins tables of the same form into one: each number is the mean over them, ± its deviation.

    Args:
        tables: Of sweeps that differ in the seed; a single one stays as it is.

    Returns:
        The table; cells and rows that only some of them have are left out.
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
    values = [cell.value for cell in cells]
    if len(cells) == 1 or None in values:
        return cells[0] if len({str(cell) for cell in cells}) == 1 else Cell()
    return Cell.of(values, cells[0].decimals, sign=cells[0].sign, mark=cells[0].mark)
