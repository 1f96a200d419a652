"""Assignment of examples to rows and of rows to batches, from lengths alone.

No plan reads an example, so it costs microseconds an example, every process can make all of it, and
it is the same everywhere: whole numbers only, ties broken by order.
"""

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xlbench.settings.blocks import Batches
from xlbench.system.errors import UserError

# What a position costs beside its matrix products. At a width of this many tokens the attention of
# an encoder costs about as much again as the products of its layer (4 * d * width FLOPs a token
# against about 24 * d**2, and softmax and biases beside them, at d = 512..768).
_ATTENTION_WIDTH = 2048
# A target position passes through self- and cross-attention and the projection onto the vocabulary.
_TARGET_COST = 2
_CLASSES = 16  # Room for targets is looked up in this many classes, not exactly.
_PACK_INPUTS = (3 / 8, 1 / 2, 5 / 8, 3 / 4, 1)
_PACK_TARGETS = (1 / 2, 3 / 4, 1)
_GRID = (32, 16)  # Candidate widths of inputs and targets are multiples of limit / this.
_PAIR = ('left', 'right')  # The sides of a batch whose rows have widths of their own.
_STEP = 8  # The widths of these rows are multiples of it.
_DRAWS = 256  # Batches that are drawn to see how long their texts are.
_FITS = 0.98  # Of these, how many fit into a part.


class Shape(NamedTuple):
    """Widths of a row, in tokens."""

    inputs: int
    targets: int

    @classmethod
    def of(cls, lengths: Mapping[str, int]) -> 'Shape':
        """Takes the widths of a config; UserError unless they are two whole numbers."""
        if set(lengths) != set(cls._fields) or not all(
            isinstance(length, int) and length >= 2 for length in lengths.values()
        ):
            raise UserError(
                f'lengths is {dict(lengths)}; it needs inputs and targets, each 2 tokens or more, '
                'for example lengths=dict(inputs=512, targets=128)'
            )
        return cls(**lengths)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The shapes of batches, fixed for a whole run; each is compiled."""

    shapes: tuple[Shape, ...]  # Ascending in both widths.
    rows: tuple[int, ...]  # Of a batch of each shape.
    packed: tuple[Shape, ...] = ()  # Rows that packing fills, ascending; (): one example a row.


@dataclasses.dataclass(frozen=True)
class PlannedBatch:
    """A batch whose rows list their examples (places in the window), or none (padding)."""

    shape: Shape
    rows: list[list[int]]


def smallest(lengths: np.ndarray, shapes: Sequence[Shape]) -> np.ndarray:
    """Returns [n]: the index of the first of ascending shapes that holds each of `lengths`."""
    fits = np.all(lengths[:, None, :] <= np.array(shapes)[None], axis=-1)  # [n, shapes]
    if not fits[:, -1].all():
        raise ValueError(f'a length exceeds the largest shape {shapes[-1]}')
    return fits.argmax(1)


def pack(lengths: np.ndarray, shapes: Sequence[Shape]) -> list[list[int]]:
    """Packs examples into rows, none wider than its shape: best-fit decreasing in two dimensions.

    The largest example comes first, and goes into the open row in which it leaves least room; if
    none has room it opens a row of the smallest of the ascending `shapes` that holds it. Open rows
    are found through bit sets (bit i: there is a row with exactly i tokens of room), in about 2
    microseconds an example.

    Returns:
      The indices of `lengths` [n, 2], each exactly once, grouped to rows.
    """
    limits = np.array(shapes[-1])
    # The dimension that fills its limit first is matched exactly; the other in classes.
    totals = lengths.sum(0, dtype=np.int64)
    inputs_first = int(totals[0]) * int(limits[1]) >= int(totals[1]) * int(limits[0])
    first, second = (0, 1) if inputs_first else (1, 0)
    # Cross-multiplied shares of the limits, so that they stay whole numbers.
    size = np.maximum(lengths[:, 0] * int(limits[1]), lengths[:, 1] * int(limits[0]))
    order = np.argsort(-size, kind='stable').tolist()
    room = np.array(shapes)[smallest(lengths, shapes)] - lengths  # Of a row opened by the example.
    need_a, need_b = lengths[:, first].tolist(), lengths[:, second].tolist()
    open_a, open_b = room[:, first].tolist(), room[:, second].tolist()
    step = -(-int(limits[second]) // _CLASSES)
    classes = range(int(limits[second]) // step + 1)
    masks = [0 for _ in classes]
    stacks: list[dict[int, list[int]]] = [{} for _ in classes]
    rows: list[list[int]] = []
    left_b: list[int] = []
    for index in order:
        a, b = need_a[index], need_b[index]
        lowest = -(-b // step)  # Every row of this class, or a higher one, has room for b.
        free = 0
        for mask in masks[lowest:]:
            free |= mask
        free >>= a
        if free:
            free_a = (free & -free).bit_length() - 1  # Left over in the tightest row.
            bit = 1 << (free_a + a)
            kind = lowest
            while not masks[kind] & bit:
                kind += 1
            stack = stacks[kind][free_a + a]
            row = stack.pop()
            if not stack:
                masks[kind] ^= bit
            rows[row].append(index)
            free_b = left_b[row] - b
            left_b[row] = free_b
        else:
            row, free_a, free_b = len(rows), open_a[index], open_b[index]
            rows.append([index])
            left_b.append(free_b)
        if free_a > 0 and free_b > 0:
            kind = free_b // step
            stacks[kind].setdefault(free_a, []).append(row)
            masks[kind] |= 1 << free_a
    return rows


def to_rows(lengths: np.ndarray, layout: Layout) -> list[list[int]]:
    """Returns the rows of examples: packed, or one example each."""
    return pack(lengths, layout.packed) if layout.packed else [[i] for i in range(len(lengths))]


def row_lengths(lengths: np.ndarray, rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns [rows, 2]: tokens of inputs and targets in each row."""
    counts = [len(row) for row in rows]
    order = np.fromiter((index for row in rows for index in row), np.int64, sum(counts))
    ends = np.cumsum(counts)
    totals = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(lengths[order], 0)])
    return totals[ends] - totals[ends - counts]


