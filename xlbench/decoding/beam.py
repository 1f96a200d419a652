"""Beam search, and diverse beam search (arXiv:1610.02424), as one compiled loop.

The texts are those of transformers' `generate`, token for token: of its version 5 for plain beams;
for diverse ones of its version 4, the last that has them, where the beams at the end are counted
differently (see `_advance`). What is always so:

  - of each example the 2 * width best continuations of all its beams are looked at; those that end
    may enter the pool of finished texts if they are among the first `width`, the best `width` of
    the others run on;
  - the pool holds the `width` best scores, log-probability / length^length_penalty, where the
    length counts the end;
  - an example is closed, and its pool stays as it is, when `Options.early_stopping` says so.
"""

import functools
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.decoding import loop, top
from xlbench.decoding.rules import Rules
from xlbench.settings.decoding import Options

# The score of what is not there: below every real one, and finite, because it is added to.
_NONE = -1e9

_Tree = TypeVar('_Tree')


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


_State = loop.State[tuple[_Group, ...]]


class _Continued(NamedTuple):
    """Continuations of a group's beams by one token."""

    texts: _Texts
    parent: jax.Array  # [batch, n], the beam that each continues
    token: jax.Array  # [batch, n], what each adds


def take(tree: _Tree, index: jax.Array) -> _Tree:
    """Arrays [batch, n, ...] at index [batch, m] -> [batch, m, ...]."""
    return jax.tree.map(
        lambda x: jax.vmap(lambda row, at: row.at[at].get(mode='promise_in_bounds'))(x, index), tree
    )


def _best(texts: _Tree, scores: jax.Array, count: int) -> _Tree:
    return take(texts, lax.top_k(scores, count)[1])


def _join(*texts: _Tree) -> _Tree:
    return jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *texts)


