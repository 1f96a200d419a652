"""From prepared examples to the arrays a model reads; numpy only.

A row of a batch holds one example, several (packing), or none (padding). Examples of one row are
told apart by segment ids, and each counts its own positions, so that a model that looks at both
computes for every example what it would compute alone.
"""

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlbench.data.tokenizers import Tokenizer
from xlbench.errors import UserError

Example = Mapping[str, Any]  # {'inputs': [length] int32, 'targets': [length] int32, ...}


@dataclasses.dataclass(frozen=True)
class Conventions:
    """Which ids mean what: from a manifest, mostly its `vocabulary` entry.

    Attributes:
      pad_id, eos_id, decoder_start_id: ids of padding, of the end, of the first decoder input.
      vocab_size: every id is below it.
      answer_mark: what stands in an input before the answer that is to be asked for, see
        `trim_passage`; empty if the vocabulary cannot spell it.
    """

    pad_id: int
    eos_id: int
    decoder_start_id: int
    vocab_size: int
    answer_mark: tuple[int, ...] = ()

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
        mark = manifest.get('answer_mark') or ()
        if not (isinstance(mark, list | tuple) and all(isinstance(i, int) for i in mark)):
            raise UserError(
                f'the manifest of {manifest.get("task")} has an answer_mark that is no list of '
                'ids; prepare it again with --force'
            )
        return cls(*values, tuple(mark))

    @classmethod
    def of_tokenizer(
        cls, tokenizer: Tokenizer, vocab_size: int, answer_mark: Sequence[int] = ()
    ) -> 'Conventions':
        """Those of texts that are not prepared: of their tokenizer, for a model of that size."""
        ids = tokenizer.pad_id, tokenizer.eos_id, tokenizer.decoder_start_id
        return cls(*ids, vocab_size, tuple(answer_mark))


def trim(ids: np.ndarray, length: int, eos_id: int) -> np.ndarray:
    """At most `length` ids, eos kept if there is one: length 3, [7, 8, 9, 1] -> [7, 8, 1]."""
    if len(ids) <= length:
        return ids
    trimmed = ids[:length].copy()
    if ids[-1] == eos_id:  # Some tasks end their inputs without it.
        trimmed[-1] = eos_id
    return trimmed


# Ids before a text: BERT's [CLS] and its language token are the most that a family has.
_PREFIX = 2


def trim_passage(
    ids: np.ndarray, length: int, eos_id: int, answer_mark: Sequence[int]
) -> np.ndarray:
    """`trim` for inputs of question generation, whose answer stands last: the passage is cut.

    Ids without the mark are cut at their end. Of several marks the last one counts. An answer that
    is too long by itself is cut at its end.

    Example: length 6, mark [40], [90, 7, 8, 9, 10, 40, 5, 1] -> [90, 7, 8, 40, 5, 1]
    """
    mark = np.asarray(answer_mark, ids.dtype)
    if len(ids) <= length or not mark.size or len(ids) < mark.size:
        return trim(ids, length, eos_id)
    places = np.lib.stride_tricks.sliding_window_view(ids, mark.size)
    marks = np.flatnonzero((places == mark).all(axis=1))
    if not marks.size:
        return trim(ids, length, eos_id)
    start = int(marks[-1])
    head = min(max(length - (len(ids) - start), _PREFIX), start)
    return trim(np.concatenate([ids[:head], ids[start:]]), length, eos_id)


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
      limits: what each example is trimmed to, see `trim_passage`; default `lengths`.

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
        mark = conventions.answer_mark if name == 'inputs' else ()
        parts = [
            trim_passage(example[name], limit, eos_id, mark) for row in listed for example in row
        ]
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
    counts, examples = _one_a_row(rows)
    features: dict[str, np.ndarray] = {}
    for name, side in (('inputs', 'left'), ('targets', 'right')):
        parts = [trim(example[name], limits[name], conventions.eos_id) for example in examples]
        place = _Placement(parts, counts, lengths[name])
        tokens = _joined(parts, name, conventions)
        features[f'{side}_encoder_input_tokens'] = place.fill(tokens, conventions.pad_id)
        features[f'{side}_encoder_segment_ids'] = place.fill(place.segments, 0)
    keys = np.full(len(counts), -1, np.int32)
    keys[counts > 0] = [zlib.crc32(reply.astype('<i4').tobytes()) & 0x7FFFFFFF for reply in parts]
    return features | {'reply_key': keys, 'row_weights': counts.astype(np.float32)}


