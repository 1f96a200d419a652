"""Settings that a dataset is built with: data root, vocabulary, treatment of bad records.

SeqIO finds a task by its name alone, as in `seqio.get_dataset('mtg_qg_en_de', ...)`, and passes it
no settings. They are in context variables instead:

  with bound('mt5', root='/data'):   in this block, of this thread
  use_vocabulary('mt5', '/data')     from now on, for a notebook or a script

A dataset keeps the settings that it was built with, whichever thread reads it.
"""

import contextlib
import contextvars
import dataclasses
import os
import types
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xlbench.data import readers, tokenizers
from xlbench.pipeline import late
from xlbench.system import errors, work

if TYPE_CHECKING:
    import tensorflow as tf

ANSWER_SEPARATOR = tokenizers.ANSWER_SEPARATOR
SIDES = ('inputs', 'targets')
Item = TypeVar('Item')


# Stands for a vocabulary if texts stay texts, without the tags of any model.
_NO_TOKENIZER: Any = types.SimpleNamespace(name='none', tags='')


_root = contextvars.ContextVar[str | None]('root', default=None)  # Absolute.
_tokenizer = contextvars.ContextVar[tokenizers.Tokenizer | None]('tokenizer', default=None)
_policy = contextvars.ContextVar[readers.BadRecords | None]('policy', default=None)


def root() -> str:
    """Returns the data root, absolute: that of the binding, else XLBENCH_DATA, else data."""
    return _root.get() or os.path.abspath(os.environ.get('XLBENCH_DATA') or 'data')


data_root = root  # Where `root` is an argument.


def use_root(path: str | None) -> None:
    """Sets the data root; None goes back to XLBENCH_DATA."""
    _root.set(path and os.path.abspath(os.path.expanduser(path)))


def use_vocabulary(spec: str, root: str | None = None) -> tokenizers.Tokenizer:
    """Chooses the vocabulary, and the data root if one is given."""
    if root is not None:
        use_root(root)
    chosen = tokenizers.load(spec, data_root())
    _tokenizer.set(chosen)
    return chosen


@contextlib.contextmanager
def bound(vocabulary: str | None, root: str) -> Iterator[None]:
    """Binds a vocabulary and a data root in a block; without a vocabulary texts stay texts."""
    chosen = tokenizers.load(vocabulary, root) if vocabulary else _NO_TOKENIZER
    with work.setting(_root, _root.get()), work.setting(_tokenizer, chosen):
        use_root(root)  # What is bound in the block ends with it.
        yield


def bad_records(policy: readers.BadRecords) -> contextlib.AbstractContextManager[None]:
    """Sets the treatment of bad records for datasets that are built in this block."""
    return work.setting(_policy, policy)


def policy() -> readers.BadRecords:
    """Returns the treatment of bad records; by default the first one stops the reading."""
    return _policy.get() or readers.BadRecords()


def with_binding(generate: Callable[[], Iterator[Item]]) -> Callable[[], Iterator[Item]]:
    """Returns a generator function that keeps the present binding in any thread."""
    here = contextvars.copy_context()

    def generator() -> Iterator[Item]:
        end: Any = object()
        items, context = generate(), here.copy()  # No two threads are in one context.
        while (item := context.run(next, items, end)) is not end:
            yield item

    return generator


def tokenizer() -> tokenizers.Tokenizer:
    """Returns the vocabulary in use."""
    chosen = _tokenizer.get()  # Not `:=`, which AutoGraph cannot read and warns of.
    if chosen is None:
        raise errors.UserError(
            "no vocabulary is chosen; call pipeline.use_vocabulary('sample', root) or name another"
        )
    return chosen


def plain_text(text: bytes | np.ndarray) -> str:
    """Decodes a text that TensorFlow gives to a function of numpy."""
    return (text.item() if isinstance(text, np.ndarray) else text).decode()  # Eager: an array [].


def ids_by(function: Callable[..., np.ndarray], tensor: 'tf.Tensor') -> 'tf.Tensor':
    """Applies a function of numpy that returns ids, [length] int32."""
    tf = late.tensorflow()
    ids = tf.numpy_function(function, [tensor], tf.int32)
    ids.set_shape([None])
    return ids


