"""The report as one HTML page, with the answer that a reader looks for at the top.

Nothing is loaded from elsewhere. All text comes from files that anyone may have written: it becomes
markup in `markup` alone, which escapes it, and texts of examples stay JSON (`examples`).
"""

import functools
import html
import importlib.resources
import re
import string
from collections.abc import Sequence

from xlbench.reporting import layout, systems
from xlbench.reporting.page import (
    curves,
    distributions,
    examples as examples_lib,
    heatmaps,
    markup,
    origins,
    overview,
    style as style_lib,
)
from xlbench.reporting.page.examples import Examples
from xlbench.reporting.page.markup import Markup, element
from xlbench.reporting.page.style import Style
from xlbench.reporting.page.tables import SYSTEMS, Tables
from xlbench.reporting.sections import Section
from xlbench.reporting.tables import Figure, Table, clean
from xlbench.system.files import Json

_WIDE = 450  # Points; wider plots would be too small on a phone.
_SCRIPTS = ('page.js', 'words.js', 'examples.js')
# Parts of a section, by the ends of their names.
_PARTS = {
    'scores': 'Scores', 'maps': 'Languages and tasks', 'curves': 'Learning curves',
    'spread': 'Distributions', 'examples': 'Examples', 'origins': 'Speed, cost and provenance',
}  # fmt: skip
_LEGEND = (
    ('12.3', 'best', 'best of its column'),
    ('±', '', 'standard deviation over seeds, or what the notes say'),
    ('▲ 1.2', 'gain', 'better than the chosen system'),
    ('▼ 1.2', 'loss', 'worse'),
    ('*', '', 'significant, in tables of differences'),
)  # fmt: skip


def document(sections: Sequence[Section], mark: str) -> str:
    """The page.

    Args:
        sections: What to show.
        mark: A comment at its start that says where the file comes from.
    """
    tables = Tables()
    made = [_section(section, f's{number}', tables) for number, section in enumerate(sections, 1)]
    style, script = _part('page.css'), '\n'.join(map(_part, _SCRIPTS))
    return string.Template(_part('page.html')).substitute(
        mark=html.escape(clean(mark)),
        policy=markup.policy(script, style, images=True),
        title='Results',
        style=style,
        nav=_navigation(sections, [markup for markup, _ in made]),
        body='\n'.join(markup for markup, _ in made),
        data=markup.json_text(
            {'latex': tables.latex, 'sections': [examples for _, examples in made]}
        ),
        script=script,
    )


