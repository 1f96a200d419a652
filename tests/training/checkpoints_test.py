"""Which checkpoints stay, what counts as one, and how one comes back, or does not, if damaged."""

import collections
import os
import pathlib
import random
import re
import shutil

import harm
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from edits import content, refused
from jax.sharding import NamedSharding, PartitionSpec as P

from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.training import checkpoints, train_step
from xlbench.training.checkpoints import Best, Position, Progress, record


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
    best = Best(best_step, 0.5) if best_step else None
    return Progress('s', Position(0, step, 2**32 - 1), best)


@pytest.mark.parametrize(
    'best, options, expected',
    [
        ([None] * 5, dict(keep=2), [4, 5]),
        ([None] * 3, dict(keep=5), [1, 2, 3]),
        ([1, 2, 2, 2], dict(keep=1), [2, 4]),
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


def test_progress_keeps_whole_numbers_and_nothing(tmp_path):
    saver = checkpoints.Checkpoints(str(tmp_path))
    progress = Progress(
        'stage1', Position(3, 1, 2**32 - 1), Best(4, 0.1 + 0.2), due=['test'], chosen={'stage1': 4}
    )
    saver.save(4, state_of(4), progress)
    progress.due = []  # It is written as it was when `save` was called.
    saver.save(5, state_of(5), progress_of(5))
    saver.close()
    progress.due = ['test']
    assert checkpoints.read_progress(str(tmp_path), 4) == progress
    assert checkpoints.read_progress(str(tmp_path), 5).best is None


@pytest.mark.parametrize(
    'text', ['[]', '3', '{"best": 7}', '{"best": {"step": "7"}}', '[' * 100_000]
)
def test_a_strange_progress_is_one_line(tmp_path, text):
    place = tmp_path / 'checkpoints' / '4' / 'progress' / 'metadata'
    place.parent.mkdir(parents=True)
    place.write_text(text)
    with refused('its progress cannot be read'):
        checkpoints.read_progress(str(tmp_path), 4)
    with refused('its progress cannot be read'):
        checkpoints.find_step(str(tmp_path), 'best')


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
    (torn / 'checkpoint.json').write_text('{"stage": "s"')
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
    other = progress_of(1, best_step=1)
    saver.save(1, state_of(5), other)
    assert saver.newest() == 1
    found, progress = saver.restore(1, state_of(0))
    saver.close()
    assert progress == checkpoints.read_progress(str(tmp_path), 1) == other
    jax.tree.map(np.testing.assert_array_equal, found, state_of(1))


@pytest.mark.parametrize(
    'sizes', [{}, dict(data=8), dict(data=1, fsdp=4, tensor=2), dict(data=2, fsdp=2, tensor=2)]
)
def test_a_run_and_its_parameters_come_back_on_any_mesh(tmp_path, sizes):
    """Checksums are of whole arrays, however they are cut; {} is one device."""
    save_all(tmp_path, [None])
    like = state_of(0, partitioning.make_mesh(**sizes or dict(devices=jax.devices()[:1])))
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), like.params)
    shardings = jax.tree.map(lambda x: x.sharding, like.params)
    found = checkpoints.load_params(str(tmp_path), 1, shapes, shardings)
    jax.tree.map(np.testing.assert_array_equal, found, state_of(1).params)
    assert found['layer']['table'].sharding == shardings['layer']['table']
    saver = checkpoints.Checkpoints(str(tmp_path))
    found, progress = saver.restore(saver.newest(), like)
    saver.close()
    assert progress == checkpoints.read_progress(str(tmp_path), 1) == progress_of(1)
    jax.tree.map(np.testing.assert_array_equal, found, state_of(1))
    jax.tree.map(lambda a, b: np.testing.assert_(a.sharding == b.sharding), found, like)


def test_a_checkpoint_that_is_not_there(tmp_path):
    save_all(tmp_path, [None, None], keep=2)
    with pytest.raises(UserError, match=r'has no checkpoint of step 5; it has \[1, 2\]'):
        checkpoints.load_params(str(tmp_path), 5, {}, {})
    with pytest.raises(UserError, match='has no checkpoint of step 1; it has none'):
        checkpoints.load_params(str(tmp_path / 'empty'), 1, {}, {})


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


def record_file(workdir: pathlib.Path, step: int) -> pathlib.Path:
    return workdir / 'checkpoints' / str(step) / 'checkpoint.json'


