"""SentencePiece models: checked before a library opens them, and written as a tokenizer.json.

SentencePiece and `tokenizers` take the table of characters, the ids and the scores of a model on
trust, and leave their memory, or end the program, where these are damaged.

The tokenizer.json cuts texts into the ids of SentencePiece itself. transformers has no class for
that: those of T5, LLaMA and so on rewrite spaces, special tokens and unknown text each in their own
way, so that a model reads other ids than it was trained on. It follows google/sentencepiece:
normalizer.cc, unigram_model.cc, bpe_model.cc and sentencepiece_processor.cc.

Known differences: sums of scores are rounded to 64 bits in place of 32, so that of two ways to cut
a run of one character, which are equally likely, another may be taken; and where a model writes
bytes that are no UTF-8, the characters that their neighbours make are lost with them.
"""

import math
import pathlib
import re
from typing import TYPE_CHECKING

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from xlbench.huggingface import charsmap
from xlbench.system import untrusted
from xlbench.system.errors import UserError, printable

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from sentencepiece.sentencepiece_model_pb2 import ModelProto, NormalizerSpec

# sentencepiece_model.proto, SentencePiece.Type and TrainerSpec.ModelType.
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4
_UNIGRAM, _BPE = 1, 2
_SPACE = '▁'
_UNKNOWN = '\ufdd4\ufdd5'  # Stands for unknown text until leading spaces are gone; no text has it.
_PRIVATE = '\ufdd6', 0xF0000  # Begins what stands for a symbol while a text is rewritten.
_UNKNOWN_PENALTY = 10.0  # unigram_model.cc, kUnkPenalty.


def read(path: str | pathlib.Path) -> 'ModelProto':
    """The content of a model file; see `parse`."""
    return parse(path, untrusted.read_bytes(path))


def parse(path: str | pathlib.Path, data: bytes) -> 'ModelProto':
    """The content of a model, from the bytes of the file at `path`, which messages name.

    Raises:
      UserError: it is damaged.
    """
    from google.protobuf import message
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(data)
    except message.DecodeError as error:
        raise UserError(f'{path} is not a SentencePiece model') from error
    if not model.pieces:
        raise UserError(f'{path} is not a SentencePiece model')
    for piece in model.pieces:
        if not isinstance(piece.piece, str) or not math.isfinite(piece.score):  # str, if UTF-8.
            what = 'is not UTF-8' if not isinstance(piece.piece, str) else 'has no finite score'
            raise UserError(f'{path} is damaged: a piece {what}')
    for key, least in {'unk_id': 0, 'bos_id': -1, 'eos_id': -1, 'pad_id': -1}.items():
        number = getattr(model.trainer_spec, key)
        if not least <= number < len(model.pieces):
            raise UserError(
                f'{path} is damaged: its {key} is {number}, and it has {len(model.pieces)} pieces'
            )
    for rules in (model.normalizer_spec, model.denormalizer_spec):
        check_charsmap(path, rules.precompiled_charsmap)
    return model


def processor(path: str | pathlib.Path, data: bytes) -> 'SentencePieceProcessor':
    """SentencePiece's own object of a model; see `parse`."""
    import sentencepiece

    parse(path, data)
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=data)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise UserError(f'{path} is not a SentencePiece model') from error


def check_charsmap(path: str | pathlib.Path, table: bytes) -> None:
    """Raises UserError for a damaged table of characters that are rewritten, read from `path`."""
    try:
        charsmap.check(table)
    except ValueError as error:
        raise UserError(
            f'{path}: the table of characters that are rewritten is damaged: {error}; fetch the '
            'file again'
        ) from error


# ------------------------------------------------------------------------------ as a tokenizer.json


def fast_tokenizer(proto: 'ModelProto') -> tokenizers.Tokenizer | None:
    """The tokenizer of a model; None for a kind of model that the library does not have.

    Special tokens in a text are text to SentencePiece: set `encode_special_tokens`, which the file
    does not keep (tokenizer_config.json does, as split_special_tokens).

    Raises:
      UserError: the model is damaged.
    """
    try:
        return _fast_tokenizer(proto)
    except (ValueError, TypeError, OverflowError, LookupError) as error:
        reason = printable(error)
        raise UserError(
            f'the SentencePiece model is damaged, and no tokenizer.json can be made of it: {reason}'
        ) from error


def _fast_tokenizer(proto: 'ModelProto') -> tokenizers.Tokenizer | None:
    trainer, rules = proto.trainer_spec, proto.normalizer_spec
    if trainer.model_type not in (_UNIGRAM, _BPE) or trainer.treat_whitespace_as_suffix:
        return None
    if not rules.escape_whitespaces:
        return None
    if trainer.eos_id < 0:
        raise ValueError('it has no end-of-text piece')
    symbols = [piece.piece for piece in proto.pieces if piece.type == _USER_DEFINED]
    symbols.sort(key=len, reverse=True)
    kind = _unigram if trainer.model_type == _UNIGRAM else _bpe
    model, pre_tokenizer = kind(proto, symbols)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = _normalizer(rules, symbols)
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = _decoder(proto)
    controls = [piece.piece for piece in proto.pieces if piece.type == _CONTROL]
    tokenizer.add_special_tokens(
        [AddedToken(piece, special=True, normalized=False) for piece in controls]
    )
    end = proto.pieces[trainer.eos_id].piece
    tokenizer.post_processor = processors.TemplateProcessing(
        single=['$A', end],
        pair=['$A', end, '$B:1', f'{end}:1'],
        special_tokens=[(end, trainer.eos_id)],
    )
    return tokenizer


