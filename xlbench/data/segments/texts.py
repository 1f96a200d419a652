"""A dialogue as MV-BART reads it, and its utterances as vectors of their words."""

import collections
import re
from collections.abc import Sequence

import numpy as np

from xlbench.system import errors

MARK = ' |'  # Before each segment; MV-BART weighs the views by what its encoder gives for these.
BETWEEN = '\t'  # The two views of a text.


def with_segments(utterances: Sequence[str], labels: Sequence[int]) -> str:
    """Returns a dialogue on one line with a mark before each segment.

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
    """Returns views of a dialogue as one text; a tab inside one becomes a space.

    Example: [' | A: hi B: ho', ' | A: hi | B: ho'] -> ' | A: hi B: ho\\t | A: hi | B: ho'
    """
    return BETWEEN.join(view.replace(BETWEEN, ' ') for view in views)


def parted_views(text: str) -> list[str]:
    """Returns the inverse of `joined_views`: two views, or the one of a text without a tab."""
    first, between, second = text.partition(BETWEEN)
    return [first, second] if between else [first]


def utterances(dialogue: str) -> list[str]:
    """Returns the lines of a dialogue that are not empty, each with single spaces.

    Example: 'Anna:  Hi!\\r\\nBen: Hello.' -> ['Anna: Hi!', 'Ben: Hello.']
    """
    return [' '.join(line.split()) for line in dialogue.splitlines() if line.strip()]


_WORDS = re.compile(r'\w+')


def word_vectors(dialogues: Sequence[Sequence[str]], size: int = 500) -> list[np.ndarray]:
    """Returns TF-IDF: counts of words, times log(utterances / utterances with the word).

    Args:
      dialogues: the utterances of each.
      size: words that count, those in most utterances; of equally frequent ones the first by name.

    Returns:
      Of each dialogue [utterances, words] float32.
    """
    counts = [
        [collections.Counter(_WORDS.findall(text.lower())) for text in dialogue]
        for dialogue in dialogues
    ]
    frequencies: collections.Counter[str] = collections.Counter()
    for dialogue in counts:
        for words in dialogue:
            frequencies.update(words.keys())
    number = sum(map(len, counts))
    kept = sorted(frequencies, key=lambda word: (-frequencies[word], word))[:size]
    places = {word: place for place, word in enumerate(kept)}
    weights = np.log([number / frequencies[word] for word in kept])
    vectors = []
    for dialogue in counts:
        array = np.zeros((len(dialogue), len(kept)), np.float32)
        for row, words in zip(array, dialogue, strict=True):
            for word, count in words.items():
                if word in places:
                    row[places[word]] = count * weights[places[word]]
        vectors.append(array)
    return vectors
