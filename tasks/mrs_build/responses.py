"""Counted replies -> the response set of a language (arXiv:2106.02017, section 2.1)."""

import collections
import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import regex

_APOSTROPHE = regex.compile(r"['’ʼ`´]")
_SIGNS = regex.compile(r'[^\p{L}\p{M}\p{N}]+')


class Response(NamedTuple):
    """One line of response_lm_cluster.txt.

    Attributes:
      lm_score: natural logarithm of its estimated share of all replies.
      text: the reply.
      cluster: number, the same for texts with the same `cluster_key`.
    """

    lm_score: float
    text: str
    cluster: int

    def __str__(self) -> str:
        return f'{self.lm_score:.6f}\t{self.text}\t{self.cluster}'


def cluster_key(text: str) -> str:
    """Reduces a text so that those that differ in case, width and punctuation only are equal.

    Signs alone stand for themselves: ':)' is not ':('.

    Example: 'Don’t be so-so!' -> 'dont be so so'
    """
    plain = unicodedata.normalize('NFKC', text).casefold()
    return _SIGNS.sub(' ', _APOSTROPHE.sub('', plain)).strip() or plain


def choose(
    counted: Iterable[tuple[int, str]],
    translated: Sequence[str],
    num_replies: int,
    *,
    min_count: int,
    max_responses: int,
    allowed: Callable[[Sequence[str]], Sequence[bool]],
) -> list[Response]:
    """The response set: frequent replies, the most frequent first; then translated ones.

    The score is ln((count + 1) / (num_replies + size of the set)): relative frequency, with one
    occurrence added for each response, as translated ones may not have occurred.

    Args:
      counted: how often each reply occurs.
      translated: English responses in this language, in the order of the English ones.
      num_replies: in which they were counted.
      min_count: a reply of the data is chosen if it occurs so often.
      max_responses: the size of the set at most.
      allowed: whether each text is not toxic.
    """
    counts = collections.Counter(dict.fromkeys(translated, 0))
    for count, text in counted:
        if count >= min_count or text in counts:
            counts[text] = count
    frequent = [text for text, count in counts.items() if count >= min_count]
    frequent.sort(key=lambda text: (-counts[text], text))
    texts = list(dict.fromkeys([*frequent, *translated]))
    kept = [text for text, keep in zip(texts, allowed(texts), strict=True) if keep]
    kept = kept[:max_responses]
    clusters: dict[str, int] = {}
    return [
        Response(
            math.log((counts[text] + 1) / (num_replies + len(kept))),
            text,
            clusters.setdefault(cluster_key(text), len(clusters)),
        )
        for text in kept
    ]
