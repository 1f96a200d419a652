"""Simple baselines without a model, a device or a vocabulary.

  copy_input         repeats the input
  first_sentences    repeats the first three sentences of the input
  longest_utterance  repeats the longest line of the input, without its speaker
  most_frequent      gives the most frequent training target
  best_constant      gives the training target with the best score on some training examples
  nearest_input      gives the target of the training input with the most similar words
  word_by_word       translates each word by a lexicon that it learns from the training pairs

Further predictions are the next most frequent targets, or those of the next nearest inputs.
"""

import collections
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import regex

from xlbench.data import chinese
from xlbench.system import errors

# Chinese, kana, Thai, Lao, Burmese and Khmer have no spaces between words: by character.
_UNSPACED = r'\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Myanmar}\p{Khmer}'
# Our preprocessors add the tag of the target language and the answer's separator.
_MARKER = regex.compile(r'(?<!\S)<[a-z]+>(?!\S)')

# A sentence, or a line, with the spaces after it.
_SENTENCE = regex.compile(r'[^\r\n]+?(?:(?<=[.!?…])\s+|(?<=[。！？])|[\r\n]+|\Z)')
_LEAD = 3  # Sentences, as in usual lead baselines of summarisation.
# The speaker before an utterance: 'Anna:', 'ANNA SMITH, HOST:'.
_SPEAKER = regex.compile(r'^[^:：.!?]{1,80}[:：](?:\s+|(?<=：))')

# Targets that best_constant scores; half are frequent, the others have frequent words.
_CONSTANTS = 24

# Pairs of (training text, input) whose similarity is in memory at once: 32 MiB of float32.
_CHUNK_PAIRS = 8 << 20


def _lead(text: str) -> str:
    """Returns the first sentences of the input."""
    return ''.join(_SENTENCE.findall(text.strip())[:_LEAD])


def _longest_utterance(text: str) -> str:
    """Returns the first line of the input with the most words, without its speaker."""
    said = (_SPEAKER.sub('', line.strip()) for line in text.splitlines())
    return max(said, key=lambda line: len(words(line)), default='')


# From the input without markers such as <de>; what they give is put on one line.
_OF_INPUT: Mapping[str, Callable[[str], str]] = {
    'copy_input': str,
    'first_sentences': _lead,
    'longest_utterance': _longest_utterance,
}
# Those that need training examples.
LEARNING = ('most_frequent', 'best_constant', 'nearest_input', 'word_by_word')
NAMES = (*_OF_INPUT, *LEARNING)


def predict(
    name: str,  # One of NAMES.
    train_pairs: Sequence[tuple[str, str]],  # (input, target) of the task's training split.
    inputs: Sequence[str],
    count: int = 1,
    score: Callable[[str], float] | None = None,  # Of a text as the answer to all train_pairs.
) -> list[list[str]]:
    """Returns up to `count` different predictions of a baseline for each input, best first.

    Baselines that repeat or translate the input give one; best_constant needs `score`.
    """
    errors.check_known('baseline', name, NAMES)
    if name in _OF_INPUT:
        taken = (_OF_INPUT[name](_MARKER.sub(' ', text)) for text in inputs)
        return [[' '.join(text.split())] for text in taken]
    if not train_pairs:
        raise errors.UserError(f'baseline {name!r} needs training examples, got none')
    if not inputs:
        return []
    if name == 'nearest_input':
        return _nearest(train_pairs, inputs, count)
    if name == 'word_by_word':
        lexicon = learn_lexicon(train_pairs)
        return [[translate_words(_MARKER.sub(' ', text), lexicon)] for text in inputs]
    targets = [target for _, target in train_pairs]
    if name == 'best_constant':
        if score is None:
            raise ValueError('best_constant needs the score of a text')
        best = sorted(constants(targets), key=score, reverse=True)[:count]
    else:
        # most_common keeps the order of equal counts, that of first sight.
        best = [target for target, _ in collections.Counter(targets).most_common(count)]
    return [list(best) for _ in inputs]


