"""Writes the parts of pages that come from the code: programs, configs, config keys, public names.

  python docs/_extensions/reference.py     # and `make docs`, before it builds the site

A part stands between two comments, and is replaced as a whole; the rest of a page is left alone:

  <!-- from the code: block xlbench.models.t5:T5Config beyond xlbench.models.bart:BartConfig -->
  <!-- end -->

So a page reads the same in the repository and on the site. tests/pages_test.py holds them equal.
"""

import argparse
import ast
import dataclasses
import importlib
import inspect
import pathlib
import re
import runpy
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from unittest import mock

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from xlbench import __main__ as command
from xlbench.system import files, ranges
from xlbench.system.command_line import ArgumentParser
from xlbench.system.machine import quietly

DOCS = pathlib.Path(__file__).parents[1]
PAGES = ('programs.md', 'configs.md', 'config.md', 'api.md')
# The packages with a page of their own in docs/api/, which only the site has.
PACKAGES = (
    'xlbench.pipeline', 'xlbench.metrics', 'xlbench.benchmarks', 'xlbench.benchmarks.languages',
    'xlbench.config', 'xlbench.evaluators', 'xlbench.decoding',
)  # fmt: skip
_PART = re.compile(r'(<!-- from the code: ([^>]*?) -->\n).*?(<!-- end -->)', re.DOTALL)
_WORDS = {int: 'whole number', float: 'number', bool: '`True`, `False`', str: 'text'}


def refreshed(page: str) -> str:
    """Gives a page with its parts written anew."""

    def part(match: re.Match) -> str:
        kind, *arguments = match[2].replace(' beyond ', ' ').split()
        text = {'programs': programs, 'configs': configs, 'block': table, 'names': names}[kind]
        return f'{match[1]}\n{text(*arguments).strip()}\n\n{match[3]}'

    return _PART.sub(part, page)


def stale() -> dict[pathlib.Path, str]:
    """Gives the new texts of the pages whose parts the code no longer gives."""
    old = {DOCS / name: (DOCS / name).read_text('utf-8') for name in PAGES}
    return {path: new for path, text in old.items() if (new := refreshed(text)) != text}


def write() -> None:
    """Writes the pages that have changed, and the site's pages of packages."""
    pages = stale()
    for package in PACKAGES:
        options = '   :no-imported-members:\n' if package.endswith('.languages') else ''
        text = f'# {package}\n\n```{{eval-rst}}\n.. automodule:: {package}\n{options}```\n'
        pages[DOCS / 'api' / f'{package.removeprefix("xlbench.")}.md'] = text
    for path, text in pages.items():
        if not path.exists() or path.read_text('utf-8') != text:
            path.parent.mkdir(exist_ok=True)
            files.write(path, text)


def programs() -> str:
    """The programs in their groups: usage, docstring, and a table of options."""
    lines = []
    for group, members in command.GROUPS.items():
        lines += [f'## {group}', '']
        for program in members:
            parser = _parser_of(program, '--help')
            lines += [f'### {program}', '', *_about(parser), *_options(parser), *_commands(parser)]
    return '\n'.join(lines)


class _Parser(BaseException):
    """Brings a program's parser to the caller; no program catches it."""


def _parser_of(program: str, *arguments: str) -> ArgumentParser:
    """The parser of a program: starts it with arguments, and stops it before it parses."""

    def stop(parser: ArgumentParser, *_: object) -> None:
        raise _Parser(parser)

    asked = mock.patch.object(ArgumentParser, 'parse_known_args', stop)
    try:
        with asked, mock.patch.object(sys, 'argv', [program, *arguments]), quietly():
            runpy.run_module(f'xlbench.{program}', run_name='__main__', alter_sys=True)
    except _Parser as found:
        parser = found.args[0]
    for choices in _commands_of(parser):
        for name, inner in choices.items():
            if inner.is_elsewhere:
                choices[name] = _parser_of(program, name, '--help')
    return parser


def _commands_of(parser: argparse.ArgumentParser) -> list[dict[str, ArgumentParser]]:
    """The commands of a program that has some, by their names: one dict, or none."""
    return [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]


def _about(parser: argparse.ArgumentParser) -> Iterator[str]:
    usage = ' '.join(parser.format_help().partition('\n\n')[0].split()[1:])
    yield from (markdown(parser.description or ''), '', '```text', usage, '```', '')
    yield from (markdown(parser.epilog or ''), '')


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The commands of a program: options alone, and a heading for those with pages of help."""
    for choices in _commands_of(parser):
        for inner in choices.values():
            if inner.epilog:
                yield from (f'#### {inner.prog.removeprefix("xlbench ")}', '', *_about(inner))
            else:
                yield from (f'`{inner.prog}`: {markdown(inner.description)}', '')
            yield from (*_options(inner), *_commands(inner))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The rows of a table: what is typed, and its meaning."""
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        name = action.option_strings[-1] if action.option_strings else ''
        value = '' if action.nargs == 0 else str(action.metavar or action.dest.upper())
        if action.choices:
            value = '{' + ', '.join(map(str, action.choices)) + '}'
        typed = '='.join(filter(None, (name, value)))
        meaning = ' '.join((action.help or '').split()) % {**vars(action), 'prog': parser.prog}
        rows.append(f'| `{typed.replace("|", chr(92) + "|")}` | {_escaped(meaning)} |')
    if rows:
        yield from ('| option | meaning |', '|---|---|', *rows, '')


