"""The largest entries of long rows, exactly, and the logarithm of their summed exponentials.

XLA:CPU's own TopK and argmax take a second look at each of 250,000 logits on one thread. Here a row
is cut into blocks and read once for their maxima; the k blocks with the largest maxima hold the k
largest entries, and only those blocks are searched.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

BLOCK = 128

# (logits [..., n], token ids that broadcast to them) -> what counts in their place, [..., n]
Value = Callable[[jax.Array, jax.Array], jax.Array]


class Top(NamedTuple):
    """The largest entries of each row, largest first; of equal ones the lower id comes first."""

    values: jax.Array  # [rows, k]
    ids: jax.Array  # [rows, k] int32


def top_k(logits: jax.Array, k: int, value: Value = lambda logits, ids: logits) -> Top:
    """The k largest of `value(logits, ids)` in each row of logits [rows, vocab].

    `value` is applied while reading, to all blocks and again to the chosen ones, so that a changed
    copy of the logits is never written.
    """
    by_blocks = functools.partial(_by_blocks, k=k, value=value)
    if k > 1:
        return by_blocks(logits)
    # On TPUs one pass suffices, in which no block lies on two devices.
    largest = functools.partial(_largest, value=value)
    return lax.platform_dependent(logits, tpu=largest, default=by_blocks)


def _largest(logits: jax.Array, value: Value) -> Top:
    logits = value(logits, jnp.arange(logits.shape[1]))
    ids = jnp.argmax(logits, axis=1, keepdims=True).astype(jnp.int32)
    return Top(jnp.max(logits, axis=1, keepdims=True), ids)


def _by_blocks(logits: jax.Array, k: int, value: Value) -> Top:
    rows, vocab = logits.shape
    count = vocab // BLOCK
    if count <= 2 * k:  # Every other block would be chosen.
        values, ids = lax.top_k(value(logits, jnp.arange(vocab)), k)
        return Top(values, ids.astype(jnp.int32))
    blocks = logits[:, : count * BLOCK].reshape(rows, count, BLOCK)
    ids = jnp.arange(count * BLOCK, dtype=jnp.int32).reshape(count, BLOCK)
    _, chosen = lax.top_k(jnp.max(value(blocks, ids), axis=-1), k)
    # In the order of the vocabulary, so that equal entries keep it.
    chosen = jnp.sort(chosen, axis=-1)
    values = jnp.take_along_axis(blocks, chosen[:, :, None], axis=1, mode='promise_in_bounds')
    values = values.reshape(rows, k * BLOCK)
    ids = (chosen[:, :, None] * BLOCK + jnp.arange(BLOCK)).reshape(rows, k * BLOCK)
    if count * BLOCK < vocab:
        rest = jnp.arange(count * BLOCK, vocab)
        values = jnp.concatenate([values, logits[:, count * BLOCK :]], axis=1)
        ids = jnp.concatenate([ids, jnp.broadcast_to(rest, (rows, len(rest)))], axis=1)
    values, places = lax.top_k(value(values, ids), k)
    ids = jnp.take_along_axis(ids, places, axis=1, mode='promise_in_bounds')
    return Top(values, ids.astype(jnp.int32))


def logsumexp(logits: jax.Array) -> jax.Array:
    """log sum exp of each row of [rows, vocab] -> [rows], but on TPUs by blocks."""
    whole = functools.partial(jax.nn.logsumexp, axis=1)
    return lax.platform_dependent(logits, tpu=whole, default=_logsumexp_by_blocks)


def _logsumexp_by_blocks(logits: jax.Array) -> jax.Array:
    """Reads blocks that stay in a CPU's cache."""
    rows, vocab = logits.shape
    count = vocab // BLOCK
    sums = []
    if count:
        blocks = logits[:, : count * BLOCK].reshape(rows, count, BLOCK)
        largest = jnp.max(blocks, axis=-1, keepdims=True)
        sums.append(largest[..., 0] + jnp.log(jnp.sum(jnp.exp(blocks - largest), axis=-1)))
    if count * BLOCK < vocab:
        sums.append(logits[:, count * BLOCK :])
    return jax.nn.logsumexp(jnp.concatenate(sums, axis=1), axis=1)


def at(logits: jax.Array, ids: jax.Array) -> jax.Array:
    """The entries of [rows, vocab] at ids [rows, n] -> [rows, n]."""
    return jnp.take_along_axis(logits, ids, axis=1, mode='promise_in_bounds')
