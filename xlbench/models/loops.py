"""Stacks of equal layers: as a loop, or recomputed in the backward pass.

Each layer has parameters of its own, under its own name, wherever they are kept. A loop reads them
from arrays that have the layers as their leading axis, and that are put together at the start of
each run: a copy of the parameters, in exchange for which one round of layers is compiled for all.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import core
from flax.core.scope import LazyRng

from xlbench.models.dense import IN_LOOP, KEPT
from xlbench.system import work
from xlbench.trees import Params, Tree

REMAT = {
    'full': jax.checkpoint_policies.nothing_saveable,
    # By name: a policy that looks for products does not see into one with a gradient of its own.
    'dots': jax.checkpoint_policies.save_only_these_names(KEPT),
}
_RNG = 'dropout'
# Where a layer draws a dropout mask: the names of the modules down to it, and the how-manieth.
_Site: TypeAlias = tuple[str | int, ...]
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
    than two rounds does not. Dropout draws the masks that it draws without loops.

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
    sites = _sites(layers[0], module, x, arguments)
    drawn = [site for site in sites if site]
    of_layers = [
        (layer.variables['params'], [_key(layer, site) for site in drawn]) for layer in layers
    ]
    # The layers that come first in a round, those that come second, ...
    of_rounds = [
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *of_layers[place::per_round])
        for place in range(per_round)
    ]

    def one_round(x: jax.Array, of_round: list[tuple[Params, list[jax.Array]]]):
        for params, keys in of_round:
            with work.setting(IN_LOOP, True), nn.intercept_methods(_drawing(sites, keys)):
                x = module.apply({'params': params}, x, *arguments)
        return x, None

    return jax.lax.scan(one_round, x, of_rounds)[0]


def _sites(
    layer: nn.Module, module: nn.Module, x: jax.Array, arguments: _Arguments
) -> list[_Site | None]:
    """Each call of dropout in a layer: where it draws its mask, or None where it draws none.

    Args:
      layer: bound; it then has drawn these masks.
      module: the same, not bound.
      x, arguments: of the layer's call.
    """
    sites: list[_Site | None] = []

    def note(next_function: Callable, args: tuple, kwargs: dict, context) -> jax.Array:
        if not isinstance(context.module, nn.Dropout):
            return next_function(*args, **kwargs)
        scope = context.module.scope
        before = scope.rng_counters.get(_RNG, 0)
        y = next_function(*args, **kwargs)
        count = scope.rng_counters.get(_RNG, 0)
        sites.append((*scope.path, count) if count > before else None)
        return y

    def call(x: jax.Array) -> jax.Array:
        rngs = {_RNG: jax.random.key(0)} if layer.has_rng(_RNG) else {}
        with core.bind({'params': layer.variables['params']}, rngs=rngs).temporary() as scope:
            # A stack that is run twice goes on counting.
            scope.rng_counters = layer.scope.rng_counters
            with nn.intercept_methods(note):
                return module.clone(parent=scope)(x, *arguments)

    jax.eval_shape(call, x)
    return sites


def _key(layer: nn.Module, site: _Site) -> jax.Array:
    """The key that a bound layer's dropout draws by."""
    return LazyRng.create(layer.scope.rngs[_RNG], *site).as_jax_rng()


def _drawing(sites: Sequence[_Site | None], keys: Sequence[jax.Array]) -> Callable:
    """Gives the calls of dropout these keys, in the order of the sites."""
    calls, left = iter(sites), iter(keys)

    def draw(next_function: Callable, args: tuple, kwargs: dict, context) -> jax.Array:
        if isinstance(context.module, nn.Dropout) and next(calls):
            kwargs = kwargs | {'rng': next(left)}
        return next_function(*args, **kwargs)

    return draw
