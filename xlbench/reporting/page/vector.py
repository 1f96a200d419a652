"""Plots of matplotlib as part of the page: they take its colours, light and dark, and its font.

The page's policy (CSP) allows no style in an attribute, so that styles become attributes of SVG.
Colours that the house's plots use become variables of page.css; any other colour stays.
"""

import re
import xml.etree.ElementTree as ElementTree

from xlbench.reporting import drawing
from xlbench.reporting.page.markup import Markup, escaped

_SVG = 'http://www.w3.org/2000/svg'
_LINK = '{http://www.w3.org/1999/xlink}href'
# What matplotlib draws with -> what the page draws with.
_COLOURS = {
    **{colour: f'var(--series-{i})' for i, (colour, _) in enumerate(drawing.SERIES, 1)},
    drawing.BLACK.lower(): 'currentColor',
    drawing.SOFT: 'var(--soft)',
    drawing.LINE: 'var(--line)',
    '#ffffff': 'var(--card)',
}
_PAINTS = ('fill', 'stroke')


def inline(svg: str, name: str, title: str, description: str) -> Markup:
    """An SVG element that stands in the page.

    Args:
        svg: As matplotlib writes it, with the text as text.
        name: Of the plot; no other on the page has it. Names inside the picture begin with it.
        title: What it shows, for those who do not see it.
        description: What is to be seen in it, likewise.
    """
    ElementTree.register_namespace('', _SVG)
    root = ElementTree.fromstring(svg)
    for unused in root.findall(f'{{{_SVG}}}metadata'):
        root.remove(unused)
    used = set(re.findall(r'(?:url\(|href=")#([\w-]+)', svg))
    for node in root.iter():
        _restyle(node)
        _rename(node, name, used)
    for definitions in root.findall(f'{{{_SVG}}}defs'):
        for style in definitions.findall(f'{{{_SVG}}}style'):
            definitions.remove(style)
    view = root.get('viewBox')
    root.attrib.clear()
    root.attrib |= {
        'class': 'plot', 'viewBox': view, 'role': 'img', 'fill': 'currentColor',
        'aria-labelledby': f'{name}-title {name}-about',
        'stroke-linejoin': 'round', 'stroke-linecap': 'butt',
    }  # fmt: skip
    text = ElementTree.tostring(root, encoding='unicode', short_empty_elements=True)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', '', text)  # HTML has no namespaces.
    head, body = re.sub(r'>\s+<', '><', text).split('>', 1)
    said = (
        f'<title id="{name}-title">{escaped(title)}</title>'
        f'<desc id="{name}-about">{escaped(description)}</desc>'
    )
    return Markup(f'{head}>{said}{body}')


def width(svg: str) -> float:
    """How wide a picture of matplotlib is, in points."""
    return float(re.search(r'viewBox="\S+ \S+ ([\d.]+)', svg)[1])


def _restyle(node: ElementTree.Element) -> None:
    """Turns the style of an element into attributes, and its colours into the page's."""
    for part in node.attrib.pop('style', '').split(';'):
        key, _, value = (piece.strip() for piece in part.partition(':'))
        if key == 'font':  # Earlier versions of matplotlib: 'italic 9px sans-serif'.
            key, value = 'font-size', next(iter(re.findall(r'[\d.]+px', value)), '')
        if key and value and key != 'font-family':
            node.set(key, value)
    for paint in _PAINTS:
        if (colour := node.get(paint)) is not None:
            node.set(paint, _COLOURS.get(colour.lower(), colour))


def _rename(node: ElementTree.Element, name: str, used: set[str]) -> None:
    """Puts the plot's name before names that are referred to, and drops all others."""
    if (own_name := node.attrib.pop('id', None)) in used:
        node.set('id', f'{name}-{own_name}')
    if target := node.attrib.pop(_LINK, ''):  # A name, or the data of an image.
        node.set('href', f'#{name}-{target[1:]}' if target.startswith('#') else target)
    for key, value in node.attrib.items():
        if value.startswith('url(#'):
            node.set(key, f'url(#{name}-{value[5:]}')
