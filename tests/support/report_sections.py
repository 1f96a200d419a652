"""The only section of a report of some workdirs, and its table as text."""

import csv
import io

from xlbench.reporting import documents, layout, results, sections as sections_lib
from xlbench.reporting.sections import Section


def section_of(*paths, step='last', split=None) -> Section:
    """Reads workdirs that one section shows together."""
    sections = sections_lib.sections([results.read_run(path) for path in paths], step, split)
    assert len(sections) == 1
    return sections[0]


def rows_of(section: Section, score: str = 'rouge_l') -> dict[str, dict[str, str]]:
    """Gives the cells of a section's table: {'run': {'qg de': '40.0', ...}, ...}."""
    table = layout.by_system(section, score)
    labels = [f'{column.group} {column.label}'.strip() for column in table.columns]
    return {row.name: dict(zip(labels, map(str, row.cells), strict=True)) for row in table.rows}


def lines_of(section: Section) -> list[dict[str, str]]:
    """Gives the lines of a section's CSV."""
    return list(csv.DictReader(io.StringIO(documents.comma_separated([section]))))
