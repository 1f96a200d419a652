"""The text files beside this one: the words and sentences of the sample corpora, to be edited.

A file holds blocks. A block begins with its name in brackets. Each of its lines is a row of cells
with bars between them; a line that begins with spaces continues the one above. A row in one
language begins with the code of that language and a colon. Empty lines, and lines that begin with
#, are for the reader.

  # What happened | how the story ends: a row an event.
  [events]
  en: lost | {name} and {name2} found {the_object} in {town}.
  de: verlor | {name} und {name2} fanden {the_object} in {town}.

The same place in every language is the same meaning, so a block has as many rows and cells in all
languages as in English. {name} is a slot, which another phrase fills.

A corpus whose texts have changed is written anew, and what was prepared from it is prepared again.
"""

import functools
import hashlib
import os
import re
from collections.abc import Collection
from typing import NamedTuple, NoReturn

from xlbench.system import errors

_HEADER = re.compile(r'\[(.+)\]')
_LANGUAGE = re.compile(r'([a-z]{2}): (.*)')
_SLOT = re.compile(r'{(\w+)}')

Cells = tuple[str, ...]


class Row(NamedTuple):
    """One row of a block; `line` is its number in the file, `lang` is '' for a row in none."""

    line: int
    lang: str
    cells: Cells


class Block(NamedTuple):
    """The rows under one name of a file."""

    path: str
    line: int
    name: str
    rows: list[Row]

    def error(self, line: int, reason: str) -> NoReturn:
        """Raises the UserError that names a line of the file."""
        raise errors.UserError(f'{self.path}:{line}: [{self.name}] {reason}')

    def words(self) -> Cells:
        """The cells of all rows."""
        return tuple(cell for row in self.rows for cell in row.cells)

    def table(self, *columns: str) -> tuple[Cells, ...]:
        """The rows of a block in which every row has all languages.

        Args:
          columns: a regular expression for each column, which its cells match.
        """
        first = self.rows[0].cells
        for line, _, cells in self.rows:
            if len(cells) != len(columns):
                self.error(line, f'has a row of {len(cells)} cells; each has {len(columns)}')
            for cell, column, example in zip(cells, columns, first, strict=True):
                if not re.fullmatch(column, cell):
                    self.error(line, f'has the cell {cell!r}; write it like {example!r}')
        return tuple(row.cells for row in self.rows)

    def by_language(
        self, langs: Collection[str], slots: Collection[str], *, alike: bool = True
    ) -> dict[str, tuple[Cells, ...]]:
        """The rows of each language.

        Args:
          langs: the languages that the block has.
          slots: the names of all slots that its cells may have.
          alike: whether a cell has the same slots in all languages.

        Returns:
          Language -> rows, the same number of them with the same numbers of cells.
        """
        texts: dict[str, list[Row]] = {lang: [] for lang in langs}
        for row in self.rows:
            if row.lang not in texts:
                there = row.lang or 'no language'
                self.error(row.line, f'has a row in {there}; its languages are {", ".join(langs)}')
            texts[row.lang].append(row)
        slots_of_english = [
            [self._slots(row.line, cell, slots) for cell in row.cells] for row in texts['en']
        ]
        expected = [len(row.cells) for row in texts['en']]
        for lang, rows in texts.items():
            sizes = [len(row.cells) for row in rows]
            if sizes != expected or not rows:
                line = rows[0].line if rows else self.line
                self.error(line, f'has rows of {sizes} cells in {lang}, and of {expected} in en')
            for row, pattern in zip(rows, slots_of_english, strict=True):
                for cell, expected_slots in zip(row.cells, pattern, strict=True):
                    cell_slots = self._slots(row.line, cell, slots)
                    if alike and cell_slots != expected_slots:
                        self.error(row.line, f'has other slots than its English: {cell}')
        return {lang: tuple(row.cells for row in rows) for lang, rows in texts.items()}

    def wordings(
        self, langs: Collection[str], slots: Collection[str], *, alike: bool = True
    ) -> dict[str, Cells]:
        """The cells of each language, of a block with one row in each; see `by_language`."""
        rows = self.by_language(langs, slots, alike=alike)
        if len(self.rows) > len(rows):
            self.error(self.line, 'has several rows in a language; put the cells into one')
        return {lang: row for lang, (row,) in rows.items()}

    def _slots(self, line: int, cell: str, known: Collection[str]) -> set[str]:
        slots = _SLOT.findall(cell) if '{' in cell else []
        if not cell.count('{') == cell.count('}') == len(slots):
            self.error(line, f'has a brace that is part of no slot: {cell}')
        for slot in slots:
            if slot not in known:
                self.error(line, f'has the slot {{{slot}}}; there are {", ".join(sorted(known))}')
        return {*slots}


@functools.cache
def read(name: str) -> dict[str, Block]:
    """The blocks of a text file of this folder, by their names."""
    path = os.path.join(os.path.dirname(__file__), f'{name}.txt')
    try:
        with open(path, encoding='utf-8-sig') as file:
            return parse(path, file.read())
    except UnicodeDecodeError as error:
        raise errors.UserError(f'{path} is not in UTF-8 ({error.reason}); save it so') from error


def parse(path: str, text: str) -> dict[str, Block]:
    """The blocks of a text, by their names; UserError names the line that is wrong."""
    blocks: dict[str, Block] = {}
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith(' ') and line.strip() and lines:
            lines[-1] = lines[-1][0], f'{lines[-1][1]} {line.strip()}'
        elif line.strip() and not line.startswith('#'):
            lines.append((number, line.strip()))
    block = Block(path, 1, '', [])
    for number, line in lines:
        if line[0] == '[' and (header := _HEADER.fullmatch(line)):
            if not block.rows and blocks:
                block.error(number, 'has no row')
            block = Block(path, number, header[1], [])
            if blocks.setdefault(block.name, block) is not block:
                block.error(number, f'stands in line {blocks[block.name].line}, too')
            continue
        lang, row = match.groups() if (match := _LANGUAGE.match(line)) else ('', line)
        cells = tuple(cell.strip() for cell in row.split('|'))
        if not all(cells):
            block.error(number, 'has an empty cell: a bar stands between two cells')
        if not block.name:
            block.error(number, 'a row stands before the first block; begin with [NAME]')
        block.rows.append(Row(number, lang, cells))
    if not block.rows:
        block.error(block.line, 'has no row')
    return blocks


def digest(*names: str) -> str:
    """Hashes the texts of some files; comments do not count."""
    content = [
        (name, block.name, [(row.lang, row.cells) for row in block.rows])
        for name in names
        for block in read(name).values()
    ]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]
