"""Cuts sequences of ids that are too long, and keeps the parts that matter."""

from collections.abc import Sequence

import numpy as np

from xlbench.data.prepared import Record


def trim(ids: np.ndarray, length: int, eos_id: int) -> np.ndarray:
    """Cuts ids to `length` and keeps eos if there is one: length 3, [7, 8, 9, 1] -> [7, 8, 1]."""
    if len(ids) <= length:
        return ids
    trimmed = ids[:length].copy()
    if ids[-1] == eos_id:  # Some tasks end their inputs without it.
        trimmed[-1] = eos_id
    return trimmed


def trim_views(ids: np.ndarray, length: int, eos_id: int) -> list[np.ndarray]:
    """The two texts of an input, each of which ends in eos, cut to half the length; or its one.

    Example: length 6, [7, 8, 9, 5, 1, 7, 1] -> [7, 8, 1], [7, 1]
    """
    first = int(np.flatnonzero(ids == eos_id)[:1].sum()) + 1
    views = [ids] if first in (1, len(ids)) else [ids[:first], ids[first:]]
    return [trim(view, length // 2, eos_id) for view in views]


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


def trim_pair(ids: np.ndarray, piece_counts: Sequence[int], length: int, eos_id: int) -> np.ndarray:
    """Cuts a pair of texts to `length` ids: the longer is cut until both are equally long.

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

    So do arXiv:1810.04805 (section 3) and transformers' token_type_ids. A single text has type 0,
    and so has a pair of XLM-R's vocabulary, also in a model that knows two types: such a pair is
    the one with four ids around its texts.

    Example: pieces [5, 2], length 8, [CLS] a b c d e [SEP] x y [SEP] -> 0 0 0 0 0 1 1 1
    """
    types = np.zeros(min(len(ids), length), np.int32)
    if len(piece_counts) == 2 and len(ids) - sum(piece_counts) < 4:
        types[-1 - _kept(ids, piece_counts, length)[1] :] = 1
    return types


def _kept(ids: np.ndarray, piece_counts: Sequence[int], length: int) -> tuple[int, int]:
    """Returns the number of pieces kept of each text of a pair; at most `length` ids in all."""
    first, second = (int(count) for count in piece_counts)
    room = max(length - (len(ids) - first - second), 0)
    kept_second = min(second, max(room // 2, room - first))
    return min(first, room - kept_second), kept_second


def tag_places(example: Record, limit: int) -> np.ndarray:
    """Where the tags of an example's words stand in a row of `limit` ids: at their last pieces.

    Returns:
      [words that fit]; it is always the first words that do.
    """
    ends = np.cumsum(example['piece_counts'], dtype=np.int64)
    before = len(example['inputs']) - int(ends[-1]) - 1  # The last id is the end.
    places = before + ends - 1
    return places[places < limit - 1]
