"""Text to ids and back, in batches, without TensorFlow or transformers.

`load` takes what a user writes for a vocabulary:

  sample, sample_mrs, sample_fewshot
                         the sample corpora's own, in the data root: MTG, MRS, few-shot transfer
  bytes                  the bytes of the text, as ByT5 and seqio.ByteVocabulary have them; a
                         folder or hub name of ByT5 is the same
  path/to/x.model        a SentencePiece model, run by SentencePiece itself
  path/to/folder         a model's vocabulary files, as Hugging Face lays them out
  mt5, google/mt5-base   from the Hugging Face hub; google/mt5-base@REVISION pins a version

A folder and a hub name give the ids of transformers' fast tokenisers, see `vocabularies`. They
differ from SentencePiece's own in rare text: transformers gives mT5 `<unk>` where SentencePiece
spells bytes. The path of the spiece.model itself gives the bytes.

From the hub only the named small files below are fetched, never weights, pickles or code.
"""

import abc
import dataclasses
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xlbench import errors, foreign, locks
from xlbench.benchmarks import languages
from xlbench.data import vocabularies

# In an input of question generation, between the passage and the answer that is to be asked for.
ANSWER_SEPARATOR = ' <answer> '
# Short names. Every size of mT5 and of T5 1.1 has the same vocabulary.
HUB_NAMES = {
    'mt5': 'google/mt5-base',
    't5': 'google/t5-v1_1-base',
}
BYTES = 'bytes'  # The name of the vocabulary that needs no file.
BYTES_CLASS, BYTES_SENTINELS = 'ByT5Tokenizer', 125  # As google/byt5-small has them.
_FIRST_BYTE = 3  # Behind padding, end and unknown.
_MOST_PIECES = 1 << 24  # The largest vocabularies have a million.
# The vocabularies of the sample corpora, in the data root.
SAMPLE_FILES = {
    'sample': 'sample.model',
    'sample_mrs': 'sample_mrs.model',
    'sample_fewshot': 'sample_fewshot.model',
}
VOCABULARY_FILES = tuple(
    dict.fromkeys(file for family in vocabularies.FAMILIES.values() for file in family.files)
)

# Folders of a workdir: a run's copy of its vocabulary, and what xlbench.convert writes there.
COPY, CONVERTED = 'vocabulary', 'tokenizer'
# A SentencePiece model that is run by SentencePiece itself, in such a copy; by another name in a
# folder it is read as transformers reads it.
SENTENCEPIECE_COPY = 'sentencepiece.model'

# Rows of the public checkpoints' embeddings, which are padded beyond the pieces (mT5: 250100 ->
# 250112, huggingface.co/google/mt5-base config.json; T5: 32000 + 100 sentinels -> 32128).
_MODEL_VOCAB_SIZES = {250_100: 250_112, 32_000: 32_128, 32_100: 32_128}
# What tells ids apart beside the vocabulary files, in tokenizer_config.json.
_SETTINGS = (
    'do_lower_case', 'strip_accents', 'tokenize_chinese_chars', 'add_prefix_space', 'extra_ids'
)  # fmt: skip
# Codes in Marian's vocabularies beside ISO 639-1 and ISO 639-3, as in `>>cmn_Hans<<`.
_MARIAN_CODES = {'zh': ('cmn_Hans', 'cmn'), 'no': ('nob',), 'fa': ('pes',), 'ms': ('zsm_Latn',)}


_threads: list[int] = []


def num_threads() -> int:
    """Threads for a batch: the cores this process may use, or what `limit_threads` said."""
    if _threads:
        return _threads[-1]
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on macOS.
        return os.cpu_count() or 1


def limit_threads(limit: int) -> None:
    """Sets `num_threads`, for a process that shares the cores with others like it."""
    _threads[:] = [max(limit, 1)]
    os.environ['RAYON_NUM_THREADS'] = str(max(limit, 1))  # What `tokenizers` listens to.


