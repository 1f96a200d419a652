"""The order of the systems of a page, their colours and markers, and the axes of plots."""

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from xlbench.reporting import drawing
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Column

WIDTH = 4.2  # Of most plots, in inches: their text is as large as the page's small print.
_LONGEST = 22  # Characters of a name in a plot.


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
    runs = [system for system in section.systems if system.kind == 'run']
    column = None
    if section.scores and section.columns:
        column, sign = _shared(section, runs), direction(section.scores[0]) or 1

        def rank(system: System) -> tuple[bool, int, str, float]:
            # Scores of other numbers of examples do not compare: the most examples come first.
            counts = (max(system.examples.get(t, (0,)), default=0) for t in column.tasks)
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


def legend(canvas: Canvas, systems: Sequence[System], style: Style) -> None:
    """Names the coloured systems of a plot below it, and says what is grey."""
    styles = {shortened(s.name): style.of(s) for s in systems if s.name in style.places}
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


def legend_height(systems: Sequence[System], style: Style) -> float:
    """The inches that a legend needs."""
    coloured = sum(system.name in style.places for system in systems)
    return 0.1 + 0.17 * -(-(coloured + (coloured < len(systems))) // 2)


def scale(axes: Axes, label: str = '', *, across: bool = False) -> None:
    """Gives a plot quiet lines behind it, along one axis.

    Args:
      axes: the plot.
      label: of the axis that has the numbers.
      across: whether the numbers go from left to right.
    """
    axes.grid(axis='x' if across else 'y', color=drawing.LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(drawing.LINE)
    axes.tick_params(colors=drawing.SOFT, labelcolor=drawing.BLACK, length=0)
    # Beside long names a long label would reach beyond the plot.
    label = textwrap.fill(label, _LONGEST)
    (axes.set_xlabel if across else axes.set_ylabel)(label, color=drawing.SOFT)


def shortened(name: str) -> str:
    """A name as it stands beside an axis: the middle of a long one is left out."""
    half = (_LONGEST - 1) // 2
    return name if len(name) <= _LONGEST else f'{name[:half]}…{name[-half:]}'


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a sentence. Example: 'a, b, c, d and 3 more'."""
    if len(names) <= most:
        return ', '.join(names)
    return f'{", ".join(names[:most])} and {len(names) - most} more'
