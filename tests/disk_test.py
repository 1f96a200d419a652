"""Full disks, folders that vanish, data that changes under a run: one plain line, nothing lost."""

import contextlib
import errno
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator

import children
import harm
import jax
import numpy as np
import prepared_files
import pytest
import tiny
from jax.sharding import NamedSharding, PartitionSpec as P

from xlbench import config as config_lib, runs, train
from xlbench.data import prepared
from xlbench.parallel import partitioning
from xlbench.settings.blocks import Data
from xlbench.system import errors, untrusted
from xlbench.system.errors import UserError
from xlbench.training import checkpoints, train_step
from xlbench.training.checkpoints import folders, record

# ------------------------------------------------------------------------------------- what is said

TENSORSTORE = (
    'RESOURCE_EXHAUSTED: Error writing "params.a/0.0" in OCDBT database at local file '
    '"/r/c/3/state/": '
    "Failed to write 541177 bytes to file 5: No space left on device [os_error_code='28']"
)


@pytest.mark.parametrize(
    'error, said',
    [
        (OSError(errno.ENOSPC, 'x', '/r/a'),
         'No space left on device (/r/a); make room, and start'),
        (OSError(errno.EDQUOT, 'x', '/r/a'), 'Disk quota exceeded (/r/a); make room'),
        (OSError(errno.EROFS, 'x', b'/r/a'), 'Read-only file system (/r/a); make it writable'),
        (OSError(errno.EIO, 'x'), 'Input/output error; check the disk'),
        (OSError(errno.ESTALE, 'x', '/r/a'), 'Stale file handle (/r/a); mount it again'),
        (NotADirectoryError(errno.ENOTDIR, 'x', '/r/a'), 'Not a directory (/r/a); a file is where'),
        (IsADirectoryError(errno.EISDIR, 'x', '/r/a'), 'Is a directory (/r/a); a folder is where'),
        (FileExistsError(errno.EEXIST, 'x', '/r/a'), 'File exists (/r/a); something of that name'),
        (OSError(errno.ENAMETOOLONG, 'x', '/r/a'), 'File name too long (/r/a); name a shorter'),
        (OSError(errno.ELOOP, 'x', '/r/a'), 'Too many levels of symbolic links (/r/a); check'),
        (PermissionError(errno.EACCES, 'x', '/r/a'),
         'Permission denied (/r/a); make it accessible'),
        (OSError(errno.ENOENT, 'x', '/r/b', None, '/r/a'), 'No such file or directory (/r/a)'),
        (ValueError(TENSORSTORE), 'No space left on device (/r/c/3/state/); make room'),
        (UserError('a slip'), 'a slip'),
    ],
)  # fmt: skip
def test_trouble_with_a_disk_is_one_line(error, said, capsys):
    def main(argv):
        if argv:
            raise error
        raise RuntimeError('a thread') from error

    for argv in (['direct'], []):
        if isinstance(error, UserError) and not argv:
            continue
        assert errors.run_main(main, argv) == 2
        printed = capsys.readouterr().err
        assert printed.startswith(f'error: {said}') and printed.count('\n') == 1


@pytest.mark.parametrize(
    'error',
    [ConnectionResetError(errno.ECONNRESET, 'x'), ValueError('there is no space left on device 7'),
     ValueError('INTERNAL: out of memory'), KeyError('a')],
)  # fmt: skip
def test_other_errors_keep_their_traceback(error):
    def main(argv):
        raise error

    with pytest.raises(type(error)):
        errors.run_main(main, [])


# ------------------------------------------------------------------------------ checkpoints, alone


def state_of(value: int) -> train_step.TrainState:
    """A state with an array of half a megabyte that hardly gets smaller by compression."""
    mesh = partitioning.make_mesh(data=2, fsdp=4)
    table = np.random.default_rng(value).standard_normal((512, 256)).astype(np.float32)
    table = jax.device_put(table, NamedSharding(mesh, P('fsdp')))
    step = jax.device_put(np.int32(value), NamedSharding(mesh, P()))
    return train_step.TrainState(step, {'table': table}, ())


