"""The parts that the tables are made of: cells, and columns that become rows of languages."""

from collections.abc import Iterable, Sequence

from xlbench.benchmarks import languages
from xlbench.fewshot.analysis.groups import Adaptations
from xlbench.fewshot.analysis.systems import System, folder
from xlbench.reporting.tables import Cell, Column, Row, Table

DECIMALS = 2
UNFINISHED = 'no adaptation of the whole model is finished'
Columns = dict[tuple[str, str], list[Cell]]  # By group and label, a cell for each row.


def build(
    title: str,
    system: System,
    columns: Columns,
    notes: Iterable[str],
    names: Sequence[tuple[str, str]] = (),
    head: str = 'language',
    metric: bool = True,
) -> Table:
    """Makes a table of columns, a row for each (name, kind) but those without any cell."""
    cells = zip(*columns.values(), strict=True)
    named = zip(names or languages_of(system.languages), cells, strict=True)
    rows = [row for name, of_row in named if not (row := Row(*name, of_row)).is_missing]
    if not rows:
        return Table(title, missing='only empty buckets of it are finished')
    heads = [Column(group, label) for group, label in columns]
    return finish(title, system, heads, rows, notes, head, metric)


def finish(
    title: str,
    system: System,
    columns: Sequence[Column],
    rows: Sequence[Row],
    notes: Iterable[str],
    head: str,
    metric: bool = True,
) -> Table:
    """Returns a table with what belongs under every table of a system."""
    dropped = [f'{folder(sweep)}: {sweep.dropped}' for sweep in system.sweeps if sweep.dropped]
    signature = [f'Score: {system.signature}'] if metric else []
    return Table(
        title,
        tuple(columns),
        tuple(rows),
        head,
        notes=(system.about_data, *notes, *dropped, *signature),
        about=f'{system.title}. {title}',
    )


def languages_of(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names rows of languages, and says what kind they are; another name is that of a count."""
    return [(name, 'language' if name in languages.LANGUAGES else 'count') for name in names]


def score(stats: Adaptations | None) -> Cell:
    """Returns mean and standard deviation over buckets."""
    return Cell.of(stats.scores.tolist() if stats else (), DECIMALS)


def printed(of_paper: tuple[str, str] | None) -> Cell:
    """Returns a mean and a standard deviation, as the paper prints them."""
    return Cell() if of_paper is None else text(' ±'.join(filter(None, of_paper)))


def number(value: float | None, sign: str = '') -> Cell:
    """Returns a number; '+' as the sign also writes that of positive ones."""
    return Cell(value, decimals=DECIMALS, sign=sign)


def text(value: str | int) -> Cell:
    """Returns a text, or a whole number."""
    return Cell(text=str(value))


def difference(one: Adaptations | None, other: Adaptations | None) -> Cell:
    """Subtracts one mean from another."""
    known = one and other and one.rows and other.rows
    return number(one.mean - other.mean if known else None, '+')