def check_shares(rows: int, count: int, what: str) -> None:
    """Raises UserError for a number of rows, named `what`, that the processes cannot share."""
    if rows % count:
        raise UserError(
            f'{what} {rows} cannot be shared by {count} processes; it must be a multiple of {count}'
        )


# ---------------------------------------------------------------------------------------------
# Shapes.


def _cost(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the costs of rows in whole units; see the constants above."""
    return inputs * (_ATTENTION_WIDTH + inputs) + targets * (_TARGET_COST * _ATTENTION_WIDTH)


def _grid(limit: int, parts: int) -> np.ndarray:
    step = max(1, -(-limit // parts))
    return np.minimum(np.arange(1, -(-limit // step) + 1) * step, limit)


def best_chain(lengths: np.ndarray, largest: Shape, count: int) -> tuple[tuple[Shape, ...], int]:
    """Returns the ascending shapes, at most `count`, that hold `lengths` at least cost; and that.

    Every row takes the first shape that holds it; the last shape is `largest`. The search over a
    grid of widths is exact, by dynamic programming over the last shape so far: with H(s) rows that
    fit into shape s, a chain s1 < s2 < ... costs H(s1) cost(s1) + (H(s2) - H(s1)) cost(s2) + ...
    """
    widths = [_grid(limit, parts) for limit, parts in zip(largest, _GRID, strict=True)]
    held = np.zeros([len(width) for width in widths], np.int64)
    cells = tuple(np.searchsorted(widths[side], lengths[:, side]) for side in (0, 1))
    np.add.at(held, cells, 1)
    held = held.cumsum(0).cumsum(1).ravel()  # [nodes]
    inputs, targets = (axis.ravel() for axis in np.meshgrid(*widths, indexing='ij'))
    cost = _cost(inputs, targets)
    nested = (inputs[:, None] <= inputs) & (targets[:, None] <= targets)
    # [from, to]: what shape `to` adds if `from` is the one before it.
    added = np.where(nested, (held - held[:, None]) * cost, np.iinfo(np.int64).max // 2)
    total, before = held * cost, []
    for _ in range(count - 1):
        sums = total[:, None] + added
        before.append(sums.argmin(0))
        total = sums.min(0)
    node = len(held) - 1
    nodes = {node}
    for back in reversed(before):
        node = int(back[node])
        nodes.add(node)
    # A shape that no row takes would only be a program to compile.
    chain, seen = [], 0
    for node in sorted(nodes):
        if held[node] > seen or node == len(held) - 1:
            chain.append(Shape(int(inputs[node]), int(targets[node])))
            seen = held[node]
    return tuple(chain), int(total[-1])


def choose_layout(sample: np.ndarray, largest: Shape, limits: Shape, options: Batches) -> Layout:
    """Returns the shapes of a run, from typical lengths.

    `sample` [n, 2] has lengths in the proportions of the mixture, and `largest` those of which no
    example has more; both are at most `limits`, the widest row that is allowed.
    """
    batch_size, count = options.batch_size, options.length_buckets
    if count == 1:
        return Layout((limits,), (batch_size,), (limits,) if options.packing else ())
    packed: tuple[Shape, ...] = ()
    if options.packing:
        tried = []
        # Narrow rows mean cheap attention. Rows are then cut to the smallest shape that holds them.
        for part, other in itertools.product(_PACK_INPUTS, _PACK_TARGETS):
            size = Shape(max(1, int(limits.inputs * part)), max(1, int(limits.targets * other)))
            packed = (limits,) if size == limits else (size, limits)
            totals = row_lengths(sample, pack(sample, packed))
            shapes, cost = best_chain(totals, limits, count)
            tried.append((cost, packed, shapes))
        packed, shapes = min(tried, key=lambda one: one[0])[1:]
    else:
        largest = Shape(*(min(-(-a // 8) * 8, b) for a, b in zip(largest, limits, strict=True)))
        shapes = best_chain(sample, largest, count)[0]
    if options.equal_rows:
        return Layout(shapes, (batch_size,) * len(shapes), packed)
    # Equal positions in every batch, and not more than in the largest shape, which so decides what
    # memory is needed.
    multiple = options.row_multiple or 1
    rows = [batch_size * sum(shapes[-1]) // sum(shape) for shape in shapes]
    rows = [max(multiple, number // multiple * multiple) for number in rows[:-1]]
    return Layout(shapes, (*rows, batch_size), packed)


# ---------------------------------------------------------------------------------------------
# A window of the stream.


def plan(
    lengths: np.ndarray,  # [window, 2], inputs and targets of each example, trimmed to the limits.
    layout: Layout,
    permutation: Callable[[int, int], np.ndarray],  # (n, purpose) -> the same one each time.
) -> list[PlannedBatch]:
    """Returns the batches of a window, every example in exactly one row of exactly one batch.

    Rows that do not fill a last batch of their shape move up to the next one; the batches of the
    largest shape are filled up with empty rows, spread evenly over them.
    """
    rows = to_rows(lengths, layout)
    totals = row_lengths(lengths, rows)
    shape_of = smallest(totals, layout.shapes)
    size = totals.sum(1)
    batches: list[PlannedBatch] = []
    carried = np.zeros(0, np.int64)
    for index, (shape, count) in enumerate(zip(layout.shapes, layout.rows, strict=True)):
        members = np.union1d(np.flatnonzero(shape_of == index), carried)
        last = index == len(layout.shapes) - 1
        excess = 0 if last else len(members) % count
        # The longest move up: they lose least in a larger row.
        by_size = members[np.argsort(size[members], kind='stable')]
        carried = by_size[len(by_size) - excess :]
        members = np.setdiff1d(members, carried)
        if layout.packed:  # Packing has sorted them by size; a batch shall have all sizes.
            members = members[permutation(len(members), index + 1)]
        slots = -(-len(members) // count) * count
        filled = spread([rows[member] for member in members], slots)
        batches += [PlannedBatch(shape, filled[i : i + count]) for i in range(0, slots, count)]
    if layout.packed or len(layout.shapes) > 1:
        batches = [batches[i] for i in permutation(len(batches), 0)]
    return batches


def plan_groups(
    lengths: np.ndarray, groups: np.ndarray, layout: Layout, permutation: Callable[..., np.ndarray]
) -> list[PlannedBatch]:
    """Returns the batches of a window, each of one group only, in mixed order; see `plan`.

    `groups` [window] are numbers from 1; `permutation` may be given one behind the purpose.
    """

    def planned(group: int) -> Iterator[PlannedBatch]:
        members = np.flatnonzero(groups == group)
        for batch in plan(lengths[members], layout, lambda n, why: permutation(n, why, group)):
            yield PlannedBatch(batch.shape, [members[row].tolist() for row in batch.rows])

    batches = [batch for group in np.unique(groups).tolist() for batch in planned(group)]
    return [batches[i] for i in permutation(len(batches), 0)]


def spread(rows: list[list[int]], slots: int) -> list[list[int]]:
    """Returns the rows in order, with as many empty ones evenly between them as fill up `slots`."""
    empty = slots - len(rows)
    filled = np.ones(slots, bool)
    filled[(2 * np.arange(empty) + 1) * slots // max(1, 2 * empty)] = False
    placed: list[list[int]] = [[] for _ in range(slots)]
    for slot, row in zip(np.flatnonzero(filled).tolist(), rows, strict=True):
        placed[slot] = row
    return placed


def real_share(lengths: np.ndarray, batches: Sequence[PlannedBatch]) -> float:
    """Returns real tokens over all positions of the batches, inputs and targets together."""
    positions = sum(sum(batch.shape) * len(batch.rows) for batch in batches)
    return int(lengths.sum(dtype=np.int64)) / max(1, positions)


def plan_tasks(
    lengths: np.ndarray, tasks: np.ndarray, layout: Layout, permutation: Callable[..., np.ndarray]
) -> list[PlannedBatch]:
    """Returns the batches of a window, with equally many rows of each task; see `plan`.

    arXiv:2202.05599, section 5.2: in every step of its pre-training mDialBART sees samples of all
    its tasks, and their losses are added up. So each task goes through its own examples, in its own
    passes, and the rates of a mixture have no effect.

    Every example is in exactly one row. A task whose rows do not fill its part of all batches has
    empty rows, spread evenly. `tasks` [window] are numbers from 1, all of which occur, and the
    layout has one shape.
    """
    count = int(tasks.max(initial=0))
    share = layout.rows[0] // count
    rows_of = []
    for task in range(1, count + 1):
        members = np.flatnonzero(tasks == task)
        rows = to_rows(lengths[members], layout)
        if layout.packed:  # Packing sorts by size; a batch shall have all sizes.
            rows = [rows[place] for place in permutation(len(rows), 1, task)]
        rows_of.append([members[row].tolist() for row in rows])
    batches = max(-(-len(rows) // share) for rows in rows_of)
    parts = [spread(rows, batches * share) for rows in rows_of]
    return [
        PlannedBatch(layout.shapes[0], [row for part in parts for row in part[at : at + share]])
        for at in range(0, batches * share, share)
    ]


def task_weights(lengths: np.ndarray, planned: PlannedBatch, count: int) -> np.ndarray:
    """Returns [rows, tasks] float32: weights of the rows, each in the column of its task.

    A weight is the number of target tokens of the batch divided by that of the row's task. So the
    sum of weighted losses of tokens, divided by the number of all tokens, is the sum of the tasks'
    means. The weights follow from a plan of `plan_tasks` alone: they are the same in every process,
    and in every part of a batch whose gradients are accumulated.
    """
    targets = np.array([int(lengths[row, 1].sum()) for row in planned.rows], np.float64)
    of_task = targets.reshape(count, -1).sum(1)
    shares = np.divide(of_task.sum(), of_task, out=np.zeros(count), where=of_task > 0)
    return np.repeat(np.diag(shares), len(targets) // count, axis=0).astype(np.float32)


# ---------------------------------------------------------------------------------------------
# Rows of one batch with widths of their own: a few wide ones for the longest texts.
#
# A dual encoder's batch cannot be of texts that are alike long, as each reply has all others for
# negatives. But a row's vector depends on its own text alone, so the rows may be encoded in parts:
# half of them, the shortest, as wide as these need, a quarter wider, and so on. Which rows are in a
# part is decided for each batch and each side; how wide it is, once for a run, so that nearly every
# batch fits. One that does not is encoded at its full width.


class Part(NamedTuple):
    """Rows of a batch over all processes, and their tokens."""

    rows: int
    width: int


Parts = tuple[Part, ...]  # Widest first.


def choose_parts(
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
        chosen[_PAIR[side]] = tuple(
            Part(sum(size for _, size in alike), width)
            for width, alike in itertools.groupby(sizes, operator.itemgetter(0))
        )
    return chosen if any(len(of_side) > 1 for of_side in chosen.values()) else {}


def fits_parts(lengths: np.ndarray, parts: Mapping[str, Parts], count: int) -> bool:
    """Returns whether a batch fits into the parts of its sides, the same in every process.

    `lengths` [rows, 2] are those of the whole batch, 0 in empty rows. Each of `count` processes
    sorts its own rows.
    """
    ordered = -np.sort(-lengths.reshape(count, -1, 2), axis=1)
    longest = ordered.max(axis=0)  # [rows of a process, 2], over the processes.
    for side, name in enumerate(_PAIR):
        starts = np.cumsum([0, *(part.rows // count for part in parts[name][:-1])])
        if any(longest[starts, side] > [part.width for part in parts[name]]):
            return False
    return True


def cut_to_parts(
    batch: Mapping[str, np.ndarray], parts: Mapping[str, Parts], process: int, count: int
) -> dict[str, np.ndarray]:
    """Cuts the rows of one of `count` processes into parts, into which the batch fits.

    Returns:
      The features of `features.retrieval`, but for each side its tokens and segment ids of part K
      as SIDE_encoder_input_tokens.K and so on, and SIDE_place [rows] int32: where the vector of
      each row lies among those of all parts.
    """
    result = dict(batch)
    for side in _PAIR:
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
