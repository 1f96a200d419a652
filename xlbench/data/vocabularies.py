"""The families of vocabularies: their files, their special tokens, and the tokens before a text.

The JSON files of a vocabulary folder are as transformers lays them out; `Settings` has their keys.

  T5, mT5        spiece.model
  PEGASUS        spiece.model, behind 103 ids for pretraining (arXiv:1912.08777)
  mBART-50       sentencepiece.bpe.model in fairseq's ids, then 52 languages (arXiv:2008.00401)
  mBART-25       the same, then 25 languages (arXiv:2001.08210), which stand behind a text
  XLM-R          sentencepiece.bpe.model in fairseq's ids
  Unicoder       the same, then an end of both sides and 100 languages (arXiv:2004.01401)
  BERT, mBERT    vocab.txt; tokenizer_config.json says do_lower_case
  BART, RoBERTa  vocab.json, merges.txt
  GPT-2          vocab.json, merges.txt; one token ends texts, parts them and pads
  DeBERTa v3     spm.model, with BERT's special tokens
  XLM            vocab.json, merges.txt over the words of Moses: see tokenizers.XlmTokenizer
  Marian         source.spm, target.spm, vocab.json: see tokenizers.MarianTokenizer
  M2M-100        sentencepiece.bpe.model, vocab.json, then 100 languages (arXiv:2010.11125)
  NLLB-200       sentencepiece.bpe.model in fairseq's ids, then 202 languages (arXiv:2207.04672)
  Llama, Qwen    tokenizer.json

A tokenizer.json beside them goes first, as in transformers: see tokenizers/objects.py.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

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
    """The vocabulary that the models of a family have.

    Attributes:
      files: what it is built from, without a tokenizer.json.
      tokenizer_class: of transformers, which reads these files.
      settings: keys of tokenizer_config.json that change what the class makes.
      unk_id: of unknown text in its SentencePiece models.
      bpe: whether these are of byte-pair encoding, and not unigram models.
      pad_is_end: whether the end pads where the files name no padding.
      named: special tokens, by their keys in tokenizer_config.json.
      source, target: what stands before the ids of inputs and of targets: 'bos', 'source_lang',
        'target_lang', 'closing'.
      start: the special token that decoding starts with, unless config.json names another.
      needs_languages: whether an example without a language is an error.
      language_last: whether the models read and write the language behind the end of a text, and
        decoders begin with it. Examples have it first all the same; `features.generation` moves it.
      token_of: gives the token of a language of the table, or None.
      same_class: whether its class in transformers gives the ids that we give, from the files as
        they are. PEGASUS: see tokenizers/objects.py.
      added: tokens behind those of the files, which no text becomes.
      closing: of them, the one that stands behind the end of both sides, where the language would.
      doubled_ends: whether two ends stand between the texts of a pair, which all have one type
        (fairseq, roberta/hub_interface.py).
    """

    files: tuple[str, ...] = ()
    tokenizer_class: str = ''
    settings: tuple[str, ...] = ()
    unk_id: int = 0
    bpe: bool = False
    pad_is_end: bool = False
    named: Mapping[str, str] = dataclasses.field(default_factory=dict)
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    start: str = 'pad'
    needs_languages: bool = False
    language_last: bool = False
    token_of: Callable[[Language], str | None] = lambda language: None
    same_class: bool = True
    added: tuple[str, ...] = ()
    closing: str = ''
    doubled_ends: bool = False


_T5 = dict(eos_token='</s>', unk_token='<unk>', pad_token='<pad>')
_FAIRSEQ = dict(
    bos_token='<s>',
    eos_token='</s>',
    unk_token='<unk>',
    sep_token='</s>',
    pad_token='<pad>',
    cls_token='<s>',
    mask_token='<mask>',
)
_BERT = dict(
    unk_token='[UNK]',
    sep_token='[SEP]',
    pad_token='[PAD]',
    cls_token='[CLS]',
    mask_token='[MASK]',
)
_GPT2 = dict.fromkeys(('bos_token', 'eos_token', 'unk_token'), '<|endoftext|>')
_BPE = ('vocab.json', 'merges.txt')
_XLMR = ('sentencepiece.bpe.model',)
_ROBERTA = dict(named=_FAIRSEQ, source=('bos',), start='bos', doubled_ends=True)
_MBART = dict(
    named=_FAIRSEQ,
    source=('source_lang',),
    target=('target_lang',),
    start='eos',
    needs_languages=True,
    token_of=lambda language: language.mbart,
)


def _unused(language: Language) -> str | None:
    """Returns the token of a BERT that no text becomes; it has none for registered languages."""
    known = language.code in TABLE
    return f'[unused{TABLE.index(language.code) + 1}]' if known else None


# In the order of their tokens (microsoft/MRS, generation_rs/train.sh).
_CODES = """
    af als am an ang ar arz ast az bar be bg bn br bs ca ceb ckb cs cy da de el en eo es et eu
    fa fi fr fy ga gan gl gu he hi hr hu hy ia id is it ja jv ka kk kn ko ku la lb lt lv mk ml
    mn mr ms my nds ne nl nn no oc pl pt ro ru scn sco sh si simple sk sl sq sr sv sw ta te th
    tl tr tt uk ur uz vi war wuu yi zh zh_classical zh_min_nan zh_yue
