import platform
import subprocess
import sys

import pytest

KEEPS = """
import resource
from xlbench import machine

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
