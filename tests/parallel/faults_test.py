"""Processes of a whole run that die or hang: the others end soon, and nothing is lost."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import children
import pytest
import quick_compilation
import tiny

from xlbench.parallel import environment
from xlbench.training import checkpoints

pytestmark = pytest.mark.outside

# Seconds that a process may take to end when it has lost another, where jax alone takes 100; and
# seconds that a whole run may take. Machines that test are busy.
SOON, LONG = 45, 900


def flags(folder: pathlib.Path, root: pathlib.Path) -> list[str]:
    path = tiny.write_config(folder / 'tiny_run.py', tiny.tiny_config(root))
    return [f'--config={path}', f'--workdir={folder / "run"}']


def errors_of(output: str) -> list[str]:
    """The lines in which a process says why it ends; no stack trace is among what it says."""
    assert 'Traceback' not in output and 'Check failure' not in output, output
    return [line for line in output.splitlines() if line.startswith('error: ')]


def test_faults_one_after_the_other(tiny_root, tmp_path):
    """One run is left alone; the other one ends as it does, whatever happens to its processes."""
    alone, other = tmp_path / 'alone', tmp_path / 'other'
    alone.mkdir(), other.mkdir()
    with children.start(flags(alone, tiny_root), processes=2) as run:
        assert run.wait(LONG) == [0, 0], run.output(0) + run.output(1)
        assert errors_of(run.output(0)) == errors_of(run.output(1)) == []

    arguments, workdir = flags(other, tiny_root), other / 'run'
    stopped_for_ever(arguments, workdir)
    killed(arguments, 0, 'save:6')
    killed(arguments, 1, 'eval:8')
    killed_and_started_again(arguments, workdir)
    children.same_run(workdir, alone / 'run')
    assert checkpoints.steps(workdir) == checkpoints.steps(alone / 'run')


def stopped_for_ever(arguments: list[str], workdir: pathlib.Path) -> None:
    """Process 1 is stopped in a step: process 0 notices that it waits in vain, and for whom."""
    environ = {'XLBENCH_HANG': '20'}
    stop = {'processes': 2, 'env': environ, 'signal_at': '1:train:2:STOP'}
    with children.start(arguments, **stop) as run:
        assert run.wait(LONG, numbers=[0]) == [75], run.output(0)
        (line,) = errors_of(run.output(0))
    assert line.startswith('error: process 0 of 2: train step '), line
    assert ' has not ended for 20 s; process 1 was last heard ' in line
    assert line.endswith(f'{workdir}/hang-process-0.txt; exit code 75')
    assert '/train.py' in (workdir / 'hang-process-0.txt').read_text()


def killed(arguments: list[str], number: int, place: str) -> None:
    """A process kills itself at a place: the other one ends soon, and says which it has lost."""
    with children.start(arguments, processes=2, signal_at=f'{number}:{place}:KILL') as run:
        assert run.wait(LONG, numbers=[number]) == [-signal.SIGKILL], run.output(number)
        assert run.wait(SOON, numbers=[1 - number]) == [75], run.output(1 - number)
        (line,) = errors_of(run.output(1 - number))
    assert line.startswith(f'error: process {1 - number} of 2: lost process {number} in '), line
    assert line.endswith('; exit code 75')


def killed_and_started_again(arguments: list[str], workdir: pathlib.Path) -> None:
    """Process 0 is killed from outside, in a step; launch/local.sh brings the run to its end."""
    environ = {k: v for k, v in os.environ.items() if k not in environment.VARIABLES} | {
        'RESTARTS': '1',
        'PYTHON': sys.executable,
        'XLA_FLAGS': quick_compilation.xla_flags(),
    }
    script = subprocess.Popen(
        [children.PROJECT / 'launch' / 'local.sh', '2', *arguments],
        cwd=children.PROJECT,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while '"step": 9' not in (workdir / 'metrics.jsonl').read_text():
            assert script.poll() is None, script.stderr.read()
            time.sleep(0.001)
        os.kill(process_of(script.pid, 0), signal.SIGKILL)
        said = script.communicate(timeout=LONG)[1]
    finally:
        script.terminate()
        script.wait()
    assert script.returncode == 0, said
    assert 'error: process 1 of 2: lost process 0 in ' in said
    assert 'starting again, 1 of 1' in said


def process_of(script: int, number: int) -> int:
    """The pid of a process of the run that a script has started."""
    for pid in pathlib.Path(f'/proc/{script}/task/{script}/children').read_text().split():
        environ = pathlib.Path(f'/proc/{pid}/environ').read_bytes().split(b'\0')
        command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()
        if f'XLBENCH_PROCESS={number}'.encode() in environ and b'xlbench.train' in command:
            return int(pid)
    raise AssertionError(f'process {number} does not run')
