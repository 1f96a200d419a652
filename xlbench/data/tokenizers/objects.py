"""The vocabulary files of a folder as an object of the `tokenizers` library.

transformers makes it from the ordinary files. It is given checked copies of them in a folder of its
own, and its class is chosen here: AutoTokenizer would import PyTorch where that is installed, and
lets the folder choose. The tokens that a folder adds (in added_tokens.json, tokenizer_config.json
and special_tokens_map.json) are added here, since its classes refuse some of the forms in which
older versions wrote them. A tokenizer.json is run by `tokenizers`, as it is written: AutoTokenizer
puts other steps in place of the file's, which gives other ids.

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
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers

from xlbench.data import vocabularies
from xlbench.data.vocabularies import FAMILIES, Files, Token
from xlbench.huggingface import sentencepiece_models
from xlbench.system import errors, files as files_lib, untrusted

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Setting = bool | int | str | list[str]
_T5_SENTINELS = 100  # arXiv:1910.10683, section 3.1.4: one a masked span.


def load(files: Files, family: str) -> tuple[tokenizers.Tokenizer, bytes]:
    """Makes the object of a folder, with added tokens; returns it and the bytes that define it."""
    chosen = FAMILIES[family]
    if files.has(files.file):
        data = untrusted.read_bytes(files.path(files.file))
        tokenizer = _from_json(files, family, data)
    elif chosen.tokenizer_class and files.has(*chosen.files):
        contents = {name: untrusted.read_bytes(files.path(name)) for name in chosen.files}
        data = b''.join(contents.values())
        tokenizer = _from_vocabulary(files, family, contents)
    else:
        needed = f'{", ".join(chosen.files)} of {family}' if chosen.files else 'spiece.model of T5'
        hint = '' if chosen.files else '; config.json beside the files would tell the family'
        raise errors.UserError(
            f'vocabulary folder {files.folder} has no {files.file} and no {needed}{hint}'
        )
    if FAMILIES[family].added:
        tokenizer.encode_special_tokens = True  # As text, where they stand in one.
    if files.has_of_bert('words', 'mrs', family):
        _split_as_mrs(tokenizer)
        data += b'mrs'  # Other ids.
    for number, token in files.numbered().items():
        behind = tokenizer.token_to_id(token.content)
        if behind != number:
            raise errors.UserError(
                f'{files.folder}: added token {token.content!r} has id {number} in its files, but '
                f'{behind} behind the vocabulary; the vocabulary file is of another model'
            )
    try:
        tokenizer.model.tokenize('\U0010ffff')  # Which no text has, and so no vocabulary.
    except Exception as error:
        reason = errors.printable(error)
        raise errors.UserError(f'{files.folder} has no piece for unknown text: {reason}') from error
    return tokenizer, data


@contextlib.contextmanager
def no_panic(path: str) -> Iterator[None]:
    """Turns panics of the `tokenizers` library in this block into UserErrors."""
    try:
        yield
    except BaseException as error:
        # It is no Exception, and the library gives its class no name to import.
        if type(error).__name__ != 'PanicException':
            raise
        raise errors.UserError(f'{path} is broken: {errors.printable(error)}') from error


def _from_vocabulary(
    files: Files, family: str, contents: Mapping[str, bytes]
) -> tokenizers.Tokenizer:
    """Makes the object of the family's class of transformers, with the folder's tokens."""
    chosen, settings = FAMILIES[family], _checked_settings(files, family, contents)
    made = of_transformers(chosen.tokenizer_class, files, contents, settings).backend_tokenizer
    tokenizer = tokenizers.Tokenizer(made.model)
    for part in ('normalizer', 'pre_tokenizer', 'decoder'):
        setattr(tokenizer, part, getattr(made, part))
    if isinstance(tokenizer.decoder, decoders.Metaspace):
        # A model that was pretrained on bytes may write them, though none are read.
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), tokenizer.decoder])
    named = set(chosen.named.values())
    added = sorted(made.get_added_tokens_decoder().items())
    _add_tokens(tokenizer, files, family, [t for _, t in added if t.content not in named])
    return tokenizer


def of_transformers(
    kind: str, files: Files, contents: Mapping[str, bytes], settings: Mapping[str, Setting]
) -> 'PreTrainedTokenizerBase':
    """Returns a tokeniser of transformers, of the class `kind`, with the tokens that this adds.

    `contents` has the checked bytes of the vocabulary files by name, `settings` the content of
    tokenizer_config.json; `files` are for messages.
    """
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, vocabularies.TOKENIZER_CONFIG).write_text(json.dumps(settings))
        for name, data in contents.items():
            pathlib.Path(folder, name).write_bytes(data)
        # That PyTorch is not there is as it should be.
        os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')
        import transformers

        level = transformers.logging.get_verbosity()
        transformers.logging.set_verbosity_error()
        try:
            with no_panic(files.folder):
                loader = getattr(transformers, kind)
                return loader.from_pretrained(folder, local_files_only=True)
        except errors.UserError:
            raise
        except Exception as error:
            reason = errors.printable(str(error).replace(folder, files.folder))
            raise errors.UserError(
                f'{files.folder}: {" and ".join(contents)} cannot be read as the vocabulary of a '
                f'{kind}: {reason}; fetch the files again'
            ) from error
        finally:
            transformers.logging.set_verbosity(level)


def _checked_settings(
    files: Files, family: str, contents: Mapping[str, bytes]
) -> dict[str, Setting]:
    """Returns the settings that the class is given, after SentencePiece models were checked."""
    chosen = FAMILIES[family]
    settings = {key: files.setting(key) for key in chosen.settings}
    for name, data in contents.items():
        if name.endswith('.model'):
            path = files.path(name)
            proto = sentencepiece_models.parse(path, data)
            spec, kind = proto.trainer_spec, 'BPE' if chosen.bpe else 'UNIGRAM'
            if spec.model_type != getattr(spec, kind):
                raise errors.UserError(
                    f'{path} is not a {kind.lower()} model, as those of this family are'
                )
            if proto.trainer_spec.unk_id != chosen.unk_id:
                raise errors.UserError(
                    f'{path} has unknown text as piece {proto.trainer_spec.unk_id}, where models '
                    f'of {family} have {chosen.unk_id}; name the file itself as the vocabulary'
                )
            if family == 't5':
                # mT5's file has its sentinels inside; config.json tells when there is no room.
                sentinels, rows = files.setting('extra_ids', _T5_SENTINELS), files.model.vocab_size
                has_room = rows is None or len(proto.pieces) + sentinels <= rows
                settings['extra_ids'] = sentinels if has_room else 0
    if settings.get('unk_token'):
        settings['unk_token'] = vocabularies.content(settings['unk_token'])
    return {key: value for key, value in settings.items() if value is not None}


def _from_json(files: Files, family: str, data: bytes) -> tokenizers.Tokenizer:
    path = files.path(files.file)
    for table in _charsmaps(path, data):
        sentencepiece_models.check_charsmap(path, table)
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
    _add_tokens(tokenizer, files, family, [])
    return tokenizer


class _Parts(msgspec.Struct):
    """The part of a tokenizer.json that is looked at before the library reads it."""

    normalizer: object = None


def _charsmaps(path: str, data: bytes) -> Iterator[bytes]:
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


def _add_tokens(
    tokenizer: tokenizers.Tokenizer, files: Files, family: str, own: list[tokenizers.AddedToken]
) -> None:
    """Adds, in transformers' order: tokens with an id of their own, special and further ones."""
    listed = files.tokenizer.listed()
    # transformers' class without a model of its own has the tokens that the files name, no more.
    generic = files.tokenizer.tokenizer_class in vocabularies.GENERIC_CLASSES
    named = {
        key: token
        for key, default in FAMILIES[family].named.items()
        if (token := files.setting(key, None if generic else default))
    }
    if family in ('mbart50', 'nllb') and isinstance(named.get('mask_token'), str):
        named['mask_token'] = Token(named['mask_token'], lstrip=True)
    special = {vocabularies.content(token) for token in (*named.values(), *listed)}
    added = [token for _, token in sorted(files.numbered().items())]
    if not files.tokenizer.added_tokens_decoder:
        flags = ((token.content, token.content in special) for token in added)
        added = [Token(word, special=is_one, normalized=not is_one) for word, is_one in flags]
    own_ends = [Token(word, special=True, normalized=False) for word in FAMILIES[family].added]
    tokens = {token.content: token for token in map(_added_token, added)}
    # `own` are those of the vocabulary file.
    rest = *named.values(), *(listed or own), *files.special.listed(), *own_ends
    for token in map(_added_token, rest):
        tokens.setdefault(token.content, token)
    tokenizer.add_tokens(list(tokens.values()))


def _added_token(token: vocabularies.AnyToken | tokenizers.AddedToken) -> tokenizers.AddedToken:
    """Returns a token as the library has it; it is special unless it says otherwise."""
    if isinstance(token, tokenizers.AddedToken):
        return token
    given = msgspec.to_builtins(token) if isinstance(token, Token) else {'content': str(token)}
    return tokenizers.AddedToken(**{'special': True, **given})


def _split_as_mrs(tokenizer: tokenizers.Tokenizer) -> None:
    """Lets a WordPiece tokeniser split words as microsoft/MRS does, the cased model's way.

    Example: 'Zug 1234, ここ。' -> Zug 0 , ここ 。
    """
    # No control characters but those that join the parts of an emoji.
    controls = r'(?![\x{200d}\x{fe0f}])\p{C}|\x{fffd}'
    replaced = {r'[\t\n\r]': ' ', controls: '', r'\p{Nd}+': '0'}.items()
    steps = [normalizers.Replace(tokenizers.Regex(pattern), text) for pattern, text in replaced]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation('isolated')]
    )
    tokenizer.model.max_input_chars_per_word = 200
