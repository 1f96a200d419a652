"""Tests of xlbench/system/work.py."""

import itertools
import threading

import pytest

from xlbench.system.work import in_flight, merged


@pytest.mark.parametrize(
    ('pieces', 'depth', 'expected'),
    [('abc', 1, '+a +b -a +c -b -c'), ('abc', 0, '+a -a +b -b +c -c'),
     ('abcd', 2, '+a +b +c -a +d -b -c -d'),
     (['a', 'b', None, 'c', None, None], 3, '+a +b -a -b +c -c'), ('', 2, '')],
)  # fmt: skip
def test_work_is_begun_ahead_and_yielded_in_order(pieces, depth, expected):
    events = []

    def submit(piece):
        events.append(f'+{piece}')
        return piece.upper()

    for piece, result in in_flight(pieces, submit, depth):
        assert result == piece.upper()
        events.append(f'-{piece}')
    assert ' '.join(events) == expected


def test_an_error_of_the_work_itself_comes_before_what_is_under_way():
    def pieces():
        yield 'a'
        raise ValueError('broken')

    results = in_flight(pieces(), str.upper, depth=1)
    with pytest.raises(ValueError, match='broken'):
        next(results)


def test_items_come_while_others_are_waited_for():
    met = threading.Barrier(2, timeout=60)

    def both(name):
        met.wait()  # Only if the other one is read at the same time.
        yield name
        met.wait()
        yield name * 2

    assert sorted(merged([both('a'), both('b')], 2)) == ['a', 'aa', 'b', 'bb']
    assert list(merged([iter(()), iter((3,))], 2)) == [3]
    here = (threading.current_thread() for _ in range(1))  # A single one is read by the caller.
    assert list(merged([here], 1)) == [threading.current_thread()]


@pytest.mark.parametrize('threads', [1, 2, 8])
def test_there_may_be_more_streams_than_threads(threads):
    streams = [range(n, n + 50) for n in (0, 100, 200, 300)]
    assert sorted(merged(streams, threads)) == sorted(itertools.chain(*streams))


def endless():
    while True:
        yield 0


def test_an_error_ends_all():
    def broken():
        yield 1
        raise ValueError('broken')

    with pytest.raises(ValueError, match='broken'):
        for _ in merged([endless(), broken()], 2):
            pass


def test_closed_in_the_middle():
    before = threading.active_count()
    items = merged([endless(), endless()], 2)
    assert next(items) == 0
    items.close()
    assert threading.active_count() == before
