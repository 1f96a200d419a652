"""The ordinary vocabulary files of the public models, as objects of the `tokenizers` library.

  T5, mT5        spiece.model
  PEGASUS        spiece.model, behind 103 ids for pretraining (arXiv:1912.08777)
  mBART-50       sentencepiece.bpe.model in fairseq's ids, then 52 languages (arXiv:2008.00401)
  XLM-R          sentencepiece.bpe.model in fairseq's ids
  BERT, mBERT    vocab.txt; tokenizer_config.json says do_lower_case
  BART, RoBERTa  vocab.json, merges.txt
  Marian         source.spm, target.spm, vocab.json: see tokenizers.MarianTokenizer

A tokenizer.json beside them goes first, as in transformers. Ids are those of transformers' fast
tokenisers, which are the same objects: not of SentencePiece itself, which merges spaces, breaks
ties and spells unknown text in other ways. Words of its own that a checkpoint adds are read from
added_tokens.json, tokenizer_config.json and special_tokens_map.json.

One difference is meant: PEGASUS has <mask_1> as 2 and <mask_2> as 3, as it was trained.
transformers 5.23 swaps them when the files name mask tokens, or leaves one out, so that every
piece gets another id.

"words": "mrs" in tokenizer_config.json of BERT splits words as microsoft/MRS does, whose encoders
have seen nothing else: every run of digits is 0, and no spaces come around Chinese and Japanese
characters, so that such a text is one long word, or [UNK].

Added and special tokens are also found in running text, as in transformers: `</s>` in a sentence
is the end token. Nothing here takes an id for a boundary: padding and ends of examples are told
by lengths.
"""

import base64
import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from xlbench import errors, files as files_lib, foreign, limits
from xlbench.huggingface import charsmap

TOKENIZER_FILE = 'tokenizer.json'
MODEL_CONFIG, TOKENIZER_CONFIG = 'config.json', 'tokenizer_config.json'
SPECIAL_TOKENS, ADDED_TOKENS = 'special_tokens_map.json', 'added_tokens.json'
CONFIG_FILES = (TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS, MODEL_CONFIG)

# fairseq's order (arXiv:2001.08210 and arXiv:2008.00401): the 25 of mBART-cc25, then 27 more.
MBART50_CODES = (
    'ar_AR', 'cs_CZ', 'de_DE', 'en_XX', 'es_XX', 'et_EE', 'fi_FI', 'fr_XX', 'gu_IN', 'hi_IN',
    'it_IT', 'ja_XX', 'kk_KZ', 'ko_KR', 'lt_LT', 'lv_LV', 'my_MM', 'ne_NP', 'nl_XX', 'ro_RO',
    'ru_RU', 'si_LK', 'tr_TR', 'vi_VN', 'zh_CN', 'af_ZA', 'az_AZ', 'bn_IN', 'fa_IR', 'he_IL',
    'hr_HR', 'id_ID', 'ka_GE', 'km_KH', 'mk_MK', 'ml_IN', 'mn_MN', 'mr_IN', 'pl_PL', 'ps_AF',
    'pt_XX', 'sv_SE', 'sw_KE', 'ta_IN', 'te_IN', 'th_TH', 'tl_XX', 'uk_UA', 'ur_PK', 'xh_ZA',
    'gl_ES', 'sl_SI',
)  # fmt: skip
PEGASUS_OFFSET = 103  # google-research/pegasus, pegasus/ops/pretrain_parsing_ops.cc.
T5_SENTINELS = 100  # arXiv:1910.10683, section 3.1.4: one a masked span.

Token = tokenizers.AddedToken
Built = tuple[tokenizers.Tokenizer, list[Token]]


class _Token(msgspec.Struct):
    """An added token as JSON files hold it, where it is no plain text."""

    content: str
    lstrip: bool | None = None
    rstrip: bool | None = None
    normalized: bool | None = None
    single_word: bool | None = None
    special: bool | None = None


_AnyToken = str | _Token | None
_Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 28)]


class _Encoder(msgspec.Struct):
    model_type: str | None = None
    vocab_size: _Id | None = None