def configs() -> str:
    """The docstrings of the configs."""
    lines = []
    for path in sorted((DOCS.parent / 'configs').glob('[!_]*.py')):
        doc = ast.get_docstring(ast.parse(path.read_text('utf-8')))
        lines += [f'## {path.stem}', '', markdown(doc), '']
    return '\n'.join(lines)


def names(package: str) -> str:
    """The public names of a package, each with the first sentence of its docstring."""
    module = importlib.import_module(package)
    rows = []
    own = (
        name
        for name, thing in vars(module).items()
        if getattr(thing, '__module__', '').startswith(package)
    )
    for name in getattr(module, '__all__', None) or sorted(own):
        if name.startswith('_'):
            continue
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing):
            doc = ' '.join((thing.__doc__ or '').partition('\n\n')[0].split())
            rows.append(f'| `{name}` | {_escaped(doc)} |')
    return '\n'.join(['| name | meaning |', '|---|---|', *rows])


def markdown(doc: str) -> str:
    """A docstring as Markdown: indented lines are code, and characters mean themselves."""
    blocks: list[tuple[bool, list[str]]] = []
    for line in doc.strip('\n').split('\n'):
        is_code = line.startswith('  ')
        if not line and blocks:
            is_code = blocks[-1][0]
        if not blocks or blocks[-1][0] != is_code:
            blocks.append((is_code, []))
        blocks[-1][1].append(line)
    shown = []
    for is_code, lines in blocks:
        text = '\n'.join(lines).strip('\n')
        if is_code:
            shown.append(f'```text\n{textwrap.dedent(text)}\n```')
        elif text:
            shown.append(_escaped(text))
    return '\n\n'.join(shown)


def _escaped(text: str) -> str:
    parts = re.split(r'(`[^`]+`)', text)
    marks = r'([\\*<>\[\]|#]|(?<!\w)_|_(?!\w))'
    parts[::2] = [re.sub(marks, r'\\\1', part) for part in parts[::2]]
    return ''.join(parts)


def table(path: str, beyond: str = '') -> str:
    """The table of MODULE:CLASS in Markdown, without the keys of the class `beyond`."""
    block = _block(path)
    meanings = attributes(block)
    left_out = {field.name for field in dataclasses.fields(_block(beyond))} if beyond else ()
    lines = []
    for field in dataclasses.fields(block):
        if field.name in left_out:
            continue
        cells = (
            f'`{field.name}`',
            values(field.type),
            default(field),
            re.sub(r'([\\*_<>\[\]])', r'\\\1', meanings[field.name]),
        )
        lines.append(f'| {" | ".join(cell.replace("|", chr(92) + "|") for cell in cells)} |')
    return '\n'.join(['| key | values | default | meaning |', '|---|---|---|---|', *lines])


def _block(path: str) -> type:
    module, name = path.split(':')
    return getattr(importlib.import_module(module), name)


def attributes(block: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say about each attribute."""
    meanings = {}
    for base in reversed(block.__mro__):
        section = (inspect.getdoc(base) or '').partition('Attributes:\n')[2]
        entries = textwrap.dedent(section.partition('\n\n')[0])
        for entry in re.split(r'\n(?=\S)', entries.strip('\n')):
            names, _, text = entry.partition(':')
            meanings |= dict.fromkeys(re.findall(r'\w+', names), ' '.join(text.split()))
    return meanings


def values(kind: Any) -> str:
    """A type in words: Annotated[int, Meta(ge=1)] | None -> 'whole number, 1 or more or None'."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return ' or '.join(map(values, inner))
    if origin is Annotated:
        return f'{values(inner[0])}, {ranges.limits(kind)}'
    if origin is Literal:
        return ', '.join(f'`{value!r}`' for value in inner)
    if origin is Sequence:
        return f'list of: {values(inner[0])}'
    if origin is Mapping:
        return f'block of: {values(inner[-1])}' if inner else 'block'
    return _WORDS.get(kind, '`None`' if kind is type(None) else f'`{kind}`')


def default(field: dataclasses.Field) -> str:
    """The default as one would write it in a config; nothing for a key that is needed."""
    if field.default_factory is not dataclasses.MISSING:
        return f'`{field.default_factory()!r}`'
    value = getattr(field.default, '__name__', None) or repr(field.default)
    return '' if field.default is dataclasses.MISSING else f'`{value}`'


def setup(app: Sphinx) -> ExtensionMetadata:
    """Writes the pages before Sphinx looks for them."""
    app.connect('config-inited', lambda app, config: write())
    return {'parallel_read_safe': True}


if __name__ == '__main__':
    if '--check' in sys.argv:
        names_of_stale = ', '.join(path.name for path in stale())
        sys.exit(f'{names_of_stale}: run `make docs`' if names_of_stale else 0)
    write()
