"""Texts -> packed examples, in this process or in several, none of which needs TensorFlow."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures

import numpy as np

from xlbench.data import prepared, tokenizers
from xlbench.system import work
from xlbench.system.work import in_flight

Texts = Mapping[str, Sequence[str]]  # {field: the text of each record}.


@dataclasses.dataclass(frozen=True)
class Side:
    """The encoding of the texts of a feature as ids.

    Attributes:
      is_target: whether they are targets, see Tokenizer.encode_batch.
      before, behind: the ids that stand around those of each text.
    """

    is_target: bool
    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Encoding:
    """The encoding of the texts of a task as ids.

    Attributes:
      sides: of each feature; other fields stay texts.
      has_views: whether inputs are two views, see preprocessors.TokenizeViews.
    """

    sides: Mapping[str, Side]
    has_views: bool = False

    def columns(self, tokenizer: tokenizers.Tokenizer, batch: Texts) -> prepared.Columns:
        """The examples of a batch of texts."""
        made: prepared.Columns = {}
        for name, texts in batch.items():
            side = self.sides.get(name)
            if side is None:
                made[name] = texts
                continue
            if self.has_views and name == 'inputs':
                before = np.array(side.before, np.int32)
                rows = tokenizer.encode_views(texts, [before] * len(texts))
            else:
                rows = tokenizer.encode_batch(texts, side.is_target)
            made[name] = prepared.Ids.joined(rows, side.before, side.behind)
            made[f'{name}_pretokenized'] = texts
        return made

    def packed(self, tokenizer: tokenizers.Tokenizer, batch: Texts) -> prepared.Packed:
        """The examples of a batch of texts, as they are written."""
        return prepared.pack(self.columns(tokenizer, batch))


def pack_beside(
    encoding: Encoding, batches: Iterable[Texts], tokenizer: tokenizers.Tokenizer
) -> Iterator[prepared.Packed]:
    """Packs batches of texts in a thread, in their order, while the next ones are read."""
    with futures.ThreadPoolExecutor(1) as thread:
        submit = functools.partial(thread.submit, encoding.packed, tokenizer)
        for _, packed in in_flight(batches, submit, depth=1):
            yield packed.result()


def pack_elsewhere(
    encoding: Encoding, batches: Iterable[Texts], processes: int, vocabulary: str, root: str
) -> Iterator[prepared.Packed]:
    """Packs batches of texts in processes of their own, in their order.

    Args:
      encoding: of the task.
      batches: of its texts.
      processes: how many, at least two.
      vocabulary: as `tokenizers.load` takes it.
      root: the data root.
    """
    with work.Pool(processes, _start, vocabulary, root) as workers:
        yield from workers.run_in_order(_pack, ((encoding, batch) for batch in batches))


_tokenizer: tokenizers.Tokenizer | None = None  # In a process of `pack_elsewhere`.


def _start(vocabulary: str, root: str) -> None:
    global _tokenizer
    tokenizers.limit_threads(1)
    _tokenizer = tokenizers.load(vocabulary, root)


def _pack(encoding: Encoding, batch: Texts) -> prepared.Packed:
    return encoding.packed(_tokenizer, batch)
