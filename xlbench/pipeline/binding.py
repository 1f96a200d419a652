"""Settings that a dataset is built with: data root, vocabulary, treatment of bad records.

SeqIO's registries give a task by its name alone, as in `seqio.get_dataset('mtg_qg_en_de', ...)`, so
nothing else can be handed to it. It stands in a `Binding` instead, one for each context of Python:

  with bound('mt5', root='/data'):   a block, of this thread
  use_vocabulary('mt5', '/data')     from now on, for a notebook or a script

A dataset keeps the binding that it was built with, whichever thread reads it.
"""

import contextlib
import contextvars
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from xlbench.data import readers, tokenizers
from xlbench.pipeline import late
from xlbench.system import errors, work

if TYPE_CHECKING:
    import tensorflow as tf

ANSWER_SEPARATOR = tokenizers.ANSWER_SEPARATOR
SIDES = ('inputs', 'targets')
Item = TypeVar('Item')


@dataclasses.dataclass(frozen=True)
class NoTokenizer:
    """In place of a vocabulary where texts stay as they are, without the tags of any model."""

    name: str = 'none'
    tags: str = ''


@dataclasses.dataclass(frozen=True)
class Binding:
    """Settings that a dataset is built with.

    Attributes:
      root: the data root, absolute; None stands for XLBENCH_DATA, else the folder data.
      tokenizer: the vocabulary.
      policy: what becomes of bad records; None stops at the first one.
    """

    root: str | None = None
    tokenizer: tokenizers.Tokenizer | NoTokenizer | None = None
    policy: readers.BadRecords | None = None


_NOTHING = Binding()
_binding = contextvars.ContextVar('binding', default=_NOTHING)


def _change(**fields: str | tokenizers.Tokenizer | NoTokenizer | readers.BadRecords | None) -> None:
    _binding.set(dataclasses.replace(_binding.get(), **fields))


def root() -> str:
    """The data root: what the binding has, else XLBENCH_DATA, else data.

    It is absolute, so that a task file may join it to its paths or leave it out.
    """
    return _binding.get().root or os.path.abspath(os.environ.get('XLBENCH_DATA') or 'data')


data_root = root  # Where `root` is an argument.


def use_root(path: str | None) -> None:
    """Sets the data root of every task; None goes back to XLBENCH_DATA."""
    _change(root=path and os.path.abspath(os.path.expanduser(path)))


def use_vocabulary(spec: str, root: str | None = None) -> tokenizers.Tokenizer:
    """Chooses the vocabulary of every task, and the data root if one is given."""
    if root is not None:
        use_root(root)
    chosen = tokenizers.load(spec, data_root())
    _change(tokenizer=chosen)
    return chosen


@contextlib.contextmanager
def bound(vocabulary: str | None, root: str) -> Iterator[None]:
    """Binds a vocabulary and a data root in a block.

    Args:
      vocabulary: see xlbench/data/tokenizers; None leaves texts as they are.
      root: the data root.
    """
    with work.setting(_binding, _binding.get()):  # What is bound in the block ends with it.
        use_root(root)
        _change(tokenizer=tokenizers.load(vocabulary, root) if vocabulary else NoTokenizer())
        yield


@contextlib.contextmanager
def bad_records(policy: readers.BadRecords) -> Iterator[None]:
    """Datasets that are built inside the block treat bad records by `policy`."""
    with work.setting(_binding, dataclasses.replace(_binding.get(), policy=policy)):
        yield


def policy() -> readers.BadRecords:
    """Returns what becomes of bad records; by default the first one stops the reading."""
    return _binding.get().policy or readers.BadRecords()


def with_binding(generate: Callable[[], Iterator[Item]]) -> Callable[[], Iterator[Item]]:
    """A generator function that has the binding of this moment in any thread."""
    here = contextvars.copy_context()

    def generator() -> Iterator[Item]:
        end = object()
        items, context = generate(), here.copy()  # No two threads are in one context.
        while (item := context.run(next, items, end)) is not end:
            yield item

    return generator


