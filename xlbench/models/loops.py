"""Stacks of equal layers: as a loop, or recomputed in the backward pass.

Each layer has parameters of its own, under its own name, wherever they are kept. A loop reads them
from arrays that have the layers as their leading axis, and that are put together at the start of
each run: a copy of the parameters, in exchange for which one round of layers is compiled for all.
"""

import itertools
from collections.abc import Sequence
from typing import TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models.dense import IN_LOOP, KEPT
from xlbench.system import work
from xlbench.trees import Params, Tree

REMAT = {
    'full': jax.checkpoint_policies.nothing_saveable,
    # By name: a policy that looks for products does not see into one with a gradient of its own.
    'dots': jax.checkpoint_policies.save_only_these_names(KEPT),
}
_Arguments: TypeAlias = tuple[Tree[jax.Array] | bool | None, ...]


def checkpointed(layer: type[nn.Module], remat: str, train_argument: int) -> type[nn.Module]:
    """The layer, recomputed in the backward pass as `remat` says ('none', 'dots', 'full').

    Args:
      layer: called with positional arguments only.
      remat: 'none' keeps everything, 'dots' recomputes all but products, 'full' everything.
      train_argument: which argument of the call (self is 0) is the Python bool `train`.
    """
    if remat == 'none':
        return layer
    return nn.remat(layer, policy=REMAT[remat], prevent_cse=True, static_argnums=(train_argument,))


def run(
    layers: Sequence[nn.Module], per_round: int, x: jax.Array, arguments: _Arguments
) -> jax.Array:
    """layer(x, *arguments) for each layer in turn, x being what the one before gave.

    Layers whose parameters are alike (LoRA may have adapted only some) form loops; what makes less
    than two rounds does not. Dropout draws other masks than without loops.

    Args:
      layers: bound, of one class.
      per_round: layers of a round of a loop; 0: no loops.
      x: what the first layer reads; every layer keeps its shape and type.
      arguments: what all layers read, the same.
    """
    if not per_round or not layers or layers[0].is_initializing():
        return _in_turn(layers, x, arguments)
    for _, alike in itertools.groupby(layers, _form):
        alike = list(alike)
        rounds = len(alike) // per_round
        looped = alike[: rounds * per_round] if rounds > 1 else []
        if looped:
            x = _loop(looped, per_round, x, arguments)
        x = _in_turn(alike[len(looped) :], x, arguments)
    return x


def _in_turn(layers: Sequence[nn.Module], x: jax.Array, arguments: _Arguments) -> jax.Array:
    for layer in layers:
        x = layer(x, *arguments)
    return x


def _form(layer: nn.Module) -> tuple:
    """Equal for layers whose parameters can lie in one array each."""
    leaves, structure = jax.tree.flatten(layer.variables['params'])
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _loop(
    layers: Sequence[nn.Module], per_round: int, x: jax.Array, arguments: _Arguments
) -> jax.Array:
    module = layers[0].clone(parent=None)
    of_layers = [(layer.variables['params'], _rngs(layer)) for layer in layers]
    # The layers that come first in a round, those that come second, ...
    of_rounds = [
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *of_layers[place::per_round])
        for place in range(per_round)
    ]

    def one_round(x: jax.Array, of_round: list[tuple[Params, dict[str, jax.Array]]]):
        for params, rngs in of_round:
            with work.setting(IN_LOOP, True):
                x = module.apply({'params': params}, x, *arguments, rngs=rngs)
        return x, None

    return jax.lax.scan(one_round, x, of_rounds)[0]


def _rngs(layer: nn.Module) -> dict[str, jax.Array]:
    """A key of a bound layer's own for its dropout, another one each time that it is run."""
    return {'dropout': layer.make_rng('dropout')} if layer.has_rng('dropout') else {}
