"""Positions: T5's relative biases, sines and cosines, and learned tables."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from xlbench.models.layers import Embedding, constrain, with_axes
from xlbench.system.errors import UserError

# Blocks of queries that a bias is made of (see `skew`): what a mesh cuts a length into divides it.
BIAS_BLOCKS = 64


def relative_position_bucket(
    relative: jax.Array,  # key position minus query position
    *,
    bidirectional: bool,
    num_buckets: int,
    max_distance: int,
) -> jax.Array:
    """T5's buckets (arXiv:1910.10683, 2.1): exact when near, logarithmic up to max_distance."""
    bucket = jnp.zeros_like(relative)
    if bidirectional:
        num_buckets //= 2
        bucket = jnp.where(relative > 0, num_buckets, 0)
        distance = jnp.abs(relative)
    else:
        distance = -jnp.minimum(relative, 0)
    exact = num_buckets // 2
    ratio = jnp.log(jnp.maximum(distance, 1).astype(jnp.float32) / exact)
    far = exact + (ratio / math.log(max_distance / exact) * (num_buckets - exact)).astype(jnp.int32)
    return bucket + jnp.where(distance < exact, distance, jnp.minimum(far, num_buckets - 1))


def skew(values: jax.Array, queries: int, keys: int) -> jax.Array:
    """[heads, queries + keys] by difference -> [heads, queries, keys].

    Entry n of `values` belongs to key minus query = n - (queries - 1). Blocks of queries are taken
    first, and each block's rows of it alone: where a mesh cuts the queries, a device makes its own.
    """
    size = queries // math.gcd(queries, BIAS_BLOCKS)
    blocks = _windows(values, queries // size, size, size + keys)
    blocks = constrain(blocks, 'heads', 'length', None)
    bias = _windows(blocks, size, 1, keys).reshape(len(values), queries, keys)
    return constrain(bias, 'heads', 'length', None)


def _windows(values: jax.Array, count: int, step: int, width: int) -> jax.Array:
    """[..., n] -> [..., count, width]; the last row begins at 0, each one above `step` later.

    Repeats the vector, and reads it back with rows shorter by `step`. The transpose of that is a
    pad and a sum, no scatter.
    """
    *lead, found = values.shape
    length = count * step + width
    values = jnp.pad(values, [(0, 0)] * len(lead) + [(0, max(0, length - found))])[..., :length]
    rows = jnp.broadcast_to(values[..., None, :], (*lead, count, length)).reshape(*lead, -1)
    rows = rows[..., : count * (length - step)].reshape(*lead, count, length - step)
    return rows[..., (count - 1) * step :]


class RelativePositions(nn.Module):
    """A learnt bias for each head and bucket of key position minus query position."""

    num_heads: int
    num_buckets: int
    max_distance: int
    bidirectional: bool

    @nn.compact
    def by_difference(self, queries: int, keys: int) -> jax.Array:
        """[heads, queries + keys]; entry n is for key minus query = n - (queries - 1).

        The last entry belongs to no pair; it makes room for `skew`. Buckets are spread by a
        one-hot product, because the gradient of a gather would be a scatter.
        """
        uniform = nn.initializers.variance_scaling(1.0, 'fan_avg', 'uniform')
        init = with_axes(uniform, 'heads', 'relpos_buckets')
        table = self.param('rel_embedding', init, (self.num_heads, self.num_buckets), jnp.float32)
        bucket = relative_position_bucket(
            jnp.arange(queries + keys) - (queries - 1),
            bidirectional=self.bidirectional,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        spread = jax.nn.one_hot(bucket, self.num_buckets, axis=0, dtype=jnp.float32)
        return jnp.dot(table, spread, precision=lax.Precision.HIGHEST)

    def __call__(self, queries: int, keys: int) -> jax.Array:
        """The bias [1, heads, queries, keys], float32."""
        return skew(self.by_difference(queries, keys), queries, keys)[None]


def sinusoids(length: int, features: int, *, to_the_last: bool = False) -> np.ndarray:
    """Positions [length, features] of arXiv:1706.03762 (3.5): first all sines, then all cosines.

    As transformers lays them out; the paper has sine and cosine of a frequency side by side.
    Computed in float64, whose rounding is all that float32 then loses. `to_the_last` makes the last
    frequency 1/10000, as in Marian; the paper's is a step above it.
    """
    steps = features // 2 - 1 if to_the_last else features // 2
    frequencies = 10000.0 ** (-np.arange(features // 2) / steps)
    angles = np.arange(length)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


class LearnedPositions(Embedding):
    """A table of positions, whose first `offset` rows come before position 0."""

    rows: str = 'positions'
    offset: int = 0

    def __call__(self, positions: jax.Array) -> jax.Array:
        """positions [batch, length] -> [batch, length, features]."""
        return super().__call__(positions + self.offset)

    def table(self, length: int) -> jax.Array:
        """The first positions, [length, features] float32.

        Raises:
          UserError: there are fewer.
        """
        self.check_length(length)
        return self.embedding[self.offset : self.offset + length]

    def check_length(self, length: int) -> None:
        """Raises UserError where a text of `length` tokens has no positions."""
        most = self.size - self.offset
        if length > most:
            raise UserError(
                f'a sequence of {length} tokens does not fit a model with {most} learned '
                'positions; shorten the lengths of the batches, or max_length of decoding'
            )


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def for_each_row(table: jax.Array, batch: int, dtype: DTypeLike) -> jax.Array:
    """[length, features] -> [batch, length, features], the same in all rows.

    Its gradient is a sum over rows. XLA lays the sum's operand out for it, and all activations of a
    stack likewise, which are then turned for each product; on GPUs the sum is a product, therefore.
    """
    return jnp.broadcast_to(table.astype(dtype), (batch, *table.shape))


def _for_each_row_fwd(table, batch, dtype):
    return for_each_row(table, batch, dtype), None


def _for_each_row_bwd(batch, dtype, _, g):
    del batch, dtype

    def product(g: jax.Array) -> jax.Array:
        ones = jnp.ones(len(g), g.dtype)
        return jnp.einsum('b,bld->ld', ones, g, preferred_element_type=jnp.float32)

    def added(g: jax.Array) -> jax.Array:
        return jnp.sum(g, axis=0, dtype=jnp.float32)

    return (lax.platform_dependent(g, cuda=product, default=added),)


for_each_row.defvjp(_for_each_row_fwd, _for_each_row_bwd)
