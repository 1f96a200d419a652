"""The head of a section: the systems that were compared, the result in one line, and a plot."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from xlbench.reporting import drawing
from xlbench.reporting.page import style as style_lib
from xlbench.reporting.page.style import Style
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.statistics import half_width
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Figure

_MOST = 14  # Runs, and others, of a plot.
_OTHERS = {'baseline': '*', 'paper': 's'}  # Markers of what is no run.


class Headline(NamedTuple):
    """The best run, and what it is compared with.

    Attributes:
        system: Its name.
        mark: The class of its mark.
        value: Its main score.
        score: Name of that.
        where: What the score is of.
        others: 'best baseline' and so on, with its name, its score, the gain over it, and 'gain',
            'loss' or None where that is not known.
    """

    system: str
    mark: str
    value: str
    score: str
    where: str
    others: Sequence[tuple[str, str, str, str, str | None]]


def answer(section: Section, style: Style) -> Headline | None:
    """The main score of the best run beside the next one, the best baseline and the paper."""
    if style.column is None or not style.ranked:
        return None
    score, tasks, best = section.scores[0], style.column.tasks, style.ranked[0]
    decimals, sign = section.decimals_of(score), direction(score)
    cells = {s.name: s.cell(score, tasks, decimals) for s in section.systems}
    if (value := cells[best.name].value) is None:
        return None
    others = []
    kinds = (('run', 'next best'), ('baseline', 'best baseline'), ('paper', "the paper's best"))
    for kind, label in kinds:
        known = [
            s for s in section.systems
            if s.kind == kind and s is not best and cells[s.name].value is not None
            # The notes say of others that they do not compare.
            and (kind == 'paper' or s.count(tasks) == best.count(tasks))
        ]  # fmt: skip
        if known:
            top = max(known, key=lambda system: (sign or 1) * cells[system.name].value)
            gain = value - cells[top.name].value
            tone = None if not gain * sign else 'gain' if gain * sign > 0 else 'loss'
            shown = f'{gain:+.{decimals}f}'
            others.append((label, top.name, str(cells[top.name]), shown, tone))
    where = _where(style, [s for s in style.ranked if not cells[s.name].is_missing])
    seeds = best.values(score, tasks)
    if len(seeds) > 1:
        where += f', {len(seeds)} seeds, 95 % interval ±{half_width(seeds):.{decimals}f}'
    else:
        where += ', one seed'
    return Headline(best.name, style.mark(best), f'{value:.{decimals}f}', score, where, others)


def compared(section: Section) -> str:
    """A line of what is compared. Example: '3 systems, 9 runs, 4 tasks, 1,200 examples'."""
    kinds = [system.kind for system in section.systems]
    runs, number = kinds.count('run'), len({id(pick.run) for pick in section.picks})
    counts = {
        'system': runs,
        'run': number if number != runs else 0,
        'baseline': kinds.count('baseline'),
        'published system': kinds.count('paper'),
        'task and language pair': len({t for column in section.columns for t in column.tasks}),
    }
    return ', '.join(f'{n:,} {noun}{"s" if n != 1 else ""}' for noun, n in counts.items() if n)


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


def ranking(section: Section, style: Style, prefix: str) -> list[Figure]:
    """Each system's main score in the ranked column, with what its seeds say; none without two.

    Args:
        section: Whose systems.
        style: Of them.
        prefix: Of the names of files.
    """
    if style.column is None:
        return []
    score, tasks = section.scores[0], style.column.tasks
    scored = [s for s in section.systems if not s.cell(score, tasks).is_missing]
    runs = [system for system in style.ranked if system in scored]
    others = [system for system in scored if system.kind != 'run']
    shown = [*runs[:_MOST], *others[:_MOST]]
    if len(shown) < 2:
        return []

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, system in enumerate(shown):
            _draw_system(axes, place, system, system.values(score, tasks), style)
        axes.set_yticks(range(len(shown)), style_lib.labels(system.name for system in shown))
        axes.set_ylim(len(shown) - 0.4, -0.6)
        style_lib.scale(axes, score, across=True)

    kinds = {system.kind for system in shown}
    marks = [
        'Bars are 95 % intervals of the mean over seeds (Student), small ticks single seeds.'
        if any(len(system.values(score, tasks)) > 1 for system in shown) else '',
        'Stars are baselines.' if 'baseline' in kinds else '',
        'Open squares are the systems of the paper.' if 'paper' in kinds else '',
    ]  # fmt: skip
    described = ' '.join(filter(None, (f'{score} of each system.', *marks)))
    size = (style_lib.WIDTH, 0.6 + 0.24 * len(shown))
    return [style_lib.plot(f'{prefix}_ranking', 'Systems', described, size, draw)]


def _draw_system(
    axes: Axes, place: int, system: System, seeds: Sequence[float], style: Style
) -> None:
    colour, marker = style.of(system)
    if system.kind != 'run':
        colour, marker = drawing.SOFT, _OTHERS[system.kind]
    mean = statistics.fmean(seeds)
    if half := half_width(seeds):
        axes.plot([mean - half, mean + half], [place, place], color=colour, linewidth=1.6)
        axes.plot(seeds, [place] * len(seeds), '|', color=colour, markersize=9)
    axes.plot(
        mean, place, marker=marker, color=colour, markersize=7, linestyle='',
        markerfacecolor='white' if system.kind == 'paper' else colour,
    )  # fmt: skip
