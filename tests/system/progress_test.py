"""The line that says how far something is, on a terminal and in a log file."""

import io
import subprocess
import sys
import time

import pytest

from xlbench.system import progress as progress_lib
from xlbench.system.progress import Progress, duration, quantity


@pytest.fixture
def clock(monkeypatch):
    """A function that lets seconds pass; nothing is said by itself."""
    now = [1000.0]
    monkeypatch.setattr(progress_lib.time, 'monotonic', lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_lines(clock):
    progress = Progress('encoded', 71_819, 'replies')
    clock(3)
    assert progress.line() == 'encoded: 0 of 71,819 replies'
    progress.add(2_000)  # The seconds before, in which programs compile, count for no speed.
    assert progress.line() == 'encoded: 2,000 of 71,819 replies'
    clock(2)
    progress.add(12_000)
    assert progress.line() == 'encoded: 14,000 of 71,819 replies, 6,000/s, 9.6s left'
    progress.add(57_819)
    assert progress.line() == 'encoded: 71,819 of 71,819 replies, 34,910/s, 0.0s left'


def test_lines_of_bytes_of_what_has_no_end_and_of_time_alone(clock):
    progress = Progress('scan', 6_000_000_000, 'B')
    progress.skip(200_000_000)  # By an earlier run.
    progress.done = 300_000_000
    assert progress.line() == 'scan: 300MB of 6GB'
    clock(25)
    progress.done = 1_300_000_000
    assert progress.line() == 'scan: 1.3GB of 6GB, 40MB/s, 1m58s left'
    count = iter((1, 6))
    progress = Progress('answered', unit='texts', count=lambda: next(count))
    assert progress.line() == 'answered: 1 texts'
    clock(2)
    assert progress.line() == 'answered: 6 texts, 2.5/s'
    progress = Progress('compiling')
    clock(90)
    assert progress.line() == 'compiling: 1m30s so far'


class Terminal(io.StringIO):
    def isatty(self):
        return True


def said_within(progress, stderr, text):
    """What standard error has got as soon as it holds a text."""
    with progress:
        progress.add(3)
        print('a result')
        end = time.monotonic() + 60
        while text not in stderr.getvalue():
            assert time.monotonic() < end
            time.sleep(0.001)
        print('another')
    return stderr.getvalue()


def test_a_log_file_gets_a_line_when_more_was_done(monkeypatch, capsys):
    monkeypatch.setattr(progress_lib, '_TICK', 0.001)
    monkeypatch.setattr(progress_lib, 'EVERY', 0.01)
    monkeypatch.setattr(sys, 'stderr', io.StringIO())
    said = said_within(Progress('read', 9, '[texts]'), sys.stderr, '\n')
    assert said.count('\n') == 1 and said == 'read: 3 of 9 [texts]\n'
    assert capsys.readouterr().out == 'a result\nanother\n'


@pytest.mark.parametrize('options', [{'active': False}, {}])
def test_nothing_is_said_of_what_is_quick_or_of_another_process(monkeypatch, options):
    monkeypatch.setattr(progress_lib, '_TICK', 60.0 if not options else 0.0)
    monkeypatch.setattr(progress_lib, 'EVERY', 0.0)
    monkeypatch.setattr(sys, 'stderr', Terminal())
    with Progress('read', 9, 'texts', **options) as progress:
        progress.add(3)
        time.sleep(0.02)
    assert sys.stderr.getvalue() == ''


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch):
    monkeypatch.setattr(progress_lib, '_TICK', 0.001)
    monkeypatch.setenv('TERM', 'xterm')
    monkeypatch.setenv('COLUMNS', '80')
    screen = Terminal()
    monkeypatch.setattr(sys, 'stderr', screen)
    monkeypatch.setattr(sys, 'stdout', screen)
    said = said_within(Progress('read', 9, '[texts]'), screen, 'read: 3 of 9 [texts]')
    assert 'a result\n' in said and 'another\n' in said  # Whole, above the bar.
    assert '━' in said
    assert said.endswith('\x1b[2K')  # The line is empty again,
    assert said.rfind('\x1b[?25h') > said.rfind('\x1b[?25l')  # and the cursor is there.


def test_answers_in_a_file_stay_apart_from_the_bar(monkeypatch, capsys):
    monkeypatch.setattr(progress_lib, '_TICK', 0.001)
    monkeypatch.setenv('TERM', 'xterm')
    monkeypatch.setattr(sys, 'stderr', Terminal())
    said = said_within(Progress('read', 9, 'texts'), sys.stderr, 'read: 3 of 9')
    assert capsys.readouterr().out == 'a result\nanother\n'
    assert 'a result' not in said


def test_rich_is_imported_on_a_terminal_alone():
    code = (
        'import sys\nfrom xlbench.system.progress import Progress\n'
        'with Progress("read", 9): pass\n'
        'print([m for m in ("rich", "numpy", "jax") if m in sys.modules])'
    )
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ('[]\n', '')


@pytest.mark.parametrize(
    'seconds, words',
    [(0, '0.0s'), (7.24, '7.2s'), (59.4, '59.4s'), (60, '1m00s'), (125, '2m05s'),
     (3599, '59m59s'), (3600, '1h00m'), (3723, '1h02m'), (360_000, '100h00m')],
)  # fmt: skip
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    'number, unit, words',
    [(0, '', '0'), (999, '', '999'), (12_345, '', '12.3k'), (4.2e9, 'B', '4.2GB'),
     (4 * 300_176_768, 'B', '1.2GB'), (2.5e13, '', '25T'), (7.391, '', '7.39')],
)  # fmt: skip
def test_quantities(number, unit, words):
    assert quantity(number, unit) == words
