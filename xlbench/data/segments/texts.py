"""A dialogue as MV-BART reads it."""

from collections.abc import Sequence

from xlbench import errors

MARK = ' |'  # Before each segment; MV-BART weighs the views by what its encoder gives for these.


def with_segments(utterances: Sequence[str], labels: Sequence[int]) -> str:
    """A dialogue on one line with a mark before each segment.

    A mark inside an utterance becomes a space.

    Args:
      utterances: such as 'Anna: Hi!'.
      labels: the segment of each utterance; where the number changes, another begins.

    Example: ['A: hi', 'B: hello', 'A: bye'], [1, 1, 2] -> ' | A: hi B: hello | A: bye'
    """
    if len(utterances) != len(labels):
        raise errors.UserError(f'{len(labels)} labels of {len(utterances)} utterances')
    text, before = '', None
    for utterance, label in zip(utterances, labels, strict=True):
        mark = '' if label == before else MARK
        text += f'{mark} {utterance.replace(MARK, " ")}'
        before = label
    return text
