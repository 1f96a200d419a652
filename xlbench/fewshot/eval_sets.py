"""A dev or test set of few-shot transfer as batches, and where each of its predictions is."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import jax
import numpy as np
from flax import struct

from xlbench.data import batches as batches_lib, features, packing, prepared
from xlbench.metrics import tagging

PLACES = 8  # Rows of a batch and places of a row come in multiples of it: few programs.
_PARTS = 4  # Widths that the batches of a set of texts may have.
# Sentences share rows of at least this length: few places are left empty, and attention, which sees
# all places of a row, costs little beside the layers.
_PACKED_WIDTH = 128


@struct.dataclass
class EvalSet:
    """A dev or test set; predictions of all its batches, flat and joined, are read at `take`.

    W is the number of examples for classification. For tagging it is that of words, sentence after
    sentence, and a separator behind each sentence, as metrics.tagging.Chunks.compare takes them;
    words that are not scored, because they did not fit or by their tag, are left out.

    Attributes:
      batches: features of the view, [batches, rows, ...] of each shape; rows without an example are
        empty.
      gold: [W] int32, the right labels; -1 at separators.
      take: [W] int32, where each is predicted: in the [rows] of all batches one after another,
        for tagging in their [rows * width]; -1 at separators.
    """

    batches: tuple[dict[str, jax.typing.ArrayLike], ...]
    gold: jax.typing.ArrayLike
    take: jax.typing.ArrayLike

    def each(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields the batches one by one."""
        for stack in self.batches:
            for i in range(len(stack['labels'])):
                yield {name: array[i] for name, array in stack.items()}


class Records:
    """Examples of a prepared split in memory, as EvalBatches reads the split itself.

    Args:
      of: the split.
      records: some of its examples, or examples like them.
    """

    def __init__(self, of: prepared.Prepared, records: Sequence[features.Example]):
        self.manifest, self.name, self.split, self.records = of.manifest, of.name, of.split, records

    def __len__(self) -> int:
        return len(self.records)

    def lengths(self) -> np.ndarray:
        """Returns [examples, 2] int32: tokens of inputs and targets."""
        return np.array([[len(r['inputs']), len(r['targets'])] for r in self.records], np.int32)

    def read(self, indices: Iterable[int]) -> list[features.Example]:
        """Reads the examples with these numbers."""
        return [self.records[i] for i in indices]


def build(
    examples: Records, *, view: str, limit: int, batch_size: int, compact: np.ndarray
) -> EvalSet:
    """Makes batches of an EvalSet: of sentences in shared rows, or of texts in rows of their own.

    Args:
      examples: what to evaluate.
      view: the objective's, of labels; see `features.VIEWS`.
      limit: most tokens; longer examples are cut.
      batch_size: most rows of a batch.
      compact: [vocabulary], the number that a token gets in place of its id.
    """
    of_words = features.VIEWS[view].labels == 'word'
    # [examples], where in all rows the predictions of each begin.
    stacks, starts = (_packed if of_words else _apart)(examples, view, limit, batch_size)
    if of_words:
        gold, take = _of_words(examples, starts, limit)
    else:
        gold, take = np.array([record['targets'][0] for record in examples.records]), starts
    made = tuple(compacted(stack, compact) for stack in stacks)
    return EvalSet(made, gold.astype(np.int32), take.astype(np.int32))


