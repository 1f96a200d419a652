"""Tables for a paper, in the style of booktabs."""

from collections.abc import Iterable

from xlbench.reporting.tables import Cell, Table, clean

_TEX = {
    '\\': r'\textbackslash{}', '{': r'\{', '}': r'\}', '$': r'\$', '&': r'\&', '#': r'\#',
    '%': r'\%', '_': r'\_', '~': r'\textasciitilde{}', '^': r'\textasciicircum{}',
    '⇒': r'$\Rightarrow$', '↑': r'$\uparrow$', '↓': r'$\downarrow$',
    '±': r'$\pm$', '<': r'\textless{}', '>': r'\textgreater{}', '|': r'\textbar{}',
}  # fmt: skip


def document(parts: Iterable[str], mark: str) -> str:
    """A file of tables and comments, behind a comment that says where it comes from."""
    lines = [f'% {mark}', r'% Needs \usepackage{booktabs} in the preamble.']
    return '\n'.join([*lines, *filter(None, parts)]) + '\n'


def table(table: Table) -> str:
    """A table with its caption; '' if it is missing."""
    if table.missing:
        return ''
    heads, rules, start = [], [], 2
    for group, span in table.groups:
        heads.append(rf'\multicolumn{{{span}}}{{c}}{{{text(group)}}}')
        if group:
            rules.append(rf'\cmidrule(lr){{{start}-{start + span - 1}}}')
        start += span
    lines = [
        r'\begin{table}',
        r'  \centering',
        rf'  \begin{{tabular}}{{l{"r" * len(table.columns)}}}',
        r'    \toprule',
        # A table whose columns have no groups has one line of heads.
        *([f'    & {" & ".join(heads)} \\\\', f'    {" ".join(rules)}'] if rules else []),
        f'    {table.head.capitalize()} & {" & ".join(text(c.label) for c in table.columns)} \\\\',
    ]
    kind = None
    for row in table.rows:
        if row.kind != kind:
            lines.append(r'    \midrule')
            kind = row.kind
        lines.append(f'    {" & ".join((text(row.name), *map(_cell, row.cells)))} \\\\')
    lines += [
        r'    \bottomrule',
        r'  \end{tabular}',
        rf'  \caption{{{text(table.caption)}}}',
        r'\end{table}',
    ]
    return '\n'.join(lines)


def _cell(cell: Cell) -> str:
    return rf'\textbf{{{text(str(cell))}}}' if cell.best else text(str(cell))


def text(plain: str) -> str:
    """Text that means itself in LaTeX."""
    return ''.join(_TEX.get(char, char) for char in clean(plain))
