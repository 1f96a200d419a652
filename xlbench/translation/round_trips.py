"""Texts translated and translated back, and how much of each comes back (arXiv:2108.07140, 3.3).

The paper filters by "the n-gram overlap ratio between the original English text and the
back-translated one" and gives no formula. Here it is the share of the original's n-grams that come
back, each at most as often as it is there, by default of single words:

  overlap('The cat sat on the mat.', 'The cat sat on the rug.') -> 6/7

Tokens are runs of Unicode's word characters and single other characters but spaces, in lower case.
"""

import collections
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xlbench.metrics import words
from xlbench.translation.engines import Failure
from xlbench.translation.jobs import Job

UNITS = ('text', 'sentence')
_TOKEN = re.compile(r'\w+|[^\w\s]')


class Matches(NamedTuple):
    """Counts of the n-grams of two texts, and of those they have in common."""

    common: int  # Of the original that come back, each at most as often as in either text.
    original: int
    back: int


class RoundTrip(NamedTuple):
    """The translation of a text, and its back-translation."""

    translation: str
    back: str  # '' if nobody asked for it.


def matches(original: str, back: str, n: int = 1) -> Matches:
    """Counts the n-grams of a text and of its back-translation.

    Example: 'the the the dog', 'the dog the dog dog' -> Matches(common=3, original=4, back=5)
    """
    first, second = _ngrams(original, n), _ngrams(back, n)
    return Matches((first & second).total(), first.total(), second.total())


def overlap(original: str, back: str, n: int = 1) -> float:
    """The share of the original's n-grams that come back, 0 to 1; 0 where it has none."""
    counts = matches(original, back, n)
    return counts.common / counts.original if counts.original else 0.0


def round_trips(
    there: Job, back: Job | None, texts: Sequence[str], unit: str = 'text'
) -> Iterator[RoundTrip | Failure]:
    """Translates English texts and, unless `back` is None, translates them back, in order.

    The unit, of UNITS, is translated by itself: sentences of a translation go back one by one as
    they came, and a space joins them. A Failure says why a piece of a text was not translated.
    """
    pieces = [words.english_sentences(text) if unit == 'sentence' else [text] for text in texts]
    forward = list(there.run(piece for of_text in pieces for piece in of_text))
    # An engine never sees a failure; its place stays empty, and is filled with the failure again.
    given = ['' if isinstance(text, Failure) else text for text in forward]
    returned: list[str | Failure] = list(back.run(given)) if back else [''] * len(given)
    place = 0
    for of_text in pieces:
        end = place + len(of_text)
        parts = forward[place:end] + returned[place:end]
        done = [part for part in parts if not isinstance(part, Failure)]
        if len(done) < len(parts):
            yield next(part for part in parts if isinstance(part, Failure))
        else:
            size = len(of_text)
            yield RoundTrip(' '.join(done[:size]), ' '.join(done[size:]).strip())
        place = end


def _ngrams(text: str, n: int) -> collections.Counter[tuple[str, ...]]:
    tokens = _TOKEN.findall(text.lower())
    return collections.Counter(zip(*(tokens[i:] for i in range(n)), strict=False))
