"""Vocabularies in the files of Hugging Face.

Most are run by its library. Marian's (SentencePiece for each side), whose tokeniser is in Python
there, are run here. XLM's (arXiv:1901.07291) is left in Python, as Moses takes the time.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tokenizers

from xlbench.benchmarks import languages
from xlbench.data import vocabularies
from xlbench.data.tokenizers import objects
from xlbench.data.tokenizers.tokenizer import Tokenizer, digest, model_vocab_size, num_threads
from xlbench.huggingface import sentencepiece_models
from xlbench.system import errors, untrusted

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

_MOST_PIECES = 1 << 24  # The largest vocabularies have a million.


class HuggingFaceTokenizer(Tokenizer):
    """The vocabulary files of a model, run by the `tokenizers` library.

    `has_bytes` says whether it has pieces that are bytes.
    """

    _tags_sides = False  # Whether the inputs of a BERT begin with the tag of their own language.

    def __init__(self, files: vocabularies.Files, name: str, family: str):
        with objects.no_panic(files.folder):
            self._tokenizer, data = objects.load(files, family)
        self.name, self.family = name, family
        # Not as many as there are: a vocabulary may have gaps, or a piece twice.
        self.num_pieces = max(self._tokenizer.get_vocab().values(), default=-1) + 1
        if not 0 < self.num_pieces <= _MOST_PIECES:
            raise errors.UserError(
                f'{files.folder} has ids up to {self.num_pieces - 1:,}; a vocabulary has 1 to '
                f'{_MOST_PIECES:,} of them'
            )
        self.has_bytes = self._tokenizer.token_to_id('<0x00>') is not None
        self.vocab_size = model_vocab_size(files.model, self.num_pieces)
        added = self._tokenizer.get_added_tokens_decoder()
        self._set_special(files, self._tokenizer.token_to_id)
        self._silent = [*self._silent, *(n for n, token in added.items() if token.special)]
        self._tags_sides = files.has_of_bert('language_tags', 'sides', family)
        data += b'tagged sides' if self._tags_sides else b''  # Other ids.
        self.sha256 = digest(self, files, data, sorted((n, repr(t)) for n, t in added.items()))

    def _language_names(self) -> dict[str, str]:
        """Returns {ISO code: token} of the languages."""
        token_of = vocabularies.FAMILIES[self.family].token_of
        tokens = ((lang, token_of(row)) for lang, row in languages.LANGUAGES.items())
        return {lang: token for lang, token in tokens if token}

    @property
    def source_words(self) -> tuple[str, ...]:
        """See Tokenizer."""
        words = super().source_words
        if not self._tags_sides:
            return words
        return tuple('source_lang' if word == 'target_lang' else word for word in words)

    def further(self, words: Sequence[str]) -> dict[str, int]:
        """Returns {word: the id it would get} of the words that it does not have."""
        new = [w for w in dict.fromkeys(words) if self._tokenizer.token_to_id(w) is None]
        return {word: number for number, word in enumerate(new, self.num_pieces)}

    def _set_special(self, files: vocabularies.Files, to_id: Callable[[str], int | None]) -> None:
        """Sets special ids, those of languages, and how a model learns the target language."""
        roles = {
            'pad': (('pad_token',), ('<pad>', '[PAD]', '<|endoftext|>')),
            'eos': (('eos_token', 'sep_token'), ('</s>', '[SEP]', '<|endoftext|>')),
            'bos': (('bos_token', 'cls_token'), ('<s>', '[CLS]', '<|endoftext|>')),
            'unk': (('unk_token',), ('<unk>', '[UNK]', '<|endoftext|>')),
        }
        special: dict[str, int] = {}
        family = vocabularies.FAMILIES[self.family]
        for role, (keys, usual) in roles.items():
            tokens = [vocabularies.content(t) for key in keys if (t := files.setting(key))]
            ids = [number for t in tokens or usual if (number := to_id(t)) is not None]
            if not ids and role in ('pad', 'eos')[family.pad_is_end :]:
                raise errors.UserError(
                    f'{files.folder} has no {keys[0]}: neither tokenizer_config.json nor '
                    'special_tokens_map.json names one that the vocabulary has, and it has none '
                    f'of {", ".join(usual)}'
                )
            special |= {role: ids[0]} if ids else {}
        special = {'pad': special['eos'], **special}
        self.pad_id, self.eos_id = special['pad'], special['eos']
        self.bos_id, self.unk_id = special.get('bos'), special.get('unk', -1)
        start = files.model.decoder_start_token_id
        default = special[family.start]
        self.closing_id = to_id(family.closing) if family.closing else None
        self.decoder_start_id = default if start is None else start
        numbers = {lang: to_id(token) for lang, token in self._language_names().items()}
        self._language_ids = {lang: n for lang, n in numbers.items() if n is not None}
        if files.setting('split_special_tokens') is True and not family.added:
            del special['unk']  # Of SentencePiece, which decodes it to a mark.
        self._silent = [*self._language_ids.values(), *special.values()]
        if self._language_ids or self.family == 'marian':
            self.tags = 'own'

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32, over all cores."""
        with objects.no_panic(f'vocabulary {self.name}'):
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return self._tokenizer.decode_batch(ids, skip_special_tokens=True)

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return [self._tokenizer.id_to_token(i) or '' for i in range(self.num_pieces)]

    def with_ends(self) -> str:
        """Returns a tokenizer.json that adds the same special tokens as `encode_inputs`."""
        from tokenizers import processors

        copy = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
        before = self._prefix(self.source_words, {'source_lang': None, 'target_lang': None})
        ids = [*before.tolist(), self.eos_id]
        *start, end = [copy.id_to_token(i) for i in ids]
        single, pair = [*start, '$A', end], ['$A', end, '$B:1', f'{end}:1']
        family = vocabularies.FAMILIES[self.family]
        if family.doubled_ends:
            pair = ['$A', end, end, '$B', end]
        if family.language_last:
            single = ['$A', end, *start]
        copy.post_processor = processors.TemplateProcessing(
            single=single,
            pair=[*start, *pair],
            special_tokens=[(copy.id_to_token(i), i) for i in dict.fromkeys(ids)],
        )
        return copy.to_str()


