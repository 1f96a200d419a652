"""Rows of one batch with widths of their own: a few wide ones for the longest texts.

A dual encoder's batch cannot be of texts that are alike long, as each reply has all others for
negatives. But a row's vector depends on its own text alone, so the rows may be encoded in parts:
half of them, the shortest, as wide as these need, a quarter wider, and so on. Which rows are in a
part is decided for each batch and each side; how wide it is, once for a run, so that nearly every
batch fits. One that does not is encoded at its full width.
"""

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

SIDES = ('left', 'right')
_STEP = 8  # Widths are multiples of it.
_DRAWS = 256  # Batches that are drawn to see how long their texts are.
_FITS = 0.98  # Of these, how many fit into a part.


class Part(NamedTuple):
    """Rows of a batch over all processes, and their tokens."""

    rows: int
    width: int


Parts = tuple[Part, ...]  # Widest first.


def choose(
    samples: Sequence[np.ndarray], rows: int, limits: Sequence[int], count: int, unit: int
) -> dict[str, Parts]:
    """Chooses the parts of each side of a batch; none at all where they would save nothing.

    `samples` are lengths [n, 2] of typical examples, of one of which a batch has examples; `limits`
    the most tokens of either side, `count` the most parts, whose rows are a multiple of `unit`.
    """
    while count > 1 and rows % (unit << (count - 1)):
        count -= 1
    ends = [rows >> (count - 1 - part) for part in range(count)]  # N/8, N/4, N/2, N of four.
    rng = np.random.default_rng(0)
    drawn = [sample[rng.integers(len(sample), size=(_DRAWS, rows))] for sample in samples]
    ordered = -np.sort(-np.concatenate(drawn), axis=1)  # [draws, rows, 2], longest first.
    chosen = {}
    for side, limit in enumerate(limits):
        longest = [np.quantile(ordered[:, end, side], _FITS) for end in ends[:-1]]
        widths = [limit, *(min(limit, -(-int(np.ceil(x)) // _STEP) * _STEP) for x in longest)]
        sizes = zip(widths, np.diff([0, *ends]).tolist(), strict=True)
        chosen[SIDES[side]] = tuple(
            Part(sum(size for _, size in alike), width)
            for width, alike in itertools.groupby(sizes, operator.itemgetter(0))
        )
    return chosen if any(len(of_side) > 1 for of_side in chosen.values()) else {}


def fits(lengths: np.ndarray, parts: Mapping[str, Parts], count: int) -> bool:
    """Returns whether a batch fits into the parts of its sides, the same in every process.

    `lengths` [rows, 2] are those of the whole batch, 0 in empty rows. Each of `count` processes
    sorts its own rows.
    """
    ordered = -np.sort(-lengths.reshape(count, -1, 2), axis=1)
    longest = ordered.max(axis=0)  # [rows of a process, 2], over the processes.
    for side, name in enumerate(SIDES):
        starts = np.cumsum([0, *(part.rows // count for part in parts[name][:-1])])
        if any(longest[starts, side] > [part.width for part in parts[name]]):
            return False
    return True


def cut(
    batch: Mapping[str, np.ndarray], parts: Mapping[str, Parts], process: int, count: int
) -> dict[str, np.ndarray]:
    """Cuts the rows of one of `count` processes into parts, into which the batch fits.

    Returns:
      The features of `features.retrieval`, but for each side its tokens and segment ids of part K
      as SIDE_encoder_input_tokens.K and so on, and SIDE_place [rows] int32: where the vector of
      each row lies among those of all parts.
    """
    result = dict(batch)
    for side in SIDES:
        names = [f'{side}_encoder_{kind}' for kind in ('input_tokens', 'segment_ids')]
        arrays = [result.pop(name) for name in names]
        lengths = np.count_nonzero(arrays[1], axis=1)
        order = np.argsort(-lengths, kind='stable')
        place, start, before = np.empty(len(order), np.int32), 0, 0
        for number, (size, width) in enumerate(parts[side]):
            own = size // count
            rows = order[start : start + own]
            place[rows] = before + process * own + np.arange(own)
            for name, array in zip(names, arrays, strict=True):
                result[f'{name}.{number}'] = array[rows, :width]
            start, before = start + own, before + size
        result[f'{side}_place'] = place
    return result
