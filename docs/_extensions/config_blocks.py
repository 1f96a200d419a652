"""The directive `config-block`: a table of the keys of a config's block, from its dataclass.

  ```{config-block} xlbench.models.t5:T5Config
  :beyond: xlbench.models.transformer:TransformerConfig
  ```

A key's values and default are those of the field; its meaning is what the section Attributes of the
class says, or that of the class which it inherits the field from. `beyond` leaves out the keys of
another class.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

from xlbench.config import signatures

_WORDS = {'int': 'whole number', 'float': 'number', 'bool': '`True`, `False`', 'str': 'text'}


class ConfigBlock(SphinxDirective):
    """A table of the fields of the dataclass that is named as MODULE:CLASS."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec] = {'beyond': directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Returns the table."""
        return self.parse_text_to_nodes(table(self.arguments[0], self.options.get('beyond', '')))


def table(path: str, beyond: str = '') -> str:
    """The table of MODULE:CLASS in Markdown, without the keys of the class `beyond`."""
    block = _block(path)
    types, meanings = signatures.of_class(block).types, attributes(block)
    left_out = {field.name for field in dataclasses.fields(_block(beyond))} if beyond else ()
    lines = []
    for field in dataclasses.fields(block):
        if field.name in left_out:
            continue
        cells = (
            f'`{field.name}`',
            values(types[field.name]),
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


def values(annotation: str) -> str:
    """An annotation in words: "Annotated[int, '1 or more'] | None" -> 'whole number, 1 or more'."""
    parts = [_in_words(part) for part in _alternatives(ast.parse(annotation, mode='eval').body)]
    return ' or '.join(parts)


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return _alternatives(node.left) + _alternatives(node.right)
    return [node]


def _in_words(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        kind = ast.unparse(node.value)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if kind == 'Annotated':
            return f'{_in_words(inner[0])}, {ast.literal_eval(inner[1])}'
        if kind == 'Literal':
            return ', '.join(f'`{ast.unparse(value)}`' for value in inner)
        if kind == 'Sequence':
            return f'list of: {_in_words(inner[0])}'
        if kind == 'Mapping':
            return f'block of: {_in_words(inner[-1])}'
    text = ast.unparse(node)
    return _WORDS.get(text, {'Mapping': 'block'}.get(text, f'`{text}`'))


def default(field: dataclasses.Field) -> str:
    """The default as one would write it in a config; nothing for a key that is needed."""
    if field.default_factory is not dataclasses.MISSING:
        return f'`{field.default_factory()!r}`'
    value = getattr(field.default, '__name__', None) or repr(field.default)
    return '' if field.default is dataclasses.MISSING else f'`{value}`'


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.add_directive('config-block', ConfigBlock)
    return {'parallel_read_safe': True}
