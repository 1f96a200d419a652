"""Compiled programs: those that equal models share, rows of different lengths, operations, memory.

On a CPU the system gives memory that was freed to the process anew, a page at a time, unless the
process keeps it; see machine.keep_freed_memory.
"""

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn
from jax.sharding import Mesh

from xlbench.parallel import partitioning
from xlbench.system import machine
from xlbench.system.trees import Params

Result = TypeVar('Result')
# Widths of batches as parts of the largest one: texts vary much, or little.
HALVES = (1 / 8, 1 / 4, 1 / 2, 1)
QUARTERS = (1 / 4, 1 / 2, 3 / 4, 1)
_SHARED = 16  # What jax has compiled goes with the function that it was compiled for.
# Whether `run_inline` was called.
inline = False
# Whether `keep_freed_by_peak` has had an effect.
_kept = False


@functools.lru_cache(_SHARED)
def shared(function: Callable[..., Any], *fixed: Hashable, **options: Any) -> Any:
    """A pure function under jit, with its first arguments fixed, such as a Linen module.

    For arguments of equal value it is the same program. The options are those of jax.jit.
    """
    return jax.jit(functools.partial(function, *fixed), **options)


def matmul_flops(jaxpr: Jaxpr, trips: int = 1) -> int:
    """Counts the FLOPs of all products over all devices: 2 for a multiplication and addition.

    They are those of the traced program, whatever compiles it; a loop of unknown length counts as
    `trips` rounds.
    """
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == 'dot_general':
            (contracted, _), _ = eqn.params['dimension_numbers']
            left: Any = eqn.invars[0].aval
            product: Any = eqn.outvars[0].aval
            summed = math.prod(left.shape[axis] for axis in contracted)
            total += 2 * math.prod(product.shape) * summed
            continue
        cost = eqn.params.get('cost_estimate')  # Of a kernel that says it.
        if cost is not None:
            total += cost.flops
            continue
        inside = [matmul_flops(program, trips) for program in _inner(eqn)]
        if eqn.primitive.name == 'cond':
            total += max(inside, default=0)
        else:
            times = {'scan': eqn.params.get('length', 1), 'while': trips}
            if eqn.primitive.name == 'pallas_call':  # What is inside runs for each tile.
                times['pallas_call'] = math.prod(eqn.params['grid_mapping'].grid)
            if eqn.primitive.name == 'shard_map':  # What is inside is what one device does.
                times['shard_map'] = eqn.params['mesh'].size
            total += times.get(eqn.primitive.name, 1) * sum(inside)
    return total


def _inner(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """Yields the programs inside an operation: of a loop, a branch, a kernel."""
    for value in eqn.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(item, 'jaxpr'):
                yield item.jaxpr
            elif hasattr(item, 'eqns'):
                yield item


def run_inline() -> None:
    """Runs a CPU's programs in the thread that calls them, whose memory the next one finds again.

    Programs of several devices do not. To be called before jax touches a device.
    """
    global inline
    inline = True
    jax.config.update('jax_cpu_enable_async_dispatch', False)


def keep_freed(mesh: Mesh, held: float, freed: float) -> bool:
    """Lets this process keep what its programs on one CPU device free; True if it does now.

    To be called where the next program can find it: where programs run inline, or where all threads
    share a heap (machine.one_heap). What is kept may lie where the next array does not fit, so that
    there is to be room for it twice: `held` are the bytes that this process holds at most, and
    `freed` those among them that programs free.
    """
    limit = machine.memory()
    if not partitioning.is_one_cpu(mesh) or limit is None or held + freed > limit:
        return False
    return machine.keep_freed_memory()


def keep_freed_by_peak(mesh: Mesh) -> None:
    """Lets inline programs keep what they free, where the process may grow to twice its peak.

    To be called whenever a program has run, if nobody knows beforehand what it needs.
    """
    global _kept
    if inline and not _kept and (peak := machine.peak_memory()):
        _kept = keep_freed(mesh, peak, peak)


class LengthBatch(NamedTuple):
    """Rows that go through a program together."""

    places: list[int]  # The longest first.
    rows: int  # Of the arrays, padding included.
    width: int  # Of the arrays, in tokens.


class LengthBatches:
    """Cuts rows into batches of few shapes, so that each program is compiled a few times only.

    A whole batch has `batch_size` rows; for what is left there are as few as the devices can share.
    The widths are parts of the largest one, `max_length` tokens, and become multiples of 8.
    """

    def __init__(
        self, mesh: Mesh, *, batch_size: int, max_length: int, widths: Sequence[float] = HALVES
    ):
        self._mesh, self._max_length = mesh, max_length
        multiples = (8 * math.ceil(max_length * part / 8) for part in widths)
        self._widths = sorted({min(width, max_length) for width in multiples})
        self._rows = sorted({partitioning.batch_shards(mesh), batch_size})

    def cut(self, lengths: Mapping[int, int]) -> Iterator[LengthBatch]:
        """Batches of rows, the longest first, from {place of a row: its length}."""
        places = sorted(lengths, key=lambda place: -lengths[place])
        for start in range(0, len(places), self._rows[-1]):
            batch = places[start : start + self._rows[-1]]
            longest = min(lengths[batch[0]], self._max_length)
            yield LengthBatch(
                batch,
                next(rows for rows in self._rows if rows >= len(batch)),
                next(width for width in self._widths if width >= longest),
            )

    def run(
        self,
        program: Callable[..., Result],
        params: Params,
        arrays: Mapping[str, np.ndarray],
        *more: object,
    ) -> Result:
        """Dispatches a program of parameters, this process's rows of a batch, and `more`."""
        keep_freed_by_peak(self._mesh)
        with partitioning.activate(self._mesh):
            return program(params, partitioning.put_batch(arrays, self._mesh), *more)
