"""Alignment of the words of two texts as in METEOR 1.5: a path through their matches.

Of all candidate matches those are chosen that cover the most words, in the fewest chunks of
neighbours, with the least distance. The search is a beam over the words of the reference, with the
quirks of the tool: words and stems are compared by their hashes (see `key`), what a match adds to
the coverage is cut to a whole number, and the distance of a match that is tried is added to the
path that does not take it.
"""

import array
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xlbench.metrics.meteor.tables import Synonyms

Words = Sequence[str]
_UTF_16 = f'utf-16-{sys.byteorder[0]}e'  # Of this machine, as array reads it.


class Match(NamedTuple):
    """Words of the reference that are those of the hypothesis."""

    start: int  # In the reference.
    length: int
    other: int  # In the hypothesis.
    other_length: int
    module: int  # Place in the list of modules of the one that has found it.
    # Addition to the coverage: its words on both sides. Of a match that is not exact each side
    # counts half and is cut, so that single words add nothing.
    gain: int


Matcher = Callable[[Words, Words, int], Iterable[Match]]


class Alignment(NamedTuple):
    """The matches that were chosen, in the order of the reference, and their chunks."""

    matches: list[Match]
    chunks: int


@functools.lru_cache(1 << 18)
def key(word: str) -> int:
    """The number by which the tool compares words and stems: String.hashCode() of Java.

    Short words share it: French je and l', n' and le. It is 31 h + c over the UTF-16 units c of the
    word, in 32 bits (Java SE API, class String; METEOR 1.5, aligner/Stage and StemMatcher).
    """
    number = 0
    for unit in array.array('H', word.encode(_UTF_16, 'surrogatepass')):
        number = (31 * number + unit) & 0xFFFFFFFF
    return number


def exact(hypothesis: Words, reference: Words, module: int) -> Iterable[Match]:
    """Words with equal keys."""
    return _equal(hypothesis, reference, module, 2)


def _equal(hypothesis: Words, reference: Words, module: int, gain: int) -> list[Match]:
    places: dict[int, list[int]] = {}
    for j, word in enumerate(hypothesis):
        places.setdefault(key(word), []).append(j)
    return [
        Match(i, 1, j, 1, module, gain)
        for i, word in enumerate(reference)
        for j in places.get(key(word), ())
    ]


def stems(stem: Callable[[str], str]) -> Matcher:
    """Words with different keys, whose stems have equal ones."""

    def match(hypothesis: Words, reference: Words, module: int) -> Iterable[Match]:
        found = _equal([*map(stem, hypothesis)], [*map(stem, reference)], module, 0)
        return [m for m in found if key(hypothesis[m.other]) != key(reference[m.start])]

    return match


def synonyms(table: Synonyms) -> Matcher:
    """Different words that have a set of synonyms in common, as they are or in their base form."""

    @functools.cache
    def sets_of(word: str) -> frozenset[int]:
        forms = (word, *_base_forms(word, table))
        return frozenset[int]().union(*(table.synsets.get(form, ()) for form in forms))

    def match(hypothesis: Words, reference: Words, module: int) -> Iterable[Match]:
        others = [(j, word, sets) for j, word in enumerate(hypothesis) if (sets := sets_of(word))]
        for i, word in enumerate(reference):
            if sets := sets_of(word):
                for j, other, other_sets in others:
                    if key(word) != key(other) and not sets.isdisjoint(other_sets):
                        yield Match(i, 1, j, 1, module, 0)

    return match


# The rules by which WordNet finds a base form: nouns, verbs, adjectives.
_SUFFIXES = (
    ('s', ''), ('ses', 's'), ('xes', 'x'), ('zes', 'z'), ('ches', 'ch'), ('shes', 'sh'),
    ('men', 'man'), ('ies', 'y'),
    ('s', ''), ('ies', 'y'), ('es', 'e'), ('es', ''), ('ed', 'e'), ('ed', ''), ('ing', 'e'),
    ('ing', ''),
    ('er', ''), ('est', ''), ('er', 'e'), ('est', 'e'),
)  # fmt: skip


def _base_forms(word: str, table: Synonyms) -> Sequence[str]:
    if word in table.base_forms:
        return table.base_forms[word]
    if word.endswith('ful') or len(word) <= 2 or word.endswith('ss'):
        return ()
    for ending, new in _SUFFIXES:
        if word.endswith(ending) and (form := word[: len(word) - len(ending)] + new) in (
            table.synsets
        ):
            return (form,)
    return ()


