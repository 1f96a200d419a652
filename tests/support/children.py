"""The real program in child processes: several of them, with fake CPU devices each, as one run.

    with children.start(flags, processes=2, devices=4) as run:
        assert run.wait() == [0, 0], run.output(0)

A child may send itself a signal at an exact place: `signal_at='1:train:2:KILL'` is SIGKILL to
process 1 when it notes the numbers of train step 2. The places:

    train:STEP   its numbers have been noted, in metrics.jsonl by process 0 (config.log_every = 1)
    eval:STEP    the scores of the first task of an evaluation have been noted; eval:NAME: of a task
    save:STEP    the checkpoint is being written in the background
    commit:STEP  it is whole, but has not got its name yet (process 0 only)

`record` has each child write down the examples that it trains on; `recorded` reads that.
"""

import contextlib
import functools
import json
import math
import os
import pathlib
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import quick_compilation
import warm
from ml_collections import ConfigDict

PROJECT = pathlib.Path(__file__).parents[2]
_SIGNAL_AT = 'CHILDREN_SIGNAL_AT'
_RECORD = 'CHILDREN_RECORD'
# Of the cluster that the tests run on, if they do.
_FOREIGN = ('SLURM_', 'OMPI_', 'TPU_', 'MEGASCALE_', 'JOB_COMPLETION_INDEX', 'XLBENCH_')


# Holds folders ('folder PATH') and files ('file PATH') until its input ends.
_HOLDER = """
import contextlib, sys
from xlbench.system import locks

with contextlib.ExitStack() as stack:
    for kind, path in zip(sys.argv[1::2], sys.argv[2::2]):
        stack.enter_context(getattr(locks, kind)(path))
    print('held', flush=True)
    sys.stdin.read()
"""


