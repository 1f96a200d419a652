"""Decides if programs on a CPU keep the memory that earlier ones have freed.

The system gives it to the process anew otherwise, a page at a time, see machine.keep_freed_memory.
"""

import jax
from jax.sharding import Mesh

from xlbench.parallel import partitioning
from xlbench.system import machine

# Whether `run_inline` was called.
inline = False
# Whether `keep_by_peak` has had an effect.
_kept = False


def run_inline() -> None:
    """A CPU's program runs in the thread that calls it, whose memory the next program finds again.

    Programs of several devices do not. To be called before jax touches a device.
    """
    global inline
    inline = True
    jax.config.update('jax_cpu_enable_async_dispatch', False)


def keep(mesh: Mesh, held: float, freed: float) -> bool:
    """Lets this process keep what its programs free; whether it does from now on.

    To be called where the next program can find it: where programs run inline, or where all threads
    share a heap (machine.one_heap). What is kept may lie where the next array does not fit, so that
    there is to be room for it twice.

    Args:
      mesh: where the programs run; only for one CPU device anything is kept.
      held: bytes that this process holds at most, and
      freed: those among them that programs free.
    """
    limit = machine.memory()
    if not partitioning.is_one_cpu(mesh) or limit is None or held + freed > limit:
        return False
    return machine.keep_freed_memory()


def keep_by_peak(mesh: Mesh) -> None:
    """Lets inline programs keep what they free, where the process may grow to twice its peak.

    To be called whenever a program has run, if nobody knows beforehand what it needs.
    """
    global _kept
    if inline and not _kept and (peak := machine.peak_memory()):
        _kept = keep(mesh, peak, peak)
