"""A paper's tables and figures, each declared once, and the numbers that it prints.

A `PaperTable` says which rows and columns a table has, in the paper's words and order, what stands
in its cells, and what makes it from runs. The printed numbers are in the CSVs of paper_scores/.
"""

import csv
import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

Key = dict[str, str]
_FOLDER = pathlib.Path(__file__).with_name('paper_scores')
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
      shows: what makes it from runs, such as a key of
        `xlbench.reporting.paper_tables.making.MAKERS`; '' where its form is enough.
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
      is_judged: whether it shows what judges say of the texts of its runs (--ratings).
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
    is_judged: bool = False

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
        """The texts of all cells, row by row.

        Args:
          value: gives the text of a score, by the key of its cell and its name; None for none.
        """
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

    def with_stand_in(self, replaced: Sequence[str], name: str) -> 'PaperTable':
        """A table in which one translator has the rows of others, under its own name.

        Args:
          replaced: the paper's translators; of their rows that become equal, the first stays.
          name: the translator that stands in for them.
        """
        rows: dict[tuple[object, ...], Line] = {}
        for row in self.rows:
            model, labels = row.key.get('model', ''), row.labels
            for one in replaced:
                model = model.replace(one, name)
                labels = tuple(label.replace(one, name) for label in labels)
            key = {**row.key, **({'model': model} if model else {})}
            rows.setdefault(tuple(key.values()), Line(labels, key, row.section))
        return dataclasses.replace(self, rows=tuple(rows.values()))

    def decimals(self, score: str) -> int:
        """The most digits behind the point that the paper prints of a score."""
        texts = (row.get(score) or '' for row in printed_rows(self.printed))
        return max((len(text.partition('.')[2]) for text in texts), default=1)

    def printed_value(self, key: Key, score: str) -> str | None:
        """The text that the paper prints, for `cells`."""
        names = tuple(sorted(key.keys() & printed_rows(self.printed)[0].keys()))
        return _index(self.printed, names).get(tuple(map(key.get, names)), {}).get(score) or None


@functools.cache
def _index(printed: str, names: tuple[str, ...]) -> dict[tuple[str | None, ...], dict[str, str]]:
    return {tuple(row[name] for name in names): row for row in printed_rows(printed)}


@functools.cache
def printed_scores(
    name: str, fractions: tuple[str, ...]
) -> dict[tuple[str, ...], dict[str, float]]:
    """The scores that the paper of a benchmark prints, from 0 to 100.

    Args:
      name: of the benchmark.
      fractions: the scores that it prints between 0 and 1.

    Returns:
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
    """The lines of a table of a paper, as texts, by the names of its columns.

    Args:
      name: of its file, such as mtg_stages; without such a file there are none.
    """
    path = _FOLDER / f'{name}.csv'
    if not path.is_file():
        return ()
    with path.open(encoding='utf-8', newline='') as file:
        return tuple(csv.DictReader(file))
