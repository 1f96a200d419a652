"""Many few-shot adaptations at once (arXiv:2012.15682, sections 3 and 5.5).

A lane is one adaptation: a bucket of shots, a learning rate and a seed. One compiled program trains
a fixed number of lanes side by side, each on one device of the mesh and without communication; a
lane that ends leaves its slot to the next one. On a CPU several such programs run at the same time
(`Adapter.streams`). The result of a lane does not depend on the other lanes.

An epoch is one pass over the bucket, by default a single step. After each epoch the development set
is predicted, still on the device; the best parameters are kept, training stops when they have not
been beaten for `patience` epochs, and the test set is predicted with them, once. Only a higher
score beats another (fsxlt/code, adapt_trainer.py). The number of epochs before any lane may end is
known in advance, so the device runs them in one call.

Two things make this cheap. The full method trains only those rows of the embedding table that occur
in some bucket, because without weight decay Adam moves no others. The methods that freeze the
encoder run it once over every text, without dropout, and train only the head, which reads the
hidden states as if they were tokens. fsxlt/code runs the frozen encoder at every step, with
dropout, and so does `Adapt.frozen_dropout`; dev and test sets are read once even then.

LoRA trains the head and thin matrices beside kernels that all lanes share.
"""

import collections
import dataclasses
import threading
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from xlbench.fewshot import settings
from xlbench.fewshot.lanes import Lanes, assigned
from xlbench.fewshot.results import Row
from xlbench.parallel import partitioning, programs
from xlbench.system import machine, work
from xlbench.training import memory
from xlbench.training.objectives.contract import Params

# The share of a device's memory that lanes may take; the compiler does not count everything.
MEMORY_SHARE = 0.8
CPU_CACHE = 2**20  # Bytes of lanes that a CPU keeps near.


class Adapted(NamedTuple):
    """An adaptation that has ended."""

    row: Row
    # [W] int32, labels of the test set in the order of its `gold`; -1 between sentences.
    predicted: np.ndarray
    params: Params | None  # Of the best epoch, over the whole vocabulary, if they were asked for.


