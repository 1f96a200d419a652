"""Ids of repeated words: computed once, then looked up.

The `tokenizers` library cuts a text at its spaces, and works out the ids of every part without the
others. It also keeps for every piece its text, its place and more, of which we need nothing. Most
words of a corpus occur many times, so that looking them up takes a fifth of the time. A text takes
this way only if its ids are certain to be those of the library:

- the steps of the tokenizer are of kinds that are known to look at no more than a word (`of`);
- no word holds, before or after normalization, a token that was added to the vocabulary, such as
  </s>: those are sought in the whole text;
- no character of a word becomes a space or nothing, or joins a space before or after the word.

All others go through the library.
"""

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tokenizers

_SMALLEST_BATCH = 64  # Texts; below, a word hardly comes again.
_MOST_WORDS = 2**18  # About 60 MB.
_LONGEST_WORD = 48  # Characters. A sentence without spaces does not come again.
_MOST_NEW = 0.5  # Of the words of a batch.
_GROUP = 64  # Words that are looked at together.
_MOST_ADDED = 1000  # Tokens that are sought in every new word.

# Steps that take words one by one, as `tokenizers` names them.
_NORMALIZERS = frozenset(
    {
        'BertNormalizer', 'Lowercase', 'NFC', 'NFD', 'NFKC', 'NFKD', 'Nmt', 'Precompiled', 'Strip',
        'StripAccents',
    }
)  # fmt: skip
# Replacements that do: of several spaces, and those of objects._split_as_mrs.
_REPLACED = frozenset(
    {' {2,}', r'[\t\n\r]', r'(?![\x{200d}\x{fe0f}])\p{C}|\x{fffd}', r'\p{Nd}+'}
)  # fmt: skip
_SPLITS_AT_SPACES = frozenset({'BertPreTokenizer', 'Whitespace', 'WhitespaceSplit'})
_SPLITS_WORDS = frozenset({'Digits', 'Metaspace', 'Punctuation'})

# Unicode's grapheme clusters (UAX 29), which some normalizers look at as a whole: what may not be
# parted from a space before it, beside marks, and, beside controls, from one behind it.
_JOINS_BEFORE = frozenset(map(chr, (0xE33, 0xEB3, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400))))
_JOINS_BEHIND = frozenset(
    chr(code)
    for code in (
        0xD4E, 0x111C2, 0x111C3, 0x113D1, 0x1193F, 0x11941, 0x11A3A, *range(0x11A84, 0x11A8A),
        0x11D46, 0x11F02,
    )
)  # fmt: skip
_SPACE = '▁'  # What a space is for SentencePiece.

Step = Mapping[str, object]
Encoder = Callable[[Sequence[str]], list[np.ndarray]]  # Texts -> ids, each [length] int32.


def library(tokenizer: tokenizers.Tokenizer) -> Encoder:
    """Returns the library's own encoder of texts."""

    def encode_batch(texts: Sequence[str]) -> list[np.ndarray]:
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    return encode_batch


class _Memory(dict[str, bytes | None]):
    """{word: its ids as bytes, or None if the library has to say}; notes what it lacks."""

    def __init__(self, words: Mapping[str, bytes | None]):
        super().__init__(words)
        self._missing: set[str] = set()

    def __missing__(self, word: str) -> None:
        self._missing.add(word)

    def take_missing(self) -> set[str]:
        """The words that were looked up in vain since the last time."""
        missing, self._missing = self._missing, set()
        return missing


