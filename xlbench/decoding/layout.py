"""The layout of parameters on the devices during decoding.

Training cuts parameters along `fsdp` and gathers each layer where it is needed. A step of decoding
needs every parameter for one token of each text, so it would gather the whole model for each token.
Instead, the layout of the parameters is changed once for each batch, see `Layout`.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterator

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

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
    mesh, cfg = shardings[0].mesh, model.config
    both = zip(leaves, shardings, strict=True)
    read = [(leaf, sharding.spec) for (path, leaf), sharding in both if path[0].key != 'encoder']
    if mesh.shape.get('fsdp', 1) == 1 or not any(_cut_by('fsdp', spec) for _, spec in read):
        return AS_TRAINED
    # Numbers in a device's parts of the parameters when `fsdp` no longer cuts them.
    tensor = [(leaf, _cut_by('tensor', spec)) for leaf, spec in read]
    numbers = sum(leaf.size // (mesh.shape['tensor'] if cut else 1) for leaf, cut in tensor)
    whole = numbers * jnp.dtype(cfg.operands).itemsize
    # fsdp and tensor together are to divide the heads, and all that tensor cuts.
    parts = math.prod(mesh.shape[axis] for axis in _BY_HEADS)
    divided = [cfg.num_heads, *(leaf.shape[place] for leaf, cut in tensor for place in cut)]
    if whole > FEW and not any(size % parts for size in divided):
        kind = 'by_heads'
    elif whole <= MOST:
        kind = 'whole'
    else:
        return AS_TRAINED
    now = _BY_HEADS if kind == 'by_heads' else 'tensor'
    return Layout(kind, tuple(_respecified(sharding.spec, now) for sharding in shardings))


def _cut_by(axis: str, spec: PartitionSpec) -> list[int]:
    """The axes of a parameter that an axis of the mesh cuts."""
    return [place for place, part in enumerate(spec) if axis in partitioning.axes_of(part)]


def _respecified(spec: PartitionSpec, now: str | tuple[str, ...]) -> PartitionSpec:
    """The spec without fsdp, and with `now` in place of tensor."""
    parts = map(partitioning.axes_of, spec)
    return PartitionSpec(*(now if 'tensor' in axes else None for axes in parts))
