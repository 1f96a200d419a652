"""This machine and its limits, and this process: its memory, and imports that say nothing.

It needs Python alone, as xlbench.doctor runs without packages.
"""

import contextlib
import ctypes
import gc
import importlib.machinery
import importlib.util
import os
import pathlib
import platform
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# What TensorFlow or jax, ArrayRecord and Orbax need before they do anything. With less they do not
# say so: they abort, wait for ever for threads that could not be started, or take a file for an
# empty one.
LEAST_ADDRESSES = 4 << 30  # bytes; each thread reserves far more than it uses
LEAST_FILES = 64

_CGROUPS, _GROUPS = '/sys/fs/cgroup', '/proc/self/cgroup'


def memory() -> int | None:
    """Bytes of memory this process may use: the machine's, or a smaller limit.

    Such limits come from a container or a job of a cluster (cgroups), or from a shell (ulimit).
    """
    try:
        total = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    except (AttributeError, OSError, ValueError):
        return None
    return min([total, *_cgroup_limits(), *_limits('RLIMIT_AS', 'RLIMIT_DATA')])


def processor() -> str:
    """The name of the processor, 'AMD EPYC 7B13'; '' where the machine does not say."""
    try:
        lines = pathlib.Path('/proc/cpuinfo').read_text(encoding='utf-8', errors='replace')
    except OSError:
        return platform.processor()
    named = (line.partition(':') for line in lines.splitlines())
    return next((name.strip() for key, _, name in named if key.strip() == 'model name'), '')


def installed(name: str) -> str | None:
    """The installed version of a package, without importing it."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def cores() -> int:
    """Counts the processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # Linux alone has it.
        return os.cpu_count() or 1


def peak_memory() -> int | None:
    """Bytes of memory that this process has had in use at most, or None where that is not known."""
    try:
        import resource
    except ImportError:  # No Unix.
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == 'darwin' else peak * 1024  # The others count in KiB.


def held_memory() -> int | None:
    """Bytes of memory that this process has in use now, or None where that is not known."""
    try:
        pages = int(pathlib.Path('/proc/self/statm').read_text(encoding='ascii').split()[1])
    except OSError:  # No Linux.
        return None
    return pages * os.sysconf('SC_PAGE_SIZE')


# mallopt(3): these numbers and -1 are glibc's.
_TRIM_THRESHOLD, _MAPPED_AT_MOST, _HEAPS_AT_MOST = -1, -4, -8

# Whether `share_one_heap` was called, and could do so.
one_heap = False


def share_one_heap() -> None:
    """Lets threads that begin from now on take their memory from the heap of the first one.

    What `keep_freed_memory` keeps is then kept for all of them. Without glibc, nothing happens.
    """
    global one_heap
    one_heap = _mallopt(_HEAPS_AT_MOST, 1)


def keep_freed_memory() -> bool:
    """Lets this process keep what it frees for what it needs next; False: it cannot.

    glibc gives each large block back to the system as soon as it is free, and takes it anew, a page
    at a time, when a block like it is needed: up to a third of the time of a train step on a CPU.
    Here the calling thread's blocks come from its heap, and the heap does not shrink any more, but
    by `return_freed_memory`.
    """
    return _mallopt(_MAPPED_AT_MOST, 0) and _mallopt(_TRIM_THRESHOLD, -1)


def return_freed_memory() -> None:
    """Gives the system what was freed and is kept. Without glibc, nothing happens."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


# Objects that a program may make before Python looks for those that only refer to each other.
_MOST_NEW = 1_000_000
_COLLECTING = gc.get_threshold()


def put_off_collecting() -> None:
    """Has Python look for garbage only after a million new objects, not after 700, until it does.

    Modules and traced programs are many objects that stay. To look through all of them again and
    again takes a sixth of the time until a program has begun its work.
    """
    gc.set_threshold(_MOST_NEW, *_COLLECTING[1:])
    if _end_of_putting_off not in gc.callbacks:
        gc.callbacks.append(_end_of_putting_off)


def _end_of_putting_off(phase: str, info: dict[str, int]) -> None:
    """Called by Python before and after it collects garbage."""
    if phase == 'stop':
        collect_as_ever()


def collect_as_ever() -> None:
    """Ends what `put_off_collecting` began, if it did: the program is at work."""
    if _end_of_putting_off in gc.callbacks:
        gc.callbacks.remove(_end_of_putting_off)
        gc.set_threshold(*_COLLECTING)


def _mallopt(parameter: int, value: int) -> bool:
    """Sets a parameter of glibc's memory; False: it was not set."""
    try:
        return bool(ctypes.CDLL(None).mallopt(parameter, value))
    except (AttributeError, OSError, TypeError):  # Not glibc.
        return False