def paraphrases(rows: Iterable[tuple[str, str]]) -> Matcher:
    """Runs of words that a table has side by side: phrase and paraphrase, in its order."""
    table: dict[str, dict[tuple[str, ...], None]] = {}
    longest: dict[str, int] = {}  # Phrase by first word.
    for phrase, paraphrase in rows:
        table.setdefault(phrase, {})[tuple(paraphrase.split())] = None
        first, size = phrase.partition(' ')[0], phrase.count(' ') + 1
        longest[first] = max(size, longest.get(first, 0))

    def found(words: Words, others: Words) -> Iterable[tuple[int, int, int, int]]:
        places: dict[str, list[int]] = {}
        for j, word in enumerate(others):
            places.setdefault(word, []).append(j)
        for i, word in enumerate(words):
            for length in range(1, min(longest.get(word, 0), len(words) - i) + 1):
                for paraphrase in table.get(' '.join(words[i : i + length]), ()):
                    size = len(paraphrase)
                    for j in places.get(paraphrase[0], ()):
                        if tuple(others[j : j + size]) == paraphrase:
                            yield i, length, j, size

    def match(hypothesis: Words, reference: Words, module: int) -> Iterable[Match]:
        """Phrases of the reference with their paraphrases in the hypothesis; then the reverse."""
        for i, length, j, other_length in found(reference, hypothesis):
            yield Match(i, length, j, other_length, module, length // 2 + other_length // 2)
        for j, other_length, i, length in found(hypothesis, reference):
            yield Match(i, length, j, other_length, module, length // 2 + other_length // 2)

    return match


# -------------------------------------------------------------------------------------- the search

BEAM = 40  # Paths that are followed.
# A path's rank is one number, the smaller the better: minus the words that are covered, then the
# chunks that are closed, then the distance between the places of the matches.
_COVERED, _CHUNK = 1 << 42, 1 << 21


class _Step(NamedTuple):
    """A match as the search needs it: what it costs, what it takes, where it ends."""

    cost: int
    distance: int
    used: int
    other_used: int
    next: int
    other: int
    other_end: int
    match: Match


def _step(match: Match) -> _Step:
    start, length, other, other_length, _, gain = match
    return _Step(
        -gain * _COVERED,
        abs(start - other),
        ((1 << length) - 1) << start,
        ((1 << other_length) - 1) << other,
        start + length,
        other,
        other + other_length,
        match,
    )


# Rank; the first word of the reference behind the last match; the first word of the hypothesis
# behind it, -1 where no chunk is open; the words of the reference and of the hypothesis that are
# taken, as bits; the free matches so far, the last one first.
_Path = tuple[int, int, int, int, int, tuple[Match, Any] | None]
_rank = operator.itemgetter(0)


def align(hypothesis: Words, reference: Words, matchers: Sequence[Matcher]) -> Alignment:
    """The alignment that the tool chooses.

    Where the words of both texts have equal keys, only the first of the matchers is asked.
    """
    if [*map(key, hypothesis)] == [*map(key, reference)]:
        matchers = matchers[:1]
    starts: list[list[Match]] = [[] for _ in reference]
    covers, other_covers = [0] * len(reference), [0] * len(hypothesis)
    for module, matcher in enumerate(matchers):
        for match in matcher(hypothesis, reference, module):
            starts[match.start].append(match)
            for i in range(match.start, match.start + match.length):
                covers[i] += 1
            for j in range(match.other, match.other + match.other_length):
                other_covers[j] += 1
    fixed = {
        start: _step(matches[0])
        for start, matches in enumerate(starts)
        if len(matches) == 1 and _is_alone(matches[0], covers, other_covers)
    }
    chosen = [step.match for step in fixed.values()]
    if len(fixed) < sum(map(bool, starts)):
        free = [[] if i in fixed else [*map(_step, matches)] for i, matches in enumerate(starts)]
        chosen += _search(free, fixed)
        chosen.sort()
    return Alignment(chosen, _chunks(chosen))


def _is_alone(match: Match, covers: Sequence[int], other_covers: Sequence[int]) -> bool:
    """Returns whether no other candidate covers a word of it."""
    mine = covers[match.start : match.start + match.length]
    others = other_covers[match.other : match.other + match.other_length]
    return max(mine) == max(others) == 1


def _chunks(matches: Sequence[Match]) -> int:
    """Runs of matches that are neighbours on both sides."""
    end = other_end = -1
    chunks = 0
    for match in matches:
        chunks += match.start != end or match.other != other_end
        end, other_end = match.start + match.length, match.other + match.other_length
    return chunks


def _search(starts: Sequence[Sequence[_Step]], fixed: Mapping[int, _Step]) -> list[Match]:
    """The free matches of the best path, of those that begin with each word of the reference."""
    used = other_used = 0
    for step in fixed.values():
        used, other_used = used | step.used, other_used | step.other_used
    paths: list[_Path] = [(0, 0, -1, used, other_used, None)]
    for current, steps in enumerate(starts):
        if len(paths) > 1:
            paths.sort(key=_rank)
        bit = 1 << current
        following: list[_Path] = []
        for path in paths[:BEAM]:
            rank, next_start, end, used, other_used, taken = path
            if used & bit:
                if current < next_start:
                    following.append(path)
                elif one := fixed.get(current):
                    rank += one.cost + one.distance
                    if end not in (-1, one.other):
                        rank += _CHUNK
                    following.append((rank, one.next, one.other_end, used, other_used, taken))
                continue
            for step in steps:
                cost, distance, bits, other_bits, step_next, other, other_end, match = step
                if used & bits or other_used & other_bits:
                    continue
                following.append(
                    (
                        rank + cost + (0 if end in (-1, other) else _CHUNK),
                        step_next,
                        other_end,
                        used | bits,
                        other_used | other_bits,
                        (match, taken),
                    )
                )
                rank += distance  # Of the path that goes on without it, as the tool has it.
            if end != -1:
                rank += _CHUNK
            following.append((rank, next_start + 1, -1, used, other_used, taken))
        paths = following
    paths.sort(key=_rank)
    closed = [(rank + (end != -1) * _CHUNK, taken) for rank, _, end, *_, taken in paths[:BEAM]]
    taken = min(closed, key=_rank)[1]
    matches = []
    while taken:
        match, taken = taken
        matches.append(match)
    return matches
