"""The questions to judges: aspects with their levels, and the guidelines on their page."""

import os
import pathlib
from typing import Annotated, Literal

import msgspec

from xlbench.system import errors, files
from xlbench.system.errors import UserError

_Line = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]


class Aspect(msgspec.Struct, forbid_unknown_fields=True):
    """One aspect of a text.

    Attributes:
      name: as pages and tables have it.
      question: what judges ask themselves.
      levels: what each rating means, the lowest first; none where the best and the worst text
        are chosen.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    question: _Line
    levels: Annotated[list[_Line], msgspec.Meta(max_length=9)] = []


class Scale(msgspec.Struct, forbid_unknown_fields=True):
    """Aspects, and how they are judged.

    Attributes:
      kind: 'ratings' of each text, or 'best_worst': the best and the worst of several.
      aspects: in the order of the page.
      instructions: paragraphs at the top of the guidelines.
    """

    kind: Literal['ratings', 'best_worst']
    aspects: Annotated[list[Aspect], msgspec.Meta(min_length=1, max_length=20)]
    instructions: Annotated[list[_Line], msgspec.Meta(max_length=20)] = []


# Ratings of the aspects of appendix B of arXiv:2108.07140; best and worst by those of section 6.3
# of arXiv:2202.05599; replies by the question of section 3.3 of arXiv:2106.02017.
SCALES: dict[str, Scale] = files.read_json(
    pathlib.Path(__file__).with_name('scales.json'), dict[str, Scale]
)


def load(name: str) -> Scale:
    """A scale by its name, or from a JSON file of that form.

    Raises:
      UserError: there is no such scale, or the file is not one.
    """
    if name in SCALES:
        return SCALES[name]
    if not os.path.isfile(name):
        raise errors.unknown(
            'scale', name, SCALES, 'Name one of them, or a JSON file with an own one'
        )
    scale = files.read_json(name, Scale)
    counts = {len(aspect.levels) for aspect in scale.aspects}
    if scale.kind == 'ratings' and (len(counts) > 1 or min(counts) < 2):
        raise UserError(f'{name}: every aspect needs as many levels, from 2 to 9')
    if len({aspect.name for aspect in scale.aspects}) < len(scale.aspects):
        raise UserError(f'{name}: two aspects have the same name')
    if any(not aspect.name.isprintable() for aspect in scale.aspects):
        raise UserError(f'{name}: the name of an aspect is one line without control characters')
    return scale
