"""The pairs of SentencePiece models of Marian and OPUS-MT."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlbench.benchmarks import languages
from xlbench.data import vocabularies, vocabulary_files
from xlbench.data.tokenizers.hugging_face import HuggingFaceTokenizer
from xlbench.data.tokenizers.tokenizer import digest, model_vocab_size, num_threads
from xlbench.huggingface import sentencepiece_models
from xlbench.system import errors, untrusted

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

# Codes in Marian's vocabularies beside ISO 639-1 and ISO 639-3, as in `>>cmn_Hans<<`.
_MARIAN_CODES = {'zh': ('cmn_Hans', 'cmn'), 'no': ('nob',), 'fa': ('pes',), 'ms': ('zsm_Latn',)}


class MarianTokenizer(HuggingFaceTokenizer):
    """Marian's two SentencePiece models, one for each side, over one list of pieces.

    Ids equal those of transformers' tokeniser, which is in Python and takes three times as long.
    Text that begins with `>>xxx<<` gives that token, or the unknown one.

    Args:
      files: the folder with source.spm, target.spm and vocab.json.
      name: what to call it.
    """

    uses_cores = True

    family = 'marian'
    has_bytes = False

    def __init__(self, files: vocabulary_files.Files, name: str):
        import sentencepiece

        if files.setting('separate_vocabs'):
            raise errors.UserError(
                f'{files.folder} has separate vocabularies of source and target (separate_vocabs); '
                'Marian models with one vocab.json are supported'
            )
        paths = [files.path(file) for file in vocabularies.FAMILIES['marian'].files]
        self.name = name
        pieces = vocabulary_files.read_json(files.folder, 'vocab.json', dict[str, int])
        added = files.tokenizer.added_tokens_decoder or {}
        numbers = {token.content: number for number, token in added.items()}
        self._vocab = pieces | files.added | numbers
        named = vocabularies.FAMILIES['marian'].named
        tokens = (files.setting(key, text) for key, text in named.items())
        special = {*map(vocabulary_files.content, tokens), *files.added, *numbers}
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
        self.vocab_size = model_vocab_size(files.model, self.num_pieces)
        self._set_special(files, self._vocab.get, languages_here)
        self._silent += [n for piece, n in self._vocab.items() if re.fullmatch('>>.+<<', piece)]
        if self.unk_id < 0:
            raise errors.UserError(f'{paths[2]} has no <unk>; it is of another model')
        self._special = re.compile('|'.join(map(re.escape, sorted(special, key=len, reverse=True))))
        data = b''.join(untrusted.read_bytes(path) for path in paths)
        self.sha256 = digest(self, files, data, sorted(special))
        self._sides = []  # Source and target: the model, and its ids -> ours.
        for path in paths[:2]:
            sentencepiece_models.read(path)
            try:
                model = sentencepiece.SentencePieceProcessor(model_file=path)
            except (RuntimeError, OSError) as error:
                raise errors.UserError(f'{path} is not a SentencePiece model') from error
            pieces = (model.id_to_piece(i) for i in range(len(model)))
            ours = [self._vocab.get(piece, self.unk_id) for piece in pieces]
            self._sides.append((model, np.array(ours, np.int32)))

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32, over all cores."""
        model, ours = self._sides[target]
        texts = list(texts)
        if not texts:
            return []
        rows = model.encode(texts, return_type='numpy', num_threads=num_threads())
        unk_id = model.unk_id()
        # Unknown text of one side's model may be a piece of the other's, so its letters count.
        return [
            self._encode_parts(text, model)
            if text.startswith('>>') or (ids == unk_id).any() or self._special.search(text)
            else ours[ids]
            for text, ids in zip(texts, rows, strict=True)
        ]

    def _encode_parts(self, text: str, model: 'SentencePieceProcessor') -> np.ndarray:
        """Encodes one text that may hold special tokens, language tokens and unknown pieces."""
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
