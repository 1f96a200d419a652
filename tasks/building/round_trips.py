"""Texts translated and translated back, and how much of each comes back (arXiv:2108.07140, 3.3).

The paper filters by "the n-gram overlap ratio between the original English text and the
back-translated one" and gives no formula. Here it is the share of the original's n-grams that come
back, each at most as often as it is there, by default of single words:

  matches('The cat sat on the mat.', 'The cat sat on the rug.').overlap -> 6/7

Tokens are runs of Unicode's word characters and single other characters but spaces, in lower case.
"""

import collections
import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xlbench.metrics import words
from xlbench.tasks.building.builds import ENGLISH
from xlbench.translation.engines import Failure
from xlbench.translation.jobs import Job, Template

UNITS = ('text', 'sentence')
_TOKEN = re.compile(r'\w+|[^\w\s]')


class Matches(NamedTuple):
    """Counts of the n-grams of two texts, and of those they have in common."""

    common: int  # Of the original that come back, each at most as often as in either text.
    original: int
    back: int

    @property
    def overlap(self) -> float:
        """The share of the original's n-grams that come back, 0 to 1; 0 where it has none."""
        return self.common / self.original if self.original else 0.0


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


def _ngrams(text: str, n: int) -> collections.Counter[tuple[str, ...]]:
    tokens = _TOKEN.findall(text.lower())
    return collections.Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def translated(
    template: Template,
    rows: Sequence[Sequence[str]],
    lang: str,
    unit: str = 'text',
    back: bool = False,
) -> tuple[list[list[RoundTrip | Failure]], int]:
    """Translates the English texts of some rows, perhaps back as well, by a unit of UNITS.

    Also gives how many texts a model could not hold.
    """
    pairs = [(ENGLISH, lang), (lang, ENGLISH)][: 1 + back]
    jobs = [template.job(*pair) for pair in pairs]
    used = {id(one): one for one in (template.engine(*pair) for pair in pairs)}.values()
    before = sum(engine.num_cut for engine in used)
    texts = [text for row in rows for text in row]
    with contextlib.ExitStack() as stack:
        for job in jobs:  # The sum is said at the end, in place of warnings.
            stack.enter_context(job.telling_of_cuts(lambda line: None))
        trips = round_trips(jobs[0], jobs[1] if back else None, texts, unit)
        by_row = [list(itertools.islice(trips, len(row))) for row in rows]
    return by_row, sum(engine.num_cut for engine in used) - before


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
    returned: list[str | Failure] = [''] * len(forward)
    if back is not None:
        returned = list(back.run('' if isinstance(text, Failure) else text for text in forward))
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
