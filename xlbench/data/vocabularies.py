"""The families of vocabularies: their files, their special tokens, and the tokens before a text.

The JSON files of a vocabulary folder are as transformers lays them out; `Settings` has their keys.

A tokenizer.json beside its files goes first, as in transformers: see tokenizers/objects.py.
vocabularies.toml has the families.
"""

import dataclasses
import os
import pathlib
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from xlbench.benchmarks.languages import TABLE, Language
from xlbench.models.families import MODEL_TYPES
from xlbench.system import files as files_lib, untrusted
from xlbench.system.errors import UserError

TOKENIZER_FILE = 'tokenizer.json'
MODEL_CONFIG, TOKENIZER_CONFIG = 'config.json', 'tokenizer_config.json'
SPECIAL_TOKENS, ADDED_TOKENS = 'special_tokens_map.json', 'added_tokens.json'
CONFIG_FILES = (TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS, MODEL_CONFIG)

Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 28)]
Value = TypeVar('Value')


class Token(msgspec.Struct, omit_defaults=True):
    """An added token as the files hold it, where it is no plain text."""

    content: str
    lstrip: bool | None = None
    rstrip: bool | None = None
    normalized: bool | None = None
    single_word: bool | None = None
    special: bool | None = None


AnyToken = str | Token | None


class _Encoder(msgspec.Struct, omit_defaults=True):
    model_type: str | None = None
    vocab_size: Id | None = None


class Settings(msgspec.Struct, omit_defaults=True):
    """The keys that are read of a JSON file; others may hold anything.

    `xlbench_family` stands in folders that xlbench.convert writes: a key of FAMILIES.
    `words` (see tokenizers/objects.py) and `language_tags` (see tokenizers.Tokenizer.prefix_ids)
    are keys of ours, too.
    """

    bos_token: AnyToken = None
    eos_token: AnyToken = None
    unk_token: AnyToken = None
    sep_token: AnyToken = None
    pad_token: AnyToken = None
    cls_token: AnyToken = None
    mask_token: AnyToken = None
    additional_special_tokens: list[AnyToken] | None = None
    extra_special_tokens: list[AnyToken] | dict[str, AnyToken] | None = None
    added_tokens_decoder: dict[Id, Token] | None = None
    extra_ids: Annotated[int, msgspec.Meta(ge=0, le=1 << 16)] | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    add_prefix_space: bool | None = None
    split_special_tokens: bool | None = None
    separate_vocabs: bool | None = None
    do_lowercase_and_remove_accent: bool | None = None
    lang2id: dict[str, Id] | None = None
    language_codes: str | None = None
    tokenizer_class: str | None = None
    words: str | None = None
    language_tags: str | None = None
    xlbench_family: str | None = None
    # Of config.json.
    model_type: str | None = None
    vocab_size: Id | None = None
    decoder_start_token_id: Id | None = None
    encoder: _Encoder | None = None

    def rows(self) -> int | None:
        """Returns the rows of the model's embedding; None where config.json does not say it."""
        return self.vocab_size or (self.encoder.vocab_size if self.encoder else None)

    def listed(self) -> list[AnyToken]:
        """Returns the special tokens without a role."""
        tokens = self.extra_special_tokens or self.additional_special_tokens or []
        return list(tokens.values()) if isinstance(tokens, dict) else tokens


@dataclasses.dataclass(frozen=True)
class Files:
    """A folder of vocabulary files, with the content of its JSON files, empty where one lacks."""

    folder: str
    model: Settings  # config.json.
    tokenizer: Settings  # tokenizer_config.json.
    special: Settings  # special_tokens_map.json.
    added: dict[str, int]  # added_tokens.json: token -> its id.
    file: str = TOKENIZER_FILE  # The name of the tokenizer.json.

    @classmethod
    def read(cls, folder: str) -> 'Files':
        """Reads the JSON files; UserError if one is broken, or has a value of another type."""
        names = (MODEL_CONFIG, TOKENIZER_CONFIG, SPECIAL_TOKENS)
        model, tokenizer, special = (read_json(folder, name, Settings) for name in names)
        added = read_json(folder, ADDED_TOKENS, dict[str, Id])
        return cls(folder, model, tokenizer, special, added)

    def path(self, name: str) -> str:
        """Returns the path of a file in the folder."""
        return os.path.join(self.folder, name)

    def has(self, *names: str) -> bool:
        """Returns whether all these files exist."""
        return all(untrusted.file(self.folder, name) for name in names)

    def setting(self, key: str, default: Any = None) -> Any:
        """Reads a setting of the tokeniser's files, else of the model's; null counts as absent."""
        for settings in (self.tokenizer, self.special, self.model):
            if (value := getattr(settings, key)) is not None:
                return value
        return default

    def has_of_bert(self, key: str, value: str, family: str) -> bool:
        """Returns whether a key of ours is set, which a BERT alone may have, with this value."""
        found = self.setting(key)
        if found is not None and (found, family) != (value, 'bert'):
            raise UserError(
                f'{self.path(TOKENIZER_CONFIG)} has {key} {found!r} for a {family} vocabulary; '
                f'take it out, or for BERT write {value!r}'
            )
        return found is not None

    def numbered(self) -> dict[int, Token]:
        """Returns the added tokens by the ids that the files give them."""
        if self.tokenizer.added_tokens_decoder:
            return self.tokenizer.added_tokens_decoder
        return {number: Token(text) for text, number in self.added.items()}


