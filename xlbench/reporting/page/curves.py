"""Learning curves: losses and scores by step, with the stages and the best step marked."""

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from xlbench.reporting import drawing
from xlbench.reporting.page import style as style_lib
from xlbench.reporting.page.style import Style
from xlbench.reporting.results import Run
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Figure, clean

Series = list[tuple[float, float]]  # Points (step, value).
_DASHES = ('-', '--', ':', '-.')  # One for each evaluation of a run.


class Curve(NamedTuple):
    """One line of a plot."""

    system: System
    run: Run
    evaluation: str  # '' for what was logged in training.
    points: Series


def plots(section: Section, style: Style, prefix: str) -> list[Figure]:
    """The plots of a section that have lines to draw.

    Args:
        section: Whose runs.
        style: Of its systems.
        prefix: Of the names of files.
    """
    scores = ('loss', *(score for score in section.scores[:1] if score != 'loss'))
    drawn = [('Training loss', 'loss', _training(section), section.loss_unit)]
    for score in scores:
        label = section.loss_unit if score == 'loss' else score
        title = 'Loss in evaluation' if score == 'loss' else f'{score} in evaluation'
        drawn.append((title, score, _evaluated(section, score), label))
    return [
        _plot(f'{prefix}_curve_{i}', title, score, curves, label, style)
        for i, (title, score, curves, label) in enumerate(drawn, 1)
        if any(len(curve.points) > 1 for curve in curves)  # A point is no curve.
    ]


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


def _members(section: Section) -> list[tuple[System, Run]]:
    """The systems with their runs, each run once: settings may share one."""
    pairs: dict[int, tuple[System, Run]] = {}
    for system in section.systems:
        for pick in system.picks:
            pairs.setdefault(id(pick.run), (system, pick.run))
    return list(pairs.values())


def _training(section: Section) -> list[Curve]:
    return [
        Curve(system, run, '', training_series(run, 'loss')) for system, run in _members(section)
    ]


def _evaluated(section: Section, score: str) -> list[Curve]:
    return [
        Curve(system, run, name, points)
        for system, run in _members(section)
        for name, points in eval_series(run, score).items()
        if len(points) > 1
    ]


def _plot(
    name: str, title: str, score: str, curves: list[Curve], label: str, style: Style
) -> Figure:
    sign = direction(score) or 1
    evaluations = list(dict.fromkeys(clean(curve.evaluation) for curve in curves))
    dashes = {e: _DASHES[i % len(_DASHES)] for i, e in enumerate(evaluations)}
    stages = _stages(curves)
    shown = list({curve.system.name: curve.system for curve in curves}.values())

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        # Those in grey first, so that they lie behind.
        for curve in sorted(curves, key=lambda curve: curve.system.name in style.places):
            _draw_curve(axes, curve, dashes[clean(curve.evaluation)], style, sign)
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
    return style_lib.plot(name, title, described, size, draw)


def _draw_curve(axes: Axes, curve: Curve, dashes: str, style: Style, sign: int) -> None:
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


def _stages(curves: list[Curve]) -> Mapping[str, int]:
    """{stage: the step that it begins after}, where all runs have the same ones."""
    plans = {tuple(curve.run.stages.items()) for curve in curves}
    (plan,) = plans if len(plans) == 1 else ((),)
    return {clean(name): first for name, first in plan} if len(plan) > 1 else {}


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
