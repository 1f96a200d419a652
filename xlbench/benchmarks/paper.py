"""A paper's tables and figures, each declared once, and the numbers that it prints.

A `PaperTable` says which rows and columns a table has, in the paper's words and order, what stands
in its cells, and what makes it from runs. The printed numbers are in the CSVs of paper_scores/.

papers/BENCHMARK.toml declares those of a benchmark. An entry of `tables` has the fields of
`PaperTable`, a row those of `Line` and a column those of `Head`; a column with `scores` stands for
one for each, by its printed name, and a column that is a text for those of that name in `columns`.
A label # is the number of the row. Texts that several tables have as `instead` are in a table of
that name.

An entry with `each` stands for a copy for each combination of the rows of these axes ('A+B' has the
rows of both), in which $NAME is the row's word of that name, and $NAME in capitals the word in
capitals. A row that is a text has it as the word that is named as the axis. What makes the tables
is in the same file: see `recipe`.
"""

import csv
import dataclasses
import functools
import itertools
import pathlib
import re
import string
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Key = dict[str, str]
_FOLDER = pathlib.Path(__file__).with_name('paper_scores')
_PAPERS = _FOLDER.with_name('papers')
_NAME = re.compile(r'[A-Za-z]\w*|\b\d\b')  # Of a score in the `score` of a key.
RATING = 'fitted_rating'  # Our score in the place of MTG's ensemble metric.
OUR_NAMES = {'ensemble': RATING}  # The paper's name of a score -> ours.


class Line(NamedTuple):
    """A row: its labels, the part of the key of its cells, and the heading that it stands below."""

    labels: tuple[str, ...]
    key: Key
    section: str = ''


class Head(NamedTuple):
    """A column: its names from the top one down, and the part of the key of its cells."""

    path: tuple[str, ...]
    key: Key

    @property
    def scores(self) -> list[str]:
        """The paper's names of its scores."""
        return _NAME.findall(self.key.get('score', ''))


def heads(names: Mapping[str, str], *group: str, **key: str) -> tuple[Head, ...]:
    """Columns of scores by their printed names."""
    return tuple(Head((*group, name), {**key, 'score': score}) for name, score in names.items())


