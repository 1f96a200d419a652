"""SentencePiece model files, checked before a library opens them.

SentencePiece and `tokenizers` take the table of characters, the ids and the scores of a model on
trust, and leave their memory, or end the program, where these are damaged.
"""

import math
import pathlib
from typing import TYPE_CHECKING

from xlbench.huggingface import charsmap
from xlbench.system import errors, untrusted

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from sentencepiece.sentencepiece_model_pb2 import ModelProto


def read(path: str | pathlib.Path) -> 'ModelProto':
    """The content of a model file; see `parse`."""
    return parse(path, untrusted.read_bytes(path))


def parse(path: str | pathlib.Path, data: bytes) -> 'ModelProto':
    """The content of a model.

    Args:
      path: of its file, for messages.
      data: the bytes of that file.

    Raises:
      UserError: it is damaged.
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
        check_charsmap(path, rules.precompiled_charsmap)
    return model


def processor(path: str | pathlib.Path, data: bytes) -> 'SentencePieceProcessor':
    """SentencePiece's own object of a model; see `parse`."""
    import sentencepiece

    parse(path, data)
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=data)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise errors.UserError(f'{path} is not a SentencePiece model') from error


def check_charsmap(path: str | pathlib.Path, table: bytes) -> None:
    """Raises UserError for a damaged table of characters that are rewritten, read from `path`."""
    try:
        charsmap.check(table)
    except ValueError as error:
        raise errors.UserError(
            f'{path}: the table of characters that are rewritten is damaged: {error}; fetch the '
            'file again'
        ) from error
