"""Documents of sections: Markdown, CSV, LaTeX and one HTML page, and the files they are kept in."""

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from xlbench.reporting import layout, notes, render, systems
from xlbench.reporting.paper_tables import making
from xlbench.reporting.results import task_name
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import FIGURE_KINDS, Cell, Figure
from xlbench.system import errors, files, locks

# A file that begins like this is a report and may be written again.
_MARK = 'xlbench report: made by python -m xlbench.report, may be overwritten'

_CSV_FIELDS = (
    'benchmark', 'split', 'data', 'system', 'kind', 'task', 'source', 'target', 'score', 'mean',
    'standard_deviation', 'examples', 'runs', 'seeds', 'steps', 'stages', 'config', 'workdirs',
)  # fmt: skip
_CSV_FIELDS_OF_PAPER = ('benchmark', 'exhibit', 'row', 'kind', 'group', 'column', 'value')


def markdown(sections: Sequence[Section]) -> str:
    """Sets all tables as Markdown."""
    parts = [f'<!-- {_MARK} -->', '# Results']
    for section in sections:
        title, split = map(render.markdown_text, (section.title, section.split))
        parts.append(f'## {title}: {split} split')
        parts += [render.markdown_text(note) for note in section.notes]
        for table in layout.tables(section):
            parts.append(render.markdown(table))
            title = render.markdown_text(table.title)  # A picture lies beside the report.
            pictures = [one.name for one in section.figures if one.numbers is table]
            parts += [f'![{title}]({name}.png)' for name in pictures]
        if configs := systems.config_table(section.picks):
            parts.append(render.markdown(configs))
        parts.append('### Provenance')
        for pick in section.picks:
            facts = notes.provenance(pick).items()
            parts.append('\n'.join(f'- {key}: {render.markdown_text(fact)}' for key, fact in facts))
    return '\n\n'.join(part for part in parts if part) + '\n'


def comma_separated(sections: Sequence[Section]) -> str:
    """Every number as one line: tidy, for other tools; also scores that the tables leave out."""
    if not any(section.columns for section in sections):
        return _paper_csv(sections)
    rows = itertools.chain.from_iterable(map(_csv_rows, sections))
    return render.comma_separated(_CSV_FIELDS, rows)


def _csv_rows(section: Section) -> Iterator[tuple[object, ...]]:
    """Lines in the order of _CSV_FIELDS."""
    tasks = [column.tasks[0] for column in section.columns if len(column.tasks) == 1]
    for system, task in itertools.product(section.systems, tasks):
        plain = dataclasses.replace(system, has_intervals=False)
        name = task_name(task)
        picks = [pick for pick in system.picks if task in pick.results]
        is_setting = system.kind == 'run' and section.model and not system.picks[0].run.system
        shown = f'{system.name}, {section.model}' if is_setting else system.name
        counted = system.count([task])
        count = '' if counted == '-' else counted.replace('-', ' to ')
        about = name.benchmark or section.title, section.split, section.data, shown, system.kind
        runs = (
            ' '.join(str(pick.run.seed) for pick in picks),
            ' '.join(str(pick.step) for pick in picks),
            ' '.join(pick.run.stage_of(pick.step) for pick in picks),
            picks[0].run.config_hash if picks else '',
            ' '.join(str(pick.run.workdir) for pick in picks),
        )
        for score in sorted(plain.scores):
            if (cell := plain.cell(score, [task])).value is not None:
                numbers = score, cell.value, cell.spread, count, len(picks) or len(system.results)
                yield *about, *name[1:], *numbers, *runs


def _paper_csv(sections: Sequence[Section]) -> str:
    """Every number of the tables and figures of a paper as one line."""
    lines = (
        (
            *(one.title.partition(',')[0], table.title.partition(':')[0]),
            *(row.name, row.kind, column.group, column.label),
            _value(cell),
        )
        for one in sections
        for table in one.besides
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if not cell.is_missing
    )
    return render.comma_separated(_CSV_FIELDS_OF_PAPER, lines)


def _value(cell: Cell) -> str | float:
    """A number with all its digits; what is printed may be one, too."""
    if cell.value is not None:
        return cell.value
    try:
        return float(cell.text)
    except ValueError:
        return cell.text


def latex(sections: Sequence[Section]) -> str:
    """Sets all tables for a paper; needs \\usepackage{booktabs,multirow}."""
    parts: list[str] = []
    for section in sections:
        parts += map(render.latex, layout.tables(section))
        for pick in section.picks:
            parts += [f'% {key}: {value}' for key, value in notes.provenance(pick).items()]
    return render.latex_document(parts, _MARK)


def html(sections: Sequence[Section]) -> str:
    """One self-contained page with plots and examples."""
    # It loads matplotlib, which nothing else here needs.
    from xlbench.reporting.page import document

    return document.document(sections, _MARK)


FORMATS: dict[str, tuple[str, Callable[[Sequence[Section]], str]]] = {
    'markdown': ('report.md', markdown),
    'csv': ('report.csv', comma_separated),
    'latex': ('report.tex', latex),
    'html': ('report.html', html),
}


def write(
    sections: Sequence[Section], output: str, formats: Sequence[str], *, with_plots: bool = False
) -> list[str]:
    """Writes the report into a folder, each file whole or not at all; gives the paths.

    `with_plots` writes the plots of scores and logs, too.

    Raises:
      UserError: one of the paths is another's file; nothing has been written then.
    """
    folder = pathlib.Path(output)
    heads = (','.join(_CSV_FIELDS[:10]), ','.join(_CSV_FIELDS_OF_PAPER))
    own = 'a report of xlbench', [_MARK], heads
    for name in formats:  # Before the pages and plots, which take their time.
        files.check_own(folder / FORMATS[name][0], *own)
    texts = {FORMATS[name][0]: FORMATS[name][1](sections) for name in formats}
    has_report = any((folder / name).is_file() for name, _ in FORMATS.values())
    drawn = [figure for section in sections for figure in section.figures]
    if with_plots:
        from xlbench.reporting.page import document  # It loads matplotlib.

        drawn += document.plots(sections)
    pictures = [f'{figure.name}.{kind}' for figure in drawn for kind in FIGURE_KINDS]
    if not has_report and (taken := [name for name in pictures if (folder / name).exists()]):
        raise errors.UserError(
            f'{folder / taken[0]} exists and is no part of a report of xlbench; move it away or '
            'choose another --output'
        )
    return write_texts(texts, output, *own, drawn)


def write_texts(
    contents: Mapping[str, str],
    output: str,
    what: str,
    marks: Sequence[str] = (),
    heads: Sequence[str] = (),
    figures: Sequence[Figure] = (),
) -> list[str]:
    """Writes files into the folder of --output, each whole or not at all; gives the paths.

    Raises:
      UserError: one of the paths is another's file (see `files.check_own`), and nothing has been
        written then; or the folder cannot be written.
    """
    folder = pathlib.Path(output)
    if folder.exists() and not folder.is_dir():
        raise errors.UserError(f'--output={folder} is a file; give a folder')
    try:
        with locks.folder(folder, owned=False):
            for name in contents:
                files.check_own(folder / name, what, marks, heads)
            for name, text in contents.items():
                files.remove_leftovers_of(folder / name)
                files.write(folder / name, text)
            pictures = making.write_figures(figures, folder)
    except OSError as error:
        raise errors.UserError(f'cannot write into {folder}: {error.strerror}') from None
    return [*(str(folder / name) for name in contents), *map(str, pictures)]
