"""The style of figures: colours that everybody can tell apart, fonts, and their files."""

import contextlib
import io
import math
import pathlib
from collections.abc import Iterator, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

# Okabe and Ito's colours, which the colour-blind tell apart too.
BLUE, ORANGE, GREEN, PINK, BLACK = '#0072B2', '#E69F00', '#009E73', '#CC79A7', '#000000'
SHOTS = ((BLUE, 'o'), (ORANGE, 's'), (GREEN, '^'), (PINK, 'v'))  # Colour, marker.
_COLOURS = (BLUE, ORANGE, GREEN, PINK, '#56B4E9', '#D55E00')
_HATCHES = ('', '////', '....', 'xxxx', '\\\\\\\\', '----')
# Colour and marker of the systems of a report; in print the marker alone tells them apart.
SERIES = (
    ('#0072b2', 'o'), ('#d95f02', 's'), ('#00875f', '^'), ('#b8478a', 'D'),
    ('#7150a8', 'v'), ('#8c6a14', 'P'), ('#2f9fc9', 'X'), ('#b23a3a', '<'),
)  # fmt: skip
SOFT, LINE = '#5b646e', '#d5d8db'  # What stands behind: other systems, scales.
SHADES = 'cividis'  # Rising lightness, to the colour-blind as well (arXiv:1712.01662).
_STYLE = {
    'svg.fonttype': 'none',  # Text stays text: smaller, and it can be searched.
    'pdf.fonttype': 42,  # The same for PDF: outlines that publishers take, not bitmaps.
    'text.parse_math': False,  # A dollar sign in a name is a dollar sign.
    'font.family': 'sans-serif',
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'hatch.linewidth': 0.6,
}
_DPI = 160  # Of PNG.


def bar(number: int) -> tuple[str, str]:
    """The colour and the hatch of the bars of a series; of 36 series no two look alike.

    The hatch tells them apart in print without colours.
    """
    again, place = divmod(number, len(_COLOURS))
    return _COLOURS[place], _HATCHES[(place + again) % len(_HATCHES)]


@contextlib.contextmanager
def canvas(name: str, width: float, height: float) -> Iterator[Figure]:
    """An empty figure, in inches, that has the house's style while it is drawn and written.

    From the name are those of the parts of an SVG, so that they are the same each time.
    """
    with matplotlib.rc_context(_STYLE | {'svg.hashsalt': name}):
        yield Figure(figsize=(width, height), layout='constrained')  # No pyplot: no state.


@contextlib.contextmanager
def figure(stem: pathlib.Path, width: float, height: float) -> Iterator[Figure]:
    """An empty figure, in inches, that is written as SVG and PNG in the end."""
    with canvas(stem.name, width, height) as drawn:
        yield drawn
        for kind in ('svg', 'png'):
            pathlib.Path(f'{stem}.{kind}').write_bytes(encoded(drawn, kind))


def encoded(drawn: Figure, kind: str) -> bytes:
    """A figure as the bytes of a file: 'svg', 'png' or 'pdf'; the same ones each time."""
    metadata = {
        'svg': {'Date': None, 'Creator': None},
        'png': {'Software': None},
        'pdf': {'CreationDate': None, 'Creator': None, 'Producer': None},
    }[kind]
    out = io.BytesIO()
    drawn.savefig(out, format=kind, metadata=metadata, dpi=_DPI)
    return out.getvalue()


def panels(drawn: Figure, count: int, across: int) -> list[Axes]:
    """Panels of a figure that share their scales, so many in a row."""
    rows = -(-count // across)
    axes = drawn.subplots(rows, across, squeeze=False, sharex=True, sharey=True).flatten()
    for one in axes[count:]:
        one.remove()
    return axes[:count].tolist()


def heat_map(
    axes: Axes,
    values: Sequence[Sequence[float]],
    texts: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float] = (0.0, 1.0),
) -> AxesImage:
    """Draws values [rows][columns] as shades, the light ones high, with a text in each cell.

    NaN has no shade; the limits are the lowest and the highest value of the scale.
    """
    low, high = limits
    image = axes.imshow(values, cmap=SHADES, vmin=low, vmax=high, aspect='auto')
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            share = (value - low) / (high - low) if high > low else 1.0
            colour = SOFT if math.isnan(value) else 'white' if share < 0.5 else 'black'
            axes.text(j, i, texts[i][j], ha='center', va='center', color=colour, fontsize='small')
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image
