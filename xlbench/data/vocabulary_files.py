"""The JSON files of a vocabulary folder, as transformers lays them out: their keys and types."""

import dataclasses
import os
from typing import Annotated, TypeVar

import msgspec

from xlbench.system import files as files_lib, untrusted

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

    def flags(self) -> dict[str, bool]:
        """Returns the flags that the file gives."""
        given = msgspec.structs.asdict(self)
        return {key: value for key, value in given.items() if isinstance(value, bool)}


AnyToken = str | Token | None


class _Encoder(msgspec.Struct, omit_defaults=True):
    model_type: str | None = None
    vocab_size: Id | None = None


class Settings(msgspec.Struct, omit_defaults=True):
    """The keys that are read of a JSON file; others may hold anything.

    `xlbench_family` stands in folders that xlbench.convert writes: a key of vocabularies.FAMILIES.
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
    """A folder of vocabulary files.

    Attributes:
      folder: it.
      model, tokenizer, special: the content of config.json, tokenizer_config.json and
        special_tokens_map.json, empty for those not there.
      added: token -> its id, the content of added_tokens.json.
      file: the name of the tokenizer.json.
    """

    folder: str
    model: Settings
    tokenizer: Settings
    special: Settings
    added: dict[str, int]
    file: str = TOKENIZER_FILE

    @classmethod
    def read(cls, folder: str) -> 'Files':
        """Reads the JSON files; UserError if one is broken, or a value is of another type."""
        names = (MODEL_CONFIG, TOKENIZER_CONFIG, SPECIAL_TOKENS)
        settings = (read_json(folder, name, Settings) for name in names)
        return cls(folder, *settings, read_json(folder, ADDED_TOKENS, dict[str, Id]))

    def path(self, name: str) -> str:
        """Returns the path of a file in the folder."""
        return os.path.join(self.folder, name)

    def has(self, *names: str) -> bool:
        """Returns whether all these files exist."""
        return all(untrusted.file(self.folder, name) for name in names)

    def setting(self, key: str, default: Value | None = None) -> Value | None:
        """From the tokeniser's own files, else the model's; null is as good as not there."""
        for settings in (self.tokenizer, self.special, self.model):
            if (value := getattr(settings, key)) is not None:
                return value
        return default

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
