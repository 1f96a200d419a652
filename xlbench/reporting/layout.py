"""Lays out the tables of a section: the systems and scores of rows and of columns.

Beside the tables of scores there are pages: tables in the form of a benchmark's paper, with our
systems and the paper's in the paper's groups. A system is put into a group by what its workdir
says: a chain by the order of its stages, a run by the tasks of its second pre-training, and by
whether it was trained on pseudo-data (+DA).
"""

import contextlib
import dataclasses
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from xlbench import benchmarks
from xlbench.benchmarks.clidsum import (
    END_TO_END,
    NO_PRETRAINING,
    PRETRAINING,
    SUM_TRANS,
    TRANS_SUM,
    pretraining_label,
)
from xlbench.benchmarks.paper import PaperTable
from xlbench.reporting import notes
from xlbench.reporting.sections import Section, cells, ends_at_100
from xlbench.reporting.systems import System, paper
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.system import errors, files, untrusted

_OTHERS, _BASELINES = 'Other systems', 'Baselines'  # Groups that no paper has.
_MARK = '†'  # Of systems that have seen more than the supervised data.
_LEGEND = f'{_MARK}: also trained on the pairs of the semi-supervised setting.'

Value = TypeVar('Value')


def tables(section: Section) -> list[Table]:
    """Makes all tables of a section."""
    if section.tables:
        made = [by_language(section, scores) for scores in section.tables]
        # Runs that were evaluated by their loss alone have another score to show.
        made = [one for one in made if one.columns] or [by_language(section, section.scores)]
    else:
        made = [by_system(section, score) for score in section.scores]
    declared = section.benchmark.paper_tables if section.benchmark else ()
    pages = (_page(section, table) for table in declared if table.shows == 'page')
    return [*made, *filter(None, pages), *section.besides]


def by_language(section: Section, scores: Sequence[str]) -> Table:
    """Some scores: a row a language, and for each system a column a score."""
    shown = [score for score in scores if score in section.scores]
    made = {score: _cells(section, score) for score in shown}
    heads, columns = [], []
    for number, system in enumerate(section.systems):
        of_system = [made[score][number] for score in shown]
        if not all(cell.is_missing for cells in of_system for cell in cells):
            heads += [Column(system.name, score) for score in shown]
            columns += of_system
    counts = section.counts if columns else []
    rows = []
    for i, row in enumerate(section.columns):
        cells = tuple(column[i] for column in columns)
        if not all(cell.is_missing for cell in cells):
            kind = 'average' if len(row.tasks) > 1 else 'language'
            numbers = (Cell(text=of_systems[i]) for _, of_systems in counts)
            rows.append(Row(row.label, kind, (*cells, *numbers)))
    heads += [Column('examples', whose) for whose, _ in counts]
    return _table(section, shown, heads, rows, 'language')


def by_system(section: Section, score: str) -> Table:
    """One score: a row a system, and the numbers of examples.

    The main score gets the row of removed error.
    """
    rows = [
        Row(system.name, system.kind, scored)
        for system, scored in zip(section.systems, _cells(section, score), strict=True)
    ]
    rows = [row for row in rows if not row.is_missing]
    if score == section.scores[0] and ends_at_100(score):
        runs = [system for system in section.systems if system.kind == 'run']
        for system in runs:
            label = 'error reduction' + (f' by {system.name}' if len(runs) > 1 else '')
            if any(removed := error_removed(section, system)):
                rows.append(_texts(label, 'error', removed))
    for whose, counts in section.counts if rows else ():
        rows.append(_texts(f'examples {whose}'.removesuffix(' n'), 'count', counts))
    return _table(section, [score], section.columns, rows)


def averages(section: Section) -> list[Table]:
    """The other scores in short: one column per score and task, averaged over its languages."""
    last = {column.group: column for column in section.columns}
    places = [(score, group) for score in section.scores[1:] for group in last]
    if not places:
        return []
    made = (
        cells(section.systems, score, last[group].tasks, section.decimals_of(score))
        for score, group in places
    )
    columns = tuple(Column(score, group or 'all') for score, group in places)
    lines = zip(section.systems, zip(*made, strict=True), strict=True)
    rows = tuple(Row(system.name, '', of_system) for system, of_system in lines)
    return [Table('averages', columns, rows)]


