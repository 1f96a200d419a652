r"""Tables of finished runs, beside the baselines and, on the official data, the paper's systems.

  python -m xlbench.report WORKDIR [WORKDIR ...] [--output=FOLDER] [--step=last|best|N]
                           [--format=markdown,csv,latex,html] [--split=test]

Without --output the report goes to the screen, as Markdown unless --format says otherwise. With
--output, report.md, report.csv, report.tex and report.html are written into that folder; a file of
that name which is no report of ours is left alone, and the command fails. Runs that differ in the
seed only become one row: mean and standard deviation.

The tables of reply suggestion have a row a language and a column a training setting, as the paper's
(arXiv:2106.02017): there the ten monolingual runs of one model are one column, and a cell that no
run fills is '-'.
"""

import argparse
import csv
import io
import os
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Sequence

from xlbench import benchmarks, errors, tables
from xlbench.results import read_run
from xlbench.tables import Grid, Section

# A file that begins like this is a report and may be written again.
_MARK = 'xlbench report: made by python -m xlbench.report, may be overwritten'

_CSV_FIELDS = (
    'benchmark', 'split', 'data', 'system', 'kind', 'task', 'source', 'target', 'score', 'mean',
    'standard_deviation', 'runs', 'seeds', 'steps', 'config', 'workdirs',
)  # fmt: skip
_NAME_WIDTH = 24  # Widest name of a row on the screen.


def table(
    workdir: str, step: str | int = 'last', split: str | None = None, max_width: int = 120
) -> str:
    """The benchmark's own table of one run as plain text, for the end of a training run.

    Args:
        workdir: The run's folder.
        step: 'last', 'best' or a step.
        split: By default the test split if it was scored, else validation.
        max_width: Tables are split between tasks where they would be wider, in characters.
    """
    blocks = []
    for section in tables.sections([read_run(workdir)], step, split):
        shown = f'{section.split} split, step {section.picks[0].step}'
        sample = ' [SAMPLE DATA]' if section.data == 'sample' else ''
        blocks.append(textwrap.fill(f'{section.title}: {shown}{sample}', max_width))
        grids = tables.grids(section)
        if section.tables:
            blocks += [_plain_grid(grid, max_width) for grid in grids]
        else:  # A table a score would be long: of the other scores, averages.
            blocks += [_plain_grid(grids[0], max_width), _averages(section, max_width)]
        lines = {line for score in section.scores for line in tables.signatures(section, score)}
        said = [textwrap.fill(line, max_width) for line in (*section.notes, *sorted(lines))]
        blocks.append('\n'.join(said))
    return '\n\n'.join(filter(None, blocks))


def markdown(sections: Sequence[Section]) -> str:
    """All tables as Markdown."""
    parts = [f'<!-- {_MARK} -->', '# Results']
    for section in sections:
        parts.append(f'## {_md(section.title)}: {_md(section.split)} split')
        parts += [_md(note) for note in section.notes]
        for grid in tables.grids(section):
            parts += [f'### {_md(grid.title)}', _markdown_grid(grid)]
            parts.append('\n'.join(f'- {_md(s)}' for s in tables.beneath(section, grid)))
        parts.append('### Provenance')
        for pick in section.picks:
            facts = tables.provenance(pick).items()
            parts.append('\n'.join(f'- {key}: {_md(value)}' for key, value in facts))
    return '\n\n'.join(part for part in parts if part) + '\n'


