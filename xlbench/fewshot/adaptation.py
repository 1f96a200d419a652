"""Many few-shot adaptations at once (arXiv:2012.15682, sections 3 and 5.5).

A lane is one adaptation: a bucket of shots, a learning rate and a seed. A fixed number of lanes is
trained side by side by one compiled program, each on a device of the mesh without a word to the
others; a lane that ends leaves its slot to the next one. What becomes of a lane depends on nothing
but itself.

An epoch is one pass over the bucket, by default a single step. After each epoch the development set
is predicted, still on the device; the best parameters are kept, training stops when they have not
been beaten for `patience` epochs, and the test set is predicted with them, once. How many epochs
can pass before some lane may end is known beforehand, so that the device runs them in one go.

Two things make it cheap. The full method trains only those rows of the embedding table that occur
in some bucket: without weight decay Adam moves no other. And the methods that freeze the encoder
run it once over every text, nothing dropped (fsxlt/code repeats it in every epoch, with dropout);
what is trained is the head behind it, which reads the hidden states as if they were tokens.
"""

import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct, traverse_util
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xlbench.data import features
from xlbench.errors import UserError, unknown
from xlbench.metrics import tagging
from xlbench.models import bert
from xlbench.parallel import partitioning
from xlbench.training.objectives.classification import type_ids
from xlbench.training.objectives.contract import Batch

EMBEDDING = 'encoder/token_embedder/embedding'
POOLERS = ('encoder/pooler/', 'dense/')  # BERT's, and that of a head over an encoder without one.
_TORCH_ADAM = dict(b1=0.9, b2=0.999, eps=1e-8)
LANES, WHOLE = PartitionSpec('data'), PartitionSpec()
# Of a device's memory, what lanes may take; the rest is for what the compiler does not count.
MEMORY_SHARE = 0.8
CPU_CACHE = 2**20  # Bytes of lanes that a CPU keeps near.
# Rows of shots that a frozen encoder reads at a time.
ROWS_AT_ONCE = 256


@dataclasses.dataclass(frozen=True)
class Method:
    """What of a model is adapted.

    Attributes:
      encoder: with everything below the head.
      pooler: with the layer between encoder and classifier.
      fresh: the classifier starts anew, drawn with the lane's seed.
      cosine: the classifier compares directions, see HeadConfig.
    """

    encoder: bool = False
    pooler: bool = False
    fresh: bool = False
    cosine: bool = False


METHODS = {
    'full': Method(encoder=True, pooler=True),
    'fc': Method(),
    'fc_pooler': Method(pooler=True),
    'cos_pooler': Method(pooler=True, fresh=True, cosine=True),
    'fc_reset_pooler': Method(pooler=True, fresh=True),
}
TAGGING_METHODS = ('full', 'fc')  # Taggers have no pooler.


@dataclasses.dataclass(frozen=True)
class Lane:
    """One adaptation; `seed` draws dropout, the order of batches and fresh parameters."""

    bucket: int
    learning_rate: float
    seed: int


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a lane.

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
    params: Any = None


def early_stopping(scores: Sequence[float], patience: int) -> tuple[int, int, float]:
    """(epochs run, best epoch from 1, its score), were `scores` those after each epoch.

    Only a higher score is better, and the first beats none at all (fsxlt/code, adapt_trainer.py).
    """
    best_epoch, best = 0, -1.0
    for epoch, score in enumerate(scores, 1):
        if score > best:
            best_epoch, best = epoch, score
        if epoch - best_epoch >= patience:
            return epoch, best_epoch, best
    return len(scores), best_epoch, best


@struct.dataclass
class State:
    """Lanes in their slots, [slots, ...] each.

    Attributes:
      bucket, seed, learning_rate: [slots].
      params: of the adapted part.
      moments: Adam's.
      best: `params` of the best epoch; None without a development set.
      best_score: [slots, 2] int32, as `scores`.
      best_epoch: [slots].
      epoch: [slots], epochs done.
      ended: [slots], nothing here moves any more.
      scores: [slots, epochs, 2] int32, a fraction for each epoch: see `Adapter._score`.
    """

    bucket: jax.Array
    seed: jax.Array
    learning_rate: jax.Array
    params: Any
    moments: Any
    best: Any
    best_score: jax.Array
    best_epoch: jax.Array
    epoch: jax.Array
    ended: jax.Array
    scores: jax.Array