def manifest(workdir: pathlib.Path, step: int) -> pathlib.Path:
    return workdir / 'checkpoints' / str(step) / 'state' / 'manifest.ocdbt'


SEEN_BEFORE_READING = {
    'cut': (lambda w: harm.cut_arrays(w, 3), r'has 100 bytes instead of \d+'),
    'empty': (lambda w: os.truncate(manifest(w, 3), 0), 'state/manifest.ocdbt has 0 bytes'),
    'missing': (lambda w: manifest(w, 3).unlink(), 'state/manifest.ocdbt is missing'),
    'cut_record': (lambda w: os.truncate(record_file(w, 3), 9), 'checkpoint.json is not what was'),
    'no_record': (lambda w: record_file(w, 3).unlink(), 'checkpoint.json is missing'),
    'record': (lambda w: harm.alter(record_file(w, 3)), 'checkpoint.json is not what was written'),
    'index': (lambda w: harm.alter(manifest(w, 3)), 'state/manifest.ocdbt is not what was written'),
    'earlier_progress': (lambda w: os.truncate(harm.as_earlier(w, 3), 9), 'truncated'),
    'earlier_list': (
        lambda w: os.truncate(harm.as_earlier(w, 3).parents[1] / 'files.json', 50), 'truncated',
    ),
    'folder': (lambda w: (record_file(w, 3).unlink(), record_file(w, 3).mkdir()), 'it is a folder'),
}  # fmt: skip


@pytest.mark.parametrize('kind', SEEN_BEFORE_READING)
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(workdir, kind):
    damage, reason = SEEN_BEFORE_READING[kind]
    damage(workdir)
    before, lines = content(workdir / 'checkpoints' / '3'), []
    saver = checkpoints.Checkpoints(str(workdir), keep=3)
    assert saver.newest(lines.append) == saver.latest_step == 2
    (line,) = lines
    assert line.startswith('checkpoint 3 is damaged: ') and '\n' not in line
    assert re.search(reason, line)
    assert line.endswith(f'it was moved to {workdir}/damaged/3')
    assert content(workdir / 'damaged' / '3') == before  # Nothing of it is lost.
    found, progress = saver.restore(2, large_state(0))
    assert progress == progress_of(2)
    jax.tree.map(np.testing.assert_array_equal, found, large_state(2))
    # The step is reached again, and damaged again.
    saver.save(3, large_state(3), progress_of(3))
    saver.wait()
    assert saver.newest(lines.append) == 3 and len(lines) == 1
    harm.cut_arrays(workdir, 3)
    assert saver.newest(lines.append) == 2
    assert lines[1].endswith(f'it was moved to {workdir}/damaged/3-2')
    saver.close()


SEEN_IN_READING = {
    # What it hits differs from save to save: the arrays are written in any order.
    'altered': (lambda w: harm.alter_arrays(w, 3), ''),
    'altered_index_before': (
        lambda w: (harm.as_earlier(w, 3), harm.alter(manifest(w, 3))), 'Error decoding manifest',
    ),
    'altered_names_before': (
        lambda w: (harm.as_earlier(w, 3), rename_keys(w, 3)), "KeyError: 'key_metadata'",
    ),
    'altered_tree': (
        lambda w: harm.alter(*(w / 'checkpoints/3/state/d').iterdir()), 'Error decoding b-tree',
    ),
    'cut_without_a_list': (
        lambda w: (harm.as_earlier(w, 3), harm.cut_arrays(w, 3)), 'Requested byte range',
    ),
}  # fmt: skip


def rename_keys(workdir: pathlib.Path, step: int) -> None:
    """The list of the arrays stays JSON of the same size."""
    path = workdir / 'checkpoints' / str(step) / 'state' / '_METADATA'
    path.write_bytes(path.read_bytes().replace(b'key_metadata', b'key_metadatb'))


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
    assert f'it was moved to {workdir}/damaged/3; the same command continues' in message
    assert message.endswith('before it, step 2') and len(message) < 500 and '\n' not in message
    assert saver.newest() == 2
    jax.tree.map(np.testing.assert_array_equal, saver.restore(2, large_state(0))[0], large_state(2))
    saver.close()


