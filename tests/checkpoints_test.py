"""Which checkpoints stay, what counts as one, and how one comes back, or does not, if damaged."""

import os
import pathlib
import re
import shutil

import harm
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from xlbench.errors import UserError
from xlbench.parallel import partitioning
from xlbench.training import checkpoints, train_step


def state_of(value: float, mesh=None) -> train_step.TrainState:
    """A small state, filled with a value, cut over the mesh."""
    mesh = mesh or partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    cut, whole = (NamedSharding(mesh, spec) for spec in (P('tensor', 'fsdp'), P()))
    table = np.arange(32, dtype=np.float32).reshape(8, 4) + value
    return train_step.TrainState(
        step=jax.device_put(jnp.int32(value), whole),
        params={'layer': {'table': jax.device_put(table, cut)}},
        opt_state=({'layer/table': jax.device_put(table * 2, cut)}, jax.device_put(7.0, whole)),
    )


def save_all(workdir, best, **options):
    """Saves steps 1, 2, ..., with the step that is the best by then; the steps that are left."""
    saver = checkpoints.Checkpoints(str(workdir), **options)
    for step, best_step in enumerate(best, start=1):
        saver.save(step, state_of(step), progress_of(step, best_step))
    saver.close()
    return checkpoints.steps(str(workdir))


def progress_of(step, best_step=None):
    best = best_step and {'step': best_step, 'score': 0.5}
    return {'stage': 's', 'at': step, 'best': best}


@pytest.mark.parametrize(
    'best, options, expected',
    [
        ([None] * 5, dict(keep=2), [4, 5]),
        ([None] * 3, dict(keep=5), [1, 2, 3]),
        ([1, 2, 2, 2], dict(keep=1), [2, 4]),
        ([1, 1, 1, 1], dict(keep=1), [1, 4]),
        ([1, 2, 3, 4], dict(keep=1), [4]),
        ([None, 2, 2, 4, 4], dict(keep=1), [4, 5]),
        ([1, 1, 3, 3], dict(keep=2), [3, 4]),
        ([1, 2, 2, 2, 2], dict(keep=2), [2, 4, 5]),
    ],
)
def test_which_checkpoints_stay(tmp_path, best, options, expected):
    assert save_all(tmp_path, best, **options) == expected


def test_the_best_stays_over_restarts(tmp_path):
    assert save_all(tmp_path, [1, 1, 1], keep=1) == [1, 3]
    saver = checkpoints.Checkpoints(str(tmp_path), keep=1)
    assert saver.latest_step == 3
    for step in (4, 5):
        saver.save(step, state_of(step), progress_of(step, 1))
    saver.wait()
    assert checkpoints.steps(str(tmp_path)) == [1, 5]
    saver.save(6, state_of(6), progress_of(6, 6))
    saver.close()
    assert checkpoints.steps(str(tmp_path)) == [6]


def test_what_was_saved_comes_back(tmp_path):
    save_all(tmp_path, [None])
    saver = checkpoints.Checkpoints(str(tmp_path))
    like = state_of(0)
    found, progress = saver.restore(1, like)
    assert progress == progress_of(1)
    jax.tree.map(np.testing.assert_array_equal, found, state_of(1))
    jax.tree.map(lambda a, b: np.testing.assert_(a.sharding == b.sharding), found, like)
    saver.close()
    assert checkpoints.read_progress(str(tmp_path), 1) == progress_of(1)


def test_progress_keeps_whole_numbers_and_nothing(tmp_path):
    saver = checkpoints.Checkpoints(str(tmp_path))
    progress = {
        'stage': 'stage1', 'position': {'window': 3, 'batch': 1, 'feed': 2**32 - 1},
        'best': {'step': 4, 'score': 0.1 + 0.2}, 'stale': 0,
    }  # fmt: skip
    saver.save(4, state_of(4), progress)
    saver.save(5, state_of(5), progress | {'best': None, 'position': None})
    saver.close()
    assert checkpoints.read_progress(str(tmp_path), 4) == progress
    assert checkpoints.read_progress(str(tmp_path), 5)['best'] is None


@pytest.mark.parametrize(
    'text', ['[]', '{}', '3', '{"best": 7}', '{"best": {"step": "7"}}', '[' * 100_000]
)
def test_a_strange_progress_is_one_line(tmp_path, text):
    place = tmp_path / 'checkpoints' / '4' / 'progress' / 'metadata'
    place.parent.mkdir(parents=True)
    place.write_text(text)
    for read in (
        lambda: checkpoints.read_progress(str(tmp_path), 4),
        lambda: checkpoints.find_step(str(tmp_path), 'best'),
    ):
        with pytest.raises(UserError, match='its progress cannot be read') as error:
            read()
        assert '\n' not in str(error.value)


