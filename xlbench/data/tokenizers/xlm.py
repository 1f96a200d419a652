"""The vocabulary of XLM (arXiv:1901.07291): words of Moses, cut by byte-pair encoding."""

import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from xlbench.data import vocabularies, vocabulary_files
from xlbench.data.tokenizers.hugging_face import HuggingFaceTokenizer
from xlbench.data.tokenizers.tokenizer import digest, model_vocab_size
from xlbench.system import errors, untrusted

_END = '</w>'  # Of a word.
_CACHED_WORDS = 2**17
# What Moses puts in place of other marks (scripts/tokenizer/replace-unicode-punctuation.perl), but
# for the two stops below; and the digits of full width, which it writes as ASCII.
_MARKS = str.maketrans(
    dict(zip('，、∶：？！（）；～’━〈〉％”“《》」「【】', ',,::?!();~\'-<>%""""""[]', strict=True))
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
    | {'…': '...'}
)
_STOPS = re.compile(r'[。．]\s*')


class XlmTokenizer(HuggingFaceTokenizer):
    """XLM's vocab.json and merges.txt, over the words of Moses.

    Ids equal those of transformers' tokeniser, which is not told a language either and takes
    Moses's rules of English for all texts. Unless tokenizer_config.json says otherwise, letters are
    small and lose their accents.

    Args:
      files: the folder with vocab.json and merges.txt.
      name: what to call it.
    """

    family = 'xlm'
    has_bytes = False

    def __init__(self, files: vocabulary_files.Files, name: str):
        paths = [files.path(file) for file in vocabularies.FAMILIES['xlm'].files]
        self.name = name
        self._vocab = vocabulary_files.read_json(files.folder, 'vocab.json', dict[str, int])
        self.num_pieces = len(self._vocab)
        if sorted(self._vocab.values()) != list(range(self.num_pieces)):
            raise errors.UserError(f'{paths[0]} does not number its pieces from 0 without gaps')
        contents = [untrusted.read_bytes(path) for path in paths]
        self._ranks = _ranks(paths[1], contents[1])
        self._pieces = sorted(self._vocab, key=self._vocab.get)
        self.vocab_size = model_vocab_size(files.model, self.num_pieces)
        self._set_special(files, self._vocab.get, {})
        if self.unk_id < 0:
            raise errors.UserError(f'{paths[0]} has no <unk>; it is of another model')
        further = files.tokenizer.listed() or files.special.listed()
        listed = {*map(vocabulary_files.content, further)}
        special = {piece for piece in self._vocab if re.fullmatch(r'<special\d+>', piece)}
        special |= {self._pieces[i] for i in self._silent} | listed & self._vocab.keys()
        self._silent = sorted(self._vocab[piece] for piece in special)
        longest_first = sorted(special, key=lambda piece: (-len(piece), piece))
        self._special = re.compile('(' + '|'.join(map(re.escape, longest_first)) + ')')
        self.language_rows = files.setting('lang2id') or {}
        if sorted(self.language_rows.values()) != list(range(len(self.language_rows))):
            raise errors.UserError(
                f'{files.folder}: lang2id does not number its languages from 0 without gaps'
            )
        self._is_plain = files.setting('do_lowercase_and_remove_accent') is not False
        self.sha256 = digest(self, files, b''.join(contents), [*longest_first, str(self._is_plain)])
        self._ids_of = functools.lru_cache(_CACHED_WORDS)(self._cut)

    @functools.cached_property
    def _moses(self) -> Callable[[str], list[str]]:
        """Cuts a text into words, as Moses finds them with the rules of English."""
        import sacremoses

        normalize = sacremoses.MosesPunctNormalizer(lang='en').normalize
        tokenize = sacremoses.MosesTokenizer(lang='en').tokenize

        def words(text: str) -> list[str]:
            text = normalize(_STOPS.sub('. ', text.translate(_MARKS)))
            text = ''.join(c for c in text if not unicodedata.category(c).startswith('C'))
            return tokenize(text, return_str=False, escape=False)

        return words

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32."""
        return [np.array(self._encode(text), np.int32) for text in texts]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        # Special tokens are the parts with odd numbers.
        for i, part in enumerate(self._special.split(text)):
            if i % 2:
                ids.append(self._vocab[part])
                continue
            words = self._moses(part) if part.strip() else []
            for word in _plain(words) if self._is_plain else words:
                ids += self._ids_of(word) if word else ()
        return ids

    def _cut(self, word: str) -> tuple[int, ...]:
        """Cuts a word into pieces: of its pairs, the one that was learnt first is joined first."""
        pieces = [*word[:-1], word[-1] + _END]
        while len(pieces) > 1:
            pairs = list(itertools.pairwise(pieces))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, math.inf))
            if best not in self._ranks:
                break
            joined, start = [], 0
            while start < len(pieces):
                is_pair = tuple(pieces[start : start + 2]) == best
                joined.append(''.join(best) if is_pair else pieces[start])
                start += 1 + is_pair
            pieces = joined
        return tuple(self._vocab.get(piece, self.unk_id) for piece in pieces)

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return list(self._pieces)

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return [''.join(self._pieces[i] for i in row).replace(_END, ' ').strip() for row in ids]


def _ranks(path: str, data: bytes) -> dict[tuple[str, str], int]:
    """Maps each pair of pieces to its place in a merges.txt, whose lines may go on with a count."""
    lines = [line.split()[:2] for line in data.decode(errors='replace').split('\n')[:-1]]
    if not all(len(pair) == 2 for pair in lines if pair):
        raise errors.UserError(f'{path} has lines that are no pairs of pieces; fetch it again')
    return {(pair[0], pair[1]): rank for rank, pair in enumerate(lines) if pair}


def _plain(words: Sequence[str]) -> list[str]:
    """Writes small letters without accents; example: ['Über', 'Öl'] -> ['uber', 'ol']."""
    text = unicodedata.normalize('NFD', ' '.join(words).lower())
    return ''.join(c for c in text if unicodedata.category(c) != 'Mn').lower().split(' ')
