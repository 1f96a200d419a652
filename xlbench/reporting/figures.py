"""A figure: its numbers as a table, and how it is drawn; nothing here loads matplotlib."""

import dataclasses
from collections.abc import Callable, Mapping

from xlbench.reporting.tables import Table

KINDS = ('svg', 'png', 'pdf')


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a paper.

    Attributes:
        name: Of its files. Example: figure4.
        numbers: What is drawn, as a table, with the title and the notes of the figure.
        draw: Draws it; the kinds of files that are asked for -> their bytes.
    """

    name: str
    numbers: Table
    draw: Callable[[tuple[str, ...]], Mapping[str, bytes]]

    def svg(self) -> str:
        """The picture as an SVG element, without the XML declaration, which HTML does not have."""
        text = self.draw(('svg',))['svg'].decode()
        return text[text.index('<svg') :]
