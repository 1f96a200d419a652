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
from typing import TypeVar

import numpy as np
import seqio
import tensorflow as tf

from xlbench.data import readers, tokenizers
from xlbench.system import errors, work

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


class Vocabulary(seqio.Vocabulary):
    """SeqIO's view of whatever tokenizer is in use.

    Args:
      feature: the side it encodes, 'inputs' or 'targets'.

    Attributes:
      is_target: whether that is 'targets'.
      view: what a task is for that has it as the vocabulary of its targets.
    """

    def __init__(self, feature: str):
        super().__init__()
        self.is_target = feature == 'targets'
        self.view = 'generation' if self.is_target else 'retrieval'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.is_target == other.is_target

    def __hash__(self) -> int:
        return hash(self.is_target)

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
        return tokenizer().encode(s, self.is_target).tolist()

    def _decode(self, ids: Sequence[int]) -> str:
        return tokenizer().decode(ids)

    def _encode_tf(self, s: tf.Tensor) -> tf.Tensor:
        # Not TensorFlow Text's own operation: another release of SentencePiece breaks ties between
        # equally likely pieces in another way (l+ll or ll+l), and one text has one list of ids.
        chosen = tokenizer()

        def encode(text: bytes | np.ndarray) -> np.ndarray:
            data = text.item() if isinstance(text, np.ndarray) else text  # Eager: an array [].
            return chosen.encode(data.decode(), self.is_target)

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
        chosen = _binding.get().tokenizer
        return f'Vocabulary({chosen.name if chosen else "none chosen yet"})'


_VOCABULARIES = {side: Vocabulary(side) for side in SIDES}


def vocabulary(feature: str = 'inputs') -> Vocabulary:
    """The vocabulary object of a feature, which every task shares."""
    return _VOCABULARIES[feature]


def text_features() -> dict[str, seqio.Feature]:
    """Output features of a text-to-text task: `inputs` and `targets`, each ending in eos."""
    return {side: seqio.Feature(vocabulary=vocabulary(side), add_eos=True) for side in SIDES}


def retrieval_features() -> dict[str, seqio.Feature]:
    """Output features of retrieval: `inputs` and `targets` are both inputs of an encoder."""
    return {side: seqio.Feature(vocabulary=vocabulary('inputs'), add_eos=True) for side in SIDES}
