"""The sections of a report of some workdirs, and their tables as text."""

import csv
import io

from xlbench.reporting import documents, layout, results, sections as sections_lib
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import Table


def sections_of(*paths, step='last', split=None, variants=False) -> list[Section]:
    """Reads workdirs, and sorts them into sections."""
    runs = [results.read_run(path) for path in paths]
    return sections_lib.sections(runs, step, split, variants)


def section_of(*paths, **chosen) -> Section:
    """Reads workdirs that one section shows together."""
    (section,) = sections_of(*paths, **chosen)
    return section


def documents_of(section: Section) -> tuple[str, str, str]:
    """Gives a section as Markdown, LaTeX and HTML."""
    made = (documents.markdown, documents.latex, documents.html)
    return tuple(write([section]) for write in made)


def rows_of(section: Section, score: str = 'rouge_l') -> dict[str, dict[str, str]]:
    """Gives the cells of a section's table by system."""
    return named_cells(layout.by_system(section, score))


def named_cells(table: Table) -> dict[str, dict[str, str]]:
    """Gives the cells of a table by row and column: {'run': {'qg de': '40.0', ...}, ...}."""
    labels = [f'{column.group} {column.label}'.strip() for column in table.columns]
    return {row.name: dict(zip(labels, map(str, row.cells), strict=True)) for row in table.rows}


def lines_of(section: Section) -> list[dict[str, str]]:
    """Gives the lines of a section's CSV."""
    return list(csv.DictReader(io.StringIO(documents.comma_separated([section]))))


def texts_of(table: Table) -> dict[str, list[str]]:
    """Gives the cells of a table by row: {'run': ['40.0', ...], ...}."""
    return {row.name: [*map(str, row.cells)] for row in table.rows}


def cells_of(table: Table) -> list[list[str]]:
    return [[*map(str, row.cells)] for row in table.rows]
