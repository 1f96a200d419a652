"""The loop over tokens, which examples leave when their texts are complete.

A step computes every example that it is given, complete or not. So the loop is compiled for several
numbers of examples, one after the other: as soon as those whose texts still grow are few enough for
the next number, they go on alone. A text depends on its own example only, so that it is the same
whichever examples have left.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from xlbench.parallel import partitioning
from xlbench.trees import Arrays, Params

# Operations of a whole loop, from which on one for fewer examples is worth its compilation.
WORTH_A_LOOP = 2e10

Texts = TypeVar('Texts')  # A tree of arrays [examples, ...].
# (the model's cache, examples [m]) -> the cache of those examples
Take = Callable[[Arrays, jax.Array], Arrays]


class State(NamedTuple, Generic[Texts]):
    """What a step reads and returns.

    Attributes:
      position: [], tokens made so far.
      examples: [n] int32, which examples of the batch are here.
      texts: of these.
      cache: of these, the model's.
    """

    position: jax.Array
    examples: jax.Array
    texts: Texts
    cache: Arrays


def sizes(params: Params, batch_size: int, tokens: int) -> list[int]:
    """Numbers of examples for `grow`: halves of a batch, as long as that is worth compiling.

    None where several devices share the rows: each has rows of its own, and those that are complete
    on one would free nothing on the others.

    Args:
      params: of the model.
      batch_size: examples.
      tokens: of all texts of an example, at most.
    """
    if partitioning.active(*partitioning.ROW_AXES) > 1:
        return []
    leaves = jax.tree_util.tree_leaves_with_path(params)
    weights = sum(leaf.size for path, leaf in leaves if path[0].key != 'encoder')
    halves = [batch_size >> i for i in range(1, batch_size.bit_length())]
    return [size for size in halves if 2 * weights * size * tokens >= WORTH_A_LOOP]


def grow(
    step: Callable[[State[Texts]], State[Texts]],
    growing: Callable[[Texts], jax.Array],
    texts: Texts,
    cache: Arrays,
    *,
    max_length: int,
    sizes: Sequence[int] = (),
    take: Take | None = None,
    fixed: Collection[str] = (),
) -> tuple[Texts, jax.Array]:
    """Makes a token a step until no text grows; to be called under jit.

    Args:
      step: makes the next token of every text.
      growing: from texts [n, ...] to [n], whether an example's still grow.
      texts: of the batch, before the first token.
      cache: the model's for the batch.
      max_length: tokens to make at most.
      sizes: descending numbers of examples, below the batch's; when no more than such a number
        still grow, the others leave.
      take: gives the cache of some examples; needed where there are sizes.
      fixed: names in the cache of what no step changes.

    Returns:
      The texts of the batch, and the number of steps [].
    """

    def goes_on(state: State[Texts], above: int = 0) -> jax.Array:
        return (state.position < max_length) & (jnp.sum(growing(state.texts)) > above)

    def run(state: State[Texts], sizes: Sequence[int]) -> tuple[Texts, jax.Array]:
        """The texts of all examples in the state after the last step, and the number of steps."""
        size = sizes[0] if sizes else 0
        # What a loop carries on and reads later, XLA copies at its beginning.
        kept = {name: state.cache[name] for name in fixed if name in state.cache}

        def without(state: State[Texts]) -> State[Texts]:
            if not kept:
                return state
            cache = {name: x for name, x in state.cache.items() if name not in kept}
            return state._replace(cache=cache)

        def with_kept(state: State[Texts]) -> State[Texts]:
            return state._replace(cache=state.cache | kept) if kept else state

        state = lax.while_loop(
            lambda state: goes_on(state, size),
            lambda state: without(step(with_kept(state))),
            without(state),
        )

        def stay(state: State[Texts]) -> tuple[Texts, jax.Array]:
            return state.texts, state.position

        def leave(state: State[Texts]) -> tuple[Texts, jax.Array]:
            # Those that grow, and others where they are fewer.
            index = jnp.argsort(~growing(state.texts), stable=True)[:size]
            examples, part = rows((state.examples, state.texts), index)
            part = State(state.position, examples, part, take(with_kept(state).cache, index))
            part, position = run(part, sizes[1:])
            whole = jax.tree.map(lambda x, new: x.at[index].set(new), state.texts, part)
            return whole, position

        return lax.cond(goes_on(state), leave, stay, state) if size else stay(state)

    batch = len(jax.tree.leaves(texts)[0])
    return run(State(jnp.zeros((), jnp.int32), jnp.arange(batch), texts, cache), sizes)


def rows(tree: Texts, index: jax.Array) -> Texts:
    """Arrays [n, ...] at index [m] -> [m, ...]."""
    return jax.tree.map(lambda x: x.at[index].get(mode='promise_in_bounds'), tree)
