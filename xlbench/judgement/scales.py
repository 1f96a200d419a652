"""The questions to judges: aspects with their levels, and the guidelines on their page."""

import os
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


_SHARED = (
    'Read the input first, then every text. The order changes for every item: text A is not always '
    'from the same system.',
    'Judge each aspect by itself: a text can be faultless and beside the point. You can change '
    'every answer until you save, and you can stop and go on later in the same browser.',
)
# The aspects of appendix B of arXiv:2108.07140, and of section 6.3 of arXiv:2202.05599.
SCALES = {
    'ratings': Scale(
        kind='ratings',
        aspects=[
            Aspect(
                'Grammar',
                'Does the text follow the grammar of the language that it should be in?',
                [
                    'It is in another language.',
                    'The language is right, but mistakes hide what is meant.',
                    'One can guess what is meant, with many mistakes.',
                    'Correct on the whole, with a few mistakes.',
                    'Without any mistake.',
                ],
            ),
            Aspect(
                'Fluency',
                'Does the text read as if a native speaker had written it?',
                [
                    'Words without any connection.',
                    'Some phrases, but no whole sentence.',
                    'A sentence, but it does not flow.',
                    'A whole sentence that flows, with small flaws.',
                    'Perfectly natural.',
                ],
            ),
            Aspect(
                'Relevance',
                'Does the text fit the input, and the task that the input sets?',
                [
                    'It has nothing to do with the input.',
                    'Single words fit, such as a name or a place, but not the whole.',
                    'It is about the input, but not logical.',
                    'It fits, with some details that do not belong there.',
                    'It fits completely.',
                ],
            ),
        ],
        instructions=['Give every text a rating from 1 to 5 on each aspect.', *_SHARED],
    ),
    'best_worst': Scale(
        kind='best_worst',
        aspects=[
            Aspect('Grammaticality', 'Which text has the best grammar, and which the worst?'),
            Aspect('Informativeness', 'Which text tells most of what matters in the input?'),
            Aspect('Conciseness', 'Which text says it without anything that is not needed?'),
        ],
        instructions=[
            'For each aspect choose the best and the worst of the texts. If two are equally good, '
            'take the one that you would rather have.',
            *_SHARED,
        ],
    ),
    # The question of section 3.3 of arXiv:2106.02017.
    'replies': Scale(
        kind='best_worst',
        aspects=[
            Aspect('Preference', 'Which set has more replies that you would like to send?'),
        ],
        instructions=[
            'Each text is a set of replies to one message. Choose the set with more replies that '
            'you would like to send as the best, and the other one as the worst.',
            *_SHARED,
        ],
    ),
}  # fmt: skip


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
