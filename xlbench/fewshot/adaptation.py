"""Many few-shot adaptations at once (arXiv:2012.15682, sections 3 and 5.5).

A lane is one adaptation: a bucket of shots, a learning rate and a seed. One compiled program trains
a fixed number of lanes side by side, each on one device of the mesh and without communication; a
lane that ends leaves its slot to the next one. On a CPU several such programs run at the same time
(`Adapter.streams`). The result of a lane does not depend on the other lanes.

An epoch is one pass over the bucket, by default a single step. After each epoch the development set
is predicted, still on the device; the best parameters are kept, training stops when they have not
been beaten for `patience` epochs, and the test set is predicted with them, once. The number of
epochs before any lane may end is known in advance, so the device runs them in one call.

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent import futures
from typing import TypeVar

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util
from jax import numpy as jnp

from xlbench.data import features
from xlbench.fewshot import eval_sets
from xlbench.fewshot.eval_sets import EvalSet
from xlbench.fewshot.frozen import EMBEDDING, FrozenEncoder, Head, put
from xlbench.fewshot.lane_programs import LaneData, LanePrograms, State, assigned
from xlbench.fewshot.settings import METHODS, Adapt, Lane
from xlbench.metrics import tagging
from xlbench.models import lora
from xlbench.parallel import freed_memory, partitioning
from xlbench.system import machine
from xlbench.system.errors import UserError
from xlbench.training import memory
from xlbench.training.objectives.contract import Params

Item = TypeVar('Item')

POOLERS = ('encoder/pooler/', 'dense/')  # BERT's, and that of a head over an encoder without one.
# Of a device's memory, what lanes may take; the rest is for what the compiler does not count.
MEMORY_SHARE = 0.8
CPU_CACHE = 2**20  # Bytes of lanes that a CPU keeps near.


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a lane.

    Attributes:
      lane: which.
      dev_score: the best, 0 to 100; None without a development set.
      best_epoch: its epoch, from 1.
      epochs: all that were run.
      curve: [epochs], the development score after each.
      predicted: [W] int32, labels of the test set in the order of its `gold`; -1 between sentences.
      params: of the best epoch, over the whole vocabulary, where they were asked for.
    """

    lane: Lane
    dev_score: float | None
    best_epoch: int
    epochs: int
    curve: tuple[float, ...]
    predicted: np.ndarray
    params: Params | None = None


def early_stopping(scores: Sequence[float], patience: int) -> tuple[int, int, float]:
    """Returns (epochs run, best epoch from 1, its score), were `scores` those after each epoch.

    Only a higher score is better, and the first beats none at all (fsxlt/code, adapt_trainer.py).
    """
    best_epoch, best = 0, -1.0
    for epoch, score in enumerate(scores, 1):
        if score > best:
            best_epoch, best = epoch, score
        if epoch - best_epoch >= patience:
            return epoch, best_epoch, best
    return len(scores), best_epoch, best


