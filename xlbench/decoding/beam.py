"""Beam search, and diverse beam search (arXiv:1610.02424), as one compiled loop.

The texts are those of transformers' `generate`, token for token: of its version 5 for plain beams;
for diverse ones of its version 4, the last that has them, where the beams at the end are counted
differently (see `_Search.advance`). What is always so:

  - of each example the 2 * width best continuations of all its beams are looked at; those that end
    may enter the pool of finished texts if they are among the first `width`, the best `width` of
    the others run on;
  - the pool holds the `width` best scores, log-probability / length^length_penalty, where the
    length counts the end;
  - an example is closed, and its pool stays as it is, when `Options.early_stopping` says so.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.decoding import loop, top
from xlbench.decoding.loop import Cache, DecodeStep, begun
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


def beam_search(
    decode_step: DecodeStep,
    cache: Cache,
    options: Options,
    rules: Rules,
    *,
    batch_size: int,
    start_id: jax.Array | int,
    pad_id: int,
    empty: jax.Array,
    loops: loop.Loops = loop.ONE,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Finds the best texts of each example; to be called under jit.

    Args:
      decode_step: the model's step, parameters bound.
      cache: the model's cache for batch_size * num_beams rows and max_length tokens; of it only
        cache['origin'] [batch, beams, ...] follows when hypotheses change places.
      options: see there.
      rules: of the batch.
      batch_size: examples.
      start_id: what the first step is fed, the same for all examples or [batch].
      pad_id: fills a row after its end.
      empty: [batch], True for examples of padding, which are not waited for.
      loops: that the batch goes through.

    Returns:
      tokens [batch, num_return, max_length] int32, scores and log_probabilities [batch, num_return]
      float32, best first.
    """
    search = _Search(decode_step, options, rules, pad_id)
    groups, position = loop.grow(
        search.step,
        search.growing,
        search.first_groups(batch_size, start_id, empty),
        cache,
        max_length=options.max_length,
        loops=loops,
    )
    return search.results(groups, position)


