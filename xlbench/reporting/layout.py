"""Lays out the tables of a section: the systems and scores of rows and of columns."""

import functools
import statistics
import textwrap
from collections.abc import Sequence

from xlbench.reporting import notes, render, sections as sections_lib
from xlbench.reporting.results import read_run
from xlbench.reporting.sections import Section, cells, ends_at_100
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell, Column, Row, Table


def tables(section: Section) -> list[Table]:
    """Makes all tables of a section."""
    if section.tables:
        made = [by_language(section, scores) for scores in section.tables]
        # Runs that were evaluated by their loss alone have another score to show.
        made = [one for one in made if one.columns] or [by_language(section, section.scores)]
    else:
        made = [by_system(section, score) for score in section.scores]
    return [*made, *section.besides]


def by_language(section: Section, scores: Sequence[str]) -> Table:
    """Some scores: a row a language, and for each system a column a score."""
    shown = [score for score in scores if score in section.scores]
    made = {score: _grid(section, [(score, c) for c in section.columns]) for score in shown}
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
    made = _grid(section, [(score, column) for column in section.columns])
    rows = [Row(s.name, s.kind, of) for s, of in zip(section.systems, made, strict=True)]
    rows = [row for row in rows if not row.is_missing]
    if score == section.scores[0] and ends_at_100(score):
        for system in section.runs:
            label = 'error reduction' + (f' by {system.name}' if len(section.runs) > 1 else '')
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
    columns = tuple(Column(score, group or 'all') for score, group in places)
    made = _grid(section, [(score, last[group]) for score, group in places])
    rows = (Row(s.name, '', of) for s, of in zip(section.systems, made, strict=True))
    return [Table('averages', columns, tuple(rows))]


def error_removed(section: Section, system: System) -> tuple[str, ...]:
    """The part of the best baseline's error that a system removes, in percent, for each column.

    For one task, averaged over its languages: 100 * (b - m) / b with error = 100 - main score, b
    the smallest error of a baseline and m the system's. Overall: the mean over tasks. Columns of a
    single language that have an average beside them stay empty, and so do those of which the
    baselines were scored on other numbers of examples.
    """
    last = {column.group: column for column in section.columns}  # The average of each group.
    score, removed = section.scores[0], dict[str, float | None]()
    for group, tasks in ((group, column.tasks) for group, column in last.items() if group):
        ours, count = system.cell(score, tasks).value, system.count(tasks)
        baselines = [s for s in section.systems if s.kind == 'baseline' and s.count(tasks) == count]
        values = (s.cell(score, tasks).value for s in baselines)
        best = max((value for value in values if value is not None), default=100.0)
        removed[group] = None if ours is None or best >= 100 else 100 * (ours - best) / (100 - best)
    known = [value for value in removed.values() if value is not None]
    removed[''] = statistics.fmean(known) if known and len(known) == len(removed) else None
    values = (removed[c.group] if c is last[c.group] else None for c in section.columns)
    return tuple('' if value is None else f'{value:.0f}%' for value in values)


def _grid(section: Section, places: Sequence[tuple[str, Column]]) -> list[tuple[Cell, ...]]:
    """For each system its cells: of each place a score of the tasks of a column."""
    by_place = (
        cells(section.systems, score, column.tasks, section.decimals_of(score))
        for score, column in places
    )
    return list(zip(*by_place, strict=True)) or [()] * len(section.systems)


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


def screen(
    workdir: str, step: str | int = 'last', split: str | None = None, max_width: int = 120
) -> str:
    """The benchmark's own table of one run as plain text for a terminal, see `sections.sections`.

    Tables that would have more characters in a line are split between tasks.
    """
    blocks = []
    for section in sections_lib.sections([read_run(workdir)], step, split):
        pick = section.picks[0]
        stage = f' ({pick.run.stage_of(pick.step)})' if len(pick.run.stages) > 1 else ''
        shown = f'{section.split} split, step {pick.step}{stage}'
        sample = ' [SAMPLE DATA]' if section.data == 'sample' else ''
        blocks.append(textwrap.fill(f'{section.title}: {shown}{sample}', max_width))
        made = tables(section)
        if not section.tables:  # A table a score would be long: of the other scores, averages.
            made = [*made[:1], *averages(section)]
        blocks += [render.plain(one, max_width) for one in made]
        shared = bool(section.tables)
        signatures = {
            line
            for score in section.scores
            for line in notes.signatures(section.picks, [score], shared)
        }
        said = (*section.notes, *sorted(signatures))
        # Whoever copies a signature, or searches for it, needs it whole.
        fill = functools.partial(
            textwrap.fill, width=max_width, break_on_hyphens=False, break_long_words=False
        )
        blocks.append('\n'.join(map(fill, said)))
    return '\n\n'.join(filter(None, blocks))
