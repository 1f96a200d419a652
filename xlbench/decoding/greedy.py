"""Decoding without branches, a token a step and row; greedy takes the largest logit."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.decoding import top
from xlbench.trees import Arrays

# (cache, tokens [rows]) -> (logits [rows, vocab], cache)
DecodeStep = Callable[[Arrays, jax.Array], tuple[jax.Array, Arrays]]
# (logits [rows, vocab], tokens [rows, 1 + max_length] with the start token, tokens so far [])
#   -> the next token of each row [rows]
Choose = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


class _State(NamedTuple):
    position: jax.Array  # [], tokens made so far
    ended: jax.Array  # [rows], True where the end of the text has been made
    tokens: jax.Array  # [rows, 1 + max_length], the start token first
    scores: jax.Array  # [rows], log-probability of the text so far, in nats
    cache: Arrays


def begun(
    shape: Sequence[int], max_length: int, start_id: jax.Array | int, pad_id: int
) -> jax.Array:
    """Texts [*shape, 1 + max_length] int32 that have their start token alone; it broadcasts."""
    tokens = jnp.full((*shape, 1 + max_length), pad_id, jnp.int32)
    return tokens.at[..., 0].set(start_id)


def likeliest(logits: jax.Array, tokens: jax.Array, position: jax.Array) -> jax.Array:
    """Chooses the token with the largest logit in each row."""
    del tokens, position
    return top.top_k(logits, 1).ids[:, 0]


def one_by_one(
    decode_step: DecodeStep,
    cache: Arrays,
    choose: Choose = likeliest,
    *,
    batch_size: int,
    max_length: int,
    start_id: jax.Array | int,
    eos_id: int,
    pad_id: int,
    empty: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Makes one token a step until every row has ended; to be called under jit.

    Args:
      decode_step: the model's step, parameters bound.
      cache: the model's cache for at least max_length tokens.
      choose: picks the next tokens; a sampler folds the number of tokens so far into its key.
      batch_size: rows.
      max_length: tokens to make at most.
      start_id: what the first step is fed, the same for all rows or [rows].
      eos_id: ends a row; it is kept in the result.
      pad_id: fills a row after its end.
      empty: [rows], True for rows of padding, which get no text and are not waited for.

    Returns:
      tokens [rows, max_length] int32, without the start token, and scores [rows] float32: the
      log-probability of the row's tokens, the end included, in nats.
    """

    def unfinished(state: _State) -> jax.Array:
        return (state.position < max_length) & ~jnp.all(state.ended)

    def step(state: _State) -> _State:
        last = lax.dynamic_index_in_dim(state.tokens, state.position, 1, keepdims=False)
        logits, cache = decode_step(state.cache, last)
        token = choose(logits, state.tokens, state.position)
        gain = top.at(logits, token[:, None])[:, 0] - top.logsumexp(logits)
        token = jnp.where(state.ended, pad_id, token)
        return _State(
            position=state.position + 1,
            ended=state.ended | (token == eos_id),
            tokens=lax.dynamic_update_slice(state.tokens, token[:, None], (0, state.position + 1)),
            scores=state.scores + jnp.where(state.ended, 0.0, gain),
            cache=cache,
        )

    first = _State(
        position=jnp.zeros((), jnp.int32),
        ended=jnp.zeros((batch_size,), bool) if empty is None else empty,
        tokens=begun((batch_size,), max_length, start_id, pad_id),
        scores=jnp.zeros((batch_size,), jnp.float32),
        cache=cache,
    )
    last = lax.while_loop(unfinished, step, first)
    return last.tokens[:, 1:], last.scores