def tokenizer() -> tokenizers.Tokenizer:
    """The vocabulary in use."""
    chosen = _binding.get().tokenizer  # Not `:=`, which AutoGraph cannot read and warns of.
    if chosen is None:
        raise errors.UserError(
            "no vocabulary is chosen; call pipeline.use_vocabulary('sample', root) or name another"
        )
    return chosen


def plain_text(text: bytes | np.ndarray) -> str:
    """Returns a text that TensorFlow gives to a function of numpy."""
    return (text.item() if isinstance(text, np.ndarray) else text).decode()  # Eager: an array [].


def ids_by(function: Callable[..., np.ndarray], tensor: 'tf.Tensor') -> 'tf.Tensor':
    """Returns what a function of numpy makes of a tensor, ids [length] int32."""
    tf = late.tensorflow()
    ids = tf.numpy_function(function, [tensor], tf.int32)
    ids.set_shape([None])
    return ids


class PlainVocabulary:
    """A vocabulary in SeqIO's sense, without importing SeqIO, that leaves ids as they are.

    Args:
      size: of the vocabulary.
    """

    extra_ids = 0
    bos_id = eos_id = unk_id = None
    pad_id = 0

    def __init__(self, size: int):
        self._size = size

    @property
    def vocab_size(self) -> int:
        """Counts the ids."""
        return self._size

    def __eq__(self, other: object) -> bool:
        same = type(other) is type(self)
        return same and (other.vocab_size, other.eos_id) == (self.vocab_size, self.eos_id)

    __hash__ = None

    def encode(self, s: Sequence[int]) -> Sequence[int]:
        """The ids of what is encoded."""
        return s

    decode = encode_tf = decode_tf = encode


class Vocabulary(PlainVocabulary):
    """SeqIO's view of whatever tokenizer is in use.

    Args:
      feature: the side it encodes, 'inputs' or 'targets'.

    Attributes:
      is_target: whether that is 'targets'.
      view: what a task is for that has it as the vocabulary of its targets.
    """

    def __init__(self, feature: str):
        self.is_target = feature == 'targets'
        self.view = 'generation' if self.is_target else 'retrieval'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.is_target == other.is_target

    def __hash__(self) -> int:
        return hash(self.is_target)

    # Of the tokenizer in use; `AddPrefix` writes the first of them where the model reads it.
    bos_id, eos_id, pad_id, vocab_size = (
        property(lambda self, name=name: getattr(tokenizer(), name))
        for name in ('bos_id', 'eos_id', 'pad_id', 'vocab_size')
    )

    @property
    def unk_id(self) -> int | None:
        """Id of unknown text."""
        unk_id = tokenizer().unk_id
        return None if unk_id < 0 else unk_id

    def encode(self, s: str) -> list[int]:
        """The ids of a text, without eos."""
        return tokenizer().encode(s, self.is_target).tolist()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, up to the first eos."""
        chosen = tokenizer()
        known = [i if i < chosen.vocab_size or self.unk_id is None else self.unk_id for i in ids]
        end = known.index(self.eos_id) + 1 if self.eos_id in known else None
        return chosen.decode(known[:end])

    def encode_tf(self, s: 'tf.Tensor') -> 'tf.Tensor':
        """The ids of a text, [length] int32, as TensorFlow has it."""
        # Not TensorFlow Text's own operation: another release of SentencePiece breaks ties between
        # equally likely pieces in another way (l+ll or ll+l), and one text has one list of ids.
        chosen = tokenizer()

        def encode(text: bytes | np.ndarray) -> np.ndarray:
            return chosen.encode(plain_text(text), self.is_target)

        return ids_by(encode, s)

    def decode_tf(self, ids: 'tf.Tensor') -> 'tf.Tensor':
        """The texts of ids [..., length], likewise."""
        tf, chosen = late.tensorflow(), tokenizer()

        def decode(ids: np.ndarray) -> np.ndarray:
            if chosen.unk_id >= 0:
                ids = np.where(ids < chosen.vocab_size, ids, chosen.unk_id)
            ended = np.cumsum(ids == chosen.eos_id, -1) > (ids == chosen.eos_id)
            rows = np.where(ended, chosen.pad_id, ids).reshape(-1, ids.shape[-1])
            texts = [text.encode() for text in chosen.decode_batch(rows)]
            return np.array(texts, object).reshape(ids.shape[:-1])

        texts = tf.numpy_function(decode, [ids], tf.string)
        texts.set_shape(ids.shape[:-1])
        return texts

    def __str__(self) -> str:
        chosen = _binding.get().tokenizer
        return f'Vocabulary({chosen.name if chosen else "none chosen yet"})'


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature of an example, a sequence of ids, with what SeqIO asks of it.

    Attributes:
      vocabulary: of the ids.
      add_eos: whether they end in eos.
    """

    vocabulary: PlainVocabulary
    add_eos: bool = True
    required = True
    rank = 1

    @property
    def dtype(self) -> 'tf.DType':
        """The type of an id, as TensorFlow has it."""
        return late.tensorflow().int32


