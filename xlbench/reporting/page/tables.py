"""A table as HTML: it scrolls by itself where it is wider than the window, can be sorted and saved.

The page's script reads the numbers with all their digits from data-value. Where rows are systems,
it also shows how far each is from one of them, which the reader chooses.
"""

import itertools
from collections.abc import Sequence

from xlbench.reporting import render
from xlbench.reporting.page.markup import Markup, element, join
from xlbench.reporting.sections import direction
from xlbench.reporting.tables import Cell, Table

SYSTEMS = ('run', 'baseline', 'paper')  # Kinds of rows that are compared and sorted.
_KINDS = (*SYSTEMS, 'error', 'count', 'average', 'difference', 'p')  # That page.css knows.
_COMPARED = 'compared'  # The class of tables in which they are.


class Tables:
    """Sets the tables of a page, and keeps what its script needs of them.

    Attributes:
        latex: The name of each table -> the same table for a paper.
    """

    def __init__(self) -> None:
        self.latex: dict[str, str] = {}

    def table(
        self, table: Table, level: int = 3, marks: Sequence[str] = (), score: str = ''
    ) -> Markup:
        """A table with its title, its tools and its notes, or why there is none.

        Args:
            table: What is set.
            level: Of its heading.
            marks: For each row the class of the mark that the system has in plots, or ''.
            score: What its rows are systems' numbers of; '' where they are something else.
        """
        heading = element(f'h{level}', table.title)
        if table.missing:
            return join([heading, element('p', f'Left out: {table.missing}.', class_='note')])
        name = f'table-{len(self.latex) + 1}'
        self.latex[name] = render.latex(table)
        is_compared = bool(score) and sum(row.kind in SYSTEMS for row in table.rows) > 1
        classes = [_COMPARED] if is_compared else []
        if len(table.groups) > 1 and table.groups[-1] == ('', 1):  # The mean of all groups.
            classes.append('overall')
        grid = element(
            'table',
            element('caption', table.about or table.title, class_='unseen'),
            _head(table, is_compared),
            element('tbody', *_rows(table, marks)),
            class_=' '.join(classes) or None,
            data_direction=direction(score) if is_compared else None,
        )
        return element(
            'figure',
            element('div', heading, _tools(table, name, score if is_compared else ''),
                    class_='bar'),
            element('div', grid, class_='scroll', tabindex=0, role='region',
                    aria_label=f'Table: {table.title}'),
            element('figcaption', *(element('p', note) for note in table.notes)),
            class_='table', id=name,
        )  # fmt: skip


def reference(table: Table, score: str) -> str:
    """The system that others are compared with unless the reader chooses one.

    The best of the paper's where there is one, else the best baseline; by the last column.
    """
    for kind in ('paper', 'baseline'):
        known = [
            (row.cells[-1].value * (direction(score) or 1), row.name)
            for row in table.rows
            if row.kind == kind and row.cells[-1].value is not None
        ]
        if known:
            return max(known)[1]
    return ''


def _tools(table: Table, name: str, score: str) -> Markup:
    tools = [
        element('button', 'Save CSV', type='button', data_csv=name),
        element('button', 'Copy LaTeX', type='button', data_latex=name),
    ]
    if score:
        chosen = reference(table, score)
        rows = [row.name for row in table.rows if row.kind in SYSTEMS]
        options = [element('option', 'nothing', value='')]
        options += [element('option', row, value=row, selected=row == chosen) for row in rows]
        choice = element('select', *options, data_reference=name)
        tools.insert(0, element('label', 'Difference to ', choice))
    return element('div', *tools, class_='tools')


def _head(table: Table, is_sorted: bool) -> Markup:
    groups = [
        element('th', group or ('all' if len(table.groups) > 1 else ''), colspan=span,
                scope='colgroup', class_='group')
        for group, span in table.groups
    ]  # fmt: skip
    labels = [_label(label, is_sorted) for label in (table.head, *(c.label for c in table.columns))]
    lines = [element('tr', *labels)]
    if any(group for group, _ in table.groups):
        lines.insert(0, element('tr', element('td'), *groups))
    return element('thead', *lines)


def _label(label: str, is_sorted: bool) -> Markup:
    if not is_sorted:
        return element('th', label, scope='col')
    return element('th', element('button', label, type='button'), scope='col', aria_sort='none')


def _rows(table: Table, marks: Sequence[str]) -> list[Markup]:
    # 'Differences of loss': only of a known score is it clear which sign is a gain.
    sense = direction(table.title.rpartition(' ')[2])
    made = []
    for row, mark in itertools.zip_longest(table.rows, marks[: len(table.rows)], fillvalue=''):
        swatch = [element('span', class_=f'mark {mark}', aria_hidden='true')] if mark else []
        is_heading = all(str(cell) == '' for cell in row.cells)
        made.append(
            element(
                'tr',
                element('th', *swatch, row.name, scope='row'),
                *(_cell(cell, sense) for cell in row.cells),
                class_='heading' if is_heading else row.kind if row.kind in _KINDS else None,
                data_name=row.name if row.kind in SYSTEMS else None,
            )
        )
    return made


def _cell(cell: Cell, sense: int) -> Markup:
    classes = ['best'] if cell.best else ['none'] if cell.is_missing else []
    if cell.sign == '+' and cell.value and sense:  # A difference.
        classes.append('gain' if cell.value * sense > 0 else 'loss')
    value = None if cell.value is None else repr(cell.value)
    spread = None if cell.spread is None else repr(cell.spread)
    classes = ' '.join(classes) or None
    return element('td', str(cell), class_=classes, data_value=value, data_spread=spread)
