"""Where the memory that programs free is kept; rows of different lengths in few shapes."""

import jax
import pytest

from xlbench.parallel import partitioning, programs
from xlbench.parallel.programs import HALVES, QUARTERS, LengthBatches
from xlbench.system import machine


@pytest.fixture
def kept(monkeypatch):
    """A machine of 100 bytes; an entry for each time that memory is kept from there on."""
    calls = []
    monkeypatch.setattr(machine, 'memory', lambda: 100)
    monkeypatch.setattr(machine, 'keep_freed_memory', lambda: not calls.append(1))
    return calls


def mesh(devices):
    return partitioning.make_mesh(devices=jax.devices()[:devices])


def test_memory_is_kept_on_one_cpu_where_there_is_room_for_it_twice(kept, monkeypatch):
    assert not programs.keep_freed(mesh(1), 60, 41)
    assert not programs.keep_freed(mesh(2), 60, 40)
    assert not kept
    assert programs.keep_freed(mesh(1), 60, 40) and kept
    monkeypatch.setattr(machine, 'memory', lambda: None)
    assert not programs.keep_freed(mesh(1), 60, 40)


@pytest.mark.parametrize('peak, inline, count', [(50, True, 1), (51, True, 0), (50, False, 0)])
def test_memory_is_kept_where_the_process_could_hold_it_twice(
    kept, monkeypatch, peak, inline, count
):
    monkeypatch.setattr(programs, 'inline', inline)
    monkeypatch.setattr(programs, '_kept', False)
    monkeypatch.setattr(machine, 'peak_memory', lambda: peak)
    programs.keep_freed_by_peak(mesh(2))
    assert not kept
    for _ in range(2):
        programs.keep_freed_by_peak(mesh(1))
    assert len(kept) == count


@pytest.mark.parametrize(
    ('max_length', 'widths', 'expected'),
    [
        (64, HALVES, [8, 16, 32, 64]),
        (64, QUARTERS, [16, 32, 48, 64]),
        (30, HALVES, [8, 16, 30]),  # Multiples of 8, but for the largest.
        (5, QUARTERS, [5]),
    ],
)
def test_shapes_are_few(max_length, widths, expected):
    batches = LengthBatches(mesh(1), batch_size=4, max_length=max_length, widths=widths)
    found = {(b.rows, b.width) for length in range(1, 99) for b in batches.cut({0: length})}
    assert found == {(1, width) for width in expected}


def test_every_row_is_in_one_batch_the_longest_first():
    batches = LengthBatches(mesh(1), batch_size=2, max_length=16)
    cut = list(batches.cut({3: 5, 7: 40, 8: 16, 9: 5, 4: 9}))
    assert [batch.places for batch in cut] == [[7, 8], [4, 3], [9]]
    assert [(batch.rows, batch.width) for batch in cut] == [(2, 16), (2, 16), (1, 8)]
    assert list(batches.cut({})) == []
