"""Tests of xlbench/system/work.py."""

import pytest

from xlbench.system.work import in_flight


@pytest.mark.parametrize(
    ('pieces', 'depth', 'expected'),
    [
        ('abc', 1, '+a +b -a +c -b -c'),
        ('abc', 0, '+a -a +b -b +c -c'),
        ('abcd', 2, '+a +b +c -a +d -b -c -d'),
        (['a', 'b', None, 'c', None, None], 3, '+a +b -a -b +c -c'),
        ('', 2, ''),
    ],
)
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
