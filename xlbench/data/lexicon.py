"""A lexicon of two languages, learnt from pairs of texts: the likely translations of each word.

It is IBM's model 1 (Brown et al. 1993, aclanthology.org/J93-2003, section 4.2): the probability of
a target word given a source word, by expectation maximisation over all pairs of words that stand in
the same pair of texts. Every source text has one more word, an empty one, for target words that
nothing in the source stands for.

  lexicon = learn([('good morning', 'guten Morgen'), ('good idea', 'gute Idee'), ...])
  translate('Good idea!', lexicon) -> 'gute Idee!'
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import regex

from xlbench.data import chinese

ROUNDS = 5  # Of expectation maximisation; later ones hardly change which word is the likeliest.
MOST_PAIRS = 20_000  # Of texts that a lexicon is learnt from; of more, an even share.
_MOST_WORDS = 100  # Of a text that is longer, the first: rounds take the product of both lengths.

_UNSPACED = r'\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Myanmar}\p{Khmer}'
# A run of Chinese, a character of another script without spaces, a word of other letters, numbers
# and marks, also with an apostrophe inside, or one sign.
_TOKEN = regex.compile(
    rf'\p{{Han}}+|[{_UNSPACED}]'
    rf"|[[\p{{L}}\p{{N}}\p{{M}}]--[{_UNSPACED}]]+(?:['’][[\p{{L}}\p{{N}}\p{{M}}]--[{_UNSPACED}]]+)*"
    r'|\S',
    regex.V1,
)
_CHINESE = regex.compile(r'\p{Han}')
_CLOSING = regex.compile(r'[\p{Pe}\p{Pf}.,;:!?…%。，、；：！？]')
_OPENING = regex.compile(r'[\p{Ps}\p{Pi}]')
_SPACELESS = regex.compile(rf'[{_UNSPACED}。，、；：！？「」『』《》（）]')

Lexicon = Mapping[str, str]  # A lower-cased source word -> a target word.


def tokens(text: str) -> list[str]:
    """Returns words and signs of a text; words of Chinese as jieba cuts them.

    Example: 'Das geht, oder?' -> Das, geht, ',', oder, ?; '我们走吧。' -> 我们, 走, 吧, 。
    """
    parts = _TOKEN.findall(text)
    cut = (chinese.cutter()(p) if _CHINESE.match(p) and len(p) > 1 else [p] for p in parts)
    return list(itertools.chain.from_iterable(cut))


def join(words: Iterable[str]) -> str:
    """Returns a text of words and signs, with spaces where people write them.

    Example: Das, geht, ',', oder, ? -> 'Das geht, oder?'; 我们, 走, 。 -> '我们走。'
    """
    text = ''
    for word in words:
        attached = not text or _CLOSING.fullmatch(word) or _OPENING.fullmatch(text[-1])
        spaceless = text and _SPACELESS.match(word) and _SPACELESS.match(text[-1])
        text += word if attached or spaceless else f' {word}'
    return text


def learn(pairs: Sequence[tuple[str, str]]) -> Lexicon:
    """Returns the likeliest translation of each source word of (source, target) texts.

    Of equally likely ones it is the one that was seen first.
    """
    sources: dict[str, int] = {'': 0}  # The empty word has number 0.
    targets: dict[str, int] = {}
    texts = []
    for source, target in pairs[:: max(-(-len(pairs) // MOST_PAIRS), 1)]:
        words = ['', *(word.lower() for word in tokens(source)[:_MOST_WORDS])]
        translated = tokens(target)[:_MOST_WORDS]
        texts.append((_numbers(words, sources), _numbers(translated, targets)))
    names, best = list(targets), _likeliest(texts, len(targets))
    return {word: names[best[number]] for word, number in sources.items() if number in best}


def translate(text: str, lexicon: Lexicon) -> str:
    """Each word's translation in its place; a word that the lexicon lacks stays as it is."""
    return join(lexicon.get(word.lower(), word) for word in tokens(text))


def _numbers(words: Sequence[str], known: dict[str, int]) -> np.ndarray:
    """Returns the numbers of words, [words]; a new word gets the next one."""
    return np.array([known.setdefault(word, len(known)) for word in words], np.int64)


def _likeliest(texts: Sequence[tuple[np.ndarray, np.ndarray]], num_targets: int) -> dict[int, int]:
    """The target word with the highest probability given each source word but the empty one.

    Args:
      texts: the words of source [words] and target [words] of each pair.
      num_targets: how many target words there are.
    """
    if not num_targets:
        return {}
    # An entry for each word of a source with each of its target: the two words, and the place of
    # the target word among those of all targets.
    words = np.concatenate([(s * num_targets + t[:, None]).ravel() for s, t in texts])
    repeats = np.concatenate([np.full(len(t), len(s)) for s, t in texts])
    places = np.repeat(np.arange(len(repeats), dtype=np.int32), repeats)
    pairs, which = np.unique(words, return_inverse=True)
    source, target = np.divmod(pairs, num_targets)
    probabilities = np.ones(len(pairs))  # Of the target given the source; at first all are alike.
    for _ in range(ROUNDS):
        shares = probabilities[which]
        shares /= np.bincount(places, shares)[places]
        counts = np.bincount(which, shares, minlength=len(pairs))
        probabilities = counts / np.bincount(source, counts)[source]
    order = np.lexsort((target, -probabilities, source))
    known, first = np.unique(source[order], return_index=True)
    best = zip(known.tolist(), target[order][first].tolist(), strict=True)
    return {word: translation for word, translation in best if word}
