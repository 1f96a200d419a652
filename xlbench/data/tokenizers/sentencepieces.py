"""SentencePiece models: those of T5 and mT5, and new ones."""

import hashlib
import io
import re
from collections.abc import Iterable, Sequence

import numpy as np

from xlbench.data.tokenizers.tokenizer import Tokenizer, model_vocab_size, num_threads
from xlbench.data.vocabularies import Settings
from xlbench.huggingface import sentencepiece_models
from xlbench.system import errors, untrusted


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with T5's conventions, by SentencePiece itself.

    Special tokens in a text are text to it, and bytes spell what it does not know. A config.json
    beside the file may give the first decoder input and the rows of the embedding.
    """

    family = 't5'
    uses_cores = True

    def __init__(self, path: str, name: str, config: Settings | None = None):
        config = config or Settings()
        self.model_proto = untrusted.read_bytes(path)
        self._processor = processor = sentencepiece_models.processor(path, self.model_proto)
        self.num_pieces = processor.get_piece_size()
        if processor.eos_id() < 0:
            raise errors.UserError(f'{path} has no end-of-text piece (</s>); train it with eos_id')
        self.name = name
        # Without padding of its own, a model is given T5's convention, id 0.
        self.pad_id = max(processor.pad_id(), 0)
        self.eos_id = processor.eos_id()
        self.unk_id = processor.unk_id()
        self.decoder_start_id = config.decoder_start_token_id or self.pad_id
        self.vocab_size = model_vocab_size(config, self.num_pieces)
        self.sha256 = hashlib.sha256(self.model_proto).hexdigest()

    def encode_batch(self, texts: Sequence[str], target: bool = False) -> list[np.ndarray]:
        """Encodes texts as ids, each [length] int32, over all cores."""
        texts = list(texts)
        if not texts:
            return []
        return self._processor.encode(texts, return_type='numpy', num_threads=num_threads())

    def encode(self, text: str, target: bool = False) -> np.ndarray:
        """Encodes one text as ids, [length] int32; starts no threads."""
        return self._processor.encode(text, return_type='numpy')

    def _decode_clean(self, ids: list[list[int]]) -> list[str]:
        return self._processor.decode(ids, num_threads=num_threads()) if ids else []

    def pieces(self) -> list[str]:
        """See Tokenizer."""
        return self._processor.id_to_piece(list(range(self.num_pieces)))


class PairTokenizer(SentencePieceTokenizer):
    """The vocabulary of a translator in Marian's own form, which knows one pair of languages."""

    tags = 'own'

    def __init__(self, path: str, name: str, config: Settings | None = None):
        super().__init__(path, name, config)
        self.vocab_size = self.num_pieces  # Not T5's rows, of which some belong to no piece.


def with_symbols(model: bytes, symbols: Sequence[str]) -> bytes:
    """Adds words such as '<mask>' to the content of a `.model` file, one piece each, at its end.

    The ids of all other text stay as they are.
    """
    proto = sentencepiece_models.parse('the SentencePiece model', model)
    for symbol in symbols:
        proto.pieces.add(piece=symbol, score=0.0, type=proto.SentencePiece.USER_DEFINED)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def train_sentencepiece(
    lines: Iterable[str],
    *,
    size: int,  # Pieces at most; bytes spell what they cannot, in any script.
    symbols: Sequence[str] = (),  # Words that are one piece each, such as '<de>'.
    model_type: str = 'unigram',  # Or 'bpe'.
    # SentencePiece's rule. 'nmt_nfkc' makes full-width commas those of ASCII, and 'identity'
    # changes nothing, so that Chinese is written as people write it.
    normalization: str = 'nmt_nfkc',
) -> bytes:
    """Trains a `.model` file of SentencePiece with T5's special ids.

    The same lines in the same order give the same bytes.

    Raises:
      UserError: the size is below what the characters of the texts need; or there is no text.
    """
    import sentencepiece

    # Into memory: a model trained into a file also holds that file's name, other bytes each time.
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=model_type,
            normalization_rule_name=normalization,
            vocab_size=size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=1.0,
            user_defined_symbols=list(symbols),
            pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
            num_threads=1,
            shuffle_input_sentence=False,
            max_sentence_length=1 << 20,
            minloglevel=2,
        )  # fmt: skip
    except (RuntimeError, OSError) as error:
        # "Vocabulary size is smaller than required_chars. 10 vs 311."
        if least := re.search(r'required_chars\. \d+ vs (\d+)', str(error)):
            raise errors.UserError(
                f'a vocabulary of {size} pieces is too small for the characters of these texts; '
                f'{least[1]} is the smallest that works, for its bytes, characters and special '
                'pieces alone'
            ) from error
        if 'sentences_.empty()' in str(error) or 'all_chars_count' in str(error):
            raise errors.UserError('a vocabulary cannot be trained: no text has a word') from error
        reason = ' '.join(str(error).split())[:200]
        raise errors.UserError(f'SentencePiece trains no vocabulary of {size}: {reason}') from error
    return model.getvalue()
