"""Tables in the form of a benchmark's paper: our systems and the paper's, in the paper's groups.

A system is put into a group by what its workdir says: a chain by the order of its stages, a run by
the tasks of its second pre-training, and by whether it was trained on pseudo-data (+DA).
"""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

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
from xlbench.reporting.sections import Section, cells
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.system import errors, files, untrusted

_OTHERS, _BASELINES = 'Other systems', 'Baselines'  # Groups that no paper has.
_MARK = '†'  # Of systems that have seen more than the supervised data.
_LEGEND = f'{_MARK}: also trained on the pairs of the semi-supervised setting.'

Value = TypeVar('Value')


class _Member(NamedTuple):
    """A system and the group that it stands in."""

    group: str
    system: System


class _Page(NamedTuple):
    """A table of a paper; `by` is what groups its rows: 'paradigm', or 'pretraining' tasks."""

    title: str
    by: str
    groups: Mapping[str, Sequence[tuple[str, str]]]
    tasks: tuple[str, ...]

    @classmethod
    def of(cls, table: PaperTable) -> '_Page':
        """A table whose rows stand below the paradigms, or are combinations of tasks."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for row in table.rows:
            label = row.key['model'].removeprefix('mBART').replace(' ', '')
            group = row.section.removesuffix(' Methods') or label or NO_PRETRAINING
            groups.setdefault(group, []).append((row.key['model'], row.key['scenario']))
        by = 'paradigm' if table.rows[0].section else 'pretraining'
        return cls(table.short, by, groups, table.values('task'))


def tables(section: Section) -> list[Table]:
    """The pages of a section's benchmark that its runs have scores for."""
    every = section.benchmark.paper_tables if section.benchmark else ()
    pages = [_Page.of(table) for table in every if table.shows == 'page']
    return [table for page in pages if (table := _table(section, page)) is not None]


def _table(section: Section, page: _Page) -> Table | None:
    """A page; None if no run of the section belongs on it, or none of what it compares."""
    columns = _columns(section, page)
    ours = [m for m in _ours(section, page) if _has_any(m.system, columns)]
    runs = {member.group for member in ours if member.system.kind == 'run'}
    if not runs or (page.by == 'pretraining' and runs == {NO_PRETRAINING}):
        return None
    theirs = list(_theirs(section, page, columns))
    order = [*page.groups, _OTHERS, _BASELINES]
    members = sorted([*ours, *theirs], key=lambda member: order.index(member.group))
    systems = [member.system for member in members]
    scored = [scores for system in systems for run in system.scores for scores in run.values()]
    scores = [name for name in section.benchmark.scores if any(name in one for one in scored)]
    made = [
        cells(systems, score, column.tasks, section.decimals_of(score))
        for column in columns
        for score in scores
    ]
    rows: list[Row] = []
    for number, (group, system) in enumerate(members):
        if page.by == 'paradigm' and group not in {row.kind for row in rows}:
            rows.append(Row(group, group, tuple(Cell(text='') for _ in made)))
        rows.append(Row(system.name, group, tuple(column[number] for column in made)))
    papers = section.paper_notes if theirs else ()
    legend = [_LEGEND] if any(_MARK in row.name for row in rows) else []
    signatures = notes.signatures(section.picks, scores, shared=True)
    return Table(
        page.title,
        tuple(Column(column.group, score) for column in columns for score in scores),
        tuple(rows),
        notes=tuple(filter(None, (section.data_note, *papers, *legend, *signatures))),
        about=f'{page.title}, {section.split} split of {section.title}',
    )


def _columns(section: Section, page: _Page) -> list[Column]:
    """A column for each pair of languages of the page's tasks that was scored."""
    columns = {}
    for column in section.columns:
        if len(column.tasks) == 1 and column.tasks[0] in section.benchmark.task_names():
            parts = benchmarks.parse_task(_paper_task(section, column.tasks[0]))
            if parts.task in page.tasks and parts.source != parts.target:
                name = '_'.join(parts)
                heading = f'{parts.task} {parts.source}-{parts.target}'
                columns[name] = Column(heading, '', (name,))
    order = {task: place for place, task in enumerate(page.tasks)}
    return sorted(columns.values(), key=lambda column: order[column.group.split()[0]])


def _ours(section: Section, page: _Page) -> Iterator[_Member]:
    """The section's runs and baselines, with their scores under the tasks that the paper has."""
    for system in section.systems:
        if system.kind == 'paper':
            continue
        one = dataclasses.replace(
            system,
            scores=tuple(_renamed(section, of_seed) for of_seed in system.scores),
            examples=_renamed(section, system.examples),
        )
        if system.kind == 'baseline':
            if page.by == 'paradigm':
                yield _Member(_BASELINES, one)
            continue
        label, augmented = pretraining_label(pretraining(system)), _is_augmented(system)
        more = [*([label] if label != NO_PRETRAINING else []), *(['+DA'] if augmented else [])]
        if more:
            one = dataclasses.replace(one, name=f'{one.name} ({", ".join(more)}) {_MARK}')
        if page.by == 'paradigm':
            yield _Member(paradigm(system), one)
        elif label in page.groups and not augmented and paradigm(system) == END_TO_END:
            yield _Member(label, one)


def _theirs(section: Section, page: _Page, columns: Sequence[Column]) -> Iterator[_Member]:
    """The paper's systems, beside official data alone."""
    if section.data != 'official' or section.split != 'test':
        return
    for group, models in page.groups.items():
        for model, scenario in models:
            scores = {}
            for column in columns:
                parts = benchmarks.parse_task(column.tasks[0])
                if printed := section.benchmark.paper_scores(model, scenario, *parts[1:]):
                    scores[column.tasks[0]] = printed
            if scores:
                name = group if page.by == 'pretraining' else model
                mark = f' {_MARK}' if scenario == 'semi' else ''
                yield _Member(group, System(f'{name}{mark} (paper)', 'paper', (scores,)))


def paradigm(system: System) -> str:
    """How a system gets from a dialogue to a summary in another language, or 'Other systems'."""
    decodings = [r.decoding or {} for pick in system.picks for r in pick.results.values()]
    chains = [d.get('stages') for d in decodings if d.get('method') == 'chain']
    if chains and isinstance(chains[0], dict) and chains[0]:
        # '1 RUNS/bart', '2 translate:RUNS/wmt'
        names = [name.partition(' ')[2] for name in sorted(chains[0])]
        translates = [name.startswith('translate:') for name in names]
        if any(translates):
            return TRANS_SUM if translates[0] else SUM_TRANS
        return END_TO_END
    return _OTHERS if any(pick.run.system for pick in system.picks) else END_TO_END


def pretraining(system: System) -> list[str]:
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
    tasks = tuple(task for mixture in mixtures for task in _tasks(mixture))
    ends = [end for end in PRETRAINING if any(task.endswith(end) for task in tasks)]
    return list(dict.fromkeys(PRETRAINING[end] for end in ends))


def _tasks(mixture: str) -> tuple[str, ...]:
    """The tasks of a mixture of ours."""
    with contextlib.suppress(errors.UserError):
        return benchmarks.parse_mixture(mixture).train
    return ()


def _is_augmented(system: System) -> bool:
    """Returns whether it was trained on pseudo-data."""
    scenario = system.picks[0].run.scenario if system.picks else None
    return scenario is not None and scenario.name == 'semi'


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


def _has_any(system: System, columns: Sequence[Column]) -> bool:
    return any(column.tasks[0] in of_seed for of_seed in system.scores for column in columns)