class _Declared(msgspec.Struct):
    """The types of the keys that are read of a folder's JSON files; others may hold anything."""

    bos_token: _AnyToken = None
    eos_token: _AnyToken = None
    unk_token: _AnyToken = None
    sep_token: _AnyToken = None
    pad_token: _AnyToken = None
    cls_token: _AnyToken = None
    mask_token: _AnyToken = None
    additional_special_tokens: list[_AnyToken] | None = None
    extra_special_tokens: list[_AnyToken] | dict[str, _AnyToken] | None = None
    added_tokens_decoder: dict[_Id, _Token] | None = None
    extra_ids: Annotated[int, msgspec.Meta(ge=0, le=1 << 16)] | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    add_prefix_space: bool | None = None
    split_special_tokens: bool | None = None
    separate_vocabs: bool | None = None
    tokenizer_class: str | None = None
    words: str | None = None
    # Of config.json.
    model_type: str | None = None
    vocab_size: _Id | None = None
    decoder_start_token_id: _Id | None = None
    encoder: _Encoder | None = None


@dataclasses.dataclass(frozen=True)
class Files:
    """A folder of vocabulary files; the content of its JSON files, empty for those not there.

    `file` is the name of the tokenizer.json.
    """

    folder: str
    model: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    special: Mapping[str, Any]
    added: Mapping[str, int]
    file: str = TOKENIZER_FILE

    @classmethod
    def read(cls, folder: str) -> 'Files':
        """Reads the JSON files; UserError if one is broken, or a value is of another type."""
        names = (MODEL_CONFIG, TOKENIZER_CONFIG, SPECIAL_TOKENS, ADDED_TOKENS)
        for name in names:
            if path := foreign.file(folder, name):
                kind = dict[str, _Id] if name == ADDED_TOKENS else _Declared
                files_lib.read_json(path, kind)
        return cls(folder, *(read_json(folder, name) for name in names))

    def path(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.folder, name)

    def has(self, *names: str) -> bool:
        """Whether all these files are there."""
        return all(foreign.file(self.folder, name) for name in names)

    def setting(self, key: str, default: Any = None) -> Any:
        """From the tokeniser's own files, else the model's; null is as good as not there."""
        for content in (self.tokenizer, self.special, self.model):
            if content.get(key) is not None:
                return content[key]
        return default


def read_json(folder: str, name: str) -> dict[str, Any]:
    """A JSON object in a folder; empty if there is no such file."""
    path = foreign.file(folder, name)
    return files_lib.read_json(path, dict[str, Any]) if path else {}


def read_sentencepiece(path: str) -> Any:
    """The protocol buffer of a SentencePiece model; see `parse_sentencepiece`."""
    return parse_sentencepiece(path, read_bytes(path))


def parse_sentencepiece(path: str, data: bytes) -> Any:
    """The protocol buffer of a SentencePiece model, with what libraries take on trust checked.

    Args:
        path: Of the file, for messages.
        data: Its content.

    Raises:
        UserError: It is damaged.
    """
    from google.protobuf import message
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(data)
    except message.DecodeError as error:
        raise errors.UserError(f'{path} is not a SentencePiece model') from error
    if not model.pieces:
        raise errors.UserError(f'{path} is not a SentencePiece model')
    for piece in model.pieces:
        if not isinstance(piece.piece, str) or not math.isfinite(piece.score):  # str, if UTF-8.
            what = 'is not UTF-8' if not isinstance(piece.piece, str) else 'has no finite score'
            raise errors.UserError(f'{path} is damaged: a piece {what}')
    for key, least in {'unk_id': 0, 'bos_id': -1, 'eos_id': -1, 'pad_id': -1}.items():
        number = getattr(model.trainer_spec, key)
        if not least <= number < len(model.pieces):
            raise errors.UserError(
                f'{path} is damaged: its {key} is {number}, and it has {len(model.pieces)} pieces'
            )
    for rules in (model.normalizer_spec, model.denormalizer_spec):
        _check_charsmap(path, rules.precompiled_charsmap)
    return model


def _check_charsmap(path: str, table: bytes) -> None:
    try:
        charsmap.check(table)
    except ValueError as error:
        raise errors.UserError(
            f'{path}: the table of characters that are rewritten is damaged: {error}; fetch the '
            'file again'
        ) from error