def _apart(
    examples: Records, view: str, limit: int, batch_size: int
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Returns batches of nearly equal sizes, the longest texts first; and where each text is."""
    # Small sets are parted as well: short texts need not be as wide as the longest one.
    parts = min(_PARTS, -(-len(examples) // PLACES))
    num_batches = max(-(-len(examples) // batch_size), parts)
    num_rows = up_to(PLACES, -(-len(examples) // num_batches))
    longest = int(examples.lengths()[:, 0].max(initial=1))
    made = batches_lib.EvalBatches(
        examples,
        batch_size=min(num_rows, batch_size),
        lengths={'inputs': min(up_to(PLACES, longest), limit), 'targets': limit},
        view=view,
        widths=_PARTS,
    )
    batches = list(map(made.build, range(len(made))))
    starts, before = np.zeros(len(examples), np.int64), 0
    for batch in batches:
        index = batch.pop('example_index')
        [filled] = np.nonzero(index >= 0)
        starts[index[filled]] = before + filled
        before += len(index)
    of_shapes = itertools.groupby(batches, lambda batch: batch['encoder_input_tokens'].shape)
    return [jax.tree.map(lambda *x: np.stack(x), *alike) for _, alike in of_shapes], starts


def _packed(
    examples: Records, view: str, limit: int, batch_size: int
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Returns batches [batches, rows, width] of several sentences a row; and where each begins."""
    lengths = np.minimum(examples.lengths()[:, 0], limit)
    widest = max(int(lengths.max(initial=1)), min(int(lengths.sum()), _PACKED_WIDTH))
    width = min(up_to(PLACES, widest), limit)
    conventions = features.Conventions.of(examples.manifest)
    layout = features.Layout({'inputs': width}, conventions, {'inputs': limit})
    arrays = features.VIEWS[view]([[record] for record in examples.records], layout)
    rows = plan_rows(lengths, width)
    num_batches = max(-(-len(rows) // batch_size), 1)
    num_rows = -(-len(rows) // num_batches)
    if num_rows > 8 * PLACES:  # Of few rows, those that were added would be many.
        num_rows = min(up_to(PLACES, num_rows), batch_size)
    packed, starts = side_by_side(arrays, rows, num_batches * num_rows)
    return [{name: x.reshape(num_batches, num_rows, width) for name, x in packed.items()}], starts


def plan_rows(lengths: np.ndarray, width: int) -> list[list[int]]:
    """Returns the examples of each row, as few rows as hold them; those of length 0 are in none.

    Args:
      lengths: [examples], tokens, `width` at most.
      width: of a row.
    """
    [real] = np.nonzero(lengths)
    sizes = np.stack([lengths[real], np.ones_like(real)], axis=-1)
    rows = packing.pack(sizes, [packing.Shape(width, width)]) if len(real) else []
    return [real[row].tolist() for row in rows]


def side_by_side(
    arrays: Mapping[str, np.ndarray], rows: Sequence[Sequence[int]], num_rows: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns examples in rows that they share.

    Args:
      arrays: features of tagging, [examples, width], an example in each row.
      rows: the examples of each row, see `plan_rows`.
      num_rows: rows to make; those behind `rows` are empty.

    Returns:
      The same features [num_rows, width], where `encoder_segment_ids` number the examples of a
      row from 1, and 'encoder_positions' count the tokens of each from 0; and [examples], where
      each begins in the rows one after another.
    """
    lengths = np.count_nonzero(arrays['encoder_segment_ids'], axis=-1)
    width = arrays['encoder_segment_ids'].shape[-1]
    packed = {name: np.zeros((num_rows, width), array.dtype) for name, array in arrays.items()}
    packed['encoder_positions'] = np.zeros((num_rows, width), np.int32)
    starts = np.zeros(len(lengths), np.int64)
    for row, of_row in enumerate(rows):
        start = 0
        for segment, example in enumerate(of_row, 1):
            size = lengths[example]
            here = row, slice(start, start + size)
            for name, array in arrays.items():
                packed[name][here] = array[example, :size]
            packed['encoder_segment_ids'][here] = segment
            packed['encoder_positions'][here] = np.arange(size)
            starts[example] = row * width + start
            start += size
    return packed, starts


def compacted(arrays: Mapping[str, np.ndarray], compact: np.ndarray) -> dict[str, np.ndarray]:
    """Renumbers the tokens of features: `compact` [vocabulary] has their new numbers."""
    name = 'encoder_input_tokens'
    return {**arrays, name: compact[arrays[name]]}


def up_to(multiple: int, number: int) -> int:
    """Rounds up to the next multiple. Example: 8, 17 -> 24."""
    return -(-number // multiple) * multiple


def _of_words(examples: Records, starts: np.ndarray, limit: int) -> np.ndarray:
    """Returns [2, words and separators]: gold and take, of one label a word."""
    labels = examples.manifest['labels']
    is_scored = np.array([label not in tagging.UNSCORED for label in labels])
    columns = []
    for record, start in zip(examples.records, starts, strict=True):
        places = features.tag_places(record, limit)
        tags = record['targets'][: len(places)]
        scored = is_scored[tags]
        columns += [np.stack([tags[scored], start + places[scored]]), np.full((2, 1), -1)]
    return np.concatenate(columns, axis=1)