def test_no_run_begins_from_nothing_because_all_is_damaged(workdir):
    for step in (1, 2, 3):
        manifest(workdir, step).unlink()
    saver = checkpoints.Checkpoints(str(workdir))
    lines = []
    for _ in range(2):  # It stays so.
        with pytest.raises(UserError, match=r'no intact checkpoint.*delete \S+/damaged to start'):
            saver.newest(lines.append)
    assert len(lines) == 3
    shutil.rmtree(workdir / 'damaged')
    assert saver.newest() is None
    saver.close()


@pytest.mark.parametrize('listed', [True, False])
def test_a_checkpoint_of_an_earlier_version_is_read(workdir, listed):
    harm.as_earlier(workdir, 3)
    if not listed:
        (workdir / 'checkpoints/3/files.json').unlink()
        shutil.rmtree(workdir / 'checkpoints/3/sums')
    assert checkpoints.damage(str(workdir), 3) == ''
    saver, lines = checkpoints.Checkpoints(str(workdir)), []
    assert saver.newest(lines.append) == 3
    assert lines == [
        'checkpoint 3 was written by an earlier version, without a checksum of its progress: only '
        'the ranges of its values are checked'
    ]
    assert saver.restore(3, large_state(0))[1] == progress_of(3)
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
    os.truncate(record_file(workdir, 3), 9)
    for read in (checkpoints.find_step, checkpoints.param_shapes):
        with pytest.raises(UserError, match=r'checkpoint 3 of .* is damaged: '):
            read(str(workdir), 'best' if read is checkpoints.find_step else 3)


def test_a_checkpoint_that_another_process_sets_aside_is_damaged(workdir):
    """It may vanish at any moment while this process reads it."""
    (workdir / 'damaged').mkdir()
    saver = checkpoints.Checkpoints(str(workdir), keep=3)
    assert saver.newest() == 3
    (workdir / 'checkpoints' / '3').rename(workdir / 'damaged' / '3')
    message = r'has found it damaged.*before it, step 2$'
    with pytest.raises(checkpoints.DamagedCheckpoint, match=message):
        saver.restore(3, large_state(0))
    assert saver.newest() == 2


def test_a_checkpoint_of_something_else_is_not_called_damaged(workdir):
    saver = checkpoints.Checkpoints(str(workdir))
    other = large_state(0)
    other = train_step.TrainState(other.step, {'other': other.params['layer']}, other.opt_state)
    with pytest.raises(UserError, match='params/other/table is missing in checkpoint') as error:
        saver.restore(3, other)
    assert not isinstance(error.value, checkpoints.DamagedCheckpoint)
    like = {'layer': {'table': jax.ShapeDtypeStruct((256, 127), np.float32)}}
    shardings = jax.tree.map(lambda _: large_state(0).opt_state[0].sharding, like)
    with refused(r'has shape \(256, 128\) in .* \(256, 127\)'):
        checkpoints.load_params(str(workdir), 3, like, shardings)
    assert checkpoints.steps(str(workdir)) == [1, 2, 3]
    saver.close()


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'int32', 'uint8', 'bool'])
def test_a_checksum_sees_one_bit_and_two_rows_that_changed_places(dtype):
    array = np.random.default_rng(0).integers(0, 2, (64, 32)).astype(jnp.dtype(dtype))
    (before,) = record.sums_of({'a': jnp.asarray(array)}).values()
    changed = {'bit': array.copy(), 'rows': array[::-1], 'shape': array.reshape(32, 64).T}
    changed['bit'].view(np.uint8)[5, 7] ^= 1
    for kind, other in changed.items():
        (after,) = record.sums_of({'a': jnp.asarray(other)}).values()
        assert after != before, kind


# ---------------------------------------------------------------------------- every byte is covered


