"""The mesh, the one table that says which logical axis lies on which mesh axis, and its chips.

Models annotate parameters and activations with logical axis names ('embed', 'mlp', ...). Nothing
else in the project decides where an array lives: change a line of LOGICAL_AXIS_RULES, and every
model follows.
"""

import collections
import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import flax.linen as nn
import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from xlbench.settings import blocks
from xlbench.system.errors import UserError
from xlbench.system.trees import Shardings, Tree

# A parameter as Linen's `init` gives it.
Boxed: TypeAlias = nn.LogicallyPartitioned | jax.Array | jax.ShapeDtypeStruct

# From the slowest network to the fastest: neighbours in the last axis exchange the most.
MESH_AXES = ('replica', 'data', 'fsdp', 'sequence', 'tensor')
ROW_AXES = ('replica', 'data', 'fsdp')  # That share the rows of a batch.

# Read in order; a mesh axis is used once per array. 'batch' stands first, so that an activation
# [batch, length, embed] takes 'fsdp' for its batch, and only parameters are cut along 'embed'.
LOGICAL_AXIS_RULES = (
    ('batch', ROW_AXES),
    ('length', 'sequence'),
    # Rows of the batch where 'fsdp' cuts the features: of what is looked up in a table.
    ('looked_up', ('replica', 'data')),
    # Rows and positions in one axis, 'fsdp' last: so that what the same devices hold stays side by
    # side where 'fsdp' cuts features.
    ('tokens', ('replica', 'data', 'sequence', 'fsdp')),
    ('added_up', ('replica', 'data', 'sequence')),
    ('vocab', 'tensor'),
    ('mlp', 'tensor'),
    ('joined_kv', 'tensor'),
    ('heads', 'tensor'),
    ('embed', 'fsdp'),
    ('stack', None),  # The leading axis of fused kernels: q, k and v; k and v; gate and value.
    ('relpos_buckets', None),
    ('lora_rank', None),
    ('adapters', None),  # Of languages.
    ('positions', None),  # Rows of a table of learnt positions.
    ('types', None),  # BERT's first and second text.
    ('features', None),  # A layer's outputs that 'embed' is the axis of the inputs of.
    ('labels', None),
)

BATCH_SPEC = PartitionSpec(ROW_AXES)

MIB = 1 << 20