_VOCABULARIES = {side: Vocabulary(side) for side in SIDES}


def vocabulary(feature: str = 'inputs') -> Vocabulary:
    """The vocabulary object of a feature, which every task shares."""
    return _VOCABULARIES[feature]


def text_features() -> dict[str, Feature]:
    """Output features of a text-to-text task: `inputs` and `targets`, each ending in eos."""
    return {side: Feature(vocabulary(side)) for side in SIDES}


def retrieval_features() -> dict[str, Feature]:
    """Output features of retrieval: `inputs` and `targets` are both inputs of an encoder."""
    return {side: Feature(vocabulary('inputs')) for side in SIDES}


class Labels(PlainVocabulary):
    """The labels of a task; the id of one is its place among them.

    Args:
      labels: their texts; or what reads them from the training data when they are first needed.
      view: 'classification', a label for a text, or 'tagging', one for each of its words.
    """

    def __init__(self, labels: Sequence[str] | Callable[[], tuple[str, ...]], view: str):
        self._labels = labels if callable(labels) else tuple(labels)
        self.view = view

    @property
    def labels(self) -> tuple[str, ...]:
        """Their texts, in the order of their ids."""
        return self._labels() if callable(self._labels) else self._labels

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Labels)
        return same and (self.labels, self.view) == (other.labels, other.view)

    __hash__ = None

    @property
    def vocab_size(self) -> int:
        """Counts the labels."""
        return len(self.labels)

    def ids(self, texts: Sequence[str]) -> np.ndarray:
        """The ids of labels, [length] int32; UserError for one that is not there."""
        if unknown := [text for text in texts if text not in self.labels]:
            raise errors.unknown('label', unknown[0], self.labels)
        return np.array([self.labels.index(text) for text in texts], np.int32)


def label_features(labels: Sequence[str] | Labels, view: str) -> dict[str, Feature]:
    """Output features of a task of labels.

    They are `inputs`, all that the encoder reads; `targets`, ids of labels; and `piece_counts`, the
    number of ids of each text (classification) or word (tagging), without special ones.

    Args:
      labels: their texts, in the order of their ids.
      view: 'classification' or 'tagging'.
    """
    return {
        'inputs': Feature(vocabulary('inputs'), add_eos=False),
        'targets': Feature(as_labels(labels, view), add_eos=False),
        'piece_counts': Feature(PlainVocabulary(2**31 - 1), add_eos=False),
    }


def as_labels(labels: Sequence[str] | Labels, view: str) -> Labels:
    """Names of labels as the vocabulary of a feature."""
    return labels if isinstance(labels, Labels) else Labels(labels, view)
