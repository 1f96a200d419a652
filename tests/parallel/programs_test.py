"""Where the memory that programs free is kept: on one CPU, with room for it twice."""

import jax
import pytest

from xlbench.parallel import partitioning, programs
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