def comma_separated(sections: Sequence[Section]) -> str:
    """Every number as one line: tidy, for other tools; also scores that the tables leave out."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _CSV_FIELDS, lineterminator='\n')
    writer.writeheader()
    for section in sections:
        for system in section.systems:
            names = sorted({name for run in system.scores for t in run.values() for name in t})
            for column in (c for c in section.columns if len(c.tasks) == 1):
                for score in names:
                    if cell := system.value(score, column.tasks):
                        row = _csv_row(section, system, column.tasks[0], score, cell)
                        writer.writerow({key: _csv(value) for key, value in row.items()})
    return out.getvalue()


def latex(sections: Sequence[Section]) -> str:
    """All tables for a paper; needs \\usepackage{booktabs}."""
    parts = [f'% {_MARK}', r'% Needs \usepackage{booktabs} in the preamble.']
    for section in sections:
        for grid in tables.grids(section):
            parts.append(_latex_grid(section, grid))
        for pick in section.picks:
            facts = tables.provenance(pick).items()
            parts += [f'% {key}: {value}' for key, value in facts]
    return '\n'.join(parts) + '\n'


def html(sections: Sequence[Section]) -> str:
    """One self-contained page with plots."""
    from xlbench import page  # It loads matplotlib, which nothing else here needs.

    return page.render(sections, _MARK)


_FORMATS: dict[str, tuple[str, Callable[[Sequence[Section]], str]]] = {
    'markdown': ('report.md', markdown),
    'csv': ('report.csv', comma_separated),
    'latex': ('report.tex', latex),
    'html': ('report.html', html),
}


def write(sections: Sequence[Section], output: str, formats: Sequence[str]) -> list[str]:
    """Writes the report into a folder, each file whole or not at all.

    Returns:
        The paths. Raises UserError, before anything is written, if one of them is another's file.
    """
    folder = pathlib.Path(output)
    if folder.exists() and not folder.is_dir():
        raise errors.UserError(f'--output={output} is a file; give a folder')
    for name in formats:
        _refuse_foreign(folder / _FORMATS[name][0])
    texts = {_FORMATS[name][0]: _FORMATS[name][1](sections) for name in formats}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            temporary = folder / f'.{name}.{os.getpid()}.tmp'
            temporary.write_text(text, encoding='utf-8')
            temporary.replace(folder / name)
    except OSError as error:
        raise errors.UserError(f'cannot write into {output}: {error.strerror}') from None
    return [str(folder / name) for name in texts]


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    args = _parse(argv)
    formats = (
        args.format.split(',') if args.format else list(_FORMATS if args.output else ['markdown'])
    )
    for name in formats:
        if name not in _FORMATS:
            raise errors.unknown('format', name, _FORMATS)
    if len(formats) > 1 and not args.output:
        raise errors.UserError('several formats need --output=FOLDER; without it give one')
    runs = [read_run(folder) for folder in dict.fromkeys(args.workdir)]
    sections = tables.sections(runs, args.step, args.split)
    if args.output:
        for path in write(sections, args.output, formats):
            print(f'wrote {path}')
    else:
        print(_FORMATS[formats[0]][1](sections), end='')
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = errors.ArgumentParser('python -m xlbench.report', __doc__)
    parser.add_argument('workdir', nargs='+', help='folder of a training run')
    parser.add_argument('--output', help='folder to write the report into')
    parser.add_argument('--format', help='markdown, csv, latex, html: one or several, with commas')
    parser.add_argument('--step', default='last', help='last, best or a step')
    parser.add_argument('--split', help='by default test if it was scored, else validation')
    return parser.parse_args(argv)


def _refuse_foreign(path: pathlib.Path) -> None:
    """Raises unless the path is free or holds a report of ours."""
    if not (path.exists() or path.is_symlink()):
        return
    start = ''
    if path.is_file() and not path.is_symlink():
        with path.open(encoding='utf-8', errors='replace') as file:
            start = file.read(300)
    if _MARK not in start and not start.startswith(','.join(_CSV_FIELDS)):
        raise errors.UserError(
            f'{path} exists and is no report of ours; move it away or choose another --output'
        )


def _groups(grid: Grid) -> list[tuple[str, int]]:
    """Neighbouring columns of one group: [('sg', 5), ('qg', 5), ('', 1)]."""
    spans: list[tuple[str, int]] = []
    for column in grid.columns:
        if spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


def _plain_grid(grid: Grid, max_width: int) -> str:
    """A table for the screen, the groups of columns below each other where they do not fit."""
    widths = [
        max(len(column.label), *(len(cells[i]) for _, _, cells in grid.rows)) + 1
        for i, column in enumerate(grid.columns)
    ]
    names = [name for name, _, _ in grid.rows]
    if grid.head != 'system':
        names.append(grid.head)
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


def _averages(section: Section, max_width: int) -> str:
    """The other scores in short: one column per score and task, averaged over its languages."""
    last = {column.group: i for i, column in enumerate(section.columns)}
    columns = []
    lines: dict[str, list[str]] = {system.name: [] for system in section.systems}
    for score in section.scores[1:]:
        rows = {name: cells for name, _, cells in tables.grid(section, score).rows}
        for group, index in last.items():
            columns.append(tables.Column(score, group or 'all', ()))
            for name, line in lines.items():
                line.append(rows[name][index] if name in rows else '-')
    if not columns:
        return ''
    rows = tuple((name, '', tuple(cells)) for name, cells in lines.items())
    return _plain_grid(Grid(('averages',), tuple(columns), rows), max_width)


def _markdown_grid(grid: Grid) -> str:
    head = [grid.head, *(f'{c.group} {c.label}'.strip() for c in grid.columns)]
    lines = [head, ['---', *('---:' for _ in grid.columns)]]
    lines += [[name, *cells] for name, _, cells in grid.rows]
    escaped = [[cell if i == 1 else _md(cell) for cell in line] for i, line in enumerate(lines)]
    return '\n'.join(f'| {" | ".join(line)} |' for line in escaped)


def _latex_grid(section: Section, grid: Grid) -> str:
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
        f'    & {" & ".join(heads)} \\\\',
        f'    {" ".join(rules)}',
        f'    {grid.head.capitalize()} & {" & ".join(_tex(c.label) for c in grid.columns)} \\\\',
    ]
    kind = None
    for name, row_kind, cells in grid.rows:
        if row_kind != kind:
            lines.append(r'    \midrule')
            kind = row_kind
        lines.append(f'    {" & ".join(map(_tex, (name, *cells)))} \\\\')
    said = [f'{grid.title}, {section.split} split of {section.title}']
    said += [line.removesuffix('.') for line in tables.beneath(section, grid)]
    lines += [
        r'    \bottomrule',
        r'  \end{tabular}',
        rf'  \caption{{{_tex(". ".join(said))}.}}',
        r'\end{table}',
    ]
    return '\n'.join(lines)


def _csv_row(
    section: Section, system: tables.System, task: str, score: str, cell: tables.Cell
) -> dict[str, object]:
    try:
        name = benchmarks.parse_task(task)
    except errors.UserError:  # A task of the user's own.
        name = benchmarks.TaskName('', task, '', '')
    picks = [pick for pick in system.picks if task in pick.results]
    is_setting = system.kind == 'run' and section.model
    return {
        'benchmark': name.benchmark or section.title,
        'split': section.split,
        'data': section.data,
        'system': f'{system.name}, {section.model}' if is_setting else system.name,
        'kind': system.kind,
        'task': name.task,
        'source': name.source,
        'target': name.target,
        'score': score,
        'mean': cell.mean,
        'standard_deviation': '' if cell.deviation is None else cell.deviation,
        'runs': len(picks) or len(system.scores),
        'seeds': ' '.join(str(pick.run.seed) for pick in picks),
        'steps': ' '.join(str(pick.step) for pick in picks),
        'config': picks[0].run.config_hash if picks else '',
        'workdirs': ' '.join(str(pick.run.workdir) for pick in picks),
    }


def _csv(value: object) -> object:
    """Text that a spreadsheet would run as a formula gets a quote before it."""
    if isinstance(value, str):
        value = tables.clean(value)
        return f"'{value}" if value[:1] in ('=', '+', '-', '@') else value
    return value


def _md(text: str) -> str:
    """Text that means itself in Markdown, inside a table too."""
    text = tables.clean(text).replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')
    # An underscore inside a word is harmless; the ends of words are where emphasis begins.
    return re.sub(r'([\\`*|\[\]#]|(?<!\w)_|_(?!\w))', r'\\\1', text)


_TEX = {
    '\\': r'\textbackslash{}', '{': r'\{', '}': r'\}', '$': r'\$', '&': r'\&', '#': r'\#',
    '%': r'\%', '_': r'\_', '~': r'\textasciitilde{}', '^': r'\textasciicircum{}',
    '±': r'$\pm$', '<': r'\textless{}', '>': r'\textgreater{}', '|': r'\textbar{}',
}  # fmt: skip


def _tex(text: str) -> str:
    return ''.join(_TEX.get(char, char) for char in tables.clean(text))


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