def read_json(folder: str, name: str, kind: type[Value]) -> Value:
    """Reads the content of a JSON file in a folder; an empty one if there is no such file."""
    path = untrusted.file(folder, name)
    return files_lib.read_json(path, kind) if path else kind()


def content(token: AnyToken) -> str:
    """Returns the text of a token, with or without flags."""
    return token.content if isinstance(token, Token) else str(token)


@dataclasses.dataclass(frozen=True)
class Family:
    """The vocabulary that the models of a family have."""

    files: tuple[str, ...] = ()  # It is built from these, without a tokenizer.json.
    tokenizer_class: str = ''  # Of transformers, which reads these files.
    settings: tuple[str, ...] = ()  # Keys of tokenizer_config.json that change what that makes.
    unk_id: int = 0  # Of unknown text in its SentencePiece models.
    bpe: bool = False  # Whether these are of byte-pair encoding, and not unigram models.
    pad_is_end: bool = False  # Whether the end pads where the files name no padding.
    # Special tokens, by their keys in tokenizer_config.json.
    named: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # What stands before the ids of each side: 'bos', 'source_lang', 'target_lang', 'closing'.
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    start: str = 'pad'  # The special token that decoding starts with, unless config.json says.
    needs_languages: bool = False  # Whether an example without a language is an error.
    # Whether the models read and write the language behind the end of a text, and decoders begin
    # with it. Examples have it first all the same; `features.generation` moves it.
    language_last: bool = False
    language: str = ''  # The form of the token of a language, see `token_of`.
    languages: tuple[str, ...] = ()  # Codes of those whose tokens stand behind the files' in order.
    # Whether its class in transformers gives our ids from the files as they are; see objects.py.
    same_class: bool = True
    # A token behind those of the files that stands behind the end of both sides, where the language
    # would; `languages` follow it. No text becomes one of them.
    closing: str = ''
    # Whether two ends stand between the texts of a pair, which all have one type (fairseq,
    # roberta/hub_interface.py).
    doubled_ends: bool = False

    @property
    def added(self) -> list[str]:
        """Returns `closing` with the tokens of `languages`; none where there is no such end."""
        tokens = [self.language.format(code=lang) for lang in self.languages]
        return [self.closing, *tokens] if self.closing else []

    def token_of(self, language: Language) -> str | None:
        """Returns the token of a language, or None; a registered language has no place."""
        place = TABLE.index(language.code) + 1 if language.code in TABLE else None
        known = dict(place=place, **{k: getattr(language, k) for k in ('code', 'mbart', 'flores')})
        lacks = any(f'{{{key}}}' in self.language for key, value in known.items() if not value)
        return None if lacks else self.language.format(**known) or None


_TABLES = tomllib.loads(pathlib.Path(__file__).with_suffix('.toml').read_text('utf-8'))


for _row in _TABLES['families'].values():
    _row['named'] = _TABLES['named'].get(_row.get('named'), {})
    _row['languages'] = _row.get('languages', '').split()
FAMILIES = msgspec.convert(_TABLES['families'], dict[str, Family])
# Those that a folder may have beside CONFIG_FILES.
VOCABULARY_FILES = tuple(
    dict.fromkeys([TOKENIZER_FILE, *(file for row in FAMILIES.values() for file in row.files)])
)
FAMILY = 'xlbench_family'  # In tokenizer_config.json, see `Settings`.
GENERIC_CLASSES = ('PreTrainedTokenizerFast', 'TokenizersBackend')
# Classes are called as models are: 'MT5Tokenizer' reads what a model of type mt5 does.
_CLASSES = {
    f'{kind.replace("-", "")}tokenizer': row.vocabulary
    for kind, row in MODEL_TYPES.items()
    if row.vocabulary
} | {'mbarttokenizer': 'mbart25', 'mbart50tokenizer': 'mbart50', 'nllbtokenizer': 'nllb'}
_MBART25_ROWS, _MBART50_ROWS = 250_027, 250_054


def family_of(files: Files) -> str:
    """Finds the family of a folder: by its model, its tokeniser's class, its files."""
    if (own := files.tokenizer.xlbench_family or '') in FAMILIES:
        return own
    model: Settings | _Encoder = files.model
    if model.model_type == 'encoder-decoder' and files.model.encoder:
        model = files.model.encoder
    of_class = _CLASSES.get((files.setting('tokenizer_class') or '').removesuffix('Fast').lower())
    # BART's tokeniser is stored under RoBERTa's name: the model decides, and the class only where
    # there is no model or where two models share a type.
    of_model = MODEL_TYPES.get(model.model_type or '')
    family = (of_model and of_model.vocabulary) or of_class
    if family == 'bert' and of_class in ('roberta', 'xlm-roberta'):
        return of_class
    if family == 'bert':  # XLM-R's in multilingual E5 (arXiv:2402.05672).
        opens = content(files.setting('cls_token') or files.setting('bos_token') or '')
        return 'xlm-roberta' if of_class is None and opens == '<s>' else 'bert'
    if family == 'm2m_100':  # NLLB is of the same type.
        return family if files.has(*FAMILIES[family].files) else 'nllb'
    if family in ('mbart25', 'mbart50'):  # mBART-50's goes by both classes' names.
        rows = model.vocab_size or 0
        is_25 = rows < _MBART50_ROWS if of_class == 'mbart25' else rows == _MBART25_ROWS
        return 'mbart25' if is_25 and of_class in (None, 'mbart25') else 'mbart50'
    if family:
        return family
    for family in ('marian', 'bert', 't5'):
        if files.has(*FAMILIES[family].files):
            return family
    return 'other'
