"""Docstrings are plain text, and Sphinx reads reStructuredText: what is done in between.

Lines that are indented further than the text before them, outside the sections of Google's style,
are examples and tables, and keep their form. Characters that mark text up mean themselves.
"""

import re

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_SECTION = re.compile(r'(Args|Attributes|Returns|Yields|Raises):$')
_SEVERAL = re.compile(r'( +)(\w+(?:, \w+)*), (\w+): ')


def to_markup(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Puts `::` before indented lines that are in no section, and escapes the others."""
    del app, what, name, thing, options
    kept, in_section, is_literal = [], False, False
    for line in lines:
        if in_section and (entry := _SEVERAL.match(line)):
            # Napoleon knows one name for an entry.
            kept += [f'{entry[1]}{name}: like {entry[3]}.' for name in entry[2].split(', ')]
            line = line.replace(f'{entry[2]}, ', '')
        if line == 'Example:':
            in_section, is_literal = False, True
            kept += ['Example::', '']
            continue
        if line and not line.startswith(' '):
            in_section, is_literal = bool(_SECTION.match(line)), False
        elif line and not in_section and not is_literal:
            kept += ['::', ''] if not kept or not kept[-1] else ['', '::', '']
            is_literal = True
        kept.append(line if is_literal else _escaped(line))
    lines[:] = kept


def _escaped(line: str) -> str:
    """A line of text, in which `*`, `|` and a `_` behind a word mean themselves."""
    parts = re.split(r'`+([^`]+)`+', line)
    parts[::2] = [re.sub(r'([*|]|(?<=\w)_\b)', r'\\\1', part) for part in parts[::2]]
    parts[1::2] = [f'``{code.strip()}``' for code in parts[1::2]]
    return ''.join(parts)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connects the function; before napoleon, which reads the sections."""
    app.connect('autodoc-process-docstring', to_markup, priority=100)
    return {'parallel_read_safe': True}
