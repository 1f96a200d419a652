import gc
import importlib
import importlib.util
import mmap
import os
import platform
import subprocess
import sys

import pytest

from xlbench.system import machine

KEEPS = """
import resource
from xlbench.system import machine

def pages():  # The system gave this process so many.
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def held():
    return int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()

def use(size=64 << 20):
    before = pages()
    bytearray(size)
    return (pages() - before) * resource.getpagesize() / size

print(use() + use())
print(machine.keep_freed_memory())
print(use(), use())
before = held()
machine.return_freed_memory()
print((before - held()) / (64 << 20))
"""


# Blocks of a second thread, larger than what such a thread's own heap holds.
OF_A_THREAD = """
import concurrent.futures, resource, sys
from xlbench.system import machine

def use(size=128 << 20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(size)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return used * resource.getpagesize() / size

if sys.argv[1] == 'one_heap':
    machine.share_one_heap()
assert machine.one_heap == (sys.argv[1] == 'one_heap')
machine.keep_freed_memory()
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    print(pool.submit(lambda: [use() for _ in range(2)][-1]).result())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='glibc alone is told to keep memory')
def test_memory_that_is_kept_needs_no_pages_from_the_system_again():
    done = subprocess.run([sys.executable, '-c', KEEPS], check=True, capture_output=True, text=True)
    twice, kept, uses, returned = done.stdout.splitlines()
    assert float(twice) > 1.9
    assert kept == 'True'
    first, second = map(float, uses.split())
    assert first > 0.9
    assert second < 0.1
    assert float(returned) > 0.9


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='glibc alone is told to keep memory')
def test_memory_of_other_threads_is_kept_in_one_heap():
    def pages_again(name):
        command = [sys.executable, '-c', OF_A_THREAD, name]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert pages_again('one_heap') < 0.1
    assert pages_again('own_heaps') > 0.9


@pytest.mark.skipif(sys.platform != 'linux', reason='Linux alone says what a process holds')
def test_memory_in_use_now():
    before = machine.held_memory()
    with mmap.mmap(-1, 64 << 20) as block:  # Not of the heap, which may have such a block free.
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1
        grown = machine.held_memory() - before
    assert 0.9 < grown / (64 << 20) < 1.1
    assert machine.held_memory() - before < grown / 2


def test_garbage_is_collected_late_until_a_program_has_begun():
    machine.collect_as_ever()  # A program that another test ran here may have put it off.
    usual = gc.get_threshold()
    machine.put_off_collecting()
    assert gc.get_threshold()[0] == 1_000_000
    machine.put_off_collecting()
    machine.collect_as_ever()
    assert gc.get_threshold() == usual
    machine.put_off_collecting()
    gc.collect()  # As Python does it by itself after so many objects.
    assert gc.get_threshold() == usual
    assert machine._end_of_putting_off not in gc.callbacks


# ---------------------------------------------------------------------------------------------
# What a block of `quietly` hides and puts off, and for how long.


def test_what_nothing_here_calls_is_hidden_in_the_block_alone(monkeypatch):
    monkeypatch.setattr(machine, '_UNUSED', ('colorsys', 'json'))
    monkeypatch.delitem(sys.modules, 'colorsys', raising=False)
    there = sys.modules['json']
    with machine.quietly():
        assert importlib.import_module('json') is there  # Loaded before: it stays.
        assert importlib.util.find_spec('colorsys').origin.endswith('colorsys.py')
        with pytest.raises(ImportError):
            importlib.import_module('colorsys')
    assert importlib.import_module('colorsys').rgb_to_hsv(0, 0, 0) == (0, 0, 0)


def test_what_loads_late_is_there_when_it_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, '_LATE', ('late_package',))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / 'late_package.py').write_text('import late_part\nname = "late"\n')
    (tmp_path / 'late_part.py').write_text('')
    with machine.quietly():
        late = importlib.import_module('late_package')
    assert 'late_part' not in sys.modules
    assert late.name == 'late' and 'late_part' in sys.modules


@pytest.mark.parametrize('error', [ImportError, KeyboardInterrupt])
def test_what_was_hidden_is_shown_if_the_block_fails_but_not_after_ctrl_c(error, capfd):
    with pytest.raises(error), machine.quietly():
        os.write(2, b'why it failed\n')
        raise error
    assert ('why it failed' in capfd.readouterr().err) == (error is ImportError)
