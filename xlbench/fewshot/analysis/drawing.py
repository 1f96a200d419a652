"""Colours, panels and files of all figures."""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from xlbench import files
from xlbench.fewshot.analysis.groups import Adaptations
from xlbench.reporting import render
from xlbench.reporting.drawing import BLACK, BLUE, ORANGE, SHADES, SHOTS, figure

__all__ = [
    'BLACK',
    'BLUE',
    'ORANGE',
    'PANELS',
    'SHADES',
    'SHOTS',
    'figure',
    'grid',
    'panels',
    'title',
    'write_csv',
]

PANELS = 6  # Languages that a figure with a panel for each has room for; its CSV has all.


def title(group: Adaptations) -> str:
    """The title of a panel. Example: de, 1-shot"""
    return f'{group.language}, {group.shots}-shot'


def panels(groups: Sequence[Adaptations]) -> tuple[list[Adaptations], str]:
    """Chooses the groups that gain most over zero-shot; and says so, if there are more."""
    gains = {group: np.nan_to_num(group.scores.mean() - group.zero_shot) for group in groups}
    chosen = sorted(groups, key=lambda group: -gains[group])[:PANELS]
    if len(groups) == len(chosen):
        return chosen, ''
    return chosen, (
        f' The {len(chosen)} languages that gain most of {len(groups)}; the CSV has all of them.'
    )


@contextlib.contextmanager
def grid(
    stem: pathlib.Path, count: int, size: tuple[float, float], columns: int = 3
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of so many panels, each of a width and height, row after row."""
    columns = min(columns, count)
    rows = -(-count // columns)
    with figure(stem, size[0] * columns, size[1] * rows + 0.3) as drawn:
        panels = drawn.subplots(rows, columns, squeeze=False).ravel().tolist()
        for axes in panels[count:]:
            axes.remove()
        yield drawn, panels[:count]


def write_csv(
    stem: pathlib.Path, columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]
) -> None:
    """The numbers of a figure; each row begins with task, language and shots."""
    head = ('task', 'language', 'shots', *columns)
    files.write(f'{stem}.csv', render.comma_separated(head, rows, decimals=4))
