"""A paper's table in its own form as Markdown, LaTeX or CSV: from its numbers, or from runs."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xlbench.benchmarks import TRANSLATION, Benchmark, ParallelBenchmark
from xlbench.benchmarks.paper import OUR_NAMES, Key, Line, PaperTable
from xlbench.reporting import render, tables
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell
from xlbench.system import errors

_SENTENCE = 40  # Characters; a text with more needs several lines.


class Sheet(NamedTuple):
    """A table of a paper with its cells.

    Attributes:
      benchmark: name of the benchmark.
      form: its heads, labels and order.
      cells: texts, row by row.
      notes: sentences that stand below it.
      whose: what the caption ends with. Example: as printed in arXiv:2202.05599
    """

    benchmark: str
    form: PaperTable
    cells: Sequence[Sequence[str]]
    notes: tuple[str, ...]
    whose: str

    @property
    def caption(self) -> str:
        """The caption, without the number of the table."""
        return f'{self.form.title} ({self.whose}).'


def of_paper(benchmark: Benchmark, number: str) -> list[Sheet]:
    """Tables with the numbers that a paper prints, of one number such as 4, or 'all'.

    Raises:
      UserError: the paper prints no scores in such a table.
    """
    forms = {t.number: t for t in benchmark.paper_tables if t.printed and t.rows}
    if number != 'all' and number not in forms:
        raise errors.UserError(
            f'table {number} of {benchmark.name} has no printed numbers; those with numbers are '
            f'{", ".join(forms)}, and --table=all selects all'
        )
    chosen = forms.values() if number == 'all' else [forms[number]]
    whose = f'as printed in arXiv:{benchmark.arxiv}'
    return [Sheet(benchmark.name, f, f.cells(f.printed_value), f.notes, whose) for f in chosen]


def of_systems(
    benchmark: Benchmark,
    form: PaperTable,
    systems: Mapping[tuple[str, str], System],
    notes: Sequence[str] = (),
) -> Sheet:
    """A table with the scores of runs; a cell without any has a '-'.

    Systems have the paper's name of the model and the scenario, or '' for all scenarios.
    """

    def value(key: Key, score: str) -> str | None:
        model = key['model']
        system = systems.get((model, key['scenario'])) or systems.get((model, ''))
        home = TRANSLATION if key['task'] in TRANSLATION.tasks else benchmark
        same = [task for task, of in home.paper_tasks.items() if of == key['task']]
        for task in (key['task'], *same) if system else ():
            # Without languages a table has the mean over all pairs of a scenario.
            is_one = not isinstance(home, ParallelBenchmark) or 'source' in key
            pairs = [(key['source'], key['target'])] if is_one else home.pairs(key['scenario'])
            names = [home.task_name(task, *pair) for pair in pairs]
            cell = system.cell(OUR_NAMES.get(score, score), names)
            if cell.value is not None:
                scale = 100 if score in home.fractions else 1
                spread = None if cell.spread is None else cell.spread / scale
                digits = form.decimals(score)
                return str(Cell(cell.value / scale, spread, digits, mark=cell.mark))
        return None

    cells, asked = form.cells(value), dict.fromkeys(s for h in form.columns for s in h.scores)
    known = {score for one in systems.values() for score in one.scores}
    lacking = [score for score in asked if OUR_NAMES.get(score, score) not in known]
    said = [f'No run has {", ".join(lacking)}.'] if lacking else []
    said += gaps(form, cells, lacking)
    return Sheet(benchmark.name, form, cells, (*form.notes, *said, *notes), 'our runs')


def gaps(
    form: PaperTable, cells: Sequence[Sequence[str]], lacking: Sequence[str] = ()
) -> list[str]:
    """Names the rows and the columns of a table in which there is nothing; see `tables.gaps`.

    Args:
      form: of the table.
      cells: its texts, row by row.
      lacking: scores whose columns are named elsewhere.
    """
    empty = [[not cell.strip('- /') for cell in row] for row in cells]
    known = [place for place, of in enumerate(form.columns) if set(of.scores) <= {*lacking}]
    labels = [[*filter(None, of.labels)] for of in form.rows]
    return tables.gaps(labels, [column.path for column in form.columns], empty, known)


def markdown(sheet: Sheet) -> str:
    """A table of Markdown; groups of columns stand before the names in them."""
    form, escaped = sheet.form, render.markdown_text
    heads = [*form.labels, *(' '.join(filter(None, column.path)) for column in form.columns)]
    lines = [[*map(escaped, heads)], ['---'] * len(form.labels) + ['---:'] * len(form.columns)]
    section = ''
    for number, (line, cells) in enumerate(zip(form.rows, sheet.cells, strict=True)):
        if line.section != section:
            section = line.section
            lines.append([f'*{escaped(section)}*', *[''] * (len(heads) - 1)])
        spans = (_span(form, number, place) for place in range(len(form.labels)))
        labels = (label * bool(n) for label, n in zip(line.labels, spans, strict=True))
        lines.append([*map(escaped, (*labels, *cells))])
    title = f'### {form.name.capitalize()}: {escaped(sheet.caption)}'
    return '\n\n'.join(filter(None, (title, render.grid(lines), render.items(sheet.notes))))


def comma_separated(sheet: Sheet) -> str:
    """The heads in their lines, then the rows with all their labels, as CSV."""
    form = sheet.form
    paths = render.whole_paths([column.path for column in form.columns])
    *groups, names = zip(*paths, strict=True)
    heads = [*([*[''] * len(form.labels), *level] for level in groups), [*form.labels, *names]]
    rows = [
        [*line.labels, *('' if cell == '-' else cell for cell in cells)]
        for line, cells in zip(form.rows, sheet.cells, strict=True)
    ]
    return render.comma_separated(heads[0], [*heads[1:], *rows])


def latex(sheet: Sheet) -> str:
    """A table environment; needs booktabs and multirow."""
    form, tex = sheet.form, render.latex_text
    width = len(form.labels) + len(form.columns)
    # Sentences are wrapped.
    longest = max((len(cell) for cells in sheet.cells for cell in cells), default=0)
    shapes = ('r' if longest < _SENTENCE else r'p{0.8\linewidth}') * len(form.columns)
    lines = render.latex_heads(form.labels, [column.path for column in form.columns])
    lines.append(r'\midrule')
    section = ''
    for number, (line, cells) in enumerate(zip(form.rows, sheet.cells, strict=True)):
        if line.section != section:
            lines += [r'\midrule'] * bool(section)
            section = line.section
            named = rf'\multicolumn{{{width}}}{{c}}{{\textit{{{tex(section)}}}}}'
            lines += [rf'{named} \\', r'\midrule']
        elif number and len(line.labels) > 2 and line.labels[0] != form.rows[number - 1].labels[0]:
            lines += [r'\midrule'] * (not section)
        labels = []
        for place, label in enumerate(map(tex, line.labels)):
            span = _span(form, number, place)  # Over all rows below that share it.
            labels.append(rf'\multirow{{{span}}}{{*}}{{{label}}}' if span > 1 else label * span)
        lines.append(rf'{" & ".join((*labels, *map(tex, cells)))} \\')
    label = rf'\label{{tab:{sheet.benchmark}-{form.name.replace(" ", "-")}}}'
    shapes = 'l' * len(form.labels) + shapes
    made = render.environment('table*', shapes, lines, sheet.caption, [label])
    made = '\n'.join([made, *(f'% {note}' for note in sheet.notes)])
    return made.replace('†', r'\textsuperscript{\dag}')


def _span(form: PaperTable, number: int, place: int) -> int:
    """The number of rows that a label stands for; 0 where it stands above already."""

    def shared(line: Line) -> tuple[str, ...]:
        pairs = zip(form.labels[: place + 1], line.labels, strict=False)
        return (line.section, *(label for head, label in pairs if head != '#'))

    labels, mine = form.rows[number].labels, shared(form.rows[number])
    if form.labels[place] == '#' or not any(labels[place + 1 :]):
        return 1
    if number and shared(form.rows[number - 1]) == mine:
        return 0
    return len(list(itertools.takewhile(lambda line: shared(line) == mine, form.rows[number:])))


def latex_document(sheets: Sequence[Sheet]) -> str:
    """A file of tables, behind the packages that they need."""
    needs = r'% Needs \usepackage{booktabs,multirow} in the preamble.'
    return '\n\n'.join([needs, *map(latex, sheets)]) + '\n'


FORMATS: Mapping[str, tuple[str, Callable[[Sequence[Sheet]], str]]] = {
    'markdown': ('md', lambda sheets: '\n\n'.join(map(markdown, sheets)) + '\n'),
    'latex': ('tex', latex_document),
    'csv': ('csv', lambda sheets: '\n'.join(map(comma_separated, sheets))),
}
