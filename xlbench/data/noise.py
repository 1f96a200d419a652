"""The noise of mDialBART's two denoising tasks for dialogues.

arXiv:2202.05599, section 5.1: Action Infilling masks spans of actions, and Utterance Permutation
shuffles the utterances. The paper's code is not public. Our decisions: a token is a word between
spaces; the speaker's name is never masked; an unchanged order is drawn again; round(0.15 n) of the
n tokens of a dialogue are masked, and up to half of an utterance's tokens, because utterances
without an action have nothing to mask.

A dialogue is a text with an utterance on each line, 'Anna: Hi!'.
"""

import bisect
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MASK = '<mask>'  # BART's and mBART's token.
SHARE = 0.15  # Of the tokens are masked.

Span = tuple[int, int]  # The first token, and the one behind the last.
Actions = Mapping[str, Iterable[str]]  # Letters of a sentence -> subjects, relations, objects.


def generator(seed: int, epoch: int, number: int) -> random.Random:
    """Returns the random numbers of an example in an epoch, independent of other draws."""
    return random.Random(f'{seed}/{epoch}/{number}')


def dialogue_spans(dialogue: str, actions: Actions) -> list[set[Span]]:
    """Returns the places of the actions in each utterance, for any number of draws."""
    return [action_spans(_words(line)[1], actions) for line in _lines(dialogue)[0]]


