"""Decoding without branches, a token a step and row; greedy takes the largest logit."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.decoding import loop, top
from xlbench.decoding.loop import Cache

# (cache, tokens [rows]) -> (logits [rows, vocab], cache)
DecodeStep = Callable[[Cache, jax.Array], tuple[jax.Array, Cache]]
# (logits [rows, vocab], tokens [rows, 1 + max_length] with the start token, tokens so far [],
#   examples [n], of rows that lie side by side) -> the next token of each row [rows]
Choose = Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array]


class _Texts(NamedTuple):
    ended: jax.Array  # [examples, texts], True where the end of the text has been made
    tokens: jax.Array  # [examples, texts, 1 + max_length], the start token first
    scores: jax.Array  # [examples, texts], log-probability of the text so far, in nats


def begun(
    shape: Sequence[int], max_length: int, start_id: jax.Array | int, pad_id: int
) -> jax.Array:
    """Texts [*shape, 1 + max_length] int32 that have their start token alone; it broadcasts."""
    tokens = jnp.full((*shape, 1 + max_length), pad_id, jnp.int32)
    return tokens.at[..., 0].set(start_id)


def likeliest(
    logits: jax.Array, tokens: jax.Array, position: jax.Array, examples: jax.Array
) -> jax.Array:
    """Chooses the token with the largest logit in each row."""
    del tokens, position, examples
    return top.top_k(logits, 1).ids[:, 0]


def one_by_one(
    decode_step: DecodeStep,
    cache: Cache,
    choose: Choose = likeliest,
    *,
    batch_size: int,
    max_length: int,
    start_id: jax.Array | int,
    eos_id: int,
    pad_id: int,
    empty: jax.Array | None = None,
    num_texts: int = 1,
    loops: loop.Loops = loop.ONE,
) -> tuple[jax.Array, jax.Array]:
    """Makes one token a step until every text has ended; to be called under jit.

    Args:
      decode_step: the model's step, parameters bound.
      cache: the model's cache for at least max_length tokens.
      choose: picks the next tokens; a sampler folds the number of tokens so far into its key.
      batch_size: examples.
      max_length: tokens to make at most.
      start_id: what the first step is fed, the same for all examples or [batch].
      eos_id: ends a text; it is kept in the result.
      pad_id: fills a text after its end.
      empty: [batch], True for examples of padding, which get no text and are not waited for.
      num_texts: of each example; they are rows of a step side by side.
      loops: that the batch goes through.

    Returns:
      tokens [batch, num_texts, max_length] int32, without the start token, and scores [batch,
      num_texts] float32: the log-probability of the text's tokens, the end included, in nats.
    """

    def step(state: loop.State[_Texts]) -> loop.State[_Texts]:
        ended, tokens, scores = state.texts
        by_row = tokens.reshape(-1, 1 + max_length)
        last = lax.dynamic_index_in_dim(by_row, state.position, 1, keepdims=False)
        logits, cache = decode_step(state.cache, last)
        token = choose(logits, by_row, state.position, state.examples)
        gain = top.at(logits, token[:, None])[:, 0] - top.logsumexp(logits)
        token, gain = (x.reshape(-1, num_texts) for x in (token, gain))
        token = jnp.where(ended, pad_id, token)
        place = (0, 0, state.position + 1)
        texts = _Texts(
            ended=ended | (token == eos_id),
            tokens=lax.dynamic_update_slice(tokens, token[:, :, None], place),
            scores=scores + jnp.where(ended, 0.0, gain),
        )
        return state._replace(position=state.position + 1, texts=texts, cache=cache)

    shape = (batch_size, num_texts)
    ended = jnp.zeros(shape, bool)
    first = _Texts(
        ended=ended if empty is None else ended | empty[:, None],
        tokens=begun(shape, max_length, jnp.reshape(start_id, (-1, 1)), pad_id),
        scores=jnp.zeros(shape, jnp.float32),
    )
    last, _ = loop.grow(
        step,
        lambda texts: ~jnp.all(texts.ended, axis=1),
        first,
        cache,
        max_length=max_length,
        loops=loops,
    )
    return last.tokens[:, :, 1:], last.scores
