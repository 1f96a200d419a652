"""A run that hangs ends, and says where it was, and who is behind."""

import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import time
import types

import pytest
import warm

from xlbench.parallel import cluster, watchdog
from xlbench.parallel.peers import News
from xlbench.parallel.watchdog import Place, Watch
from xlbench.system import errors

PROJECT = pathlib.Path(__file__).parents[2]


def news(what: str, step: int, age: float = 0.0) -> News:
    return News(json.dumps(Place(what, step)), age)


@pytest.mark.parametrize(
    'others, words',
    [
        ({1: news('train step', 38)}, 'all others wait for the same'),
        (
            {0: news('train step', 38), 2: news('train step', 37)},
            'process 2 is in train step 37',
        ),
        (
            {1: news('evaluation batch', 3), 2: news('train step', 38, 900.2)},
            'process 1 is in evaluation batch 3; '
            'process 2 was last heard 900 s ago, in train step 38',
        ),
        ({1: News('', 90)}, 'process 1 was last heard 90 s ago, in no step yet'),
        ({}, 'process 0, which knows of the others, does not answer'),
        (
            {i: news('train step', 37) for i in range(1, 12)},
            '; '.join(f'process {i} is in train step 37' for i in range(1, 9)) + '; so are 3 more',
        ),
    ],
)
def test_those_who_are_silent_or_elsewhere_are_named(others, words):
    assert watchdog.where_others_are(Place('train step', 38), others, late=30) == words


@pytest.mark.parametrize('text', ['-1', 'long', 'inf', 'nan'])
def test_the_time_to_wait_is_a_number_of_seconds(text, monkeypatch, tmp_path):
    monkeypatch.setenv('XLBENCH_HANG', text)
    with pytest.raises(errors.UserError, match=f"XLBENCH_HANG='{text}' is not a time.*or 0"):
        Watch(tmp_path)


def test_the_default_and_never(monkeypatch, tmp_path):
    monkeypatch.delenv('XLBENCH_HANG', raising=False)
    assert Watch(tmp_path).seconds == 900
    monkeypatch.setenv('XLBENCH_HANG', '0')
    with Watch(tmp_path, seconds=None) as never:
        assert never.seconds == 0


def test_a_process_says_at_once_that_it_is_there(tmp_path, monkeypatch):
    """Of one that had never said anything, nobody could tell for how long it has been silent."""
    told = queue.Queue()
    peers = types.SimpleNamespace(doing=str, tell=told.put)
    monkeypatch.setattr(cluster, 'peers', peers)
    with Watch(tmp_path, seconds=3600):
        assert Place(*json.loads(told.get(timeout=5))) == Place('start')


# What a program does in the `with` block; it ends with 0 if it is left alone.
DOES = {
    'steps': 'for i in range(30): time.sleep(0.1); watch.done(i)',
    'first': "with watch.paused('compiling'): time.sleep(2)\n    time.sleep(60)",
    'stuck': 'watch.done(37); time.sleep(60)',
    'evaluation': "watch.done(4, 'evaluation batch'); stuck_here()",
    'pause': "watch.done(37)\n    with watch.paused('compiling'): time.sleep(3)",
    'after a pause': "with watch.paused('compiling'): watch.done(37)\n    time.sleep(60)",
    'left': 'watch.done(37)\nleft\ntime.sleep(3)',
}
PROGRAM = """
import sys, time
from xlbench.parallel.watchdog import Watch

def stuck_here():
    time.sleep(60)

with Watch(sys.argv[1], seconds=1) as watch:
    {does}
{after}
"""


@pytest.fixture(scope='module')
def started(tmp_path_factory):
    """All programs of DOES, started together: they wait more than they work."""
    begun = time.monotonic()
    processes = {name: start(name, tmp_path_factory.mktemp('program')) for name in DOES}
    yield processes, begun
    for process in processes.values():
        process.kill()
        process.communicate()


def start(name: str, workdir: pathlib.Path) -> subprocess.Popen:
    does, _, after = DOES[name].partition('\nleft')
    return subprocess.Popen(
        [warm.python(), '-c', PROGRAM.format(does=does, after=after), str(workdir)],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen) -> tuple[int, str]:
    said = process.communicate(timeout=120)[1]
    return process.returncode, said


@pytest.mark.parametrize('name', ['steps', 'pause', 'left'])
def test_what_goes_on_is_left_alone(name, started):
    process = started[0][name]
    assert end(process) == (0, '')
    assert not list(workdir_of(process).iterdir())


def workdir_of(process: subprocess.Popen) -> pathlib.Path:
    return pathlib.Path(process.args[-1])


@pytest.mark.parametrize(
    'name, where',
    [
        ('first', 'start'),
        ('stuck', 'train step 38'),
        ('evaluation', 'evaluation batch 5'),
        ('after a pause', 'train step 38'),
    ],
)
def test_what_hangs_ends_with_one_line_and_its_stacks(name, where, started):
    processes, begun = started
    code, said = end(processes[name])
    assert code == 75 and time.monotonic() - begun < 55
    path = workdir_of(processes[name]) / 'hang-process-0.txt'
    assert said == (
        f'error: process 0 of 1: {where} has not ended for 1 s; what it does is in {path}; '
        'exit code 75\n'
    )
    stacks = path.read_text()
    assert re.match(rf'\d{{4}}-.*{where} has not ended for 1 s\n\n', stacks)
    assert '(most recent call first)' in stacks
    assert ('in stuck_here' in stacks) == (name == 'evaluation')


def test_stacks_that_cannot_be_written(tmp_path):
    code, said = end(start('stuck', tmp_path / 'gone'))
    assert code == 75 and said.count('\n') == 1
    assert 'hang-process-0.txt: No such file or directory; exit code 75' in said


def test_a_process_that_was_stopped_is_not_one_that_hangs(tmp_path):
    """The clock went on while it could not: a laptop that was closed, Ctrl-Z and fg."""
    process = subprocess.Popen(
        [sys.executable, '-c', PROGRAM.format(does=STOPPED, after=''), str(tmp_path)],
        cwd=PROJECT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == 'ready\n'
    os.kill(process.pid, 19)
    time.sleep(3)
    os.kill(process.pid, 18)
    assert process.communicate(timeout=60)[1] == ''
    assert process.returncode == 0


STOPPED = "watch.done(1); print('ready', flush=True); time.sleep(0.1)"
