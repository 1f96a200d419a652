"""Heat maps of the main score: source language x target language, and task x language."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure as Canvas

from xlbench import benchmarks
from xlbench.reporting import drawing
from xlbench.reporting.page import style as style_lib
from xlbench.reporting.page.style import Style
from xlbench.reporting.results import task_name
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Figure

_MOST = 6  # Systems that have a map of their own.
_MANY = 12  # Rows of a map of systems.


class _Map(NamedTuple):
    """The cells of a map, and what its rows and columns are; NaN where nothing was scored."""

    title: str
    about: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[str, str], float]
    axes: tuple[str, str]


def plots(section: Section, style: Style, prefix: str) -> list[Figure]:
    """The maps of a section that have two rows and two columns.

    Args:
        section: Whose runs.
        style: Of its systems.
        prefix: Of the names of files.
    """
    if not section.scores:
        return []
    maps = [
        *_of_languages(section, style),
        *_of_tasks(section, style),
        *_of_systems(section, style),
    ]
    values = [value for one in maps for value in one.cells.values()]
    score = section.scores[0]
    decimals = section.decimals_of(score)
    return [
        _plot(f'{prefix}_map_{i}', one, score, decimals, (min(values), max(values)))
        for i, one in enumerate(maps, 1)
    ]


def _names(section: Section) -> list[benchmarks.TaskName]:
    """The section's tasks that are of the benchmark, in the order of its columns."""
    names = [task_name(column.tasks[0]) for column in section.columns if len(column.tasks) == 1]
    return [name for name in names if name.benchmark]


def _scores(section: Section, system: System) -> dict[benchmarks.TaskName, float]:
    score = section.scores[0]
    cells = {name: system.cell(score, ['_'.join(name)]) for name in _names(section)}
    return {name: cell.value for name, cell in cells.items() if cell.value is not None}


def _of_languages(section: Section, style: Style) -> list[_Map]:
    """For each task source x target: of each system that has one, and of the best for each pair."""
    sign = direction(section.scores[0]) or 1
    tasks = list(dict.fromkeys(name.task for name in _names(section)))
    of_systems = {system.name: _scores(section, system) for system in style.ranked}
    made = []
    for task in tasks:
        best: dict[tuple[str, str], float] = {}
        own = []
        for system, scores in of_systems.items():
            cells = {(n.source, n.target): v for n, v in scores.items() if n.task == task}
            for pair, value in cells.items():
                best[pair] = max(value, best.get(pair, value), key=lambda number: sign * number)
            if _is_square(cells):
                own.append((f'{task}, {system}', f'{system} from each language into each', cells))
        if not own and _is_square(best):
            own = [(f'{task}, best run', 'the best run from each language into each', best)]
        sources, targets = _languages(section, task)
        made += [
            _Map(title, about, sources, targets, cells, ('source language', 'target language'))
            for title, about, cells in own[:_MOST]
        ]
    return made


def _languages(section: Section, task: str) -> tuple[list[str], list[str]]:
    """The sources and the targets of a task, in the benchmark's order."""
    names = [name for name in _names(section) if name.task == task]
    scored = {lang for name in names for lang in (name.source, name.target)}
    known = section.benchmark.languages if section.benchmark else ()
    order = [*(lang for lang in known if lang in scored), *sorted(scored - set(known))]
    sources, targets = ({name[side] for name in names} for side in (2, 3))
    return [lang for lang in order if lang in sources], [lang for lang in order if lang in targets]


def _is_square(cells: Mapping[tuple[str, str], float]) -> bool:
    """Returns whether there are several sources with several targets."""
    sources, targets = ({pair[side] for pair in cells} for side in (0, 1))
    return len(cells) > max(len(sources), len(targets)) > 1 and len(sources) > 1


def _of_tasks(section: Section, style: Style) -> list[_Map]:
    """Task x language of each system that has two tasks."""
    made = []
    for system in style.ranked:
        cells = {}
        for name, value in _scores(section, system).items():
            pair = name.source if name.source == name.target else f'{name.source}-{name.target}'
            cells[name.task, pair] = value
        rows, columns = (list(dict.fromkeys(place[side] for place in cells)) for side in (0, 1))
        if len(rows) > 1 and len(columns) > 1 and not any('-' in column for column in columns):
            about = f'{system.name} in each task and language'
            made.append(_Map(system.name, about, rows, columns, cells, ('task', 'language')))
    return made[:_MOST]


def _of_systems(section: Section, style: Style) -> list[_Map]:
    """System x language of a task, for the tasks that several runs and languages share."""
    made = []
    for task in dict.fromkeys(name.task for name in _names(section)):
        cells = {}
        for system in style.ranked:
            for name, value in _scores(section, system).items():
                if name.task == task and name.source == name.target:
                    cells[system.name, name.target] = value
        rows = list(dict.fromkeys(system for system, _ in cells))[:_MANY]
        columns = [
            lang for lang in _languages(section, task)[1] if any(c == lang for _, c in cells)
        ]
        if len(rows) > 1 and len(columns) > 1:
            shown = {place: value for place, value in cells.items() if place[0] in rows}
            about = f'the runs in each language of {task}'
            made.append(_Map(f'{task}, all runs', about, rows, columns, shown, ('run', 'language')))
    return made


def _plot(
    name: str, one: _Map, score: str, decimals: int, limits: tuple[float, float]
) -> Figure:
    names = max(map(len, style_lib.labels(one.rows)))
    width = 0.6 + 0.07 * names + 0.5 * len(one.columns)
    size = (max(style_lib.WIDTH, width), 0.8 + 0.34 * len(one.rows))

    def draw(canvas: Canvas) -> None:
        axes, sign = canvas.subplots(), direction(score) or 1  # A lower loss has the lighter shade.
        table = [[one.cells.get((r, c), math.nan) for c in one.columns] for r in one.rows]
        texts = [['–' if math.isnan(x) else f'{x:.{decimals}f}' for x in row] for row in table]
        shades = [[sign * x for x in row] for row in table]
        # The same scale on all maps of a section.
        scale = tuple(sorted(sign * x for x in limits))
        drawing.heat_map(axes, shades, texts, style_lib.labels(one.rows), one.columns, scale)
        axes.xaxis.tick_top()
        axes.set_xlabel(one.axes[1], color=drawing.SOFT)
        axes.set_ylabel(one.axes[0], color=drawing.SOFT)

    described = f'{score} of {one.about}.'
    if len({round(value, decimals) for value in one.cells.values()}) > 1:
        top = max(one.cells, key=lambda place: one.cells[place] * (direction(score) or 1))
        value = f'{one.cells[top]:.{decimals}f}'
        described += f' Best: {value} ({top[0]}, {top[1]}). Lighter is better.'
    return style_lib.plot(name, one.title, described, size, draw)
