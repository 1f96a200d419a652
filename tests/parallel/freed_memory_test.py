"""Where the memory that programs free is kept: on one CPU, with room for it twice."""

import jax
import pytest

from xlbench.parallel import freed_memory, partitioning
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
    assert not freed_memory.keep(mesh(1), 60, 41)
    assert not freed_memory.keep(mesh(2), 60, 40)
    assert not kept
    assert freed_memory.keep(mesh(1), 60, 40) and kept
    monkeypatch.setattr(machine, 'memory', lambda: None)
    assert not freed_memory.keep(mesh(1), 60, 40)


@pytest.mark.parametrize('peak, inline, count', [(50, True, 1), (51, True, 0), (50, False, 0)])
def test_memory_is_kept_where_the_process_could_hold_it_twice(
    kept, monkeypatch, peak, inline, count
):
    monkeypatch.setattr(freed_memory, 'inline', inline)
    monkeypatch.setattr(freed_memory, '_kept', False)
    monkeypatch.setattr(machine, 'peak_memory', lambda: peak)
    freed_memory.keep_by_peak(mesh(2))
    assert not kept
    for _ in range(2):
        freed_memory.keep_by_peak(mesh(1))
    assert len(kept) == count
