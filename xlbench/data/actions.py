"""Triples of who does what, written as CoreNLP's OpenIE prints them with -format reverb.

`readers.read_triples` reads the lines again. Column 1, where OpenIE has the name of the file, says
who made a line, so that a file always tells which extractor it is from.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

Span = tuple[int, int]  # The first token, and the one behind the last.

_TOKEN = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
_END = re.compile(r'(?<=[.!?…])\s+')


class Triple(NamedTuple):
    """One action in a sentence: where its three phrases stand; an empty object is (0, 0)."""

    subject: Span
    relation: Span
    object: Span


def sentences(text: str) -> list[list[str]]:
    """The sentences of an utterance, each as its tokens.

    Example: "I can't. Ask Ben!" -> [['I', "can't", '.'], ['Ask', 'Ben', '!']]
    """
    return [tokens for part in _END.split(text) if (tokens := _TOKEN.findall(part))]


def line(
    maker: str, number: int, tokens: Sequence[str], tags: Sequence[str], triple: Triple
) -> str:
    """A line of a file of triples, with its line end.

    Args:
      maker: of the triples.
      number: of the sentence, from 0.
      tokens: of the sentence.
      tags: of the tokens, '_' where they are not known.
      triple: an action in it. In place of lemmas stand its words in lower case.
    """
    phrases = [' '.join(tokens[start:end]) for start, end in triple]
    places = [str(place) for span in triple for place in span]
    lemmas = [phrase.lower() for phrase in phrases]
    columns = [maker, str(number), *phrases, *places, '1.000', ' '.join(tokens), ' '.join(tags)]
    return '\t'.join([*columns, *lemmas]) + '\n'


def find(phrase: str, tokens: Sequence[str], start: int = 0) -> Span | None:
    """Where a phrase stands in a sentence, from a token on, whatever its capitals."""
    words = [word.lower() for word in _TOKEN.findall(phrase)]
    lower = [token.lower() for token in tokens]
    for first in range(start, len(tokens) - len(words) + 1):
        if lower[first : first + len(words)] == words:
            return first, first + len(words)
    return None