class Tokenizer(abc.ABC):
    """A vocabulary.

    Attributes:
      name: what the user called it; prepared data is filed under it.
      vocab_size: rows of the embedding of a model with this vocabulary; every id is below it.
      num_pieces: ids that stand for something, the first ones.
      pad_id, eos_id: ids of padding and of the end; BERT's end is [SEP].
      bos_id: id of the token that opens a text (<s>, BERT's [CLS]); None if there is none.
      unk_id: id of unknown text, -1 if there is none.
      decoder_start_id: the first decoder input.
      sha256: over everything that defines the ids.
      family: key of `vocabularies.FAMILIES`.
      tags: how the model learns the target language. 'target_in_source': the pipeline writes
        `<de> ` at the start of the input. 'own': the model's own tokens say it, or it has one
        target language only.
    """

    name: str
    vocab_size: int
    num_pieces: int
    pad_id: int
    eos_id: int
    bos_id: int | None = None
    unk_id: int
    decoder_start_id: int
    sha256: str
    family: str = 'other'
    tags: str = 'target_in_source'
    _language_ids: Mapping[str, int] = {}
    _language_tokens: Mapping[str, str] = {}
    _silent: Sequence[int] = ()  # Ids that stand for no text: special and language tokens.

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, without prefix and end.

        Args:
          texts: any Unicode text.
          target: whether they are targets, which Marian spells with a model of their own.
        """

    @abc.abstractmethod
    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        """Ids of text alone -> texts."""

    def pieces(self) -> list[str]:
        """What each id stands for, in the order of the ids; empty where these are no texts."""
        return []

    def decode_batch(self, ids: Iterable[Sequence[int]]) -> list[str]:
        """Ids -> texts: up to the first end token, without special and language tokens."""
        return self._decode_clean([self._clean(row) for row in ids])

    def _clean(self, row: Sequence[int]) -> list[int]:
        row = np.asarray(row, np.int64).reshape(-1)
        ends = np.flatnonzero(row == self.eos_id)
        row = row[: ends[0]] if ends.size else row
        row = row[(row != self.pad_id) & (row >= 0) & (row < self.num_pieces)]
        return (row[~np.isin(row, self._silent)] if len(self._silent) else row).tolist()

    def encode(self, text: str, target: bool = False) -> np.ndarray:
        """One text -> ids, [length] int32."""
        return self.encode_batch([text], target)[0]

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> one text."""
        return self.decode_batch([ids])[0]

    def languages(self) -> tuple[str, ...]:
        """ISO codes of the languages it has tokens for; empty if it tells none apart."""
        return tuple(self._language_ids)

    def language_tokens(self) -> dict[str, str]:
        """{ISO code: the token of that language}; see `languages`."""
        return dict(self._language_tokens)

    def prefix_ids(
        self, source_lang: str | None, target_lang: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """What stands before the ids of inputs and of targets, each [length] int32.

        mBART-50 puts the language of each side first, Marian's multilingual models `>>xxx<<` of the
        target before the input, BART <s> before both, XLM-R and BERT <s> or [CLS] before the input.
        Multilingual BERT gets the target language at the start of both sides, as the MTG paper has
        it (arXiv:2108.07140, section 4.1) without saying how it is spelled: language n of
        `languages.TABLE` is [unusedN], if the vocabulary has such tokens, which text never
        becomes.

        Args:
          source_lang: ISO code; None where there is not one language.
          target_lang: likewise; without it BERT gets no language token.
        """
        family = vocabularies.FAMILIES[self.family]
        langs = {'source_lang': source_lang, 'target_lang': target_lang}
        return self._prefix(family.source, langs), self._prefix(family.target, langs)

    def encode_inputs(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Texts -> ids as an encoder reads them where no language is named, each [length] int32.

        What preparation writes for both sides of a retrieval task. Example, BERT: 'Ja' ->
        [CLS] Ja [SEP]
        """
        before, _ = self.prefix_ids(None, None)
        return [
            np.concatenate([before, ids, [self.eos_id]]).astype(np.int32)
            for ids in (self.encode_batch(texts) if texts else ())
        ]

    def answer_mark(self) -> list[int]:
        """The ids of ANSWER_SEPARATOR; none where it is all unknown to the vocabulary."""
        ids = self.encode(ANSWER_SEPARATOR.rstrip()).tolist()
        return [] if set(ids) <= {self.unk_id} else ids

    def join_texts(self, pieces: Sequence[np.ndarray]) -> np.ndarray:
        """The ids of one or two texts -> those that a classifier reads, [length] int32.

        Example, BERT: 'Es regnet.', 'Es ist nass.' ->
          [CLS] Es regnet . [SEP] Es ist nass . [SEP]
        """
        before, _ = self.prefix_ids(None, None)
        # RoBERTa's own pairs have two ends between the texts (fairseq, roberta/hub_interface.py).
        doubled = self.family in ('roberta', 'xlm-roberta')
        between = np.array([self.eos_id] * (2 if doubled else 1), np.int32)
        parts = [part for ids in pieces for part in (between, ids)]
        return np.concatenate([before, *parts[1:], between[:1]]).astype(np.int32)

    def join_words(self, pieces: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of words, each encoded alone -> those that a tagger reads, and how many a word.

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
        """The id that decoding has to begin with, the first of the targets' prefix, or None."""
        words = vocabularies.FAMILIES[self.family].target
        ids = self._prefix(words, {'target_lang': target_lang})
        return int(ids[0]) if ids.size else None

    def _prefix(self, words: Sequence[str], langs: Mapping[str, str | None]) -> np.ndarray:
        ids = [self.bos_id if w == 'bos' else self._language_id(w, langs[w]) for w in words]
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

    def manifest(self) -> dict[str, Any]:
        """What a preparation writes down about its vocabulary."""
        return {
            'name': self.name,
            'family': self.family,
            'sha256': self.sha256,
            'size': self.vocab_size,
            'pad_id': self.pad_id,
            'eos_id': self.eos_id,
            'bos_id': self.bos_id,
            'unk_id': self.unk_id,
            'decoder_start_id': self.decoder_start_id,
        }


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with T5's conventions, by SentencePiece itself.

    Special tokens in a text are text to it, and bytes spell what it does not know.

    Args:
      path: the model file.
      name: what to call it.
      config: the content of config.json beside it, if there is one.
    """

    family = 't5'

    def __init__(self, path: str, name: str, config: Mapping[str, Any] | None = None):
        import sentencepiece

        config = config or {}
        self.model_proto = vocabularies.read_bytes(path)
        vocabularies.parse_sentencepiece(path, self.model_proto)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model_proto)
            self.num_pieces = self._processor.get_piece_size()
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            raise errors.UserError(f'{path} is not a SentencePiece model') from error
        processor = self._processor
        if processor.eos_id() < 0:
            raise errors.UserError(f'{path} has no end-of-text piece (</s>); train it with eos_id')
        self.name = name
        # Without padding of its own, a model is given T5's convention, id 0.
        self.pad_id = max(processor.pad_id(), 0)
        self.eos_id = processor.eos_id()
        self.unk_id = processor.unk_id()
        self.decoder_start_id = int(config.get('decoder_start_token_id') or self.pad_id)
        self.vocab_size = _vocab_size(config, self.num_pieces)
        self.sha256 = hashlib.sha256(self.model_proto).hexdigest()

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, over all cores."""
        texts = list(texts)
        if not texts:
            return []
        return self._processor.encode(texts, return_type='numpy', num_threads=num_threads())

    def encode(self, text: str, target: bool = False) -> np.ndarray:
        """One text -> ids, [length] int32; starts no threads."""
        return self._processor.encode(text, return_type='numpy')

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return self._processor.decode(ids, num_threads=num_threads()) if ids else []

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return self._processor.id_to_piece(list(range(self.num_pieces)))


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
        """Texts -> ids, each [length] int32."""
        return [np.frombuffer(t.encode(), np.uint8).astype(np.int32) + _FIRST_BYTE for t in texts]

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        rows = (bytes(i - _FIRST_BYTE for i in row) for row in ids)
        return [row.decode(errors='ignore') for row in rows]


class HuggingFaceTokenizer(Tokenizer):
    """The vocabulary files of a model, run by the `tokenizers` library.

    Args:
      files: the folder they are in.
      name: what to call it.
      family: key of `vocabularies.FAMILIES`; its files or a tokenizer.json are there.

    Attributes:
      has_bytes: whether it has pieces that are bytes.
    """

    def __init__(self, files: vocabularies.Files, name: str, family: str):
        with vocabularies.no_panic(files.folder):
            self._tokenizer, data = vocabularies.load(files, family)
        self.name, self.family = name, family
        # Not as many as there are: a vocabulary may have gaps, or a piece twice.
        self.num_pieces = max(self._tokenizer.get_vocab().values(), default=-1) + 1
        if not 0 < self.num_pieces <= _MOST_PIECES:
            raise errors.UserError(
                f'{files.folder} has ids up to {self.num_pieces - 1:,}; a vocabulary has 1 to '
                f'{_MOST_PIECES:,} of them'
            )
        self.has_bytes = self._tokenizer.token_to_id('<0x00>') is not None
        self.vocab_size = _vocab_size(files.model, self.num_pieces)
        added = self._tokenizer.get_added_tokens_decoder()
        if family == 'bert':
            names = {lang: f'[unused{n}]' for n, lang in enumerate(languages.TABLE, 1)}
        else:
            rows = languages.LANGUAGES.items() if family == 'mbart50' else ()
            names = {lang: row.mbart for lang, row in rows if row.mbart}
        self._set_special(files, self._tokenizer.token_to_id, names)
        self._silent += [number for number, token in added.items() if token.special]
        self.sha256 = _digest(self, files, data, sorted((n, repr(t)) for n, t in added.items()))

    def _set_special(self, files: vocabularies.Files, to_id: Any, names: Mapping[str, str]) -> None:
        """Sets the special ids, the languages' and how the target language is told.

        Args:
          files: they say which tokens are special.
          to_id: token -> its id, or None.
          names: ISO code -> language token.
        """
        roles = {
            'pad': (('pad_token',), ('<pad>', '[PAD]')),
            'eos': (('eos_token', 'sep_token'), ('</s>', '[SEP]', '<|endoftext|>')),
            'bos': (('bos_token', 'cls_token'), ('<s>', '[CLS]')),
            'unk': (('unk_token',), ('<unk>', '[UNK]')),
        }
        found: dict[str, int] = {}
        for role, (keys, usual) in roles.items():
            tokens = [vocabularies.content(t) for key in keys if (t := files.setting(key))]
            ids = [number for t in tokens or usual if (number := to_id(t)) is not None]
            if not ids and role in ('pad', 'eos'):
                raise errors.UserError(
                    f'{files.folder} has no {keys[0]}: neither tokenizer_config.json nor '
                    'special_tokens_map.json names one that the vocabulary has, and it has none '
                    f'of {", ".join(usual)}'
                )
            found |= {role: ids[0]} if ids else {}
        self.pad_id, self.eos_id = found['pad'], found['eos']
        self.bos_id, self.unk_id = found.get('bos'), found.get('unk', -1)
        start = files.model.get('decoder_start_token_id')
        default = found[vocabularies.FAMILIES[self.family].start]
        self.decoder_start_id = default if start is None else int(start)
        numbers = {lang: to_id(token) for lang, token in names.items()}
        self._language_ids = {lang: n for lang, n in numbers.items() if n is not None}
        self._language_tokens = {lang: names[lang] for lang in self._language_ids}
        if files.setting('split_special_tokens') is True:
            del found['unk']  # Of SentencePiece, which decodes it to a mark.
        self._silent = [*self._language_ids.values(), *found.values()]
        if self._language_ids or self.family == 'marian':
            self.tags = 'own'

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, over all cores."""
        with vocabularies.no_panic(f'vocabulary {self.name}'):
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return self._tokenizer.decode_batch(ids, skip_special_tokens=True)

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return [self._tokenizer.id_to_token(i) or '' for i in range(self.num_pieces)]


    def with_ends(self) -> str:
        """A tokenizer.json that puts around a text what `encode_inputs` puts around it."""
        import tokenizers
        from tokenizers import processors

        copy = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
        before, _ = self.prefix_ids(None, None)
        ids = [*before.tolist(), self.eos_id]
        *start, end = [copy.id_to_token(i) for i in ids]
        copy.post_processor = processors.TemplateProcessing(
            single=[*start, '$A', end],
            pair=[*start, '$A', end, '$B:1', f'{end}:1'],
            special_tokens=[(copy.id_to_token(i), i) for i in dict.fromkeys(ids)],
        )
        return copy.to_str()


class MarianTokenizer(HuggingFaceTokenizer):
    """Marian's two SentencePiece models, one for each side, over one list of pieces.

    transformers has no fast tokeniser of it; ids equal those of its Python one. Text that begins
    with `>>xxx<<` gives that token, or the unknown one.

    Args:
      files: the folder with source.spm, target.spm and vocab.json.
      name: what to call it.
    """

    family = 'marian'
    has_bytes = False

    def __init__(self, files: vocabularies.Files, name: str):
        import sentencepiece

        if files.setting('separate_vocabs'):
            raise errors.UserError(
                f'{files.folder} has separate vocabularies of source and target (separate_vocabs); '
                'Marian models with one vocab.json are supported'
            )
        paths = [files.path(file) for file in vocabularies.FAMILIES['marian'].files]
        self.name = name
        self._vocab = vocabularies.read_json(files.folder, 'vocab.json') | dict(files.added)
        added = files.tokenizer.get('added_tokens_decoder') or {}
        self._vocab |= {vocabularies.content(token): int(n) for n, token in added.items()}
        named = vocabularies.FAMILIES['marian'].named
        special = {vocabularies.content(files.setting(key, text)) for key, text in named.items()}
        special |= {*files.added, *map(vocabularies.content, added.values())}
        languages_here = {
            lang: f'>>{code}<<'
            for lang, row in languages.LANGUAGES.items()
            for code in reversed((lang, row.alpha3, *_MARIAN_CODES.get(lang, ())))
            if f'>>{code}<<' in self._vocab
        }
        self.num_pieces = len(self._vocab)
        if sorted(self._vocab.values()) != list(range(self.num_pieces)):
            raise errors.UserError(f'{paths[2]} does not number its pieces from 0 without gaps')
        self._pieces = sorted(self._vocab, key=self._vocab.get)
        self.vocab_size = _vocab_size(files.model, self.num_pieces)
        self._set_special(files, self._vocab.get, languages_here)
        self._silent += [n for piece, n in self._vocab.items() if re.fullmatch('>>.+<<', piece)]
        if self.unk_id < 0:
            raise errors.UserError(f'{paths[2]} has no <unk>; it is of another model')
        self._special = re.compile('|'.join(map(re.escape, sorted(special, key=len, reverse=True))))
        data = b''.join(vocabularies.read_bytes(path) for path in paths)
        self.sha256 = _digest(self, files, data, sorted(special))
        self._sides = []  # Source and target: the model, and its ids -> ours.
        for path in paths[:2]:
            vocabularies.read_sentencepiece(path)
            try:
                model = sentencepiece.SentencePieceProcessor(model_file=path)
            except (RuntimeError, OSError) as error:
                raise errors.UserError(f'{path} is not a SentencePiece model') from error
            pieces = (model.id_to_piece(i) for i in range(len(model)))
            ours = [self._vocab.get(piece, self.unk_id) for piece in pieces]
            self._sides.append((model, np.array(ours, np.int32)))

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Texts -> ids, each [length] int32, over all cores."""
        model, ours = self._sides[target]
        texts = list(texts)
        if not texts:
            return []
        found = model.encode(texts, return_type='numpy', num_threads=num_threads())
        unk_id = model.unk_id()
        # Unknown text of one side's model may be a piece of the other's, so its letters count.
        return [
            self._encode_parts(text, model)
            if text.startswith('>>') or (ids == unk_id).any() or self._special.search(text)
            else ours[ids]
            for text, ids in zip(texts, found, strict=True)
        ]

    def _encode_parts(self, text: str, model: Any) -> np.ndarray:
        """One text that may hold special tokens, language tokens and unknown pieces."""
        tokens: list[str] = []
        start = 0
        for match in [*self._special.finditer(text), None]:
            part = text[start : match.start() if match else None]
            code = re.match('>>.*?<<', part, re.DOTALL)
            tokens += [code[0]] if code else []
            tokens += model.encode(part[code.end() :] if code else part, out_type=str)
            if match:
                tokens.append(match[0])
                start = match.end()
        return np.array([self._vocab.get(token, self.unk_id) for token in tokens], np.int32)

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return list(self._pieces)

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return [''.join(self._pieces[i] for i in row).replace('▁', ' ').strip() for row in ids]


def _digest(
    tokenizer: Tokenizer, files: vocabularies.Files, data: bytes, added: Sequence[Any]
) -> str:
    """SHA-256 over what defines ids: the files' bytes, settings, special and language tokens."""
    settings = {key: files.setting(key) for key in _SETTINGS}
    ids = (tokenizer.pad_id, tokenizer.eos_id, tokenizer.bos_id, tokenizer.decoder_start_id)
    rest = [tokenizer.family, settings, added, ids, dict(tokenizer._language_ids)]
    return hashlib.sha256(data + json.dumps(rest).encode()).hexdigest()


def _vocab_size(config: Mapping[str, Any], num_pieces: int) -> int:
    size = config.get('vocab_size') or (config.get('encoder') or {}).get('vocab_size')
    if isinstance(size, int) and num_pieces <= size <= 1 << 28:
        return size
    return _MODEL_VOCAB_SIZES.get(num_pieces, num_pieces)


def _from_files(files: vocabularies.Files, name: str) -> Tokenizer:
    if _is_bytes(files):
        return ByteTokenizer(name)
    try:
        family = vocabularies.family_of(files)
        if family == 'marian' and files.has(*vocabularies.FAMILIES[family].files):
            return MarianTokenizer(files, name)
        return HuggingFaceTokenizer(files, name, family)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, OSError) as error:
        reason = errors.printable(f'{type(error).__name__}: {error}')
        raise errors.UserError(
            f'the JSON files of vocabulary {files.folder} are not as transformers writes them '
            f'({reason}); compare them with those of the public model'
        ) from error


def _is_bytes(files: vocabularies.Files) -> bool:
    """Whether a folder is of ByT5, which has no vocabulary files."""
    return files.setting('tokenizer_class') == BYTES_CLASS


def _from_hub(spec: str) -> str:
    """Fetches the named files of a hub repository; the folder they are in.

    An interrupted download goes on where it stopped, and what is in the cache is used without a
    connection.
    """
    from xlbench.huggingface import hub

    repository, _, revision = HUB_NAMES.get(spec, spec).partition('@')

    def fetch(names: Iterable[str]) -> list[str]:
        paths = [hub.fetch(repository, name, revision) for name in names]
        return [str(path) for path in paths if path]

    configs = fetch(vocabularies.CONFIG_FILES)
    found = fetch([vocabularies.TOKENIZER_FILE])
    if not found:  # Else the others would not be read.
        files = vocabularies.Files.read(os.path.dirname(configs[0])) if configs else None
        if files and _is_bytes(files):
            return files.folder
        family = vocabularies.family_of(files) if files else 'other'
        found = fetch(vocabularies.FAMILIES[family].files or VOCABULARY_FILES)
    if not found:
        raise errors.UserError(
            f'hub repository {repository} has neither {vocabularies.TOKENIZER_FILE} nor '
            f'{", ".join(VOCABULARY_FILES)}'
        )
    return os.path.dirname(found[0])


def load(spec: str, root: str) -> Tokenizer:
    """The vocabulary that `spec` names.

    Args:
      spec: see the top of this file.
      root: the data root, where `sample` looks.
    """
    path = _find(spec, root)
    return _load(path, spec, _stamp(path))


def _find(spec: str, root: str) -> str:
    """The file or folder that `spec` names, fetched from the hub if need be; or BYTES."""
    if not spec:
        raise errors.UserError('no vocabulary is named; give sample, a path, or a name like mt5')
    if spec == BYTES:
        return spec
    if spec in SAMPLE_FILES:
        path = os.path.join(root, SAMPLE_FILES[spec])
        if not os.path.isfile(path):
            raise errors.UserError(
                f'there is no {path}; make the sample corpora with: python -m xlbench.prepare '
                f'--sample --root={root}'
            )
        return path
    path = os.path.expanduser(spec)
    if os.path.exists(path):
        return path
    check_name(spec)
    return _from_hub(spec)


def check_name(spec: str) -> None:
    """Raises UserError for what is no vocabulary, as far as that is known without the hub.

    Args:
      spec: see the top of this file.
    """
    if not isinstance(spec, str) or not spec:
        raise errors.UserError('no vocabulary is named; give sample, a path, or a name like mt5')
    path = os.path.expanduser(spec)
    if spec == BYTES or spec in SAMPLE_FILES or os.path.exists(path):
        return
    looks_like_path = spec.endswith(('.model', '.json')) or spec.startswith(('.', '/', '~'))
    if looks_like_path or spec.count('/') > 1:
        raise errors.UserError(f'there is no vocabulary file or folder {path}')
    if '/' not in spec and spec not in HUB_NAMES:
        raise errors.unknown(
            'vocabulary',
            spec,
            (*SAMPLE_FILES, *HUB_NAMES, BYTES),
            'A hub name has a slash, like google/mt5-base; a file or folder must exist',
        )


def copy_files(spec: str, root: str, workdir: str | os.PathLike) -> None:
    """Copies the files that a vocabulary is made of into WORKDIR/vocabulary, if it has none yet.

    Args:
      spec, root: as `load` takes them.
      workdir: of a run, which needs nothing else to read and write texts, wherever it is moved.
    """
    target = pathlib.Path(workdir) / COPY
    if spec == BYTES or target.is_dir() or (pathlib.Path(workdir) / CONVERTED).is_dir():
        return
    path = pathlib.Path(_find(spec, root))
    folder = path if path.is_dir() else path.parent
    names = [*vocabularies.CONFIG_FILES, vocabularies.TOKENIZER_FILE, *VOCABULARY_FILES]
    if path.is_file() and path.suffix != '.json':
        names = [vocabularies.MODEL_CONFIG]
    files = {name: file for name in names if (file := foreign.file(folder, name))}
    if path.is_file():
        name = vocabularies.TOKENIZER_FILE if path.suffix == '.json' else SENTENCEPIECE_COPY
        files[name] = path
    with locks.appearing(target) as folder_to_be:
        for name, file in files.items():
            shutil.copyfile(file, folder_to_be / name)


def path_of_workdir(workdir: str | os.PathLike, about: Mapping[str, Any]) -> str:
    """The vocabulary file or folder of a run: the copy in its workdir, else the original.

    Args:
      workdir: of a run, or of xlbench.convert.
      about: the content of its config.json.

    Raises:
      UserError: there is no copy, as in workdirs of earlier versions, and the original is not where
        it was.
    """
    for folder in (pathlib.Path(workdir) / CONVERTED, pathlib.Path(workdir) / COPY):
        if folder.is_dir():
            foreign.check_tree(workdir, folder)
            return str(foreign.file(folder, SENTENCEPIECE_COPY) or folder)
    data = about['config']['data']
    try:
        return _find(data['vocabulary'], data['root'])
    except errors.UserError as error:
        raise errors.UserError(
            f'{workdir} has no copy of its vocabulary, and {error}; start the command in the '
            'folder where the run was trained, or put the vocabulary back'
        ) from error


def of_workdir(workdir: str | os.PathLike, about: Mapping[str, Any]) -> Tokenizer:
    """The vocabulary that a run was trained with; see `path_of_workdir`.

    Raises:
      UserError: it is not there, or it is another one now.
    """
    path, name = path_of_workdir(workdir, about), about['config']['data']['vocabulary']
    tokenizer = _load(path, name, _stamp(path))
    expected = (about.get('vocabulary') or {}).get('sha256', tokenizer.sha256)
    if tokenizer.sha256 != expected:
        raise errors.UserError(
            f'{workdir} was trained with another vocabulary than {name!r} is now; put back '
            f'the one with sha256 {expected[:12]}...'
        )
    return tokenizer


def _stamp(path: str) -> tuple[int, ...]:
    if path == BYTES or os.path.isdir(path):
        return ()
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=8)
def _load(path: str, name: str, stamp: tuple[int, ...]) -> Tokenizer:
    """One load per file and process; `stamp` tells a file from what was at its path before."""
    del stamp
    if path == BYTES:
        return ByteTokenizer(name)
    if os.path.isdir(path):
        return _from_files(vocabularies.Files.read(path), name)
    files = vocabularies.Files.read(os.path.dirname(path))
    if path.endswith('.json'):
        files = dataclasses.replace(files, file=os.path.basename(path))
        return _from_files(files, name)
    return SentencePieceTokenizer(path, name, files.model)


def train_sentencepiece(
    lines: Iterable[str], *, size: int, symbols: Sequence[str] = (), model_type: str = 'unigram'
) -> bytes:
    """Trains a SentencePiece model with T5's special ids; the same lines give the same bytes.

    Args:
      lines: texts, in a fixed order.
      size: pieces at most; bytes spell what they cannot, in any script.
      symbols: words that are one piece each, such as '<de>'.
      model_type: 'unigram' or 'bpe'.

    Returns:
      The content of a `.model` file.

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
            vocab_size=size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=1.0,
            user_defined_symbols=list(symbols),
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            num_threads=1,
            shuffle_input_sentence=False,
            max_sentence_length=1 << 20,
            minloglevel=2,
        )
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