def test_the_arrays_may_be_overwritten_while_they_are_written(tmp_path):
    """The next step reuses the memory of the state as soon as `save` has returned."""
    consume = jax.jit(lambda state: jax.tree.map(lambda x: x * 0 - 1, state), donate_argnums=0)
    saver = checkpoints.Checkpoints(str(tmp_path), keep=9)
    for step in range(1, 6):
        state = state_of(step)
        saver.save(step, state, progress_of(step))
        consume(state)
        assert state.params['layer']['table'].is_deleted()
    saver.wait()
    for step in range(1, 6):
        found, _ = saver.restore(step, state_of(0))
        jax.tree.map(np.testing.assert_array_equal, found, state_of(step))
    saver.close()


def test_a_half_written_checkpoint_is_none(tmp_path):
    save_all(tmp_path, [None, None])
    torn = tmp_path / 'checkpoints' / '3.orbax-checkpoint-tmp'
    (torn / 'state.orbax-checkpoint-tmp').mkdir(parents=True)
    (torn / 'progress').mkdir()
    (torn / 'progress' / 'metadata').write_text('{"stage": "s"')
    assert checkpoints.steps(str(tmp_path)) == [1, 2]
    saver = checkpoints.Checkpoints(str(tmp_path))
    assert saver.latest_step == 2
    saver.save(3, state_of(3), progress_of(3))  # The same step, done again.
    saver.close()
    assert checkpoints.steps(str(tmp_path)) == [2, 3]
    assert checkpoints.read_progress(str(tmp_path), 3) == progress_of(3)
    assert not list((tmp_path / 'checkpoints').glob('*tmp*'))


def test_saving_a_step_again_changes_its_progress_alone(tmp_path):
    saver = checkpoints.Checkpoints(str(tmp_path))
    saver.save(1, state_of(1), progress_of(1))
    saver.wait()
    files = sorted((tmp_path / 'checkpoints').rglob('*'))
    saver.save(1, state_of(5), progress_of(1))
    assert sorted((tmp_path / 'checkpoints').rglob('*')) == files
    saver.save(1, state_of(5), progress_of(5))
    assert saver.newest() == 1
    found, progress = saver.restore(1, state_of(0))
    saver.close()
    assert progress == checkpoints.read_progress(str(tmp_path), 1) == progress_of(5)
    jax.tree.map(np.testing.assert_array_equal, found, state_of(1))


@pytest.mark.parametrize('sizes', [dict(data=8), dict(data=1, fsdp=4, tensor=2), None])
def test_parameters_come_back_on_another_mesh(tmp_path, sizes):
    save_all(tmp_path, [None])
    devices = jax.devices()[:1]
    mesh = partitioning.make_mesh(**sizes) if sizes else partitioning.make_mesh(devices=devices)
    expected = state_of(1).params
    like = state_of(0, mesh).params
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like)
    shardings = jax.tree.map(lambda x: x.sharding, like)
    found = checkpoints.load_params(str(tmp_path), 1, shapes, shardings)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert found['layer']['table'].sharding == shardings['layer']['table']


def test_a_checkpoint_that_is_not_there(tmp_path):
    save_all(tmp_path, [None, None], keep=2)
    with pytest.raises(UserError, match=r'has no checkpoint of step 5; it has \[1, 2\]'):
        checkpoints.load_params(str(tmp_path), 5, {}, {})
    with pytest.raises(UserError, match='has no checkpoint of step 1; it has none'):
        checkpoints.load_params(str(tmp_path / 'empty'), 1, {}, {})


@pytest.mark.parametrize('sizes', [dict(data=8), dict(data=1, fsdp=4, tensor=2), None])
def test_a_run_goes_on_on_another_mesh(tmp_path, sizes):
    """Its checksums are of whole arrays, however they are cut."""
    save_all(tmp_path, [None])
    devices = jax.devices()[:1]
    mesh = partitioning.make_mesh(**sizes) if sizes else partitioning.make_mesh(devices=devices)
    like = state_of(0, mesh)
    saver = checkpoints.Checkpoints(str(tmp_path))
    found, _ = saver.restore(saver.newest(), like)
    saver.close()
    jax.tree.map(np.testing.assert_array_equal, found, state_of(1))
    jax.tree.map(lambda a, b: np.testing.assert_(a.sharding == b.sharding), found, like)


