"""Beam search, and diverse beam search (arXiv:1610.02424), as one compiled loop.

The texts are those of transformers' `generate`, token for token: of its version 5 for plain beams;
for diverse ones of its version 4, the last that has them, where the beams at the end are counted
differently (see `_Group.closing`). What is always so:

  - of each example the 2 * width best continuations of all its beams are looked at; those that end
    may enter the pool of finished texts if they are among the first `width`, the best `width` of
    the others run on;
  - the pool holds the `width` best scores, log-probability / length^length_penalty, where the
    length counts the end;
  - an example is closed, and its pool stays as it is, when `Options.early_stopping` says so.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.config.decoding import Options
from xlbench.decoding import top
from xlbench.decoding.greedy import DecodeStep
from xlbench.decoding.rules import Rules

# The score of what is not there: below every real one, and finite, because it is added to.
_NONE = -1e9


class _Texts(NamedTuple):
    """Hypotheses of each example."""

    tokens: jax.Array  # [batch, n, 1 + max_length], the start token first
    scores: jax.Array  # [batch, n]
    log_probabilities: jax.Array  # [batch, n], under the model alone, in nats


class _Group(NamedTuple):
    """Beams that compete with each other; plain beam search has one group."""

    running: _Texts  # [batch, width], best first; scores are summed log-probabilities
    pool: _Texts  # [batch, width], finished, best first; scores have the length penalty
    finished: jax.Array  # [batch, width], True where the pool holds a text
    closed: jax.Array  # [batch], True where the pool does not change any more


class _State(NamedTuple):
    position: jax.Array  # [], tokens made so far
    groups: tuple[_Group, ...]
    cache: Any


def take(tree: Any, index: jax.Array) -> Any:
    """Arrays [batch, n, ...] at index [batch, m] -> [batch, m, ...]."""
    return jax.tree.map(
        lambda x: jax.vmap(lambda row, at: row.at[at].get(mode='promise_in_bounds'))(x, index), tree
    )


def _best(texts: Any, scores: jax.Array, count: int) -> Any:
    return take(texts, lax.top_k(scores, count)[1])


def _join(*texts: Any) -> Any:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *texts)


def beam_search(
    decode_step: DecodeStep,
    cache: Any,
    options: Options,
    rules: Rules,
    *,
    batch_size: int,
    start_id: int,
    pad_id: int,
    empty: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The best texts of each example; to be called under jit.

    Args:
      decode_step: the model's step, parameters bound.
      cache: the model's cache for batch_size * num_beams rows and max_length tokens; of it only
        cache['origin'] [batch, beams, ...] follows when hypotheses change places.
      options: see there.
      rules: for one group's rows, batch_size * num_beams / num_groups.
      batch_size: examples.
      start_id: what the first step is fed.
      pad_id: fills a row after its end.
      empty: [batch], True for examples of padding, which are not waited for.

    Returns:
      tokens [batch, num_return, max_length] int32, scores and log_probabilities [batch, num_return]
      float32, best first.
    """
    diverse = options.method == 'diverse_beam'
    width = options.num_beams // options.num_groups
    max_length, eos_id = options.max_length, rules.eos_id

    def unfinished(state: _State) -> jax.Array:
        closed = functools.reduce(jnp.logical_and, (group.closed for group in state.groups))
        return (state.position < max_length) & ~jnp.all(closed)

    def candidates(group: _Group, logits: jax.Array, said: list, position: jax.Array):
        """The 2 * width best continuations, and the beam that each continues [batch, 2 * width]."""
        count = 2 * width
        zero = top.logsumexp(logits)
        tokens = group.running.tokens.reshape(batch_size * width, -1)
        changed = logits
        if said and options.diversity_penalty:
            repeated = jnp.repeat(jnp.concatenate(said, axis=1), width, axis=0)
            rows = jnp.arange(len(repeated))[:, None]
            changed = changed.at[rows, repeated].add(-options.diversity_penalty)
        changed = rules.by_history(changed, zero, tokens, position)
        found = top.top_k(changed, min(count, logits.shape[1]), rules.by_id(zero, position))
        gains = (found.values, top.at(logits, found.ids))
        sums = [
            past[:, :, None] + (gain - zero[:, None]).reshape(batch_size, width, -1)
            for past, gain in zip(group.running[1:], gains, strict=True)
        ]
        flat = [x.reshape(batch_size, -1) for x in (*sums, found.ids)]
        scores, chosen = lax.top_k(flat[0], count)
        parent = chosen // found.ids.shape[1]
        token = take(flat[2], chosen)
        tokens = take(group.running.tokens, parent)
        tokens = lax.dynamic_update_slice(tokens, token[:, :, None], (0, 0, position + 1))
        return _Texts(tokens, scores, take(flat[1], chosen)), parent, token

    def enter(group: _Group, texts: _Texts, eligible: jax.Array, length: jax.Array) -> _Group:
        """The group with the eligible texts in its pool, where they are among the best."""
        scores = texts.scores / length.astype(jnp.float32) ** options.length_penalty
        eligible = eligible & ~group.closed[:, None]
        texts = texts._replace(scores=jnp.where(eligible, scores, -jnp.inf))
        both = _join((group.pool, group.finished), (texts, eligible))
        pool, finished = _best(both, both[0].scores, width)
        return group._replace(pool=pool, finished=finished)

    def advance(group: _Group, logits: jax.Array, said: list, position: jax.Array):
        """The group one token later, the beam that each continues, and what each says."""
        texts, parent, token = candidates(group, logits, said, position)
        length = position + 1
        ends = token == eos_id
        if not diverse:
            ends = ends | (length == max_length)
        closed = group.closed
        group = enter(group, texts, ends & (jnp.arange(2 * width) < width), length)
        scores = texts.scores + jnp.where(ends, _NONE, 0.0)
        running, parent, token = _best(
            (texts._replace(scores=scores), parent, token), scores, width
        )
        # What running beams may still reach; diverse ones count those that have just ended, too.
        best = texts.scores[:, 0] if diverse else running.scores[:, 0]
        token = jnp.where(closed[:, None] & diverse, pad_id, token)
        group = group._replace(running=running, closed=closing(group, best, length))
        return group, parent, token

    def closing(group: _Group, best: jax.Array, length: jax.Array) -> jax.Array:
        """Where the pool is full and, as early_stopping has it, good enough."""
        full = jnp.all(group.finished, axis=1)
        hopeful = options.hopeful & (jnp.asarray(options.length_penalty) > 0)
        length = jnp.where(hopeful, max_length, length).astype(jnp.float32)
        reach = best / length**options.length_penalty
        hopeless = reach <= jnp.min(group.pool.scores, axis=1)
        return group.closed | (full & (options.eager | hopeless))

    def step(state: _State) -> _State:
        tokens = jnp.concatenate([group.running.tokens for group in state.groups], axis=1)
        last = lax.dynamic_index_in_dim(tokens, state.position, 2, keepdims=False)
        logits, cache = decode_step(state.cache, last.reshape(-1))
        groups, parents, said = [], [], []
        by_group = logits.reshape(batch_size, len(state.groups), width, -1)
        for i, group in enumerate(state.groups):
            its_logits = by_group[:, i].reshape(batch_size * width, -1)
            group, parent, token = advance(group, its_logits, said, state.position)
            groups.append(group)
            parents.append(parent + i * width)
            said.append(token)
        origin = take(cache['origin'], jnp.concatenate(parents, axis=1))
        return _State(state.position + 1, tuple(groups), cache | {'origin': origin})

    tokens = jnp.full((batch_size, width, 1 + max_length), pad_id, jnp.int32)
    tokens = tokens.at[:, :, 0].set(start_id)
    none = jnp.full((batch_size, width), _NONE, jnp.float32)
    zeros = jnp.zeros((batch_size, width), jnp.float32)
    # Only the first beam counts at first, or all would say the same.
    group = _Group(
        running=_Texts(tokens, none.at[:, 0].set(0.0), zeros),
        pool=_Texts(tokens, none, zeros),
        finished=jnp.zeros((batch_size, width), bool),
        closed=empty,
    )
    first = _State(jnp.zeros((), jnp.int32), (group,) * options.num_groups, cache)
    last = lax.while_loop(unfinished, step, first)
    groups = last.groups
    if diverse:  # Texts that have not ended compete, too; max_length ends them.
        every = jnp.ones((batch_size, width), bool)
        groups = [enter(group, group.running, every, last.position) for group in groups]
    pools = _join(*(group.pool for group in groups))
    texts = _best(pools, pools.scores, options.num_return)
    return texts.tokens[:, :, 1:], texts.scores, texts.log_probabilities
