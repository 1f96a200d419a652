"""Many few-shot adaptations at once (arXiv:2012.15682, sections 3 and 5.5).

A lane is one adaptation: a bucket of shots, a learning rate and a seed. One compiled program trains
a fixed number of lanes side by side, each on one device of the mesh and without communication; a
lane that ends leaves its slot to the next one. On a CPU several such programs run at the same time
(`Room.streams`). The result of a lane does not depend on the other lanes.

An epoch is one pass over the bucket, by default a single step. After each epoch the development set
is predicted, still on the device; the best parameters are kept, training stops when they have not
been beaten for `patience` epochs, and the test set is predicted with them, once. The number of
epochs before any lane may end is known in advance, so the device runs them in one call.

Two things make this cheap. The full method trains only those rows of the embedding table that occur
in some bucket, because without weight decay Adam moves no others. The methods that freeze the
encoder run it once over every text, without dropout, and train only the head, which reads the
hidden states as if they were tokens. fsxlt/code runs the frozen encoder at every step, with
dropout, and so does `Recipe.frozen_dropout`; dev and test sets are read once even then.
"""

import collections
import dataclasses
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import numpy as np
from flax import traverse_util
from jax import numpy as jnp
from jax.sharding import Mesh

from xlbench import machine
from xlbench.data import features
from xlbench.errors import UserError
from xlbench.fewshot import eval_sets
from xlbench.fewshot.corpus import Corpus
from xlbench.fewshot.eval_sets import EvalSet
from xlbench.fewshot.frozen import FrozenEncoder, Head, stacked
from xlbench.fewshot.lane_programs import LaneData, LanePrograms
from xlbench.fewshot.lanes import (
    EMBEDDING,
    METHODS,
    POOLERS,
    TAGGING_METHODS,
    Eval,
    Lane,
    Recipe,
    Result,
    State,
    assigned,
    early_stopping,
    put,
)
from xlbench.fewshot.room import Room
from xlbench.fewshot.streams import merged
from xlbench.metrics import tagging
from xlbench.training.objectives.contract import Objective, Params


class _Ended(NamedTuple):
    """A lane that has ended on the device.

    Attributes:
      lane: which.
      report: [3 + 2 * epochs], see LanePrograms.advance.
      predicted: [slots, W], labels of the test set.
      slot: that it had.
      params: of its best epoch, if they are kept.
    """

    lane: Lane
    report: np.ndarray
    predicted: jax.Array
    slot: int
    params: Params | None