def constants(targets: Sequence[str]) -> list[str]:
    """Chooses training targets as candidates for the best constant answer.

    Half are the most frequent ones. The others share most words with all targets for their length,
    by the sum of their words' document frequencies over the length of both.
    """
    counts = collections.Counter(targets)
    of_each = {target: set(words(target)) for target in counts}
    frequency = collections.Counter(word for target in targets for word in of_each[target])
    mean = sum(len(of_each[target]) for target in targets) / max(len(targets), 1)
    shared = {
        target: sum(frequency[word] for word in own) / (len(own) + mean or 1)
        for target, own in of_each.items()
    }
    common = [target for target, _ in counts.most_common(_CONSTANTS // 2)]
    central = sorted(counts, key=lambda target: -shared[target])[:_CONSTANTS]
    return list(dict.fromkeys([*common, *central]))[:_CONSTANTS]


_WORD = regex.compile(rf'[{_UNSPACED}]|[[\p{{L}}\p{{N}}\p{{M}}]--[{_UNSPACED}]]+', regex.V1)


def words(text: str) -> list[str]:
    """Returns lower-cased runs of letters, digits and marks; scripts without spaces by character.

    Example: 'Der Zug, 1. Klasse' -> ['der', 'zug', '1', 'klasse']; '新しい car' -> 新, し, い, car.
    """
    return _WORD.findall(text.lower())


def _nearest(
    train_pairs: Sequence[tuple[str, str]], inputs: Sequence[str], count: int
) -> list[list[str]]:
    """Returns different targets of the training inputs with the highest TF-IDF cosines.

    Ties go to the first pairs, also for an input without a word of the training data.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # It loads for a second.

    sources = [source for source, _ in train_pairs]
    targets = list(dict.fromkeys(target for _, target in train_pairs))
    numbers = {target: number for number, target in enumerate(targets)}
    labels = np.array([numbers[target] for _, target in train_pairs])
    count = min(count, len(targets))
    if not any(map(words, sources)):
        return [targets[:count] for _ in inputs]
    vectorizer = TfidfVectorizer(analyzer=words)
    weights = vectorizer.fit_transform(sources).T
    nearest: list[list[str]] = []
    chunk = max(1, _CHUNK_PAIRS // len(sources))
    for first in range(0, len(inputs), chunk):
        query = vectorizer.transform(inputs[first : first + chunk])
        similarity = (query @ weights).astype(np.float32).toarray()
        best = []
        for _ in range(count):
            best.append(labels[similarity.argmax(axis=1)])
            # Pairs with this target are out for the next one.
            similarity[labels == best[-1][:, None]] = -1.0
        nearest += [[targets[label] for label in row] for row in np.stack(best, axis=1)]
    return nearest


# ---------------------------------------------------------------------------------------------
# A lexicon from pairs of texts: the likeliest translation of each word.
#
# IBM's model 1 (Brown et al. 1993, aclanthology.org/J93-2003, section 4.2): the probability of a
# target word given a source word, by expectation maximisation over all pairs of words in the same
# pair of texts. Every source text also has an empty word, for target words without a source.

ROUNDS = 5  # Of expectation maximisation; later ones hardly change the likeliest words.
MOST_PAIRS = 20_000  # Of texts; of more pairs every n-th is used.
_MOST_WORDS = 100  # Of a text, from its start: a round takes the product of both lengths.

# A run of Chinese, a character of another script without spaces, a word (which may have an
# apostrophe inside), or a sign.
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


def words_and_signs(text: str) -> list[str]:
    """Splits a text into words and signs, Chinese by jieba.

    Example: 'Das geht, oder?' -> Das, geht, ',', oder, ?; '我们走吧。' -> 我们, 走, 吧, 。
    """
    parts = _TOKEN.findall(text)
    cut = (chinese.cutter()(p) if _CHINESE.match(p) and len(p) > 1 else [p] for p in parts)
    return list(itertools.chain.from_iterable(cut))


def join_words(words: Iterable[str]) -> str:
    """Joins words and signs with the usual spaces.

    Example: Das, geht, ',', oder, ? -> 'Das geht, oder?'; 我们, 走, 。 -> '我们走。'
    """
    text = ''
    for word in words:
        attached = not text or _CLOSING.fullmatch(word) or _OPENING.fullmatch(text[-1])
        spaceless = text and _SPACELESS.match(word) and _SPACELESS.match(text[-1])
        text += word if attached or spaceless else f' {word}'
    return text


def learn_lexicon(pairs: Sequence[tuple[str, str]]) -> Lexicon:
    """Learns the likeliest translation of each source word from (source, target) texts.

    Ties go to the translation that was seen first.
    """
    sources: dict[str, int] = {'': 0}  # The empty word has number 0.
    targets: dict[str, int] = {}
    texts = []
    for source, target in pairs[:: max(-(-len(pairs) // MOST_PAIRS), 1)]:
        words = ['', *(word.lower() for word in words_and_signs(source)[:_MOST_WORDS])]
        translated = words_and_signs(target)[:_MOST_WORDS]
        texts.append((_numbers(words, sources), _numbers(translated, targets)))
    names, best = list(targets), _likeliest(texts, len(targets))
    return {word: names[best[number]] for word, number in sources.items() if number in best}


def translate_words(text: str, lexicon: Lexicon) -> str:
    """Translates each word in its place; a word that the lexicon lacks stays."""
    return join_words(lexicon.get(word.lower(), word) for word in words_and_signs(text))


def _numbers(words: Sequence[str], known: dict[str, int]) -> np.ndarray:
    """Returns the numbers of words, [words]; a new word gets the next number."""
    return np.array([known.setdefault(word, len(known)) for word in words], np.int64)


def _likeliest(texts: Sequence[tuple[np.ndarray, np.ndarray]], num_targets: int) -> dict[int, int]:
    """Returns the likeliest target word of each source word but the empty one, as numbers."""
    if not num_targets:
        return {}
    # An entry for each source word with each target word of a pair: both words as one number, and
    # the place of the target word among all.
    words = np.concatenate([(s * num_targets + t[:, None]).ravel() for s, t in texts])
    repeats = np.concatenate([np.full(len(t), len(s)) for s, t in texts])
    places = np.repeat(np.arange(len(repeats), dtype=np.int32), repeats)
    pairs, which = np.unique(words, return_inverse=True)
    source, target = np.divmod(pairs, num_targets)
    probabilities = np.ones(len(pairs))  # Of the target given the source; uniform at first.
    for _ in range(ROUNDS):
        shares = probabilities[which]
        shares /= np.bincount(places, shares)[places]
        counts = np.bincount(which, shares, minlength=len(pairs))
        probabilities = counts / np.bincount(source, counts)[source]
    order = np.lexsort((target, -probabilities, source))
    known, first = np.unique(source[order], return_index=True)
    best = zip(known.tolist(), target[order][first].tolist(), strict=True)
    return {word: translation for word, translation in best if word}
