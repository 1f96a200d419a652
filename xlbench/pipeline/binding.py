"""Where the data is, and the vocabulary, as they are when a dataset is built."""

import os
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from xlbench import errors
from xlbench.data import tokenizers

ANSWER_SEPARATOR = tokenizers.ANSWER_SEPARATOR
_bound: dict[str, Any] = {'root': None, 'tokenizer': None}


def data_root() -> str:
    """The data root: what `use_root` or `use_vocabulary` set, else XLBENCH_DATA, else data.

    It is absolute, so that a task file may join it to its paths or leave it out.
    """
    return _bound['root'] or os.path.abspath(os.environ.get('XLBENCH_DATA') or 'data')


root = data_root  # As task files call it.


def use_root(path: str | None) -> None:
    """Sets the data root of every task; None goes back to XLBENCH_DATA."""
    _bound['root'] = path and os.path.abspath(os.path.expanduser(path))


def use_vocabulary(spec: str, root: str | None = None) -> tokenizers.Tokenizer:
    """Chooses the vocabulary of every task, and the data root if one is given."""
    if root is not None:
        use_root(root)
    _bound['tokenizer'] = tokenizers.load(spec, data_root())
    return _bound['tokenizer']


def use_no_vocabulary(root: str | None = None) -> None:
    """Tasks give their texts as they are, without the tags of a vocabulary's model."""
    if root is not None:
        use_root(root)
    _bound['tokenizer'] = types.SimpleNamespace(tags='', name='none')


def tokenizer() -> tokenizers.Tokenizer:
    """The vocabulary in use."""
    if _bound['tokenizer'] is None:
        raise errors.UserError(
            "no vocabulary is chosen; call pipeline.use_vocabulary('sample', root) or name another"
        )
    return _bound['tokenizer']


class Vocabulary(seqio.Vocabulary):
    """SeqIO's view of whatever tokenizer is in use.

    Args:
      feature: the side it encodes, 'inputs' or 'targets'.
    """

    def __init__(self, feature: str):
        super().__init__()
        self._target = feature == 'targets'

    @property
    def bos_id(self) -> int | None:
        """Id of the token that opens a text; `add_prefix` writes it where the model reads it."""
        return tokenizer().bos_id

    @property
    def eos_id(self) -> int:
        """Id of the end."""
        return tokenizer().eos_id

    @property
    def pad_id(self) -> int:
        """Id of padding."""
        return tokenizer().pad_id

    @property
    def unk_id(self) -> int | None:
        """Id of unknown text."""
        unk_id = tokenizer().unk_id
        return None if unk_id < 0 else unk_id

    @property
    def _base_vocab_size(self) -> int:
        return tokenizer().vocab_size

    def _encode(self, s: str) -> list[int]:
        return tokenizer().encode(s, self._target).tolist()

    def _decode(self, ids: Sequence[int]) -> str:
        return tokenizer().decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        # Not TensorFlow Text's own operation: another release of SentencePiece breaks ties between
        # equally likely pieces in another way (l+ll or ll+l), and one text has one list of ids.
        chosen = tokenizer()

        def encode(text: bytes | np.ndarray) -> np.ndarray:
            data = text.item() if isinstance(text, np.ndarray) else text  # Eager: an array [].
            return chosen.encode(data.decode(), self._target)

        ids = tf.numpy_function(encode, [s], tf.int32)
        ids.set_shape([None])
        return ids

    def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
        chosen = tokenizer()

        def decode(ids: np.ndarray) -> np.ndarray:
            rows = ids.reshape(-1, ids.shape[-1])
            texts = [text.encode() for text in chosen.decode_batch(rows)]
            return np.array(texts, object).reshape(ids.shape[:-1])

        texts = tf.numpy_function(decode, [ids], tf.string)
        texts.set_shape(ids.shape[:-1])
        return texts

    def __str__(self) -> str:
        chosen = _bound['tokenizer']
        return f'Vocabulary({chosen.name if chosen else "none chosen yet"})'


VOCABULARIES = {feature: Vocabulary(feature) for feature in ('inputs', 'targets')}


def vocabulary(feature: str = 'inputs') -> Vocabulary:
    """The vocabulary object of a feature, which every task shares."""
    return VOCABULARIES[feature]


def text_features() -> dict[str, seqio.Feature]:
    """Output features of a text-to-text task: `inputs` and `targets`, each ending in eos."""
    return {
        name: seqio.Feature(vocabulary=vocabulary(name), add_eos=True) for name in VOCABULARIES
    }


def retrieval_features() -> dict[str, seqio.Feature]:
    """Output features of retrieval: `inputs` and `targets` are both inputs of an encoder."""
    return {
        name: seqio.Feature(vocabulary=vocabulary('inputs'), add_eos=True) for name in VOCABULARIES
    }
