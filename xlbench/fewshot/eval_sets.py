"""A dev or test set of few-shot transfer as batches, and where each of its predictions is."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xlbench.data import batches as batches_lib, features, prepared
from xlbench.metrics import tagging

PLACES = 8  # Rows of a batch and places of a row come in multiples of it: few programs.
# Widths that the batches of a set may have, and the least rows of one of several batches.
_PARTS, _PART_ROWS = 4, 32


@dataclasses.dataclass(frozen=True)
class EvalSet:
    """A dev or test set; predictions of all its batches, flat and joined, are read at `take`.

    W is the number of examples for classification. For tagging it is that of words, sentence after
    sentence, and a separator behind each sentence, as metrics.tagging.Chunks.compare takes them;
    words that are not scored, because they did not fit or by their tag, are left out.

    Attributes:
        batches: Features of the view, each [rows, ...]; rows without an example are empty.
        gold: [W] int32, the right labels; -1 at separators.
        take: [W] int32, where each is predicted: in the [rows] of all batches one after another,
            for tagging in their [rows * width]; -1 at separators.
        indices: [W] int32, the number of the example in the prepared split, for dev 'other_shots'
            among its own examples; -1 at separators.
        words: [W] int32, tagging: the number of the word in its sentence; else 0; -1 at separators.
        num_examples: Examples, cut ones included.
    """

    batches: tuple[dict[str, np.ndarray], ...]
    gold: np.ndarray
    take: np.ndarray
    indices: np.ndarray
    words: np.ndarray
    num_examples: int


class Records:
    """Examples of a prepared split in memory, as EvalBatches reads the split itself.

    Args:
        of: The split.
        records: Some of its examples, or examples like them.
    """

    def __init__(self, of: prepared.Prepared, records: Sequence[features.Example]):
        self.manifest, self.name, self.split, self.records = of.manifest, of.name, of.split, records

    def __len__(self) -> int:
        return len(self.records)

    def lengths(self) -> np.ndarray:
        """[examples, 2] int32: tokens of inputs and targets."""
        return np.array([[len(r['inputs']), len(r['targets'])] for r in self.records], np.int32)

    def read(self, indices: Iterable[int]) -> list[features.Example]:
        """The examples with these numbers."""
        return [self.records[i] for i in indices]


def build(
    examples: Records,
    numbers: Sequence[int],
    *,
    view: str,
    limit: int,
    batch_size: int,
    compact: np.ndarray,
) -> EvalSet:
    """Batches of nearly equal sizes, the longest examples first.

    Args:
        examples: What to evaluate.
        numbers: What `EvalSet.indices` says of each.
        view: 'classification' or 'tagging'.
        limit: Most tokens; longer examples are cut.
        batch_size: Most rows of a batch.
        compact: [vocabulary], the number that a token gets in place of its id.
    """
    # Small sets are parted as well: short sentences need not be as wide as the longest one.
    parts = min(_PARTS, len(examples) // _PART_ROWS)
    num_batches = max(-(-len(examples) // batch_size), parts)
    num_rows = up_to(PLACES, -(-len(examples) // num_batches))
    made = batches_lib.EvalBatches(
        examples,
        batch_size=min(num_rows, batch_size),
        lengths={'inputs': limit, 'targets': limit},
        view=view,
        widths=_PARTS,
    )
    batches, before = [], 0
    starts = np.zeros(len(examples), np.int64)  # Where the prediction of each begins.
    for batch in map(made.build, range(len(made))):
        index = batch.pop('example_index')
        rows, width = batch['encoder_input_tokens'].shape
        size = width if features.VIEWS[view].labels == 'word' else 1
        [filled] = np.nonzero(index >= 0)
        starts[index[filled]] = before + size * filled
        before += size * rows
        batches.append(compacted(batch, compact))
    columns = _word_columns if features.VIEWS[view].labels == 'word' else _text_columns
    gold, take, indices, words = columns(examples, starts, numbers, limit).astype(np.int32)
    return EvalSet(tuple(batches), gold, take, indices, words, len(examples))


def compacted(arrays: Mapping[str, np.ndarray], compact: np.ndarray) -> dict[str, np.ndarray]:
    """Renumbers the tokens of features: `compact` [vocabulary] has their new numbers."""
    name = 'encoder_input_tokens'
    return {**arrays, name: compact[arrays[name]]}


def up_to(multiple: int, number: int) -> int:
    """The next multiple. Example: 8, 17 -> 24."""
    return -(-number // multiple) * multiple


def _text_columns(
    examples: Records, starts: np.ndarray, numbers: Sequence[int], limit: int
) -> np.ndarray:
    """[4, examples]: gold, take, indices and words, of one label a text."""
    del limit
    gold = [record['targets'][0] for record in examples.records]
    return np.stack([gold, starts, numbers, np.zeros_like(starts)])


def _word_columns(
    examples: Records, starts: np.ndarray, numbers: Sequence[int], limit: int
) -> np.ndarray:
    """[4, scored words and separators]: gold, take, indices and words, of one label a word."""
    labels = examples.manifest['labels']
    is_scored = np.array([label not in tagging.UNSCORED for label in labels])
    columns = []
    for record, start, number in zip(examples.records, starts, numbers, strict=True):
        places = features.tag_places(record, limit)
        [words] = np.nonzero(is_scored[record['targets'][: len(places)]])
        gold, take = record['targets'][words], start + places[words]
        columns.append(np.stack([gold, take, np.full_like(words, number), words]))
        columns.append(np.full((4, 1), -1))
    return np.concatenate(columns, axis=1)
