"""Elements of HTML that cannot be broken out of: every text is escaped unless it is markup already.

  element('p', 'a < b', class_='note')  ->  <p class="note">a &lt; b</p>
"""

import html
from collections.abc import Iterable
from typing import TypeAlias

from xlbench.reporting.tables import clean

_EMPTY = frozenset({'input', 'meta', 'br', 'hr'})  # Elements without an end.
Value: TypeAlias = str | int | float | bool | None


class Markup(str):
    """HTML that is whole and escaped; only this module and `vector` make it of text."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: Value) -> Markup:
    """An element.

    Args:
        tag: Its name.
        children: Markup as it is, other texts escaped.
        attributes: `class_` is class and `aria_label` aria-label; True is an attribute without a
            value, and None or False leaves it out.
    """
    start = f'<{tag}{"".join(_attribute(*pair) for pair in attributes.items())}>'
    return Markup(start if tag in _EMPTY else f'{start}{join(children)}</{tag}>')


def join(children: Iterable[str]) -> Markup:
    """Markup of several pieces, one after another."""
    return Markup(''.join(map(escaped, children)))


def escaped(text: str) -> Markup:
    """Text as markup that shows it, on one printable line; markup stays as it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(clean(text), quote=True))


def preformatted(text: str) -> Markup:
    """Lines of text as markup that keeps them apart."""
    return Markup('\n'.join(map(escaped, text.split('\n'))))


def _attribute(name: str, value: Value) -> str:
    if value is None or value is False:
        return ''
    name = name.rstrip('_').replace('_', '-')
    return f' {name}' if value is True else f' {name}="{escaped(str(value))}"'
