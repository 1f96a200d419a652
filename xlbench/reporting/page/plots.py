"""The plots of a section, and the order, colours and markers of its systems.

Maps are source language x target language. Curves are of losses and scores by step, with the stages
and the best step marked.
"""

import dataclasses
import math
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from xlbench.reporting import drawing
from xlbench.reporting.results import Run, task_name
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Column, Figure, Table, clean

Series = list[tuple[float, float]]  # Points (step, value).
_WIDTH = 4.2  # Of most plots, in inches: their text is as large as the page's small print.
_LONGEST = 22  # Characters of a name in a plot.
_MOST_MAPS = 6  # Of a task.
_LISTED = 4  # Systems that a description names.
_DASHES = ('-', '--', ':', '-.')  # One for each evaluation of a run.


@dataclasses.dataclass(frozen=True)
class Style:
    """The ranks, colours and markers of the systems of a section.

    Attributes:
      column: in which systems are ranked: the mean of all that most runs have; None if the
        section has no scores.
      ranked: the runs that have it, the best first; then those that have other columns.
      places: the name of a run -> its place among the colours; others are drawn in grey.
    """

    column: Column | None
    ranked: tuple[System, ...]
    places: Mapping[str, int]

    def mark(self, system: System) -> str:
        """The class of a system's mark in tables; '' for none."""
        place = self.places.get(system.name)
        return '' if place is None else f'series-{place + 1}'

    def of(self, system: System) -> tuple[str, str]:
        """Colour and marker of a system in plots."""
        place = self.places.get(system.name)
        return (drawing.SOFT, '.') if place is None else drawing.SERIES[place]


def of_section(section: Section) -> Style:
    """Ranks the runs of a section by its main score, and gives the best ones colours."""
    runs, column = section.runs, None
    if section.scores and section.columns:
        column, sign = _shared(section, runs), direction(section.scores[0])

        def rank(system: System) -> tuple[bool, int, str, float]:
            # Scores of other numbers of examples do not compare: the most examples come first.
            counts = (max(system.examples(task), default=0) for task in column.tasks)
            value = system.cell(section.scores[0], column.tasks).value
            count = system.count(column.tasks)
            return value is None, -sum(counts), count, -sign * (value or 0.0)

        runs.sort(key=rank)
    places = {system.name: i for i, system in enumerate(runs[: len(drawing.SERIES)])}
    return Style(column, tuple(runs), places)


def _shared(section: Section, runs: Sequence[System]) -> Column:
    """The last column that most runs have, widened to all tasks that these runs have.

    Runs of several scenarios share single languages, and no column has their mean.
    """
    score = section.scores[0]
    having = [
        frozenset(s.name for s in runs if not s.cell(score, column.tasks).is_missing)
        for column in section.columns
    ]
    most = max(range(len(having)), key=lambda place: (len(having[place]), place))
    alike = [c for c, names in zip(section.columns, having, strict=True) if names == having[most]]
    tasks = tuple(dict.fromkeys(task for column in alike for task in column.tasks))
    last = section.columns[most]
    if set(tasks) == set(last.tasks):
        return last
    groups = {column.group for column in alike}
    return Column(groups.pop() if len(groups) == 1 else '', 'avg', tasks)


class _Map(NamedTuple):
    """The cells of a map, (source, target) -> score, and what its rows and columns are."""

    title: str
    about: str
    sources: Sequence[str]
    targets: Sequence[str]
    cells: Mapping[tuple[str, str], float]


def maps(section: Section, style: Style, prefix: str) -> list[Figure]:
    """Source x target of each system that has such a map, else of the best one for each pair.

    Each task has its own; names of files begin with the prefix.
    """
    if not (section.scores and section.benchmark):
        return []
    score = section.scores[0]
    sign = direction(score)
    # Tasks of the benchmark, in the order of the section's columns.
    every = [task_name(column.tasks[0]) for column in section.columns if len(column.tasks) == 1]
    made: list[_Map] = []
    for task in dict.fromkeys(name.task for name in every if name.benchmark):
        names = [name for name in every if name.benchmark and name.task == task]
        scored = ({name[side] for name in names} for side in (2, 3))
        sources, targets = (
            [lang for lang in section.benchmark.languages if lang in langs] for langs in scored
        )
        best: dict[tuple[str, str], float] = {}
        own = []
        for system in style.ranked:
            values = {name: system.cell(score, ['_'.join(name)]).value for name in names}
            cells = {(n.source, n.target): x for n, x in values.items() if x is not None}
            for pair, value in cells.items():
                best[pair] = max(value, best.get(pair, value), key=lambda number: sign * number)
            about = f'{system.name} from each language into each'
            own.append(_Map(f'{task}, {system.name}', about, sources, targets, cells))
        square = [one for one in own if _is_square(one.cells)]
        if not square and _is_square(best):
            about = 'the best run from each language into each'
            square = [_Map(f'{task}, best run', about, sources, targets, best)]
        made += square[:_MOST_MAPS]
    every_value = [value for one in made for value in one.cells.values()]
    limits = (min(every_value, default=0.0), max(every_value, default=0.0))
    return [
        _map(f'{prefix}_map_{i}', one, score, section.decimals_of(score), limits)
        for i, one in enumerate(made, 1)
    ]