@dataclasses.dataclass(frozen=True)
class PaperTable:
    """A table or a figure of a paper.

    The key of a cell is that of the table, of its row and of its column together. `score` names the
    scores in it, such as 'rouge_1 / rouge_2'; the other entries say of which result they are. A
    value may refer to the key of the row: '{lang}'. An entry `text` is what stands in the cell.

    Attributes:
      name: 'table 4' or 'figure 2'.
      title: what it shows.
      shows: what makes it from runs, see `xlbench.reporting.paper_tables.making.make`; '' where its
        form is enough.
      printed: the file of paper_scores with its numbers; '' if it has none.
      labels: the heads of the labels.
      rows: its rows.
      columns: its other columns.
      key: the part of the key that all cells share.
      notes: lines that are printed below it.
      leading_zero: whether numbers below 1 begin with 0.
      where: of a figure, the keys of the results that it shows.
      shown: our names of its scores; none: those of its columns.
      models: the paper's models that it is about; none: all of them.
      experiments: names of the experiments that it shows; none: those whose key fits a cell.
      made_by: functions and figures of the few-shot analysis that set it.
      instead: why no runs make it, or what has to follow them.
      variants: whether what was evaluated in other ways than a run's config says, and adapters,
        stand beside the run.
    """

    name: str
    title: str
    shows: str = ''
    printed: str = ''
    labels: tuple[str, ...] = ()
    rows: tuple[Line, ...] = ()
    columns: tuple[Head, ...] = ()
    key: Key = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    leading_zero: bool = True
    where: tuple[Key, ...] = ()
    shown: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    made_by: tuple[str, ...] = ()
    instead: str = ''
    variants: bool = False

    @property
    def is_judged(self) -> bool:
        """Returns True if it shows what judges say of the texts of its runs (--ratings)."""
        return self.shows in ('judged', 'ratings')

    @property
    def number(self) -> str:
        """Example: 'table 4' -> '4'."""
        return self.name.partition(' ')[2]

    @property
    def short(self) -> str:
        """Example: 'Table 4'."""
        return self.name.capitalize()

    @property
    def heading(self) -> str:
        """Example: 'Table 4: All systems'."""
        return f'{self.short}: {self.title}'

    @property
    def keys(self) -> list[Key]:
        """The keys of its cells, or of the results that it shows."""
        cells = [self.key | row.key | head.key for row in self.rows for head in self.columns]
        return cells or [self.key | key for key in self.where]

    def values(self, name: str) -> tuple[str, ...]:
        """The values of an entry of its keys, each once. Example: 'task' -> ('sg', 'qg', 'tg')."""
        return tuple(dict.fromkeys(key[name] for key in self.keys if name in key))

    @property
    def scores(self) -> tuple[str, ...]:
        """Our names of its scores."""
        names = dict.fromkeys(name for head in self.columns for name in head.scores)
        return self.shown or tuple(OUR_NAMES.get(name, name) for name in names)

    def cells(self, value: Callable[[Key, str], str | None]) -> list[list[str]]:
        """The texts of all cells, row by row; `value`: (key of a cell, score) -> text, or None."""
        return [[self._cell(row, head, value) for head in self.columns] for row in self.rows]

    def _cell(self, row: Line, head: Head, value: Callable[[Key, str], str | None]) -> str:
        whole = {**self.key, **row.key, **head.key}
        key = {name: text.format_map(whole) for name, text in whole.items()}
        if 'text' in key:
            return key['text']
        values = {name: value(key, name) for name in _NAME.findall(key['score'])}
        if not any(values.values()) and '/' not in key['score']:
            return '-'
        text = _NAME.sub(lambda name: values[name[0]] or '-', key['score'])
        return text if self.leading_zero else re.sub(r'\b0\.', '.', text)

    def renamed(self, change: Callable[[str], str]) -> 'PaperTable':
        """The table with other names of systems; of rows that become equal, the first stays."""
        rows: dict[str, Line] = {}
        for row in self.rows:
            line = Line(mapped(row.labels, change), mapped(row.key, change), row.section)
            rows.setdefault(str(line.key), line)
        return dataclasses.replace(self, rows=tuple(rows.values()))

    def decimals(self, score: str) -> int:
        """The most digits behind the point that the paper prints of a score."""
        texts = (row.get(score) or '' for row in printed_rows(self.printed))
        return max((len(text.partition('.')[2]) for text in texts), default=1)

    def printed_value(self, key: Mapping[str, str], score: str) -> str | None:
        """The text that the paper prints, for `cells`."""
        names = tuple(sorted(key.keys() & printed_rows(self.printed)[0].keys()))
        return _index(self.printed, names).get(tuple(map(key.get, names)), {}).get(score) or None


# ------------------------------------------------------------------------------------- the files

Axes = Mapping[str, Sequence[str | dict[str, str]]]


@functools.cache
def declared(benchmark: str) -> dict[str, Any]:
    """The content of the file of a benchmark's paper; empty if it has none."""
    path = _PAPERS / f'{benchmark}.toml'
    return tomllib.loads(path.read_text('utf-8')) if path.is_file() else {}


def tables(benchmark: str, **more: Sequence[str | dict[str, str]]) -> tuple[PaperTable, ...]:
    """The tables that the file of a benchmark declares, but those without any row.

    The axes `more` come to those of the file, or in their places. No file, no tables.
    """
    given = declared(benchmark)
    axes = given.get('axes', {}) | more
    entries = [one for entry in given.get('tables', ()) for one, _ in copies(entry, axes)]
    made = ((entry, _table(entry, given, axes)) for entry in entries)
    return tuple(table for entry, table in made if table.rows or 'rows' not in entry)


