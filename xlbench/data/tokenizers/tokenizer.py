"""The interface of tokenizers; those of bytes and of SentencePiece models, and new models."""

import abc
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xlbench.benchmarks import languages
from xlbench.data import segments, vocabularies
from xlbench.huggingface import sentencepiece_models
from xlbench.system import errors, machine, untrusted

# In an input of question generation, between the passage and the answer that is to be asked for.
ANSWER_SEPARATOR = ' <answer> '
BYTES = 'bytes'  # The name of the vocabulary that needs no file.
BYTES_CLASS = 'ByT5Tokenizer'  # As google/byt5-small has it.
BYTES_SENTINELS = 125  # As google/byt5-small has them.
_FIRST_BYTE = 3  # Behind padding, end and unknown.
# Rows of the public checkpoints' embeddings, which are padded beyond the pieces (mT5: 250100 ->
# 250112, huggingface.co/google/mt5-base config.json; T5: 32000 + 100 sentinels -> 32128).
_MODEL_VOCAB_SIZES = {250_100: 250_112, 32_000: 32_128, 32_100: 32_128}
# What tells ids apart beside the vocabulary files, in tokenizer_config.json.
_SETTINGS = (
    'do_lower_case', 'strip_accents', 'tokenize_chinese_chars', 'add_prefix_space', 'extra_ids'
)  # fmt: skip
_threads: list[int] = []


def num_threads() -> int:
    """Returns the threads for a batch: the cores of this process, or what `limit_threads` set."""
    return _threads[-1] if _threads else machine.cores()


def limit_threads(limit: int) -> None:
    """Sets `num_threads`, for a process that shares the cores with others like it."""
    _threads[:] = [max(limit, 1)]
    os.environ['RAYON_NUM_THREADS'] = str(max(limit, 1))  # What `tokenizers` listens to.