@struct.dataclass
class Eval:
    """A development or test set on the device.

    Attributes:
      batches: features [batches, rows, ...], an entry for each shape.
      take: [W], where each prediction is among all; -1: nowhere.
      gold: [W], -1 between sentences.
    """

    batches: tuple[dict[str, jax.Array], ...]
    take: jax.Array
    gold: jax.Array


class Adapter:
    """Adapts one model to one language in one way.

    Args:
      model: SequenceClassifier or TokenClassifier.
      objective: Classification or Tagging.
      params: to start from, over the whole vocabulary.
      corpus: a fewshot.shots.Corpus.
      mesh: lanes are cut over its axis 'data'.
      method: a name in METHODS.
      epochs: at most; as many without a development set.
      patience: epochs without a higher score after which a lane ends.
      batch_size: examples of a step; 0: the whole bucket.
      adam: b1, b2 and eps.
      frozen: the `frozen` of another Adapter of the same model, params and corpus: what its encoder
        has computed is not computed again.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Any,
        params: Any,
        corpus: Any,
        mesh: Mesh,
        *,
        method: str,
        epochs: int = 50,
        patience: int = 10,
        batch_size: int = 0,
        adam: Mapping[str, float] = _TORCH_ADAM,
        frozen: 'FrozenEncoder | None' = None,
    ):
        if method not in METHODS:
            raise unknown('method of few-shot adaptation', method, METHODS)
        if features.VIEWS[objective.view].labels == 'word' and method not in TAGGING_METHODS:
            raise UserError(
                f'method {method!r} adapts the layer between encoder and classifier, which a '
                f'tagger has not; its methods: {", ".join(TAGGING_METHODS)}'
            )
        if epochs < 1 or patience < 1 or batch_size < 0:
            raise UserError(
                f'epochs={epochs}, patience={patience}, batch_size={batch_size}; allowed are 1 or '
                'more epochs and patience, and a batch_size of 0, the whole bucket, or more'
            )
        self._method, self._objective, self._mesh = METHODS[method], objective, mesh
        self._of_words = features.VIEWS[objective.view].labels == 'word'
        self._epochs, self._patience, self._batch_size = epochs, patience, batch_size
        self._adam, self._adam_options = optax.scale_by_adam(**adam), adam
        self._corpus, self._params = corpus, params
        self.frozen = frozen or FrozenEncoder(model, objective, params, corpus, mesh)
        flat = traverse_util.flatten_dict(self.frozen.params, sep='/')
        if not self._method.encoder:
            parts = ('classifier/', *(POOLERS if self._method.pooler else ()))
            flat = {name: leaf for name, leaf in flat.items() if name.startswith(parts)}
            model = Head(*self._head(model))
        self._model, self._trained = model, flat
        self._chunks = _put(tagging.Chunks(corpus.labels).tables, mesh)
        self._data_of: tuple[int, Any] = (0, None)
        self._test_of: tuple[int, Eval] | None = None
        self._compile()

    def _head(self, model: nn.Module) -> tuple[nn.Module, str]:
        """The head that is trained, and which of its methods is called."""
        if self._method.fresh:
            head = 'cosine' if self._method.cosine else 'linear'
            model = model.clone(config=dataclasses.replace(model.config, head=head))
        return model, 'label' if self._reads_hidden else 'classify'

    @property
    def _reads_hidden(self) -> bool:
        """Whether what is trained reads hidden states; or what a frozen pooler makes of them."""
        return self._method.pooler or self._of_words

    # ------------------------------------------------------------------------------------ the host

    def zero_shot(self) -> np.ndarray:
        """[W] int32: the test set as the parameters that lanes start from predict it."""
        return self.frozen.predict(self._corpus.test)

    def run(
        self, shots: int, lanes: Sequence[Lane], at_once: int, keep: Collection[Lane] = ()
    ) -> Iterator[Result]:
        """Adapts all lanes, `at_once` of them side by side; yields each when it has ended.

        Args:
          shots: of the corpus.
          lanes: in the order in which they get a slot.
          at_once: slots, a multiple of the mesh's axis 'data'.
          keep: lanes whose parameters are wanted.
        """
        ways = self._mesh.shape['data']
        if at_once < 1 or at_once % ways:
            raise UserError(
                f'{at_once} adaptations at once cannot be cut over {ways} devices; choose a '
                f'multiple of {ways}'
            )
        data, test = self._data(shots), self._test(shots)
        sizes = np.asarray(data['shots']['examples'])
        for lane in lanes:
            if not sizes[lane.bucket]:
                raise UserError(f'bucket {lane.bucket} of {shots} shots is empty; leave it out')
        waiting, slots = collections.deque(lanes), [None] * at_once
        state, done, finished = None, np.zeros((at_once, 2), int), []
        while waiting or any(slots):
            free = np.array([slot is None for slot in slots])
            for i in np.flatnonzero(free)[: len(waiting)]:
                slots[i], done[i] = waiting.popleft(), 0
            if state is None:
                state = self._begin(data, _assigned(slots))
            elif any(slot and new for slot, new in zip(slots, free, strict=True)):
                state = self._refill(state, data, _assigned(slots), free)
            running = np.array([slot is not None for slot in slots])
            # The first epoch is always the best one so far.
            last = np.minimum(np.maximum(done[:, 1], 1) + self._patience, self._epochs)
            last = self._epochs if data['dev'] is None else last
            epochs = np.int32(np.min((last - done[:, 0])[running]))
            state, report = self._advance(state, data, epochs)
            yield from self._results(finished, data)  # While the device works.
            report = np.array(report)
            done = report[:, 1:3].copy()
            ended = report[:, 0].astype(bool) & running
            finished = []
            if ended.any():
                predicted = self._predict(state, data, test, ended)
                for i in np.flatnonzero(ended):
                    lane, slots[i] = slots[i], None
                    kept = self._whole(shots, state, i) if lane in keep else None
                    finished.append((lane, report[i], predicted, i, kept))
        yield from self._results(finished, data)

    def _results(self, finished: Sequence[tuple], data: Any) -> Iterator[Result]:
        """What became of lanes, from the device's report of each."""
        for lane, report, predicted, slot, params in finished:
            epochs = int(report[1])
            right, of = report[3:].reshape(-1, 2)[:epochs].T
            curve, best_epoch, score = (), epochs, None
            if data['dev'] is not None:
                curve = tuple((100.0 * right / of).tolist())
                epochs, best_epoch, score = early_stopping(curve, self._patience)
            labels = np.asarray(predicted)[slot].copy()
            yield Result(lane, score, best_epoch, epochs, curve, labels, params)

    def _whole(self, shots: int, state: State, slot: int) -> Any:
        """The adapted parameters in a slot as a tree over the whole vocabulary, on the host."""
        own = state.params if state.best is None else state.best
        own = jax.device_get(self._read(own, slot))
        own = traverse_util.flatten_dict(own, sep='/')
        whole = traverse_util.flatten_dict(jax.device_get(self._params), sep='/')
        if EMBEDDING in own:
            table = np.array(whole[EMBEDDING])
            ids, trained = self._corpus.ids_of(shots)
            table[self._corpus.token_ids[ids[:trained]]] = own[EMBEDDING]
            own[EMBEDDING] = table
        if self._method.fresh:
            whole = {n: x for n, x in whole.items() if not n.startswith('classifier/')}
        return traverse_util.unflatten_dict(whole | own, sep='/')

    def lanes_at_once(self, shots: int, most: int) -> int:
        """How many lanes to train side by side: as many as a device's memory holds.

        That is what the compiler says one lane takes, and another one. A CPU is fastest with as
        many as its cache holds, so that their state is not fetched anew at every step.

        Args:
          shots: of the corpus.
          most: no more than so many, or the next multiple of the mesh's axis 'data'.
        """
        ways = self._mesh.shape['data']
        most = -(-most // ways)
        limit = partitioning.memory_limit(self._mesh)
        if limit is None:
            slots = jax.tree.leaves(self._shapes(shots, ways))
            lane = sum(x.size * x.dtype.itemsize for x in slots) / ways
            return ways * int(max(1, min(most, CPU_CACHE // lane)))
        one, two = (self._memory(shots, n * ways) for n in (1, 2))
        fit = 1 + (MEMORY_SHARE * limit - one) // max(two - one, 1)
        return ways * int(max(1, min(most, fit)))

    def _shapes(self, shots: int, slots: int) -> State:
        """The state of so many lanes, without its values."""
        state = jax.eval_shape(self._begin, self._data(shots), _assigned([None] * slots))
        sharding = NamedSharding(self._mesh, LANES)
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state
        )

    def _memory(self, shots: int, slots: int) -> int:
        """Bytes that `slots` lanes take on each device."""
        program = self._advance.lower(self._shapes(shots, slots), self._data(shots), np.int32(1))
        found = program.compile().memory_analysis()
        return (
            found.argument_size_in_bytes
            + found.output_size_in_bytes
            + found.temp_size_in_bytes
            - found.alias_size_in_bytes
        )

    def _data(self, shots: int) -> dict[str, Any]:
        """What lanes of so many shots read; that of the last number asked for is kept."""
        if self._data_of[0] != shots:
            self._data_of = (0, None)  # The last one's memory is free now.
            dev, flat, rest = self._corpus.dev(shots), dict(self._trained), ()
            if self._method.encoder:
                # Rows of pieces may hold several examples; steps of some examples need them apart.
                packed = self._of_words and not self._batch_size
                arrays = self._corpus.bucket_arrays(shots, packed)
                arrays = self._renumbered(shots, arrays)
                ids, trained = self._corpus.ids_of(shots)
                flat[EMBEDDING], rest = jnp.split(flat[EMBEDDING][ids], [trained])
            else:
                arrays = self.frozen.shots(shots, self._reads_hidden)
            found = {
                'params': traverse_util.unflatten_dict(flat, sep='/'),
                'rest': rest,
                'shots': arrays,
                'dev': None if dev is None else self._eval(shots, dev),
            }
            self._data_of = shots, _put(found, self._mesh) | {'chunks': self._chunks}
        return self._data_of[1]

    def _test(self, shots: int) -> Eval:
        """The test set on the devices; that of the last number of shots asked for is kept."""
        # What a frozen encoder makes of it is the same for all of them.
        key = shots if self._method.encoder else 0
        if self._test_of is None or self._test_of[0] != key:
            self._test_of = None
            self._test_of = key, self._eval(shots, self._corpus.test)
        return self._test_of[1]

    def _eval(self, shots: int, found: Any) -> Eval:
        """An EvalSet on the devices."""
        if not self._method.encoder:
            return _put(self.frozen.evaluated(found, self._reads_hidden), self._mesh)
        batches = tuple(self._renumbered(shots, batch) for batch in found.batches)
        return _put(_stacked(batches, found.take, found.gold), self._mesh)

    def _renumbered(self, shots: int, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Features with tokens as `Corpus.ids_of` counts them, in place of its compact ids."""
        ids, _ = self._corpus.ids_of(shots)
        numbers = np.zeros(len(self._corpus.token_ids), np.int32)
        numbers[ids] = np.arange(len(ids))
        name = 'encoder_input_tokens'
        return {**arrays, name: numbers[arrays[name]]}

    # ---------------------------------------------------------------------------------- the device
    # Each function sees the lanes of one device.

    def _compile(self) -> None:
        """Makes the programs; each is compiled when it is first called."""

        def program(function, arguments, **options):
            cut = jax.shard_map(
                function, mesh=self._mesh, in_specs=arguments, out_specs=LANES, check_vma=False
            )
            return jax.jit(cut, **options)

        self._begin = program(self._begin_lanes, (WHOLE, LANES))
        self._refill = program(self._refill_lanes, (LANES, WHOLE, LANES, LANES), donate_argnums=0)
        self._advance = program(self._advance_lanes, (LANES, WHOLE, WHOLE), donate_argnums=0)
        self._predict = program(self._predict_lanes, (LANES, WHOLE, WHOLE, LANES))
        self._read = jax.jit(lambda tree, slot: jax.tree.map(lambda x: x[slot], tree))

    def _begin_lanes(self, data: Any, assigned: Mapping[str, jax.Array]) -> State:
        """Lanes before their first epoch."""
        slots = assigned['seed'].shape[0]
        params = jax.vmap(lambda seed: self._fresh(data['params'], seed))(assigned['seed'])
        return State(
            params=params,
            moments=jax.vmap(self._adam.init)(params),
            best=None if data['dev'] is None else params,
            best_score=jnp.tile(jnp.array([-1, 1], jnp.int32), (slots, 1)),
            best_epoch=jnp.zeros(slots, jnp.int32),
            epoch=jnp.zeros(slots, jnp.int32),
            scores=jnp.zeros((slots, self._epochs, 2), jnp.int32),
            **assigned,
        )

    def _fresh(self, params: Any, seed: jax.Array) -> Any:
        """What a lane starts from."""
        if not self._method.fresh:
            return params
        # Epochs count from 1.
        key = jax.random.fold_in(jax.random.key(seed), 0)
        shape = params['classifier']['kernel'].shape
        fresh = {'kernel': bert.INIT(key, shape, jnp.float32)}
        if not self._method.cosine:
            fresh['bias'] = jnp.zeros(shape[0], jnp.float32)
        return {**params, 'classifier': fresh}

    def _refill_lanes(self, state: State, data: Any, assigned: Any, new: jax.Array) -> State:
        """`state`, with lanes begun where `new` [slots]."""
        return _select(new, self._begin_lanes(data, assigned), state)

    def _advance_lanes(self, state: State, data: Any, epochs: jax.Array) -> tuple[State, jax.Array]:
        """So many epochs on; and ended, epoch, best epoch and scores of all lanes, int32."""
        shots = jax.tree.map(lambda x: x[state.bucket], data['shots'])
        state = jax.lax.fori_loop(
            0, epochs, lambda _, state: self._epoch(state, shots, data), state
        )
        numbers = jnp.stack([state.ended, state.epoch, state.best_epoch], axis=1)
        scores = state.scores.reshape(len(numbers), -1)
        return state, jnp.concatenate([numbers.astype(jnp.int32), scores], axis=1)

    def _epoch(self, state: State, shots: Mapping[str, jax.Array], data: Any) -> State:
        """One epoch of the lanes that have not ended."""
        epoch = state.epoch + 1
        params, moments = jax.vmap(self._train)(
            state.params, state.moments, ~state.ended, state.seed, state.learning_rate, epoch, shots
        )
        best, best_score, best_epoch = state.best, state.best_score, epoch
        scores = state.scores
        if data['dev'] is not None:
            score = _each_lane(lambda params: self._score(params, data), params, ~state.ended)
            better = _higher(score, best_score) & ~state.ended
            best, best_score, best_epoch = _select(
                better, (params, score, epoch), (best, best_score, state.best_epoch)
            )
            here = jnp.arange(self._epochs) == epoch[:, None] - 1
            here &= ~state.ended[:, None]
            scores = jnp.where(here[..., None], score[:, None], scores)
        ended = (epoch >= self._epochs) | (epoch - best_epoch >= self._patience)
        return state.replace(
            params=params,
            moments=moments,
            best=best,
            best_score=best_score,
            best_epoch=best_epoch,
            epoch=jnp.where(state.ended, state.epoch, epoch),
            ended=state.ended | ended,
            scores=scores,
        )

    def _train(self, params, moments, moves, seed, learning_rate, epoch, rows) -> tuple[Any, Any]:
        """Parameters and moments of one lane, if it `moves`, after an epoch over its bucket."""
        key = jax.random.fold_in(jax.random.key(seed), epoch)
        rows, examples = dict(rows), rows['examples']
        del rows['examples']

        def step(carry, numbered):
            number, batch = numbered
            params, moments = carry

            def loss(params):
                rng = jax.random.fold_in(key, number)
                total = self._objective.loss(self._sized(params), params, batch, rng)['loss']
                return total / jnp.maximum(self._objective.weight(batch), 1.0)

            gradients = jax.grad(loss)(params)
            # A batch of padding, which a smaller bucket has at its end, moves nothing.
            real = moves & (self._objective.weight(batch) > 0)
            _, moments = self._adam.update(gradients, moments)
            # Without a barrier XLA computes the moments again for the parameters, and for that
            # copies the old ones at every step.
            moments = jax.lax.optimization_barrier(_select(real, moments, carry[1]))
            updates = adam_direction(moments, **self._adam_options)
            moved = jax.tree.map(lambda x, update: x - learning_rate * update, params, updates)
            return (_select(real, moved, params), moments), None

        if not self._batch_size:
            return step((params, moments), (0, rows))[0]
        # Examples in a random order, and behind them what is none.
        num_rows, size = rows['labels'].shape[0], self._batch_size
        real = jnp.arange(-(-num_rows // size) * size) < examples
        drawn = jax.random.uniform(jax.random.fold_in(key, num_rows), (num_rows,))
        order = jnp.argsort(jnp.where(real[:num_rows], drawn, 2.0))
        order = jnp.pad(order, (0, len(real) - num_rows))
        name = self._objective.weights
        batches = jax.tree.map(lambda x: x[order].reshape(-1, size, *x.shape[1:]), rows)
        real = real.reshape(-1, size, *[1] * (batches[name].ndim - 2))
        batches[name] = batches[name] * real
        return jax.lax.scan(step, (params, moments), (jnp.arange(len(real)), batches))[0]

    def _predict_lanes(self, state: State, data: Any, found: Eval, wanted: jax.Array) -> jax.Array:
        """[slots, W] int32: labels of a test set by the best parameters, where `wanted` [slots]."""
        params = state.params if state.best is None else state.best
        return _each_lane(lambda params: self._labels(params, data, found), params, wanted)

    def _labels(self, params: Any, data: Any, found: Eval) -> jax.Array:
        """[W] int32: what one lane's parameters predict, -1 at separators."""
        if self._method.encoder:
            flat = traverse_util.flatten_dict(params, sep='/')
            flat[EMBEDDING] = jnp.concatenate([flat[EMBEDDING], data['rest']])
            params = traverse_util.unflatten_dict(flat, sep='/')

        def labels(batch):
            rows = self._objective.row_losses(self._sized(params), params, batch)
            return rows['predicted'].reshape(-1)

        labels = [jax.lax.map(labels, stack).reshape(-1) for stack in found.batches]
        return jnp.where(found.take >= 0, jnp.concatenate(labels)[found.take], -1)

    def _sized(self, params: Any) -> Any:
        """What is trained, over as many ids as these parameters of it have."""
        flat = traverse_util.flatten_dict(params, sep='/')
        return _resized(self._model, len(flat[EMBEDDING])) if EMBEDDING in flat else self._model

    def _score(self, params: Any, data: Any) -> jax.Array:
        """[2] int32, numerator and denominator of the score of a lane on the development set.

        Of accuracy, or of the F1 of chunks, which is 2 right / (predicted + gold). Whole numbers,
        so that equal scores are equal on every device.
        """
        found = data['dev']
        labels = self._labels(params, data, found)
        if not self._of_words:
            return jnp.stack([jnp.sum(labels == found.gold), jnp.int32(len(found.gold))])
        right, predicted, gold = (
            jnp.sum(x) for x in compare_chunks(data['chunks'], found.gold, labels)
        )
        return jnp.stack([2 * right, jnp.maximum(predicted + gold, 1)])


def adam_direction(moments: optax.ScaleByAdamState, *, b1: float, b2: float, eps: float) -> Any:
    """What optax.scale_by_adam returns beside these moments, from nothing but them."""
    mean = optax.tree.bias_correction(moments.mu, b1, moments.count)
    square = optax.tree.bias_correction(moments.nu, b2, moments.count)
    return jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mean, square)


def compare_chunks(
    tables: Mapping[str, jax.Array], gold: jax.Array, predicted: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """metrics.tagging.Chunks.compare on a device, from its `tables`; [words] each."""
    before_all = len(tables['kinds']) - 2

    def spans(tags):
        before = jnp.concatenate([jnp.array([before_all]), tags])
        after = jnp.concatenate([tags, jnp.array([-1])])
        places = jnp.where(tables['begins'][before, after], jnp.arange(len(after)), 0)
        return jax.lax.cummax(places)[:-1], tables['ends'][before, after][1:]

    gold_begins, gold_ends = spans(gold)
    begins, ends = spans(predicted)
    right = gold_ends & ends & (gold_begins == begins)
    return right & (tables['kinds'][gold] == tables['kinds'][predicted]), ends, gold_ends


def _higher(score: jax.Array, best: jax.Array) -> jax.Array:
    """Whether fractions [..., 2] are above others, exactly; for numbers below 2**20, -1 too."""

    def product(a, b):  # As a b = high * 2**11 + low; int64 is none of JAX's types.
        low = (a & 0x7FF) * b
        return (a >> 11) * b + (low >> 11), low & 0x7FF

    high, low = product(score[..., 0], best[..., 1])
    best_high, best_low = product(best[..., 0], score[..., 1])
    return (high > best_high) | ((high == best_high) & (low > best_low))


def _select(where: jax.Array, yes: Any, no: Any) -> Any:
    """Trees of arrays: `yes` where `where`, [] or [slots], else `no`."""

    def select(a, b):
        return jnp.where(where.reshape(where.shape + (1,) * (jnp.ndim(b) - where.ndim)), a, b)

    return jax.tree.map(select, yes, no)


def _each_lane(function: Any, params: Any, wanted: jax.Array) -> jax.Array:
    """`function` of one lane's parameters after the other, where `wanted` [slots]; else 0."""
    shape = jax.eval_shape(function, jax.tree.map(lambda x: x[0], params))

    def one(lane):
        params, wanted = lane
        nothing = lambda _: jnp.zeros(shape.shape, shape.dtype)  # noqa: E731
        return jax.lax.cond(wanted, function, nothing, params)

    return jax.lax.map(one, (params, wanted))


def _assigned(slots: Sequence[Lane | None]) -> dict[str, np.ndarray]:
    """The lanes of slots as arrays; a slot without one has ended."""
    lanes = [slot or Lane(0, 0.0, 0) for slot in slots]
    return {
        'bucket': np.array([lane.bucket for lane in lanes], np.int32),
        'seed': np.array([lane.seed for lane in lanes], np.uint32),
        'learning_rate': np.array([lane.learning_rate for lane in lanes], np.float32),
        'ended': np.array([slot is None for slot in slots]),
    }


def _put(tree: Any, mesh: Mesh) -> Any:
    """Arrays as every device holds them whole."""
    return jax.device_put(tree, partitioning.replicated(mesh))


# ----------------------------------------------------------------------------- the frozen encoder


@dataclasses.dataclass(frozen=True)
class Head:
    """What is behind a model's encoder, called as objectives call models: states are its tokens.

    Attributes:
      model: of models.heads.
      method: the name of the model's method that is called.
    """

    model: nn.Module
    method: str

    def apply(self, variables: Any, states: jax.Array, segment_ids: jax.Array, **options: Any):
        """States [..., emb_dim] -> logits [..., labels]."""
        del segment_ids
        return self.model.apply(variables, states, method=self.method, **options)


class FrozenEncoder:
    """A model that does not change, and what its encoder makes of a corpus, computed once.

    Args:
      model: SequenceClassifier or TokenClassifier.
      objective: Classification or Tagging.
      params: over the whole vocabulary.
      corpus: a fewshot.shots.Corpus.
      mesh: rows are cut over its axis 'data'.

    Attributes:
      model: over the ids of the corpus.
      params: likewise, on every device.
    """

    def __init__(self, model: nn.Module, objective: Any, params: Any, corpus: Any, mesh: Mesh):
        self.model = _resized(model, len(corpus.token_ids))
        flat = traverse_util.flatten_dict(params, sep='/')
        flat[EMBEDDING] = flat[EMBEDDING][corpus.token_ids]
        self.params = _put(traverse_util.unflatten_dict(flat, sep='/'), mesh)
        self._objective, self._corpus, self._mesh = objective, corpus, mesh
        self._of_words = features.VIEWS[objective.view].labels == 'word'
        self._kept: dict[Any, Any] = {}
        self._predict = jax.jit(lambda params, x: objective.row_losses(self.model, params, x))
        self._hidden = jax.jit(self._hidden_states)
        self._pool = jax.jit(
            lambda params, x: self.model.apply({'params': params}, x, method='pool')
        )

    def _hidden_states(self, params: Any, batch: Batch) -> jax.Array:
        return self.model.apply(
            {'params': params},
            batch['encoder_input_tokens'],
            batch['encoder_segment_ids'],
            **type_ids(self.model, batch),
            method='hidden',
        )

    def predict(self, found: Any) -> np.ndarray:
        """[W] int32: labels of an EvalSet, -1 at separators."""
        flat = [
            np.array(self._predict(self.params, self._rows(batch))['predicted']).reshape(-1)
            for batch in found.batches
        ]
        return np.where(found.take >= 0, np.concatenate(flat)[found.take], -1)

    def shots(self, shots: int, hidden: bool = True) -> dict[str, np.ndarray]:
        """The features of all buckets with states in place of tokens.

        Args:
          shots: of the corpus.
          hidden: hidden states, or else what the pooler makes of them.

        Returns:
          As Corpus.bucket_arrays, with encoder_input_tokens [buckets, rows, emb_dim]; or, for
          tagging, [buckets, rows, words, emb_dim], only of labelled pieces, likewise the labels.
        """
        if shots not in self._kept:
            self._kept[shots] = self._of_shots(shots)
        arrays = self._kept[shots]
        name = 'encoder_input_tokens'
        return arrays if hidden else arrays | {name: self._pooled(arrays[name])}

    def evaluated(self, found: Any, hidden: bool = True) -> Eval:
        """An EvalSet as one batch of the states of what is scored, in the order of its gold."""
        key = _digest(found)
        if key not in self._kept:
            self._kept[key] = self._of_eval(found)
        states, size = self._kept[key], len(found.take)
        batch = {
            'encoder_input_tokens': states if hidden else self._pooled(states),
            'encoder_segment_ids': np.zeros((size, 1), np.int32),
            'labels': np.zeros(size, np.int32),
            self._objective.weights: np.zeros(size, np.float32),
        }
        take = np.where(found.take >= 0, np.arange(size), -1).astype(np.int32)
        return Eval(({name: x[None] for name, x in batch.items()},), take, found.gold)

    def _of_shots(self, shots: int) -> dict[str, np.ndarray]:
        arrays = dict(self._corpus.bucket_arrays(shots))
        examples, (buckets, rows) = arrays.pop('examples'), arrays['labels'].shape[:2]
        flat = {name: x.reshape(buckets * rows, *x.shape[2:]) for name, x in arrays.items()}
        places = None
        if self._of_words:
            unlabelled = flat['label_weights'] == 0
            most = -(-max((~unlabelled).sum(-1).max(), 1) // 8) * 8
            places = np.argsort(unlabelled, axis=-1, kind='stable')[:, :most]
            labelled = {
                name: np.take_along_axis(flat[name], places, axis=-1)
                for name in ('labels', 'label_weights')
            }
        states = []
        for start in range(0, buckets * rows, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            x = self._states({name: x[part] for name, x in flat.items()})
            states.append(x if places is None else np.take_along_axis(x, places[part, :, None], 1))
        flat |= {} if places is None else labelled
        flat['encoder_input_tokens'] = np.concatenate(states)
        flat['encoder_segment_ids'] = np.zeros((buckets * rows, 1), np.int32)
        return {
            **{name: x.reshape(buckets, rows, *x.shape[1:]) for name, x in flat.items()},
            'examples': examples,
        }

    def _of_eval(self, found: Any) -> np.ndarray:
        """[W, emb_dim]; 0 at separators."""
        states, start = None, 0
        for batch in found.batches:
            x = self._states(batch)
            x = x.reshape(-1, x.shape[-1])
            if states is None:
                states = np.zeros((len(found.take), x.shape[-1]), x.dtype)
            here = (found.take >= start) & (found.take < start + len(x))
            states[here] = x[found.take[here] - start]
            start += len(x)
        return states

    def _states(self, batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Hidden states of a batch: [rows(, length), emb_dim]."""
        return np.array(self._hidden(self.params, self._rows(batch)))

    def _pooled(self, states: np.ndarray) -> np.ndarray:
        """What the pooler makes of hidden states [..., emb_dim]."""
        flat = self._pool(self.params, states.reshape(-1, states.shape[-1]))
        return np.array(flat).reshape(states.shape)

    def _rows(self, batch: Mapping[str, np.ndarray]) -> dict[str, jax.Array]:
        """A batch on the devices, cut along its rows where they divide them."""
        rows = len(batch['labels'])
        spec = LANES if rows % self._mesh.shape['data'] == 0 else WHOLE
        return jax.device_put(dict(batch), NamedSharding(self._mesh, spec))


def _digest(found: Any) -> str:
    """Equal for equal EvalSets: the development set is often the same for all numbers of shots."""
    digest = hashlib.sha256(found.take.tobytes())
    for batch in found.batches:
        digest.update(batch['encoder_input_tokens'].tobytes())
    return digest.hexdigest()


def _resized(model: nn.Module, vocab_size: int) -> nn.Module:
    """The model over so many ids."""
    return model.clone(config=dataclasses.replace(model.config, vocab_size=vocab_size))


def _stacked(
    batches: Sequence[Mapping[str, np.ndarray]], take: np.ndarray, gold: np.ndarray
) -> Eval:
    """An EvalSet with its batches of one shape stacked, so that one program goes over them."""
    shapes = [batch['encoder_input_tokens'].shape for batch in batches]
    order = sorted(range(len(shapes)), key=lambda i: shapes[i])
    sizes = np.array([batch['labels'].size for batch in batches])
    starts = np.cumsum(sizes) - sizes
    moved = np.empty_like(starts)
    moved[order] = np.cumsum(sizes[order]) - sizes[order]
    batch = np.searchsorted(starts, take, 'right') - 1
    take = np.where(take >= 0, take - starts[batch] + moved[batch], -1)
    stacks = tuple(
        jax.tree.map(lambda *x: np.stack(x), *(batches[i] for i in group))
        for _, group in itertools.groupby(order, lambda i: shapes[i])
    )
    return Eval(stacks, take.astype(np.int32), gold)