def _table(entry: dict[str, Any], given: Mapping[str, Any], axes: Axes) -> PaperTable:
    lines = [one for row in entry.get('rows', ()) for one, _ in copies({'labels': ()} | row, axes)]
    for number, line in enumerate(lines, 1):
        line['labels'] = tuple(str(number) if x == '#' else x for x in line['labels'])
    columns = [
        one
        for column in entry.get('columns', ())
        for each in (given['columns'][column] if isinstance(column, str) else [column])
        for one, _ in copies(each, axes)
    ]
    instead = entry.get('instead', '')
    entry = entry | {
        'rows': tuple(Line(**line) for line in lines),
        'columns': tuple(head for column in columns for head in _heads(**column)),
        'instead': given.get('instead', {}).get(instead, instead),
    }
    return PaperTable(**entry)


def _heads(
    *, path: tuple[str, ...] = (), key: Key | None = None, scores: Mapping[str, str] | None = None
) -> tuple[Head, ...]:
    return heads(scores, *path, **(key or {})) if scores else (Head(path, key or {}),)


class _Text(string.Template):
    idpattern = '[a-z]+'  # So that $task_en is $task and _en.


def copies(entry: Mapping[str, Any], axes: Axes) -> Iterator[tuple[dict[str, Any], Key]]:
    """An entry for each combination of the rows of its axes, with the words of these rows."""
    rows = [
        [
            row if isinstance(row, dict) else {name: row}
            for name in axis.split('+')
            for row in axes[name]
        ]
        for axis in entry.get('each', ())
    ]
    left = {name: value for name, value in entry.items() if name != 'each'}
    for combined in itertools.product(*rows):
        words = {name: word for row in combined for name, word in row.items()}
        words |= {name.upper(): word.upper() for name, word in words.items()}
        yield mapped(left, functools.partial(_filled, words=words)), words


def _filled(text: str, words: Key) -> str:
    before = ''
    while text != before:  # A word may have names of others in it.
        before, text = text, _Text(text).safe_substitute(words)
    return text


def mapped(item: Any, change: Callable[[str], str]) -> Any:
    """Changes all texts of nested lists, which become tuples, and dictionaries."""
    if isinstance(item, str):
        return change(item)
    if isinstance(item, list | tuple):
        return tuple(mapped(part, change) for part in item)
    if isinstance(item, dict):
        return {change(name): mapped(part, change) for name, part in item.items()}
    return item


# -------------------------------------------------------------------------------- printed numbers


@functools.cache
def _index(printed: str, names: tuple[str, ...]) -> dict[tuple[str | None, ...], dict[str, str]]:
    return {tuple(row[name] for name in names): row for row in printed_rows(printed)}


@functools.cache
def printed_scores(
    name: str, fractions: tuple[str, ...]
) -> dict[tuple[str, ...], dict[str, float]]:
    """The scores that the paper of a benchmark prints, from 0 to 100; it prints some as fractions.

    {(scenario, task, model, source, target): {score: value}}; empty without such a file.
    """
    table = {}
    for row in map(dict, printed_rows(name)):
        keys = ('scenario', 'task', 'model', 'source', 'target')
        key = tuple(row.pop(k) for k in keys)
        # Rounded, because 0.967 * 100 is 96.7 only after rounding.
        table[key] = {
            score: round(float(text) * 100, 6) if score in fractions else float(text)
            for score, text in row.items()
            if text
        }
    return table


@functools.cache
def printed_sizes(name: str) -> dict[tuple[str, str, str], int]:
    """The paper's number of examples by (task, language, split); empty where it prints none."""
    rows = printed_rows(f'{name}_sizes')
    return {(r['task'], r['language'], r['split']): int(r['examples']) for r in rows}


@functools.cache
def printed_rows(name: str) -> tuple[dict[str, str], ...]:
    """The lines of a file of printed numbers, such as mtg_stages, as texts; () without a file."""
    path = _FOLDER / f'{name}.csv'
    if not path.is_file():
        return ()
    with path.open(encoding='utf-8', newline='') as file:
        return tuple(csv.DictReader(file))
