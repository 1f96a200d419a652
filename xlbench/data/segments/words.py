"""Utterances as vectors of their words, where no encoder of sentences is at hand."""

import collections
import re
from collections.abc import Sequence

import numpy as np

_WORDS = re.compile(r'\w+')


def word_vectors(dialogues: Sequence[Sequence[str]], size: int = 500) -> list[np.ndarray]:
    """TF-IDF: counts of words, times log(utterances / utterances with the word).

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
