"""Too little memory, too few open files, a batch that no device holds: one line that says so."""

import errno
import os
import pathlib
import resource
import signal
import subprocess
import sys

import children
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from xlbench import train
from xlbench.data import prepared
from xlbench.prepare import __main__ as command
from xlbench.system import errors, machine
from xlbench.system.errors import UserError
from xlbench.training import loop, memory

PROJECT = pathlib.Path(__file__).parents[2]


class JaxRuntimeError(RuntimeError):
    """As an accelerator raises it."""


MAPPED = 'libgomp.so.1.0.0: failed to map segment from shared object'
OPENED = 'libgomp.so.1: cannot open shared object file: Too many open files'
EXHAUSTED = 'RESOURCE_EXHAUSTED: Out of memory while trying to allocate 77.2GiB.'
CUDA = 'INTERNAL: Failed call to cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY'


@pytest.mark.parametrize(
    'error, said',
    [
        (MemoryError(), 'out of memory; give it more memory'),
        (MemoryError('std::bad_alloc'), 'out of memory (std::bad_alloc); give it more memory'),
        (OSError(errno.ENOMEM, 'Cannot allocate memory'), 'out of memory ([Errno 12] Cannot'),
        (OSError(errno.EMFILE, 'x', '/r/a'), 'Too many open files (/r/a); allow this process more'),
        (OSError(errno.ENFILE, 'x', '/r/a'), 'Too many open files in system (/r/a); close other'),
        (ImportError(MAPPED), 'out of memory while a library is loaded (libgomp.so.1.0.0: failed'),
        (ImportError(OPENED), 'Too many open files (libgomp.so.1: cannot open'),
        (RuntimeError("can't start new thread"), 'no thread or process can be started (can'),
        (BlockingIOError(errno.EAGAIN, 'x'), 'no thread or process can be started ([Errno 11]'),
        (
            JaxRuntimeError(f'{EXHAUSTED}\n\nBufferAssignment ...'),
            'out of memory on a device (RESOURCE_EXHAUSTED: Out of memory while trying',
        ),
        (JaxRuntimeError(CUDA), 'out of memory on a device (INTERNAL: Failed call'),
    ],
)
def test_what_there_is_too_little_of_is_one_line(error, said, capsys):
    def main(argv):
        if argv:
            raise error
        raise ValueError('a thread') from error

    for argv in (['direct'], []):
        assert errors.run_main(main, argv) == 2
        printed = capsys.readouterr().err
        assert printed.startswith(f'error: {said}') and printed.count('\n') == 1


def test_other_errors_of_jax_and_imports_keep_their_traceback():
    for error in (
        JaxRuntimeError('INVALID_ARGUMENT: shapes'),
        JaxRuntimeError('RESOURCE_EXHAUSTED: received message larger than max'),
        ImportError('no module named x'),
    ):
        assert errors.plain(error) is None