class Adapter:
    """Adapts one model to one language in one way.

    Args:
      frozen: the model to start from, as it is, and the language; other adapters may share it.
      adapt: how it is adapted; the languages, shots, buckets and lanes in it do not count.
      method: what of it is adapted.
    """

    def __init__(self, frozen: FrozenEncoder, adapt: Adapt, method: str):
        objective, model = frozen.objective, frozen.model
        self._of_words = features.VIEWS[objective.view].labels == 'word'
        self._method, self._adapt, self._mesh = METHODS[method], adapt, frozen.mesh
        self._corpus, self.frozen = frozen.corpus, frozen
        flat = traverse_util.flatten_dict(frozen.params, sep='/')
        self._rereads = adapt.reads_shots_anew(method)
        self._shared, whole = (), None
        if self._method.lora:
            adapted = self._with_lora(frozen.params)
            flat = {
                name: leaf
                for name, leaf in adapted.items()
                if name.startswith('classifier/') or name.endswith(('/lora_a', '/lora_b'))
            }
            self._shared = {name: adapted[name] for name in adapted.keys() - flat.keys()}
            whole = model
        elif not self._method.encoder:
            parts = ('classifier/', *(POOLERS if self._method.pooler else ()))
            trained = {name: leaf for name, leaf in flat.items() if name.startswith(parts)}
            if self._rereads:
                whole = self._with_head(model)
                self._shared = {name: flat[name] for name in flat.keys() - trained.keys()}
            flat = trained
            called = 'label' if self._reads_hidden else 'classify'
            model = Head(self._with_head(model), called)
        self._trained = flat
        self._chunks = put(tagging.Chunks(self._corpus.labels).tables, self._mesh)
        self._data_of: tuple[int, LaneData | None] = (0, None)
        self._test_of: tuple[int, EvalSet] | None = None
        self._programs = LanePrograms(model, objective, self._mesh, adapt, method, whole)
        self._dispatching = threading.Lock()

    def _with_lora(self, params: Params) -> dict[str, jax.Array]:
        """Returns the parameters by name, with LoRA's leaves beside its targets."""
        try:
            method = lora.Lora(**self._adapt.lora)
        except UserError as error:
            raise UserError(str(error).replace('config.lora', 'config.adapt.lora')) from None
        named = jax.tree.map(lambda x: nn.LogicallyPartitioned(x, (None,) * x.ndim), params)
        return traverse_util.flatten_dict(
            nn.meta.unbox(method.add(named, jax.random.key(0))), sep='/'
        )

    def _with_head(self, model: nn.Module) -> nn.Module:
        """Returns the model with the head that the method trains."""
        if not self._method.fresh:
            return model
        head = 'cosine' if self._method.cosine else 'linear'
        return model.clone(config=dataclasses.replace(model.config, head=head))

    @property
    def _reads_hidden(self) -> bool:
        """True if the trained part reads hidden states, or a frozen pooler's output."""
        return self._method.pooler or self._of_words

    def run(
        self,
        shots: int,
        lanes: Sequence[Lane],
        at_once: int,
        keep: Collection[Lane] = (),
        streams: int = 1,
    ) -> Iterator[Result]:
        """Adapts all lanes, `at_once` of them side by side; yields each when it has ended.

        Args:
          shots: of the corpus.
          lanes: in the order in which they get a slot; their buckets have examples.
          at_once: slots, a multiple of the mesh's axis 'data'.
          keep: lanes whose parameters are kept.
          streams: number of programs that run at the same time; see `streams`.
        """
        read = self._data(shots), self._test(shots)  # Of both there is one for all streams.
        waiting, streams = collections.deque(lanes), max(streams, 1)
        keeps = self.keep_freed(shots, at_once, streams)
        yield from merged(
            [self._stream(shots, read, waiting, at_once, keep) for _ in range(streams)]
        )
        if keeps:
            machine.return_freed_memory()  # The next group's arrays have other sizes.

    def compile(self, shots: int, at_once: int) -> None:
        """Compiles what `run` calls.

        It may be called in a thread beside a `run` of other shots, if `may_compile_beside` says so.

        Args:
          shots: of the corpus.
          at_once: slots.
        """
        self._programs.compile(self._data(shots), self._test(shots), at_once)

    def lanes_at_once(self, shots: int, most: int) -> int:
        """Returns how many lanes to train side by side: as many as a device's memory holds.

        That is what the compiler says one lane takes, and another one. A CPU is fastest with as
        many as its cache holds, so that their state is not fetched anew at every step.

        Args:
          shots: of the corpus.
          most: the largest number, or the next multiple of the mesh's axis 'data'.
        """
        ways = self._mesh.shape['data']
        limit = partitioning.memory_limit(self._mesh)
        if limit is None and self._rereads:
            return ways  # What the encoder makes of one bucket fills the cache.
        if limit is None:
            fit = CPU_CACHE * ways // self.state_bytes(shots, ways)
        else:
            one, two = (self.step_bytes(shots, n * ways) for n in (1, 2))
            fit = 1 + (MEMORY_SHARE * limit - one) // max(two - one, 1)
        return ways * int(max(1, min(-(-most // ways), fit)))

    def streams(self, shots: int, lanes: int, at_once: int) -> int:
        """Returns how many programs of `at_once` lanes to run at the same time.

        A program is the same however many of it run, so that no result depends on this number.

        Args:
          shots: of the corpus.
          lanes: how many there are to adapt.
          at_once: slots of a program.
        """
        # Much of what a head's program does keeps one core busy while the others wait. Products of
        # a whole model use all cores: on two cores of an EPYC of family 25, two streams took 1.3
        # times as long as one, and twice the memory.
        if not partitioning.is_one_cpu(self._mesh) or self._method.runs_encoder:
            return 1
        fit = self._streams_that_fit(shots, at_once)
        return max(1, min(machine.cores(), -(-lanes // at_once), fit))

    def may_compile_beside(self, shots: int, at_once: int, streams: int) -> bool:
        """Returns whether the next programs may compile beside the running ones, on a CPU.

        Most of a program is compiled on one core, and the streams keep the others busy. Memory has
        to hold as much as another stream, for the compiler and for what the next lanes read.
        """
        return streams > 1 and self._streams_that_fit(shots, at_once) > streams

    def keep_freed(self, shots: int, at_once: int, streams: int) -> bool:
        """Lets the process keep what an epoch frees for the next one, on a CPU; whether it does.

        It then needs no new pages for it, which take a tenth of the time of an adaptation.
        """
        if not machine.one_heap:
            return False
        held = streams * 2 * self.state_bytes(shots, at_once) / MEMORY_SHARE
        return freed_memory.keep(self._mesh, held, held)

    def state_bytes(self, shots: int, slots: int) -> int:
        """Returns the bytes of the state of a number of lanes."""
        state = self._programs.state_like(self._data(shots), slots)
        return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state))

    def step_bytes(self, shots: int, slots: int) -> int:
        """Returns the bytes that `slots` lanes take on each device."""
        data = self._data(shots)
        state = self._programs.state_like(data, slots)
        program = self._programs.advance.lower(state, data, np.int32(1))
        return memory.step_bytes(program.compile().memory_analysis())

    def _streams_that_fit(self, shots: int, at_once: int) -> int:
        """Returns how many streams fit into a CPU's memory; 0 where its size is not known.

        Gradients and activations need about as much as the state of a stream.
        """
        return int(MEMORY_SHARE * (machine.memory() or 0) // (2 * self.state_bytes(shots, at_once)))

    def _stream(
        self,
        shots: int,
        read: tuple[LaneData, EvalSet],
        waiting: collections.deque[Lane],
        at_once: int,
        keep: Collection[Lane],
    ) -> Iterator[Result]:
        """Adapts the lanes that `waiting` still has whenever a slot is free."""
        (data, test), slots = read, [None] * at_once
        state, done, ended = None, np.zeros((at_once, 2), int), []
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
                    state = self._programs.begin(data, assigned(slots))
                elif (free & running).any():
                    state = self._programs.refill(state, data, assigned(slots), free)
                epochs = self._epochs(data, done, running)
                state, report = self._programs.advance(state, data, epochs)
            yield from self._results(ended, data)  # While the device works.
            report = np.array(report)
            done = report[:, 1:3].copy()
            ends = report[:, 0].astype(bool) & running
            predicted = None
            if ends.any():
                with self._dispatching:
                    predicted = self._programs.predict(state, data, test, ends)
            ended = []
            for i in np.flatnonzero(ends):
                lane, slots[i] = slots[i], None
                kept = self._whole(shots, state, i) if lane in keep else None
                ended.append((lane, report[i], predicted, i, kept))
        yield from self._results(ended, data)

    def _epochs(self, data: LaneData, done: np.ndarray, running: np.ndarray) -> np.int32:
        """Returns how many epochs pass at least before a lane may end.

        Args:
          data: what lanes read.
          done: [slots, 2], epochs done and the best of them.
          running: [slots], where there is a lane.
        """
        last = np.full(len(done), self._adapt.epochs)
        if data.dev is not None:
            # The first epoch is always the best one so far.
            last = np.minimum(np.maximum(done[:, 1], 1) + self._adapt.patience, last)
        return np.int32(np.min((last - done[:, 0])[running]))

    def _results(
        self,
        ended: Sequence[tuple[Lane, np.ndarray, jax.Array, int, Params | None]],
        data: LaneData,
    ) -> Iterator[Result]:
        """Reads the results of lanes that have ended on the device.

        Args:
          ended: each with its report [3 + 2 * epochs], see LanePrograms.advance; the test set's
            labels [slots, W]; its slot; and the parameters of its best epoch, if they are kept.
          data: what lanes read.
        """
        for lane, report, predicted, slot, params in ended:
            epochs = int(report[1])
            right, of = report[3:].reshape(-1, 2)[:epochs].T
            curve, best_epoch, score = (), epochs, None
            if data.dev is not None:
                curve = tuple((100.0 * right / of).tolist())
                epochs, best_epoch, score = early_stopping(curve, self._adapt.patience)
            labels = np.asarray(predicted)[slot].copy()
            yield Result(lane, score, best_epoch, epochs, curve, labels, params)

    def _whole(self, shots: int, state: State, slot: int) -> Params:
        """Reads the adapted parameters in a slot, over the whole vocabulary, onto the host."""
        adapted = state.params if state.best is None else state.best
        adapted = jax.device_get(self._programs.read(adapted, slot))
        adapted = traverse_util.flatten_dict(adapted, sep='/')
        whole = traverse_util.flatten_dict(jax.device_get(self.frozen.whole), sep='/')
        if EMBEDDING in adapted:
            table = np.array(whole[EMBEDDING])
            ids, trained = self._corpus.ids_of(shots)
            table[self._corpus.token_ids[ids[:trained]]] = adapted[EMBEDDING]
            adapted[EMBEDDING] = table
        if self._method.fresh:
            whole = {n: x for n, x in whole.items() if not n.startswith('classifier/')}
        if self._method.lora:
            whole |= {n: np.asarray(x) for n, x in self._shared.items() if n.endswith('lora_scale')}
        return lora.merge(traverse_util.unflatten_dict(whole | adapted, sep='/'))

    def _data(self, shots: int) -> LaneData:
        """Puts the data of lanes on the devices; that of the last number of shots is kept."""
        if self._data_of[0] != shots:
            self._data_of = (0, None)  # The last one's memory is free now.
            dev, flat, rest = self._corpus.dev(shots), dict(self._trained), ()
            if self._method.encoder or self._rereads:
                # Rows of pieces may hold several examples; steps of some examples need them apart.
                packed = self._of_words and not self._adapt.batch_size
                arrays = self._corpus.bucket_arrays(shots, packed)
            else:
                arrays = self.frozen.shots(shots, self._reads_hidden)
            if self._method.encoder:
                arrays = self._renumbered(shots, arrays)
                ids, trained = self._corpus.ids_of(shots)
                flat[EMBEDDING], rest = jnp.split(flat[EMBEDDING][ids], [trained])
            dev = None if dev is None else self._eval(shots, dev)
            params = traverse_util.unflatten_dict(flat, sep='/')
            data = LaneData(self._chunks, dev, self._shared, params, rest, arrays)
            self._data_of = shots, put(data, self._mesh)
        return self._data_of[1]

    def _test(self, shots: int) -> EvalSet:
        """Puts the test set on the devices; that of the last number of shots is kept."""
        # What a frozen encoder reads, or makes of it, is the same for all of them.
        key = shots if self._method.encoder else 0
        if self._test_of is None or self._test_of[0] != key:
            self._test_of = None
            self._test_of = key, self._eval(shots, self._corpus.test)
        return self._test_of[1]

    def _eval(self, shots: int, examples: EvalSet) -> EvalSet:
        """Puts a dev or test set on the devices."""
        if self._method.encoder:
            stacks = tuple(self._renumbered(shots, stack) for stack in examples.batches)
            examples = examples.replace(batches=stacks)
        elif not self._method.lora:
            examples = self.frozen.evaluated(examples, self._reads_hidden)
        return put(examples, self._mesh)

    def _renumbered(self, shots: int, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Renumbers tokens as `Corpus.ids_of` counts them, in place of their compact ids."""
        ids, _ = self._corpus.ids_of(shots)
        numbers = np.zeros(len(self._corpus.token_ids), np.int32)
        numbers[ids] = np.arange(len(ids))
        return eval_sets.compacted(arrays, numbers)


def merged(iterators: Sequence[Iterator[Item]]) -> Iterator[Item]:
    """Yields the items of all iterators as they come, each of them read in a thread.

    An error in one of them ends all, and is raised here. When this is closed, each of them is read
    up to its next item and no further.

    Args:
      iterators: a single one is read in the caller's thread.
    """
    if len(iterators) == 1:
        yield from iterators[0]
        return
    end = object()
    with futures.ThreadPoolExecutor(len(iterators)) as pool:
        reading = {pool.submit(next, iterator, end): iterator for iterator in iterators}
        while reading:
            for done in futures.wait(reading, return_when=futures.FIRST_COMPLETED).done:
                iterator = reading.pop(done)
                if (item := done.result()) is not end:
                    # It goes on while the caller looks at the item.
                    reading[pool.submit(next, iterator, end)] = iterator
                    yield item
