"""The mesh, the table of rules, and what cannot be cut."""

import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from xlbench import partitioning
from xlbench.errors import UserError


@pytest.mark.parametrize(
    'sizes, expected',
    [
        ({}, (8, 1, 1)),
        (dict(fsdp=4), (2, 4, 1)),
        (dict(data=1, fsdp=-1), (1, 8, 1)),
        (dict(data=2, fsdp=2, tensor=2), (2, 2, 2)),
        (dict(data=2, fsdp=2, tensor=-1), (2, 2, 2)),
    ],
)
def test_meshes(sizes, expected):
    mesh = partitioning.make_mesh(**sizes)
    assert mesh.devices.shape == expected and mesh.axis_names == ('data', 'fsdp', 'tensor')
    assert partitioning.batch_shards(mesh) == expected[0] * expected[1]


@pytest.mark.parametrize(
    'sizes, message',
    [
        (dict(data=3), 'mesh data=3 x fsdp=1 x tensor=1 needs 3 devices; this run has 8'),
        (dict(fsdp=3), 'needs a multiple of 3 devices; this run has 8'),
        (dict(tensor=16), 'needs a multiple of 16 devices; this run has 8'),
        (dict(fsdp=-1), 'sizes are 1 or more, one of them may be -1'),
        (dict(fsdp=0), 'sizes are 1 or more, one of them may be -1'),
        (dict(tensor=-2), 'sizes are 1 or more, one of them may be -1'),
    ],
)
def test_impossible_meshes(sizes, message):
    with pytest.raises(UserError) as error:
        partitioning.make_mesh(**sizes)
    assert message in str(error.value)


def test_the_mesh_in_words():
    mesh = partitioning.make_mesh(fsdp=2, tensor=2)
    assert partitioning.describe(mesh) == 'data 2 x fsdp 2 x tensor 2 on 8 cpu devices'
    single = partitioning.make_mesh(devices=jax.devices()[:1])
    assert partitioning.describe(single) == 'data 1 x fsdp 1 x tensor 1 on 1 cpu device'


def test_batch_sizes():
    mesh = partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    for rows, accumulate in ((4, 1), (12, 1), (8, 2), (24, 3)):
        partitioning.check_batch_size(rows, mesh, accumulate)
    for rows, accumulate, multiple in ((6, 1, 4), (12, 2, 8), (2, 1, 4)):
        with pytest.raises(UserError, match=f'must be multiples of {multiple}'):
            partitioning.check_batch_size(rows, mesh, accumulate)


def boxed(shape, axes):
    init = nn.with_logical_partitioning(nn.initializers.zeros, axes)
    return {'layer': {'kernel': init(jax.random.key(0), shape, jnp.float32)}}


@pytest.mark.parametrize(
    'axes, expected',
    [
        (('vocab', 'embed'), P('tensor', 'fsdp')),
        (('mlp', 'embed'), P('tensor', 'fsdp')),
        (('embed', 'joined_kv'), P('fsdp', 'tensor')),
        (('heads', 'relpos_buckets'), P('tensor', None)),
        (('stack', 'embed'), P(None, 'fsdp')),
        # An activation: the batch takes 'fsdp' first, so that its features stay whole.
        (('batch', 'embed'), P(('data', 'fsdp'), None)),
        (('batch', 'mlp'), P(('data', 'fsdp'), 'tensor')),
    ],
)
def test_the_table_of_rules(axes, expected):
    mesh = partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    found = partitioning.param_shardings(boxed((16, 32), axes), mesh)['layer']['kernel'].spec
    # Trailing Nones are no difference.
    padded = P(*found, *[None] * (len(expected) - len(found)))
    assert padded == expected


def test_a_dimension_that_the_mesh_does_not_divide_is_named():
    mesh = partitioning.make_mesh(tensor=8)
    with pytest.raises(UserError) as error:
        partitioning.param_shardings(boxed((12, 32), ('mlp', 'embed')), mesh)
    message = str(error.value)
    assert 'mesh axis tensor=8 does not divide 12' in message
    assert 'layer/kernel (12, 32)' in message


def test_rules_hold_inside_and_not_after():
    mesh = partitioning.make_mesh(data=2, fsdp=4)

    @jax.jit
    def place(x):
        return nn.with_logical_constraint(x, ('batch', 'embed'))

    with partitioning.activate(mesh):
        assert place(np.zeros((16, 4))).sharding.spec == P(('data', 'fsdp'))
    assert not nn.get_logical_axis_rules()


def test_rows_are_dealt_to_the_devices_in_order():
    mesh = partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    rows = np.arange(16).reshape(8, 2)
    placed = partitioning.put_batch({'x': rows, 'weights': rows[:, 0]}, mesh)
    np.testing.assert_array_equal(placed['x'], rows)
    assert placed['x'].sharding.spec == placed['weights'].sharding.spec == P(('data', 'fsdp'))
    shards = {shard.device.id: np.asarray(shard.data) for shard in placed['x'].addressable_shards}
    for index, device in enumerate(mesh.devices.reshape(4, 2)):
        for copy in device:  # 'tensor' holds copies of the rows.
            np.testing.assert_array_equal(shards[copy.id], rows[2 * index : 2 * index + 2])


def mesh_of(kind: str, count: int, **stats):
    device = types.SimpleNamespace(device_kind=kind, memory_stats=lambda: stats or None)
    devices = np.array([device] * count, object)
    return types.SimpleNamespace(devices=devices, size=count, local_devices=[device])


def test_what_devices_can_do():
    cpu = partitioning.make_mesh()
    assert partitioning.peak_flops(cpu) is None and partitioning.memory_limit(cpu) is None
    assert partitioning.peak_flops(mesh_of('NVIDIA H200', 8)) == 8 * 989e12
    assert partitioning.peak_flops(mesh_of('NVIDIA A100-SXM4-80GB', 1)) == 312e12
    assert partitioning.peak_flops(mesh_of('TPU v5 lite', 4)) == 4 * 197e12  # Not 'TPU v5'.
    assert partitioning.memory_limit(mesh_of('TPU v4', 1, bytes_limit=32)) == 32