def classification(
    rows: Sequence[Sequence[Example] | Example],
    *,
    lengths: Mapping[str, int],
    conventions: Conventions,
    limits: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """The features of a classifier of texts, or pairs of texts, for one batch.

    Of a pair that is too long, the longer text is cut (`trim_pair`).

    Args:
      rows: each an example, a list of one, or an empty list, which is a padding row. `targets` is
        one label, and `piece_counts` are the ids of each text, without special ones.
      lengths: widths of the arrays, `inputs`.
      conventions: ids of padding and end.
      limits: what each example is trimmed to; default `lengths`.

    Returns:
      encoder_input_tokens, encoder_segment_ids: [batch, inputs] int32; segment ids are 1 on tokens
      and 0 on padding.
      encoder_type_ids: [batch, inputs] int32, see `pair_types`; 0 on padding.
      labels: [batch] int32, 0 for padding rows.
      row_weights: [batch] float32, 1 for examples and 0 for padding rows.
    """
    limit = (limits or lengths)['inputs']
    counts, examples = _one_a_row(rows)
    parts = [
        trim_pair(example['inputs'], example['piece_counts'], limit, conventions.eos_id)
        for example in examples
    ]
    types = [pair_types(example['inputs'], example['piece_counts'], limit) for example in examples]
    labels = np.zeros(len(counts), np.int32)
    labels[counts > 0] = [example['targets'][0] for example in examples]
    features, place = _encoder(parts, counts, lengths['inputs'], conventions)
    return features | {
        'encoder_type_ids': place.fill(np.concatenate(types) if types else 0, 0),
        'labels': labels,
        'row_weights': counts.astype(np.float32),
    }


def trim_pair(ids: np.ndarray, piece_counts: Sequence[int], length: int, eos_id: int) -> np.ndarray:
    """At most `length` ids of a pair of texts: the longer is cut until both are equally long.

    So do arXiv:1810.04805's code and transformers' "longest_first". A single text is cut as by
    `trim`. Special tokens stay: what stands before, between and behind the texts.

    Example: pieces [5, 2], length 8, [CLS] a b c d e [SEP] x y [SEP] -> [CLS] a b c [SEP] x y [SEP]
    """
    if len(ids) <= length or len(piece_counts) != 2:
        return trim(ids, length, eos_id)
    first, second = (int(count) for count in piece_counts)
    start = int(len(ids) - first - second > 2)  # BERT and XLM-R have a token before, T5 has none.
    kept_first, kept_second = _kept(ids, piece_counts, length)
    cut = [
        ids[: start + kept_first],
        ids[start + first : len(ids) - 1 - second + kept_second],
        ids[-1:],
    ]
    return trim(np.concatenate(cut), length, eos_id)


def pair_types(ids: np.ndarray, piece_counts: Sequence[int], length: int) -> np.ndarray:
    """The types of the ids that `trim_pair` leaves: 1 from the second text on, 0 before it.

    So do arXiv:1810.04805 (section 3) and transformers' token_type_ids. A single text has type 0.

    Example: pieces [5, 2], length 8, [CLS] a b c d e [SEP] x y [SEP] -> 0 0 0 0 0 1 1 1
    """
    types = np.zeros(min(len(ids), length), np.int32)
    if len(piece_counts) == 2:
        types[-1 - _kept(ids, piece_counts, length)[1] :] = 1
    return types


def _kept(ids: np.ndarray, piece_counts: Sequence[int], length: int) -> tuple[int, int]:
    """How many pieces stay of each text of a pair, of which `length` ids stay at most."""
    first, second = (int(count) for count in piece_counts)
    room = max(length - (len(ids) - first - second), 0)
    kept_second = min(second, max(room // 2, room - first))
    return min(first, room - kept_second), kept_second


def tagging(
    rows: Sequence[Sequence[Example] | Example],
    *,
    lengths: Mapping[str, int],
    conventions: Conventions,
    limits: Mapping[str, int] | None = None,
) -> dict[str, np.ndarray]:
    """The features of a tagger for one batch: each word's tag stands at its last piece.

    Args:
      rows: each an example, a list of one, or an empty list, which is a padding row. `targets` are
        the tags of the words, and `piece_counts` the ids of each.
      lengths: widths of the arrays, `inputs`.
      conventions: ids of padding and end.
      limits: what each example is trimmed to; default `lengths`. A word that loses its last piece
        has no label.

    Returns:
      encoder_input_tokens, encoder_segment_ids: [batch, inputs] int32; segment ids are 1 on tokens
      and 0 on padding.
      labels: [batch, inputs] int32, 0 where there is none.
      label_weights: [batch, inputs] float32, 1 on labels, 0 elsewhere.

    Example: pieces [1, 2], [CLS] 5 6 7 [SEP], tags [3, 4] -> labels 0 3 0 4 0, weights 0 1 0 1 0
    """
    limit = (limits or lengths)['inputs']
    counts, examples = _one_a_row(rows)
    parts = [trim(example['inputs'], limit, conventions.eos_id) for example in examples]
    labels = [np.zeros(len(part), np.int32) for part in parts]
    weights = [np.zeros(len(part), np.float32) for part in parts]
    for example, tags, weight in zip(examples, labels, weights, strict=True):
        places = tag_places(example, limit)
        tags[places] = example['targets'][: len(places)]
        weight[places] = 1
    features, place = _encoder(parts, counts, lengths['inputs'], conventions)
    labels, weights = (np.concatenate(x) if x else 0 for x in (labels, weights))
    return features | {
        'labels': place.fill(labels, 0),
        'label_weights': place.fill(weights, 0, np.float32),
    }


def tag_places(example: Example, limit: int) -> np.ndarray:
    """Where the tags of an example's words stand in a row of `limit` ids: at their last pieces.

    Returns:
      [words that fit]; it is always the first words that do.
    """
    ends = np.cumsum(example['piece_counts'], dtype=np.int64)
    before = len(example['inputs']) - int(ends[-1]) - 1  # The last id is the end.
    places = before + ends - 1
    return places[places < limit - 1]


@dataclasses.dataclass(frozen=True)
class View:
    """What the batches of a kind of task hold, and what may be done with them.

    Attributes:
      make: from rows of examples to the arrays of a batch: generation, retrieval, ... above.
      sides: of which the arrays of tokens are, whose length a mesh may cut.
      packs: whether a row may hold several examples.
      labels: what a label is of, 'text' or 'word'; '' where targets are texts.
    """

    make: Callable[..., dict[str, np.ndarray]]
    sides: tuple[str, ...] = ('inputs',)
    packs: bool = False
    labels: str = ''

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """The arrays of a batch."""
        return self.make(*args, **kwargs)


# What an objective says its batches are (`view`), and what a task is prepared for.
VIEWS = {
    'generation': View(generation, ('inputs', 'targets'), packs=True),
    'retrieval': View(retrieval),  # Replies have a length of their own.
    'classification': View(classification, labels='text'),
    'tagging': View(tagging, labels='word'),
}


def _one_a_row(
    rows: Sequence[Sequence[Example] | Example],
) -> tuple[np.ndarray, list[Example]]:
    """How many examples each row has, 0 or 1: [batch]; and the examples."""
    listed = [[row] if isinstance(row, Mapping) else row for row in rows]
    counts = np.array([len(row) for row in listed], np.int64)
    if counts.max(initial=0) > 1:
        raise ValueError(f'a row of {counts.max()} examples; this model reads one a row')
    return counts, [row[0] for row in listed if row]


def _encoder(
    parts: Sequence[np.ndarray], counts: np.ndarray, width: int, conventions: Conventions
) -> tuple[dict[str, np.ndarray], '_Placement']:
    """What an encoder reads, and where it stands in the batch."""
    place = _Placement(parts, counts, width)
    tokens = _joined(parts, 'inputs', conventions)
    features = {
        'encoder_input_tokens': place.fill(tokens, conventions.pad_id),
        'encoder_segment_ids': place.fill(place.segments, 0),
    }
    return features, place


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
