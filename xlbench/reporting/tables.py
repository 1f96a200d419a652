"""A table: cells of numbers under grouped columns, in the one form that every report is made of.

Sections, the papers' tables and the few-shot analysis fill tables with results; render.py sets them
as text. A figure has its numbers as a table; nothing here loads matplotlib.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

FIGURE_KINDS = ('svg', 'png', 'pdf')  # Of files.


class Cell(NamedTuple):
    """One cell: a number with its spread, or what stands in its place.

    Attributes:
      value: None where there is no number.
      spread: standard deviation of the sample, or what the table's notes say that it is; None for
        a single value.
      decimals: of both.
      sign: '+' writes the sign of positive numbers, too.
      mark: behind the number, such as * for a significant difference.
      text: what stands where there is no number, such as '-', or a number as a paper prints it.
      best: whether it is the best of its column.
    """

    value: float | None = None
    spread: float | None = None
    decimals: int = 1
    sign: str = ''
    mark: str = ''
    text: str = '-'
    best: bool = False

    @classmethod
    def of(cls, values: Sequence[float], decimals: int = 1) -> 'Cell':
        """The mean of numbers with their standard deviation; missing without any."""
        if not values:
            return cls()
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, decimals)

    def __str__(self) -> str:
        if self.value is None:
            return self.text
        spread = '' if self.spread is None else f' ±{self.spread:.{self.decimals}f}'
        return f'{self.value:{self.sign}.{self.decimals}f}{spread}{self.mark}'

    @property
    def is_missing(self) -> bool:
        """Returns True if the cell has neither a value nor a text."""
        return str(self) == '-'


class Column(NamedTuple):
    """The head of one column; neighbours of one group stand under its name.

    Attributes:
      group: a task, a setting, or a number of shots.
      label: a language pair, or a score.
      tasks: those that its numbers are of, or averages over.
    """

    group: str
    label: str
    tasks: tuple[str, ...] = ()

    @classmethod
    def named(cls, labels: Iterable[str]) -> tuple['Column', ...]:
        """Columns without groups."""
        return tuple(cls('', label) for label in labels)


class Row(NamedTuple):
    """One row with a cell for each column.

    Attributes:
      kind: a line separates rows of different kinds, where there is room for one.
      labels: its name in parts, for a table with several columns of labels.
      section: the heading that it stands below.
    """

    name: str
    kind: str
    cells: tuple[Cell, ...]
    labels: tuple[str, ...] = ()
    section: str = ''

    @property
    def is_missing(self) -> bool:
        """Returns True if all cells are empty."""
        return all(cell.is_missing for cell in self.cells)


@dataclasses.dataclass(frozen=True)
class Table:
    """One table, or why there is none.

    Attributes:
      head: what the names of the rows are.
      notes: sentences under it, that about the data first.
      about: what its caption begins with in place of the title.
      missing: why it cannot be made; '' for a table.
      labels: heads of the columns of labels; None for the one column of `head`. The labels below
        a # are numbers.
      reference: label for LaTeX of a table in a paper's own form, whose caption is `about` alone.
    """

    title: str
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    head: str = 'system'
    notes: tuple[str, ...] = ()
    about: str = ''
    missing: str = ''
    labels: tuple[str, ...] | None = None
    reference: str = ''

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the columns of labels."""
        return (self.head,) if self.labels is None else self.labels

    def labels_of(self, row: Row) -> tuple[str, ...]:
        """The labels of a row, one for each of `heads`."""
        return (row.name,) if self.labels is None else row.labels

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Neighbouring columns of one group: [('sg', 5), ('qg', 5), ('', 1)]."""
        names = (column.group for column in self.columns)
        return [(name, len(list(same))) for name, same in itertools.groupby(names)]

    def span(self, number: int, place: int) -> int:
        """The number of rows that a label stands for; 0 where it stands above already."""

        def shared(row: Row) -> tuple[str, ...]:
            pairs = zip(self.heads[: place + 1], self.labels_of(row), strict=False)
            return (row.section, *(label for head, label in pairs if head != '#'))

        row = self.rows[number]
        if self.heads[place] == '#' or not any(self.labels_of(row)[place + 1 :]):
            return 1
        if number and shared(self.rows[number - 1]) == shared(row):
            return 0
        below = itertools.takewhile(lambda one: shared(one) == shared(row), self.rows[number:])
        return len(list(below))

    @property
    def caption(self) -> str:
        """The title and the notes, as sentences."""
        said = (self.about or self.title, *(() if self.reference else self.notes))
        return ' '.join(f'{sentence.removesuffix(".")}.' for sentence in said)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a paper, or a plot of a page, which is drawn when it is asked for.

    Attributes:
      name: of its files. Example: figure4.
      numbers: what is drawn, as a table, with the title and the notes of the figure.
      size: width and height in inches.
      paint: draws it on an empty figure of matplotlib.
    """

    name: str
    numbers: Table
    size: tuple[float, float]
    paint: Callable[['Canvas'], None]

    def draw(self, kinds: Sequence[str]) -> dict[str, bytes]:
        """The bytes of some kinds of files, the same ones each time."""
        from xlbench.reporting import drawing  # It loads matplotlib, which tables do not need.

        with drawing.canvas(self.name, *self.size) as canvas:
            self.paint(canvas)
            return {kind: drawing.encoded(canvas, kind) for kind in kinds}

    def svg(self) -> str:
        """The picture as an SVG element, without the XML declaration, which HTML does not have."""
        text = self.draw(('svg',))['svg'].decode()
        return text[text.index('<svg') :]


def gaps(
    rows: Sequence[Sequence[str]],
    columns: Sequence[Sequence[str]],
    empty: Sequence[Sequence[bool]],
    known: Sequence[int] = (),
) -> list[str]:
    """Sentences that name the rows and columns of a table that no run fills, each group once.

    Rows and columns come as their labels, such as ('qg', 'mT5'), and `empty` says of each cell, row
    by row, whether it is. Columns that are `known` are named elsewhere.
    """
    if all(map(all, empty)):
        return ['No run fills any cell.']
    said = []
    for what, paths, is_empty, left_out in (
        ('rows', rows, [*map(all, empty)], ()),
        ('columns', columns, [*map(all, zip(*empty, strict=True))], known),
    ):
        missing = {place for place, one in enumerate(is_empty) if one} - {*left_out}
        names: list[str] = []
        for part in dict.fromkeys(itertools.chain(*itertools.zip_longest(*paths))):
            alike = {place for place, path in enumerate(paths) if part in path}
            if alike & missing and all(is_empty[place] for place in alike):
                names.append(part)
                missing -= alike
        names += [' '.join(filter(None, paths[place])) for place in sorted(missing)]
        said += [f'No run fills the {what} {", ".join(names).removesuffix(".")}.'] if names else []
    return said


def clean(value: object) -> str:
    """One printable line: control characters, line ends included, become U+FFFD."""
    return ''.join(char if char.isprintable() else '\ufffd' for char in str(value))
