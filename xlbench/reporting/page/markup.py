"""Elements of HTML that cannot be broken out of: every text is escaped unless it is markup already.

A page loads nothing and sends nothing: its own policy (CSP) forbids it. Only the script and the
style run whose hashes the policy names. Texts from files stand in a page as JSON, which its script
shows as text.

  element('p', 'a < b', class_='note')  ->  <p class="note">a &lt; b</p>
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
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


def policy(script: str, style: str, *, images: bool = False) -> str:
    """The policy of a page, for its meta element.

    Args:
        script: What stands between its only script tags, to the last character.
        style: Likewise for its style.
        images: Whether it shows images that stand in it or that it draws itself.
    """
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        + ('img-src data: blob:; ' if images else '')
        + "base-uri 'none'; form-action 'none'"
    )


def json_text(data: Mapping[str, object]) -> str:
    """Data for a script element of type application/json: nothing in it can end the element."""
    return json.dumps(data, ensure_ascii=False, separators=(',', ':')).replace('<', '\\u003c')


def _hash(text: str) -> str:
    return 'sha256-' + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
