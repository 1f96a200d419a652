"""A dialogue as MV-BART reads it."""

from collections.abc import Sequence

from xlbench import errors

MARK = ' |'  # Before each segment; MV-BART weighs the views by what its encoder gives for these.
BETWEEN = '\t'  # The two views of a text.


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


def joined_views(views: Sequence[str]) -> str:
    """Views of a dialogue as one text; a tab inside one becomes a space.

    Example: [' | A: hi B: ho', ' | A: hi | B: ho'] -> ' | A: hi B: ho\\t | A: hi | B: ho'
    """
    return BETWEEN.join(view.replace(BETWEEN, ' ') for view in views)


def parted_views(text: str) -> list[str]:
    """The inverse of `joined_views`: two views, or the one of a text without a tab."""
    first, between, second = text.partition(BETWEEN)
    return [first, second] if between else [first]


def utterances(dialogue: str) -> list[str]:
    """The lines of a dialogue that are not empty, each with single spaces.

    Example: 'Anna:  Hi!\\r\\nBen: Hello.' -> ['Anna: Hi!', 'Ben: Hello.']
    """
    return [' '.join(line.split()) for line in dialogue.splitlines() if line.strip()]