"""
UNICODER_LANGUAGES = tuple(_CODES.split())
# Likewise (fairseq, examples/m2m_100/language_pairs.txt; WMT 2021's models: arXiv:2108.03265).
_M2M = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu
    ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr
    ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk
    ur uz vi wo xh yi yo zh zu
"""
M2M_LANGUAGES = {
    'm2m100': tuple(_M2M.split()),
    'wmt21': ('en', 'ha', 'is', 'ja', 'cs', 'ru', 'zh', 'de'),
}
_UNICODER_END = '[EOS]'

FAMILIES = {
    't5': Family(('spiece.model',), 'T5Tokenizer', unk_id=2, named=_T5),
    'pegasus': Family(
        ('spiece.model',),
        'PegasusTokenizer',
        unk_id=2,
        named=_T5 | dict(mask_token='<mask_2>'),
        same_class=False,
    ),
    'mbart25': Family(_XLMR, 'MBartTokenizer', **_MBART, language_last=True),
    'mbart50': Family(_XLMR, 'MBart50Tokenizer', **_MBART),
    'xlm-roberta': Family(_XLMR, 'XLMRobertaTokenizer', **_ROBERTA),
    # microsoft/Unicoder, generation/fairseq/tasks/generation_from_pretrained_bart.py: the source is
    # X </s> [EOS], and a decoder is fed [de] X </s> and writes X </s> [EOS].
    'unicoder': Family(
        _XLMR,
        'XLMRobertaTokenizer',
        named=_FAIRSEQ,
        source=('closing',),
        target=('target_lang',),
        start='eos',
        needs_languages=True,
        language_last=True,
        token_of=lambda language: f'[{language.code}]',
        same_class=False,
        added=(_UNICODER_END, *(f'[{lang}]' for lang in UNICODER_LANGUAGES)),
        closing=_UNICODER_END,
    ),
    'bert': Family(
        ('vocab.txt',),
        'BertTokenizer',
        settings=('unk_token', 'do_lower_case', 'strip_accents', 'tokenize_chinese_chars'),
        named=_BERT,
        source=('bos', 'target_lang'),
        target=('target_lang',),
        start='bos',
        token_of=_unused,
    ),
    'bart': Family(
        _BPE,
        'RobertaTokenizer',
        settings=('add_prefix_space',),
        named=_FAIRSEQ,
        source=('bos',),
        target=('bos',),
        start='eos',
    ),
    'roberta': Family(_BPE, 'RobertaTokenizer', settings=('add_prefix_space',), **_ROBERTA),
    'gpt2': Family(
        _BPE, 'GPT2Tokenizer', settings=('add_prefix_space',), named=_GPT2, start='eos'
    ),
    # Llama, Mistral and Gemma, whose texts begin with <s>; Qwen's do not.
    'llama': Family(source=('bos',), start='eos', pad_is_end=True),
    'qwen2': Family(start='eos', pad_is_end=True),
    'deberta-v2': Family(
        ('spm.model',), 'DebertaV2Tokenizer', unk_id=3, named=_BERT, source=('bos',), start='bos'
    ),
    'xlm': Family(
        _BPE,
        named=dict(bos_token='<s>', sep_token='</s>', unk_token='<unk>', pad_token='<pad>'),
        source=('bos',),
        start='bos',
    ),
    'marian': Family(
        ('source.spm', 'target.spm', 'vocab.json'),
        named=_T5,
        source=('target_lang',),
        needs_languages=True,
    ),
    'm2m_100': Family(
        ('sentencepiece.bpe.model', 'vocab.json'),
        **_MBART | dict(token_of=lambda language: f'__{language.code}__'),
    ),
    'nllb': Family(
        _XLMR,
        'NllbTokenizer',
        bpe=True,
        **_MBART | dict(token_of=lambda language: language.flores),
    ),
    'other': Family(same_class=False),  # A tokenizer.json of no known family: no prefixes.
}
FAMILY = 'xlbench_family'  # In tokenizer_config.json, see `Settings`.
GENERIC_CLASSES = ('PreTrainedTokenizerFast', 'TokenizersBackend')
# Classes are called as models are: 'MT5Tokenizer' reads what a model of type mt5 does.
_CLASSES = {
    f'{kind.replace("-", "")}tokenizer': row.vocabulary
    for kind, row in MODEL_TYPES.items()
    if row.vocabulary
} | {'mbarttokenizer': 'mbart25', 'mbart50tokenizer': 'mbart50', 'nllbtokenizer': 'nllb'}
_MBART25_ROWS, _MBART50_ROWS = 250_027, 250_054


