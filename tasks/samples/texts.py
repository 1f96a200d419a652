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
languages as in English. {name} is a slot, which another phrase fills. A test names lines that have
another form.

A corpus whose texts have changed is written anew, and what was prepared from it is prepared again.
"""

import functools
import hashlib
import pathlib
import re
from typing import NamedTuple

_LANGUAGE = re.compile(r'([a-z]{2}): (.*)')

Cells = tuple[str, ...]


class Block(NamedTuple):
    """The rows under one name of a file: language, '' for a row in none, and cells."""

    rows: list[tuple[str, Cells]]

    def table(self) -> tuple[Cells, ...]:
        """The rows of a block in which every row has all languages."""
        return tuple(cells for _, cells in self.rows)

    def words(self) -> Cells:
        """The cells of all rows."""
        return tuple(cell for cells in self.table() for cell in cells)

    def by_language(self, *columns: str) -> dict[str, tuple[Cells, ...]]:
        """The rows of each language, equally many; of a table, its columns are of `columns`."""
        if not self.rows[0][0]:
            pairs = zip(columns, zip(*self.table(), strict=True), strict=True)
            return {lang: tuple((cell,) for cell in column) for lang, column in pairs}
        languages = dict.fromkeys(lang for lang, _ in self.rows)
        return {one: tuple(cells for lang, cells in self.rows if lang == one) for one in languages}

    def wordings(self) -> dict[str, Cells]:
        """The cells of each language, of a block with one row in each."""
        return {lang: row for lang, (row,) in self.by_language().items()}


@functools.cache
def read(name: str) -> dict[str, Block]:
    """The blocks of a text file of this folder, by their names."""
    return parse(pathlib.Path(__file__).with_name(f'{name}.txt').read_text('utf-8'))


def parse(text: str) -> dict[str, Block]:
    """The blocks of a text, by their names."""
    lines: list[str] = []
    for line in text.split('\n'):
        if line.startswith(' ') and line.strip():
            lines[-1] += f' {line.strip()}'
        elif line.strip() and not line.startswith('#'):
            lines.append(line.strip())
    blocks: dict[str, Block] = {}
    for line in lines:
        if line[0] == '[' and line[-1] == ']':
            block = blocks[line[1:-1]] = Block([])
            continue
        lang, row = match.groups() if (match := _LANGUAGE.match(line)) else ('', line)
        block.rows.append((lang, tuple(cell.strip() for cell in row.split('|'))))
    return blocks


def digest(*names: str) -> str:
    """Hashes the texts of some files; comments do not count."""
    content = [
        (name, block_name, block.rows) for name in names for block_name, block in read(name).items()
    ]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]