class Tokenizer(abc.ABC):
    """A vocabulary."""

    name: str  # Of the user; prepared data is filed under it.
    vocab_size: int  # Rows of the embedding of a model with it; every id is below it.
    num_pieces: int  # Ids that stand for something, the first ones.
    pad_id: int
    eos_id: int  # BERT's is [SEP].
    bos_id: int | None = None  # Opens a text: <s>, BERT's [CLS].
    unk_id: int  # -1: none.
    decoder_start_id: int  # The first decoder input.
    closing_id: int | None = None  # Behind the end of both sides; most vocabularies have none.
    # ISO code -> the row of that language in the table of languages of an XLM that has one.
    language_rows: Mapping[str, int] = {}
    sha256: str  # Over everything that defines the ids.
    family: str = 'other'  # Key of vocabularies.FAMILIES.
    # How the model learns the target language: 'target_in_source', the pipeline writes `<de> ` at
    # the start of the input; 'own', the model's own tokens say it, or it has one target language.
    tags: str = 'target_in_source'
    uses_cores: bool = False  # Whether one `encode_batch` keeps all cores busy.
    _language_ids: Mapping[str, int] = {}
    _silent: Sequence[int] = ()  # Ids that stand for no text: special and language tokens.

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32, without prefix and end.

        Marian spells targets with a model of their own.
        """

    @abc.abstractmethod
    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        """Decodes ids of text alone to texts."""

    def pieces(self) -> list[str]:
        """Returns the text of each id, in their order; empty where ids stand for no texts."""
        return []

    def decode_batch(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Decodes ids to texts: up to the first end token, without special and language tokens."""
        return self._decode_clean([self._clean(row) for row in ids])

    def _clean(self, row: Sequence[int]) -> list[int]:
        ids = np.asarray(row, np.int64).reshape(-1)
        ends = np.flatnonzero(ids == self.eos_id)
        ids = ids[: ends[0]] if ends.size else ids
        ids = ids[(ids != self.pad_id) & (ids >= 0) & (ids < self.num_pieces)]
        return (ids[~np.isin(ids, self._silent)] if len(self._silent) else ids).tolist()

    def encode(self, text: str, target: bool = False) -> np.ndarray:
        """Encodes one text as ids, [length] int32."""
        return self.encode_batch([text], target)[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Decodes ids to one text."""
        return self.decode_batch([ids])[0]

    @property
    def source_words(self) -> tuple[str, ...]:
        """Returns the names of what stands before the ids of inputs, see vocabularies.Family."""
        return vocabularies.FAMILIES[self.family].source

    def languages(self) -> tuple[str, ...]:
        """Returns ISO codes of the languages it has tokens for; empty if it tells none apart."""
        return tuple(self._language_ids)

    def language_tokens(self) -> dict[str, str]:
        """Returns {ISO code: the token of that language}; see `languages`."""
        pieces = self.pieces() if self._language_ids else []
        return {lang: pieces[number] for lang, number in self._language_ids.items()}

    def prefix_ids(
        self, source_lang: str | None, target_lang: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids before inputs and before targets, each [length] int32.

        vocabularies.toml says for each family which these are. Multilingual BERT gets the target
        language at the start of both sides, as the MTG paper has it (arXiv:2108.07140, section 4.1)
        without saying how it is spelled: language n of `languages.TABLE` is [unusedN], if the
        vocabulary has such tokens, which text never becomes. With "language_tags": "sides" in its
        tokenizer_config.json each side has its own language there, as in mBART-50.

        The languages are ISO codes, or None where a side has several or none; without a target
        language BERT gets no language token.
        """
        langs = {'source_lang': source_lang, 'target_lang': target_lang}
        target = vocabularies.FAMILIES[self.family].target
        return self._prefix(self.source_words, langs), self._prefix(target, langs)

    def encode_inputs(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes texts as an encoder reads them without languages, each [length] int32.

        Both sides of a retrieval task are prepared so. Example, BERT: 'Ja' -> [CLS] Ja [SEP]
        """
        before, _ = self.prefix_ids(None, None)
        return [
            np.concatenate([before, ids, [self.eos_id]]).astype(np.int32)
            for ids in (self.encode_batch(texts) if texts else ())
        ]

    def prompt_ids(self, prompt: str) -> list[int]:
        """Returns the ids that a prompt puts before those of the text behind it.

        There have to be some, on which the text's do not depend; else UserError. Example, XLM-R:
        'query: ' -> [41, 1294, 12], those of query:
        """
        ids = []
        for text in ('a', 'Zug 7', '中', '«b»'):
            behind = self.encode(text).tolist()
            whole = self.encode(prompt + text).tolist()
            cut = len(whole) - len(behind)
            ids.append(whole[:cut] if cut > 0 and whole[cut:] == behind else None)
        if ids[0] is None or ids.count(ids[0]) < len(ids):
            raise errors.UserError(
                f'vocabulary {self.name} does not cut the prompt {prompt!r} off the text behind '
                'it; give a prompt that ends with a space, or none'
            )
        return ids[0]

    def encode_views(
        self, texts: Sequence[str], prefixes: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Encodes texts of two views with a tab between, each [length] int32.

        The first view gets an end, and the second the prefix of its text. Example, BART:
        ' | a: hi\\t | a: hi' -> Ġ| Ġa : Ġhi </s> <s> Ġ| Ġa : Ġhi
        """
        views = [segments.parted_views(text) for text in texts]
        ids = iter(self.encode_batch([view for both in views for view in both]) if views else ())
        rows = []
        for both, prefix in zip(views, prefixes, strict=True):
            row = next(ids)
            for _ in both[1:]:
                row = np.concatenate([row, [self.eos_id], prefix, next(ids)])
            rows.append(row.astype(np.int32))
        return rows

    def segment_marks(self) -> list[int]:
        """Returns the ids of the mark before a segment, with a space before it and without.

        There are none where the vocabulary cannot spell it.
        """
        spelled = (self.encode(mark).tolist()[-1:] for mark in (segments.MARK, segments.MARK[1:]))
        return sorted({i for ids in spelled for i in ids} - {self.unk_id})

    def answer_mark(self) -> list[int]:
        """Returns the ids of ANSWER_SEPARATOR; none where it is all unknown to the vocabulary."""
        ids = self.encode(ANSWER_SEPARATOR.rstrip()).tolist()
        return [] if set(ids) <= {self.unk_id} else ids

    def join_texts(self, pieces: Sequence[np.ndarray]) -> np.ndarray:
        """Joins the ids of one or two texts for a classifier: [length] int32.

        Example, BERT: 'Es regnet.', 'Es ist nass.' ->
          [CLS] Es regnet . [SEP] Es ist nass . [SEP]
        """
        before, _ = self.prefix_ids(None, None)
        ends = 1 + vocabularies.FAMILIES[self.family].doubled_ends
        between = np.array([self.eos_id] * ends, np.int32)
        parts = [part for ids in pieces for part in (between, ids)]
        return np.concatenate([before, *parts[1:], between[:1]]).astype(np.int32)

    def join_words(self, pieces: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Joins the ids of words for a tagger, and counts those of each word.

        A word that the vocabulary leaves nothing of is one unknown piece.

        Example, BERT: 'Hunde', 'bellen' -> [CLS] Hun ##de bel ##len [SEP], [2, 2]

        Returns:
          [length] int32 and [words] int32, which leaves out what stands around the words.
        """
        before, _ = self.prefix_ids(None, None)
        unknown = np.array([self.unk_id], np.int32)
        pieces = [ids if ids.size else unknown for ids in pieces]
        ids = np.concatenate([before, *pieces, [self.eos_id]]).astype(np.int32)
        return ids, np.array([len(ids) for ids in pieces], np.int32)

    def forced_first(self, target_lang: str | None) -> int | None:
        """Returns the id that decoding begins with, the first of the targets' prefix, or None."""
        words = vocabularies.FAMILIES[self.family].target
        ids = self._prefix(words, {'target_lang': target_lang})
        return int(ids[0]) if ids.size else None

    def first_languages(self) -> list[int]:
        """Returns the ids of languages, if the family's targets begin with theirs."""
        family = vocabularies.FAMILIES[self.family]
        begins = family.needs_languages and family.target == ('target_lang',)
        return list(self._language_ids.values()) if begins else []

    def _prefix(self, words: Sequence[str], langs: Mapping[str, str | None]) -> np.ndarray:
        special = {'bos': self.bos_id, 'closing': self.closing_id}
        ids = [special[w] if w in special else self._language_id(w, langs[w]) for w in words]
        return np.array([i for i in ids if i is not None], np.int32)

    def _language_id(self, side: str, lang: str | None) -> int | None:
        if not self._language_ids:
            return None
        if lang is None:
            if not vocabularies.FAMILIES[self.family].needs_languages:
                return None
            raise errors.UserError(
                f'vocabulary {self.name} needs {side}, for its language token; name it in the task '
                f'(it has {", ".join(self._language_ids)})'
            )
        if lang in self._language_ids:
            return self._language_ids[lang]
        row = languages.get(lang)
        kin = [c for c in self._language_ids if languages.LANGUAGES[c].family == row.family]
        some = f'of the {row.family} ones it has {", ".join(kin)}' if kin else ''
        raise errors.UserError(
            f'vocabulary {self.name} has no token for language {lang!r} ({row.name}); '
            + (some or f'it has {", ".join(self._language_ids)}')
        )

    def manifest(self) -> dict[str, int | str | dict[str, int] | None]:
        """Returns the entry of a vocabulary in the manifest of a preparation."""
        more: dict[str, int | dict[str, int]] = {}
        if self.closing_id is not None:
            more['closing_id'] = self.closing_id
        if self.language_rows:
            more['language_rows'] = dict(self.language_rows)
        return {
            'name': self.name, 'family': self.family, 'sha256': self.sha256,
            'size': self.vocab_size, 'pad_id': self.pad_id, 'eos_id': self.eos_id,
            'bos_id': self.bos_id, 'unk_id': self.unk_id,
            'decoder_start_id': self.decoder_start_id, **more,
        }  # fmt: skip


class ByteTokenizer(Tokenizer):
    """UTF-8 bytes as ids, the vocabulary of ByT5 (arXiv:2105.13626): 3 special ids, 256 bytes.

    Bytes that are no UTF-8 are left out of decoded texts. Example: 'aß' -> [100, 198, 162]
    """

    family = 't5'

    def __init__(self, name: str):
        self.name = name
        self.pad_id, self.eos_id, self.unk_id, self.decoder_start_id = 0, 1, 2, 0
        self._silent = (2,)
        self.num_pieces = _FIRST_BYTE + 256
        self.vocab_size = self.num_pieces + BYTES_SENTINELS
        self.sha256 = hashlib.sha256(b'bytes behind 3 special ids').hexdigest()

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32."""
        return [np.frombuffer(t.encode(), np.uint8).astype(np.int32) + _FIRST_BYTE for t in texts]

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        rows = (bytes(i - _FIRST_BYTE for i in row) for row in ids)
        return [row.decode(errors='ignore') for row in rows]


def digest(
    tokenizer: Tokenizer,
    files: vocabularies.Files,
    data: bytes,
    added: Sequence[str | tuple[int, str]],
) -> str:
    """Hashes all that defines ids: the files' bytes, settings, special and language tokens."""
    settings = {key: files.setting(key) for key in _SETTINGS}
    ids = (tokenizer.pad_id, tokenizer.eos_id, tokenizer.bos_id, tokenizer.decoder_start_id)
    rest = [tokenizer.family, settings, added, ids, dict(tokenizer._language_ids)]
    return hashlib.sha256(data + json.dumps(rest).encode()).hexdigest()


def model_vocab_size(config: vocabularies.Settings, num_pieces: int) -> int:
    """Returns the rows of a model's embedding: of its config.json, else those of public models."""
    size = config.rows()
    if size and size >= num_pieces:
        return size
    return _MODEL_VOCAB_SIZES.get(num_pieces, num_pieces)


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with T5's conventions, by SentencePiece itself.

    Special tokens in a text are text to it, and bytes spell what it does not know. A config.json
    beside the file may give the first decoder input and the rows of the embedding. A .spm file is
    of a translator in Marian's own form, which knows one pair of languages.
    """

    family = 't5'
    uses_cores = True

    def __init__(self, path: str, name: str, config: vocabularies.Settings):
        self.model_proto = untrusted.read_bytes(path)
        self._processor = processor = sentencepiece_models.processor(path, self.model_proto)
        self.num_pieces = processor.get_piece_size()
        if processor.eos_id() < 0:
            raise errors.UserError(f'{path} has no end-of-text piece (</s>); train it with eos_id')
        self.name = name
        # Without padding of its own, a model is given T5's convention, id 0.
        self.pad_id = max(processor.pad_id(), 0)
        self.eos_id = processor.eos_id()
        self.unk_id = processor.unk_id()
        self.decoder_start_id = config.decoder_start_token_id or self.pad_id
        self.vocab_size = model_vocab_size(config, self.num_pieces)
        if path.endswith('.spm'):  # Without T5's rows, of which some belong to no piece.
            self.tags, self.vocab_size = 'own', self.num_pieces
        self.sha256 = hashlib.sha256(self.model_proto).hexdigest()

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32, over all cores."""
        texts = list(texts)
        if not texts:
            return []
        return self._processor.encode(texts, return_type='numpy', num_threads=num_threads())

    def encode(self, text: str, target: bool = False) -> np.ndarray:
        """Encodes one text as ids, [length] int32; starts no threads."""
        return self._processor.encode(text, return_type='numpy')

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return self._processor.decode(ids, num_threads=num_threads()) if ids else []

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return self._processor.id_to_piece(list(range(self.num_pieces)))


def with_symbols(model: bytes, symbols: Sequence[str]) -> bytes:
    """Adds words such as '<mask>' to the content of a `.model` file, one piece each, at its end.

    The ids of all other text stay as they are.
    """
    proto = sentencepiece_models.parse('the SentencePiece model', model)
    for symbol in symbols:
        proto.pieces.add(piece=symbol, score=0.0, type=proto.SentencePiece.USER_DEFINED)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def train_sentencepiece(
    lines: Iterable[str],
    *,
    size: int,  # Pieces at most; bytes spell what they cannot, in any script.
    symbols: Sequence[str] = (),  # Words that are one piece each, such as '<de>'.
    model_type: str = 'unigram',  # Or 'bpe'.
    # SentencePiece's rule. 'nmt_nfkc' makes full-width commas those of ASCII, and 'identity'
    # changes nothing, so that Chinese is written as people write it.
    normalization: str = 'nmt_nfkc',
) -> bytes:
    """Trains a `.model` file of SentencePiece with T5's special ids.

    The same lines in the same order give the same bytes.

    Raises:
      UserError: the size is below what the characters of the texts need; or there is no text.
    """
    import sentencepiece

    # Into memory: a model trained into a file also holds that file's name, other bytes each time.
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=model_type,
            normalization_rule_name=normalization,
            vocab_size=size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=1.0,
            user_defined_symbols=list(symbols),
            pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
            num_threads=1,
            shuffle_input_sentence=False,
            max_sentence_length=1 << 20,
            minloglevel=2,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        # "Vocabulary size is smaller than required_chars. 10 vs 311."
        if least := re.search(r'required_chars\. \d+ vs (\d+)', str(error)):
            raise errors.UserError(
                f'a vocabulary of {size} pieces is too small for the characters of these texts; '
                f'{least[1]} is the smallest that works, for its bytes, characters and special '
                'pieces alone'
            ) from error
        if 'sentences_.empty()' in str(error) or 'all_chars_count' in str(error):
            raise errors.UserError('a vocabulary cannot be trained: no text has a word') from error
        reason = ' '.join(str(error).split())[:200]
        raise errors.UserError(f'SentencePiece trains no vocabulary of {size}: {reason}') from error
    return model.getvalue()
