import gc
import mmap
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
