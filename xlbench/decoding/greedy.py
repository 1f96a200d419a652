"""Decoding without branches, a token a step and row; greedy takes the largest logit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

# (cache, tokens [batch]) -> (logits [batch, vocab], cache)
DecodeStep = Callable[[Any, jax.Array], tuple[jax.Array, Any]]
# (logits [batch, vocab], position []) -> tokens [batch]
Choose = Callable[[jax.Array, jax.Array], jax.Array]


class _State(NamedTuple):
    position: jax.Array  # [], tokens made so far
    last: jax.Array  # [batch], fed to the next step
    ended: jax.Array  # [batch], True where the end of the text has been made
    tokens: jax.Array  # [batch, max_length]
    scores: jax.Array  # [batch], log-probability of the text so far, in nats
    cache: Any


def greedy(
    decode_step: DecodeStep,
    cache: Any,
    *,
    batch_size: int,
    max_length: int,
    start_id: int,
    eos_id: int,
    pad_id: int,
) -> tuple[jax.Array, jax.Array]:
    """The most likely token at each step. Arguments and results as in `one_by_one`."""
    return one_by_one(
        decode_step,
        cache,
        lambda logits, position: jnp.argmax(logits, axis=-1).astype(jnp.int32),
        batch_size=batch_size,
        max_length=max_length,
        start_id=start_id,
        eos_id=eos_id,
        pad_id=pad_id,
    )


def one_by_one(
    decode_step: DecodeStep,
    cache: Any,
    choose: Choose,
    *,
    batch_size: int,
    max_length: int,
    start_id: int,
    eos_id: int,
    pad_id: int,
) -> tuple[jax.Array, jax.Array]:
    """Makes one token a step until every row has ended; to be called under jit.

    Args:
      decode_step: the model's step, parameters bound.
      cache: the model's cache for at least max_length tokens.
      choose: picks the next tokens from the logits; a sampler folds `position` into its key.
      batch_size: rows.
      max_length: tokens to make at most.
      start_id: what the first step is fed.
      eos_id: ends a row; it is kept in the result.
      pad_id: fills a row after its end.

    Returns:
      tokens [batch, max_length] int32, without the start token, and scores [batch] float32: the
      log-probability of the row's tokens, the end included, in nats.
    """

    def unfinished(state: _State) -> jax.Array:
        return (state.position < max_length) & ~jnp.all(state.ended)

    def step(state: _State) -> _State:
        logits, cache = decode_step(state.cache, state.last)
        token = choose(logits, state.position)
        chosen = jnp.take_along_axis(logits, token[:, None], axis=-1)[:, 0]
        gain = chosen - jax.nn.logsumexp(logits, axis=-1)
        token = jnp.where(state.ended, pad_id, token)
        return _State(
            position=state.position + 1,
            last=token,
            ended=state.ended | (token == eos_id),
            tokens=lax.dynamic_update_slice(state.tokens, token[:, None], (0, state.position)),
            scores=state.scores + jnp.where(state.ended, 0.0, gain),
            cache=cache,
        )

    first = _State(
        position=jnp.zeros((), jnp.int32),
        last=jnp.full((batch_size,), start_id, jnp.int32),
        ended=jnp.zeros((batch_size,), bool),
        tokens=jnp.full((batch_size, max_length), pad_id, jnp.int32),
        scores=jnp.zeros((batch_size,), jnp.float32),
        cache=cache,
    )
    last = lax.while_loop(unfinished, step, first)
    return last.tokens, last.scores
