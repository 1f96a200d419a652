"""The documentation as tests read it: README.md and the pages of docs/, their blocks and commands.

A page is known by the name of its file: README.md, mtg.md; a notebook by that of its folder, too:
notebooks/sample.md.
"""

import dataclasses
import pathlib
import re
from collections.abc import Iterator

PROJECT = pathlib.Path(__file__).parents[2]
FILES = {
    path.name: path for path in (PROJECT / 'README.md', *sorted((PROJECT / 'docs').glob('*.md')))
}
NOTEBOOKS = {
    f'notebooks/{path.name}': path for path in sorted((PROJECT / 'docs/notebooks').glob('*.md'))
}
_BLOCK = re.compile(r'^```([^\n]*)\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code: its page, the heading of level 2 above it or '', its language, its lines."""

    page: str
    heading: str
    language: str
    text: str

    def is_at(self, place: str) -> bool:
        """Whether it belongs to a place: a page, or a heading of one (translation.md#Chains)."""
        return place in (self.page, f'{self.page}#{self.heading}')

    @property
    def commands(self) -> list[str]:
        """Its commands: comments and line continuations are gone."""
        text = re.sub(r'\\\n\s*', '', self.text)
        lines = (re.sub(r'(^|\s+)# .*$', '', line).strip() for line in text.splitlines())
        return [line for line in lines if line]


def blocks(language: str) -> Iterator[Block]:
    """All blocks of a language, page by page, in their order."""
    for page, path in FILES.items():
        heading = ''
        for part in re.split(r'^(## .*)$', path.read_text('utf-8'), flags=re.MULTILINE):
            if part.startswith('## '):
                heading = part[3:].strip()
            for match in _BLOCK.finditer(part):
                if match[1] == language:
                    yield Block(page, heading, match[1], match[2])


@dataclasses.dataclass(frozen=True)
class Cell:
    """The lines of a cell of code in a notebook, and whether it shows an error."""

    code: str
    raises: bool


def cells(notebook: str) -> list[Cell]:
    """The cells of code of a notebook, in their order."""
    parts = []
    for match in _BLOCK.finditer(NOTEBOOKS[notebook].read_text('utf-8')):
        if match[1] == '{code-cell} ipython3':
            tags = re.match(r':tags: \[(.*)\]\n\n', match[2])
            code = match[2][tags.end() :] if tags else match[2]
            parts.append(Cell(code, raises=bool(tags and 'raises-exception' in tags[1])))
    return parts


def prose(page: str) -> str:
    """A page without its blocks of code and its code in lines."""
    text = _BLOCK.sub('', (FILES | NOTEBOOKS)[page].read_text('utf-8'))
    return re.sub(r'`[^`]*`', '``', text)


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = _BLOCK.sub('', FILES[page].read_text('utf-8'))
    headings = re.findall(r'^#+ (.*)$', text, re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}
