"""The report as one HTML page, with the answer that a reader looks for at the top.

The page is page.html, filled by `template`. All text comes from files that anyone may have written:
the template escapes it, and texts of examples stay JSON (`examples`).
"""

import base64
import dataclasses
import itertools
import json
import re
import statistics
import warnings
from collections.abc import Sequence
from typing import Any

from xlbench.reporting import layout, notes, origins, systems
from xlbench.reporting.page import examples, plots as plots_lib, template
from xlbench.reporting.page.plots import Style, of_section, training_series
from xlbench.reporting.sections import Section, direction
from xlbench.reporting.statistics import half_width
from xlbench.reporting.systems import Pick, System
from xlbench.reporting.tables import Cell, Column, Figure, Row, Table
from xlbench.system import errors, sessions
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
    """The page; the mark is a comment at its start that says where the file comes from."""
    made = [_section(section, f's{i}') for i, section in enumerate(sections, 1)]
    data = {'sections': [one['examples'] for one in made]}
    return template.render(
        __package__, _SCRIPTS, data, images=True, mark=mark, sections=made, parts=_PARTS,
        systems=_SYSTEMS, places=_places(sections, made), title='Results', made_by='xlbench.report',
    )  # fmt: skip


def of_tables(
    title: str, sections: Sequence[tuple[str, str, Table]], mark: str, made_by: str
) -> str:
    """A page of tables alone, whose rows can be sorted: a title, a line and a table each."""
    made: list[dict[str, Any]] = [
        {
            'id': f's{i}', 'title': head, 'lead': lead, 'data_note': '', 'notes': [],
            'answer': None, 'folded': [], 'examples': None, 'runs': [],
            'tables': [(_Shown.of(table, {}, table.title), [])],
            'plots': dict.fromkeys(('maps', 'curves'), ()),
        }
        for i, (head, lead, table) in enumerate(sections, 1)
    ]  # fmt: skip
    data = {'sections': [None for _ in made]}
    places = {one['id']: one['title'] for one in made}
    return template.render(
        __package__, _SCRIPTS, data, mark=mark, sections=made, parts=_PARTS, systems=_SYSTEMS,
        places=places, title=title, made_by=made_by,
    )  # fmt: skip


def plots(sections: Sequence[Section]) -> list[Figure]:
    """All plots of scores and logs, as figures that can be files.

    Their names begin with the benchmark and the split, such as mtg_test_curve_1.
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
        'lead': f'{section.split} split',
        'data_note': section.data_note,
        'notes': [note for note in section.notes if note != section.data_note],
        'answer': _answer(section, style),
        'tables': tables,
        'folded': [shown(table) for table in made if table.title in scores[1:]],
        'plots': {part: list(map(_drawn, figures)) for part, figures in groups.items()},
        'examples': examples.content(section, style),
        'runs': [_of_run(pick) for pick in {id(pick.run): pick for pick in section.picks}.values()],
    }


def _drawn(figure: Figure) -> dict[str, str | bool]:
    """Returns what page.html shows of a plot."""
    svg = figure.svg()
    points = float(svg.partition('viewBox="')[2].split()[2])
    return {
        'title': figure.numbers.title,
        'about': ' '.join(figure.numbers.notes),
        'svg': base64.b64encode(svg.encode()).decode(),
        'is_wide': points > _WIDE,
        # Then a table of its numbers stands beside it, with the notes.
        'is_of_paper': bool(figure.numbers.columns),
    }


@dataclasses.dataclass(frozen=True)
class _Shown:
    """A table as the page shows it.

    Each row has its class, and that of the mark that the system has in plots. The systems that are
    `compared` are sorted, and subtracted from the `reference` unless the reader chooses another.
    """

    table: Table
    rows: Sequence[tuple[Row, str | None, str]]
    compared: Sequence[str]
    reference: str

    @classmethod
    def of(cls, table: Table, marks: dict[str, str], score: str) -> '_Shown':
        """A table whose rows are of systems and their `score`; '' where they are something else."""
        rows = [(row, _class(row), marks.get(row.name, '')) for row in table.rows]
        compared = [row.name for row in table.rows if row.kind in _SYSTEMS] if score else []
        best = reference(table, score) if len(compared) > 1 else ''
        return cls(table, rows, compared if len(compared) > 1 else [], best)

    @property
    def class_(self) -> str | None:
        """The class of its grid."""
        has_mean = len(self.table.groups) > 1 and self.table.groups[-1] == ('', 1)  # Of all groups.
        return ' '.join(['compared'] * bool(self.compared) + ['overall'] * has_mean) or None

    def attributes(self, cell: Cell) -> dict[str, str | None]:
        """Attributes of a cell; the page's script sorts and subtracts by all digits."""
        value = None if cell.value is None else repr(cell.value)
        kind = 'best' if cell.best else 'none' if cell.is_missing else None
        return {'class': kind, 'data-value': value}


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
            (value * direction(score), row.name)
            for row in table.rows
            if row.kind == kind and (value := row.cells[-1].value) is not None
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


