"""Greedy decoding and sampling: a token a step for each text, without branches.

Greedy decoding takes the likeliest token. Samples are drawn from all tokens, from the k most
likely, or from the nucleus (arXiv:1904.09751).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.decoding import top
from xlbench.decoding.loop import Batch, State, grow
from xlbench.decoding.rules import Rules


class _Texts(NamedTuple):
    ended: jax.Array  # [examples, texts], True where the end of the text has been made
    tokens: jax.Array  # [examples, texts, 1 + max_length], the start token first
    scores: jax.Array  # [examples, texts], log-probability of the text so far, in nats


def one_by_one(batch: Batch, keys: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """Makes one token a step until every text has ended; to be called under jit.

    With `keys` [batch, texts], see `row_keys`, tokens are drawn at random.

    Returns:
      tokens [batch, texts, max_length] int32, without the start token, and scores [batch, texts]
      float32: the log-probability of the text's tokens, the end included, in nats.
    """
    rules, count = batch.rules, batch.rules.options.hypotheses

    def step(state: State[_Texts]) -> State[_Texts]:
        ended, tokens, scores = state.texts
        by_row = tokens.reshape(-1, tokens.shape[2])
        last = lax.dynamic_index_in_dim(by_row, state.position, 1, keepdims=False)
        logits, cache = batch.step(state.cache, last)
        of_rows = None if keys is None else keys[state.examples].reshape(-1)
        here = rules.of(state.examples, count)
        token = _next_tokens(here, of_rows, logits, by_row, state.position)
        gain = top.at(logits, token[:, None])[:, 0] - top.logsumexp(logits)
        token, gain = (x.reshape(-1, count) for x in (token, gain))
        token = jnp.where(ended, batch.pad_id, token)
        place = (0, 0, state.position + 1)
        texts = _Texts(
            ended=ended | (token == rules.eos_id),
            tokens=lax.dynamic_update_slice(tokens, token[:, :, None], place),
            scores=scores + jnp.where(ended, 0.0, gain),
        )
        return state._replace(position=state.position + 1, texts=texts, cache=cache)

    shape = (len(batch.empty), count)
    ended = jnp.broadcast_to(batch.empty[:, None], shape)
    first = _Texts(ended, batch.begun(count), jnp.zeros(shape, jnp.float32))
    last, _ = grow(step, lambda texts: ~jnp.all(texts.ended, axis=1), first, batch)
    return last.tokens[:, :, 1:], last.scores


def _next_tokens(
    rules: Rules,  # of the rows
    keys: jax.Array | None,  # [rows]
    logits: jax.Array,  # [rows, vocab]
    tokens: jax.Array,  # [rows, 1 + max_length], the start token first
    position: jax.Array,  # [], tokens so far
) -> jax.Array:  # [rows]
    """The next token of each row: the likeliest, or with keys a random one."""
    options, zero = rules.options, jnp.zeros(len(logits))
    logits = rules.by_history(logits, zero, tokens, position)
    value = rules.by_id(zero, position)
    if keys is None:
        return top.top_k(logits, 1, value).ids[:, 0]
    logits = value(logits, jnp.arange(logits.shape[1]))
    logits = distribution(logits, options.temperature, options.top_k, options.top_p)
    return draw(keys, logits, position)


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