def _is_square(cells: Mapping[tuple[str, str], float]) -> bool:
    """Returns whether there are several sources with several targets."""
    sources, targets = ({pair[side] for pair in cells} for side in (0, 1))
    return len(cells) > max(len(sources), len(targets)) > 1 and len(sources) > 1


def _map(name: str, one: _Map, score: str, decimals: int, limits: tuple[float, float]) -> Figure:
    size = (max(_WIDTH, 0.8 + 0.5 * len(one.targets)), 0.8 + 0.34 * len(one.sources))
    sign = direction(score)

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        table = [[one.cells.get((a, b), math.nan) for b in one.targets] for a in one.sources]
        texts = [['–' if math.isnan(x) else f'{x:.{decimals}f}' for x in row] for row in table]
        shades = [[sign * x for x in row] for row in table]  # A lower loss has the lighter shade.
        # The same scale on all maps of a section.
        low, high = sorted(sign * x for x in limits)
        drawing.heat_map(axes, shades, texts, one.sources, one.targets, (low, high))
        axes.xaxis.tick_top()
        axes.set_xlabel('target language', color=drawing.SOFT)
        axes.set_ylabel('source language', color=drawing.SOFT)

    described = f'{score} of {one.about}.'
    if len({round(value, decimals) for value in one.cells.values()}) > 1:
        top = max(one.cells, key=lambda place: one.cells[place] * sign)
        value = f'{one.cells[top]:.{decimals}f}'
        described += f' Best: {value} ({top[0]}, {top[1]}). Lighter is better.'
    return Figure(name, Table(one.title, notes=(described,)), size, draw)


class _Curve(NamedTuple):
    """One line of a plot."""

    system: System
    run: Run
    evaluation: str  # '' for what was logged in training.
    points: Series


def curves(section: Section, style: Style, prefix: str) -> list[Figure]:
    """The learning curves of a section that have lines to draw; see `maps`."""
    members: dict[int, tuple[System, Run]] = {}  # Each run once: settings may share one.
    for system in section.systems:
        for pick in system.picks:
            members.setdefault(id(pick.run), (system, pick.run))
    training = [_Curve(*one, '', training_series(one[1], 'loss')) for one in members.values()]
    drawn = [('Training loss', 'loss', training)]
    for score in dict.fromkeys(('loss', *section.scores[:1])):
        evaluated = [
            _Curve(system, run, name, points)
            for system, run in members.values()
            for name, points in eval_series(run, score).items()
            if len(points) > 1
        ]
        drawn.append((f'{"Loss" if score == "loss" else score} in evaluation', score, evaluated))
    return [
        _curves(
            f'{prefix}_curve_{i}', title, score, lines,
            section.loss_unit if score == 'loss' else score, style,
        )
        for i, (title, score, lines) in enumerate(drawn, 1)
        if any(len(line.points) > 1 for line in lines)  # A point is no curve.
    ]  # fmt: skip


def training_series(run: Run, name: str) -> Series:
    """A value that was logged in training, by step."""
    return _series((row.step, row.values.get(name)) for row in run.log if row.kind == 'train')


def eval_series(run: Run, score: str) -> dict[str, Series]:
    """The mean of a score over tasks by step, for each evaluation (or split) that has it.

    From the lines called NAME/mean of the log; without any, from the results.
    """
    series: dict[str, Series] = {}
    for row in run.log:
        name, _, last = row.name.rpartition('/')
        if row.kind == 'eval' and last == 'mean':
            points = _series([(row.step, row.values.get(score))])
            series.setdefault(name, []).extend(points)
    if not any(series.values()):
        for split in run.splits():
            values = {step: run.at(step, split).values() for step in sorted(run.evaluations)}
            series[split] = [
                (step, statistics.fmean(r.scores[score] for r in of_step))
                for step, of_step in values.items()
                if of_step and all(score in r.scores for r in of_step)
            ]
    return {name: points for name, points in series.items() if points}


def _series(points: Iterable[tuple[float, object]]) -> Series:
    return [
        (step, float(value))
        for step, value in points
        if isinstance(value, int | float) and math.isfinite(value)
    ]


