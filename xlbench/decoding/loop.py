"""The loops over tokens that a batch goes through, one after the other.

A step computes every example that it is given, complete or not, and reads all that its cache has
room for. So the loop is compiled several times. As soon as the examples whose texts still grow are
few enough for the next number, they go on alone: a text depends on its own example only, so that it
is the same whichever examples have left. Before that, on one CPU, the cache has room for as many
tokens as a loop makes, and grows between two loops.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.decoding.rules import Rules
from xlbench.parallel import partitioning
from xlbench.system.trees import Params

# Operations of a whole loop, from which on one for fewer examples is worth its compilation.
WORTH_A_LOOP = 2e10
# Bytes of keys and values that steps with a short cache do not read, from which on a loop for them
# is worth its compilation.
WORTH_A_CACHE = 5e8

Cache = dict[str, Any]  # A model's: arrays, or lists of what each layer has.
Texts = TypeVar('Texts')  # A tree of arrays [examples, ...].
# (cache, tokens [rows]) -> (logits [rows, vocab], cache)
DecodeStep = Callable[[Cache, jax.Array], tuple[jax.Array, Cache]]


class State(NamedTuple, Generic[Texts]):
    """State that a step reads and returns."""

    position: jax.Array  # [], tokens made so far
    examples: jax.Array  # [n] int32, which examples of the batch are here
    texts: Texts  # of these
    cache: Cache  # of these, the model's


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch of examples whose texts are to be made, and the loops that it goes through.

    Attributes:
      lengths: ascending numbers of tokens, below those of a whole text; after each of them, the
        cache gets more room.
      sizes: descending numbers of examples, below the batch's; when no more than such a number
        still grow, the others leave.
    """

    apply: Callable[..., Any]  # the model's, parameters bound; `lengths` and `sizes` need it
    step: DecodeStep  # of the model, likewise
    cache: Cache  # before the first token, for all hypotheses and max_length tokens
    rules: Rules  # of the texts, with the options
    start_ids: jax.Array  # [batch], what the first step is fed
    pad_id: int  # fills a text after its end
    empty: jax.Array  # [batch], True for examples of padding, which are not waited for
    lengths: Sequence[int] = ()
    sizes: Sequence[int] = ()
    fixed: Collection[str] = ()  # names of the entries of the cache that no step changes

    def begun(self, count: int) -> jax.Array:
        """Texts [batch, count, 1 + max_length] int32 that have their start token alone."""
        shape = (len(self.empty), count, 1 + self.rules.options.max_length)
        tokens = jnp.full(shape, self.pad_id, jnp.int32)
        return tokens.at[..., 0].set(self.start_ids[:, None])


def sizes(params: Params, batch_size: int, tokens: int) -> list[int]:
    """Numbers of examples for `Batch`: halves of a batch, as long as that is worth compiling.

    All texts of an example have `tokens` at most. None where several devices share the rows: each
    has rows of its own, and those that are complete on one would free nothing on the others.
    """
    if partitioning.active(*partitioning.ROW_AXES) > 1:
        return []
    leaves = jax.tree_util.tree_leaves_with_path(params)
    weights = sum(leaf.size for path, leaf in leaves if path[0].key != 'encoder')
    halves = [batch_size >> i for i in range(1, batch_size.bit_length())]
    return [size for size in halves if 2 * weights * size * tokens >= WORTH_A_LOOP]


def lengths(cache: Cache, max_length: int) -> list[int]:
    """Numbers of tokens for `Batch`: halves of a text, as long as that is worth compiling.

    The model's cache has room for max_length tokens. None but on one CPU: elsewhere it was not
    measured what they save, and what memory they need.
    """
    if jax.default_backend() != 'cpu' or jax.sharding.get_abstract_mesh().size > 1:
        return []
    if 'self' not in cache or 'origin' not in cache:
        return []  # The cache of a model of the user's own, which knows no `resize`.
    values = [layer['value'] for layer in cache['self']]  # [batch, heads, places, features]
    of_a_place = 2 * sum(x.size // x.shape[2] * x.dtype.itemsize for x in values)
    of_a_token = cache['origin'].shape[1] * of_a_place
    halves = [max_length >> i for i in range(1, max_length.bit_length())]
    # The first n steps each leave n tokens unread.
    return [n for n in halves if n**2 * of_a_token >= WORTH_A_CACHE][::-1]


def grow(
    step: Callable[[State[Texts]], State[Texts]],
    growing: Callable[[Texts], jax.Array],  # [examples], whether a text of each still grows
    texts: Texts,  # of the batch, before the first token
    batch: Batch,
) -> tuple[Texts, jax.Array]:
    """Makes a token a step, until no text grows any more; to be called under jit.

    A step counts the position and leaves the examples as they are.

    Returns:
      The texts of the batch, and the number of steps [].
    """
    max_length = batch.rules.options.max_length

    def goes_on(state: State[Texts], length: int = max_length, above: int = 0) -> jax.Array:
        return (state.position < length) & (jnp.sum(growing(state.texts)) > above)

    def run(
        state: State[Texts], lengths: Sequence[int], sizes: Sequence[int]
    ) -> tuple[Texts, jax.Array]:
        """The texts of all examples in the state after the last step, and the number of steps."""
        length, size = (*lengths, max_length)[0], (*sizes, 0)[0]
        # What a loop carries on and reads later, XLA copies at its beginning.
        kept = {name: state.cache[name] for name in batch.fixed if name in state.cache}

        def without(state: State[Texts]) -> State[Texts]:
            if not kept:
                return state
            cache = {name: x for name, x in state.cache.items() if name not in kept}
            return state._replace(cache=cache)

        def with_kept(state: State[Texts]) -> State[Texts]:
            return state._replace(cache=state.cache | kept) if kept else state

        state = lax.while_loop(
            lambda state: goes_on(state, length, size),
            lambda state: without(step(with_kept(state))),
            without(state),
        )

        def leave(state: State[Texts]) -> tuple[Texts, jax.Array]:
            # Those that grow, and others where they are fewer.
            index = jnp.argsort(~growing(state.texts), stable=True)[:size]
            examples, part = rows((state.examples, state.texts), index)
            cache = batch.apply(with_kept(state).cache, index, method='take_examples')
            part, position = run(State(state.position, examples, part, cache), (), sizes[1:])
            whole = jax.tree.map(lambda x, new: x.at[index].set(new), state.texts, part)
            return whole, position

        if lengths:  # Even if no text grows: under a condition, XLA would copy what is kept.
            room = (*lengths[1:], max_length)[0]
            cache = batch.apply(with_kept(state).cache, room, method='resize')
            return run(state._replace(cache=cache), lengths[1:], sizes)
        if sizes:
            return lax.cond(goes_on(state), leave, lambda s: (s.texts, s.position), state)
        return state.texts, state.position

    cache = batch.cache
    if batch.lengths:
        cache = batch.apply(cache, batch.lengths[0], method='resize')
    state = State(jnp.zeros((), jnp.int32), jnp.arange(len(batch.empty)), texts, cache)
    return run(state, batch.lengths, batch.sizes)


def rows(tree: Texts, index: jax.Array) -> Texts:
    """Arrays [n, ...] at index [m] -> [m, ...]."""
    return jax.tree.map(lambda x: x.at[index].get(mode='promise_in_bounds'), tree)
