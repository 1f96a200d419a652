"""Exhibits as a section of a report, as lines of CSV, and as files."""

import pathlib
from collections.abc import Iterable, Iterator, Sequence

from xlbench import files
from xlbench.benchmarks import Exhibit, ParallelBenchmark
from xlbench.reporting import figures, notes as notes_lib, render, sections as sections_lib
from xlbench.reporting.exhibits.making import Material, make
from xlbench.reporting.figures import Figure
from xlbench.reporting.sections import Section
from xlbench.reporting.systems import System
from xlbench.reporting.tables import Cell

CSV_FIELDS = ('benchmark', 'exhibit', 'row', 'kind', 'group', 'column', 'value')


def section(material: Material, exhibits: Sequence[Exhibit]) -> Section:
    """A section of a report that has these tables and figures, and nothing else."""
    made = [make(material, exhibit) for exhibit in exhibits]
    drawn = tuple(one for one in made if isinstance(one, Figure) and not one.numbers.missing)
    tables = [one.numbers if isinstance(one, Figure) else one for one in made]
    benchmark = material.benchmark
    data, split, said, systems = _about(material)
    return Section(
        title=f'{benchmark.name}, {benchmark.title} (arXiv:{benchmark.arxiv})',
        split=split,
        columns=(),
        systems=systems,
        scores=(),
        counts=[],
        notes=said,
        paper_notes=(),
        data=data,
        besides=tuple(tables),
        figures=drawn,
    )


def _about(material: Material) -> tuple[str, str, tuple[str, ...], tuple[System, ...]]:
    """The data, the split, what has to be said of them, and the systems."""
    if isinstance(material.benchmark, ParallelBenchmark):
        board = material.board
        systems = (*board.systems.values(), *board.chains.values())
        return board.data, board.split, board.notes, systems
    every = sections_lib.sections(material.runs, material.step, material.split)
    of_it = [one for one in every if one.benchmark is material.benchmark]
    picks = [pick for one in of_it for pick in one.picks]
    split = of_it[0].split if of_it else 'test'
    data, said = notes_lib.about_data(material.benchmark, split, picks)
    return data, split, tuple(said), tuple(s for one in of_it for s in one.systems)


def comma_separated(sections: Sequence[Section]) -> str:
    """Every number of tables and figures as one line."""
    return render.comma_separated(CSV_FIELDS, _lines(sections))


def _lines(sections: Sequence[Section]) -> Iterator[tuple[str | float, ...]]:
    for one in sections:
        for table in one.besides:
            for row in table.rows:
                for column, cell in zip(table.columns, row.cells, strict=True):
                    if not cell.is_missing:
                        head = (one.title.partition(',')[0], table.title.partition(':')[0])
                        place = (row.name, row.kind, column.group, column.label)
                        yield (*head, *place, _value(cell))


def _value(cell: Cell) -> str | float:
    """A number with all its digits; what is printed may be one, too."""
    if cell.value is not None:
        return cell.value
    try:
        return float(cell.text)
    except ValueError:
        return cell.text


def picture_names(drawn: Iterable[Figure]) -> list[str]:
    """The files that figures become. Example: figure4.svg"""
    return [f'{figure.name}.{kind}' for figure in drawn for kind in figures.KINDS]


def write_figures(drawn: Iterable[Figure], folder: pathlib.Path) -> list[pathlib.Path]:
    """Draws figures into a folder, which is made if it is missing; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in drawn:
        for kind, content in figure.draw(figures.KINDS).items():
            paths.append(folder / f'{figure.name}.{kind}')
            files.write(paths[-1], content)
    return paths


def markdown(figure: Figure) -> str:
    """A picture in Markdown, as it lies beside the report."""
    title = render.markdown_text(figure.numbers.title)
    return f'![{title}]({figure.name}.png)'
