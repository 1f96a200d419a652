"""The mesh, and the one table that says which logical axis lies on which mesh axis.

Models annotate parameters and activations with logical axis names ('embed', 'mlp', ...). Nothing
else in the project decides where an array lives: change a line of LOGICAL_AXIS_RULES, and every
model follows.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from xlbench.errors import UserError

MESH_AXES = ('data', 'fsdp', 'tensor')

# Read in order; a mesh axis is used once per array. 'batch' stands first, so that an activation
# [batch, length, embed] takes 'fsdp' for its batch, and only parameters are cut along 'embed'.
LOGICAL_AXIS_RULES = (
    ('batch', ('data', 'fsdp')),
    ('vocab', 'tensor'),
    ('mlp', 'tensor'),
    ('joined_kv', 'tensor'),
    ('heads', 'tensor'),
    ('embed', 'fsdp'),
    ('length', None),
    ('stack', None),  # The leading axis of fused kernels: q, k and v; k and v; gate and value.
    ('relpos_buckets', None),
    ('lora_rank', None),
    ('positions', None),  # Rows of a table of learnt positions.
    ('types', None),  # BERT's first and second text.
    ('features', None),  # A layer's outputs that 'embed' is the axis of the inputs of.
    ('labels', None),
)

BATCH_SPEC = PartitionSpec(('data', 'fsdp'))


def make_mesh(
    data: int = -1, fsdp: int = 1, tensor: int = 1, *, devices: Sequence[Any] | None = None
) -> Mesh:
    """The device mesh data x fsdp x tensor; -1 (at most once) takes the devices that are left.

    Args:
      data: copies of the model, each with its own rows of the batch.
      fsdp: parts that parameters and optimizer state are cut into; rows of the batch as well.
      tensor: parts that heads, feed-forward and vocabulary are cut into.
      devices: all of the machine's (and the other processes') devices by default.

    Raises:
      UserError: the three numbers do not multiply to the number of devices.
    """
    devices = list(jax.devices() if devices is None else devices)
    sizes = dict(zip(MESH_AXES, (data, fsdp, tensor), strict=True))
    asked = ' x '.join(f'{name}={size}' for name, size in sizes.items())
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
    return jax.make_mesh(
        tuple(sizes.values()), MESH_AXES, axis_types=(AxisType.Auto,) * 3, devices=devices
    )


def describe(mesh: Mesh) -> str:
    """The mesh in words: 'data 2 x fsdp 2 x tensor 2 on 8 cpu devices'."""
    sizes = ' x '.join(f'{name} {size}' for name, size in mesh.shape.items())
    kind = mesh.devices.flat[0].device_kind
    return f'{sizes} on {mesh.size} {kind} device{"s" if mesh.size > 1 else ""}'


@contextlib.contextmanager
def activate(mesh: Mesh) -> Iterator[None]:
    """Inside, what is traced puts the activations that models name where the table says.

    Without it the compiler chooses: it cuts activations along 'embed' as the parameters are, and
    adds them up over the devices in every layer.
    """
    with jax.set_mesh(mesh), nn.logical_axis_rules(LOGICAL_AXIS_RULES):
        yield


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of an array that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def param_shardings(boxed_params: Any, mesh: Mesh) -> Any:
    """From parameters as Linen's `init` boxes them (or their shapes) to a tree of NamedSharding.

    Raises:
      UserError: a mesh axis does not divide the dimension that it would cut.
    """
    specs = nn.get_partition_spec(boxed_params)
    shardings = nn.logical_to_mesh_sharding(specs, mesh, LOGICAL_AXIS_RULES)
    shapes = nn.unbox(boxed_params)
    jax.tree_util.tree_map_with_path(
        lambda path, leaf, sharding: _check_divides(path, leaf.shape, sharding), shapes, shardings
    )
    return shardings


def _check_divides(path: tuple, shape: tuple[int, ...], sharding: NamedSharding) -> None:
    for size, axes in zip(shape, sharding.spec, strict=False):
        if axes is None:
            continue
        axes = (axes,) if isinstance(axes, str) else axes
        parts = math.prod(sharding.mesh.shape[axis] for axis in axes)
        if size % parts:
            name = '/'.join(str(getattr(key, 'key', key)) for key in path)
            raise UserError(
                f'mesh axis {"+".join(axes)}={parts} does not divide {size}, a dimension of '
                f'parameter {name} {shape}. Choose a divisor of {size} in config.mesh.'
            )


def batch_shards(mesh: Mesh) -> int:
    """Devices, or groups of them, that share the rows of a batch."""
    return mesh.shape['data'] * mesh.shape['fsdp']


def check_batch_size(rows: int, mesh: Mesh, accumulate: int = 1) -> None:
    """Raises UserError unless every device gets equally many rows of every microbatch."""
    ways = batch_shards(mesh)
    if rows % (ways * accumulate):
        raise UserError(
            f'a batch of {rows} rows cannot be split over data x fsdp = {ways} devices and '
            f'{accumulate} accumulation step(s); batch_size, and row_multiple where there are '
            f'length buckets, must be multiples of {ways * accumulate}'
        )


def put_batch(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """From this process's rows [rows / processes, ...] to global arrays cut along the batch."""
    sharding = NamedSharding(mesh, BATCH_SPEC)
    return {
        name: jax.make_array_from_process_local_data(sharding, value)
        for name, value in batch.items()
    }


# Dense bfloat16 FLOP/s of one device, from the makers' data sheets.
_PEAK_FLOPS = {
    'TPU v4': 275e12,
    'TPU v5 lite': 197e12,
    'TPU v5': 459e12,
    'TPU v6 lite': 918e12,
    'NVIDIA A100': 312e12,
    'NVIDIA H100': 989e12,
    'NVIDIA H200': 989e12,
}


def peak_flops(mesh: Mesh) -> float | None:
    """bfloat16 FLOP/s of the whole mesh, or None where the device is not in the table."""
    kind = mesh.devices.flat[0].device_kind
    names = [name for name in _PEAK_FLOPS if kind.startswith(name)]
    return mesh.size * _PEAK_FLOPS[max(names, key=len)] if names else None


def memory_limit(mesh: Mesh) -> int | None:
    """Bytes that one device offers, or None where it does not say."""
    stats = mesh.local_devices[0].memory_stats() or {}
    return stats.get('bytes_limit')
