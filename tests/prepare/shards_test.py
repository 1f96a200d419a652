import itertools
import zlib

import pytest

from xlbench.prepare import shards

LINES = [f'key{number % 11}\tline {number}' for number in range(500)]


def key(line):
    return zlib.crc32(line.partition('\t')[0].encode())


@pytest.mark.parametrize('most', [10**9, 50_000, 5_000, 1])
def test_groups_hold_all_lines_once_and_each_key_together(most):
    reads = []

    def read():
        reads.append(1)
        return iter(LINES)

    groups = [group for group in shards.groups(read, key, most) if group]
    assert sorted(itertools.chain(*groups)) == sorted(LINES)
    keys = [{line.partition('\t')[0] for line in group} for group in groups]
    assert sum(map(len, keys)) == 11
    assert len(groups) == {10**9: 1, 1: 11}.get(most, len(groups))
    for group, of_group in zip(groups, keys, strict=True):
        # What is too large has a single key.
        assert len(of_group) == 1 or sum(map(shards._memory, group)) <= most
    assert len(reads) >= len(groups)


@pytest.mark.parametrize('num_groups', [1, 2, 5])
def test_runs_are_merged_in_order(tmp_path, num_groups):
    """Texts may hold anything but a line end."""
    runs = shards.Runs(str(tmp_path), lambda line: line)
    lines = [f'\u2028 ü\r{number:03d}\t' for number in range(40)]
    for group in range(num_groups):
        runs.begin()
        for number in range(group, 40, num_groups):
            runs.add(number % 3, lines[number])
    expected = [(key, line) for key in range(3) for line in lines[key::3]]
    assert list(runs) == expected and not list(tmp_path.iterdir())


def test_keys_come_with_their_first_line(tmp_path):
    path = str(tmp_path / 'shard')
    writer = shards.Writer(path, 0)
    writer.add(2, 'c')
    writer.add(0, 'a')
    writer.close({})
    assert [list(shards.lines(path, key)) for key in range(3)] == [['a'], [], ['c']]