class Adapter:
    """Adapts one model to one language in one way.

    Args:
      model: SequenceClassifier or TokenClassifier.
      objective: Classification or Tagging.
      params: to start from, over the whole vocabulary.
      corpus: the language.
      mesh: lanes are cut over its axis 'data'.
      recipe: what is adapted, and how.
      frozen: the `frozen` of another Adapter of the same model, params and corpus: what its encoder
        has computed is not computed again.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        params: Params,
        corpus: Corpus,
        mesh: Mesh,
        recipe: Recipe,
        frozen: FrozenEncoder | None = None,
    ):
        self._of_words = features.VIEWS[objective.view].labels == 'word'
        if self._of_words and recipe.method not in TAGGING_METHODS:
            raise UserError(
                f'method {recipe.method!r} adapts the layer between encoder and classifier, which '
                f'a tagger does not have; its methods: {", ".join(TAGGING_METHODS)}'
            )
        self._method, self._recipe, self._mesh = METHODS[recipe.method], recipe, mesh
        self._corpus, self._params = corpus, params
        self.frozen = frozen or FrozenEncoder(model, objective, params, corpus, mesh)
        flat = traverse_util.flatten_dict(self.frozen.params, sep='/')
        self._rereads = recipe.frozen_dropout and not self._method.encoder
        self._shared, whole = (), None
        if not self._method.encoder:
            parts = ('classifier/', *(POOLERS if self._method.pooler else ()))
            trained = {name: leaf for name, leaf in flat.items() if name.startswith(parts)}
            if self._rereads:
                whole = self._with_head(self.frozen.model)
                self._shared = {name: flat[name] for name in flat.keys() - trained.keys()}
            flat, model = trained, self._head(model)
        self._trained = flat
        self._chunks = put(tagging.Chunks(corpus.labels).tables, mesh)
        self._data_of: tuple[int, LaneData | None] = (0, None)
        self._test_of: tuple[int, Eval] | None = None
        self._programs = LanePrograms(model, objective, mesh, recipe, whole)
        self._dispatching = threading.Lock()

    def _with_head(self, model: nn.Module) -> nn.Module:
        """The model with the head that the method trains."""
        if not self._method.fresh:
            return model
        head = 'cosine' if self._method.cosine else 'linear'
        return model.clone(config=dataclasses.replace(model.config, head=head))

    def _head(self, model: nn.Module) -> Head:
        """The head that is trained, and which of its methods is called."""
        return Head(self._with_head(model), 'label' if self._reads_hidden else 'classify')

    @property
    def _reads_hidden(self) -> bool:
        """True if the trained part reads hidden states, or a frozen pooler's output."""
        return self._method.pooler or self._of_words

    # ----------------------------------------------------------------------------------- the lanes

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
          lanes: in the order in which they get a slot.
          at_once: slots, a multiple of the mesh's axis 'data'.
          keep: lanes whose parameters are kept.
          streams: how many programs of so many slots run at the same time; see `streams`.
        """
        ways = self._mesh.shape['data']
        if at_once < 1 or at_once % ways:
            raise UserError(
                f'{at_once} adaptations at once cannot be divided over {ways} devices; choose a '
                f'multiple of {ways}'
            )
        sizes = np.asarray(self._data(shots).shots['examples'])
        for lane in lanes:
            if not sizes[lane.bucket]:
                raise UserError(f'bucket {lane.bucket} of {shots} shots is empty; leave it out')
        read = self._data(shots), self._test(shots)  # Of both there is one for all streams.
        waiting, streams = collections.deque(lanes), max(streams, 1)
        keeps = self.room(shots).keep_freed(at_once, streams)
        yield from merged(
            [self._stream(shots, read, waiting, at_once, keep) for _ in range(streams)]
        )
        if keeps:
            machine.return_freed_memory()  # The next group's arrays have other sizes.

    def compile(self, shots: int, at_once: int) -> None:
        """Compiles what `run` calls.

        It may be called in a thread beside a `run` of other shots, see `Room.may_compile_beside`.

        Args:
          shots: of the corpus.
          at_once: slots.
        """
        self._programs.compile(self._data(shots), self._test(shots), at_once)

    def room(self, shots: int) -> Room:
        """Returns how many lanes of a number of shots fit at a time."""
        return Room(self._programs, self._data(shots), self._mesh, self._rereads)

    def _stream(
        self,
        shots: int,
        read: tuple[LaneData, Eval],
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
                state = self._refilled(state, data, slots, free)
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
                ended.append(_Ended(lane, report[i], predicted, i, kept))
        yield from self._results(ended, data)

    def _refilled(
        self,
        state: State | None,
        data: LaneData,
        slots: Sequence[Lane | None],
        free: np.ndarray,
    ) -> State:
        """The lanes of slots, begun in those that were free [slots]."""
        if state is None:
            return self._programs.begin(data, assigned(slots))
        if any(slot and new for slot, new in zip(slots, free, strict=True)):
            return self._programs.refill(state, data, assigned(slots), free)
        return state

    def _epochs(self, data: LaneData, done: np.ndarray, running: np.ndarray) -> np.int32:
        """Returns how many epochs pass at least before a lane may end.

        Args:
          data: what lanes read.
          done: [slots, 2], epochs done and the best of them.
          running: [slots], where there is a lane.
        """
        last = np.full(len(done), self._recipe.epochs)
        if data.dev is not None:
            # The first epoch is always the best one so far.
            last = np.minimum(np.maximum(done[:, 1], 1) + self._recipe.patience, last)
        return np.int32(np.min((last - done[:, 0])[running]))

    def _results(self, ended: Sequence[_Ended], data: LaneData) -> Iterator[Result]:
        """Reads the results of lanes from the device's report of each."""
        for lane, report, predicted, slot, params in ended:
            epochs = int(report[1])
            right, of = report[3:].reshape(-1, 2)[:epochs].T
            curve, best_epoch, score = (), epochs, None
            if data.dev is not None:
                curve = tuple((100.0 * right / of).tolist())
                epochs, best_epoch, score = early_stopping(curve, self._recipe.patience)
            labels = np.asarray(predicted)[slot].copy()
            yield Result(lane, score, best_epoch, epochs, curve, labels, params)

    def _whole(self, shots: int, state: State, slot: int) -> Params:
        """The adapted parameters in a slot as a tree over the whole vocabulary, on the host."""
        adapted = state.params if state.best is None else state.best
        adapted = jax.device_get(self._programs.read(adapted, slot))
        adapted = traverse_util.flatten_dict(adapted, sep='/')
        whole = traverse_util.flatten_dict(jax.device_get(self._params), sep='/')
        if EMBEDDING in adapted:
            table = np.array(whole[EMBEDDING])
            ids, trained = self._corpus.ids_of(shots)
            table[self._corpus.token_ids[ids[:trained]]] = adapted[EMBEDDING]
            adapted[EMBEDDING] = table
        if self._method.fresh:
            whole = {n: x for n, x in whole.items() if not n.startswith('classifier/')}
        return traverse_util.unflatten_dict(whole | adapted, sep='/')

    # --------------------------------------------------------------------------------------- data

    def _data(self, shots: int) -> LaneData:
        """The data of lanes of so many shots; that of the last number asked for is kept."""
        if self._data_of[0] != shots:
            self._data_of = (0, None)  # The last one's memory is free now.
            dev, flat, rest = self._corpus.dev(shots), dict(self._trained), ()
            if self._method.encoder or self._rereads:
                # Rows of pieces may hold several examples; steps of some examples need them apart.
                packed = self._of_words and not self._recipe.batch_size
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

    def _test(self, shots: int) -> Eval:
        """The test set on the devices; that of the last number of shots asked for is kept."""
        # What a frozen encoder makes of it is the same for all of them.
        key = shots if self._method.encoder else 0
        if self._test_of is None or self._test_of[0] != key:
            self._test_of = None
            self._test_of = key, self._eval(shots, self._corpus.test)
        return self._test_of[1]

    def _eval(self, shots: int, examples: EvalSet) -> Eval:
        """A dev or test set on the devices."""
        if not self._method.encoder:
            return put(self.frozen.evaluated(examples, self._reads_hidden), self._mesh)
        batches = tuple(self._renumbered(shots, batch) for batch in examples.batches)
        return put(stacked(batches, examples.take, examples.gold), self._mesh)

    def _renumbered(self, shots: int, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Features with tokens as `Corpus.ids_of` counts them, in place of its compact ids."""
        ids, _ = self._corpus.ids_of(shots)
        numbers = np.zeros(len(self._corpus.token_ids), np.int32)
        numbers[ids] = np.arange(len(ids))
        return eval_sets.compacted(arrays, numbers)