def _normalizer(rules: 'NormalizerSpec', symbols: list[str]) -> normalizers.Normalizer:
    rewriting = charsmap.steps(rules.precompiled_charsmap)
    rewrite = normalizers.Sequence(rewriting).normalize_str
    changed = [symbol for symbol in symbols if rewrite(symbol) != symbol]
    mark, first = _PRIVATE
    private = {symbol: mark + chr(first + i) for i, symbol in enumerate(changed)}
    steps: list[normalizers.Normalizer]
    steps = [normalizers.Replace(symbol, pair) for symbol, pair in private.items()]
    steps += rewriting
    steps += [normalizers.Replace(pair, symbol) for symbol, pair in private.items()]
    if rules.remove_extra_whitespaces:
        steps += [
            normalizers.Replace(Regex(' {2,}'), ' '),
            normalizers.Replace(Regex(r'\A '), ''),
            normalizers.Replace(Regex(rf'[ {_SPACE}]+\z'), ''),
        ]
    if rules.add_dummy_prefix:
        steps.append(normalizers.Prepend(_SPACE))
    return normalizers.Sequence([*steps, normalizers.Replace(' ', _SPACE)])


def _unigram(
    proto: 'ModelProto', symbols: list[str]
) -> tuple[models.Model, pre_tokenizers.PreTokenizer | None]:
    """The model, with scores that make it choose as SentencePiece does."""
    scores = [piece.score for piece in proto.pieces if piece.type == _NORMAL]
    special = [p.piece for p in proto.pieces if p.type not in (_NORMAL, _USER_DEFINED)]
    # Worse than spelling such a token, at which SentencePiece does not even look.
    never = (min(scores) - _UNKNOWN_PENALTY) * (1 + max(map(len, special), default=0))

    def score(piece: 'ModelProto.SentencePiece') -> float:
        if piece.type == _USER_DEFINED:
            return len(piece.piece.encode()) * max(scores) - 0.1
        return piece.score if piece.type == _NORMAL else never

    vocab = [(piece.piece, score(piece)) for piece in proto.pieces]
    model = models.Unigram(vocab, proto.trainer_spec.unk_id, proto.trainer_spec.byte_fallback)
    # An unknown character is worse still, so that a token with one has to be cut before: between
    # it and one that is known, which no piece and no run of unknown characters has in common.
    known = {piece.piece for piece in proto.pieces if piece.type == _NORMAL}
    places = [
        f'(?<={re.escape(token[:i])})(?={re.escape(token[i:])})'
        for token in special
        for i in range(1, len(token))
        if (token[i - 1] in known) != (token[i] in known)
    ]
    if not places:
        return model, None
    return model, pre_tokenizers.Split(Regex('|'.join(places)), 'isolated')


def _bpe(
    proto: 'ModelProto', symbols: list[str]
) -> tuple[models.Model, pre_tokenizers.PreTokenizer | None]:
    """The model with every pair that makes a piece, the best piece first."""
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    normal = {piece.piece: piece.score for piece in proto.pieces if piece.type == _NORMAL}
    merges = [
        (text[:i], text[i:])
        for text, _ in sorted(normal.items(), key=lambda item: -item[1])
        for i in range(1, len(text))
        if text[:i] in normal and text[i:] in normal
    ]
    trainer = proto.trainer_spec
    model = models.BPE(
        vocab,
        merges,
        unk_token=proto.pieces[trainer.unk_id].piece,
        fuse_unk=True,
        byte_fallback=trainer.byte_fallback,
        ignore_merges=bool(symbols),  # A symbol is cut out whole, and is a piece.
    )
    if not symbols:
        return model, None
    pattern = Regex('|'.join(map(re.escape, symbols)))
    return model, pre_tokenizers.Split(pattern, 'isolated')


def _bytes() -> list[decoders.Decoder]:
    """Turns <0x41> into A. ASCII is apart: one bad byte costs the library the whole run of them."""
    ascii_bytes = (decoders.Replace(f'<0x{i:02X}>', chr(i)) for i in range(128))
    return [*ascii_bytes, decoders.ByteFallback()]


def _decoder(proto: 'ModelProto') -> decoders.Decoder:
    trainer, rules = proto.trainer_spec, proto.normalizer_spec
    steps = [
        decoders.Replace(Regex(rf'\A{re.escape(proto.pieces[trainer.unk_id].piece)}\z'), _UNKNOWN),
        decoders.Replace(_SPACE, ' '),
        *(_bytes() if trainer.byte_fallback else []),
        decoders.Fuse(),
    ]
    if rules.remove_extra_whitespaces:
        steps.append(decoders.Strip(' ', 1 << 20, 0))
    elif rules.add_dummy_prefix:
        steps.append(decoders.Strip(' ', 1, 0))
    return decoders.Sequence([*steps, decoders.Replace(_UNKNOWN, trainer.unk_surface)])