@dataclasses.dataclass(frozen=True, repr=False)  # To show labels would read files.
class PlainVocabulary:
    """A vocabulary in SeqIO's sense that leaves ids as they are, without importing SeqIO."""

    vocab_size: int  # The number of ids.
    extra_ids = pad_id = 0
    bos_id = eos_id = unk_id = None

    def encode(self, s: Sequence[int]) -> Sequence[int]:
        """Returns the ids."""
        return s

    decode = encode_tf = decode_tf = encode


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """SeqIO's view of the tokenizer in use, for inputs or for targets."""

    is_target: bool
    extra_ids = 0

    # Of a task whose targets have this vocabulary.
    view = property(lambda self: 'generation' if self.is_target else 'retrieval')
    # Those of the tokenizer in use; `Tokenize` writes bos if the model reads it.
    bos_id = property(lambda self: tokenizer().bos_id)
    eos_id = property(lambda self: tokenizer().eos_id)
    pad_id = property(lambda self: tokenizer().pad_id)
    vocab_size = property(lambda self: tokenizer().vocab_size)

    @property
    def unk_id(self) -> int | None:
        """The id of unknown text."""
        unk_id = tokenizer().unk_id
        return None if unk_id < 0 else unk_id

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without eos."""
        return tokenizer().encode(s, self.is_target).tolist()

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first eos."""
        return tokenizer().decode(ids)

    def encode_tf(self, s: 'tf.Tensor') -> 'tf.Tensor':
        """Encodes a text of TensorFlow: [length] int32."""
        # Not by TensorFlow Text's own operation: another release of SentencePiece breaks ties
        # between equally likely pieces in another way (l+ll or ll+l).
        chosen = tokenizer()

        def encode(text: bytes | np.ndarray) -> np.ndarray:
            return chosen.encode(plain_text(text), self.is_target)

        return ids_by(encode, s)

    def decode_tf(self, ids: 'tf.Tensor') -> 'tf.Tensor':
        """Decodes ids [..., length] of TensorFlow."""
        tf, chosen = late.tensorflow(), tokenizer()

        def decode(ids: np.ndarray) -> np.ndarray:
            texts = chosen.decode_batch(ids.reshape(-1, ids.shape[-1]))
            return np.array([text.encode() for text in texts], object).reshape(ids.shape[:-1])

        texts = tf.numpy_function(decode, [ids], tf.string)
        texts.set_shape(ids.shape[:-1])
        return texts

    def __str__(self) -> str:
        chosen = _tokenizer.get()
        return f'Vocabulary({chosen.name if chosen else "none chosen yet"})'


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature of an example, a sequence of ids, with the attributes of a seqio.Feature."""

    vocabulary: PlainVocabulary | Vocabulary
    add_eos: bool = True
    required = True
    rank = 1

    @property
    def dtype(self) -> 'tf.DType':
        """TensorFlow's type of an id."""
        return late.tensorflow().int32


_VOCABULARIES = {side: Vocabulary(side == 'targets') for side in SIDES}


def vocabulary(feature: str = 'inputs') -> Vocabulary:
    """Returns the vocabulary of a feature, one object for all tasks."""
    return _VOCABULARIES[feature]


def text_features() -> dict[str, Feature]:
    """Returns the features of a text-to-text task: `inputs` and `targets`, each ending in eos."""
    return {side: Feature(vocabulary(side)) for side in SIDES}


def retrieval_features() -> dict[str, Feature]:
    """Returns the features of retrieval: `inputs` and `targets`, both inputs of an encoder."""
    return {side: Feature(vocabulary('inputs')) for side in SIDES}


class Labels(PlainVocabulary):
    """The labels of a task in the order of their ids.

    Args:
      labels: their names, or a function that reads them from the training data when needed.
      view: 'classification' (a label for each text) or 'tagging' (one for each word).
    """

    def __init__(self, labels: Sequence[str] | Callable[[], tuple[str, ...]], view: str):
        self._labels = labels if callable(labels) else tuple(labels)
        self.view = view

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of their ids."""
        return self._labels() if callable(self._labels) else self._labels

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and (self.labels, self.view) == (other.labels, other.view)

    @property
    def vocab_size(self) -> int:
        """The number of labels."""
        return len(self.labels)

    def ids(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the ids of labels, [length] int32; UserError for an unknown one."""
        known = self.labels
        if unknown := [text for text in texts if text not in known]:
            raise errors.unknown('label', unknown[0], known)
        return np.array([known.index(text) for text in texts], np.int32)


def label_features(labels: Sequence[str] | Labels, view: str) -> dict[str, Feature]:
    """Returns the features of a task of labels, for 'classification' or 'tagging'.

    `inputs` are all ids that the encoder reads, `targets` ids of labels, and `piece_counts` the
    number of ids of each text (classification) or word (tagging), without special ones.
    """
    return {
        'inputs': Feature(vocabulary('inputs'), add_eos=False),
        'targets': Feature(as_labels(labels, view), add_eos=False),
        'piece_counts': Feature(PlainVocabulary(2**31 - 1), add_eos=False),
    }


def as_labels(labels: Sequence[str] | Labels, view: str) -> Labels:
    """Makes a vocabulary of the names of labels."""
    return labels if isinstance(labels, Labels) else Labels(labels, view)
