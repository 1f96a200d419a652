"""Which checkpoints stay, what counts as one, and how one comes back on another mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from xlbench import checkpoints, partitioning, train_step
from xlbench.errors import UserError


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
    found = saver.restore(1, like)
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
        found = saver.restore(step, state_of(0))
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


def test_saving_a_step_again_changes_nothing(tmp_path):
    saver = checkpoints.Checkpoints(str(tmp_path))
    saver.save(1, state_of(1), progress_of(1))
    saver.save(1, state_of(5), progress_of(5))
    saver.close()
    assert checkpoints.read_progress(str(tmp_path), 1) == progress_of(1)


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


@pytest.mark.parametrize(
    'options, message',
    [(dict(every=0), 'every 0'), (dict(keep=0), 'keep 0')],
)
def test_options_that_are_refused(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        checkpoints.Checkpoints(str(tmp_path / 'run'), **options)
    assert not (tmp_path / 'run').exists()