def make_mesh(*, devices: Sequence[jax.Device] | None = None, **asked_sizes: int) -> Mesh:
    """Makes the device mesh replica x data x fsdp x sequence x tensor.

    Where the devices form several slices, between which the network is slow, the first axes lie
    across them: `replica`, then `data`, then `fsdp`; what sequence and tensor exchange in every
    layer stays within a slice. The sizes are the block config.mesh.

    Raises:
      UserError: the sizes do not multiply to the number of devices, or do not fit the slices.
    """
    devices = list(jax.devices() if devices is None else devices)
    block = blocks.Mesh(**asked_sizes)
    sizes = {axis: getattr(block, axis) for axis in MESH_AXES}
    asked = _in_words(sizes, '=')
    open_axes = [name for name, size in sizes.items() if size == -1]
    fixed = math.prod(size for size in sizes.values() if size != -1)
    if len(open_axes) > 1 or any(size < 1 for size in sizes.values() if size != -1):
        raise UserError(f'mesh {asked} is impossible: sizes are 1 or more, one of them may be -1')
    if open_axes:
        sizes[open_axes[0]] = max(1, len(devices) // fixed)
    needed = math.prod(sizes.values())
    if needed != len(devices):
        raise UserError(
            f'mesh {asked} needs {"a multiple of " if open_axes else ""}{fixed} devices; this run '
            f'has {len(devices)}. Set the sizes in config.mesh so that they multiply to it.'
        )
    across = _across_slices(sizes, devices)
    within = [size // across[axis] for axis, size in sizes.items()]
    grid = functools.partial(mesh_utils.create_device_mesh, within, devices)
    if math.prod(across.values()) > 1:
        parts = list(across.values())
        grid = functools.partial(mesh_utils.create_hybrid_device_mesh, within, parts, devices)
    try:
        ordered = grid()
    except NotImplementedError:  # Some tori have no axis of such a size, but parts of axes.
        ordered = grid(allow_split_physical_axes=True)
    return Mesh(ordered, MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


def slices(devices: Iterable[jax.Device]) -> list[int]:
    """Counts the devices of each slice; [their number] where there are no slices."""
    return list(collections.Counter(getattr(d, 'slice_index', None) or 0 for d in devices).values())


def _across_slices(sizes: Mapping[str, int], devices: Iterable[jax.Device]) -> dict[str, int]:
    """{axis of the mesh: the number of parts into which slices divide it}.

    Raises:
      UserError: `sequence` or `tensor` would lie across slices, or slices differ in size.
    """
    parts = slices(devices)
    left = len(parts)
    across = dict.fromkeys(sizes, 1)
    for axis in ROW_AXES:
        across[axis] = math.gcd(sizes[axis], left)
        left //= across[axis]
    if left > 1 or len(set(parts)) > 1:
        raise UserError(
            f'mesh {_in_words(sizes, "=")} does not fit {len(parts)} slices of '
            f'{", ".join(map(str, sorted(set(parts))))} devices: sequence and tensor lie within a '
            f'slice, and all slices are of one size. Try config.mesh.replica={len(parts)}'
        )
    return across


def _in_words(sizes: Mapping[str, int], equals: str) -> str:
    """'data=2 x fsdp=1 x tensor=1'; replica and sequence only where they are above 1."""
    return ' x '.join(
        f'{axis}{equals}{size}'
        for axis, size in sizes.items()
        if size != 1 or axis not in ('replica', 'sequence')
    )


def describe(mesh: Mesh) -> str:
    """The mesh in words: 'data 2 x fsdp 2 x tensor 2 on 8 cpu devices'."""
    kind = mesh.devices.flat[0].device_kind
    words = _in_words(mesh.shape, ' ')
    words = f'{words} on {mesh.size} {kind} device{"s" if mesh.size > 1 else ""}'
    across = _across_slices(mesh.shape, mesh.devices.flat)
    if math.prod(across.values()) == 1:
        return words
    named = ' and '.join(axis for axis, parts in across.items() if parts > 1)
    return f'{words} in {math.prod(across.values())} slices, with {named} across them'


@contextlib.contextmanager
def activate(mesh: Mesh) -> Iterator[None]:
    """Traces inside place the activations that models name where the table says.

    Without it the compiler chooses: it cuts activations along 'embed' as the parameters are, and
    adds them up over the devices in every layer.
    """
    with jax.set_mesh(mesh), nn.logical_axis_rules(LOGICAL_AXIS_RULES):
        yield


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of an array that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def param_shardings(boxed_params: Tree[Boxed], mesh: Mesh) -> Shardings:
    """The tree of NamedSharding for parameters as Linen's `init` boxes them, or for their shapes.

    Raises:
      UserError: a mesh axis does not divide the dimension that it would cut.
    """
    specs = nn.get_partition_spec(boxed_params)
    shardings = nn.logical_to_mesh_sharding(specs, mesh, LOGICAL_AXIS_RULES)
    leaves = jax.tree_util.tree_leaves_with_path(nn.unbox(boxed_params))
    for (path, leaf), sharding in zip(leaves, jax.tree.leaves(shardings), strict=True):
        for size, axes in zip(leaf.shape, map(axes_of, sharding.spec), strict=False):
            parts = math.prod(mesh.shape[axis] for axis in axes)
            if size % parts:
                raise UserError(
                    f'mesh axis {"+".join(axes)}={parts} does not divide {size}, a dimension of '
                    f'parameter {_name_of(path)} {leaf.shape}. Choose a divisor of {size} in '
                    'config.mesh.'
                )
    return shardings


def held_whole(state: Any) -> list[str]:
    """Describes large arrays that every device holds whole although fsdp or tensor could cut them.

    One line each, the largest first: 'decoder/position_embedder/embedding float32[1024,1024],
    4.0 MiB: only fsdp cuts it, which is 1 in this mesh'. `state` is a tree of arrays, or of shapes
    with shardings.
    """
    whole = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        mesh, size = leaf.sharding.mesh.shape, math.prod(leaf.shape) * leaf.dtype.itemsize
        cutting = [axis for axis in ('fsdp', 'tensor') if mesh[axis] > 1]
        could = [a for a in cutting if any(n % mesh[a] == 0 for n in leaf.shape)]
        if size < MIB or not could or not leaf.sharding.is_fully_replicated:
            continue
        named = {axis for part in leaf.sharding.spec for axis in axes_of(part)}
        if named:
            why = f'only {" and ".join(sorted(named))} cuts it, which is 1 in this mesh'
        else:
            why = 'no axis of it is cut along the mesh, though ' + ' or '.join(could) + ' could'
        kind = f'{leaf.dtype}[{",".join(map(str, leaf.shape))}]'
        whole.append((size, f'{_name_of(path)} {kind}, {size / MIB:.1f} MiB: {why}'))
    return [line for _, line in sorted(whole, key=lambda entry: -entry[0])]


def axes_of(part: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """One entry of a PartitionSpec as mesh axes."""
    return (part,) if isinstance(part, str) else tuple(part or ())


def _name_of(path: tuple) -> str:
    """'opt_state/nu/encoder/kernel': the keys and fields of a path, without places in tuples."""
    keys = (getattr(key, 'key', getattr(key, 'name', None)) for key in path)
    return '/'.join(str(key) for key in keys if key is not None)


def batch_shards(mesh: Mesh) -> int:
    """Devices, or groups of them, that share the rows of a batch."""
    return math.prod(mesh.shape[axis] for axis in ROW_AXES)


def active(*axes: str) -> int:
    """The number of parts into which these axes of the active mesh cut together; 1 without one."""
    sizes = jax.sharding.get_abstract_mesh().shape
    return math.prod(sizes.get(axis, 1) for axis in axes)


def check_batch_size(rows: int, mesh: Mesh, accumulate: int = 1) -> None:
    """Raises UserError unless every device gets equally many rows of every microbatch."""
    ways = batch_shards(mesh)
    if rows % (ways * accumulate):
        axes = ' x '.join(axis for axis in ROW_AXES if axis != 'replica' or mesh.shape[axis] > 1)
        raise UserError(
            f'a batch of {rows} rows cannot be split over {axes} = {ways} devices and '
            f'{accumulate} accumulation step(s); batch_size, and row_multiple where there are '
            f'length buckets, must be multiples of {ways * accumulate}'
        )


def check_lengths(lengths: Mapping[str, int], mesh: Mesh) -> None:
    """Raises UserError unless the mesh's axis `sequence` divides every length of a config."""
    parts = mesh.shape['sequence']
    for name, length in lengths.items():
        if length % parts:
            raise UserError(
                f'mesh axis sequence={parts} does not divide lengths.{name}={length}. Choose a '
                f'multiple of {parts}, for example {-(-length // parts) * parts}, or another '
                'config.mesh.sequence.'
            )


@functools.lru_cache(maxsize=8)
def row_share(mesh: Mesh) -> tuple[int, int]:
    """(the share of a batch's rows that this process reads, the number of shares).

    The shares are as many as the processes, unless `tensor` or `sequence` lies across processes:
    those that hold parts of the same rows read the same share.

    Raises:
      UserError: processes would share a part of their rows.
    """
    rows_of = collections.defaultdict(set)
    for row, group in enumerate(mesh.devices.reshape(batch_shards(mesh), -1)):
        for device in group:
            rows_of[device.process_index].add(row)
    shares = sorted({tuple(sorted(rows)) for rows in rows_of.values()})
    if sum(map(len, shares)) != batch_shards(mesh) or len(set(map(len, shares))) > 1:
        raise UserError(
            f'{describe(mesh)}: some of its {len(rows_of)} processes would share a part of their '
            'rows. Choose config.mesh so that sequence x tensor divides the devices of a process, '
            'or is a multiple of them.'
        )
    return shares.index(tuple(sorted(rows_of[jax.process_index()]))), len(shares)


def batch_sharding(mesh: Mesh, shape: Sequence[int]) -> NamedSharding:
    """The sharding of an array [rows, ...] or [rows, length, ...] of a batch.

    A length that `sequence` does not divide stays whole: `check_lengths` refuses those of a config,
    but the widths that predictions choose may be such.
    """
    cut = len(shape) > 1 and shape[1] % mesh.shape['sequence'] == 0
    return NamedSharding(mesh, PartitionSpec(ROW_AXES, 'sequence') if cut else BATCH_SPEC)


def put_batch(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """Makes global arrays of this process's rows (see `row_share`), cut by `batch_sharding`."""
    _, shares = row_share(mesh)
    return {
        name: jax.make_array_from_process_local_data(
            batch_sharding(mesh, value.shape), value, (len(value) * shares, *value.shape[1:])
        )
        for name, value in batch.items()
    }


class Chip(NamedTuple):
    """The figures of one chip."""

    peak: float  # Dense bfloat16 FLOP/s.
    memory: int | None  # Bytes; None where there are several sizes, and the device says its own.
    memory_speed: float  # Bytes/s.
    link_speed: float  # Bytes/s that it sends over all its links; half of the "bidirectional".
    # Cycles/s: peak FLOP/s over those of its matrix units in a cycle, as the page says.
    clock: float | None
    source: str  # The page of these numbers.


_DOCS = 'cloud.google.com/tpu/docs/'
_V4 = _DOCS + 'v4, arXiv:2304.01433 table 4'
# By the beginning of what jax calls the devices.
CHIPS = {
    'TPU v4': Chip(275e12, 32 << 30, 1200e9, 300e9, 1.05e9, _V4),
    # 197e12 FLOP/s = 4 units x 128 x 128 x 2 x clock; v5p has twice four.
    'TPU v5 lite': Chip(197e12, 16 << 30, 819e9, 200e9, 1.5e9, _DOCS + 'v5e'),
    'TPU v5': Chip(459e12, 95 << 30, 2765e9, 600e9, 1.75e9, _DOCS + 'v5p'),
    'TPU v6 lite': Chip(918e12, 32 << 30, 1638e9, 400e9, None, _DOCS + 'v6e'),
    'NVIDIA A100': Chip(312e12, None, 2039e9, 300e9, None, 'NVIDIA A100 80GB SXM data sheet'),
    'NVIDIA H100': Chip(989e12, None, 3350e9, 450e9, None, 'NVIDIA H100 SXM data sheet'),
    'NVIDIA H200': Chip(989e12, None, 4800e9, 450e9, None, 'NVIDIA H200 SXM data sheet'),
}


def find_chip(kind: str) -> Chip | None:
    """The chip of a kind of device, as jax calls it; None where there is no row for it."""
    names = [name for name in CHIPS if kind.startswith(name)]
    return CHIPS[max(names, key=len)] if names else None


def peak_flops(mesh: Mesh) -> float | None:
    """bfloat16 FLOP/s of the whole mesh, or None for devices of an unknown chip."""
    chip = find_chip(mesh.devices.flat[0].device_kind)
    return mesh.size * chip.peak if chip else None


def is_one_cpu(mesh: Mesh) -> bool:
    """True if a mesh is a single device, and that a CPU."""
    return mesh.size == 1 and mesh.devices.flat[0].platform == 'cpu'


def memory_limit(mesh: Mesh) -> int | None:
    """Bytes that one device offers, or None if it gives no number."""
    stats = mesh.local_devices[0].memory_stats() or {}
    return stats.get('bytes_limit')