# Codes in Marian's vocabularies beside ISO 639-1 and ISO 639-3, as in `>>cmn_Hans<<`.
_MARIAN_CODES = {'zh': ('cmn_Hans', 'cmn'), 'no': ('nob',), 'fa': ('pes',), 'ms': ('zsm_Latn',)}


class _ListedTokenizer(HuggingFaceTokenizer):
    """A vocabulary whose vocab.json lists the pieces, for a way of cutting texts of its own."""

    has_bytes = False
    _space = '▁'  # Stands for a space in its pieces.

    def _set_pieces(
        self, files: vocabularies.Files, name: str, more: Mapping[str, int] = {}
    ) -> None:
        """Sets the pieces, those of vocab.json and `more` by their ids, and the special ones."""
        self.name, self._path = name, files.path('vocab.json')
        listed = vocabularies.read_json(files.folder, 'vocab.json', dict[str, int])
        self._vocab = {**listed, **self._further_pieces(files, len(listed)), **more}
        self.num_pieces = len(self._vocab)
        if sorted(self._vocab.values()) != list(range(self.num_pieces)):
            raise errors.UserError(f'{self._path} does not number its pieces from 0 without gaps')
        self._pieces = sorted(self._vocab, key=self._vocab.__getitem__)
        self.vocab_size = model_vocab_size(files.model, self.num_pieces)
        self._set_special(files, self._vocab.get)
        if self.unk_id < 0:
            raise errors.UserError(f'{self._path} has no <unk>; it is of another model')

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return list(self._pieces)

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        texts = (''.join(self._pieces[i] for i in row) for row in ids)
        return [text.replace(self._space, ' ').strip() for text in texts]

    def _further_pieces(self, files: vocabularies.Files, first: int) -> dict[str, int]:
        """Returns the pieces behind those of vocab.json that no file lists, by their ids."""
        return {}


