"""How systems rank, with their intervals over seeds, and how scores and lengths are spread."""

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from xlbench.reporting import drawing
from xlbench.reporting.page import style as style_lib
from xlbench.reporting.page.style import Style
from xlbench.reporting.sections import Section
from xlbench.reporting.statistics import half_width
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Figure

_MOST = 14  # Rows of a plot.
_OTHERS = {'baseline': '*', 'paper': 's'}  # Markers of what is no run.


def ranking(section: Section, style: Style, prefix: str) -> Figure | None:
    """Each system's main score in the ranked column, with what its seeds say; None without one.

    Args:
        section: Whose systems.
        style: Of them.
        prefix: Of the names of files.
    """
    if style.column is None:
        return None
    score, tasks = section.scores[0], style.column.tasks
    others = [system for system in section.systems if system.kind != 'run']
    shown = [s for s in (*style.ranked, *others) if not s.cell(score, tasks).is_missing]
    runs = [s for s in shown if s.kind == 'run'][:_MOST]
    shown = [*runs, *[s for s in shown if s.kind != 'run'][:_MOST]]
    if len(shown) < 2:
        return None

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, system in enumerate(shown):
            _draw_system(axes, place, system, system.values(score, tasks), style)
        _name_rows(axes, [system.name for system in shown])
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
    return style_lib.plot(f'{prefix}_ranking', 'Systems', described, size, draw)


def boxes(
    name: str, title: str, label: str, values: Mapping[str, Sequence[float]], style: Style
) -> Figure:
    """How numbers of examples are spread, a box for each system.

    Args:
        name: Of its files.
        title: What it shows.
        label: What the numbers are.
        values: System, or 'references' -> a number for each example, one or more.
        style: Of the systems.
    """
    shown = dict(list(values.items())[:_MOST])
    styles = {system.name: style.of(system) for system in style.ranked}

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for place, (system, numbers) in enumerate(shown.items()):
            colour, marker = styles.get(system, (drawing.BLACK, 'o'))
            _draw_box(axes, place, numbers, colour, marker)
        _name_rows(axes, list(shown))
        style_lib.scale(axes, label, across=True)

    described = (
        f'{title}. A box has the middle half of the examples with the median as a line, its '
        'whiskers reach from the 5th to the 95th percentile, and the marker is the mean.'
    )
    return style_lib.plot(name, title, described, (style_lib.WIDTH, 0.6 + 0.27 * len(shown)), draw)


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


def _draw_box(axes: Axes, place: int, numbers: Sequence[float], colour: str, marker: str) -> None:
    cuts = statistics.quantiles(numbers, n=20, method='inclusive') if numbers[1:] else [numbers[0]]
    low, first, median, third, high = (cuts[i * (len(cuts) - 1) // 18] for i in (0, 4, 9, 14, 18))
    line = {'color': colour, 'linewidth': 1.3}
    axes.barh(place, third - first, 0.5, first, facecolor='none', edgecolor=colour, linewidth=1.3)
    axes.plot([low, first], [place, place], **line)
    axes.plot([third, high], [place, place], **line)
    axes.plot([median, median], [place - 0.25, place + 0.25], color=colour, linewidth=2.6)
    axes.plot(statistics.fmean(numbers), place, marker=marker, color=colour, markersize=5)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), style_lib.labels(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
