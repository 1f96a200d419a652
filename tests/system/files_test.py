"""Files are written whole or not at all; strange JSON is one line."""

import dataclasses
import errno
import functools
import json
import os
import platform
import resource
import stat
import subprocess
import sys
import threading
from typing import Literal

import msgspec
import pytest

from xlbench.system import files, untrusted
from xlbench.system.errors import UserError


@pytest.mark.parametrize('data', ['Grüße\r\n', b'\xff\x00', '', b''])
def test_a_file_holds_what_was_written(tmp_path, data):
    path = tmp_path / 'a.json'
    for old in (None, 'older and longer than the new one'):
        if old:
            path.write_text(old)
        files.write(path, data)
        assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
        assert [one.name for one in tmp_path.iterdir()] == ['a.json']
    files.write(str(tmp_path / 'b'), data)
    (tmp_path / 'c').write_text('')  # As every other file of this user.
    assert len({stat.S_IMODE((tmp_path / name).stat().st_mode) for name in 'bc'}) == 1


@pytest.mark.parametrize('place', ['write', 'fsync', 'replace'])
def test_an_old_file_outlives_a_failure(tmp_path, monkeypatch, place):
    path = tmp_path / 'a.json'
    path.write_text('old')

    def fail(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if place == 'write':
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    else:
        monkeypatch.setattr(os, place, fail)
    try:
        with pytest.raises(OSError) as caught:
            files.write(path, 'x' * 2000)
    finally:
        if place == 'write':
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.errno == (errno.EFBIG if place == 'write' else errno.ENOSPC)
    assert caught.value.filename == str(path)
    assert path.read_text() == 'old' and len(list(tmp_path.iterdir())) == 1


def test_nothing_is_left_by_what_is_no_error_of_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(os, 'fsync', lambda number: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / 'a', 'new')
    with pytest.raises(UnicodeEncodeError):
        files.write(tmp_path / 'a', '\ud800')
    assert not list(tmp_path.iterdir())


def test_no_folder_is_made(tmp_path):
    path = tmp_path / 'missing' / 'a.json'
    with pytest.raises(FileNotFoundError) as caught:
        files.write(path, 'x')
    assert caught.value.filename == str(path) and not path.parent.exists()


WRITER = """
import sys
import threading
from xlbench.system import files

while True:
    for letter in 'ab':
        files.write(sys.argv[1], letter * 100_000)
"""


def test_a_reader_never_sees_half_a_file(tmp_path):
    """Two processes write the same file, and are killed while they do."""
    path = tmp_path / 'a'
    files.write(path, 'a' * 100_000)
    writers = [subprocess.Popen([sys.executable, '-c', WRITER, str(path)]) for _ in range(2)]
    try:
        seen = set()
        while len(seen) < 2:  # Until the writers have begun.
            seen.add(path.read_text())
            assert not any(writer.poll() for writer in writers)
        seen |= {path.read_text() for _ in range(200)}
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert seen | {path.read_text()} == {'a' * 100_000, 'b' * 100_000}


@dataclasses.dataclass
class Part:
    step: int
    name: str = ''


@pytest.mark.parametrize(
    ('text', 'message'),
    [('{"step": "3"}', r'Expected `int`, got `str` - at `\$.step`'),
     ('{"name": "a"}', 'missing required field `step`'), ('[1]', 'Expected `object`, got `array`'),
     ('{"step": 3', 'truncated'), ('{"step": NaN}', 'invalid character'),
     ('[' * 100_000, 'Expected `object`, got `array`'),
     ('{"unknown": ' + '[' * 100_000, 'nested too deeply'),
     ('{"step": ' + '9' * 5_000 + '}', 'out of range'),
     ('{"step": 1, "name": "\\ud800"}', 'file.json: '),
     (b'{"step": 1, "name": "\xff"}', 'file.json: '),
     ('{"step": 1, "name": "' + 'x' * 100 + '"}', 'at most 100 bytes'), ('', 'truncated')],
)  # fmt: skip
def test_strange_json_is_one_line(tmp_path, text, message):
    path = tmp_path / 'file.json'
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    own = untrusted.Limit('XLBENCH_TEST', 100)
    limit = own if 'x' * 100 in str(text) else untrusted.CONFIG_BYTES
    with pytest.raises(UserError, match=message) as caught:
        files.read_json(path, Part, limit)
    assert '\n' not in str(caught.value) and str(path) in str(caught.value)


def test_json_is_read_into_its_type(tmp_path):
    path = tmp_path / 'file.json'
    path.write_text('{"step": 3, "unknown": [], "name": "Übung"}', encoding='utf-8')
    assert files.read_json(path, Part) == Part(3, 'Übung')
    assert files.read_json(path, dict) == {'step': 3, 'unknown': [], 'name': 'Übung'}
    with pytest.raises(UserError, match='cannot be read: No such file'):
        files.read_json(tmp_path / 'nothing', dict)
    with pytest.raises(UserError, match='cannot be read: it is a folder, not a file'):
        files.read_json(tmp_path, dict)


def test_what_is_in_a_folder(tmp_path, monkeypatch):
    """Brackets in a name are no pattern; a folder that may not be listed is not an empty one."""
    folder = tmp_path / 'runs[1]'
    (folder / 'b' / 'c').mkdir(parents=True)
    for name in ('a', 'b/c/d', 'b/.e'):
        (folder / name).touch()
    assert files.names(folder) == ['a', 'b']
    assert {str(path.relative_to(folder)) for path in files.below(folder)} == {'a', 'b/c/d', 'b/.e'}
    assert files.names(folder / 'a') == files.names(folder / 'gone') == []
    assert [*files.below(folder / 'a')] == []
    listdir = os.listdir

    def withhold(path):
        if os.fspath(path).endswith('c'):
            raise PermissionError(errno.EACCES, 'Permission denied', path)
        return listdir(path)

    monkeypatch.setattr(files.os, 'listdir', withhold)
    with pytest.raises(PermissionError):
        list(files.below(folder))


def test_names_of_steps():
    names = ('0', '12', '²', '٣', '-1', '', 'tmp', '9' * 19)
    assert [name for name in names if files.is_step(name)] == ['0', '12']


def test_nothing_is_written_over_what_is_not_ours(tmp_path):
    path = tmp_path / 'out'
    check = functools.partial(files.check_own, path, 'a page of xlbench', ['made by'], ['{"a": '])
    check(), files.check_new(path)
    for ours in ('', 'x made by y', '{"a": 1'):
        path.write_text(ours)
        check()
    for theirs in ('mine', ' {"a": 1', f'{"x" * 400} made by', b'\xff'):
        path.write_bytes(theirs if isinstance(theirs, bytes) else theirs.encode())
        with pytest.raises(UserError, match='exists and is not a page of xlbench; move'):
            check()
        with pytest.raises(UserError, match='exists already'):
            files.check_new(path)
    for make in (path.mkdir, lambda: path.symlink_to('/nowhere')):
        path.unlink() if path.is_file() else None
        make()
        with pytest.raises(UserError, match='exists and is not a page of xlbench'):
            check()
        path.rmdir() if path.is_dir() else None


def test_what_a_kill_leaves_goes_at_the_next_start(tmp_path):
    """Whoever holds the folder's lock calls it, so that no writer of it can be alive."""
    task = tmp_path / 'eval' / '3' / 'test' / 'task'
    checkpoint = tmp_path / 'checkpoints' / '3'  # Orbax cleans up itself.
    source = tmp_path / 'source'  # Has a writer of its own.
    for place in (task, checkpoint, source, tmp_path / '.vocabulary.tmp'):
        place.mkdir(parents=True)
    for name in (
        f'.metrics.json.{platform.node()}-{threading.get_native_id()}.tmp',
        '.metrics.json.another-machine-7.tmp',
    ):
        for place in (tmp_path, task, checkpoint, source, tmp_path / '.vocabulary.tmp'):
            (place / name).write_text('{')
    (source / '.lock').write_text('')
    (task / 'metrics.json').write_text('{}')
    (task / 'mine.tmp').write_text('')
    files.remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['checkpoints', 'eval', 'source']
    assert sorted(path.name for path in task.iterdir()) == ['metrics.json', 'mine.tmp']
    assert len(list(checkpoint.iterdir())) == 2 and len(list(source.iterdir())) == 3


def test_a_new_name_is_on_the_disk(tmp_path, monkeypatch):
    """The folder is synced after the rename; where that is not possible, nothing is said."""
    synced, sync = [], os.fsync

    def watch(number):
        folder = os.path.isdir(f'/proc/self/fd/{number}')
        synced.append((folder, (tmp_path / 'a').exists()))
        if folder:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(number)

    monkeypatch.setattr(os, 'fsync', watch)
    files.write(tmp_path / 'a', 'x')
    assert synced == [(False, False), (True, True)]


def test_messages_quote_little_of_a_file():
    long = '\x1b[31m\n' + 'x' * 5000
    with pytest.raises(UserError) as caught:
        files.parse_json(json.dumps([long]), list[Literal['A', 'B']], 'a.json')
    said = str(caught.value)
    assert said.startswith('a.json: Invalid enum value') and len(said) < 250 and said.isprintable()


def test_bytes_that_are_no_text_are_seen_where_nothing_reads_them():
    class Known(msgspec.Struct):
        a: int

    assert files.parse_json('{"a": 1, "b": "ü"}'.encode(), Known, 'x.json').a == 1
    with pytest.raises(UserError, match=r'x\.json: not JSON: .*invalid start byte'):
        files.parse_json(b'{"a": 1, "b": "\xff\xfe"}', Known, 'x.json')


def test_json_is_readable():
    assert files.as_json({'b': 'für', 'a': [1]}) == '{\n "b": "für",\n "a": [\n  1\n ]\n}\n'
