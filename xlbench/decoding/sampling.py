"""Tokens drawn at random: from all, from the k most likely, from the nucleus (arXiv:1904.09751)."""

import jax
import jax.numpy as jnp

from xlbench.decoding import top


def keep_top_k(logits: jax.Array, k: int) -> jax.Array:
    """[rows, vocab] -> the same, -inf where less likely than the k-th; 0 keeps all."""
    if not 0 < k < logits.shape[-1]:
        return logits
    return jnp.where(logits < top.top_k(logits, k).values[:, -1:], -jnp.inf, logits)


def keep_top_p(logits: jax.Array, p: float) -> jax.Array:
    """[rows, vocab] -> the same, -inf outside the smallest set of likeliest tokens that has mass p.

    A token stays if those above it have less than p; so one always does.
    """
    if p >= 1.0:
        return logits
    ordered = jnp.sort(logits, axis=-1, descending=True)
    mass = jnp.cumsum(jax.nn.softmax(ordered, axis=-1), axis=-1)
    kept = 1 + jnp.sum(mass[:, :-1] < p, axis=-1, keepdims=True)
    return jnp.where(logits < top.at(ordered, kept - 1), -jnp.inf, logits)


def distribution(logits: jax.Array, temperature: float, k: int, p: float) -> jax.Array:
    """The logits [rows, vocab] that tokens are drawn with."""
    return keep_top_p(keep_top_k(logits / temperature, k), p)


def row_keys(rng: jax.Array, example: jax.Array, samples: int) -> jax.Array:
    """A key for each sample of each example: keys [batch, samples].

    They follow from the example's own number [batch] and the sample's, never from the batch, so
    that an example gets the same texts in a batch of any size, at any place, on any device.
    """

    def of_example(number: jax.Array) -> jax.Array:
        key = jax.random.fold_in(rng, number)
        return jax.vmap(lambda sample: jax.random.fold_in(key, sample))(jnp.arange(samples))

    return jax.vmap(of_example)(example)


def draw(keys: jax.Array, logits: jax.Array, position: jax.Array) -> jax.Array:
    """One token a row: keys [rows], logits [rows, vocab], tokens so far [] -> [rows] int32."""

    def one(key: jax.Array, row: jax.Array) -> jax.Array:
        return jax.random.gumbel(jax.random.fold_in(key, position), row.shape) + row

    return top.top_k(jax.vmap(one)(keys, logits), 1).ids[:, 0]
