"""From prepared examples to the arrays a model reads; numpy only.

A row of a batch holds one example, several (packing), or none (padding). Examples of one row are
told apart by segment ids, and each counts its own positions, so that a model that looks at both
computes for every example what it would compute alone.
"""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlbench.errors import UserError

Example = Mapping[str, Any]  # {'inputs': [length] int32, 'targets': [length] int32, ...}


@dataclasses.dataclass(frozen=True)
class Conventions:
    """Which ids mean what: from the `vocabulary` entry of a manifest."""

    pad_id: int
    eos_id: int
    decoder_start_id: int
    vocab_size: int

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> 'Conventions':
        """Those of one preparation."""
        vocabulary = manifest['vocabulary']
        names = ('pad_id', 'eos_id', 'decoder_start_id', 'size')
        values = [vocabulary.get(name) for name in names]
        if not all(isinstance(value, int) and 0 <= value < 2**31 for value in values):
            raise UserError(
                f'the manifest of {manifest.get("task")} has no valid {", ".join(names)} in its '
                'vocabulary; prepare it again with --force'
            )
        return cls(*values)


def trim(ids: np.ndarray, length: int, eos_id: int) -> np.ndarray:
    """At most `length` ids, eos kept. Example: length 3, [7, 8, 9, 1] -> [7, 8, 1]."""
    if len(ids) <= length:
        return ids
    trimmed = ids[:length].copy()
    trimmed[-1] = eos_id
    return trimmed


def generation(
    rows: Sequence[Sequence[Example] | Example],
    *,
    lengths: Mapping[str, int],
    conventions: Conventions,
    limits: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """The features of an encoder-decoder for one batch.

    Args:
      rows: each a list of examples, one example, or an empty list, which is a padding row.
      lengths: widths of the arrays, `inputs` and `targets`.
      conventions: ids of padding, end and start.
      limits: what each example is trimmed to; default `lengths`.

    Returns:
      encoder_input_tokens, encoder_segment_ids, encoder_positions: [batch, inputs] int32.
      decoder_input_tokens (targets shifted right inside their segment), decoder_target_tokens,
      decoder_segment_ids, decoder_positions: [batch, targets] int32.
      decoder_loss_weights: [batch, targets] float32, 1 on targets (eos included), 0 on padding.
      Segment ids are 1, 2, ... within a row and 0 on padding.

    Example: one row of two examples, inputs [5, 1] and [6, 7, 1], targets [8, 1] and [9, 1] ->
      encoder_input_tokens   5 1 6 7 1 0     decoder_target_tokens  8 1 9 1
      encoder_segment_ids    1 1 2 2 2 0     decoder_input_tokens   0 8 0 9
      encoder_positions      0 1 0 1 2 0     decoder_loss_weights   1 1 1 1
    """
    limits = limits or lengths
    listed = [[row] if isinstance(row, Mapping) else row for row in rows]
    counts = np.array([len(row) for row in listed], np.int64)
    features: dict[str, np.ndarray] = {}
    for name, side in (('inputs', 'encoder'), ('targets', 'decoder')):
        limit, eos_id = limits[name], conventions.eos_id
        parts = [trim(example[name], limit, eos_id) for row in listed for example in row]
        place = _Placement(parts, counts, lengths[name])
        tokens = _joined(parts, name, conventions)
        pad_id = conventions.pad_id
        if name == 'inputs':
            features['encoder_input_tokens'] = place.fill(tokens, pad_id)
        else:
            shifted = np.roll(tokens, 1)
            shifted[place.starts] = conventions.decoder_start_id
            features['decoder_input_tokens'] = place.fill(shifted, pad_id)
            features['decoder_target_tokens'] = place.fill(tokens, pad_id)
            features['decoder_loss_weights'] = place.fill(np.float32(1), 0, np.float32)
        features[f'{side}_segment_ids'] = place.fill(place.segments, 0)
        features[f'{side}_positions'] = place.fill(place.positions, 0)
    return features


def retrieval(
    rows: Sequence[Sequence[Example] | Example],
    *,
    lengths: Mapping[str, int],
    conventions: Conventions,
    limits: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """The features of a dual encoder for one batch: messages left, their replies right.

    Args:
      rows: each an example, a list of one, or an empty list, which is a padding row.
      lengths: widths of the arrays, `inputs` (messages) and `targets` (replies).
      conventions: ids of padding and end.
      limits: what each example is trimmed to; default `lengths`.

    Returns:
      left_encoder_input_tokens, left_encoder_segment_ids: [batch, inputs] int32, and
      right_encoder_input_tokens, right_encoder_segment_ids: [batch, targets] int32; segment ids
      are 1 on tokens and 0 on padding.
      reply_key: [batch] int32, the same for equal replies (as trimmed), -1 for padding rows. Among
      n different replies some two share a key by chance with probability n^2 / 2^32.
      row_weights: [batch] float32, 1 for examples and 0 for padding rows.
    """
    limits = limits or lengths
    listed = [[row] if isinstance(row, Mapping) else row for row in rows]
    counts = np.array([len(row) for row in listed], np.int64)
    if counts.max(initial=0) > 1:
        raise ValueError(f'a row of {counts.max()} examples; a dual encoder reads one a row')
    features: dict[str, np.ndarray] = {}
    for name, side in (('inputs', 'left'), ('targets', 'right')):
        parts = [trim(row[0][name], limits[name], conventions.eos_id) for row in listed if row]
        place = _Placement(parts, counts, lengths[name])
        tokens = _joined(parts, name, conventions)
        features[f'{side}_encoder_input_tokens'] = place.fill(tokens, conventions.pad_id)
        features[f'{side}_encoder_segment_ids'] = place.fill(place.segments, 0)
    keys = np.full(len(listed), -1, np.int32)
    keys[counts > 0] = [zlib.crc32(reply.astype('<i4').tobytes()) & 0x7FFFFFFF for reply in parts]
    return features | {'reply_key': keys, 'row_weights': counts.astype(np.float32)}


# What an objective calls its batches (`view`) -> the function that makes them.
VIEWS = {'generation': generation, 'retrieval': retrieval}


def _joined(parts: Sequence[np.ndarray], name: str, conventions: Conventions) -> np.ndarray:
    """All ids of a batch, one after another; UserError if the model cannot know one of them."""
    tokens = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    if tokens.size and (tokens.max() >= conventions.vocab_size or tokens.min() < 0):
        raise UserError(
            f'{name} hold id {tokens.max()}, beyond a vocabulary of {conventions.vocab_size}; '
            'prepare the data again with --force'
        )
    return tokens


class _Placement:
    """Where the tokens of a batch go: worked out once, used for every array of the batch.

    Args:
      parts: ids of all examples, row after row.
      counts: [batch], examples of each row.
      width: tokens of a row.
    """

    def __init__(self, parts: Sequence[np.ndarray], counts: np.ndarray, width: int):
        sizes = np.array([len(part) for part in parts], np.int64)
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

    def fill(self, values: Any, empty: int, dtype: Any = np.int32) -> np.ndarray:
        """[batch, width] of `empty`, with `values` (one a token, in order) in their places."""
        array = np.full(self._shape[0] * self._shape[1], empty, dtype)
        array[self._target] = values
        return array.reshape(self._shape)
