"""Iterators that are read side by side."""

import threading

import pytest

from xlbench.fewshot import adaptation


def test_items_come_while_others_are_waited_for():
    met = threading.Barrier(2, timeout=60)

    def both(name):
        met.wait()  # Only if the other one is read at the same time.
        yield name
        met.wait()
        yield name * 2

    assert sorted(adaptation.merged([both('a'), both('b')])) == ['a', 'aa', 'b', 'bb']
    assert list(adaptation.merged([iter((1, 2))])) == [1, 2]
    assert list(adaptation.merged([iter(()), iter((3,))])) == [3]


def test_a_single_iterator_is_read_by_the_caller():
    def here():
        yield threading.current_thread()

    assert list(adaptation.merged([here()])) == [threading.current_thread()]


def test_an_error_ends_all():
    def endless():
        while True:
            yield 0

    def broken():
        yield 1
        raise ValueError('broken')

    with pytest.raises(ValueError, match='broken'):
        for _ in adaptation.merged([endless(), broken()]):
            pass


def test_closed_in_the_middle():
    before = threading.active_count()

    def endless():
        while True:
            yield 0

    merged = adaptation.merged([endless(), endless()])
    assert next(merged) == 0
    merged.close()
    assert threading.active_count() == before