class RepeatedWords:
    """Texts -> the ids that a tokenizer gives them, with a memory of words.

    Args:
      tokenizer: of which `of` says that it looks at words one by one.
      later: what stands before a word that is not the first, in what is looked at.
      spaces_count: whether several spaces may be another text than one.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, later: str, spaces_count: bool):
        self._tokenizer = tokenizer
        self._library = library(tokenizer)
        self._before = later
        self._spaces_count = spaces_count
        contents = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        self._added = {*contents, *map(self._normalized, contents)} - {''}
        self._characters: dict[str, bool] = {}
        self._forget()

    def _forget(self) -> None:
        """Begins with an empty memory."""
        empty = None if self._spaces_count else b''
        self._first = _Memory({'': empty})
        self._later = _Memory({'': empty}) if self._before else self._first

    @classmethod
    def of(cls, tokenizer: tokenizers.Tokenizer) -> 'RepeatedWords | None':
        """The memory for a tokenizer; None if its ids of a word may depend on other words."""
        normalizer = list(_steps(tokenizer.normalizer))
        splits = list(_steps(tokenizer.pre_tokenizer))
        if not all(_is_known(step) for step in normalizer) or not splits:
            return None
        contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        if len(contents) > _MOST_ADDED:
            return None
        if any(_SPACE in text or len(text.split()) != 1 for text in contents):
            return None
        kinds = [str(step['type']) for step in splits]
        metaspaces = [step for step in splits if step['type'] == 'Metaspace']
        always = {'prepend_scheme': 'always', 'replacement': _SPACE, 'split': True}
        if any(step.get(key) != value for step in metaspaces for key, value in always.items()):
            return None
        if kinds[0] in _SPLITS_AT_SPACES and _SPLITS_WORDS.issuperset(kinds[1:]):
            return cls(tokenizer, '', spaces_count=False)
        if kinds == ['Metaspace']:
            return cls(tokenizer, '', spaces_count=True)
        if kinds == ['ByteLevel'] and splits[0].get('use_regex') and not normalizer:
            return cls(tokenizer, ' ', spaces_count=True)
        return None

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, as the library gives them."""
        if len(texts) < _SMALLEST_BATCH:
            return self._library(texts)
        parts = [text.split(' ') for text in texts]
        rows = [self._looked_up(words) for words in parts]
        others = [place for place, row in enumerate(rows) if row is None]
        if self._learn(sum(map(len, parts))):
            for place in others:
                rows[place] = self._looked_up(parts[place])
            others = [place for place in others if rows[place] is None]
        for place, row in zip(others, self._library([texts[i] for i in others]), strict=True):
            rows[place] = row
        return rows

    def _looked_up(self, words: Sequence[str]) -> np.ndarray | None:
        """The ids of a text; None if a word of it is not known, or the library has to say."""
        pieces = map(self._later.__getitem__, words)
        if self._first is not self._later:
            pieces = [self._first[words[0]], *map(self._later.__getitem__, words[1:])]
        try:
            # Not a view of the bytes, which nobody may write to.
            return np.frombuffer(bytearray().join(pieces), np.int32)
        except TypeError:  # A word is None.
            return None

    def _learn(self, words: int) -> bool:
        """Learns what was looked up in vain; False if that is too much to gain anything.

        Args:
          words: how many were looked up.
        """
        later, first = self._later.take_missing(), self._first.take_missing()
        if len(later) + len(first) > _MOST_NEW * words:
            return False
        if max(len(self._first), len(self._later)) > _MOST_WORDS:
            self._forget()
            return False
        self._add(self._later, self._before, later)
        self._add(self._first, '', first)
        return True

    def _add(self, memory: '_Memory', before: str, words: Iterable[str]) -> None:
        """Adds words with what stands before them."""
        words = [word for word in words if len(word) <= _LONGEST_WORD]
        plain = self._plain(words)
        if self._holds_added(' '.join(plain)):
            plain = [word for word in plain if not self._holds_added(word)]
        memory.update(dict.fromkeys(words))
        memory.update(zip(plain, self._alone([before + word for word in plain]), strict=True))

    def _alone(self, words: Sequence[str]) -> list[bytes]:
        """The ids of words, each by itself."""
        # Many at once: the library takes longer for its answer about a text than for a word.
        groups = [words[i : i + _GROUP] for i in range(0, len(words), _GROUP)]
        encodings = self._tokenizer.encode_batch(
            groups, is_pretokenized=True, add_special_tokens=False
        )
        ids: list[bytes] = []
        for group, encoding in zip(groups, encodings, strict=True):
            data = np.array(encoding.ids, np.int32).tobytes()
            numbers = np.array(encoding.word_ids, np.int64)
            stops = (4 * np.searchsorted(numbers, np.arange(1, len(group) + 1))).tolist()
            ids += [data[a:b] for a, b in zip([0, *stops], stops, strict=False)]
        return ids

    def _holds_added(self, text: str) -> bool:
        """Returns whether a text may contain a token that was added to the vocabulary."""
        normalized = self._normalized(text)
        return any(token in text or token in normalized for token in self._added)

    def _plain(self, words: Sequence[str]) -> list[str]:
        """The words that stay one each between spaces, with nothing that joins these spaces."""
        characters = set(''.join(words))
        for character in characters - self._characters.keys():
            self._characters[character] = self._stays(character)
        odd = {character for character in characters if not self._characters[character]}
        odd_first = odd | {first for first in {word[0] for word in words} if _joins(first)}
        plain = [word for word in words if word[0] not in odd_first]
        return [word for word in plain if odd.isdisjoint(word)] if odd else plain

    def _stays(self, character: str) -> bool:
        """Returns whether a character stays: no space, no control, and not normalized to either."""
        if unicodedata.category(character)[0] in 'ZC' or character in _JOINS_BEHIND:
            return False
        if not self._spaces_count:  # Then a space is what ends a word, and no more.
            return True
        normalized = self._normalized(character)
        return normalized != '' and _SPACE not in normalized and not _has_space(normalized)

    def _normalized(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        return normalizer.normalize_str(text) if normalizer else text


def _joins(character: str) -> bool:
    """Returns whether a character may be one with a space before it."""
    return unicodedata.category(character)[0] == 'M' or character in _JOINS_BEFORE


def _has_space(text: str) -> bool:
    return any(character.isspace() for character in text)


def _steps(part: object) -> Iterator[Step]:
    """The steps of a normalizer or pre-tokenizer, those of sequences one by one."""
    if part is None:
        return
    rest: list[Step] = [json.loads(part.__getstate__())]
    while rest:
        step = rest.pop(0)
        if step['type'] == 'Sequence':
            rest = [*(step.get('normalizers') or step.get('pretokenizers')), *rest]
        else:
            yield step


def _is_known(step: Step) -> bool:
    """Returns whether a step of a normalizer looks at words one by one."""
    if step['type'] == 'Replace':
        pattern = step['pattern']
        return isinstance(pattern, dict) and next(iter(pattern.values()), None) in _REPLACED
    return step['type'] in _NORMALIZERS