@contextlib.contextmanager
def no_panic(path: str) -> Iterator[None]:
    """Whatever the `tokenizers` library panics about in this block is a UserError."""
    try:
        yield
    except BaseException as error:
        # It is no Exception, and the library gives its class no name to import.
        if type(error).__name__ != 'PanicException':
            raise
        raise errors.UserError(f'{path} is broken: {errors.printable(error)}') from error


# ---------------------------------------------------------------------------------------------
# SentencePiece models.


def _unigram(
    path: str,
    proto: Any,
    pieces: list[tuple[str, float]],
    unk_id: int,
    *,
    split_spaces: bool,
    line_ends: bool = False,
) -> tokenizers.Tokenizer:
    """The object of a unigram model.

    Args:
      path: of the model file, for messages.
      proto: its content, which has the table of characters that are rewritten.
      pieces: with their log-probabilities, in the order of the ids.
      unk_id: of unknown text; a run of it is one id.
      split_spaces: whether text is cut at white space of any kind, which then leaves no trace; else
        at U+0020 alone, of which several count as one.
      line_ends: whether these are spaces even in a model that rewrites nothing.
    """
    if proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM:
        raise errors.UserError(f'{path} is no unigram model, as those of this family are')
    try:
        tokenizer = tokenizers.Tokenizer(models.Unigram(pieces, unk_id, byte_fallback=False))
    except Exception as error:  # The library raises a bare Exception.
        raise errors.UserError(f'{path} cannot be read: {errors.printable(error)}') from error
    table = proto.normalizer_spec.precompiled_charsmap
    steps = [normalizers.Precompiled(table)] if table else []
    metaspace = pre_tokenizers.Metaspace('▁', 'always', split=True)
    if split_spaces:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), metaspace]
        )
    else:
        steps = steps or [normalizers.Replace('\n', ' ')] * line_ends
        steps.append(normalizers.Replace(tokenizers.Regex(' {2,}'), ' '))
        tokenizer.pre_tokenizer = metaspace
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    # A model that was pretrained on bytes may write them, though none are read.
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace('▁', 'always', split=True)]
    )
    return tokenizer


def _scored(proto: Any, first: int = 0) -> list[tuple[str, float]]:
    return [(piece.piece, piece.score) for piece in proto.pieces[first:]]


def _own_tokens(proto: Any) -> list[Token]:
    """Pieces that are found in text whatever stands around them."""
    control, user_defined = 3, 4  # sentencepiece_model.proto, SentencePiece.Type.
    return [
        Token(piece.piece, normalized=False, special=piece.type == control)
        for piece in proto.pieces
        if piece.type in (control, user_defined)
    ]


def _t5(files: Files) -> Built:
    path = files.path('spiece.model')
    proto = read_sentencepiece(path)
    pieces = _scored(proto)
    count = files.setting('extra_ids', T5_SENTINELS)
    # mT5's file has its sentinels inside; config.json tells when there is no room for others.
    if len(pieces) + count > files.model.get('vocab_size', len(pieces) + count):
        count = 0
    sentinels = [f'<extra_id_{i}>' for i in reversed(range(count))]
    pieces += [(token, 0.0) for token in sentinels]
    own = [*_own_tokens(proto), *(Token(token, special=True) for token in sentinels)]
    unk_id = proto.trainer_spec.unk_id
    return _unigram(path, proto, pieces, unk_id, split_spaces=True), own


def _pegasus(files: Files) -> Built:
    path = files.path('spiece.model')
    proto = read_sentencepiece(path)
    first = ['<pad>', '</s>', '<mask_1>', '<mask_2>']
    own = ['<mask_1>', *(f'<unk_{i}>' for i in range(2, PEGASUS_OFFSET))]
    pieces = [(token, 0.0) for token in first] + [(token, -100.0) for token in own[1:]]
    pieces += _scored(proto, 2)
    unk_id = proto.trainer_spec.unk_id + PEGASUS_OFFSET
    tokenizer = _unigram(path, proto, pieces, unk_id, split_spaces=False, line_ends=True)
    return tokenizer, [Token(token, special=True) for token in own]