def error_removed(section: Section, system: System) -> tuple[str, ...]:
    """The part of the best baseline's error that a system removes, in percent, for each column.

    For one task, averaged over its languages: 100 * (b - m) / b with error = 100 - main score, b
    the smallest error of a baseline and m the system's. Overall: the mean over tasks. Columns of a
    single language that have an average beside them stay empty, and so do those of which the
    baselines were scored on other numbers of examples.
    """
    averages = {column.group: column for column in section.columns}  # The last one of each group.
    removed = {g: _removed(section, system, c.tasks) for g, c in averages.items() if g}
    known = [value for value in removed.values() if value is not None]
    removed[''] = statistics.fmean(known) if known and len(known) == len(removed) else None
    cells = []
    for column in section.columns:
        value = removed[column.group] if column is averages[column.group] else None
        cells.append('' if value is None else f'{value:.0f}%')
    return tuple(cells)


def _removed(section: Section, system: System, tasks: Sequence[str]) -> float | None:
    score = section.scores[0]
    value_of_system = system.cell(score, tasks).value
    others = [
        s.cell(score, tasks).value
        for s in section.systems
        if s.kind == 'baseline' and s.count(tasks) == system.count(tasks)
    ]
    best = max((value for value in others if value is not None), default=None)
    if value_of_system is None or best is None or best >= 100:
        return None
    return 100 * (value_of_system - best) / (100 - best)


def _cells(section: Section, score: str) -> list[tuple[Cell, ...]]:
    """For each system its score in each column."""
    decimals = section.decimals_of(score)
    by_column = (cells(section.systems, score, c.tasks, decimals) for c in section.columns)
    return list(zip(*by_column, strict=True)) or [()] * len(section.systems)


def _texts(name: str, kind: str, texts: Sequence[str]) -> Row:
    return Row(name, kind, tuple(Cell(text=text) for text in texts))


def _table(
    section: Section,
    scores: Sequence[str],
    columns: Sequence[Column],
    rows: Sequence[Row],
    head: str = 'system',
) -> Table:
    title = ', '.join(scores)
    signatures = notes.signatures(section.picks, scores, bool(section.tables))
    # A table may be copied without the rest of the report.
    papers = {system.name for system in section.systems if system.kind == 'paper'}
    shown = {row.name for row in rows} | {column.group for column in columns}
    printed = section.paper_notes if papers & shown else ()
    return Table(
        title,
        tuple(columns),
        tuple(rows),
        head,
        notes=tuple(filter(None, (section.data_note, *printed, *signatures))),
        about=f'{title}, {section.split} split of {section.title}',
    )


def _page(section: Section, page: PaperTable) -> Table | None:
    """A page; None if no run of the section belongs on it, or none of what it compares."""
    # Rows stand below the paradigms, or are combinations of pre-training tasks.
    is_by_paradigm = bool(page.rows[0].section)
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in page.rows:
        label = row.key['model'].removeprefix('mBART').replace(' ', '')
        group = row.section.removesuffix(' Methods') or label or NO_PRETRAINING
        groups.setdefault(group, []).append((row.key['model'], row.key['scenario']))
    columns = _columns(section, page.values('task'))
    tasks = [column.tasks[0] for column in columns]
    members = [
        (group, system)
        for group, system in _ours(section, is_by_paradigm)
        if (is_by_paradigm or group in groups)
        and any(task in of_seed for of_seed in system.scores for task in tasks)
    ]
    runs = {group for group, system in members if system.kind == 'run'}
    if not runs or (not is_by_paradigm and runs == {NO_PRETRAINING}):
        return None
    theirs = []
    if section.data == 'official' and section.split == 'test':
        for group, model, scenario in ((g, *one) for g, models in groups.items() for one in models):
            name = (model if is_by_paradigm else group) + f' {_MARK}' * (scenario == 'semi')
            of_paper = paper(section.benchmark, model, scenario, tasks, f'{name} (paper)')
            theirs += [(group, of_paper)] if any(of_paper.scores) else []
    order = [*groups, _OTHERS, _BASELINES]
    members = sorted([*members, *theirs], key=lambda member: order.index(member[0]))
    systems = [system for _, system in members]
    scored = [scores for system in systems for run in system.scores for scores in run.values()]
    scores = [name for name in section.benchmark.scores if any(name in one for one in scored)]
    made = [
        cells(systems, score, column.tasks, section.decimals_of(score))
        for column in columns
        for score in scores
    ]
    rows: list[Row] = []
    for number, (group, system) in enumerate(members):
        if is_by_paradigm and group not in {row.kind for row in rows}:
            rows.append(Row(group, group, tuple(Cell(text='') for _ in made)))
        rows.append(Row(system.name, group, tuple(column[number] for column in made)))
    papers = section.paper_notes if theirs else ()
    legend = [_LEGEND] if any(_MARK in row.name for row in rows) else []
    signatures = notes.signatures(section.picks, scores, shared=True)
    return Table(
        page.short,
        tuple(Column(column.group, score) for column in columns for score in scores),
        tuple(rows),
        notes=tuple(filter(None, (section.data_note, *papers, *legend, *signatures))),
        about=f'{page.short}, {section.split} split of {section.title}',
    )


