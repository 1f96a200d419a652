"""The machine that figures are from: what it is, which versions are there, and how busy it is."""

import json
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import TypedDict

# Ours, and those that the interpreter of the peers has.
OURS = ('jax', 'jaxlib', 'flax', 'optax', 'numpy', 'tensorflow', 'seqio', 'sentencepiece')
PEERS = ('torch', 'transformers', 'accelerate', 'datasets', 'tokenizers', 'faiss-cpu')
_ASK_VERSIONS = """
import importlib.metadata, json, sys
versions = {}
for name in sys.argv[1:]:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""


class Machine(TypedDict):
    """What does not change while a machine is up."""

    cpu: str
    cores: int  # Those that this process may use.
    memory_gb: int
    os: str


def facts() -> Machine:
    """The machine that this runs on."""
    affinity = getattr(os, 'sched_getaffinity', None)
    return {
        'cpu': _cpu(),
        'cores': len(affinity(0)) if affinity else os.cpu_count() or 1,
        'memory_gb': round(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30),
        'os': _os(),
    }


def _cpu() -> str:
    """The name of the processor: 'AMD EPYC (family 25, model 17)'."""
    try:
        text = pathlib.Path('/proc/cpuinfo').read_text(encoding='utf-8')
    except OSError:
        return platform.processor() or platform.machine()
    lines = (line.partition(':') for line in text.partition('\n\n')[0].splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines}
    if 'model name' not in fields:
        return platform.machine()
    # Virtual machines often say no more than the maker's name.
    family, model = fields.get('cpu family', '?'), fields.get('model', '?')
    return f'{fields["model name"]} (family {family}, model {model})'


def gpu() -> str:
    """The name of the first GPU, as NVIDIA's driver has it; '' where there is none."""
    command = ['nvidia-smi', '--query-gpu=name', '--format=csv,noheader']
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return text.partition('\n')[0]
    except (OSError, subprocess.CalledProcessError):
        return ''


def _os() -> str:
    """The name of the operating system."""
    try:
        return platform.freedesktop_os_release()['PRETTY_NAME']
    except OSError:
        return platform.platform()


def versions(peers_python: str = '') -> dict[str, str]:
    """Versions of Python and of OURS here, and of PEERS in another interpreter."""
    here = {'python': platform.python_version(), **_installed(sys.executable, OURS)}
    return here | (_installed(peers_python, PEERS) if peers_python else {})


def _installed(python: str, packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that an interpreter has."""
    answer = subprocess.run(
        [python, '-c', _ASK_VERSIONS, *packages], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def busy_cores(seconds: float = 2.0) -> float:
    """How many cores were at work during the next `seconds`; NaN where the machine does not say."""

    def ticks() -> tuple[int, int]:  # (at work, idle), of all cores together
        first = pathlib.Path('/proc/stat').read_text(encoding='utf-8').partition('\n')[0]
        numbers = [int(x) for x in first.split()[1:]]
        idle = numbers[3] + numbers[4]  # Waiting for a disk is idle, too.
        return sum(numbers[:8]) - idle, idle  # The last two are in the first two already.

    try:
        work, idle = ticks()
        time.sleep(seconds)
        after_work, after_idle = ticks()
    except OSError:
        return float('nan')
    passed = (after_work - work) + (after_idle - idle)
    return (after_work - work) / max(passed, 1) * (os.cpu_count() or 1)


def wait_until_idle(limit: float, patience: float = 60.0) -> float:
    """Waits up to `patience` seconds until at most `limit` cores are at work; returns the cores."""
    ends = time.monotonic() + patience
    while (busy := busy_cores()) > limit and time.monotonic() < ends:
        print(f'waiting: {busy:.2f} cores are at work', file=sys.stderr, flush=True)
    return busy
