"""What a run says: rows, torn lines, and its sessions with what they cost."""

import json
import math

import pytest

from xlbench.system import machine, sessions
from xlbench.system.errors import UserError
from xlbench.training import tracking


def read(path):
    return [json.loads(line) for line in (path / 'metrics.jsonl').read_text().splitlines()]


def test_lines_and_rows(tmp_path, capsys):
    log = tracking.Log(str(tmp_path))
    log.line('hello')
    assert not (tmp_path / 'metrics.jsonl').exists()  # A run that fails at its start leaves none.
    log.write(3, 'train', 'stage1', {'loss': 2.5, 'mfu': math.inf, 'other': math.nan})
    # It can be read at once, not only at the end.
    assert read(tmp_path) == [
        {
            'step': 3, 'kind': 'train', 'name': 'stage1',
            'values': {'loss': 2.5, 'mfu': None, 'other': None},
        }
    ]  # fmt: skip
    assert (tmp_path / 'log.txt').read_text() == 'hello\n' == capsys.readouterr().out
    log.close()
    again = tracking.Log(str(tmp_path))
    again.line('once more')
    again.write(4, 'train', 'stage1', {'loss': 2.0})
    again.close()
    assert [row['step'] for row in read(tmp_path)] == [3, 4]
    assert (tmp_path / 'log.txt').read_text() == 'hello\nonce more\n'


def test_other_processes_are_silent(tmp_path, capsys):
    log = tracking.Log(str(tmp_path / 'nowhere'), active=False)
    log.line('hello')
    log.write(1, 'train', 'stage1', {'loss': 1.0})
    log.rewind(0)
    log.close()
    assert capsys.readouterr().out == '' and not (tmp_path / 'nowhere').exists()


def test_rewinding_drops_later_rows_torn_lines_and_what_is_done_again(tmp_path):
    log = tracking.Log(str(tmp_path))
    log.rewind(5)  # There is nothing yet.
    for step in (1, 2, 3):
        log.write(step, 'train', 'test', {'loss': float(step)})
    log.write(2, 'eval', 'dev/mtg_qg_en_en', {'loss': 1.0})
    log.write(2, 'eval', 'test/mtg_qg_en_en', {'loss': 1.0})
    log.write(2, 'eval', 'tests/mtg_qg_en_en', {'loss': 1.0})
    for step in (1, 2):
        log.write(step, 'eval', 'left/mtg_qg_en_en', {'loss': 1.0})
    log.close()
    with open(tmp_path / 'metrics.jsonl', 'a') as file:
        file.write('{"step": 4, "kind": "tr')  # A process was killed here.
    log = tracking.Log(str(tmp_path))
    log.rewind(2, again=['test'], due=['left'])
    log.write(3, 'train', 'test', {'loss': 30.0})
    log.close()
    found = [(row['step'], row['name'], row['values']['loss']) for row in read(tmp_path)]
    assert found == [
        (1, 'test', 1.0), (2, 'test', 2.0), (2, 'dev/mtg_qg_en_en', 1.0),
        (2, 'tests/mtg_qg_en_en', 1.0), (1, 'left/mtg_qg_en_en', 1.0), (3, 'test', 30.0),
    ]  # fmt: skip
    assert not list(tmp_path.glob('*.tmp'))


def test_lines_that_are_no_rows_are_left_out_and_counted(tmp_path, capsys):
    row = '{"step": 1, "kind": "train", "name": "x", "values": {}}\n'
    strange = ['3', '[]', '"x"', row.replace('1', '"1"'), row.replace('1', '10e999'), '[' * 10_000]
    strange += [row.replace('"step"', '"stop"'), row.replace('"x"', 'null'), '{"step":']
    text = (
        row.encode() + b'\xff\n' + '\n'.join([*map(str.strip, strange), '']).encode() + row.encode()
    )
    (tmp_path / 'metrics.jsonl').write_bytes(text + b'{"step": 1')  # As a process that was killed.
    log = tracking.Log(str(tmp_path))
    log.rewind(1)
    log.close()
    assert (tmp_path / 'metrics.jsonl').read_text() == row * 2
    said = 'metrics.jsonl: 10 lines that cannot be read were left out\n'
    assert capsys.readouterr().out == (tmp_path / 'log.txt').read_text() == said


@pytest.mark.parametrize('name', ['log.txt', 'metrics.jsonl'])
def test_nothing_is_written_through_a_link(tmp_path, name):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'elsewhere').write_text('')
    (tmp_path / 'run' / name).symlink_to('../elsewhere')
    with pytest.raises(UserError, match='outside of'):
        log = tracking.Log(str(tmp_path / 'run'))
        log.write(1, 'train', 'x', {'loss': 1.0})
    assert (tmp_path / 'elsewhere').read_text() == ''


# ------------------------------------------------------------ sessions


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
