"""The report as one HTML page, with the answer that a reader looks for at the top.

The page is page.html, filled by `template`. All text comes from files that anyone may have written:
the template escapes it, and texts of examples stay JSON (`examples`).
"""

import base64
import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from xlbench.reporting import layout, systems
from xlbench.reporting.page import examples, overview, plots as plots_lib, template
from xlbench.reporting.page.style import Style, of_section
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.tables import Cell, Figure, Row, Table
from xlbench.system.files import Json

_SCRIPTS = ('page.js', 'examples.js')
_SYSTEMS = ('run', 'baseline', 'paper')  # Kinds of rows that are compared and sorted.
_KINDS = (*_SYSTEMS, 'error', 'count', 'average', 'difference', 'p')  # That page.css knows.
_WIDE = 450  # Points; wider plots would be too small on a phone.
# Parts of a section, by the ends of their names.
_PARTS = {
    'scores': 'Scores', 'maps': 'Languages', 'curves': 'Learning curves',
    'examples': 'Examples', 'origins': 'Speed, cost and provenance',
}  # fmt: skip


def document(sections: Sequence[Section], mark: str) -> str:
    """The page.

    Args:
      sections: what to show.
      mark: a comment at its start that says where the file comes from.
    """
    made = [_section(section, f's{i}') for i, section in enumerate(sections, 1)]
    data = {'sections': [one['examples'] for one in made]}
    return template.render(
        __package__, _SCRIPTS, data, images=True, mark=mark, sections=made, parts=_PARTS,
        systems=_SYSTEMS, places=_places(sections, made), title='Results', made_by='xlbench.report',
    )  # fmt: skip


def plots(sections: Sequence[Section]) -> list[Figure]:
    """All plots of scores and logs, as figures that can be files.

    Their names begin with the benchmark and the split, such as mtg_test_ranking.
    """
    made: list[Figure] = []
    prefixes: set[str] = set()
    for section in sections:
        about = section.benchmark.name if section.benchmark else section.title
        plain = prefix = re.sub(r'\W+', '_', f'{about}_{section.split}')
        while prefix in prefixes:  # Such as those of two models on one benchmark.
            prefix = f'{plain}_{len(prefixes) + 1}'
        prefixes.add(prefix)
        groups = _plots(section, of_section(section), prefix)
        made += itertools.chain(*groups.values())
    return made


def _plots(section: Section, style: Style, prefix: str) -> dict[str, list[Figure]]:
    """The plots by the part of the page that they stand in."""
    return {
        'ranking': plots_lib.ranking(section, style, prefix),
        'maps': plots_lib.maps(section, style, prefix),
        'curves': plots_lib.curves(section, style, prefix),
    }


def _section(section: Section, name: str) -> dict[str, object]:
    """Returns what page.html shows of a section."""
    style = of_section(section)
    marks = {system.name: style.mark(system) for system in style.ranked}
    made = layout.tables(section)
    scores = [] if section.tables else [t.title for t in made if t.title in section.scores]

    def shown(table: Table) -> _Shown:
        return _Shown.of(table, marks, table.title if table.title in scores else '')

    tables = [
        (shown(table), [_drawn(figure) for figure in section.figures if figure.numbers is table])
        for table in made
        if table.title not in scores[1:]
    ]
    if configs := systems.config_table(section.picks):
        tables.append((shown(configs), []))
    groups = _plots(section, style, name)
    return {
        'id': name,
        'title': section.title,
        'lead': f'{section.split} split: {overview.compared(section)}',
        'data_note': section.data_note,
        'notes': [note for note in section.notes if note != section.data_note],
        'answer': overview.answer(section, style),
        'tables': tables,
        'folded': [shown(table) for table in made if table.title in scores[1:]],
        'plots': {part: list(map(_drawn, figures)) for part, figures in groups.items()},
        'examples': examples.content(section, style),
        'costs': shown(overview.costs_table(section)) if section.picks else None,
        'runs': overview.runs(section),
    }


class _Drawn(NamedTuple):
    """A plot as the page shows it; `svg` is base64."""

    title: str
    about: str
    svg: str
    is_wide: bool
    is_of_paper: bool


def _drawn(figure: Figure) -> _Drawn:
    svg, notes = figure.svg(), ' '.join(figure.numbers.notes)
    points = float(re.search(r'viewBox="\S+ \S+ ([\d.]+)', svg)[1])
    # Figures of a paper have a table of their numbers beside them, with the notes.
    return _Drawn(
        figure.numbers.title, notes, base64.b64encode(svg.encode()).decode(),
        points > _WIDE, bool(figure.numbers.columns),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Shown:
    """A table as the page shows it.

    Attributes:
      table: what is shown.
      rows: each with its class, and the class of the mark that the system has in plots.
      compared: names of the systems that are sorted and compared with each other.
      reference: the one that others are compared with unless the reader chooses one.
      sense: 1 where higher numbers are better, -1 where lower ones are, 0 if nobody knows.
    """

    table: Table
    rows: Sequence[tuple[Row, str | None, str]]
    compared: Sequence[str]
    reference: str
    sense: int

    @classmethod
    def of(cls, table: Table, marks: dict[str, str], score: str) -> '_Shown':
        """A table whose rows are of systems and their `score`; '' where they are something else."""
        rows = [(row, _class(row), marks.get(row.name, '')) for row in table.rows]
        compared = [row.name for row in table.rows if row.kind in _SYSTEMS] if score else []
        # 'Differences of loss': only of a known score is it clear which sign is a gain.
        sense = direction(table.title.rpartition(' ')[2])
        best = reference(table, score) if len(compared) > 1 else ''
        return cls(table, rows, compared if len(compared) > 1 else [], best, sense)

    @property
    def class_(self) -> str | None:
        """The class of its grid."""
        has_mean = len(self.table.groups) > 1 and self.table.groups[-1] == ('', 1)  # Of all groups.
        return ' '.join(['compared'] * bool(self.compared) + ['overall'] * has_mean) or None

    def attributes(self, cell: Cell) -> dict[str, str | None]:
        """Attributes of a cell; the page's script sorts and subtracts by all digits."""
        classes = ['best'] if cell.best else ['none'] if cell.is_missing else []
        if cell.sign == '+' and cell.value and self.sense:  # A difference.
            classes.append('gain' if cell.value * self.sense > 0 else 'loss')
        value = None if cell.value is None else repr(cell.value)
        return {'class': ' '.join(classes) or None, 'data-value': value}


def _class(row: Row) -> str | None:
    if all(str(cell) == '' for cell in row.cells):
        return 'heading'
    return row.kind if row.kind in _KINDS else None


def reference(table: Table, score: str) -> str:
    """The best of the paper's systems where there is one, else the best baseline.

    It is the best one in the last column.
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


def _places(sections: Sequence[Section], made: Sequence[dict[str, Json]]) -> dict[str, str]:
    """The targets of the links at the top: the sections, or the parts of a single one."""
    if len(sections) == 1:
        (one,) = made
        has = {
            'scores': True, **one['plots'], 'examples': one['examples'], 'origins': one['runs'],
        }  # fmt: skip
        return {f's1-{part}': title for part, title in _PARTS.items() if has[part]}
    titles = [section.title.partition(' (')[0] for section in sections]
    return {
        f's{i}': title if titles.count(title) == 1 else f'{title}, {section.split} split'
        for i, (title, section) in enumerate(zip(titles, sections, strict=True), 1)
    }