def infill_spans(dialogue: str, spans: Sequence[Iterable[Span]], numbers: random.Random) -> str:
    """Masks spans of actions: SHARE of all tokens, if there are enough actions.

    After each utterance, up to SHARE of the tokens so far are masked. Missing masks are then set in
    utterances in random order. For `spans` see `dialogue_spans`, for `numbers` `generator`.

    Example: 'Ben: Sure, I will send it tonight.\\nAnna: Thanks!', the action of 'I', 'will send',
      'it' -> 'Ben: Sure, I will send <mask> tonight.\\nAnna: Thanks!', or with 'I' masked
    """
    lines, breaks = _lines(dialogue)
    sizes = [len(_words(line)[1]) for line in lines]
    chosen: list[list[Span]] = [[] for _ in lines]
    again = sorted(range(len(lines)), key=[numbers.random() for _ in lines].__getitem__)
    tokens, masked = 0, 0
    for place, line in enumerate((*range(len(lines)), *again)):
        tokens += sizes[line] if place < len(lines) else 0
        most = budget(tokens) - masked
        before = sum(end - start for start, end in chosen[line])
        if place >= len(lines) or most > budget(sizes[line]):
            most = min(most, sizes[line] // 2 - before)
        chosen[line] = choose_spans(spans[line], most, numbers, chosen[line])
        masked += sum(end - start for start, end in chosen[line]) - before
    return _joined(map(mask_spans, lines, chosen), breaks)


def permute(dialogue: str, numbers: random.Random) -> str:
    """Shuffles the utterances; two or more never keep their order."""
    count = len(_lines(dialogue)[0])
    order = list(range(count))
    while count > 1 and order == sorted(order):
        # Python promises `random` in every release, and not `shuffle`.
        keys = [numbers.random() for _ in range(count)]
        order.sort(key=keys.__getitem__)
    return reorder(dialogue, order)


def cut(dialogue: str, most: int, encode: Callable[[list[str]], Sequence[Sequence[int]]]) -> str:
    """Cuts a dialogue to `most` pieces, at a word; `encode` gives the pieces of each text."""
    lines, breaks = _lines(dialogue)
    kept: list[str] = []
    for line, pieces in zip(lines, encode([f'{line}\n' for line in lines]), strict=True):
        if len(pieces) > most:
            words = line.split(' ')

            def size(n: int, words: list[str] = words) -> int:
                return len(encode([' '.join(words[:n]) + '\n'])[0])

            fits = bisect.bisect_right(range(len(words)), most, key=size) - 1
            kept += [' '.join(words[:fits])] if fits > 0 else []
            break
        kept.append(line)
        most -= len(pieces)
    return _joined(kept, breaks[: len(kept) - 1]) if kept else ''


def reorder(dialogue: str, order: Sequence[int]) -> str:
    """Puts utterances into the order of their numbers, from 0; line ends keep their places."""
    lines, breaks = _lines(dialogue)
    return _joined([lines[number] for number in order], breaks)


def mask_spans(utterance: str, spans: Iterable[Span]) -> str:
    """Replaces each span by a mask; tokens are counted from the text behind 'speaker: '.

    Example: 'Tom: I bought a small car', [(1, 4)] -> 'Tom: I <mask> car'
    """
    speaker, words = _words(utterance)
    for start, end in sorted(spans, reverse=True):
        words[start:end] = [MASK]
    return speaker + ' '.join(words)


def budget(tokens: int, share: float = SHARE) -> int:
    """Returns the number of tokens to mask; halves are rounded to even."""
    return round(share * tokens)


def choose_spans(
    spans: Iterable[Span], most: int, numbers: random.Random, chosen: Sequence[Span] = ()
) -> list[Span]:
    """Adds random spans of at most `most` tokens to those already chosen, without overlap.

    A span that is longer than the rest of the budget is shortened.
    """
    chosen, ordered = list(chosen), sorted(set(spans))
    keys = {span: numbers.random() for span in ordered}
    for start, end in sorted(ordered, key=keys.__getitem__):
        over = max(0, end - start - most)
        first = start + int(keys[start, end] * (over + 1))
        last = end - (over - (first - start))
        if last > first and all(last <= begin or stop <= first for begin, stop in chosen):
            chosen.append((first, last))
            most -= last - first
    return sorted(chosen)


def actions_of(triples: Iterable[Mapping[str, str]]) -> Actions:
    """Groups the phrases of `readers.read_triples` by the letters of their sentence.

    Letters alone are compared, because tokenisers write a sentence differently.
    """
    phrases: dict[str, dict[str, None]] = {}
    for triple in triples:
        known = phrases.setdefault(_letters(triple['sentence']), {})
        for side in ('subject', 'relation', 'object'):
            known[_letters(triple[side])] = None
    return phrases


def action_spans(words: Sequence[str], actions: Actions) -> set[Span]:
    """Returns the places of the phrases of actions in the words of an utterance.

    A phrase that OpenIE has composed of separate words has none.
    """
    letters = [_letters(word) for word in words]
    ends = [i for i, word in enumerate(words, 1) if i == len(words) or word.endswith(_STOPS)]
    starts = [0, *ends[:-1]] if ends else []
    spans: set[Span] = set()
    for first, start in enumerate(starts):
        sentence = ''
        for begin, end in zip(starts[first:], ends[first:], strict=True):
            sentence += ''.join(letters[begin:end])
            for phrase in actions.get(sentence, ()):
                spans.update(_places(phrase, letters, start, end))
    return spans


_STOPS = ('.', '!', '?', '…', '"', "'", ')', ';', ':')  # Ends of sentences.


def _places(phrase: str, letters: Sequence[str], start: int, end: int) -> Iterator[Span]:
    """Yields the runs of words, between two places, with the letters of a phrase."""
    for first in range(start, end if phrase else start):
        text, last = letters[first], first + 1
        while text and len(text) < len(phrase) and last < end:
            text += letters[last]
            last += 1
        if text == phrase:
            yield first, last


def _letters(text: str) -> str:
    return ''.join(c for c in text.casefold() if c.isalnum())


def _lines(dialogue: str) -> tuple[list[str], list[str]]:
    """Returns the utterances and the line ends between them."""
    parts = re.split(r'(\r?\n)', dialogue)
    return parts[::2], parts[1::2]


def _joined(lines: Iterable[str], breaks: Sequence[str]) -> str:
    return ''.join(part for pair in zip(lines, [*breaks, ''], strict=True) for part in pair)


def _words(utterance: str) -> tuple[str, list[str]]:
    """Returns 'speaker: ' and the tokens of the text."""
    speaker, mark, text = utterance.partition(': ')
    if not mark:
        speaker, text = '', utterance
    return speaker + mark, text.split(' ')