class Children:
    """Processes of one run; all are ended when the `with` block is left."""

    def __init__(self, processes: list[warm.Process], folder: tempfile.TemporaryDirectory):
        self.processes = processes
        self._folder = folder

    def wait(self, timeout: float = 400, numbers: Sequence[int] | None = None) -> list[int]:
        """The exit codes of all, or of those numbers; a signal's is negative, as Popen has it."""
        deadline = time.monotonic() + timeout
        numbers = range(len(self.processes)) if numbers is None else numbers
        for i in numbers:
            try:
                self.processes[i].wait(max(0.01, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(
                    f'process {i} still runs after {timeout} s:\n{self.output(i)}'
                ) from None
        return [self.processes[i].returncode for i in numbers]

    def output(self, i: int) -> str:
        """What process i has printed so far, standard error included."""
        path = pathlib.Path(self._folder.name) / f'process-{i}.txt'
        return path.read_text(encoding='utf-8', errors='replace')

    def kill(self, i: int, number: int = signal.SIGKILL) -> None:
        """Sends process i a signal."""
        self.processes[i].send_signal(number)

    def wait_for(self, i: int, text: str, timeout: float = 400) -> None:
        """Returns as soon as process i has printed a text; AssertionError if it ends without."""
        deadline = time.monotonic() + timeout
        while True:
            ended = self.processes[i].poll() is not None  # Asked first: its output is whole then.
            if text in self.output(i):
                return
            assert not ended, f'process {i} ended without {text!r}:\n{self.output(i)}'
            assert time.monotonic() < deadline, f'no {text!r} of process {i}:\n{self.output(i)}'
            time.sleep(0.01)

    def __enter__(self) -> 'Children':
        return self

    def __exit__(self, *_: Any) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self._folder.cleanup()


def start(
    arguments: Sequence[str],
    *,
    processes: int = 1,
    devices: int = 1,
    env: Mapping[str, str] | None = None,
    signal_at: str = '',
    record: str | os.PathLike = '',
    module: str = 'xlbench.train',
) -> Children:
    """Starts `python -m MODULE ARGUMENTS` in processes that find each other; see the top.

    `env` has further variables; 'XLBENCH_PROCESSES' and the like replace what is set here."""
    folder = tempfile.TemporaryDirectory(prefix='xlbench-children-')
    common = {name: v for name, v in os.environ.items() if not name.startswith(_FOREIGN)} | {
        'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': quick_compilation.xla_flags(devices),
        'PYTHONPATH': f'{PROJECT}:{os.environ.get("PYTHONPATH", "")}', _SIGNAL_AT: signal_at,
        _RECORD: os.fspath(record),
    }  # fmt: skip
    if processes > 1:
        common['XLBENCH_COORDINATOR'] = f'127.0.0.1:{free_port()}'
    children = []
    for i in range(processes):
        place = {'XLBENCH_PROCESSES': str(processes), 'XLBENCH_PROCESS': str(i)}
        with (
            open(f'{folder.name}/process-{i}.txt', 'wb') as output,
            open(os.devnull, 'rb') as nothing,
        ):
            child = warm.start(
                [__file__, module, *arguments],
                cwd=PROJECT,
                env=common | (place if processes > 1 else {}) | dict(env or {}),
                stdin=nothing.fileno(),
                stdout=output.fileno(),
                stderr=output.fileno(),
            )
        children.append(child)
    return Children(children, folder)


@contextlib.contextmanager
def held(*places: tuple[str, str | os.PathLike]) -> Iterator[subprocess.Popen]:
    """In the block another process holds places: ('folder' or 'file', path); see locks.py."""
    holder = subprocess.Popen(
        [sys.executable, '-c', _HOLDER, *(str(part) for place in places for part in place)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout.readline() == 'held\n'
        yield holder
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait()


def flags(folder: pathlib.Path, config: ConfigDict) -> list[str]:
    """The command line of a run of this config in folder/run; the config is written beside it."""
    import tiny

    folder.mkdir(parents=True, exist_ok=True)
    path = tiny.write_config(folder / 'children_config.py', config)
    return [f'--config={path}', f'--workdir={folder / "run"}']


def on_devices(count: int) -> contextlib.AbstractContextManager:
    """Inside, a mesh of this process has the first `count` of its devices."""
    import jax

    from xlbench.parallel import partitioning

    make_mesh = partitioning.make_mesh

    def with_devices(**sizes):
        return make_mesh(**sizes, devices=jax.devices()[:count])

    return mock.patch.object(partitioning, 'make_mesh', functools.wraps(make_mesh)(with_devices))


def free_port() -> int:
    """One that nobody listens on, below those that systems give to outgoing connections."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(('', port))
            return port


# ---------------------------------------------------------------------------------------------
# What runs left behind.


def scores(workdir: str | os.PathLike) -> dict[str, Any]:
    """All that a run computed, by place, without what depends on the clock."""
    workdir = pathlib.Path(workdir)
    timed = ('tokens_per_second', 'examples_per_second', 'input_wait', 'mfu')
    found = {}
    metrics = workdir / 'metrics.jsonl'  # Not there if nothing was trained.
    for number, row in enumerate(_rows(metrics) if metrics.exists() else []):
        values = {name: v for name, v in row['values'].items() if name not in timed}
        found[f'metrics.jsonl:{number} {row["kind"]} {row["name"]}'] = values | {
            'step': row['step']
        }
    for path in sorted(workdir.glob('eval/**/metrics.json')):
        content = json.loads(path.read_text(encoding='utf-8'))
        del content['seconds']
        found[str(path.relative_to(workdir))] = content
    for path in sorted(workdir.glob('eval/**/predictions.jsonl')):
        found[str(path.relative_to(workdir))] = _rows(path)
    return found


def same_run(
    one: str | os.PathLike, other: str | os.PathLike, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Two workdirs hold the same texts and whole numbers; others within atol + rtol * |number|."""
    left, right = scores(one), scores(other)
    assert left, f'{one} holds nothing'
    assert list(left) == list(right)
    for place in left:
        _compare(left[place], right[place], place, rtol, atol)


def _compare(left: Any, right: Any, place: str, rtol: float, atol: float) -> None:
    assert type(left) is type(right), f'{place}: {left!r} and {right!r}'
    if isinstance(left, dict):
        assert list(left) == list(right), place
        for name in left:
            _compare(left[name], right[name], f'{place} {name}', rtol, atol)
    elif isinstance(left, list):
        assert len(left) == len(right), place
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            _compare(a, b, f'{place} {i}', rtol, atol)
    elif isinstance(left, float):
        close = math.isclose(left, right, rel_tol=rtol, abs_tol=atol)
        assert close, f'{place}: {left!r} and {right!r}'
    else:
        assert left == right, f'{place}: {left!r} and {right!r}'


def contents(folder: str | os.PathLike) -> dict[str, tuple[int, bytes | None]]:
    """{path: (time of change in ns, bytes)} of all below a folder, folders included."""
    folder = pathlib.Path(folder)
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob('*'))
    }


def _rows(path: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]


# ---------------------------------------------------------------------------------------------
# What a run was trained on.


@contextlib.contextmanager
def recording(folder: str | os.PathLike, process: int = 0) -> Iterator[None]:
    """Inside, every training batch that this process takes is written down; see `recorded`."""
    from xlbench.data import batches

    take = batches.TrainBatches.__next__
    os.makedirs(folder, exist_ok=True)

    def take_and_note(feed):
        position = feed.position()
        batch = take(feed)
        rows = [zlib.crc32(row.tobytes()) for row in batch['encoder_input_tokens']]
        note = {'examples': feed.examples(position), 'rows': rows}
        with open(f'{os.fspath(folder)}/process-{process}.jsonl', 'a', encoding='utf-8') as file:
            file.write(json.dumps(note) + '\n')
        return batch

    with mock.patch.object(batches.TrainBatches, '__next__', take_and_note):
        yield


def recorded(folder: str | os.PathLike) -> list[list[dict[str, Any]]]:
    """Of each process its batches: (task, split, number) of all rows, and sums of its own."""
    paths = sorted(pathlib.Path(folder).glob('process-*.jsonl'))
    return [_rows(path) for path in paths]


# ---------------------------------------------------------------------------------------------
# The child.


def _watch(process: str, place: str, at: str, name: str) -> None:
    """Has this process send itself a signal at a place, if it is meant."""
    if process != _own_number():
        return
    from xlbench.training import checkpoints, tracking

    write, save = tracking.Log.write, checkpoints.Checkpoints.save
    number = signal.Signals[f'SIG{name}']

    def strike() -> None:
        os.kill(os.getpid(), number)

    def write_then_strike(log, step, kind, name, values):
        write(log, step, kind, name, values)
        if place == kind and at in (str(step), name):
            strike()

    def save_then_strike(saver, step, *args, **options):
        save(saver, step, *args, **options)
        if place == 'save' and at == str(step):
            strike()

    def hook(event, args):
        if place == 'commit' and event == 'os.rename' and os.path.basename(str(args[1])) == at:
            strike()

    tracking.Log.write, checkpoints.Checkpoints.save = write_then_strike, save_then_strike
    sys.addaudithook(hook)


def _keep_programs() -> None:
    """Has this process write what it compiles to jax's cache, as jax has process 0 alone do.

    On a CPU the processes have programs of their own, so that the others would never find theirs.
    """
    from jax._src import compiler, distributed

    write, state = compiler._cache_write, distributed.global_state

    def write_as_first(*args):
        with mock.patch.object(state, 'process_id', 0):
            write(*args)

    compiler._cache_write = write_as_first


def _own_number() -> str:
    return os.environ.get('XLBENCH_PROCESS', '0')


if __name__ == '__main__':
    module, *sys.argv[1:] = sys.argv[1:]
    _keep_programs()
    if place := os.environ[_SIGNAL_AT]:
        _watch(*place.split(':'))
    with contextlib.ExitStack() as stack:
        if record := os.environ[_RECORD]:
            stack.enter_context(recording(record, int(_own_number())))
        runpy.run_module(module, run_name='__main__', alter_sys=True)
