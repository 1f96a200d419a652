"""The sessions of a run, with what they cost."""

import json

import pytest

from xlbench.system import machine, sessions
from xlbench.system.errors import UserError


def test_a_session_says_what_it_cost(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(sessions.time, 'monotonic', lambda: now[0])
    monkeypatch.setattr(sessions.sys, 'argv', ['xlbench/train.py', '--config=x.py'])
    with sessions.Recorder(tmp_path) as session:
        now[0] += 7
        session.begin('data 1 on 2 cpu devices', processes=2)
    (found,) = sessions.read(tmp_path)
    assert (found.wall_seconds, found.devices, found.processes) == (7, 'data 1 on 2 cpu devices', 2)
    assert found.command == ['xlbench/train.py', '--config=x.py']
    assert 0 <= found.processor_seconds < 5 and found.began.endswith('Z')
    assert found.cores == machine.cores() > 0
    assert found.peak_bytes > 0 and found.memory_bytes == machine.memory()


def test_sessions_add_up_however_they_end(tmp_path):
    with sessions.Recorder(tmp_path) as session:
        session.begin('one')
    with pytest.raises(KeyboardInterrupt), sessions.Recorder(tmp_path) as session:
        session.begin('two')
        raise KeyboardInterrupt
    assert [found.devices for found in sessions.read(tmp_path)] == ['one', 'two']


def test_what_lasts_is_written_before_it_ends(tmp_path, monkeypatch):
    """A process that is killed writes nothing at its end."""
    monkeypatch.setattr(sessions, '_EVERY', 0.01)
    written = sessions.threading.Event()
    write = sessions.files.write
    monkeypatch.setattr(sessions.files, 'write', lambda *args: (write(*args), written.set()))
    with sessions.Recorder(tmp_path) as session:
        session.begin('a machine')
        assert written.wait(20)
        assert [found.devices for found in sessions.read(tmp_path)] == ['a machine']
    assert len(sessions.read(tmp_path)) == 1


def test_a_folder_that_is_not_claimed_stays_as_it_is(tmp_path):
    with pytest.raises(UserError, match='another config'), sessions.Recorder(tmp_path):
        raise UserError('another config')
    with sessions.Recorder(tmp_path, active=False) as session:  # Of another process of the run.
        session.begin('x')
    assert not list(tmp_path.iterdir()) and sessions.read(tmp_path) == []


def test_a_file_that_is_not_ours(tmp_path):
    (tmp_path / 'elsewhere').write_text('')
    run = tmp_path / 'run'
    run.mkdir()
    (run / sessions.FILE).symlink_to('../elsewhere')
    with pytest.raises(UserError, match='outside of'), sessions.Recorder(run) as session:
        session.begin('x')
    assert (tmp_path / 'elsewhere').read_text() == ''
    (tmp_path / sessions.FILE).write_text(json.dumps({'began': 3}))
    with pytest.raises(UserError, match=r'sessions\.jsonl:1: Expected `str`'):
        sessions.read(tmp_path)
