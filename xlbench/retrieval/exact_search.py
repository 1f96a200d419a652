"""Exact search for the responses with the largest products, and the rank of a known one.

The score of response j for query i is x_i . y_j + bias_j, in float32. Scores are computed for a
block of responses at a time, 64 MiB of them at most, and each block is reduced to its k best before
the next one; of equal scores the one with the lower id comes first.

  best = top_k(messages, index(responses, mesh=mesh), 15)   # .values, .ids [m, 15]

On a mesh every device searches rows of its own, and their k best each are merged.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from xlbench.decoding import top
from xlbench.decoding.top import Top
from xlbench.system.work import in_flight

QUERIES = 1024  # Searched for at once.
CHUNKS_AHEAD = 8  # Chunks of queries in flight.
BLOCK_BYTES = 64 << 20  # Scores that exist at once, on each device.
# Scores that differ by less than this part of the product of the vectors' lengths may differ by
# rounding alone.
ROUNDING = 1e-6


# (vectors, bias, queries, ...) -> what is known of each query
_Program = Callable[..., tuple[jax.Array, ...]]
_Carry = TypeVar('_Carry')


@dataclasses.dataclass(frozen=True)
class Index:
    """Responses where they are searched; `index` makes it.

    Attributes:
      vectors: [rows, dim] float32, of all devices; rows beyond `count` are padding.
      bias: [rows] float32, -inf for padding.
      count: of the responses.
      mesh: whose devices share the rows.
    """

    vectors: jax.Array
    bias: jax.Array
    count: int
    mesh: Mesh


def index(responses: ArrayLike, bias: ArrayLike | None = None, mesh: Mesh | None = None) -> Index:
    """Puts responses [n, dim] and their bias [n] (default 0) onto the devices, cut along n.

    Without a mesh one device has them all.
    """
    vectors = np.asarray(responses, np.float32)
    count = len(vectors)
    mesh = mesh or Mesh(jax.devices()[:1], ('data',))
    padded = np.pad(vectors, ((0, -count % mesh.size), (0, 0)))
    stored = _put(padded, mesh, PartitionSpec(mesh.axis_names))
    without = Index(stored, jnp.zeros(0), count, mesh)
    return with_bias(without, np.zeros(count) if bias is None else bias)


def with_bias(responses: Index, bias: ArrayLike) -> Index:
    """Puts another bias [n] of the same responses onto the devices."""
    padding = len(responses.vectors) - responses.count
    bias = np.pad(np.asarray(bias, np.float32), (0, padding), constant_values=-np.inf)
    spec = PartitionSpec(responses.mesh.axis_names)
    return dataclasses.replace(responses, bias=_put(bias, responses.mesh, spec))


def top_k(queries: ArrayLike, responses: Index, k: int) -> Top:
    """The k responses with the largest scores for each query [m, dim], largest first.

    Returns:
      values [m, k] float32 and ids [m, k] int32, numpy.
    """
    if not 1 <= k <= responses.count:
        raise ValueError(f'k is {k}, but there are {responses.count} responses')
    found = _in_chunks(_top_k_program(responses.mesh, k), responses, queries)
    return Top(*cast(tuple[Any, Any], found))


def ranks(
    queries: ArrayLike,  # [m, dim]
    responses: Index,
    gold_ids: ArrayLike,  # [m], the response that is looked for
) -> np.ndarray:  # [m] int64
    """Ranks one response for each query among all: 1 + the responses that score higher.

    Every other response that scores as high, up to rounding (ROUNDING), comes before it, so that an
    encoder that tells no texts apart gets no more than chance; the candidates of
    xlbench/evaluators/retrieval.py have the same rule.
    """
    (before,) = _in_chunks(_ranks_program(responses.mesh), responses, queries, gold_ids)
    return 1 + before.astype(np.int64)


# ---------------------------------------------------------------------------------------------
# Queries in chunks of few shapes, responses on a mesh.


def _in_chunks(
    program: _Program, searched: Index, queries: ArrayLike, *columns: ArrayLike
) -> tuple[np.ndarray, ...]:
    """Runs the program for all queries, a chunk while the results of others come back."""
    arrays = [np.asarray(queries, np.float32), *(np.asarray(c, np.int32) for c in columns)]

    def begin(chunk: tuple[int, int, int]) -> tuple[jax.Array, ...]:
        start, stop, rows = chunk
        padded = [np.zeros((rows, *array.shape[1:]), array.dtype) for array in arrays]
        for place, array in zip(padded, arrays, strict=True):
            place[: stop - start] = array[start:stop]
        stored = [_put(array, searched.mesh, PartitionSpec()) for array in padded]
        return program(searched.vectors, searched.bias, *stored)

    parts = [
        [np.asarray(part)[: stop - start] for part in results]
        for (start, stop, _), results in in_flight(_chunks(len(arrays[0])), begin, CHUNKS_AHEAD)
    ]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _chunks(count: int) -> Iterator[tuple[int, int, int]]:
    """(start, stop, rows): at most QUERIES at once, rows in eighths of a power of two."""
    for start in range(0, max(count, 1), QUERIES):
        stop = min(count, start + QUERIES)
        step = max(8, (1 << max(stop - start - 1, 1).bit_length()) // 8)
        yield start, stop, -(-max(stop - start, 1) // step) * step


def _put(array: np.ndarray, mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    """An array that every process has whole, as a global one."""
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def _over(mesh: Mesh, local: _Program, columns: int) -> _Program:
    """jit of `local(vectors, bias, queries, columns...)`, on the rows of each device."""
    rows, whole = PartitionSpec(mesh.axis_names), PartitionSpec()
    specs = (rows, rows, *[whole] * (1 + columns))
    # What comes out is the same on all devices, which the checker cannot see of a gather.
    return jax.jit(
        jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False)
    )


@functools.cache
def _top_k_program(mesh: Mesh, k: int) -> _Program:
    def local(vectors, bias, queries):
        most = min(k, len(vectors))

        def body(best, scores, added, ids):
            size = min(most, len(ids))
            here = top.top_k(scores, size, lambda scores, places: scores + added[places])
            values = jnp.concatenate([best[0], here.values], axis=1)
            # What is before comes first: equal scores keep the order of their ids.
            return _best(values, jnp.concatenate([best[1], ids[0] + here.ids], axis=1), most)

        shape = (len(queries), most)
        none = (jnp.full(shape, -jnp.inf), jnp.zeros(shape, jnp.int32))
        values, ids = _scan(vectors, bias, queries, body, none)
        ids += lax.axis_index(mesh.axis_names) * len(vectors)
        values, ids = (
            lax.all_gather(x, mesh.axis_names, axis=1, tiled=True) for x in (values, ids)
        )
        return _best(values, ids, k)

    return _over(mesh, local, 0)


def _best(values: jax.Array, ids: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    values, places = lax.top_k(values, k)
    return values, jnp.take_along_axis(ids, places, axis=1, mode='promise_in_bounds')


@functools.cache
def _ranks_program(mesh: Mesh) -> _Program:
    def local(vectors, bias, queries, gold_ids):
        # The products are taken twice: only the very ones that the others are compared in tell
        # whether another response is equally good; a product of one pair is rounded differently.
        axes, rows, count = mesh.axis_names, len(queries), len(vectors)
        gold_ids -= lax.axis_index(axes) * count  # Beyond 0 .. count - 1 they are of others.
        gold_column = gold_ids[:, None]
        lengths = jnp.linalg.norm(vectors, axis=1)[jnp.clip(gold_ids, 0, count - 1)]
        length = lax.pmax(jnp.where((gold_ids >= 0) & (gold_ids < count), lengths, 0.0), axes)
        noise = ROUNDING * jnp.linalg.norm(queries, axis=1) * length

        def find(gold, scores, added, ids):
            of_gold = jnp.where(ids == gold_column, scores + added, -jnp.inf)
            return jnp.maximum(gold, jnp.max(of_gold, axis=1))

        def add_better(before, scores, added, ids):
            first = (scores + added >= least) & (ids != gold_column)
            return before + jnp.sum(first, axis=1, dtype=jnp.int32)

        gold = _scan(vectors, bias, queries, find, jnp.full(rows, -jnp.inf))
        least = (lax.pmax(gold, axes) - noise)[:, None]
        before = _scan(vectors, bias, queries, add_better, jnp.zeros(rows, jnp.int32))
        return (lax.psum(before, axes),)

    return _over(mesh, local, 1)


def _scan(
    vectors: jax.Array,  # [n, dim]
    bias: jax.Array,  # [n]
    queries: jax.Array,  # [m, dim]
    body: Callable[[_Carry, jax.Array, jax.Array, jax.Array], _Carry],
    first: _Carry,
) -> _Carry:
    """body(carry, scores [m, block], bias [block], ids [block]) over the blocks of responses.

    The blocks are equally long; the last one is moved back, and what it repeats has a bias of -inf.
    """
    count = len(vectors)
    block = min(BLOCK_BYTES // (4 * len(queries)), count)
    num_blocks = -(-count // block)
    block = min(-(-count // num_blocks // top.BLOCK) * top.BLOCK, block)

    def step(carry, number):
        start = jnp.minimum(number * block, count - block)
        part = lax.dynamic_slice_in_dim(vectors, start, block)
        ids = start + jnp.arange(block, dtype=jnp.int32)
        added = lax.dynamic_slice_in_dim(bias, start, block)
        added = jnp.where(ids < number * block, -jnp.inf, added)
        return body(carry, _product(queries, part), added, ids), None

    if block == count:
        return body(first, _product(queries, vectors), bias, jnp.arange(count, dtype=jnp.int32))
    return lax.scan(step, first, jnp.arange(num_blocks))[0]


def _product(queries: jax.Array, part: jax.Array) -> jax.Array:
    """[m, dim] x [n, dim] -> [m, n] in full float32, also where the device would round first."""
    return lax.dot_general(queries, part, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)
