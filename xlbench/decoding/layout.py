"""The layout of parameters on the devices during decoding.

Training cuts parameters along `fsdp` and gathers each layer where it is needed. A step of decoding
needs every parameter for one token of each text, so it would gather the whole model for each token.
Instead, the layout of the parameters is changed once for each batch, see `Layout`.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from xlbench.parallel import partitioning
from xlbench.system.trees import Params, Shapes

GIB = 1 << 30
# Parameters of a decoder, in the type that its products read. Up to FEW bytes, reading all of them
# for a token takes less time than the exchange of activations in every layer; MOST is what we
# expect to find beside the caches on any device, where heads do not divide.
FEW, MOST = GIB, 8 * GIB
# Cut along `tensor` in training.
_CUT = ('vocab', 'mlp', 'joined_kv', 'heads')
# In this order devices exchange parameters with those only that share their part by `tensor`.
_BY_HEADS = ('tensor', 'fsdp')


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of parameters and of activations in the steps of decoding.

    Attributes:
      kind: 'as_trained': parameters stay as they are. 'whole': each device gets what `fsdp` has
        cut, and its rows are its own as before. 'by_heads': `fsdp` cuts what `tensor` cuts, which
        is heads, hidden units and the vocabulary, and its devices share their rows.
      specs: of the parameters, in the order of their leaves; () where they stay.
    """

    kind: str = 'as_trained'
    specs: tuple[PartitionSpec, ...] = ()

    def place(self, params: Params) -> Params:
        """The parameters in this layout; under jit, on the mesh of `partitioning.activate`."""
        if not self.specs:
            return params
        leaves, structure = jax.tree.flatten(params)
        placed = map(jax.lax.with_sharding_constraint, leaves, self.specs)
        return jax.tree.unflatten(structure, placed)

    @contextlib.contextmanager
    def activate(self) -> Iterator[None]:
        """Inside, activations that are traced lie as these parameters need them."""
        if self.kind != 'by_heads':
            yield
            return
        table: dict[str, str | tuple[str, ...] | None] = dict(partitioning.LOGICAL_AXIS_RULES)
        rows = tuple(axis for axis in partitioning.ROW_AXES if axis != 'fsdp')
        table |= dict.fromkeys(('batch', 'looked_up'), rows)
        table |= dict.fromkeys(_CUT, _BY_HEADS) | {'embed': None}
        with nn.logical_axis_rules(tuple(table.items())):
            yield


AS_TRAINED = Layout()


def layout_of(model: nn.Module, params: Params | Shapes) -> Layout:
    """Chooses the layout for parameters that lie as in training.

    Args:
      model: with the methods of models.generator.Generator.
      params: arrays, or shapes with shardings.
    """
    leaves = jax.tree_util.tree_leaves_with_path(params)
    found = (getattr(leaf, 'sharding', None) for _, leaf in leaves)
    shardings = [x for x in found if isinstance(x, NamedSharding)]
    if not shardings or len(shardings) < len(leaves):
        return AS_TRAINED
    mesh = shardings[0].mesh
    read = [leaf for path, leaf in leaves if path[0].key != 'encoder']
    if mesh.shape.get('fsdp', 1) == 1 or not any(_cut_by(leaf, 'fsdp') for leaf in read):
        return AS_TRAINED
    whole = sum(_gathered_bytes(leaf, model.config.operands) for leaf in read)
    if whole <= FEW:
        kind = 'whole'
    elif _divides(model.config.num_heads, read, mesh):
        kind = 'by_heads'
    elif whole <= MOST:
        kind = 'whole'
    else:
        return AS_TRAINED
    cut = _BY_HEADS if kind == 'by_heads' else 'tensor'
    return Layout(kind, tuple(_respecified(sharding.spec, cut) for sharding in shardings))


def _cut_by(leaf: jax.Array | jax.ShapeDtypeStruct, axis: str) -> list[int]:
    """The axes of a parameter that an axis of the mesh cuts."""
    assert isinstance(leaf.sharding, NamedSharding)
    parts = map(partitioning.axes_of, leaf.sharding.spec)
    return [place for place, axes in enumerate(parts) if axis in axes]


def _gathered_bytes(leaf: jax.Array | jax.ShapeDtypeStruct, dtype: str) -> int:
    """Bytes of a device's part of a parameter when `fsdp` no longer cuts it."""
    assert isinstance(leaf.sharding, NamedSharding)
    tensor = leaf.sharding.mesh.shape['tensor'] if _cut_by(leaf, 'tensor') else 1
    return leaf.size // tensor * jnp.dtype(dtype).itemsize


def _divides(
    num_heads: int, leaves: Sequence[jax.Array | jax.ShapeDtypeStruct], mesh: Mesh | AbstractMesh
) -> bool:
    """Returns whether fsdp and tensor together divide the heads, and all that tensor cuts."""
    parts = math.prod(mesh.shape[axis] for axis in _BY_HEADS)
    sizes = [leaf.shape[place] for leaf in leaves for place in _cut_by(leaf, 'tensor')]
    return not any(size % parts for size in (num_heads, *sizes))


def _respecified(spec: PartitionSpec, cut: str | tuple[str, ...]) -> PartitionSpec:
    """The spec without fsdp, and with `cut` in place of tensor."""
    parts = map(partitioning.axes_of, spec)
    return PartitionSpec(*(cut if 'tensor' in axes else None for axes in parts))
