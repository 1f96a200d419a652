"""A run that hangs ends, and says where it was."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import children
import pytest

from xlbench.parallel import cluster, watchdog
from xlbench.parallel.watchdog import Watch
from xlbench.system import errors

# In place of the process its thread ends.
pytestmark = pytest.mark.filterwarnings('ignore::pytest.PytestUnhandledThreadExceptionWarning')


@pytest.mark.parametrize('text', ['-1', 'long', 'inf', 'nan'])
def test_the_time_to_wait_is_a_number_of_seconds(text, monkeypatch, tmp_path):
    monkeypatch.setenv('XLBENCH_HANG', text)
    with pytest.raises(errors.UserError, match=f"XLBENCH_HANG='{text}' is not a time.*or 0"):
        Watch(tmp_path)


def test_the_default_and_never(monkeypatch, tmp_path):
    monkeypatch.delenv('XLBENCH_HANG', raising=False)
    assert Watch(tmp_path).seconds == 900
    monkeypatch.setenv('XLBENCH_HANG', '0')
    before = threading.active_count()
    with Watch(tmp_path, seconds=None) as never:
        assert never.seconds == 0 and threading.active_count() == before


class Ended(threading.Event):
    """A watch has ended this process, of which its thread ends in place."""

    code = None

    def leave(self, code):
        self.code = code
        self.set()
        sys.exit(code)


@pytest.fixture
def ended(monkeypatch):
    event = Ended()
    monkeypatch.setattr(cluster, 'leave', event.leave)
    return event


def steps(watch, ended):
    for i in range(20):
        time.sleep(0.05)
        watch.done(i)


def pause(watch, ended):
    watch.done(37)
    with watch.paused('compiling'):
        time.sleep(1.5)


def stuck_at_first(watch, ended):
    with watch.paused('compiling'):
        time.sleep(0.2)
    ended.wait(60)


def stuck_in_a_step(watch, ended):
    watch.done(37)
    ended.wait(60)


def stuck_in_an_evaluation(watch, ended):
    watch.done(4, 'evaluation batch')
    ended.wait(60)


def stuck_after_a_pause(watch, ended):
    with watch.paused('compiling'):
        watch.done(37)
    ended.wait(60)


@pytest.mark.parametrize(
    'work, where',
    [
        (steps, ''),
        (pause, ''),
        (stuck_at_first, 'start'),
        (stuck_in_a_step, 'train step 38'),
        (stuck_in_an_evaluation, 'evaluation batch 5'),
        (stuck_after_a_pause, 'train step 38'),
    ],
)
def test_a_process_that_hangs_ends_with_one_line_and_its_stacks(
    work, where, ended, tmp_path, capfd
):
    with Watch(tmp_path, seconds=0.5 if where else 1) as watch:  # A machine may be busy.
        work(watch, ended)
    path = tmp_path / 'hang-process-0.txt'
    if not where:
        time.sleep(1.2)  # Outside nobody watches.
        assert ended.code is None and not path.exists()
        return
    assert ended.code == 75
    line = f'process 0 of 1: {where} has not ended for 0.5 s'
    assert capfd.readouterr().err == (
        f'error: {line}; the stacks of its threads are in {path}; exit code 75\n'
    )
    stacks = path.read_text()
    assert re.match(rf'\d{{4}}-.* {line}\n\n', stacks) and f'in {work.__name__}' in stacks


def test_stacks_that_cannot_be_written(ended, tmp_path, capfd):
    with Watch(tmp_path / 'gone', seconds=0.5):
        assert ended.wait(60)
    assert 'hang-process-0.txt: No such file or directory; exit code 75' in capfd.readouterr().err


def test_process_0_leaves_last(ended, tmp_path, monkeypatch):
    """jax ends the others when process 0 has gone: before that they may say where they are."""
    slept = []
    monkeypatch.setattr(watchdog.jax, 'process_count', lambda: 2)
    for index in (0, 1):
        monkeypatch.setattr(watchdog.jax, 'process_index', lambda index=index: index)
        monkeypatch.setattr(watchdog.time, 'sleep', slept.append)
        ended.clear()
        with Watch(tmp_path, seconds=0.5):
            assert ended.wait(60)
        assert (tmp_path / f'hang-process-{index}.txt').exists()
    assert slept == [0.2]


PROGRAM = """
import sys, time
from xlbench.parallel.watchdog import Watch

with Watch(sys.argv[1], seconds=1) as watch:
    watch.done(1)
    print('ready', flush=True)
    time.sleep(0.1)
    watch.done(2)
    sys.stdin.readline()
    time.sleep(60)
"""


def test_a_process_that_was_stopped_is_not_one_that_hangs(tmp_path):
    """The clock went on while it could not: a laptop that was closed, Ctrl-Z and fg."""
    process = subprocess.Popen(
        [sys.executable, '-c', PROGRAM, str(tmp_path)], cwd=children.PROJECT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == 'ready\n'
    process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    assert os.waitpid(process.pid, os.WNOHANG) == (0, 0)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    assert process.poll() is None and not list(tmp_path.iterdir())
    said = process.communicate('\n', timeout=120)[1]
    assert process.returncode == 75 and 'train step 3 has not ended for 1 s' in said
