"""A leaderboard of bundles: one page that loads nothing, a row for each with its check's result."""

import pathlib
import statistics
from collections.abc import Sequence

from xlbench.reporting.page import document
from xlbench.reporting.tables import Cell, Column, Row, Table
from xlbench.reproduce.checking import Checked
from xlbench.system import files
from xlbench.system.errors import UserError

_MARK = 'xlbench leaderboard: made by python -m xlbench.reproduce, may be overwritten'
_HEADS = ('main score', 'runs and tasks', 'differences found', 'agree', 'not checked', 'check')


def check_free(path: str) -> None:
    """Raises UserError unless a path is free, or has such a page."""
    files.check_own(path, 'a leaderboard of xlbench', [_MARK])


def write(path: str, names: Sequence[str], checked: Sequence[Checked]) -> None:
    """Writes the page.

    Args:
        path: Of the page.
        names: Of the files.
        checked: What their checks found.
    """
    if len(names) != len(checked):
        raise UserError('each bundle has one check')
    groups: dict[str, list[Row]] = {}
    leads: dict[str, dict[str, None]] = {}
    for name, one in zip(names, checked, strict=True):
        about, file = one.manifest, pathlib.Path(name).name
        title, system = 'Not read', file
        if about is not None:
            title = f'{about.benchmark}, table {about.table}, size {about.size}'
            system = f'{", ".join(about.systems)} ({file})'
            leads.setdefault(title, {}).update(dict.fromkeys(s for s, _ in one.scores.values()))
        groups.setdefault(title, []).append(_row(system, one))
    columns = tuple(Column('', head) for head in _HEADS)
    sections = []
    for title, rows in sorted(groups.items()):
        scores = ', '.join(leads.get(title, ())) or 'no score'
        rows.sort(key=lambda row: -(row.cells[0].value or 0))
        table = Table(
            'Systems', columns, tuple(rows), 'system',
            (f'Main score: the mean over runs and tasks of {scores}, from 0 to 100, computed here '
             'from the predictions of the bundle.',),
        )  # fmt: skip
        said = f'{len(rows)} bundle{"s" if len(rows) > 1 else ""}, each scored again'
        sections.append((title, said, table))
    text = document.of_tables('Leaderboard', sections, _MARK, 'xlbench.reproduce --board')
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text)


def _row(system: str, one: Checked) -> Row:
    values = [value for _, value in one.scores.values()]
    counts = [sum(line.agrees is kind for line in one.lines) for kind in (False, True, None)]
    first = next((str(line) for line in one.lines if line.agrees is False), 'agrees')
    cells = (
        Cell(statistics.fmean(values)) if values else Cell(),
        *(Cell(float(count), decimals=0) for count in (len(values), *counts)),
        Cell(text=first),
    )
    return Row(system, 'run', cells)