def plots(sections: Sequence[Section]) -> list[Figure]:
    """All plots of scores, logs and predictions, as figures that can be files.

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
        style = style_lib.of_section(section)
        groups = _plots(section, style, examples_lib.of_section(section, style), prefix)
        made += [plot for group in groups.values() for plot in group]
    return made


def _plots(
    section: Section, style: Style, examples: Examples, prefix: str
) -> dict[str, list[Figure]]:
    """The plots by the part of the page that they stand in."""
    ranking = distributions.ranking(section, style, prefix)
    spread = []
    if scores := examples.score_values():
        title = f'{examples.score} of single examples'
        spread.append(distributions.boxes(f'{prefix}_scores', title, examples.score, scores, style))
    if examples.all:
        title, label = 'Lengths of texts', 'words, or characters where none are written'
        lengths = examples.lengths()
        spread.append(distributions.boxes(f'{prefix}_lengths', title, label, lengths, style))
    return {
        'ranking': [ranking] if ranking else [],
        'maps': heatmaps.plots(section, style, prefix),
        'curves': curves.plots(section, style, prefix),
        'spread': spread,
    }


def _section(section: Section, name: str, tables: Tables) -> tuple[Markup, Json]:
    """A section of the page, and the examples that its script reads."""
    style = style_lib.of_section(section)
    examples = examples_lib.of_section(section, style)
    plots = _plots(section, style, examples, name)
    summary = [overview.answer(section, style), *map(_figure, plots['ranking'])]
    made = layout.tables(section)
    parts = [
        element('h2', section.title, id=name),
        element('p', f'{section.split} split: {overview.compared(section)}', class_='lead'),
        element('p', section.data_note, class_='note') if section.data_note else '',
        element('div', *summary, class_='summary') if any(summary) else '',
        _heading(name, 'scores'),
        _notes([note for note in section.notes if note != section.data_note]),
        *_tables(section, style, made, tables),
        *_group(name, 'maps', plots['maps']),
        *_group(name, 'curves', plots['curves']),
        *_group(name, 'spread', plots['spread']),
    ]
    content = None
    if examples.all:
        content = examples_lib.content(examples, style)
        parts += [
            _heading(name, 'examples'),
            element('noscript', element('p', 'The examples need JavaScript.', class_='note')),
            element('div', class_='browser', data_section=name),
        ]
    parts.append(origins.section(section, f'{name}-origins', _PARTS['origins'], tables))
    return element('section', *parts, aria_labelledby=name), content


def _tables(section: Section, style: Style, made: Sequence[Table], tables: Tables) -> list[Markup]:
    """The main score's table and those of the paper; the other scores' folded away."""
    marks = {system.name: style.mark(system) for system in style.ranked}
    of_scores = [] if section.tables else [t for t in made if t.title in section.scores]
    shown, folded = [], []
    for table in made:
        score = table.title if table in of_scores else ''
        row_marks = [marks.get(row.name, '') for row in table.rows]
        one = [tables.table(table, 4, row_marks, score)]
        one += [_figure(figure) for figure in section.figures if figure.numbers is table]
        (folded if table in of_scores[1:] else shown).extend(one)
    if of_scores:
        shown.insert(1, _legend(made))
    if folded:
        names = ', '.join(table.title for table in of_scores[1:])
        count = len(of_scores) - 1
        said = f'{count} more score{"s" if count > 1 else ""}: {names}'
        shown.insert(2, element('details', element('summary', said), *folded))
    if configs := systems.config_table(section.picks):
        shown.append(tables.table(configs, 4))
    return shown


def _figure(figure: Figure) -> Markup:
    """A plot with what is to be seen in it, and a button that saves it."""
    is_of_paper = bool(figure.numbers.columns)
    said = ' '.join(figure.numbers.notes)
    # Figures of a paper have a table of their numbers beside them, with the notes.
    shown = figure.numbers.title if is_of_paper else said
    svg = figure.svg()
    drawn = style_lib.inline(svg, figure.name, figure.numbers.title, said)
    if style_lib.width(svg) > _WIDE:
        drawn = element('div', drawn, class_='wide', tabindex=0, role='region',
                        aria_label=figure.numbers.title)  # fmt: skip
    heading = [] if is_of_paper else [element('h4', figure.numbers.title)]
    button = element('button', 'Save SVG', type='button', data_svg=figure.name)
    return element(
        'figure',
        element('div', *heading, element('div', button, class_='tools'), class_='bar'),
        drawn,
        element('figcaption', element('p', shown)),
        class_='drawn paper' if is_of_paper else 'drawn',
        id=f'{figure.name}-figure',
    )


def _group(section: str, part: str, plots: Sequence[Figure]) -> list[Markup]:
    if not plots:
        return []
    return [_heading(section, part), element('div', *map(_figure, plots), class_='plots')]


def _heading(section: str, part: str) -> Markup:
    return element('h3', _PARTS[part], id=f'{section}-{part}')


def _notes(notes: Sequence[str]) -> Markup:
    items = [element('li', note) for note in notes]
    return element('ul', *items, class_='notes') if items else Markup()


def _legend(made: Sequence[Table]) -> Markup:
    """Names the marks that some table has."""
    cells = [cell for table in made for row in table.rows for cell in row.cells]
    is_compared = any(sum(row.kind in SYSTEMS for row in table.rows) > 1 for table in made)
    has = {
        'best': any(cell.best for cell in cells),
        '±': any(cell.spread is not None for cell in cells),
        'gain': is_compared,
        'loss': is_compared,
        '*': any(cell.mark == '*' for cell in cells),
    }
    items = [
        element('div', element('dt', shown, class_=kind or None), element('dd', meaning))
        for shown, kind, meaning in _LEGEND
        if has[kind or shown]
    ]
    return element('dl', *items, class_='legend', aria_label='Marks in the tables') if items else ''


def _navigation(sections: Sequence[Section], made: Sequence[Markup]) -> Markup:
    """Links to the sections; to the parts of a single one."""
    titles = [section.title.partition(' (')[0] for section in sections]
    places = {
        f's{i}': title if titles.count(title) == 1 else f'{title}, {section.split} split'
        for i, (title, section) in enumerate(zip(titles, sections, strict=True), 1)
    }
    if len(sections) == 1:
        places = {
            f's1-{name}': title for name, title in _PARTS.items() if f'"s1-{name}"' in made[0]
        }
    links = [element('li', element('a', text, href=f'#{name}')) for name, text in places.items()]
    return element('nav', element('ul', *links), aria_label='Contents')


@functools.cache
def _part(name: str) -> str:
    # The policy has the hash of what stands between the tags, with the line ends of the page.
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding='utf-8')