def _answer(section: Section, style: Style) -> dict[str, Json] | None:
    """The main score of the best run beside the next one, the best baseline and the paper.

    Each of these `others` is a line: 'best baseline', its name, its score, the difference to it.
    """
    if style.column is None or not style.ranked:
        return None
    score, tasks, best = section.scores[0], style.column.tasks, style.ranked[0]
    decimals, sign = section.decimals_of(score), direction(score)
    cells = {s.name: s.cell(score, tasks, decimals) for s in section.systems}
    if (value := cells[best.name].value) is None:
        return None
    others = []
    kinds = (('run', 'next best'), ('baseline', 'best baseline'), ('paper', "the paper's best"))
    for kind, label in kinds:
        known = {
            s.name: number for s in section.systems
            if s.kind == kind and s is not best
            and (number := cells[s.name].value) is not None
            # The notes say of others that they do not compare.
            and (kind == 'paper' or s.count(tasks) == best.count(tasks))
        }  # fmt: skip
        if known:
            top = max(known, key=lambda name: sign * known[name])
            difference = f'{value - known[top]:+.{decimals}f}'
            others.append((label, top, str(cells[top]), difference))
    where = _where(style, style.column, [s for s in style.ranked if not cells[s.name].is_missing])
    seeds = best.values(score, tasks)
    if len(seeds) > 1:
        where += f', {len(seeds)} seeds, 95 % interval ±{half_width(seeds):.{decimals}f}'
    else:
        where += ', one seed'
    return {
        'system': best.name, 'mark': style.mark(best), 'value': f'{value:.{decimals}f}',
        'score': score, 'where': where, 'others': others,
    }  # fmt: skip


def _where(style: Style, column: Column, scored: Sequence[System]) -> str:
    """Returns what the score is of. Example: 'mean over 4 tasks and languages of qg'."""
    if len(column.tasks) > 1:
        of = f' of {column.group}' if column.group else ''
        where = f'mean over {len(column.tasks)} tasks and languages{of}'
    else:
        where = f'{column.group} {column.label}'.strip()
    every = len(style.ranked)
    if len(scored) < every:
        where += f' ({len(scored)} of {every} systems have this score)'
    counts = [system.count(column.tasks) for system in scored]
    if len(alike := [count for count in counts if count == counts[0]]) < len(counts):
        where += f', best of the {len(alike)} scored on {counts[0]} examples'
    return where


def _of_run(pick: Pick) -> dict[str, str | dict[str, str]]:
    """The facts that are known of a run: its name, facts, commands, signatures and config."""
    run = pick.run
    signatures = {
        f'{task}, {metric}': signature
        for task, result in sorted(pick.results.items())
        for metric, signature in sorted(result.signatures.items())
    }
    facts = notes.provenance(pick)
    speeds = {
        unit: [value for _, value in training_series(run, f'{unit}_per_second')]
        for unit in ('examples', 'tokens')
    }
    medians = [f'{statistics.median(of):.0f} {unit}/s' for unit, of in speeds.items() if of]
    if medians:  # Example: '12 examples/s, 3400 tokens/s'.
        facts['speed'] = ', '.join(medians)
    recorded = []
    try:
        if recorded := sessions.read(run.workdir):
            facts |= origins.costs([run.workdir])
    except errors.UserError as error:  # A file that is not ours must not keep a page away.
        warnings.warn(f'the page has no costs of {run.workdir}: {error}', stacklevel=2)
    cwd = str(run.info.get('cwd') or '')
    commands = dict.fromkeys(origins.command(one.command, cwd) for one in recorded)
    config = json.dumps(run.config, indent=1, ensure_ascii=False, sort_keys=True, default=str)
    return {
        'name': run.name,
        'facts': facts,
        'commands': '\n'.join(filter(None, commands)),
        'signatures': signatures,
        'config': config,
    }
