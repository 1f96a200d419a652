"""A place has one writer; a second one hears who that is, and changes nothing."""

import errno
import fcntl
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading

import children
import pytest
import tiny_sweep

from xlbench import report
from xlbench.data import __main__ as data_main, buckets
from xlbench.fewshot import report as fewshot_report
from xlbench.reporting import scored
from xlbench.system import errors, files, locks
from xlbench.system.errors import UserError
from xlbench.tasks.samples import corpus

# Adds 1 to the number in a file, again and again.
COUNTER = """
import pathlib, sys
from xlbench.system import locks

path = pathlib.Path(sys.argv[1])
print('there', flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with locks.file(path, wait=len):
        path.write_text(str(int(path.read_text()) + 1))
"""


def test_a_second_writer_hears_who_the_first_is(tmp_path):
    workdir = tmp_path / 'run'
    workdir.mkdir()
    (workdir / 'config.json').write_text('{}')
    with children.held(('folder', workdir)) as holder:
        before = children.contents(tmp_path)
        with pytest.raises(locks.InUse) as caught, locks.folder(workdir):
            pytest.fail('two writers')
        assert children.contents(tmp_path) == before
        line = str(caught.value)
        assert caught.value.exit_code == 2 and '\n' not in line
        assert f'{workdir} is in use by process {holder.pid} on {platform.node()}, since ' in line
        assert re.search(r'since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(python -c', line), line
        with locks.folder(tmp_path / 'other'), locks.file(workdir):  # Other places are free.
            pass
        holder.kill()
        holder.wait()
        with locks.folder(workdir):  # At once, whatever the killed process left.
            assert str(os.getpid()) in (workdir / '.lock').read_text()
    assert sorted(path.name for path in workdir.iterdir()) == ['config.json']
    assert sorted(path.name for path in tmp_path.iterdir()) == ['run']


def test_a_lock_that_another_process_has_made_meanwhile_stays(tmp_path):
    lock = tmp_path / files.LOCK
    with locks.folder(tmp_path):
        lock.rename(tmp_path / 'before')  # Else a file system may give the new one its number.
        lock.write_text('of another process')
    assert lock.read_text() == 'of another process'


def test_a_child_that_outlives_a_killed_process_holds_nothing(tmp_path):
    program = (
        'import os, signal, time\n'
        'from xlbench.system import locks\n'
        f'with locks.folder({str(tmp_path)!r}):\n'
        '    child = os.fork()\n'
        '    if not child:\n'
        '        os.close(1), time.sleep(60)\n'
        '    print(child, flush=True)\n'
        '    os.kill(os.getpid(), signal.SIGKILL)\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', program], stdout=subprocess.PIPE, check=False, timeout=50
    )
    assert done.returncode == -signal.SIGKILL
    child = int(done.stdout)
    with locks.folder(tmp_path):
        os.kill(child, signal.SIGKILL)  # It was there till now.


def test_a_folder_that_stays_empty_goes_again(tmp_path):
    with locks.folder(tmp_path / 'a' / 'b'):
        assert files.is_free(tmp_path / 'a' / 'b')
    assert not list(tmp_path.iterdir())
    with locks.folder(tmp_path / 'a' / 'b'):
        (tmp_path / 'a' / 'b' / 'x').write_text('')
        assert not files.is_free(tmp_path / 'a' / 'b')
    with locks.folder(tmp_path / 'a', active=False):
        assert [path.name for path in (tmp_path / 'a').iterdir()] == ['b']
    assert [path.name for path in (tmp_path / 'a' / 'b').iterdir()] == ['x']


def test_who_waits_says_so_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, '_SILENCE', 0.0)
    said = []

    def say(line):
        said.append(line)
        holder.stdin.close()  # It ends.

    path = tmp_path / 'x.json'
    with children.held(('file', path)) as holder, locks.file(path, wait=say) as waited:
        assert waited
        assert (tmp_path / '.x.json.lock').exists()
    assert len(said) == 1 and f'in use by process {holder.pid} on' in said[0]
    assert not list(tmp_path.iterdir())


