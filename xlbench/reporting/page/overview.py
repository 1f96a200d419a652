"""The head of a section: the systems that were compared, and the result in one line."""

from collections.abc import Sequence
from typing import NamedTuple

from xlbench.reporting.page.markup import Markup, element
from xlbench.reporting.page.style import Style
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.statistics import half_width
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell


class _Answer(NamedTuple):
    """The best system, and what it is compared with; a system and its cell each."""

    score: str
    where: str
    best: tuple[System, Cell]
    others: tuple[tuple[str, System, Cell], ...]  # 'best baseline', ...


def answer(section: Section, style: Style) -> Markup:
    """The headline score of the best run beside the next one, the best baseline and the paper."""
    if (answered := _answer(section, style)) is None:
        return Markup()
    system, cell = answered.best
    score = answered.score
    decimals = section.decimals_of(score)
    rows = []
    for label, other, theirs in answered.others:
        difference = cell.value - theirs.value
        rows.append(
            element(
                'tr',
                element('th', label, element('span', other.name, class_='name'), scope='row'),
                element('td', str(theirs)),
                element('td', f'{difference:+.{decimals}f}',
                        class_=tone(difference, score)),
            )
        )  # fmt: skip
    parts = [
        element('p', 'Best system', class_='over'),
        element('p', element('span', class_=f'mark {style.mark(system)}', aria_hidden='true'),
                system.name, class_='system'),
        element('p', element('strong', f'{cell.value:.{decimals}f}'), ' ', score,
                class_='number'),
        element('p', f'{answered.where}{_seeds(section, style, system)}', class_='where'),
    ]  # fmt: skip
    if rows:
        caption = element('caption', 'The best system minus others', class_='unseen')
        columns = (
            element('th', label, scope='col') for label in ('compared with', 'score', 'gain')
        )
        head = element('thead', element('tr', *columns))
        parts.append(element('table', caption, head, element('tbody', *rows)))
    return element('div', *parts, class_='answer')


def compared(section: Section) -> str:
    """A line of what is compared. Example: '3 systems, 9 runs, 4 tasks, 1,200 examples'."""
    runs = [system for system in section.systems if system.kind == 'run']
    baselines = [system for system in section.systems if system.kind == 'baseline']
    papers = [system for system in section.systems if system.kind == 'paper']
    tasks = {task for column in section.columns for task in column.tasks}
    number = len({id(pick.run) for pick in section.picks})
    parts = [
        _count(len(runs), 'system'),
        _count(number, 'run') if number != len(runs) else '',
        _count(len(baselines), 'baseline'),
        _count(len(papers), 'published system'),
        _count(len(tasks), 'task and language pair'),
    ]
    return ', '.join(filter(None, parts))


def tone(difference: float, score: str) -> str | None:
    """The class of a difference: 'gain', 'loss', or None where that is not known."""
    sense = difference * direction(score)
    return None if not sense else 'gain' if sense > 0 else 'loss'


def _answer(section: Section, style: Style) -> _Answer | None:
    if style.column is None or not style.ranked:
        return None
    score, tasks = section.scores[0], style.column.tasks
    cells = {s.name: s.cell(score, tasks, section.decimals_of(score)) for s in section.systems}
    best = style.ranked[0]
    if cells[best.name].value is None:
        return None
    others = []
    sign = direction(score) or 1
    kinds = (('run', 'next best'), ('baseline', 'best baseline'), ('paper', "the paper's best"))
    for kind, label in kinds:
        known = [
            s for s in section.systems
            if s.kind == kind and s is not best and cells[s.name].value is not None
            # The notes say of others that they do not compare.
            and (kind == 'paper' or s.count(tasks) == best.count(tasks))
        ]  # fmt: skip
        if known:
            top = max(known, key=lambda system: sign * cells[system.name].value)
            others.append((label, top, cells[top.name]))
    return _Answer(
        score,
        _where(style, [s for s in style.ranked if not cells[s.name].is_missing]),
        (best, cells[best.name]),
        tuple(others),
    )


def _where(style: Style, scored: Sequence[System]) -> str:
    """Returns what the score is of. Example: 'mean over 4 tasks and languages of qg'."""
    column = style.column
    if len(column.tasks) > 1:
        of = f' of {column.group}' if column.group else ''
        where = f'mean over {len(column.tasks)} tasks and languages{of}'
    else:
        where = f'{column.group} {column.label}'.strip()
    every = len(style.ranked)
    if len(scored) < every:
        where += f' ({len(scored)} of {every} systems have this score)'
    counts = [system.count(column.tasks) for system in scored]
    if len(alike := [count for count in counts if count == counts[0]]) < len(counts):
        where += f', best of the {len(alike)} scored on {counts[0]} examples'
    return where


def _seeds(section: Section, style: Style, system: System) -> str:
    """Example: ', 3 seeds, 95 % interval ±0.8'."""
    score = section.scores[0]
    values = system.values(score, style.column.tasks)
    if len(values) < 2:
        return ', one seed'
    half = f'{half_width(values):.{section.decimals_of(score)}f}'
    return f', {len(values)} seeds, 95 % interval ±{half}'


def _count(number: int, noun: str) -> str:
    return f'{number:,} {noun}{"s" if number != 1 else ""}' if number else ''