def progress_of(step: int) -> record.Progress:
    return record.Progress('s', record.Position(0, step))


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """In this block no file of this process grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def check_until_it_raises(saver: checkpoints.Checkpoints) -> None:
    for _ in range(3000):
        saver.check()
        time.sleep(0.01)


@pytest.mark.parametrize('notice', ['check', 'wait', 'save', 'close'])
def test_a_checkpoint_that_does_not_fit(tmp_path, notice, capfd):
    saver = checkpoints.Checkpoints(str(tmp_path))
    saver.save(1, state_of(1), progress_of(1))
    saver.wait()
    with largest_file(50_000), pytest.raises(UserError) as error:
        saver.save(2, state_of(2), progress_of(2))
        {
            'check': lambda: check_until_it_raises(saver), 'wait': saver.wait,
            'save': lambda: saver.save(3, state_of(3), progress_of(3)), 'close': saver.close,
        }[notice]()  # fmt: skip
    line = str(error.value)
    assert line.startswith('cannot write the checkpoint of step 2: File too large (')
    assert str(tmp_path / 'checkpoints' / '2') in line
    assert line.endswith(
        'the newest intact one is of step 1; allow larger files (ulimit -f) and start the same '
        'command again'
    )
    saver.close()  # It is said once.
    assert capfd.readouterr().err == ''  # No thread printed what stopped it.
    assert os.listdir(tmp_path / 'checkpoints') == ['1']  # Half a checkpoint takes no room.
    saver = checkpoints.Checkpoints(str(tmp_path))
    assert saver.newest() == 1
    jax.tree.map(np.testing.assert_array_equal, saver.restore(1, state_of(0))[0], state_of(1))
    saver.save(2, state_of(2), progress_of(2))
    saver.wait()
    assert saver.newest() == 2
    saver.close()


def test_a_workdir_that_was_moved_away(tmp_path):
    saver = checkpoints.Checkpoints(str(tmp_path / 'run'))
    saver.save(1, state_of(1), progress_of(1))
    saver.wait()
    (tmp_path / 'run').rename(tmp_path / 'elsewhere')
    with pytest.raises(UserError, match=r'step 2: No such file or directory \(\S+/checkpoints\)'):
        saver.save(2, state_of(2), progress_of(2))
    saver.close()
    assert os.listdir(tmp_path) == ['elsewhere']
    assert checkpoints.steps(str(tmp_path / 'elsewhere')) == [1]


# ------------------------------------------------------------------ what is there, and not given


@pytest.mark.parametrize('number', [errno.EACCES, errno.EIO, errno.EMFILE, errno.ESTALE])
def test_what_a_disk_does_not_give_is_not_prepared_anew(tiny_root, monkeypatch, number):
    """It may be whole; and whoever prepares it again may have other files by now."""

    def withheld(path, *_, **__):
        raise OSError(number, os.strerror(number), str(path))

    needed = [(tiny.MIXTURE, 'rough_train'), (tiny.QUESTIONS[0], 'validation')]
    data = Data(root=str(tiny_root), vocabulary='sample', sample=False)
    monkeypatch.setattr(prepared.on_demand.subprocess, 'run', pytest.fail)
    for place, name in ((untrusted, 'open_regular'), (np.lib.format, 'open_memmap')):
        monkeypatch.setattr(place, name, withheld)
        for pair in needed:
            with pytest.raises((UserError, OSError), match=re.escape(os.strerror(number))) as error:
                prepared.ensure([pair], data)
            assert errors.plain(error.value)
        monkeypatch.undo()
        monkeypatch.setattr(prepared.on_demand.subprocess, 'run', pytest.fail)
    prepared.ensure(needed, data)


def test_what_a_disk_does_not_give_of_a_checkpoint_is_no_damage(tmp_path, monkeypatch):
    saver = checkpoints.Checkpoints(str(tmp_path))
    saver.save(1, state_of(1), progress_of(1))
    saver.wait()

    def withheld(path, *_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(untrusted, 'open_regular', withheld)
    with pytest.raises(UserError, match=r'checkpoint\.json cannot be read: Input/output error'):
        saver.newest(pytest.fail)
    monkeypatch.undo()
    monkeypatch.setattr(pathlib.Path, 'read_bytes', withheld)
    with pytest.raises(OSError, match='Input/output error'):
        saver.newest(pytest.fail)
    monkeypatch.undo()
    monkeypatch.setattr(os, 'listdir', withheld)
    with pytest.raises(OSError, match='Input/output error'):  # Not: there is none.
        checkpoints.steps(str(tmp_path))
    monkeypatch.undo()
    assert saver.newest(pytest.fail) == 1
    # What tensorstore says of a part that may be whole, and of one that is gone.
    text = 'NOT_FOUND: Error opening "zarr" driver: Error reading local file "/r/d/0": '
    folder = tmp_path / 'checkpoints' / '1'
    assert not folders.damage_in(ValueError(f'{text}Input/output error'), folder)
    assert folders.damage_in(ValueError(f'{text}No such file or directory'), folder)
    saver.close()


# -------------------------------------------------------------------------------- the real program


def flags(tmp_path: pathlib.Path, root: pathlib.Path, **overrides) -> list[str]:
    path = tiny.write_config(tmp_path / 'tiny_run.py', tiny.tiny_config(root, **overrides))
    return [f'--config={path}', f'--workdir={tmp_path / "disk" / "run"}']


def errors_in(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith('error: ')]


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, size: str) -> Iterator[None]:
    """A disk of that size in a folder; skips the test where nobody may mount one."""
    mount = ['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', folder]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip('this user may not mount a disk')
    try:
        yield
    finally:
        subprocess.run(['umount', '-l', folder], check=True)


@pytest.mark.nightly
def test_a_full_disk_ends_a_run_which_goes_on_with_room(tiny_root, tiny_run, tmp_path):
    disk = tmp_path / 'disk'
    disk.mkdir()
    arguments = flags(tmp_path, tiny_root)
    with small_disk(disk, '20m'):
        with children.start(arguments, devices=8, signal_at='0:train:5:STOP') as run:
            wait_until_stopped(run, 0)
            free = shutil.disk_usage(disk).free
            (disk / 'of_others').write_bytes(bytes(free - 100_000))
            run.kill(0, signal.SIGCONT)
            assert run.wait() == [2], run.output(0)
            (line,) = errors_in(run.output(0))
            assert 'Traceback' not in run.output(0)
        assert 'No space left on device' in line and 'make room and start the same' in line
        assert str(disk / 'run' / 'checkpoints') in line
        newest = checkpoints.steps(str(disk / 'run'))[-1]
        assert f'the newest intact one is of step {newest}' in line
        (disk / 'of_others').unlink()
        with children.start(arguments, devices=8) as run:
            assert run.wait() == [0], run.output(0)
            assert f'resumed at step {newest}' in run.output(0)
        children.same_run(disk / 'run', tiny_run)


def wait_until_stopped(run: children.Children, i: int) -> None:
    """Returns when a process has sent itself the SIGSTOP that it was started with."""
    stat = pathlib.Path(f'/proc/{run.processes[i].pid}/stat')
    while (state := stat.read_text().rpartition(')')[2].split()[0]) != 'T':
        assert state != 'Z' and run.processes[i].poll() is None, run.output(i)
        time.sleep(0.05)


@pytest.mark.nightly
def test_one_process_of_two_that_cannot_write_says_so(tiny_root, tmp_path):
    """It does not wait for the other one, which waits for its files."""
    arguments = flags(tmp_path, tiny_root, mesh__data=1, mesh__fsdp=8)  # Each holds its own parts.
    with children.start(arguments, processes=2, devices=4, signal_at='1:train:2:STOP') as run:
        wait_until_stopped(run, 1)
        resource.prlimit(run.processes[1].pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
        run.kill(1, signal.SIGCONT)
        started = time.monotonic()
        assert run.wait(numbers=[1]) == [2], run.output(1)
        assert time.monotonic() - started < 60
        (line,) = errors_in(run.output(1))  # The launcher ends the other process.
    assert 'cannot write the checkpoint of step 3: File too large' in line


@pytest.mark.nightly
def test_data_that_is_cut_while_a_run_reads_it(tiny_root, tmp_path):
    root = shutil.copytree(tiny_root, tmp_path / 'root')
    (tmp_path / 'disk').mkdir()
    workdir = tmp_path / 'disk' / 'run'
    with children.start(flags(tmp_path, root), devices=8, signal_at='0:train:2:STOP') as run:
        wait_until_stopped(run, 0)
        shards = sorted(
            (root / 'prepared' / 'sample' / tiny.QUESTIONS[0] / 'train').glob('*0*-of-*')
        )
        os.truncate(shards[0], 100)
        run.kill(0, signal.SIGCONT)
        assert run.wait() == [2], run.output(0)
        (line,) = errors_in(run.output(0))
        assert 'Traceback' not in run.output(0)
    assert f'{shards[0]} is broken' in line
    step = checkpoints.steps(str(workdir))[-1]
    assert step == 7 and checkpoints.damage(str(workdir), step) == ''


def test_data_that_was_prepared_anew_from_other_files(tiny_root, tmp_path, monkeypatch):
    root = shutil.copytree(tiny_root, tmp_path / 'root')
    config, workdir = tiny.tiny_config(root), str(tmp_path / 'run')
    config_lib.claim_workdir(workdir, config, runs.facts(config, runs.build(config)))
    config_lib.claim_workdir(workdir, config, runs.facts(config, runs.build(config)))
    task = tiny.QUESTIONS[0]
    place = pathlib.Path(prepared.folder(str(root), 'sample', task, 'validation'))
    shutil.rmtree(place)
    monkeypatch.setattr(prepared.freshness, 'code_fingerprint', lambda name: None)
    prepared_files.write_pairs(
        root, runs.tokenizers.load('sample', str(root)), task, 'validation',
        tiny.examples(task, 'validation')[::-1],
        about={'metrics': tiny.metrics(task)}, shard_examples=25,
    )  # fmt: skip
    with pytest.raises(UserError, match=f'^{task}/validation holds other examples than when'):
        config_lib.claim_workdir(workdir, config, runs.facts(config, runs.build(config)))


@pytest.fixture(scope='module')
def undisturbed(tiny_root, tmp_path_factory):
    """A config and the workdir of its whole run; two processes may go on with another one of it."""
    config = tiny.brief_config(tiny_root, checkpoints__keep=2, mesh=tiny.ALL_AXES)
    workdir = tmp_path_factory.mktemp('undisturbed') / 'run'
    train.train(config, str(workdir))
    return config, workdir


@pytest.fixture(scope='module')
def ended_in_step_5(undisturbed, tmp_path_factory):
    """The workdir of the same run, which ended early."""
    workdir = tmp_path_factory.mktemp('interrupted') / 'run'
    tiny.train_until(5, undisturbed[0], workdir)
    return workdir


@pytest.fixture
def interrupted(ended_in_step_5, tmp_path):
    """A copy of that workdir."""
    return pathlib.Path(shutil.copytree(ended_in_step_5, tmp_path / 'run'))


def test_a_run_goes_on_from_the_checkpoint_before_one_that_was_cut(interrupted, undisturbed):
    (config, whole), workdir = undisturbed, interrupted
    before, newest = checkpoints.steps(workdir)
    harm.cut_arrays(workdir, newest)
    train.train(config, str(workdir))
    log = (workdir / 'log.txt').read_text()
    assert f'checkpoint {newest} is damaged: ' in log
    assert f'resumed at step {before},' in log and f'resumed at step {newest},' not in log
    assert (workdir / 'damaged' / str(newest)).is_dir()
    children.same_run(whole, workdir)


@pytest.mark.nightly
def test_two_processes_that_find_altered_bytes_end_to_be_started_again(
    interrupted, undisturbed, tmp_path
):
    """Only one of them may have read those bytes, when the other goes on already."""
    (config, whole), workdir = undisturbed, interrupted
    before, newest = checkpoints.steps(workdir)
    harm.alter_arrays(workdir, newest)
    for codes in ([75, 75], [0, 0]):
        with children.start(children.flags(tmp_path, config), processes=2, devices=4) as run:
            assert run.wait() == codes, run.output(0)
        assert (workdir / 'damaged' / str(newest)).is_dir()
    assert f'resumed at step {before},' in (workdir / 'log.txt').read_text()
    children.same_run(whole, workdir, rtol=1e-4)