class Adapter:
    """Adapts the model of some lanes to a number of shots of their corpus."""

    def __init__(self, lanes: Lanes, shots: int):
        self._lanes, self._shots, self._mesh = lanes, shots, lanes.frozen.mesh
        self._data, self._test = lanes.data(shots), lanes.test(shots)
        self._dispatching = threading.Lock()

    def run(
        self, rows: Sequence[Row], at_once: int, keep: Collection[Row] = (), streams: int = 1
    ) -> Generator[Adapted, None, None]:
        """Adapts to the buckets of all rows, `at_once` side by side; yields each that has ended.

        Args:
          rows: without results, in the order in which they get a slot; their buckets have examples.
          at_once: slots, a multiple of the mesh's axis 'data'.
          keep: rows whose parameters are kept.
          streams: number of programs that run at the same time; see `streams`.
        """
        waiting, keeps = collections.deque(rows), self.keep_freed(at_once, streams)
        each = [self._stream(waiting, at_once, keep) for _ in range(streams)]
        yield from work.merged(each, streams)
        if keeps:
            machine.return_freed_memory()  # The next group's arrays have other sizes.

    def compile(self, at_once: int) -> None:
        """Compiles what `run` calls with that many slots; a thread may do so beside another `run`.

        Memory must suffice for both, see `may_compile_beside`.
        """
        lanes, data, new = self._lanes, self._data, assigned([None] * at_once)
        state, some = lanes.state_like(data, at_once), np.zeros(at_once, bool)
        lanes.begin.lower(data, new).compile()
        if at_once > 1:
            lanes.refill.lower(state, data, new, some).compile()
        lanes.advance.lower(state, data, np.int32(0)).compile()
        lanes.predict.lower(state, data, self._test, some).compile()

    def lanes_at_once(self, most: int) -> int:
        """Returns how many lanes to train side by side: as many as a device's memory holds.

        The compiler says what one lane takes, and another one. A CPU is fastest with as many as its
        cache holds, so that their state is not fetched anew at every step. The result is a multiple
        of the mesh's axis 'data', and at most the first one from `most` on.
        """
        ways = self._mesh.shape['data']
        limit = partitioning.memory_limit(self._mesh)
        if limit is None and self._lanes.rereads:
            return ways  # The encoder's states of one bucket fill the cache.
        if limit is None:
            fit = CPU_CACHE * ways // self.state_bytes(ways)
        else:
            one, two = (self.step_bytes(n * ways) for n in (1, 2))
            fit = 1 + (MEMORY_SHARE * limit - one) // max(two - one, 1)
        return ways * int(max(1, min(-(-most // ways), fit)))

    def streams(self, rows: int, at_once: int) -> int:
        """Returns how many programs of `at_once` lanes to run at the same time for this many rows.

        A program is the same however many of it run, so that no result depends on this number.
        """
        # Much of what a head's program does keeps one core busy while the others wait. Products of
        # a whole model use all cores: on two cores of an EPYC of family 25, two streams took 1.3
        # times as long as one, and twice the memory.
        if not partitioning.is_one_cpu(self._mesh) or self._lanes.method.runs_encoder:
            return 1
        return max(1, min(machine.cores(), -(-rows // at_once), self._streams_that_fit(at_once)))

    def may_compile_beside(self, at_once: int, streams: int) -> bool:
        """Returns whether the next programs may compile beside the running ones, on a CPU.

        Most of a program is compiled on one core, and the streams keep the others busy. Memory has
        to hold as much as another stream, for the compiler and for what the next lanes read.
        """
        return streams > 1 and self._streams_that_fit(at_once) > streams

    def keep_freed(self, at_once: int, streams: int) -> bool:
        """Lets a process on a CPU keep the memory that an epoch frees; returns whether it does.

        The next epoch then needs no new pages, which take a tenth of the time of an adaptation.
        """
        if not machine.one_heap:
            return False
        held = streams * 2 * self.state_bytes(at_once) / MEMORY_SHARE
        return programs.keep_freed(self._mesh, held, held)

    def state_bytes(self, slots: int) -> int:
        """Returns the bytes of the state of a number of lanes."""
        state = self._lanes.state_like(self._data, slots)
        return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))

    def step_bytes(self, slots: int) -> int:
        """Returns the bytes that `slots` lanes take on each device."""
        state = self._lanes.state_like(self._data, slots)
        program = self._lanes.advance.lower(state, self._data, np.int32(1))
        return memory.step_bytes(program.compile().memory_analysis())

    def _streams_that_fit(self, at_once: int) -> int:
        """Returns how many streams fit into a CPU's memory; 0 where its size is not known."""
        # Gradients and activations need about as much as the state of a stream.
        return int(MEMORY_SHARE * (machine.memory() or 0) // (2 * self.state_bytes(at_once)))

    def _stream(
        self, waiting: collections.deque[Row], at_once: int, keep: Collection[Row]
    ) -> Iterator[Adapted]:
        """Adapts to the rows that `waiting` still has whenever a slot is free."""
        lanes, data = self._lanes, self._data
        slots: list[Row | None] = [None] * at_once
        state, done = None, np.zeros((at_once, 2), int)
        ended: list[tuple[Row, np.ndarray, jax.Array, int, Params | None]] = []
        while True:
            # A program is compiled once, by the first stream that calls it. Nothing in here waits
            # for the device.
            with self._dispatching:
                free = np.array([slot is None for slot in slots])
                for i in np.flatnonzero(free)[: len(waiting)]:
                    slots[i], done[i] = waiting.popleft(), 0
                running = np.array([slot is not None for slot in slots])
                if not running.any():
                    break
                if free.all():
                    state = None  # Before the new one is there: its memory may be needed.
                    state = lanes.begin(data, assigned(slots))
                elif (free & running).any():
                    state = lanes.refill(state, data, assigned(slots), free)
                state, report = lanes.advance(state, data, self._epochs(done, running))
            for one in ended:
                yield self._adapted(*one)  # While the device works.
            report = np.array(report)
            done = report[:, 1:3].copy()
            ends, ended = report[:, 0].astype(bool) & running, []
            if ends.any():
                with self._dispatching:
                    predicted = lanes.predict(state, data, self._test, ends)
                for i, row in enumerate(slots):
                    if row is not None and ends[i]:
                        params = lanes.adapted(self._shots, state, i) if row in keep else None
                        ended.append((row, report[i], predicted, i, params))
                        slots[i] = None
        for one in ended:
            yield self._adapted(*one)

    def _epochs(self, done: np.ndarray, running: np.ndarray) -> np.int32:
        """Returns the least epochs before a `running` slot may end; `done` has all and the best."""
        adapt = self._lanes.adapt
        last = np.full(len(done), adapt.epochs)
        if self._data.dev is not None:
            # The first epoch is always the best one so far.
            last = np.minimum(np.maximum(done[:, 1], 1) + adapt.patience, last)
        return np.int32(np.min((last - done[:, 0])[running]))

    def _adapted(
        self, row: Row, report: np.ndarray, predicted: jax.Array, slot: int, params: Params | None
    ) -> Adapted:
        """Reads the result of a lane that has ended: its report and all slots' predicted labels."""
        corpus, (epochs, best_epoch), curve = self._lanes.frozen.corpus, report[1:3].tolist(), ()
        if self._data.dev is not None:
            right, of = report[3:].reshape(-1, 2)[:epochs].T
            curve = tuple((100.0 * right / of).tolist())
        labels = np.asarray(predicted)[slot].copy()
        row = dataclasses.replace(
            row,
            score=settings.score(corpus.of_words, corpus.labels, corpus.test.gold, labels),
            dev_score=curve[best_epoch - 1] if curve else None,
            best_epoch=best_epoch,
            epochs=epochs,
            examples=corpus.num_examples(row),
            status='done',
            curve=curve,
        )
        return Adapted(row, labels, params)