def beam_search(batch: loop.Batch) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Finds the best texts of each example; to be called under jit.

    Of the cache only cache['origin'] [batch, beams, ...] follows when hypotheses change places.

    Returns:
      tokens [batch, num_return, max_length] int32, scores and log_probabilities [batch, num_return]
      float32, best first.
    """
    options = batch.rules.options
    width = options.num_beams // options.num_groups
    tokens, shape = batch.begun(width), (len(batch.empty), width)
    none, zeros = jnp.full(shape, _NONE, jnp.float32), jnp.zeros(shape, jnp.float32)
    group = _Group(
        # Only the first beam counts at first, or all would say the same.
        running=_Texts(tokens, none.at[:, 0].set(0.0), zeros),
        pool=_Texts(tokens, none, zeros),
        finished=jnp.zeros(shape, bool),
        closed=batch.empty,
    )
    step = functools.partial(_step, batch)
    groups, length = loop.grow(step, _growing, (group,) * options.num_groups, batch)
    if options.method == 'diverse_beam':  # Texts that have not ended compete, too.
        every = jnp.ones(shape, bool)
        groups = tuple(_enter(options, group, group.running, every, length) for group in groups)
    pools = _join(*(group.pool for group in groups))
    texts = _best(pools, pools.scores, options.num_return)
    return texts.tokens[:, :, 1:], texts.scores, texts.log_probabilities


def _growing(groups: tuple[_Group, ...]) -> jax.Array:
    """[batch], whether any pool of an example may change still."""
    return ~functools.reduce(jnp.logical_and, (group.closed for group in groups))


def _step(batch: loop.Batch, state: _State) -> _State:
    """The state one token later."""
    groups, count = state.texts, len(state.examples)
    width = groups[0].finished.shape[1]
    tokens = jnp.concatenate([group.running.tokens for group in groups], axis=1)
    last = lax.dynamic_index_in_dim(tokens, state.position, 2, keepdims=False)
    logits, cache = batch.step(state.cache, last.reshape(-1))
    rules = batch.rules.of(state.examples, width)
    advanced, parents, said = [], [], list[jax.Array]()
    by_group = logits.reshape(count, len(groups), width, -1)
    for i, group in enumerate(groups):
        group_logits = by_group[:, i].reshape(count * width, -1)
        group, parent, token = _advance(group, group_logits, said, rules, state.position)
        if rules.options.method == 'diverse_beam':
            token = jnp.where(groups[i].closed[:, None], batch.pad_id, token)
        advanced.append(group)
        parents.append(parent + i * width)
        said.append(token)
    origin = take(cache['origin'], jnp.concatenate(parents, axis=1))
    return state._replace(
        position=state.position + 1, texts=tuple(advanced), cache=cache | {'origin': origin}
    )


def _advance(
    group: _Group,
    logits: jax.Array,  # [batch * width, vocab]
    said: list[jax.Array],  # [batch, width] each, what the groups before say at this step
    rules: Rules,  # of the rows
    position: jax.Array,  # []
) -> tuple[_Group, jax.Array, jax.Array]:  # ..., [batch, width], [batch, width]
    """The group one token later, the beam that each continues, and what each says."""
    options, closed = rules.options, group.closed
    diverse = options.method == 'diverse_beam'
    continued = _continuations(group, logits, said, rules, position)
    texts, width, length = continued.texts, group.finished.shape[1], position + 1
    ends = continued.token == rules.eos_id
    if not diverse:
        ends = ends | (length == options.max_length)
    group = _enter(options, group, texts, ends & (jnp.arange(2 * width) < width), length)
    scores = texts.scores + jnp.where(ends, _NONE, 0.0)
    continued = continued._replace(texts=texts._replace(scores=scores))
    running, parent, token = _best(continued, scores, width)
    # What running beams may still reach; diverse ones count those that have just ended, too.
    best = texts.scores[:, 0] if diverse else running.scores[:, 0]
    # The pool is closed where it is full and, as early_stopping has it, good enough.
    hopeful = options.hopeful & (jnp.asarray(options.length_penalty) > 0)
    longest = jnp.where(hopeful, options.max_length, length).astype(jnp.float32)
    hopeless = best / longest**options.length_penalty <= jnp.min(group.pool.scores, axis=1)
    enough = jnp.all(group.finished, axis=1) & (options.eager | hopeless)
    return group._replace(running=running, closed=closed | enough), parent, token


def _continuations(
    group: _Group, logits: jax.Array, said: list[jax.Array], rules: Rules, position: jax.Array
) -> _Continued:
    """The 2 * width best continuations; arguments as in `_advance`."""
    size, width = group.finished.shape
    zero, penalty = top.logsumexp(logits), rules.options.diversity_penalty
    changed = logits
    if said and penalty:  # Lower for each token that a group before takes at this step.
        repeated = jnp.repeat(jnp.concatenate(said, axis=1), width, axis=0)
        changed = logits.at[jnp.arange(len(repeated))[:, None], repeated].add(-penalty)
    tokens = group.running.tokens.reshape(size * width, -1)
    changed = rules.by_history(changed, zero, tokens, position)
    count = min(2 * width, logits.shape[1])
    likeliest = top.top_k(changed, count, rules.by_id(zero, position))
    gains = (likeliest.values, top.at(logits, likeliest.ids))
    scores, log_probabilities = (
        (past[:, :, None] + (gain - zero[:, None]).reshape(size, width, -1)).reshape(size, -1)
        for past, gain in zip(group.running[1:], gains, strict=True)
    )
    scores, chosen = lax.top_k(scores, 2 * width)
    parent = chosen // count
    token = take(likeliest.ids.reshape(size, -1), chosen)
    tokens = take(group.running.tokens, parent)
    tokens = lax.dynamic_update_slice(tokens, token[:, :, None], (0, 0, position + 1))
    return _Continued(_Texts(tokens, scores, take(log_probabilities, chosen)), parent, token)


def _enter(
    options: Options, group: _Group, texts: _Texts, eligible: jax.Array, length: jax.Array
) -> _Group:
    """The group with the eligible texts in its pool, where they are among the best."""
    scores = texts.scores / length.astype(jnp.float32) ** options.length_penalty
    eligible = eligible & ~group.closed[:, None]
    texts = texts._replace(scores=jnp.where(eligible, scores, -jnp.inf))
    both = _join((group.pool, group.finished), (texts, eligible))
    pool, finished = _best(both, both[0].scores, group.finished.shape[1])
    return group._replace(pool=pool, finished=finished)