def _columns(section: Section, tasks: Sequence[str]) -> list[Column]:
    """A column for each pair of languages of a page's tasks that was scored."""
    columns = {}
    for column in section.columns:
        if len(column.tasks) == 1 and column.tasks[0] in section.benchmark.task_names():
            parts = benchmarks.parse_task(_paper_task(section, column.tasks[0]))
            if parts.task in tasks and parts.source != parts.target:
                name = '_'.join(parts)
                heading = f'{parts.task} {parts.source}-{parts.target}'
                columns[name] = Column(heading, '', (name,))
    return sorted(columns.values(), key=lambda column: tasks.index(column.group.split()[0]))


def _ours(section: Section, is_by_paradigm: bool) -> Iterator[tuple[str, System]]:
    """The section's runs and baselines in their groups, with scores of the paper's tasks."""
    for system in section.systems:
        if system.kind == 'paper':
            continue
        one = dataclasses.replace(
            system,
            scores=tuple(_renamed(section, of_seed) for of_seed in system.scores),
            examples=_renamed(section, system.examples),
        )
        if system.kind == 'baseline':
            if is_by_paradigm:
                yield _BASELINES, one
            continue
        label, group = pretraining_label(_pretraining(system)), _paradigm(system)
        scenario = system.picks[0].run.scenario if system.picks else None
        is_augmented = scenario is not None and scenario.name == 'semi'  # By pseudo-data.
        more = [*([label] if label != NO_PRETRAINING else []), *['+DA'] * is_augmented]
        if more:
            one = dataclasses.replace(one, name=f'{one.name} ({", ".join(more)}) {_MARK}')
        if is_by_paradigm:
            yield group, one
        elif not is_augmented and group == END_TO_END:
            yield label, one


def _paradigm(system: System) -> str:
    """The paradigm of a system for summaries in another language, or 'Other systems'."""
    stages = next(filter(None, (pick.chain for pick in system.picks)), [])
    if not stages:
        return _OTHERS if any(pick.run.system for pick in system.picks) else END_TO_END
    translates = [stage.startswith('translate:') for stage in stages]
    if not any(translates):
        return END_TO_END
    return TRANS_SUM if translates[0] else SUM_TRANS


def _pretraining(system: System) -> list[str]:
    """The tasks of a second pre-training, by their names in the paper.

    They are those of the stages before the last one, and of the workdir that a run began from.
    """
    if not system.picks:
        return []
    run = system.picks[0].run
    mixtures = run.stage_mixtures[1:]
    start = pathlib.Path(str(run.config.get('init_from') or '').partition('@')[0])
    if start.name and untrusted.file(start, 'config.json'):
        with contextlib.suppress(errors.UserError):  # A folder in the form of Hugging Face.
            before = dataclasses.replace(run, info=files.read_json(start / 'config.json', dict))
            mixtures = [*mixtures, *before.stage_mixtures]
    tasks: list[str] = []
    for mixture in mixtures:
        with contextlib.suppress(errors.UserError):  # It is the user's own.
            tasks += benchmarks.parse_mixture(mixture).train
    ends = [end for end in PRETRAINING if any(task.endswith(end) for task in tasks)]
    return list(dict.fromkeys(PRETRAINING[end] for end in ends))


def _paper_task(section: Section, name: str) -> str:
    """The SeqIO task that the paper has scores of, of one with the same texts."""
    if name not in section.benchmark.task_names():  # A user's own that begins with its name.
        return name
    parts = benchmarks.parse_task(name)
    return '_'.join(parts._replace(task=section.benchmark.paper_tasks.get(parts.task, parts.task)))


def _renamed(section: Section, by_task: Mapping[str, Value]) -> dict[str, Value]:
    """Values under the tasks that the paper has scores of."""
    renamed: dict[str, Value] = {}
    for task, value in by_task.items():
        renamed.setdefault(_paper_task(section, task), value)
    return renamed