def test_saving_cuts_no_small_arrays(tmp_path):
    """Each cut would be a program of its own, for each shape and device, while training waits."""
    mesh = partitioning.make_mesh(data=8)
    arrays = [np.full((8, 8 + i), i, np.float32) for i in range(10)]
    arrays = jax.device_put(arrays, NamedSharding(mesh, P()))
    compiled, event = [], '/jax/core/compile/backend_compile_duration'

    def note(name, *_, **__):
        compiled.append(name == event)

    saver = checkpoints.Checkpoints(str(tmp_path))
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        saver.save(1, train_step.TrainState(arrays[0], arrays, ()), progress_of(1))
        saver.wait()
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
        saver.close()
    assert 0 < sum(compiled) < 15  # The checksums; and on a CPU a copy of each shape.


# ------------------------------------------------------------------------------------------ damage


@pytest.fixture(scope='module')
def three(tmp_path_factory):
    """A workdir with the steps 1, 2 and 3, of arrays that have files of their own."""
    workdir = tmp_path_factory.mktemp('three')
    saver = checkpoints.Checkpoints(str(workdir), keep=3)
    for step in (1, 2, 3):
        saver.save(step, large_state(step), progress_of(step))
    saver.close()
    return workdir


def large_state(value: float) -> train_step.TrainState:
    small = state_of(value)
    table = np.random.default_rng(int(value)).standard_normal((256, 128)).astype(np.float32)
    table = jax.device_put(table, small.params['layer']['table'].sharding)
    return train_step.TrainState(small.step, {'layer': {'table': table}}, (2 * table,))


@pytest.fixture
def workdir(three, tmp_path):
    return shutil.copytree(three, tmp_path / 'run')


def manifest(workdir: pathlib.Path, step: int) -> pathlib.Path:
    return workdir / 'checkpoints' / str(step) / 'state' / 'manifest.ocdbt'


def snapshot(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob('*')
        if path.is_file()
    }


SEEN_BEFORE_READING = {
    'cut': (lambda w: harm.cut_arrays(w, 3), r'has 100 bytes instead of \d+'),
    'empty': (lambda w: os.truncate(manifest(w, 3), 0), 'state/manifest.ocdbt has 0 bytes'),
    'missing': (lambda w: manifest(w, 3).unlink(), 'state/manifest.ocdbt is missing'),
    'progress': (
        lambda w: os.truncate(w / 'checkpoints/3/progress/metadata', 9), 'it has broken JSON',
    ),
    'no_progress': (
        lambda w: (w / 'checkpoints/3/progress/metadata').unlink(), 'progress/metadata is missing',
    ),
    'list': (lambda w: os.truncate(w / 'checkpoints/3/files.json', 50), 'it has broken JSON'),
}  # fmt: skip


@pytest.mark.parametrize('kind', SEEN_BEFORE_READING)
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(workdir, kind):
    damage, reason = SEEN_BEFORE_READING[kind]
    damage(workdir)
    before, lines = snapshot(workdir / 'checkpoints' / '3'), []
    saver = checkpoints.Checkpoints(str(workdir), keep=3)
    assert saver.newest(lines.append) == saver.latest_step == 2
    (line,) = lines
    assert line.startswith('checkpoint 3 is damaged: ') and '\n' not in line
    assert re.search(reason, line)
    assert line.endswith(f'it was set aside as {workdir}/damaged/3')
    assert snapshot(workdir / 'damaged' / '3') == before  # Nothing of it is lost.
    found, progress = saver.restore(2, large_state(0))
    assert progress == progress_of(2)
    jax.tree.map(np.testing.assert_array_equal, found, large_state(2))
    # The step is reached again, and damaged again.
    saver.save(3, large_state(3), progress_of(3))
    saver.wait()
    assert saver.newest(lines.append) == 3 and len(lines) == 1
    harm.cut_arrays(workdir, 3)
    assert saver.newest(lines.append) == 2
    assert lines[1].endswith(f'it was set aside as {workdir}/damaged/3-2')
    saver.close()


SEEN_IN_READING = {
    # What it hits differs from save to save: the arrays are written in any order.
    'altered': (lambda w: harm.alter_arrays(w, 3), ''),
    'altered_index': (lambda w: harm.alter(manifest(w, 3)), 'Error decoding manifest'),
    'altered_tree': (
        lambda w: harm.alter(*(w / 'checkpoints/3/state/d').iterdir()), 'Error decoding b-tree',
    ),
    'cut_without_a_list': (lambda w: harm.cut_arrays(w, 3), 'Requested byte range'),
}  # fmt: skip