class MarianTokenizer(_ListedTokenizer):
    """Marian's two SentencePiece models, one for each side, over one list of pieces.

    Ids equal those of transformers' tokeniser, which is in Python and takes three times as long.
    Text that begins with `>>xxx<<` gives that token, or the unknown one.
    """

    uses_cores = True
    family = 'marian'
    _language = '>>.+<<'  # What its tokens of languages look like.
    _begins = re.compile('>>.*?<<', re.DOTALL)  # One that a text begins with, known or not.

    def __init__(self, files: vocabularies.Files, name: str):
        if files.setting('separate_vocabs'):
            raise errors.UserError(
                f'{files.folder} has separate vocabularies of source and target (separate_vocabs); '
                'Marian models with one vocab.json are supported'
            )
        family = vocabularies.FAMILIES[self.family]
        paths = [files.path(file) for file in family.files]
        added = files.tokenizer.added_tokens_decoder or {}
        numbers = {token.content: number for number, token in added.items()}
        self._set_pieces(files, name, files.added | numbers)
        tokens = (files.setting(key, text) for key, text in family.named.items() if text)
        listed = files.tokenizer.listed() or files.special.listed()
        special = {*map(vocabularies.content, (*tokens, *listed)), *files.added, *numbers}
        special &= self._vocab.keys()
        languages = (n for x, n in self._vocab.items() if re.fullmatch(self._language, x))
        self._silent = [*self._silent, *languages]
        longest_first = map(re.escape, sorted(special, key=len, reverse=True))
        self._special = re.compile(f'({"|".join(longest_first)})')
        contents = [untrusted.read_bytes(path) for path in paths]
        self.sha256 = digest(self, files, b''.join(contents), sorted(special))
        self._sides = []  # Source and target: the model, and its ids -> ours.
        for path, data in zip(paths[:-1], contents, strict=False):  # One for both sides, or two.
            model = sentencepiece_models.processor(path, data)
            pieces = (model.id_to_piece(i) for i in range(len(model)))
            ours = [self._vocab.get(piece, self.unk_id) for piece in pieces]
            self._sides.append((model, np.array(ours, np.int32)))

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32, over all cores."""
        model, ours = self._sides[target and len(self._sides) > 1]
        texts = list(texts)
        if not texts:
            return []
        rows = model.encode(texts, return_type='numpy', num_threads=num_threads())
        unk_id = model.unk_id()
        # Unknown text of one side's model may be a piece of the other's, so its letters count.
        return [
            self._encode_parts(text, model)
            if self._begins.match(text) or (ids == unk_id).any() or self._special.search(text)
            else ours[ids]
            for text, ids in zip(texts, rows, strict=True)
        ]

    def _encode_parts(self, text: str, model: 'SentencePieceProcessor') -> np.ndarray:
        """Encodes one text that may hold special tokens, language tokens and unknown pieces."""
        tokens: list[str] = []
        for place, part in enumerate(self._special.split(text)):
            if place % 2:  # A special token.
                tokens.append(part)
                continue
            code = self._begins.match(part)
            tokens += [code[0]] if code else []
            tokens += model.encode(part[code.end() :] if code else part, out_type=str)
        return np.array([self._vocab.get(token, self.unk_id) for token in tokens], np.int32)

    def _language_names(self) -> dict[str, str]:
        return {
            lang: f'>>{code}<<'
            for lang, row in languages.LANGUAGES.items()
            for code in reversed((lang, row.alpha3, *_MARIAN_CODES.get(lang, ())))
            if f'>>{code}<<' in self._vocab
        }


# In the order of their tokens (WMT 2021's models: arXiv:2108.03265).
_WMT21_LANGUAGES = ('en', 'ha', 'is', 'ja', 'cs', 'ru', 'zh', 'de')


class M2mTokenizer(MarianTokenizer):
    """M2M-100's sentencepiece.bpe.model over the pieces of its vocab.json; languages follow."""

    family = 'm2m_100'
    _language = '__[a-z]+__'
    _begins = re.compile('(?!)')
    _language_names = HuggingFaceTokenizer._language_names

    def _further_pieces(self, files: vocabularies.Files, first: int) -> dict[str, int]:
        family = vocabularies.FAMILIES[self.family]
        known = {'m2m100': family.languages, 'wmt21': _WMT21_LANGUAGES}
        codes = known[files.setting('language_codes') or 'm2m100']
        return {f'__{code}__': number for number, code in enumerate(codes, first)}


class XlmTokenizer(_ListedTokenizer):
    """XLM's vocab.json and merges.txt, over the words of Moses, run by transformers.

    Texts of all languages are cut by Moses's rules of English. Unless tokenizer_config.json says
    otherwise, letters become small and lose their accents.
    """

    family = 'xlm'
    _space = '</w>'

    def __init__(self, files: vocabularies.Files, name: str):
        self._set_pieces(files, name)
        names = vocabularies.FAMILIES['xlm'].files
        contents = {file: untrusted.read_bytes(files.path(file)) for file in names}
        further = files.tokenizer.listed() or files.special.listed()
        listed = {*map(vocabularies.content, further)}
        special = {piece for piece in self._vocab if re.fullmatch(r'<special\d+>', piece)}
        special |= {self._pieces[i] for i in self._silent} | listed & self._vocab.keys()
        self._silent = sorted(self._vocab[piece] for piece in special)
        longest_first = sorted(special, key=lambda piece: (-len(piece), piece))
        self.language_rows = files.setting('lang2id') or {}
        if sorted(self.language_rows.values()) != list(range(len(self.language_rows))):
            raise errors.UserError(
                f'{files.folder}: lang2id does not number its languages from 0 without gaps'
            )
        is_plain = files.setting('do_lowercase_and_remove_accent') is not False
        data = b''.join(contents.values())
        self.sha256 = digest(self, files, data, [*longest_first, str(is_plain)])
        settings: dict[str, objects.Setting] = {
            'do_lowercase_and_remove_accent': is_plain, 'additional_special_tokens': longest_first
        }  # fmt: skip
        self._python = objects.of_transformers('XLMTokenizer', files, contents, settings)

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32."""
        pieces = map(self._python.tokenize, texts)
        return [np.array(self._python.convert_tokens_to_ids(row), np.int32) for row in pieces]
