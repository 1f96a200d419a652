"""The mesh, the table of rules, and what cannot be cut."""

import dataclasses
import math
import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from xlbench.parallel import partitioning
from xlbench.system.errors import UserError


@pytest.mark.parametrize(
    'sizes, expected',
    [
        ({}, (1, 8, 1, 1, 1)),
        (dict(fsdp=4), (1, 2, 4, 1, 1)),
        (dict(data=1, fsdp=-1), (1, 1, 8, 1, 1)),
        (dict(data=2, fsdp=2, tensor=2), (1, 2, 2, 1, 2)),
        (dict(data=2, fsdp=2, tensor=-1), (1, 2, 2, 1, 2)),
        (dict(replica=2, sequence=2), (2, 2, 1, 2, 1)),
        (dict(data=1, fsdp=2, sequence=4), (1, 1, 2, 4, 1)),
    ],
)
def test_meshes(sizes, expected):
    mesh = partitioning.make_mesh(**sizes)
    assert mesh.devices.shape == expected and mesh.axis_names == partitioning.MESH_AXES
    assert partitioning.batch_shards(mesh) == math.prod(expected[:3])


@pytest.mark.parametrize(
    'sizes, message',
    [
        (dict(data=3), 'mesh data=3 x fsdp=1 x tensor=1 needs 3 devices; this run has 8'),
        (dict(fsdp=3), 'needs a multiple of 3 devices; this run has 8'),
        (dict(tensor=16), 'needs a multiple of 16 devices; this run has 8'),
        (dict(fsdp=-1), 'sizes are 1 or more, one of them may be -1'),
        (dict(fsdp=0), 'sizes are 1 or more, one of them may be -1'),
        (dict(tensor=-2), 'config.mesh.tensor is -2; it must be -1 or more'),
        (
            dict(replica=3, sequence=2),
            'mesh replica=3 x data=-1 x fsdp=1 x sequence=2 x tensor=1 needs a multiple of 6',
        ),
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
    long = partitioning.make_mesh(replica=2, sequence=4)
    words = 'replica 2 x data 1 x fsdp 1 x sequence 4 x tensor 1 on 8 cpu devices'
    assert partitioning.describe(long) == words


@dataclasses.dataclass(frozen=True)
class Device:
    """A made-up one; its slice is its process."""

    id: int
    process_index: int
    slice_index: int = 0
    device_kind: str = 'made-up'
    platform: str = 'cpu'


def sliced(*slices: int) -> list:
    """Devices of slices of these sizes."""
    places = [(i, j) for i, size in enumerate(slices) for j in range(size)]
    return [Device(100 * i + j, i, i) for i, j in places]


@pytest.mark.parametrize(
    'sizes, count, across',
    [
        (dict(replica=2, fsdp=4, data=1), 2, 'replica'),
        (dict(replica=4, fsdp=2), 2, 'replica'),
        (dict(fsdp=4), 2, 'data'),
        (dict(data=1, fsdp=-1), 2, 'fsdp'),
        (dict(replica=2, data=2, tensor=2, fsdp=2), 4, 'replica and data'),
    ],
)
def test_the_first_axes_lie_across_slices(sizes, count, across):
    per_slice = 8 // (count // 2) if count > 2 else 4
    mesh = partitioning.make_mesh(**sizes, devices=sliced(*[per_slice] * count))
    assert partitioning.describe(mesh).endswith(f'in {count} slices, with {across} across them')
    # Whoever differs in sequence or tensor alone is of one slice.
    for group in mesh.devices.reshape(-1, mesh.shape['sequence'] * mesh.shape['tensor']):
        assert len({device.slice_index for device in group}) == 1
    if sizes.get('replica') == 2 and count == 2:
        for replica in mesh.devices:
            assert len({device.slice_index for device in replica.flat}) == 1


@pytest.mark.parametrize(
    'sizes, slices, message',
    [
        (dict(tensor=8), (4, 4), 'does not fit 2 slices of 4 devices: sequence and tensor lie'),
        (dict(data=1, sequence=8), (4, 4), 'Try config.mesh.replica=2'),
        (dict(), (4, 2), 'does not fit 2 slices of 2, 4 devices'),
    ],
)
def test_slices_that_a_mesh_does_not_fit(sizes, slices, message):
    with pytest.raises(UserError) as error:
        partitioning.make_mesh(**sizes, devices=sliced(*slices))
    assert message in str(error.value)


def of_processes(counts, **sizes):
    """A mesh of made-up devices, so many of each process."""
    devices = [Device(100 * i + j, i) for i, count in enumerate(counts) for j in range(count)]
    return partitioning.make_mesh(**sizes, devices=devices)


@pytest.mark.parametrize(
    'counts, sizes, expected',
    [
        ((4, 4), {}, [(0, 2), (1, 2)]),
        ((4, 4), dict(data=1, sequence=4, fsdp=2), [(0, 2), (1, 2)]),
        # Processes that hold parts of the same rows read the same share.
        ((2, 2, 2, 2), dict(data=2, sequence=2, tensor=2), [(0, 2), (0, 2), (1, 2), (1, 2)]),
        ((4, 4), dict(data=1, tensor=8), [(0, 1), (0, 1)]),
        ((8,), dict(tensor=2), [(0, 1)]),
    ],
)
def test_which_rows_a_process_reads(monkeypatch, counts, sizes, expected):
    mesh = of_processes(counts, **sizes)
    for process, share in enumerate(expected):
        partitioning.row_share.cache_clear()
        monkeypatch.setattr(jax, 'process_index', lambda process=process: process)
        assert partitioning.row_share(mesh) == share
    partitioning.row_share.cache_clear()


def test_processes_cannot_share_a_part_of_their_rows():
    partitioning.row_share.cache_clear()
    with pytest.raises(UserError, match='sequence x tensor divides the devices of a process'):
        partitioning.row_share(of_processes((3, 3), data=-1, tensor=2))


def test_lengths_that_the_mesh_does_not_divide():
    mesh = partitioning.make_mesh(sequence=4)
    partitioning.check_lengths(dict(inputs=512, targets=64), mesh)
    with pytest.raises(UserError) as error:
        partitioning.check_lengths(dict(inputs=512, targets=50), mesh)
    assert 'sequence=4 does not divide lengths.targets=50' in str(error.value)
    assert 'for example 52' in str(error.value)
    # What a prediction is wide by chance stays whole.
    assert partitioning.batch_sharding(mesh, (8, 50)).spec == partitioning.BATCH_SPEC
    assert partitioning.active('sequence') == 1
    with partitioning.activate(mesh):
        assert partitioning.active('sequence') == 4


def placed(boxes, mesh):
    """Shapes with shardings."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        nn.unbox(boxes),
        partitioning.param_shardings(boxes, mesh),
    )


def test_what_every_device_holds_whole():
    mesh = partitioning.make_mesh(tensor=4)
    boxes = {
        'positions': boxed((1024, 512), ('positions', 'embed')),
        'table': boxed((1024, 512), ('vocab', 'embed')),
        'small': boxed((64, 512), ('positions', 'embed')),
        'types': boxed((1023, 513), ('types', 'features')),
        'bigger': boxed((1024, 1024), ('types', None)),
    }
    assert partitioning.held_whole(placed(boxes, mesh)) == [
        'bigger/layer/kernel float32[1024,1024], 4.0 MiB: no axis of it is cut along the mesh, '
        'though tensor could',
        'positions/layer/kernel float32[1024,512], 2.0 MiB: only fsdp cuts it, which is 1 in this '
        'mesh',
    ]
    assert partitioning.held_whole(placed(boxes, partitioning.make_mesh(replica=2))) == []


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
        (('batch', 'embed'), P(('replica', 'data', 'fsdp'), None)),
        (('batch', 'mlp'), P(('replica', 'data', 'fsdp'), 'tensor')),
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
    assert placed['x'].sharding.spec == P(('replica', 'data', 'fsdp'), 'sequence')
    assert placed['weights'].sharding.spec == P(('replica', 'data', 'fsdp'))
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
