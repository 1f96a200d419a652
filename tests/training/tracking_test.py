"""Trackers: what they get of a run, offline; that none of them can harm it; and their resuming."""

import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import struct
import threading
import time

import partners
import pytest
import tiny
from tensorboardX.proto.event_pb2 import Event, SessionLog

from xlbench import runs, train
from xlbench.system import untrusted
from xlbench.system.errors import UserError
from xlbench.training import tracking
from xlbench.training.tracking import following

CONFIG = {'seed': 0, 'mesh': {'data': -1}, 'stages': {'stage1': {'num_steps': 3}}}
SAMPLES = [tracking.Sample('wer | <b>fragt</b>', 'a*b*', 'zwei\nZeilen')]


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No variable of the machine takes part, and nobody is asked for a key."""
    for name in os.environ:
        if name.startswith(('WANDB_', 'MLFLOW_')):
            monkeypatch.delenv(name)
    monkeypatch.setenv('WANDB_MODE', 'offline')
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))


class Remembering(tracking.Tracker):
    """Keeps what it is told."""

    told: list = []  # noqa: RUF012

    def start(self, run):
        self.told.append(('start', run.step, run.identity, threading.current_thread().name))
        return tracking.Tracked('number-7', 'a place')

    def write(self, step, scalars, samples):
        self.told.append((step, dict(scalars), dict(samples)))

    def close(self, finished):
        self.told.append(('close', finished))


class Failing(Remembering):
    def write(self, step, scalars, samples):
        raise ConnectionError('the network is down')


@pytest.fixture
def use(monkeypatch):
    """Makes config.trackers name classes of this file, and gives what the first is told."""

    def use(*classes):
        known = {kind.__name__: kind for kind in classes}
        monkeypatch.setattr(following, 'find', known.__getitem__)
        monkeypatch.setattr(Remembering, 'told', [])
        return Remembering.told

    return use


def live(workdir, kinds, *, begun=False, finished=False, steps=(1, 2, 3)):
    """One life of a run: its numbers, an evaluation, its end."""
    log = tracking.Log(str(workdir), trackers=kinds, config=CONFIG)
    log.rewind(steps[0] - 1 if begun else 0)
    for step in steps:
        log.write(step, 'train', 'stage1', {'loss': 1 / step, 'mfu': float('nan')})
    log.track(2, {'eval/test/qg/loss': 0.5}, {'eval/test/qg': SAMPLES})
    if finished:
        log.finish()
    log.close()
    return (workdir / 'log.txt').read_text().splitlines()


def events(path: pathlib.Path) -> list[Event]:
    """The events of a file: each is its length, a checksum, itself and a checksum."""
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack('<Q', data[:8])
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return found


def test_tensorboard_has_numbers_samples_and_the_config(tmp_path):
    assert live(tmp_path, ['tensorboard']) == []  # It is there without a word.
    (path,) = (tmp_path / 'tensorboard').iterdir()
    version, config, *rows = events(path)
    assert version.file_version == 'brain.Event:2'
    assert '"num_steps": 3' in config.summary.value[0].tensor.string_val[0].decode()
    numbers = {
        (event.step, value.tag): value.simple_value
        for event in rows
        for value in event.summary.value
        if not value.HasField('tensor')
    }
    assert numbers[2, 'train/stage1/loss'] == numbers[2, 'eval/test/qg/loss'] == 0.5
    assert {step for step, _ in numbers} == {1, 2, 3}
    text = rows[-1].summary.value[0]
    assert rows[-1].step == 2 and text.tag.startswith('eval/test/qg/samples')
    table = text.tensor.string_val[0].decode().splitlines()
    assert table[0] == '| input | target | prediction |'
    assert table[2] == r'| wer \| &lt;b>fragt&lt;/b> | a\*b\* | zwei Zeilen |'
    # A resumed run takes back what it writes again.
    path.rename(tmp_path / 'tensorboard' / 'events.before')
    live(tmp_path, ['tensorboard'], begun=True, steps=(3,))
    (again,) = (tmp_path / 'tensorboard').glob('events.out*')
    _, start, first, *_ = events(again)
    assert (start.session_log.status, start.step) == (SessionLog.START, 3) and first.step == 3


def test_wandb_and_mlflow_offline_and_resumed(tmp_path, monkeypatch):
    pytest.importorskip('wandb'), pytest.importorskip('mlflow')
    monkeypatch.setattr(following, 'PATIENCE', 120.0)  # A busy machine takes its time.
    monkeypatch.setattr(following, 'SILENCE', 120.0)
    kinds = ('wandb', 'mlflow')
    tracking.check(kinds)
    said = live(tmp_path, kinds)
    said = live(tmp_path, kinds, begun=True, finished=True, steps=(2, 3, 4))[len(said) :]
    assert len(said) == 2 and all(line.startswith('tracked by ') for line in said)
    # One run of each, in spite of two lives.
    identity = json.loads((tmp_path / 'trackers.json').read_text())
    folders = sorted((tmp_path / 'wandb').iterdir())
    assert len(folders) == 2 and all(f.name.endswith(identity['wandb']) for f in folders)
    for folder in folders:
        (file,) = folder.glob('*.wandb')
        content = file.read_bytes()
        assert b'train/stage1/loss' in content and b'num_steps' in content
        (table,) = folder.rglob('*.table.json')
        content = json.loads(table.read_text())
        assert content == {'columns': list(tracking.Sample._fields), 'data': [[*SAMPLES[0]]]}
    with contextlib.closing(sqlite3.connect(tmp_path / 'mlflow.db')) as base:
        assert base.execute('SELECT run_uuid, name, status FROM runs').fetchall() == [
            (identity['mlflow'], tmp_path.name, 'FINISHED')
        ]
        params = dict(base.execute('SELECT key, value FROM params'))
        assert params == {'seed': '0', 'mesh.data': '-1', 'stages.stage1.num_steps': '3'}
        points = base.execute("SELECT step, value FROM metrics WHERE key = 'train/stage1/loss'")
        assert sorted({*points}) == [(1, 1.0), (2, 0.5), (3, 1 / 3), (4, 0.25)]
        nans = base.execute("SELECT is_nan FROM metrics WHERE key = 'train/stage1/mfu'")
        assert {is_nan for (is_nan,) in nans} == {1}
    (text,) = (tmp_path / 'mlflow').rglob('samples_2.md')
    assert r'a\*b\*' in text.read_text()
    # The workdir can still be claimed: no link of W&B leads out of it.
    untrusted.check_tree(tmp_path, tmp_path)


def test_wandb_without_a_key_and_missing_packages_are_refused_in_a_line(monkeypatch):
    pytest.importorskip('wandb')
    for name, install in (('wandb', 'wandb>=0'), ('mlflow', 'mlflow-skinny sqlalchemy alembic')):
        monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
        with pytest.raises(
            UserError, match=f"'{name}', which needs the package {name}: .*{install}"
        ):
            tracking.check([name])
        monkeypatch.undo()
    monkeypatch.setattr('wandb.login', lambda **_: False)
    monkeypatch.setattr('xlbench.training.tracking.wandb._HOME', ())
    with pytest.raises(UserError, match='has no key on this machine: run wandb login, or set'):
        tracking.check(['wandb'])
    with pytest.raises(
        UserError, match=r"unknown tracker in config\.trackers 'wandbb'; nearest: wandb"
    ):
        tracking.check(['wandbb'])


def test_a_tracker_that_fails_ends_alone(tmp_path, use, capsys):
    told = use(Remembering, Failing)
    said = live(tmp_path, ['Failing', 'Remembering'], finished=True)
    (failure,) = [line for line in said if 'Failing' in line and 'tracked by' not in line]
    assert "the tracker 'Failing' has failed: ConnectionError: the network is down" in failure
    assert failure.endswith('; it does not get the rest')
    assert [row[0] for row in told if row[0] != 'start'] == [1, 2, 3, 2, 'close']
    assert told[-1] == ('close', True)
    assert len((tmp_path / 'metrics.jsonl').read_text().splitlines()) == 3
    assert capsys.readouterr().out.splitlines() == said


def test_no_step_waits_for_a_tracker(tmp_path, use, monkeypatch):
    told, open_again = use(Remembering), threading.Event()
    monkeypatch.setattr(following, 'PATIENCE', 0.05)
    monkeypatch.setattr(following, 'MOST_BEHIND', 3)
    monkeypatch.setattr(Remembering, 'start', lambda self, run: open_again.wait(60))
    line, waiting = live(tmp_path, ['Remembering'], steps=(1, 2, 3))
    assert "the tracker 'Remembering' is more than 3 rows behind" in line
    assert waiting == 'waiting up to 0.05 s for Remembering, to send the remaining rows'
    (tmp_path / 'log.txt').unlink()
    _, line = live(tmp_path, ['Remembering'], steps=(1,))
    assert 'has not ended within 0.05 s; it does not get the rest' in line
    assert told == []
    open_again.set()


def test_a_tracker_that_keeps_up_is_never_behind(tmp_path, use, monkeypatch):
    told = use(Remembering)
    monkeypatch.setattr(following, 'MOST_BEHIND', 3)
    log = tracking.Log(str(tmp_path), trackers=['Remembering'], config=CONFIG)
    for step in range(1, 10):
        log.track(step, {'loss': 1.0}, {})
        until = time.monotonic() + 30
        while told[-1:] != [(step, {'loss': 1.0}, {})] and time.monotonic() < until:
            time.sleep(0.001)
    log.finish()
    log.close()
    said = (tmp_path / 'log.txt').read_text().splitlines()
    assert said == ['tracked by Remembering: a place'] and told[-1] == ('close', True)


@pytest.mark.parametrize('name', partners.TRACKERS)
def test_no_tracker_harms_a_run(tmp_path, use, monkeypatch, capsys, name):
    hostile = type('Hostile', (Remembering,), {'told': [], **partners.TRACKERS[name]})
    monkeypatch.setattr(following, 'PATIENCE', 0.3)
    told = use(Remembering, hostile)
    for begun in (False, True):
        del told[:]
        begin = time.monotonic()
        live(tmp_path, ['Hostile', 'Remembering'], begun=begun, finished=True)
        assert time.monotonic() - begin < 30
        assert [row[0] for row in told] == ['start', 1, 2, 3, 2, 'close']
    said = (tmp_path / 'log.txt').read_text().splitlines()
    assert capsys.readouterr().out.splitlines() == said
    for line in said:
        partners.check_line(line)


def test_wandb_on_a_full_disk_fails_aloud(tmp_path, monkeypatch):
    pytest.importorskip('wandb')
    tracker = tracking.find('wandb')()
    tracker.start(tracking.Run(str(tmp_path), CONFIG))
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr('shutil.disk_usage', lambda _: usage._replace(free=0))
        with pytest.raises(OSError, match='No space left on device'):
            tracker.write(1, {'loss': 1.0}, {})
    tracker.write(1, {'loss': 1.0}, {})
    tracker.close(False)


@pytest.mark.parametrize('text', ['[]', '{"Remembering": "../x y"}', '{"Remembering": 3}'])
def test_a_foreign_identity_is_not_believed(tmp_path, use, text):
    told = use(Remembering)
    (tmp_path / 'trackers.json').write_text(text)
    (line,) = live(tmp_path, ['Remembering'])
    assert "tracker 'Remembering' has failed: UserError: " in line and 'trackers.json' in line
    assert told == []


def test_a_whole_run(tmp_path, tiny_root, use, monkeypatch):
    told = use(Remembering)
    config = tiny.brief_config(tiny_root, trackers=('Remembering',), tracked_samples=2)
    workdir = tmp_path / 'run'
    monkeypatch.setattr(tracking, 'check', lambda _: None)
    monkeypatch.setattr(runs, 'check_config', lambda _: None)
    train.train(config, str(workdir))
    assert told[0] == ('start', 0, '', 'tracker Remembering') and told[-1] == ('close', True)
    rows = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
    expected = [
        (row['step'], {f'{row["kind"]}/{row["name"]}/{k}': v for k, v in row['values'].items()})
        for row in rows
    ]
    assert [row[:2] for row in told[1:-1] if row[1]] == expected
    samples = {tag: answers for row in told[1:-1] for tag, answers in row[2].items()}
    # The evaluation 'dev' has the loss alone.
    assert set(samples) == {f'eval/test/{task}' for task in tiny.QUESTIONS}
    path = next(workdir.glob(f'eval/6/test/{tiny.QUESTIONS[0]}/predictions.jsonl'))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert samples[f'eval/test/{tiny.QUESTIONS[0]}'] == [
        (line['input'], line['target'], line['prediction']) for line in lines[:2]
    ]
    assert 'tracked by Remembering: a place' in (workdir / 'log.txt').read_text()
    assert json.loads((workdir / 'trackers.json').read_text()) == {'Remembering': 'number-7'}