def _of_bert(files: Files, of_class: str | None) -> str:
    """Finds the family of a BERT's vocabulary: XLM-R's in multilingual E5 (arXiv:2402.05672).

    Its class says so, or the token that opens a text where the class is one for any vocabulary.
    """
    opens = content(files.setting('cls_token') or files.setting('bos_token') or '')
    if of_class in ('roberta', 'xlm-roberta'):
        return of_class
    return 'xlm-roberta' if of_class is None and opens == '<s>' else 'bert'


def _of_mbart(of_class: str | None, rows: int | None) -> str:
    """Finds the family of an mBART's vocabulary: mBART-50's goes by both classes' names."""
    if of_class == 'mbart25':
        return 'mbart25' if (rows or 0) < _MBART50_ROWS else 'mbart50'
    return 'mbart25' if of_class is None and rows == _MBART25_ROWS else 'mbart50'


def family_of(files: Files) -> str:
    """Finds the family of a folder: by its model, its tokeniser's class, its files."""
    if files.tokenizer.xlbench_family in FAMILIES:
        return files.tokenizer.xlbench_family
    model = files.model
    if model.model_type == 'encoder-decoder' and model.encoder:
        model = model.encoder
    of_class = _CLASSES.get((files.setting('tokenizer_class') or '').removesuffix('Fast').lower())
    # BART's tokeniser is stored under RoBERTa's name: the model decides, and the class only where
    # there is no model or where two models share a type.
    of_model = MODEL_TYPES.get(model.model_type)
    family = (of_model and of_model.vocabulary) or of_class
    if family == 'bert':
        family = _of_bert(files, of_class)
    if family == 'm2m_100':  # NLLB is of the same type.
        return family if files.has(*FAMILIES[family].files) else 'nllb'
    if family in ('mbart25', 'mbart50'):
        return _of_mbart(of_class, model.vocab_size)
    if family:
        return family
    for family in ('marian', 'bert', 't5'):
        if files.has(*FAMILIES[family].files):
            return family
    return 'other'