def test_no_two_hold_a_lock_file_that_comes_and_goes(tmp_path):
    """Each release removes the file; a lock on a removed file must count for nothing."""
    path, each = tmp_path / 'number', 60
    path.write_text('0')
    writers = [
        subprocess.Popen(
            [sys.executable, '-c', COUNTER, str(path), str(each)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout.readline() == 'there\n'
    for writer in writers:
        writer.stdin.write('\n')
        writer.stdin.flush()

    def count():
        for _ in range(each):
            with locks.file(path, wait=len):
                path.write_text(str(int(path.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert path.read_text() == str(4 * each)
    assert [one.name for one in tmp_path.iterdir()] == ['number']


@pytest.mark.parametrize('number', [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_said_once(tmp_path, monkeypatch, capsys, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, 'flock', refuse)
    with locks.folder(tmp_path / 'run'):
        (tmp_path / 'run' / 'x').write_text('')
    assert [path.name for path in (tmp_path / 'run').iterdir()] == ['x']
    [line] = capsys.readouterr().err.splitlines()
    assert f'{tmp_path / "run"} lies on a file system without locks' in line


def test_a_machine_that_is_gone_may_hold_a_lock_for_a_while(tmp_path, monkeypatch, capsys):
    """NFS frees what it held some time later; a job that was moved must not fail for that."""
    with children.held(('folder', tmp_path)) as holder:
        lock = tmp_path / '.lock'
        lock.write_text(f'process {holder.pid} on gone, since (train{99 * chr(27)}[2J)')
        monkeypatch.setattr(locks, '_SILENCE', 0.0)
        monkeypatch.setattr(locks, '_LEASE', 1.0)
        with pytest.raises(locks.InUse, match='on gone, since'), locks.folder(tmp_path):
            pass
        [line] = capsys.readouterr().err.splitlines()
        assert 'on gone, since' in line and line.isprintable() and len(line) < 600
        monkeypatch.setattr(locks, '_LEASE', 600.0)
        threading.Timer(0.2, holder.kill).start()
        with locks.folder(tmp_path):
            pass
        # It may also be alive, where machines do not see each other's locks.
        last = capsys.readouterr().err.splitlines()[-1]
        assert f'{tmp_path} was held by process {holder.pid} on gone, since' in last
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('kind', ['link', 'folder', 'no note', 'other note'])
def test_a_strange_lock_file_harms_nothing(tmp_path, kind):
    """One that came with a folder from elsewhere."""
    precious, workdir = tmp_path / 'precious', tmp_path / 'run'
    precious.write_text('precious')
    workdir.mkdir()
    lock = workdir / '.lock'
    if kind == 'link':
        lock.symlink_to(precious)
    elif kind == 'folder':
        lock.mkdir()
    else:
        lock.write_bytes(b'[' * 99_999 if kind == 'no note' else b'{"process": "\xff"}')
    if kind in ('link', 'folder'):
        with pytest.raises((UserError, OSError)) as caught, locks.folder(workdir):
            pass
        line = str(errors.plain(caught.value))
        assert str(lock) in line and '\n' not in line
    else:
        with locks.folder(workdir):
            lock.write_bytes(b'\xff')
            with pytest.raises(locks.InUse, match='by another process'), locks.folder(workdir):
                pass
    assert precious.read_text() == 'precious'


@pytest.mark.skipif(os.geteuid() == 0, reason='root may write anywhere')
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError) as caught, locks.folder(tmp_path):
        pass
    assert str(errors.plain(caught.value)).startswith(f'Permission denied ({tmp_path}/.lock); make')


def test_sample_corpora_that_are_written_at_once_are_written_once(tmp_path):
    """As by seeds of one config that are started together."""
    filled, written, together = [], [], threading.Barrier(6)

    def fill(folder, seed):
        filled.append(folder)
        corpus.write_text(os.path.join(folder, 'train', 'x.txt'), 'x')

    def write(name):
        together.wait()
        vocabulary = f'{name}.model'
        sample = corpus.Sample(name, 1, (), vocabulary, fill, lambda folder: name.encode())
        if sample.write(str(tmp_path)):
            written.append(name)

    (tmp_path / '.a.new.tmp').mkdir()  # Of a process that was killed.
    threads = [threading.Thread(target=write, args=(name,)) for name in 'aabbcc']
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(written) == ['a', 'b', 'c'] and len(filled) == 3
    assert json.loads((tmp_path / 'SAMPLE.json').read_text())['corpora'].keys() == set('abc')
    names = ['SAMPLE.json', 'a', 'a.model', 'b', 'b.model', 'c', 'c.model']
    assert sorted(os.listdir(tmp_path)) == names
    assert sorted(os.listdir(tmp_path / 'a')) == ['.sample', 'train']


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / 'made'
    (tmp_path / '.made.new.tmp').mkdir()  # Of a process that was killed.
    (tmp_path / '.made.new.tmp' / 'weights').write_text('half')
    with (
        pytest.raises(RuntimeError),
        locks.atomic_folder(tmp_path / 'made.v2') as another,  # It is alive.
        locks.atomic_folder(target) as folder,
    ):
        (another / 'x').write_text('')
        assert not list(folder.iterdir())
        (folder / 'x').write_text('')
        there = {f'.{n}.{kind}' for n in ('made', 'made.v2') for kind in ('lock', 'new.tmp')}
        assert set(os.listdir(tmp_path)) == there
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with locks.atomic_folder(target) as folder:
        (folder / 'x').write_text('x')
        with pytest.raises(locks.InUse), locks.atomic_folder(target):
            pass
        assert not target.exists()
    assert (target / 'x').read_text() == 'x'
    with pytest.raises(UserError, match='exists already'), locks.atomic_folder(target):
        pass
    assert os.listdir(tmp_path) == ['made']


def test_commands_are_refused_where_another_one_writes(tmp_path, capsys):
    """Each says who is there, and leaves all as it is; interruption_test.py has training."""
    rows = [tiny_sweep.zero_shot('de', 50.0), tiny_sweep.row('de', 1, 0, 60.0)]
    sweep = tiny_sweep.write(tmp_path / 'sweep', rows)
    run = tmp_path / 'run'
    scored.write_result(
        run, '1', 'mtg_qg_de_de', 'test', {'scores': {'rouge_l': 1.0}, 'num_examples': 1}, []
    )
    (run / 'config.json').write_text('{"config": {"seed": 0}}')
    words = tmp_path / 'train.conll'
    words.write_text(''.join(f'Wort{i}\tNOUN\n\n' for i in range(9)))
    sample = ['buckets', 'sample', '--task=udpos', '--lang=de', '--shots=1']
    commands = [
        (report.main, 'folder', 'report', [run, '--output=']),
        (fewshot_report.main, 'folder', 'sweeps', ['report', sweep, '--output=']),
        (data_main.main, 'file', 'corpora/xquad', ['data', 'get', 'xquad', '--root=..']),
        (buckets.main, 'file', 'buckets/udpos/1-shots/de', [*sample, words, '--output=../../..']),
    ]
    places = [(kind, tmp_path / place) for _, kind, place, _ in commands]
    with children.held(*places) as holder:
        before = children.contents(tmp_path)
        for (main, _, _, argv), (_, place) in zip(commands, places, strict=True):
            *argv, last = map(str, argv)
            option, _, up = last.partition('=')
            argv.append(f'{option}={os.path.normpath(place / up)}')
            assert errors.run_main(main, argv) == 2, argv
            line = capsys.readouterr().err.splitlines()[-1]
            assert line.startswith(f'error: {place} is in use by process {holder.pid} on '), line
            assert children.contents(tmp_path) == before