@dataclasses.dataclass(frozen=True)
class _Search:
    """The steps of one search; `step` makes a token of every hypothesis.

    Attributes:
      decode_step, options, rules, pad_id: see `beam_search`.
    """

    decode_step: DecodeStep
    options: Options
    rules: Rules
    pad_id: int

    @property
    def diverse(self) -> bool:
        """True if groups of beams keep away from each other."""
        return self.options.method == 'diverse_beam'

    @property
    def width(self) -> int:
        """Beams of a group."""
        return self.options.num_beams // self.options.num_groups

    def first_groups(
        self, batch_size: int, start_id: jax.Array | int, empty: jax.Array
    ) -> tuple[_Group, ...]:
        """The groups before the first token; arguments as in `beam_search`."""
        shape = (batch_size, self.width)
        start_ids = jnp.reshape(start_id, (-1, 1))
        tokens = begun(shape, self.options.max_length, start_ids, self.pad_id)
        none = jnp.full(shape, _NONE, jnp.float32)
        zeros = jnp.zeros(shape, jnp.float32)
        group = _Group(
            # Only the first beam counts at first, or all would say the same.
            running=_Texts(tokens, none.at[:, 0].set(0.0), zeros),
            pool=_Texts(tokens, none, zeros),
            finished=jnp.zeros(shape, bool),
            closed=empty,
        )
        return (group,) * self.options.num_groups

    def growing(self, groups: tuple[_Group, ...]) -> jax.Array:
        """[batch], whether any pool of an example may change still."""
        return ~functools.reduce(jnp.logical_and, (group.closed for group in groups))

    def step(self, state: _State) -> _State:
        """The state one token later."""
        groups, count = state.texts, len(state.examples)
        tokens = jnp.concatenate([group.running.tokens for group in groups], axis=1)
        last = lax.dynamic_index_in_dim(tokens, state.position, 2, keepdims=False)
        logits, cache = self.decode_step(state.cache, last.reshape(-1))
        rules = self.rules.of(state.examples, self.width)
        advanced, parents, said = [], [], list[jax.Array]()
        by_group = logits.reshape(count, len(groups), self.width, -1)
        for i, group in enumerate(groups):
            group_logits = by_group[:, i].reshape(count * self.width, -1)
            group, parent, token = self.advance(group, group_logits, said, rules, state.position)
            advanced.append(group)
            parents.append(parent + i * self.width)
            said.append(token)
        origin = take(cache['origin'], jnp.concatenate(parents, axis=1))
        return state._replace(
            position=state.position + 1, texts=tuple(advanced), cache=cache | {'origin': origin}
        )

    def advance(
        self,
        group: _Group,
        logits: jax.Array,  # [batch * width, vocab]
        said: list[jax.Array],  # [batch, width] each, what the groups before say at this step
        rules: Rules,  # of the rows
        position: jax.Array,  # []
    ) -> tuple[_Group, jax.Array, jax.Array]:  # ..., [batch, width], [batch, width]
        """The group one token later, the beam that each continues, and what each says."""
        continued = self.continuations(group, logits, said, rules, position)
        texts, width, length = continued.texts, self.width, position + 1
        ends = continued.token == self.rules.eos_id
        if not self.diverse:
            ends = ends | (length == self.options.max_length)
        closed = group.closed
        group = self.enter(group, texts, ends & (jnp.arange(2 * width) < width), length)
        scores = texts.scores + jnp.where(ends, _NONE, 0.0)
        continued = continued._replace(texts=texts._replace(scores=scores))
        running, parent, token = _best(continued, scores, width)
        # What running beams may still reach; diverse ones count those that have just ended, too.
        best = texts.scores[:, 0] if self.diverse else running.scores[:, 0]
        token = jnp.where(closed[:, None] & self.diverse, self.pad_id, token)
        group = group._replace(running=running, closed=self.closing(group, best, length))
        return group, parent, token

    def continuations(
        self,
        group: _Group,
        logits: jax.Array,
        said: list[jax.Array],
        rules: Rules,
        position: jax.Array,
    ) -> _Continued:
        """The 2 * width best continuations; arguments as in `advance`."""
        size, width = len(group.closed), self.width
        zero = top.logsumexp(logits)
        changed = self.penalised(logits, said)
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

    def penalised(self, logits: jax.Array, said: list[jax.Array]) -> jax.Array:
        """The logits, lower for each token that a group before takes at this step."""
        if not said or not self.options.diversity_penalty:
            return logits
        repeated = jnp.repeat(jnp.concatenate(said, axis=1), self.width, axis=0)
        rows = jnp.arange(len(repeated))[:, None]
        return logits.at[rows, repeated].add(-self.options.diversity_penalty)

    def enter(self, group: _Group, texts: _Texts, eligible: jax.Array, length: jax.Array) -> _Group:
        """The group with the eligible texts in its pool, where they are among the best."""
        scores = texts.scores / length.astype(jnp.float32) ** self.options.length_penalty
        eligible = eligible & ~group.closed[:, None]
        texts = texts._replace(scores=jnp.where(eligible, scores, -jnp.inf))
        both = _join((group.pool, group.finished), (texts, eligible))
        pool, finished = _best(both, both[0].scores, self.width)
        return group._replace(pool=pool, finished=finished)

    def closing(self, group: _Group, best: jax.Array, length: jax.Array) -> jax.Array:
        """[batch], where the pool is full and, as early_stopping has it, good enough."""
        options = self.options
        full = jnp.all(group.finished, axis=1)
        hopeful = options.hopeful & (jnp.asarray(options.length_penalty) > 0)
        length = jnp.where(hopeful, options.max_length, length).astype(jnp.float32)
        reach = best / length**options.length_penalty
        hopeless = reach <= jnp.min(group.pool.scores, axis=1)
        return group.closed | (full & (options.eager | hopeless))

    def results(
        self, groups: Sequence[_Group], length: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Tokens, scores and log-probabilities of the best texts; see `beam_search`."""
        if self.diverse:  # Texts that have not ended compete, too; max_length ends them.
            every = jnp.ones_like(groups[0].finished)
            groups = [self.enter(group, group.running, every, length) for group in groups]
        pools = _join(*(group.pool for group in groups))
        texts = _best(pools, pools.scores, self.options.num_return)
        return texts.tokens[:, :, 1:], texts.scores, texts.log_probabilities
