"""Noise that a model learns to take out of dialogues: mDialBART's two tasks of denoising.

arXiv:2202.05599, section 5.1: Action Infilling masks spans of what is done by whom, Utterance
Permutation shuffles the utterances. The paper's code for them is not public, so that these are
decisions: a token is a word between spaces, the name of the speaker is never masked, an utterance
of n tokens loses at most round(0.15 n) of them, and an order that changes nothing is drawn again.

A dialogue is a text with an utterance on each line, 'Anna: Hi!'.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

MASK = '<mask>'  # BART's and mBART's token.
SHARE = 0.15  # Of an utterance's tokens, masked.

Span = tuple[int, int]  # The first token, and the one behind the last.
Actions = Mapping[str, Iterable[str]]  # Letters of a sentence -> subjects, relations, objects.


def generator(seed: int, epoch: int, number: int) -> random.Random:
    """The random numbers of one example in one epoch: the same whatever was drawn before."""
    return random.Random(f'{seed}/{epoch}/{number}')


def infill(dialogue: str, actions: Actions, numbers: random.Random) -> str:
    """Masks spans of the actions in each utterance, at most SHARE of its tokens.

    Args:
      dialogue: an utterance on each line.
      actions: see `actions_of`.
      numbers: see `generator`.

    Example: 'Ben: Sure, I will send it tonight.\\nAnna: Thanks!', the action of 'I', 'will send',
      'it' -> 'Ben: Sure, I will send <mask> tonight.\\nAnna: Thanks!', or with 'I' masked
    """
    return infill_spans(dialogue, dialogue_spans(dialogue, actions), numbers)


def dialogue_spans(dialogue: str, actions: Actions) -> list[set[Span]]:
    """Where the actions of each utterance stand in it, for any number of draws.

    Args:
      dialogue: an utterance on each line.
      actions: see `actions_of`.
    """
    return [action_spans(_words(line)[1], actions) for line in _lines(dialogue)[0]]


def infill_spans(
    dialogue: str, spans: Sequence[Iterable[Span]], numbers: random.Random
) -> str:
    """Masks some of the spans of each utterance, as `infill` does.

    Args:
      dialogue: an utterance on each line.
      spans: see `dialogue_spans`.
      numbers: see `generator`.
    """
    lines, breaks = _lines(dialogue)
    masked = [
        mask_spans(line, choose_spans(of_line, budget(len(_words(line)[1])), numbers))
        for line, of_line in zip(lines, spans, strict=True)
    ]
    return _joined(masked, breaks)


def permute(dialogue: str, numbers: random.Random) -> str:
    """Shuffles the utterances; two or more never keep their order.

    Args:
      dialogue: an utterance on each line.
      numbers: see `generator`.
    """
    count = len(_lines(dialogue)[0])
    order = list(range(count))
    while count > 1 and order == sorted(order):
        # Python promises `random` in every release, and not `shuffle`.
        keys = [numbers.random() for _ in range(count)]
        order.sort(key=keys.__getitem__)
    return reorder(dialogue, order)


def reorder(dialogue: str, order: Sequence[int]) -> str:
    """Puts the utterances into an order; line ends stay where they are.

    Args:
      dialogue: an utterance on each line.
      order: the number of the utterance, from 0, that comes first, second, ...
    """
    lines, breaks = _lines(dialogue)
    return _joined([lines[number] for number in order], breaks)


def mask_spans(utterance: str, spans: Iterable[Span]) -> str:
    """Puts one mask in place of each span, also of two that touch.

    Args:
      utterance: 'speaker: text'; tokens are counted behind the speaker.
      spans: none overlaps another.

    Example: 'Tom: I bought a small car', [(1, 4)] -> 'Tom: I <mask> car'
    """
    speaker, words = _words(utterance)
    for start, end in sorted(spans, reverse=True):
        words[start:end] = [MASK]
    return speaker + ' '.join(words)


def budget(tokens: int, share: float = SHARE) -> int:
    """How many of an utterance's tokens may be masked; a half is rounded to the even number."""
    return round(share * tokens)


def choose_spans(spans: Iterable[Span], most: int, numbers: random.Random) -> list[Span]:
    """Draws spans that do not overlap, each once, as long as they have at most `most` tokens.

    Args:
      spans: in any order.
      most: see `budget`.
      numbers: see `generator`.
    """
    ordered = sorted(set(spans))
    keys = {span: numbers.random() for span in ordered}
    chosen: list[Span] = []
    for start, end in sorted(ordered, key=keys.__getitem__):
        apart = all(end <= first or last <= start for first, last in chosen)
        if apart and end - start <= most:
            chosen.append((start, end))
            most -= end - start
    return sorted(chosen)


def actions_of(triples: Iterable[Mapping[str, str]]) -> Actions:
    """The phrases of each sentence, by its letters: tokenisers write the same sentence otherwise.

    Args:
      triples: records of `readers.read_triples`.
    """
    phrases: dict[str, dict[str, None]] = {}
    for triple in triples:
        known = phrases.setdefault(_letters(triple['sentence']), {})
        for side in ('subject', 'relation', 'object'):
            known[_letters(triple[side])] = None
    return phrases


def action_spans(words: Sequence[str], actions: Actions) -> set[Span]:
    """Where the phrases of a text's actions stand in it, word for word.

    A phrase that OpenIE has put together from words that do not stand together has no span.

    Args:
      words: of an utterance, without its speaker. It may have several sentences.
      actions: see `actions_of`.
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


_STOPS = ('.', '!', '?', '…', '"', "'", ')', ';', ':')  # A sentence may end behind one.


def _places(phrase: str, letters: Sequence[str], start: int, end: int) -> Iterator[Span]:
    """The runs of words that have the letters of a phrase, between two places."""
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
    """Utterances, and what stands between them."""
    parts = re.split(r'(\r?\n)', dialogue)
    return parts[::2], parts[1::2]


def _joined(lines: Sequence[str], breaks: Sequence[str]) -> str:
    return ''.join(part for pair in zip(lines, [*breaks, ''], strict=True) for part in pair)


def _words(utterance: str) -> tuple[str, list[str]]:
    """The speaker with what follows the name, and the tokens of the text."""
    speaker, mark, text = utterance.partition(': ')
    if not mark:
        speaker, text = '', utterance
    return speaker + mark, text.split(' ')