def _fairseq(files: Files, codes: tuple[str, ...], split_spaces: bool) -> Built:
    """fairseq puts <s> <pad> </s> <unk> before the model's pieces from the fourth, <mask> last."""
    path = files.path('sentencepiece.bpe.model')
    proto = read_sentencepiece(path)
    pieces = [(token, 0.0) for token in ('<s>', '<pad>', '</s>', '<unk>')]
    pieces += _scored(proto, 3) + [(token, 0.0) for token in (*codes, '<mask>')]
    tokenizer = _unigram(path, proto, pieces, 3, split_spaces=split_spaces)
    own = [*_own_tokens(proto)] if not codes else []
    return tokenizer, own + [Token(code, special=True) for code in codes]


# ---------------------------------------------------------------------------------------------
# WordPiece and byte-level BPE.


def _bert(files: Files) -> Built:
    path = files.path('vocab.txt')
    unk = content(files.setting('unk_token', '[UNK]'))
    try:
        vocab = models.WordPiece.read_file(path)
        tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unk))
    except Exception as error:
        reason = errors.printable(error)
        raise errors.UserError(f'{path} is not a WordPiece vocabulary: {reason}') from error
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=files.setting('tokenize_chinese_chars', True),
        strip_accents=files.setting('strip_accents'),
        lowercase=files.setting('do_lower_case', True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix='##')
    return tokenizer, []


def _split_as_mrs(tokenizer: tokenizers.Tokenizer) -> None:
    """Lets a WordPiece tokeniser split words as microsoft/MRS does, the cased model's way.

    Example: 'Zug 1234, ここ。' -> Zug 0 , ここ 。
    """
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(tokenizers.Regex(pattern), text)
            for pattern, text in (
                (r'[\t\n\r]', ' '),
                # No control characters but those that join the parts of an emoji.
                (r'(?![\x{200d}\x{fe0f}])\p{C}|\x{fffd}', ''),
                (r'\p{Nd}+', '0'),
            )
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation('isolated')]
    )
    tokenizer.model.max_input_chars_per_word = 200


def _byte_bpe(files: Files) -> Built:
    paths = files.path('vocab.json'), files.path('merges.txt')
    try:
        vocab, merges = models.BPE.read_file(*paths)
        tokenizer = tokenizers.Tokenizer(models.BPE(vocab, merges))
    except Exception as error:
        reason = errors.printable(error)
        raise errors.UserError(f'{paths[0]} and merges.txt are no BPE model: {reason}') from error
    space = files.setting('add_prefix_space', False)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, []


# ---------------------------------------------------------------------------------------------
# The families.


@dataclasses.dataclass(frozen=True)
class Family:
    """What a family of models has in common.

    Attributes:
      files: what it is built from, without a tokenizer.json.
      build: files -> the object without added tokens, and the tokens that its files add.
      named: special tokens, by their keys in tokenizer_config.json.
      source, target: what stands before the ids of inputs and of targets: 'bos', 'source_lang',
        'target_lang'.
      start: the special token that decoding starts with, unless config.json names another.
      needs_languages: whether an example without a language is an error.
    """

    files: tuple[str, ...] = ()
    build: Callable[[Files], Built] | None = None
    named: Mapping[str, str] = dataclasses.field(default_factory=dict)
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    start: str = 'pad'
    needs_languages: bool = False


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
_BPE = ('vocab.json', 'merges.txt')
_XLMR = ('sentencepiece.bpe.model',)

