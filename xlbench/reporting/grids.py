"""A table (tables.Grid) as text: screen, Markdown, LaTeX; rows as CSV; and text inside them."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence

from xlbench.reporting import tables
from xlbench.reporting.tables import Grid

_NAME_WIDTH = 24  # Widest name of a row on the screen.


def plain(grid: Grid, max_width: int) -> str:
    """A table for the screen, the groups of columns below each other where they do not fit."""
    widths = [
        max(len(column.label), *(len(cells[i]) for _, _, cells in grid.rows)) + 1
        for i, column in enumerate(grid.columns)
    ]
    names = [name for name, _, _ in grid.rows]
    names.append(grid.title if grid.head == 'system' else grid.head)
    name_width = min(_NAME_WIDTH, max(map(len, names)))
    blocks, start, room = [[]], 0, max_width - name_width
    for name, span in _groups(grid):
        group = list(range(start, start + span))
        start += span
        widths[group[-1]] += max(0, len(name) + 1 - sum(widths[i] for i in group))
        needed = 2 + sum(widths[i] for i in group)  # Two for the bar before it.
        if blocks[-1] and needed > room:
            blocks.append([])
            room = max_width - name_width
        room -= needed
        blocks[-1] += group
    return '\n\n'.join(_plain_block(grid, block, widths, name_width) for block in blocks)


def _plain_block(grid: Grid, block: list[int], widths: list[int], name_width: int) -> str:
    """The columns of one block; tasks are set apart by a bar, and named above their languages."""
    part = grid._replace(columns=tuple(grid.columns[i] for i in block))
    head, start = [], 0
    for group, span in _groups(part):
        head.append((group, block[start : start + span]))
        start += span

    def line(name: str, cells: Callable[[str, list[int]], str]) -> str:
        name = name if len(name) <= name_width else name[: name_width - 2] + '..'
        bars = [name.ljust(name_width), *(cells(group, columns) for group, columns in head)]
        return ' |'.join(bars).rstrip()

    def title(group: str, columns: list[int]) -> str:
        width = sum(widths[i] for i in columns)
        return f' {group or "all"}'[:width].ljust(width)

    lines = [
        line(grid.title if grid.head == 'system' else grid.head, title),
        line(
            '', lambda _, columns: ''.join(grid.columns[i].label.rjust(widths[i]) for i in columns)
        ),
    ]
    lines.append('-' * max(map(len, lines)))
    for name, _, cells in grid.rows:
        lines.append(
            line(name, lambda _, columns, c=cells: ''.join(c[i].rjust(widths[i]) for i in columns))
        )
    return '\n'.join(lines)


def markdown(grid: Grid) -> str:
    """A table of Markdown; names are text, and mean themselves."""
    head = [grid.head, *(f'{c.group} {c.label}'.strip() for c in grid.columns)]
    lines = [head, ['---', *('---:' for _ in grid.columns)]]
    lines += [[name, *cells] for name, _, cells in grid.rows]
    escaped = [
        [cell if i == 1 else markdown_text(cell) for cell in line] for i, line in enumerate(lines)
    ]
    for row, column in grid.best:
        escaped[2 + row][1 + column] = f'**{escaped[2 + row][1 + column]}**'
    return '\n'.join(f'| {" | ".join(line)} |' for line in escaped)


def latex(grid: Grid, caption: str) -> str:
    """A table for a paper, in the style of booktabs."""
    spans = _groups(grid)
    heads, rules, start = [], [], 2
    for group, span in spans:
        heads.append(rf'\multicolumn{{{span}}}{{c}}{{{_tex(group)}}}')
        if group:
            rules.append(rf'\cmidrule(lr){{{start}-{start + span - 1}}}')
        start += span
    lines = [
        r'\begin{table}',
        r'  \centering',
        rf'  \begin{{tabular}}{{l{"r" * len(grid.columns)}}}',
        r'    \toprule',
        # A table whose columns have no groups has one line of heads.
        *([f'    & {" & ".join(heads)} \\\\', f'    {" ".join(rules)}'] if rules else []),
        f'    {grid.head.capitalize()} & {" & ".join(_tex(c.label) for c in grid.columns)} \\\\',
    ]
    kind = None
    for i, (name, row_kind, cells) in enumerate(grid.rows):
        if row_kind != kind:
            lines.append(r'    \midrule')
            kind = row_kind
        shown = [
            rf'\textbf{{{_tex(cell)}}}' if (i, j) in grid.best else _tex(cell)
            for j, cell in enumerate(cells)
        ]
        lines.append(f'    {" & ".join((_tex(name), *shown))} \\\\')
    lines += [
        r'    \bottomrule',
        r'  \end{tabular}',
        rf'  \caption{{{_tex(caption)}}}',
        r'\end{table}',
    ]
    return '\n'.join(lines)


def comma_separated(
    head: Sequence[str], rows: Iterable[Iterable[object]], decimals: int | None = None
) -> str:
    """Rows as CSV that a spreadsheet reads as what it says; None and NaN are empty.

    Args:
        head: Names of the columns.
        rows: Their values.
        decimals: Of floats; without it they have as many as it takes to read the same number.
    """

    def text(value: object) -> object:
        if not isinstance(value, float):
            return csv_value(value)
        if math.isnan(value):
            return ''
        return value if decimals is None else f'{value:.{decimals}f}'

    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(head)
    writer.writerows(map(text, row) for row in rows)
    return out.getvalue()


def csv_value(value: object) -> object:
    """Text that a spreadsheet would run as a formula gets a quote before it."""
    if isinstance(value, str):
        value = tables.clean(value)
        return f"'{value}" if value[:1] in ('=', '+', '-', '@') else value
    return value


def markdown_text(text: str) -> str:
    """Text that means itself in Markdown, inside a table too."""
    text = tables.clean(text).replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')
    # An underscore inside a word is harmless; the ends of words are where emphasis begins.
    return re.sub(r'([\\`*|\[\]#]|(?<!\w)_|_(?!\w))', r'\\\1', text)


def _groups(grid: Grid) -> list[tuple[str, int]]:
    """Neighbouring columns of one group: [('sg', 5), ('qg', 5), ('', 1)]."""
    spans: list[tuple[str, int]] = []
    for column in grid.columns:
        if spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


_TEX = {
    '\\': r'\textbackslash{}', '{': r'\{', '}': r'\}', '$': r'\$', '&': r'\&', '#': r'\#',
    '%': r'\%', '_': r'\_', '~': r'\textasciitilde{}', '^': r'\textasciicircum{}',
    '±': r'$\pm$', '<': r'\textless{}', '>': r'\textgreater{}', '|': r'\textbar{}',
}  # fmt: skip


def _tex(text: str) -> str:
    return ''.join(_TEX.get(char, char) for char in tables.clean(text))
