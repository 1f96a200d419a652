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
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import traverse_util
from jax.sharding import Mesh, NamedSharding

from xlbench.data import features
from xlbench.errors import UserError, unknown
from xlbench.fewshot.frozen import FrozenEncoder, Head, resized, stacked
from xlbench.fewshot.lanes import (
    EMBEDDING,
    LANES,
    METHODS,
    POOLERS,
    TAGGING_METHODS,
    WHOLE,
    Eval,
    Lane,
    Result,
    State,
    assigned,
    early_stopping,
    put,
)
from xlbench.metrics import tagging
from xlbench.models import bert
from xlbench.parallel import partitioning

_TORCH_ADAM = dict(b1=0.9, b2=0.999, eps=1e-8)
# Of a device's memory, what lanes may take; the rest is for what the compiler does not count.
MEMORY_SHARE = 0.8
CPU_CACHE = 2**20  # Bytes of lanes that a CPU keeps near.


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
        self._chunks = put(tagging.Chunks(corpus.labels).tables, mesh)
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
                state = self._begin(data, assigned(slots))
            elif any(slot and new for slot, new in zip(slots, free, strict=True)):
                state = self._refill(state, data, assigned(slots), free)
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
        state = jax.eval_shape(self._begin, self._data(shots), assigned([None] * slots))
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
            self._data_of = shots, put(found, self._mesh) | {'chunks': self._chunks}
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
            return put(self.frozen.evaluated(found, self._reads_hidden), self._mesh)
        batches = tuple(self._renumbered(shots, batch) for batch in found.batches)
        return put(stacked(batches, found.take, found.gold), self._mesh)

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
        return resized(self._model, len(flat[EMBEDDING])) if EMBEDDING in flat else self._model

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
