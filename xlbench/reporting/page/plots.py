"""The plots of a section: ranks of systems, heat maps of the main score, learning curves.

Maps are source language x target language. Curves are of losses and scores by step, with the stages
and the best step marked.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from xlbench.reporting import drawing
from xlbench.reporting.page import style as style_lib
from xlbench.reporting.page.style import Style
from xlbench.reporting.results import Run, task_name
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.statistics import half_width
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Figure, Table, clean

Series = list[tuple[float, float]]  # Points (step, value).
_OTHERS = {'baseline': '*', 'paper': 's'}  # Markers of what is no run.
_MOST_RANKED = 14  # Runs, and others, of a plot.
_MOST_MAPS = 6  # Of a task.
_DASHES = ('-', '--', ':', '-.')  # One for each evaluation of a run.


def ranking(section: Section, style: Style, prefix: str) -> list[Figure]:
    """Each system's main score in the ranked column, with what its seeds say; none without two.

    Args:
      section: whose systems.
      style: of them.
      prefix: of the names of files.
    """
    if style.column is None:
        return []
    score, tasks = section.scores[0], style.column.tasks
    scored = [s for s in section.systems if not s.cell(score, tasks).is_missing]
    runs = [system for system in style.ranked if system in scored]
    others = [system for system in scored if system.kind != 'run']
    shown = [*runs[:_MOST_RANKED], *others[:_MOST_RANKED]]
    if len(shown) < 2:
        return []

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, system in enumerate(shown):
            _draw_system(axes, place, system, system.values(score, tasks), style)
        names = [style_lib.shortened(system.name) for system in shown]
        axes.set_yticks(range(len(shown)), names)
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
    return [Figure(f'{prefix}_ranking', Table('Systems', notes=(described,)), size, draw)]


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


class _Map(NamedTuple):
    """The cells of a map, (source, target) -> score, and what its rows and columns are."""

    title: str
    about: str
    sources: Sequence[str]
    targets: Sequence[str]
    cells: Mapping[tuple[str, str], float]


def maps(section: Section, style: Style, prefix: str) -> list[Figure]:
    """Source x target of each system that has such a map, else of the best one for each pair.

    Each task has its own; see `ranking`.
    """
    if not (section.scores and section.benchmark):
        return []
    score = section.scores[0]
    sign = direction(score) or 1
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
    size = (max(style_lib.WIDTH, 0.8 + 0.5 * len(one.targets)), 0.8 + 0.34 * len(one.sources))
    sign = direction(score) or 1

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        table = [[one.cells.get((a, b), math.nan) for b in one.targets] for a in one.sources]
        texts = [['–' if math.isnan(x) else f'{x:.{decimals}f}' for x in row] for row in table]
        shades = [[sign * x for x in row] for row in table]  # A lower loss has the lighter shade.
        # The same scale on all maps of a section.
        scale = tuple(sorted(sign * x for x in limits))
        drawing.heat_map(axes, shades, texts, one.sources, one.targets, scale)
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
    """The learning curves of a section that have lines to draw; see `ranking`."""
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
            _draw_curve(axes, line, dashes[clean(line.evaluation)], style, direction(score) or 1)
        style_lib.scale(axes, label)
        axes.set_xlabel('step', color=drawing.SOFT)
        axes.margins(y=0.12)
        _draw_stages(axes, stages)
        style_lib.legend(canvas, shown, style)

    best = ' A ring marks the best step of each line.'
    told = f' Vertical lines are where stages begin: {", ".join(stages)}.' if stages else ''
    kinds = [e for e in evaluations if e]
    several = (
        f' Solid lines are {kinds[0]}, broken ones {", ".join(kinds[1:])}.' if kinds[1:] else ''
    )
    described = (
        f'{title} by step of {style_lib.listed([s.name for s in shown])}.{best}{told}{several}'
    )
    size = (style_lib.WIDTH, 2.4 + style_lib.legend_height(shown, style))
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


def _draw_stages(axes: Axes, stages: Mapping[str, int]) -> None:
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
