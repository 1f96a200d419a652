"""A table of how long the texts of data are, see xlbench/data/statistics.py."""

from collections.abc import Mapping

from xlbench.data import statistics
from xlbench.data.statistics import Langs, Statistics
from xlbench.reporting import render
from xlbench.reporting.tables import Cell, Column, Row, Table

_TITLES = {
    'turns': 'turns', 'speakers': 'speakers',
    'source': 'length of inputs', 'target': 'length of targets',
    'source_tokens': 'tokens of inputs', 'target_tokens': 'tokens of targets',
}  # fmt: skip


def markdown(rows: Mapping[str, tuple[Statistics, Langs]], has_tokens: bool) -> str:
    """Means over examples, by the name of a split or a file; tokens where they were counted."""
    names = [name for name in _TITLES if has_tokens or not name.endswith('_tokens')]
    made = []
    for name, (counts, _) in rows.items():
        means = counts.means()
        # Texts without a single name before a line are no dialogues of named speakers.
        known = {key: means[key] for key in names if key != 'speakers' or counts.speakers}
        cells = (Cell(known[key]) if key in known else Cell() for key in names)
        made.append(Row(name, 'data', (Cell(text=f'{counts.examples:,}'), *cells)))
    langs = {lang for _, pair in rows.values() for lang in pair if lang}
    in_characters = sorted(lang for lang in langs if not statistics.in_words(lang))
    unit = 'Lengths are in words between spaces'
    unit += f', of {", ".join(in_characters)} in characters.' if in_characters else '.'
    columns = Column.named(['examples', *(_TITLES[name] for name in names)])
    table = Table('Lengths', columns, tuple(made), 'data', notes=(unit,))
    return render.markdown(table) + '\n'


def comma_separated(rows: Mapping[str, tuple[Statistics, Langs]]) -> str:
    """All means as CSV, with as many decimals as they have."""
    head = ('data', 'source_lang', 'target_lang', 'examples', *_TITLES)
    lines = (
        (name, *langs, counts.examples, *(counts.means()[key] for key in _TITLES))
        for name, (counts, langs) in rows.items()
    )
    return render.comma_separated(head, lines)