FAMILIES = {
    't5': Family(('spiece.model',), _t5, _T5),
    'pegasus': Family(('spiece.model',), _pegasus, _T5 | dict(mask_token='<mask_2>')),
    'mbart50': Family(
        _XLMR,
        functools.partial(_fairseq, codes=MBART50_CODES, split_spaces=False),
        _FAIRSEQ,
        source=('source_lang',),
        target=('target_lang',),
        start='eos',
        needs_languages=True,
    ),
    'xlm-roberta': Family(
        _XLMR,
        functools.partial(_fairseq, codes=(), split_spaces=True),
        _FAIRSEQ,
        source=('bos',),
        start='bos',
    ),
    'bert': Family(
        ('vocab.txt',),
        _bert,
        _BERT,
        source=('bos', 'target_lang'),
        target=('target_lang',),
        start='bos',
    ),
    'bart': Family(_BPE, _byte_bpe, _FAIRSEQ, source=('bos',), target=('bos',), start='eos'),
    'roberta': Family(_BPE, _byte_bpe, _FAIRSEQ, source=('bos',), start='bos'),
    'marian': Family(
        ('source.spm', 'target.spm', 'vocab.json'),
        named=_T5,
        source=('target_lang',),
        needs_languages=True,
    ),
    'other': Family(),  # A tokenizer.json of no known family: no prefixes.
}
# In tokenizer_config.json of folders that xlbench.convert writes: the key of FAMILIES.
FAMILY = 'xlbench_family'
GENERIC_CLASSES = ('PreTrainedTokenizerFast', 'TokenizersBackend')
_CLASSES = {
    'T5Tokenizer': 't5',
    'MT5Tokenizer': 't5',
    'PegasusTokenizer': 'pegasus',
    'MBart50Tokenizer': 'mbart50',
    'MBartTokenizer': 'mbart-cc25',
    'XLMRobertaTokenizer': 'xlm-roberta',
    'BertTokenizer': 'bert',
    'BartTokenizer': 'bart',
    'RobertaTokenizer': 'roberta',
    'MarianTokenizer': 'marian',
}
_MODEL_TYPES = {
    't5': 't5',
    'mt5': 't5',
    'umt5': 't5',
    'pegasus': 'pegasus',
    'mbart': 'mbart50',
    'xlm-roberta': 'xlm-roberta',
    'bert': 'bert',
    'bart': 'bart',
    'roberta': 'roberta',
    'marian': 'marian',
}


def family_of(files: Files) -> str:
    """The family of a folder: by its model, its tokeniser's class, the files that only one has."""
    if (family := files.tokenizer.get(FAMILY)) in FAMILIES:
        return family
    model_type = files.model.get('model_type')
    if model_type == 'encoder-decoder':
        model_type = (files.model.get('encoder') or {}).get('model_type')
    name = str(files.setting('tokenizer_class', '')).removesuffix('Fast')
    # BART's tokeniser is stored under RoBERTa's name, and mBART-50's under two names: the model
    # decides, and the class only where there is no model or where two models share a type.
    if _CLASSES.get(name) == 'mbart-cc25' and not _is_mbart50(files):
        raise errors.UserError(
            f'{files.folder} is of mBART-cc25, whose language stands behind the text; use mBART-50'
        )
    family = _MODEL_TYPES.get(model_type) or _CLASSES.get(name)
    if family:
        return 'mbart50' if family == 'mbart-cc25' else family
    for family in ('marian', 'bert', 't5'):
        if files.has(*FAMILIES[family].files):
            return family
    return 'other'


def _is_mbart50(files: Files) -> bool:
    return (files.model.get('vocab_size') or 0) >= 250_054  # mBART-cc25 has 250,027.


def load(files: Files, family: str) -> tuple[tokenizers.Tokenizer, bytes]:
    """The object of a folder, with every added token, and the bytes that it was made from."""
    chosen = FAMILIES[family]
    if files.has(files.file):
        path = files.path(files.file)
        data = read_bytes(path)
        for table in _charsmaps(path, data):
            _check_charsmap(path, table)
        try:
            with no_panic(path):
                tokenizer = tokenizers.Tokenizer.from_str(data.decode())
        except Exception as error:
            reason = errors.printable(error)
            raise errors.UserError(f'{path} is not a tokenizer.json: {reason}') from error
        # The file may ask for both; examples are prepared whole.
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = files.setting('split_special_tokens') is True
        own = []
    elif chosen.build and files.has(*chosen.files):
        data = b''.join(read_bytes(files.path(name)) for name in chosen.files)
        tokenizer, own = chosen.build(files)
    else:
        needed = f'{", ".join(chosen.files)} of {family}' if chosen.files else 'spiece.model of T5'
        hint = '' if chosen.files else '; config.json beside the files would tell the family'
        raise errors.UserError(
            f'vocabulary folder {files.folder} has no {TOKENIZER_FILE} and no {needed}{hint}'
        )
    if words := files.setting('words'):
        if family != 'bert' or words != 'mrs':
            raise errors.UserError(
                f'{files.path(TOKENIZER_CONFIG)} has words {words!r} for a {family} vocabulary; '
                "take it out, or for BERT write 'mrs'"
            )
        _split_as_mrs(tokenizer)
        data += b'mrs'  # Other ids.
    _add_tokens(tokenizer, files, family, own)
    try:
        tokenizer.model.tokenize('\U0010ffff')  # Which no text has, and so no vocabulary.
    except Exception as error:
        reason = errors.printable(error)
        raise errors.UserError(f'{files.folder} has no piece for unknown text: {reason}') from error
    return tokenizer, data


