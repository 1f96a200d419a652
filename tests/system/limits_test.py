"""Tests of xlbench/system/untrusted.py."""

import bz2
import gzip
import io

import pytest

from xlbench.system import untrusted
from xlbench.system.errors import UserError


def packed(data, name='x.gz', pack=gzip.compress, unpack=lambda raw: gzip.GzipFile(fileobj=raw)):
    raw = io.BytesIO(pack(data))
    return untrusted.open_packed(unpack(raw), raw, name)


@pytest.mark.parametrize('limit', untrusted.ALL, ids=lambda limit: limit.variable)
def test_a_limit_is_changed_by_its_variable(monkeypatch, limit):
    assert limit.value == limit.default
    monkeypatch.setenv(limit.variable, ' 7 ')
    assert limit.value == 7
    line = str(limit.exceeded('x.json is too large'))
    assert line.startswith('x.json is too large: at most 7 ') and limit.variable in line
    for text in ('0', '-1', '1.5', 'x', '²', '9' * 30):
        monkeypatch.setenv(limit.variable, text)
        with pytest.raises(UserError, match=f'{limit.variable}={text} is not a whole number'):
            _ = limit.value


def test_small_files_are_read_whole(tmp_path, monkeypatch):
    path = tmp_path / 'x'
    path.write_bytes(b'12345')
    assert untrusted.read_bytes(path) == b'12345'
    monkeypatch.setenv('XLBENCH_MAX_CONFIG_BYTES', '5')
    assert untrusted.read_bytes(path) == b'12345'
    monkeypatch.setenv('XLBENCH_MAX_CONFIG_BYTES', '4')
    with pytest.raises(untrusted.Exceeded, match='x is too large: at most 4 bytes are allowed; if'):
        untrusted.read_bytes(path)
    for strange in (tmp_path, tmp_path / 'gone'):
        with pytest.raises(UserError, match='cannot be read'):
            untrusted.read_bytes(strange)


def test_depth(monkeypatch):
    def nested(levels):
        value = 1
        for i in range(levels):
            value = [value, 2] if i % 2 else {'a': value, 'b': None}
        return value

    untrusted.check_depth(nested(64), 'x')
    with pytest.raises(untrusted.Exceeded, match=r'^x is nested too deeply: at most 64 levels are'):
        untrusted.check_depth(nested(65), 'x')
    monkeypatch.setenv('XLBENCH_MAX_JSON_DEPTH', '65')
    untrusted.check_depth(nested(65), 'x')


@pytest.mark.parametrize('kind', ['gzip', 'bz2'])
def test_what_is_unpacked_is_counted(monkeypatch, kind):
    kinds = {'gzip': {}, 'bz2': dict(pack=bz2.compress, unpack=bz2.BZ2File)}
    zeros = bytes(16 << 20)
    with packed(b'a line\n' * 1000, **kinds[kind]) as file:
        assert list(file) == [b'a line\n'] * 1000
    with packed(zeros[: 1 << 20], **kinds[kind]) as file:  # The first MiB is free.
        assert len(file.read()) == 1 << 20
    unpack = kinds[kind]
    with pytest.raises(untrusted.Exceeded, match=r'^x.gz expands too far, to .* at most 100 times'):
        packed(zeros, **unpack).read()
    monkeypatch.setenv('XLBENCH_MAX_EXPANSION', '1000000')
    assert len(packed(zeros, **unpack).read()) == len(zeros)
    monkeypatch.setenv('XLBENCH_MAX_EXPANDED_BYTES', '1000000')
    with pytest.raises(untrusted.Exceeded, match=r'x\.gz is too large when it is'):
        packed(zeros, **unpack).read()


def test_truly_large_files_have_no_end():
    expansion = untrusted.Expansion('x', has_end=False)
    expansion.add(1 << 50, 1 << 49)
    with pytest.raises(untrusted.Exceeded, match='too large when it is unpacked'):
        untrusted.Expansion('x').add(1 << 50, 1 << 49)