@pytest.mark.parametrize('kind', SEEN_IN_READING)
def test_what_only_reading_shows(workdir, kind):
    damage, reason = SEEN_IN_READING[kind]
    damage(workdir)
    if 'without' in kind:
        (workdir / 'checkpoints' / '3' / 'files.json').unlink()
    saver = checkpoints.Checkpoints(str(workdir), keep=3)
    assert saver.newest() == 3
    with pytest.raises(checkpoints.DamagedCheckpoint) as error:
        saver.restore(3, large_state(0))
    message = str(error.value)
    assert error.value.exit_code == 75
    assert message.startswith('checkpoint 3 cannot be read: ') and reason in message
    assert f'it was set aside as {workdir}/damaged/3; the same command goes on' in message
    assert message.endswith('of step 2') and len(message) < 500 and '\n' not in message
    assert saver.newest() == 2
    jax.tree.map(np.testing.assert_array_equal, saver.restore(2, large_state(0))[0], large_state(2))
    saver.close()


def test_no_run_begins_from_nothing_because_all_is_damaged(workdir):
    for step in (1, 2, 3):
        manifest(workdir, step).unlink()
    saver = checkpoints.Checkpoints(str(workdir))
    lines = []
    for _ in range(2):  # It stays so.
        with pytest.raises(UserError, match=r'no whole checkpoint.*remove \S+/damaged to begin'):
            saver.newest(lines.append)
    assert len(lines) == 3
    shutil.rmtree(workdir / 'damaged')
    assert saver.newest() is None
    saver.close()


def test_a_checkpoint_without_a_list_is_not_doubted(workdir):
    for path in ('files.json', 'sums/metadata'):
        (workdir / 'checkpoints' / '3' / path).unlink()
    assert checkpoints.damage(str(workdir), 3) == ''
    saver = checkpoints.Checkpoints(str(workdir))
    assert saver.newest() == 3
    jax.tree.map(np.testing.assert_array_equal, saver.restore(3, large_state(0))[0], large_state(3))
    saver.close()


@pytest.mark.parametrize('damage', [harm.alter_arrays, harm.cut_arrays])
def test_all_who_read_parameters_say_what_is_damaged(workdir, damage):
    like = large_state(0).params
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like)
    shardings = jax.tree.map(lambda x: x.sharding, like)
    damage(workdir, 3)
    for read in (
        lambda step: checkpoints.load_params(str(workdir), step, shapes, shardings),
        lambda step: checkpoints.read_params(str(workdir), step, ['layer/table']),
    ):
        with pytest.raises(UserError, match=r'checkpoint 3 of .* is damaged: .*another one: 1, 2$'):
            read(3)
        read(2)
    assert checkpoints.steps(str(workdir)) == [1, 2, 3]  # Only a run sets anything aside.
    os.truncate(workdir / 'checkpoints/3/progress/metadata', 9)
    for read in (checkpoints.find_step, checkpoints.param_shapes):
        with pytest.raises(UserError, match=r'checkpoint 3 of .* is damaged: '):
            read(str(workdir), 'best' if read is checkpoints.find_step else 3)


def test_a_checkpoint_of_something_else_is_not_called_damaged(workdir):
    saver = checkpoints.Checkpoints(str(workdir))
    other = large_state(0)
    other = train_step.TrainState(other.step, {'other': other.params['layer']}, other.opt_state)
    with pytest.raises(Exception, match='other') as error:
        saver.restore(3, other)
    assert not isinstance(error.value, UserError)
    assert checkpoints.steps(str(workdir)) == [1, 2, 3]
    saver.close()


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'int32', 'uint8', 'bool'])
def test_a_checksum_sees_one_bit_and_two_rows_that_changed_places(dtype):
    array = np.random.default_rng(0).integers(0, 2, (64, 32)).astype(jnp.dtype(dtype))
    (before,) = checkpoints._sums({'a': jnp.asarray(array)}).values()
    changed = {'bit': array.copy(), 'rows': array[::-1], 'shape': array.reshape(32, 64).T}
    changed['bit'].view(np.uint8)[5, 7] ^= 1
    for kind, other in changed.items():
        (after,) = checkpoints._sums({'a': jnp.asarray(other)}).values()
        assert after != before, kind


@pytest.mark.parametrize(
    'options, message',
    [(dict(every=0), 'every is 0; it must be 1'), (dict(keep=0), 'keep is 0; it must be 1')],
)
def test_options_that_are_refused(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        checkpoints.Checkpoints(str(tmp_path / 'run'), **options)
    assert not (tmp_path / 'run').exists()
