"""A table as text: for the screen, Markdown, LaTeX or CSV; and text that means itself."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from xlbench.reporting.tables import Table, clean

_TEX = {
    '\\': r'\textbackslash{}', '{': r'\{', '}': r'\}', '$': r'\$', '&': r'\&', '#': r'\#',
    '%': r'\%', '_': r'\_', '~': r'\textasciitilde{}', '^': r'\textasciicircum{}',
    '⇒': r'$\Rightarrow$', '↑': r'$\uparrow$', '↓': r'$\downarrow$',
    '±': r'$\pm$', '<': r'\textless{}', '>': r'\textgreater{}', '|': r'\textbar{}',
    '†': r'\textsuperscript{\dag}',
}  # fmt: skip
_NUMBER = re.compile(r'[-+]?[0-9]*\.?[0-9]+')
_NAME_WIDTH = 24  # Widest name of a row on the screen.
_SENTENCE = 40  # Characters of LaTeX; a single column of longer texts is wrapped.


def plain(table: Table, max_width: int) -> str:
    """A table for the screen, the groups of columns below each other where they do not fit.

    Groups are set apart by a bar, and named above their columns.
    """
    corner = table.title if table.head == 'system' else table.head
    names = [corner, '', *(row.name for row in table.rows)]
    name_width = min(_NAME_WIDTH, max(map(len, names)))
    names = [n if len(n) <= name_width else f'{n[: name_width - 2]}..' for n in names]
    blocks: list[list[list[str]]] = [[]]
    start, room = 0, max_width - name_width
    for name, span in table.groups:
        columns = [
            [table.columns[i].label, *(str(row.cells[i]) for row in table.rows)]
            for i in range(start, start + span)
        ]
        start += span
        widths = [max(map(len, column)) + 1 for column in columns]
        widths[-1] += max(0, len(name) + 1 - sum(widths))
        width = sum(widths)
        if blocks[-1] and width + 2 > room:  # Two for the bar before it.
            blocks.append([])
            room = max_width - name_width
        room -= width + 2
        lines = (map(str.rjust, line, widths) for line in zip(*columns, strict=True))
        title = f' {name or "all"}'[:width].ljust(width)
        blocks[-1].append([title, *map(''.join, lines)])
    made = []
    for groups in blocks:
        rows = zip((name.ljust(name_width) for name in names), *groups, strict=True)
        shown = [' |'.join(row).rstrip() for row in rows]
        shown.insert(2, '-' * max(map(len, shown[:2])))
        made.append('\n'.join(shown))
    return '\n\n'.join(made)


def screen(table: Table, max_width: int = 120) -> str:
    """A table for the screen with its title and notes, or why there is none."""
    if table.missing:
        return f'{table.title}: left out, as {table.missing}'
    return '\n'.join([table.title, plain(table, max_width), *map(clean, table.notes)])


def markdown(table: Table) -> str:
    """A table of Markdown with its title and notes, or why there is none; text means itself."""
    title = f'### {markdown_text(table.title)}'
    if table.missing:
        return f'{title}\n\nLeft out: {markdown_text(table.missing)}.'
    heads = (f'{column.group} {column.label}'.strip() for column in table.columns)
    lines = [[*map(markdown_text, (*table.heads, *heads))]]
    lines.append(['---'] * len(table.heads) + ['---:'] * len(table.columns))
    section = ''
    for number, row in enumerate(table.rows):
        if row.section != section:
            section = row.section
            lines.append([f'*{markdown_text(section)}*', *[''] * (len(lines[0]) - 1)])
        labels = enumerate(table.labels_of(row))
        shown = (label * bool(table.span(number, place)) for place, label in labels)
        cells = ((markdown_text(str(cell)), cell.best) for cell in row.cells)
        texts = (f'**{text}**' if best else text for text, best in cells)
        lines.append([*map(markdown_text, shown), *texts])
    return '\n\n'.join(filter(None, (title, grid(lines), items(table.notes))))


def grid(lines: Iterable[Iterable[str]]) -> str:
    """Lines of a table of Markdown, whose cells are Markdown."""
    return '\n'.join(f'| {" | ".join(line)} |' for line in lines)


def items(lines: Iterable[str]) -> str:
    """A list of Markdown; the lines mean themselves, with `|` as typed: no table begins there."""
    return '\n'.join(f'- {markdown_text(line)}'.replace(r'\|', '|') for line in lines)


def markdown_text(text: str) -> str:
    """Text that means itself in Markdown, inside a table too.

    In a terminal it reads as it is meant: `a -> b && c` stays, as no Markdown begins there.
    """
    text = re.sub(r'&(?=#?\w+;)', '&amp;', clean(text)).replace('<', '&lt;')
    # An underscore inside a word is harmless; the ends of words are where emphasis begins.
    return re.sub(r'([\\`*|\[\]#]|^>|(?<!\w)_|_(?!\w))', r'\\\1', text)


def code_block(text: str, language: str = '') -> list[str]:
    """Lines of a block of code, of a language such as sh, which nothing inside can close."""
    lines = [clean(line) for line in text.split('\n')]
    longest = max((len(run) for run in re.findall('`+', text)), default=0)
    fence = '`' * max(3, longest + 1)
    return [f'{fence}{language}', *lines, fence]


def comma_separated(
    head: Sequence[str], rows: Iterable[Iterable[object]], decimals: int | None = None
) -> str:
    """Writes rows as CSV whose cells no spreadsheet takes for formulas; None and NaN are empty.

    Without `decimals` floats have as many as it takes to read the same number.
    """

    def text(value: object) -> object:
        if isinstance(value, float):
            shown = value if decimals is None else f'{value:.{decimals}f}'
            return '' if math.isnan(value) else shown
        if not isinstance(value, str):
            return value
        value = clean(value)
        # A spreadsheet would run it; a number is none.
        is_formula = value[:1] in ('=', '+', '-', '@') and not _NUMBER.fullmatch(value)
        return f"'{value}" if is_formula else value

    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(head)
    writer.writerows(map(text, row) for row in rows)
    return out.getvalue()


def table_csv(table: Table) -> str:
    """A table as CSV: its heads in their lines, then its rows; '' if it is missing."""
    if table.missing:
        return ''
    groups = [*[''] * len(table.heads), *(column.group for column in table.columns)]
    names = [*table.heads, *(column.label for column in table.columns)]
    rows = (
        [*table.labels_of(row), *('' if cell.is_missing else str(cell) for cell in row.cells)]
        for row in table.rows
    )
    first, *more = [groups, names] if any(groups) else [names]
    return comma_separated(first, [*more, *rows])


def latex_document(parts: Iterable[str], mark: str = '') -> str:
    """A file of tables and comments, behind a comment that says where it comes from."""
    lines = [f'% {mark}'] if mark else []
    lines.append(r'% Needs \usepackage{booktabs,multirow} in the preamble.')
    return '\n'.join([*lines, *filter(None, parts)]) + '\n'


def latex(table: Table) -> str:
    """A table with its caption, which needs booktabs and multirow; '' if it is missing."""
    if table.missing:
        return ''
    labels = (table.head.capitalize(),) if table.labels is None else table.labels
    longest = max((len(str(cell)) for row in table.rows for cell in row.cells), default=0)
    is_wrapped = len(table.columns) == 1 and longest >= _SENTENCE
    shapes = r'p{0.8\linewidth}' if is_wrapped else 'r' * len(table.columns)
    lines, kind, section = _latex_heads(table, labels), None, ''
    for number, row in enumerate(table.rows):
        lines += [r'\midrule'] * (row.kind != kind)
        kind = row.kind
        if row.section != section:
            section = row.section
            whole = rf'\multicolumn{{{len(labels) + len(table.columns)}}}{{c}}'
            lines += [rf'{whole}{{\textit{{{latex_text(section)}}}}} \\', r'\midrule']
        names = []
        for place, label in enumerate(map(latex_text, table.labels_of(row))):
            span = table.span(number, place)  # Over all rows below that share it.
            names.append(rf'\multirow{{{span}}}{{*}}{{{label}}}' if span > 1 else label * span)
        cells = ((latex_text(str(cell)), cell.best) for cell in row.cells)
        texts = (rf'\textbf{{{text}}}' if best else text for text, best in cells)
        lines.append(rf'{" & ".join((*names, *texts))} \\')
    name = 'table*' if table.reference else 'table'
    below = [rf'  \label{{tab:{table.reference}}}'] if table.reference else []
    notes = [f'% {note}' for note in table.notes] if table.reference else []
    return '\n'.join([
        rf'\begin{{{name}}}',
        r'  \centering',
        rf'  \begin{{tabular}}{{{"l" * len(labels)}{shapes}}}',
        r'    \toprule',
        *(f'    {line}' for line in lines),
        r'    \bottomrule',
        r'  \end{tabular}',
        rf'  \caption{{{latex_text(table.caption)}}}',
        *below,
        rf'\end{{{name}}}',
        *notes,
    ])  # fmt: skip


def _latex_heads(table: Table, labels: Sequence[str]) -> list[str]:
    """Lines of heads: groups over their columns, where some have a name, then the columns."""
    cells, rules, start = [''] * len(labels), [], len(labels) + 1
    for group, span in table.groups:
        cells.append(rf'\multicolumn{{{span}}}{{c}}{{{latex_text(group)}}}')
        rules += [rf'\cmidrule(lr){{{start}-{start + span - 1}}}'] * bool(group)
        start += span
    lines = [rf'{" & ".join(cells)} \\', ' '.join(rules)] if rules else []
    names = map(latex_text, (*labels, *(column.label for column in table.columns)))
    return [*lines, rf'{" & ".join(names)} \\']


def latex_text(plain: str) -> str:
    """Text that means itself in LaTeX; what stands before a negative number is a minus."""
    return re.sub(r'(?<![^\s(])-(?=[0-9.])', '$-$', ''.join(_TEX.get(c, c) for c in clean(plain)))


# The ending of a file of tables, and what writes it, by the name of the format.
FORMATS: Mapping[str, tuple[str, Callable[[Sequence[Table]], str]]] = {
    'markdown': ('md', lambda tables: '\n\n'.join(map(markdown, tables)) + '\n'),
    'latex': ('tex', lambda tables: latex_document(map(latex, tables))),
    'csv': ('csv', lambda tables: '\n'.join(map(table_csv, tables))),
}