def _charsmaps(path: str, data: bytes) -> Iterator[bytes]:
    """The tables of characters in a tokenizer.json."""
    rest = [files_lib.parse_json(data, _Parts, path).normalizer]
    while rest:
        step = rest.pop()
        if isinstance(step, dict):
            table = step.get('precompiled_charsmap')
            if isinstance(table, str):
                try:
                    yield base64.b64decode(table, validate=True)
                except ValueError as error:
                    raise errors.UserError(f'{path}: precompiled_charsmap is no base64') from error
            rest += step.values()
        elif isinstance(step, list):
            rest += step


class _Parts(msgspec.Struct):
    """What is looked at of a tokenizer.json before the library reads it."""

    normalizer: Any = None


def read_bytes(path: str) -> bytes:
    """The content of a file of a vocabulary; UserError for one that is too large."""
    return limits.read_bytes(path)


def content(token: Any) -> str:
    """The text of a token as JSON files hold it, with or without flags."""
    return token['content'] if isinstance(token, dict) else str(token)


def _token(token: Any, **flags: bool) -> Token:
    """An added token as JSON files hold it: text, or an object with its flags."""
    if isinstance(token, dict):
        flags = {key: value for key, value in token.items() if isinstance(value, bool)}
        flags |= {'special': token.get('special', True)}
    return Token(content(token), **({'special': True} | flags))


def _add_tokens(
    tokenizer: tokenizers.Tokenizer, files: Files, family: str, own: list[Token]
) -> None:
    """Adds, in transformers' order: what has an id of its own, special tokens, further ones.

    Args:
      tokenizer: changed in place.
      files: they say which.
      family: its special tokens are the default.
      own: tokens of the vocabulary file, unless the configuration lists further ones.
    """
    keys = ('extra_special_tokens', 'additional_special_tokens')
    listed, mapped = (
        next((group[key] for key in keys if group.get(key)), [])
        for group in (files.tokenizer, files.special)
    )
    listed = list(listed.values()) if isinstance(listed, dict) else listed
    # transformers' class without a model of its own has the tokens that the files name, no more.
    generic = files.tokenizer.get('tokenizer_class') in GENERIC_CLASSES
    named = {
        key: token
        for key, default in FAMILIES[family].named.items()
        if (token := files.setting(key, None if generic else default))
    }
    if family == 'mbart50' and isinstance(named.get('mask_token'), str):
        named['mask_token'] = {'content': named['mask_token'], 'lstrip': True}
    numbered = {
        int(number): _token(token)
        for number, token in (files.tokenizer.get('added_tokens_decoder') or {}).items()
    }
    special = {content(token) for token in (*named.values(), *listed)}
    for text, number in files.added.items() if not numbered else ():
        is_special = text in special
        numbered[number] = Token(text, special=is_special, normalized=not is_special)
    tokens = {token.content: token for _, token in sorted(numbered.items())}
    for token in (*named.values(), *(listed or own), *mapped):
        token = token if isinstance(token, Token) else _token(token)
        tokens.setdefault(token.content, token)
    tokenizer.add_tokens(list(tokens.values()))
    for number, token in numbered.items():
        found = tokenizer.token_to_id(token.content)
        if found != number:
            raise errors.UserError(
                f'{files.folder}: added token {token.content!r} has id {number} in its files, but '
                f'{found} behind the vocabulary; the vocabulary file is of another model'
            )