def _cgroup_limits() -> Iterator[int]:
    """The limits of all groups that this process is in; those above bind as well."""
    try:
        lines = pathlib.Path(_GROUPS).read_text().splitlines()
    except OSError:
        lines = []
    places = {'memory.max': '/', 'memory/memory.limit_in_bytes': '/'}  # cgroups 2 and 1
    for line in lines:
        _, controllers, group = line.split(':', 2)
        if not controllers:
            places['memory.max'] = group
        elif 'memory' in controllers.split(','):
            places['memory/memory.limit_in_bytes'] = group
    for name, group in places.items():
        folder, _, file = name.rpartition('/')
        top = pathlib.Path(_CGROUPS, folder)
        # In a container the group may be named as it is outside, where nothing is visible of it.
        inside = pathlib.PurePosixPath(group.lstrip('/'))
        for part in (inside, *inside.parents):
            try:
                text = (top / part / file).read_text().strip()
            except OSError:
                continue
            if text.isdigit():
                yield int(text)


def _limits(*names: str) -> Iterator[int]:
    """Yields the limits of this process that are set."""
    try:
        import resource
    except ImportError:  # No Unix.
        return
    for name in names:
        limit = resource.getrlimit(getattr(resource, name))[0] if hasattr(resource, name) else -1
        if limit not in (-1, resource.RLIM_INFINITY):
            yield limit


def too_little() -> str:
    """Says that jax or TensorFlow may open too few files or have too little memory; '' if not."""
    for files in _limits('RLIMIT_NOFILE'):
        if files < LEAST_FILES:
            return (
                f'this process may have {files} files open at once, and {LEAST_FILES} is the least '
                'that works; allow it more (ulimit -n 4096)'
            )
    for flag, name in (('-v', 'RLIMIT_AS'), ('-d', 'RLIMIT_DATA')):
        for size in _limits(name):
            if size < LEAST_ADDRESSES:
                return (
                    f'this process may reserve {size >> 20:,} MiB of memory (ulimit {flag}), and '
                    f'its threads alone need {LEAST_ADDRESSES >> 20:,} MiB, of which they use a '
                    f'small part; allow it more (ulimit {flag} unlimited), or set the limit of a '
                    'container in its place'
                )
    return ''


# Of what TensorFlow and SeqIO load, packages that nothing here calls: Keras, and what it imports
# for its wrappers. They take seconds.
_UNUSED = ('keras', 'matplotlib', 'sklearn')
# Packages that load when they are used first: SeqIO's own vocabularies tokenize with TensorFlow
# Text, which imports Keras; its mixtures with rates to be searched need PyGlove.
_LATE = ('pyglove', 'tensorflow_text')


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Imports in this block write nothing to standard error, unless the block fails.

    TensorFlow's C++ code speaks about CUDA and oneDNN before it has read its log level, and Beam
    says which of Google's packages are missing. TensorFlow takes seconds to load, so that its users
    are imported where they are needed: `--help` need not wait for it.
    """
    from absl import logging

    logging.set_verbosity(logging.ERROR)  # SeqIO warns about each uncached task.
    # TensorFlow asks where Keras is, and imports it if it can.
    loaders = dict.fromkeys(_UNUSED, lambda own: _Refusal())
    finder = Finder(loaders | dict.fromkeys(_LATE, importlib.util.LazyLoader))
    with tempfile.TemporaryFile() as hidden:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(hidden.fileno(), 2)
        sys.meta_path.insert(0, finder)
        try:
            yield
        except Exception:  # Not Ctrl-C, which needs no explanation.
            hidden.seek(0)
            os.write(saved, hidden.read())
            raise
        finally:
            sys.meta_path.remove(finder)
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)


class Finder:
    """Finds some packages, each with what makes its loader from Python's own one."""

    def __init__(self, loaders: Mapping[str, Callable[[Any], Any]]):
        self._loaders = loaders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Says how a package is loaded; None for one that is left to Python's own finders."""
        if name not in self._loaders:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = self._loaders[name](spec.loader)
        return spec


class _Refusal:
    """Loads nothing, as if a package were not installed."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leaves it to Python to make the empty module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Raises ImportError."""
        raise ImportError(f'{module.__name__} is not needed here')