def test_no_altered_bit_of_what_a_checkpoint_says_of_itself_passes(workdir):
    """Of 1,328 bits of such a progress, 534 passed, and trained on from another place."""
    content = record_file(workdir, 3).read_bytes()
    assert b'"position"' in content and b'"sums"' in content
    altered = bytearray(content)
    for number in range(8 * len(content)):
        altered[number // 8] ^= 1 << number % 8
        with pytest.raises(record.Damage):
            record.parse(bytes(altered))
        altered[number // 8] ^= 1 << number % 8
    for end in range(len(content)):
        with pytest.raises(record.Damage):
            record.parse(content[:end])
    harm.alter_bit(record_file(workdir, 3), 8 * content.index(b'window'))
    assert 'checkpoint.json is not what was written' in checkpoints.damage(str(workdir), 3)


def test_no_altered_bit_of_any_file_passes(workdir):
    """Some bits of each file; XLBENCH_FUZZ_CASES=100000 takes all of them."""
    saver, like = checkpoints.Checkpoints(str(workdir), keep=3), large_state(0)
    folder = workdir / 'checkpoints' / '3'
    # Nobody reads what Orbax notes beside the folders.
    ignored = ('_CHECKPOINT_METADATA', 'commit_success.txt')
    count, seen = int(os.environ.get('XLBENCH_FUZZ_CASES', 3)), collections.Counter()
    for path in sorted(p for p in folder.rglob('*') if p.is_file() and p.parent != folder):
        content = path.read_bytes()
        bits = range(8 * len(content))
        for number in random.Random(path.name).sample(bits, min(count, len(bits))):
            harm.alter_bit(path, number)
            if checkpoints.damage(str(workdir), 3):
                seen['noticed'] += 1
            else:
                assert path.parent.name == 'd', path  # All others have checksums in the record.
                try:
                    state, progress = saver.restore(3, like)
                except checkpoints.DamagedCheckpoint:
                    seen['noticed in reading'] += 1
                    shutil.move(workdir / 'damaged' / '3', folder)
                else:
                    seen['read by nobody'] += 1
                    assert progress == progress_of(3)
                    jax.tree.map(np.testing.assert_array_equal, state, large_state(3))
            path.write_bytes(content)
    saver.close()
    assert seen['noticed'] and seen['noticed in reading'], seen
    assert {p.name for p in folder.iterdir() if p.is_file()} == {*ignored, 'checkpoint.json'}


MISTYPED = [
    (dict(position={'window': -1, 'batch': 0, 'feed': 1}), 'Expected `int` >= 0'),
    (dict(position={'window': 2**70, 'batch': 0, 'feed': 1}), 'window'),
    (dict(position={'window': 0.5, 'batch': 0, 'feed': 1}), 'Expected `int`, got `float`'),
    (dict(position=[0, 0, 1]), 'Expected `object'),
    (dict(best={'step': 1, 'score': None}), 'Expected `float`, got `null`'),
    (dict(due='dev'), 'Expected `array`'),
    (dict(stale=-1), 'Expected `int` >= 0'),
]


@pytest.mark.parametrize('earlier', [False, True])
def test_a_progress_of_other_types_is_set_aside(workdir, earlier):
    saver = checkpoints.Checkpoints(str(workdir), keep=3)
    whole = shutil.copytree(workdir / 'checkpoints' / '3', workdir / 'whole')
    for changes, reason in MISTYPED:
        harm.edit_progress(workdir, 3, **changes)
        if earlier:
            harm.as_earlier(workdir, 3)
        lines = []
        assert saver.newest(lines.append) == 2, changes
        assert 'checkpoint 3 is damaged: ' in lines[0] and reason in lines[0], (changes, lines)
        assert '\n' not in lines[0] and len(lines) == 1
        shutil.copytree(whole, workdir / 'checkpoints' / '3')
    assert saver.newest() == 3
    saver.close()


def test_names_that_leave_the_folder_are_not_followed(workdir):
    """A record with a right checksum may come from a stranger."""
    folder = workdir / 'checkpoints' / '3'
    content = record.read(folder)
    for name in ('/dev/zero', '../3/checkpoint.json', 'a\0b', 'x' * 5000, '\ud800'):
        content.files = {name: (0, 'x')}
        record._write(folder, content) if name != '\ud800' else None
        reason = checkpoints.damage(str(workdir), 3)
        assert reason and '\n' not in reason, name


def test_parameters_alone_are_covered_too(tmp_path):
    params = jax.device_get(large_state(1).params)
    checkpoints.save_params(str(tmp_path), 0, params)
    assert os.listdir(tmp_path / 'checkpoints') == ['0']
    name = 'layer/table'
    there = checkpoints.read_params(str(tmp_path), 0, [name])[name]
    np.testing.assert_array_equal(there, params['layer']['table'])
    content = record.read(tmp_path / 'checkpoints' / '0')
    assert content.progress == Progress() and list(content.sums) == [f'params/{name} float32']
    harm.alter_arrays(tmp_path, 0)
    with pytest.raises(UserError, match=r'checkpoint 0 of .* is damaged: '):
        checkpoints.read_params(str(tmp_path), 0, [name])
