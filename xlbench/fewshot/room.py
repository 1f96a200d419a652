"""The room for lanes: in the memory of devices, and in the caches and cores of a CPU."""

import jax
import numpy as np
from jax.sharding import Mesh

from xlbench import machine
from xlbench.fewshot.lane_programs import LaneData, LanePrograms
from xlbench.parallel import freed_memory, partitioning
from xlbench.training import memory

# Of a device's memory, what lanes may take; the rest is for what the compiler does not count.
MEMORY_SHARE = 0.8
CPU_CACHE = 2**20  # Bytes of lanes that a CPU keeps near.


class Room:
    """Number of lanes and programs that run at the same time, for one number of shots.

    Args:
      programs: that run them.
      data: that they read.
      mesh: lanes are cut over its axis 'data'.
      rereads: whether a frozen encoder reads the shots at every step.
    """

    def __init__(self, programs: LanePrograms, data: LaneData, mesh: Mesh, rereads: bool):
        self._programs, self._data, self._mesh, self._rereads = programs, data, mesh, rereads

    def lanes_at_once(self, most: int) -> int:
        """Returns how many lanes to train side by side: as many as a device's memory holds.

        That is what the compiler says one lane takes, and another one. A CPU is fastest with as
        many as its cache holds, so that their state is not fetched anew at every step.

        Args:
          most: no more than so many, or the next multiple of the mesh's axis 'data'.
        """
        ways = self._mesh.shape['data']
        most = -(-most // ways)
        limit = partitioning.memory_limit(self._mesh)
        if limit is None and self._rereads:
            return ways  # What the encoder makes of one bucket fills the cache.
        if limit is None:
            return ways * int(max(1, min(most, CPU_CACHE * ways // self.bytes(ways))))
        one, two = (self.step_bytes(n * ways) for n in (1, 2))
        fit = 1 + (MEMORY_SHARE * limit - one) // max(two - one, 1)
        return ways * int(max(1, min(most, fit)))

    def streams(self, lanes: int, at_once: int) -> int:
        """Returns how many programs of `at_once` lanes to run at the same time.

        Much of what one program does on a CPU keeps one core busy, and the others wait. A program
        is the same however many of it run, so that no result depends on this number.

        Args:
          lanes: how many there are to adapt.
          at_once: slots of a program.
        """
        if not partitioning.is_one_cpu(self._mesh):
            return 1
        return max(1, min(machine.cores(), -(-lanes // at_once), self._streams_that_fit(at_once)))

    def may_compile_beside(self, at_once: int, streams: int) -> bool:
        """Returns whether the next programs may compile beside the running ones, on a CPU.

        Most of a program is compiled on one core, and the streams keep the others busy. Memory has
        to hold as much as another stream, for the compiler and for what the next lanes read.
        """
        return streams > 1 and self._streams_that_fit(at_once) > streams

    def keep_freed(self, at_once: int, streams: int) -> bool:
        """Lets the process keep what an epoch frees for the next one, on a CPU; whether it does.

        It then needs no new pages for it, which take a tenth of the time of an adaptation.
        """
        if not machine.one_heap:
            return False
        held = streams * self._stream_bytes(at_once) / MEMORY_SHARE
        return freed_memory.keep(self._mesh, held, held)

    def bytes(self, slots: int) -> int:
        """Bytes of the state of so many lanes."""
        state = self._programs.state_like(self._data, slots)
        return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))

    def step_bytes(self, slots: int) -> int:
        """Bytes that `slots` lanes take on each device."""
        state = self._programs.state_like(self._data, slots)
        program = self._programs.advance.lower(state, self._data, np.int32(1))
        return memory.step_bytes(program.compile().memory_analysis())

    def _streams_that_fit(self, at_once: int) -> int:
        """Returns how many streams fit into a CPU's memory; 0 where its size is not known."""
        return int(MEMORY_SHARE * (machine.memory() or 0) // self._stream_bytes(at_once))

    def _stream_bytes(self, at_once: int) -> int:
        """Estimates a stream's bytes: gradients and activations need about as much as its state."""
        return 2 * self.bytes(at_once)
