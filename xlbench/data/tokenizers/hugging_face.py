"""Hugging Face's fast tokenizers, from their files."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xlbench.benchmarks import languages
from xlbench.data import vocabularies, vocabulary_files
from xlbench.data.tokenizers import objects
from xlbench.data.tokenizers.tokenizer import (
    MOST_PIECES,
    Tokenizer,
    digest,
    model_vocab_size,
)
from xlbench.system import errors

# Short names. Every size of mT5 and of T5 1.1 has the same vocabulary.
HUB_NAMES = {
    'mt5': 'google/mt5-base',
    't5': 'google/t5-v1_1-base',
}
VOCABULARY_FILES = tuple(
    dict.fromkeys(file for family in vocabularies.FAMILIES.values() for file in family.files)
)


def _tags_sides(files: vocabulary_files.Files, family: str) -> bool:
    """Returns whether the inputs of a BERT begin with the tag of their own language."""
    tags = files.setting('language_tags')
    if tags is not None and (family, tags) != ('bert', 'sides'):
        raise errors.UserError(
            f'{files.path(vocabulary_files.TOKENIZER_CONFIG)} has language_tags {tags!r} for a '
            f"{family} vocabulary; take it out, or for BERT write 'sides'"
        )
    return tags is not None


class HuggingFaceTokenizer(Tokenizer):
    """The vocabulary files of a model, run by the `tokenizers` library.

    Args:
      files: the folder they are in.
      name: what to call it.
      family: key of `vocabularies.FAMILIES`; its files or a tokenizer.json are there.

    Attributes:
      has_bytes: whether it has pieces that are bytes.
    """

    _tags_sides = False

    def __init__(self, files: vocabulary_files.Files, name: str, family: str):
        with objects.no_panic(files.folder):
            self._tokenizer, data = objects.load(files, family)
        self.name, self.family = name, family
        # Not as many as there are: a vocabulary may have gaps, or a piece twice.
        self.num_pieces = max(self._tokenizer.get_vocab().values(), default=-1) + 1
        if not 0 < self.num_pieces <= MOST_PIECES:
            raise errors.UserError(
                f'{files.folder} has ids up to {self.num_pieces - 1:,}; a vocabulary has 1 to '
                f'{MOST_PIECES:,} of them'
            )
        self.has_bytes = self._tokenizer.token_to_id('<0x00>') is not None
        self.vocab_size = model_vocab_size(files.model, self.num_pieces)
        added = self._tokenizer.get_added_tokens_decoder()
        if family == 'bert':
            names = {lang: f'[unused{n}]' for n, lang in enumerate(languages.TABLE, 1)}
        elif family == 'unicoder':
            known = vocabularies.UNICODER_LANGUAGES
            names = {lang: f'[{lang}]' for lang in languages.LANGUAGES if lang in known}
        else:
            rows = languages.LANGUAGES.items() if family in ('mbart25', 'mbart50') else ()
            names = {lang: row.mbart for lang, row in rows if row.mbart}
        self._set_special(files, self._tokenizer.token_to_id, names)
        self._silent += [number for number, token in added.items() if token.special]
        self._tags_sides = _tags_sides(files, family)
        data += b'tagged sides' if self._tags_sides else b''  # Other ids.
        self.sha256 = digest(self, files, data, sorted((n, repr(t)) for n, t in added.items()))

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

    def _set_special(
        self,
        files: vocabulary_files.Files,
        to_id: Callable[[str], int | None],
        names: Mapping[str, str],
    ) -> None:
        """Sets the special ids, the languages' and how a model learns the target language.

        Args:
          files: they say which tokens are special.
          to_id: token -> its id, or None.
          names: ISO code -> language token.
        """
        roles = {
            'pad': (('pad_token',), ('<pad>', '[PAD]', '<|endoftext|>')),
            'eos': (('eos_token', 'sep_token'), ('</s>', '[SEP]', '<|endoftext|>')),
            'bos': (('bos_token', 'cls_token'), ('<s>', '[CLS]', '<|endoftext|>')),
            'unk': (('unk_token',), ('<unk>', '[UNK]', '<|endoftext|>')),
        }
        special: dict[str, int] = {}
        for role, (keys, usual) in roles.items():
            tokens = [vocabulary_files.content(t) for key in keys if (t := files.setting(key))]
            ids = [number for t in tokens or usual if (number := to_id(t)) is not None]
            if not ids and role in ('pad', 'eos'):
                raise errors.UserError(
                    f'{files.folder} has no {keys[0]}: neither tokenizer_config.json nor '
                    'special_tokens_map.json names one that the vocabulary has, and it has none '
                    f'of {", ".join(usual)}'
                )
            special |= {role: ids[0]} if ids else {}
        self.pad_id, self.eos_id = special['pad'], special['eos']
        self.bos_id, self.unk_id = special.get('bos'), special.get('unk', -1)
        start = files.model.decoder_start_token_id
        family = vocabularies.FAMILIES[self.family]
        default = special[family.start]
        self.closing_id = to_id(family.closing) if family.closing else None
        self.decoder_start_id = default if start is None else start
        numbers = {lang: to_id(token) for lang, token in names.items()}
        self._language_ids = {lang: n for lang, n in numbers.items() if n is not None}
        self._language_tokens = {lang: names[lang] for lang in self._language_ids}
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
        """Returns a tokenizer.json that puts around a text what `encode_inputs` puts around it."""
        import tokenizers
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