def limited(kind: int, limit: int, code: str) -> tuple[int, str]:
    """Exit code and standard error of Python code in a process with a limit."""
    child = subprocess.run(
        [sys.executable, '-c', code],
        preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return child.returncode, child.stderr


@pytest.mark.parametrize(
    'kind, limit, said',
    [
        (resource.RLIMIT_NOFILE, 30, 'this process may have 30 files open at once'),
        (resource.RLIMIT_AS, 1500 << 20, 'this process may reserve 1,500 MiB of memory (ulimit -v'),
    ],
)
def test_limits_with_which_libraries_would_hang_are_refused_at_once(kind, limit, said):
    code = (
        'import runpy, sys; sys.argv = ["train", "--config=mtg_mt5", "--workdir=/nowhere/run"];'
        'runpy.run_module("xlbench.train", run_name="__main__")'
    )
    returned, printed = limited(kind, limit, code)
    assert returned == 2, printed
    assert printed.startswith(f'error: {said}') and printed.count('\n') == 1
    assert 'ulimit' in printed


def test_a_preparation_with_so_little_memory_that_tensorflow_aborts(monkeypatch, capsys):
    monkeypatch.setattr(machine, '_limits', lambda *names: [2 << 30] * ('RLIMIT_AS' in names))
    assert errors.run_main(command.main, ['prepare', '--mixture=mtg_multi_qg']) == 2
    printed = capsys.readouterr().err
    assert printed.startswith('error: this process may reserve 2,048 MiB of memory (ulimit -v), ')


def test_an_import_for_which_nothing_is_left_is_one_line():
    code = (
        'from xlbench.system import errors; errors.end_on_interrupt();'
        'import os; rest = [os.open("/", 0) for _ in range(27)]; import jax'
    )
    returned, printed = limited(resource.RLIMIT_NOFILE, 30, code)
    assert returned == 2, printed
    assert printed.startswith('error: Too many open files (') and printed.count('\n') == 1


def test_a_program_takes_as_many_open_files_as_it_may():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = []

    def main(argv):
        limits.append(resource.getrlimit(resource.RLIMIT_NOFILE))

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
        errors.run_main(main, [])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert limits == [(min(before[1], 1 << 16), before[1])] and before[1] > 100


def test_a_shard_that_cannot_be_opened_is_not_called_broken(tiny_root):
    """The reader takes it for an empty file, and a user would prepare whole data again."""
    task = prepared.open_task(str(tiny_root), 'sample', tiny.QUESTIONS[0], 'train')
    task.lengths()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.open('/', os.O_RDONLY)
    os.close(next_one)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, before[1]))
        with pytest.raises(OSError) as error:
            task[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert error.value.errno == errno.EMFILE
    assert task[0]['inputs'].size  # Afterwards it is as it was.


def test_a_train_step_that_fits_no_device_is_refused_when_it_is_compiled(
    tiny_root, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(machine, 'memory', lambda: 500_000)
    config = tiny.brief_config(tiny_root)
    with children.on_devices(1):
        code = errors.run_main(lambda argv: train.train(config, str(tmp_path / 'run')), [])
    assert code == 2
    printed = capsys.readouterr().err
    assert printed.startswith('error: a train step needs ') and printed.count('\n') == 1
    assert 'on each device, which has 500kB' in printed
    assert 'take a smaller config.batches.batch_size (now 8) or lengths, a larger ' in printed
    assert 'config.accumulate (now 1), config.model.remat=full, or more devices' in printed
    assert not (tmp_path / 'run' / 'checkpoints' / '2').exists()


def test_a_device_that_is_full_in_a_step_or_an_evaluation_is_one_line(
    tiny_root, tmp_path, monkeypatch
):
    def too_large(*_, **__):
        jax.block_until_ready(jnp.zeros(1 << 42))

    config = tiny.brief_config(tiny_root)
    monkeypatch.setattr(loop.train_step_lib.TrainStep, '__call__', too_large)
    said = pytest.raises(UserError, match=r'on a device \(RESOURCE.*config\.batches\.batch_size')
    with children.on_devices(1), said:
        train.train(config, str(tmp_path / 'run'))
    monkeypatch.undo()
    evaluator = memory.advising('take a smaller config.evals.dev.batch_size (now 16)')
    with pytest.raises(UserError, match=r'evals\.dev\.batch_size \(now 16\)$'), evaluator:
        np.zeros(1 << 60, np.uint8)


def test_limits_of_clusters_and_shells_count_as_memory(tmp_path, monkeypatch):
    whole = machine.memory()
    monkeypatch.setattr(machine, '_CGROUPS', str(tmp_path))
    monkeypatch.setattr(machine, '_GROUPS', str(tmp_path / 'groups'))
    job = tmp_path / 'slurm' / 'job_7' / 'step_0'
    job.mkdir(parents=True)
    (tmp_path / 'groups').write_text('0::/slurm/job_7/step_0\n')
    (job / 'memory.max').write_text('max\n')
    assert machine.memory() == whole
    (job.parent / 'memory.max').write_text('12345678\n')  # Of the job, above its step.
    assert machine.memory() == 12345678
    (tmp_path / 'groups').write_text('9:cpu,memory:/slurm/job_8\n0::/\n')
    (tmp_path / 'memory' / 'slurm' / 'job_8').mkdir(parents=True)
    (tmp_path / 'memory' / 'slurm' / 'job_8' / 'memory.limit_in_bytes').write_text('2345678\n')
    assert machine.memory() == 2345678


def test_a_preparation_that_was_killed_is_one_line():
    with pytest.raises(UserError, match=r'signal 9 \(SIGKILL\), perhaps .* for lack of memory; wh'):
        prepared.on_demand._end_as(-signal.SIGKILL)
    with pytest.raises(UserError, match=r'signal 6 \(SIGABRT\); what was finished stays'):
        prepared.on_demand._end_as(-signal.SIGABRT)
    for code in (2, -signal.SIGTERM):  # It has said why, or this process was told the same.
        with pytest.raises(SystemExit):
            prepared.on_demand._end_as(code)
