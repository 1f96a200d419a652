"""Ids of examples -> one array for a batch."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from xlbench.data.features.conventions import Conventions
from xlbench.data.prepared import Record
from xlbench.errors import UserError

Row = Sequence[Record] | Record  # Examples of a row, or its one example.


def one_a_row(
    rows: Sequence[Row],
) -> tuple[np.ndarray, list[Record]]:
    """Returns the number of examples in each row, 0 or 1: [batch]; and the examples."""
    listed = [[row] if isinstance(row, Mapping) else row for row in rows]
    counts = np.array([len(row) for row in listed], np.int64)
    if counts.max(initial=0) > 1:
        raise ValueError(f'a row of {counts.max()} examples; this model reads one a row')
    return counts, [row[0] for row in listed if row]


def encoder_arrays(
    parts: Sequence[np.ndarray], counts: np.ndarray, width: int, conventions: Conventions
) -> tuple[dict[str, np.ndarray], 'Placement']:
    """Builds the encoder's arrays, and where each example stands in the batch."""
    place = Placement(parts, counts, width)
    tokens = joined(parts, 'inputs', conventions)
    features = {
        'encoder_input_tokens': place.fill(tokens, conventions.pad_id),
        'encoder_segment_ids': place.fill(place.segments, 0),
    }
    return features, place


def decoder_arrays(
    parts: Sequence[np.ndarray],
    counts: np.ndarray,
    width: int,
    conventions: Conventions,
    starts: int | Sequence[int] | None = None,
) -> dict[str, np.ndarray]:
    """Builds the decoder's inputs, targets and loss weights.

    Args:
      parts, counts, width: see Placement.
      conventions: ids of padding and of the first input.
      starts: the first input of each example, in place of that one.
    """
    place = Placement(parts, counts, width)
    tokens = joined(parts, 'targets', conventions)
    shifted = np.roll(tokens, 1)
    shifted[place.starts] = conventions.decoder_start_id if starts is None else starts
    return {
        'decoder_input_tokens': place.fill(shifted, conventions.pad_id),
        'decoder_target_tokens': place.fill(tokens, conventions.pad_id),
        'decoder_loss_weights': place.fill(np.float32(1), 0, np.float32),
        'decoder_segment_ids': place.fill(place.segments, 0),
        'decoder_positions': place.fill(place.positions, 0),
    }


def joined(parts: Sequence[np.ndarray], name: str, conventions: Conventions) -> np.ndarray:
    """All ids of a batch, one after another; UserError if the model cannot know one of them."""
    tokens = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    if tokens.size and (tokens.max() >= conventions.vocab_size or tokens.min() < 0):
        raise UserError(
            f'{name} hold id {tokens.max()}, beyond a vocabulary of {conventions.vocab_size}; '
            'prepare the data again with --force'
        )
    return tokens


def language_ids(
    place: 'Placement', examples: Sequence[Record], side: int
) -> np.ndarray:
    """The language of each token, [batch, width] int32: 1 + its row in a table; 0 where unknown.

    Args:
      place: of one side's tokens.
      examples: of the batch; their `languages`, if they have any, are those of both sides.
      side: 0 for inputs, 1 for targets.
    """
    known = [int(e['languages'][side]) if 'languages' in e else 0 for e in examples]
    return place.fill(np.repeat(np.array(known, np.int32), place.sizes), 0)


class Placement:
    """Where the tokens of a batch go: worked out once, used for every array of the batch.

    Args:
      parts: ids of all examples, row after row.
      counts: [batch], examples of each row.
      width: tokens of a row.
    """

    def __init__(self, parts: Sequence[np.ndarray], counts: np.ndarray, width: int):
        self.sizes = sizes = np.array([len(part) for part in parts], np.int64)
        ends = np.cumsum(sizes)
        row = np.repeat(np.arange(len(counts)), counts)
        # Tokens before each row, and examples before each row.
        used = np.bincount(row, sizes, len(counts)).astype(np.int64)
        if used.max(initial=0) > width:
            raise ValueError(f'a row of {used.max()} tokens does not fit into {width}')
        tokens_before = np.cumsum(used) - used
        examples_before = np.cumsum(counts) - counts
        self._shape = (len(counts), width)
        self.starts = ends - sizes  # [examples], first token of each in the concatenation.
        self.positions = np.arange(sizes.sum()) - np.repeat(self.starts, sizes)
        self.segments = np.repeat(np.arange(len(parts)) - examples_before[row] + 1, sizes)
        self._target = self.positions + np.repeat(
            row * width + self.starts - tokens_before[row], sizes
        )

    def fill(
        self, values: np.ndarray | np.generic | int, empty: int, dtype: npt.DTypeLike = np.int32
    ) -> np.ndarray:
        """[batch, width] of `empty`, with `values` (one a token, in order) in their places."""
        array = np.full(self._shape[0] * self._shape[1], empty, dtype)
        array[self._target] = values
        return array.reshape(self._shape)