def _curves(
    name: str, title: str, score: str, lines: list[_Curve], label: str, style: Style
) -> Figure:
    evaluations = list(dict.fromkeys(clean(line.evaluation) for line in lines))
    dashes = {e: _DASHES[i % len(_DASHES)] for i, e in enumerate(evaluations)}
    # {stage: the step that it begins after}, where all runs have the same ones.
    plans = {tuple(line.run.stages.items()) for line in lines}
    (plan,) = plans if len(plans) == 1 else ((),)
    stages = {clean(stage): first for stage, first in plan} if len(plan) > 1 else {}
    shown = list({line.system.name: line.system for line in lines}.values())

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        # Those in grey first, so that they lie behind.
        for line in sorted(lines, key=lambda line: line.system.name in style.places):
            _draw_curve(axes, line, dashes[clean(line.evaluation)], style, direction(score))
        axes.grid(axis='y', color=drawing.LINE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[:].set_color(drawing.LINE)
        axes.tick_params(colors=drawing.SOFT, labelcolor=drawing.BLACK, length=0)
        # Beside long names a long label would reach beyond the plot.
        axes.set_ylabel(textwrap.fill(label, _LONGEST), color=drawing.SOFT)
        axes.set_xlabel('step', color=drawing.SOFT)
        axes.margins(y=0.12)
        if stages:
            axes.set_xlim(left=0)
        end = axes.get_xlim()[1]
        for name, first in stages.items():
            if first:
                axes.axvline(first, color=drawing.SOFT, linewidth=0.8, linestyle=(0, (2, 2)))
            axes.annotate(
                f' {name} ', (first, 1), xycoords=('data', 'axes fraction'), color=drawing.SOFT,
                fontsize='small', va='top', ha='right' if first > 0.8 * end else 'left',
                annotation_clip=True,
            ).set_in_layout(False)  # fmt: skip
        _legend(canvas, shown, style)

    told = f' Vertical lines are where stages begin: {", ".join(stages)}.' if stages else ''
    kinds = [e for e in evaluations if e]
    several = (
        f' Solid lines are {kinds[0]}, broken ones {", ".join(kinds[1:])}.' if kinds[1:] else ''
    )
    names = ', '.join(system.name for system in shown[:_LISTED])
    names += f' and {len(shown) - _LISTED} more' if len(shown) > _LISTED else ''
    best = 'A ring marks the best step of each line.'
    described = f'{title} by step of {names}. {best}{told}{several}'
    coloured = sum(system.name in style.places for system in shown)
    rows = -(-(coloured + (coloured < len(shown))) // 2)  # Of the legend, which needs room.
    size = (_WIDTH, 2.4 + (0.1 + 0.17 * rows))
    return Figure(name, Table(title, notes=(described,)), size, draw)


def _draw_curve(axes: Axes, curve: _Curve, dashes: str, style: Style, sign: int) -> None:
    colour, marker = style.of(curve.system)
    is_grey = curve.system.name not in style.places
    steps, values = zip(*curve.points, strict=True) if curve.points else ((), ())
    axes.plot(
        steps, values, dashes, color=colour, linewidth=0.8 if is_grey else 1.6,
        marker=marker if len(steps) <= 24 and not is_grey else '', markersize=4,
    )  # fmt: skip
    if len(curve.points) > 1 and not is_grey:
        best = max(curve.points, key=lambda point: (sign * point[1], -point[0]))
        axes.plot(
            *best, marker='o', markersize=9, markerfacecolor='none', markeredgecolor=colour,
            markeredgewidth=1.4, linestyle='',
        )  # fmt: skip


def _legend(canvas: Canvas, systems: Sequence[System], style: Style) -> None:
    """Names the coloured systems of a plot below it, and says what is grey."""
    styles, half = {}, (_LONGEST - 1) // 2
    for name, of in ((s.name, style.of(s)) for s in systems if s.name in style.places):
        # The middle of a long name is left out.
        styles[name if len(name) <= _LONGEST else f'{name[:half]}…{name[-half:]}'] = of
    if len(styles) < len(systems):
        styles['other runs'] = (drawing.SOFT, '')
    handles = [
        # A space before the name: matplotlib hides labels that begin with an underscore.
        Line2D([], [], color=colour, marker=marker, markersize=5, linewidth=1.6, label=f' {name}')
        for name, (colour, marker) in styles.items()
    ]
    canvas.legend(
        handles=handles, loc='outside lower center', ncols=2, frameon=False, fontsize=8,
        handlelength=1.6, columnspacing=1.2, labelspacing=0.3,
    )  # fmt: skip
