"""Lanes of one method: what each of them reads and trains, and their programs on the devices."""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct, traverse_util
from jax.sharding import NamedSharding

from xlbench.fewshot.corpus import EvalSet, compacted
from xlbench.fewshot.frozen import EMBEDDING, LANES, WHOLE, FrozenEncoder, Head, resized
from xlbench.fewshot.results import Row
from xlbench.fewshot.settings import METHODS, Adapt
from xlbench.metrics import tagging
from xlbench.models import bert, heads, lora
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.training.objectives.contract import Batch, Params

Tree = TypeVar('Tree')


@struct.dataclass
class State:
    """Lanes in their slots, [slots, ...] each."""

    bucket: jax.Array  # [slots], as are seed and learning_rate.
    seed: jax.Array
    learning_rate: jax.Array
    params: Params  # Of the adapted part.
    moments: optax.ScaleByAdamState
    best: Params | None  # `params` of the best epoch; None without a development set.
    best_score: jax.Array  # [slots, 2] int32, as `scores`.
    best_epoch: jax.Array  # [slots].
    epoch: jax.Array  # [slots], epochs done.
    ended: jax.Array  # [slots], nothing here moves any more.
    scores: jax.Array  # [slots, epochs, 2] int32, a fraction for each epoch: see `Lanes._score`.


@struct.dataclass
class LaneData:
    """The data that lanes of a number of shots read, whole on every device."""

    dev: EvalSet | None
    params: Params  # The start of each lane; of the embeddings only the rows that lanes train.
    # By path, the parameters that lanes read besides; of embeddings the other rows.
    shared: dict[str, Any]
    shots: dict[str, Any]  # The buckets as Corpus.bucket_arrays has them.


def assigned(slots: Sequence[Row | None]) -> dict[str, np.ndarray]:
    """Returns the adaptations of slots as arrays; a slot without one has ended."""
    lanes = [(slot.bucket, slot.learning_rate, slot.seed) if slot else (0, 0, 0) for slot in slots]
    bucket, learning_rate, seed = zip(*lanes, strict=True)
    return {
        'bucket': np.array(bucket, np.int32),
        'seed': np.array(seed, np.uint32),
        'learning_rate': np.array(learning_rate, np.float32),
        'ended': np.array([slot is None for slot in slots]),
    }


class Lanes:
    """The lanes of one method; a program is compiled ahead, or when it is first called.

    They start from a model as it is, `frozen`, which other methods may share. Of `adapt`, the
    languages, shots, buckets and rates do not count.

    Attributes:
      rereads: an encoder whose kernels are frozen reads the shots at every step.
      begin: (data, assigned) -> lanes before their first epoch.
      refill: (state, data, assigned, new [slots]) -> `state`, with lanes begun where `new`.
      advance: (state, data, epochs) -> lanes after these epochs; and [slots, 3 + 2 * epochs] int32,
        ended, epoch, best epoch and scores of each.
      predict: (state, data, eval, where [slots]) -> [slots, W] int32, labels by the best
        parameters.
    """

    def __init__(self, frozen: FrozenEncoder, adapt: Adapt, method: str):
        self.frozen, self.adapt, self.method = frozen, adapt, METHODS[method]
        self.rereads = self.method.lora or (adapt.frozen_dropout and not self.method.encoder)
        self._objective, mesh = frozen.objective, frozen.mesh
        self._everywhere = partitioning.replicated(mesh)
        self._of_words = frozen.corpus.of_words
        # Whether the trained part reads hidden states, or a frozen pooler's output.
        self._hidden = self.method.pooler or self._of_words
        self._adam = optax.scale_by_adam(**adapt.adam)

        model = frozen.model
        if self.method.fresh:
            head = 'cosine' if self.method.cosine else 'linear'
            model = model.clone(config=dataclasses.replace(model.config, head=head))
        self._trained_model: Any = model  # Or a head in place of the whole.
        self._predicting_model: Any = model
        if not self.method.runs_encoder:  # It has read dev and test sets before.
            # What a frozen pooler gave, the last layer alone reads.
            label = 'label' if self._hidden else heads.Classifier.label
            self._predicting_model = Head(model, label)
        if not (self.method.runs_encoder or self.rereads):
            self._trained_model = self._predicting_model

        leaves = traverse_util.flatten_dict(self._first_params(), sep='/')
        names = [name for name in leaves if re.match(self.method.trains, name)]
        self._trained = {name: leaves.pop(name) for name in names}
        self._shared = leaves if self.rereads else {}
        self._chunks = tagging.Chunks(frozen.corpus.labels)
        self._test_of: tuple[int, EvalSet] | None = None

        # A head costs as much in Adam as in products, and XLA:CPU uses half of a wide register.
        on_cpu, wide = mesh.devices.flat[0].platform == 'cpu', None
        if on_cpu and not self.method.runs_encoder:
            wide = {'xla_cpu_prefer_vector_width': 512}

        def program(function, arguments, **options):
            cut = jax.shard_map(
                function, mesh=mesh, in_specs=arguments, out_specs=LANES, check_vma=False
            )
            return jax.jit(cut, compiler_options=wide, **options)

        self.begin = program(self._begin_lanes, (WHOLE, LANES))
        self.refill = program(self._refill_lanes, (LANES, WHOLE, LANES, LANES), donate_argnums=0)
        self.advance = program(self._advance_lanes, (LANES, WHOLE, WHOLE), donate_argnums=0)
        self.predict = program(self._predict_lanes, (LANES, WHOLE, WHOLE, LANES))
        self._read = jax.jit(lambda tree, slot: jax.tree.map(lambda x: x[slot], tree))

    def _first_params(self) -> Params:
        """Returns the parameters to start from, with LoRA's leaves beside its targets."""
        if not self.method.lora:
            return self.frozen.params
        options: dict[str, Any] = {**self.adapt.lora}
        try:
            added = lora.Lora(**options)
        except UserError as error:
            raise UserError(str(error).replace('config.lora', 'config.adapt.lora')) from None
        boxed = lambda x: nn.LogicallyPartitioned(x, (None,) * x.ndim)  # noqa: E731
        return nn.meta.unbox(added.add(jax.tree.map(boxed, self.frozen.params), jax.random.key(0)))

    def state_like(self, data: LaneData, slots: int) -> State:
        """Returns shapes and shardings of the state of a number of lanes."""
        state = jax.eval_shape(self.begin, data, assigned([None] * slots))
        sharding = NamedSharding(self.frozen.mesh, LANES)
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state
        )

    # ------------------------------------------------------------------------- what lanes read

    def data(self, shots: int) -> LaneData:
        """Puts what lanes of a number of shots read on the devices."""
        corpus, params, shared = self.frozen.corpus, dict(self._trained), self._shared
        if self.method.encoder or self.rereads:
            # Rows of pieces may hold several examples; steps of some examples need them apart.
            packed = self._of_words and not self.adapt.batch_size
            arrays = self._renumbered(shots, corpus.bucket_arrays(shots, packed))
        else:
            arrays = self.frozen.shots(shots, self._hidden)
        if self.method.encoder:
            ids, trained = corpus.ids_of(shots)
            params[EMBEDDING], rest = jnp.split(params[EMBEDDING][ids], [trained])
            shared = {EMBEDDING: rest}
        dev = corpus.dev(shots)
        dev = None if dev is None else self._evaluated(shots, dev)
        params = traverse_util.unflatten_dict(params, sep='/')
        return jax.device_put(LaneData(dev, params, shared, arrays), self._everywhere)

    def test(self, shots: int) -> EvalSet:
        """Puts the test set on the devices; that of the last number of shots is kept."""
        # What a frozen encoder reads, or makes of it, is the same for all of them.
        key = shots if self.method.encoder else 0
        if self._test_of is None or self._test_of[0] != key:
            self._test_of = None  # Its memory is free now.
            examples = self._evaluated(shots, self.frozen.corpus.test)
            self._test_of = key, jax.device_put(examples, self._everywhere)
        return self._test_of[1]

    def _evaluated(self, shots: int, examples: EvalSet) -> EvalSet:
        """Returns a dev or test set as lanes read it."""
        if not self.method.runs_encoder:
            return self.frozen.evaluated(examples, self._hidden)
        stacks = tuple(self._renumbered(shots, stack) for stack in examples.batches)
        return dataclasses.replace(examples, batches=stacks)

    def _renumbered(self, shots: int, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Renumbers tokens as `Corpus.ids_of` counts them, where lanes train its first ids."""
        if not self.method.encoder:
            return dict(arrays)
        ids, _ = self.frozen.corpus.ids_of(shots)
        numbers = np.zeros(len(self.frozen.corpus.token_ids), np.int32)
        numbers[ids] = np.arange(len(ids))
        return compacted(arrays, numbers)

    def adapted(self, shots: int, state: State, slot: int) -> Params:
        """Reads the adapted parameters in a slot, over the whole vocabulary, onto the host."""
        best = state.params if state.best is None else state.best
        best = traverse_util.flatten_dict(jax.device_get(self._read(best, slot)), sep='/')
        whole = traverse_util.flatten_dict(jax.device_get(self.frozen.whole), sep='/')
        if EMBEDDING in best:
            corpus, table = self.frozen.corpus, np.array(whole[EMBEDDING])
            ids, trained = corpus.ids_of(shots)
            table[corpus.token_ids[ids[:trained]]] = best[EMBEDDING]
            best[EMBEDDING] = table
        if self.method.fresh:
            whole = {n: x for n, x in whole.items() if not n.startswith('classifier/')}
        whole |= {n: np.asarray(x) for n, x in self._shared.items() if n.endswith('lora_scale')}
        return lora.merge(traverse_util.unflatten_dict(whole | best, sep='/'))

    # -------------------------------------------------------- programs: the lanes of one device

    def _begin_lanes(self, data: LaneData, assigned: Mapping[str, jax.Array]) -> State:
        slots = assigned['seed'].shape[0]
        params = jax.vmap(lambda seed: self._fresh(data.params, seed))(assigned['seed'])
        return State(
            params=params,
            moments=jax.vmap(self._adam.init)(params),
            best=None if data.dev is None else params,
            best_score=jnp.tile(jnp.array([-1, 1], jnp.int32), (slots, 1)),
            best_epoch=jnp.zeros(slots, jnp.int32),
            epoch=jnp.zeros(slots, jnp.int32),
            scores=jnp.zeros((slots, self.adapt.epochs, 2), jnp.int32),
            **assigned,
        )

    def _fresh(self, params: Any, seed: jax.Array) -> Params:
        """Returns the parameters that a lane starts from."""
        # Epochs count from 1.
        key = jax.random.fold_in(jax.random.key(seed), 0)
        if self.method.lora:
            return lora.drawn(params, key)
        if not self.method.fresh:
            return params
        shape = params['classifier']['kernel'].shape
        fresh = {'kernel': bert.INIT(key, shape, jnp.float32)}
        if not self.method.cosine:
            fresh['bias'] = jnp.zeros(shape[0], jnp.float32)
        return {**params, 'classifier': fresh}

    def _refill_lanes(
        self, state: State, data: LaneData, assigned: Mapping[str, jax.Array], new: jax.Array
    ) -> State:
        return _select(new, self._begin_lanes(data, assigned), state)

    def _advance_lanes(
        self, state: State, data: LaneData, epochs: jax.Array
    ) -> tuple[State, jax.Array]:
        shots = jax.tree.map(lambda x: x[state.bucket], data.shots)
        state = jax.lax.fori_loop(
            0, epochs, lambda _, state: self._epoch(state, shots, data), state
        )
        numbers = jnp.stack([state.ended, state.epoch, state.best_epoch], axis=1)
        scores = state.scores.reshape(len(numbers), -1)
        return state, jnp.concatenate([numbers.astype(jnp.int32), scores], axis=1)

    def _epoch(self, state: State, shots: Batch, data: LaneData) -> State:
        """Trains the lanes that have not ended for one epoch."""
        epoch = state.epoch + 1
        train = functools.partial(self._train, data.shared if self.rereads else {})
        params, moments = jax.vmap(train)(
            state.params, state.moments, ~state.ended, state.seed, state.learning_rate, epoch, shots
        )
        best, best_score, best_epoch = state.best, state.best_score, epoch
        scores = state.scores
        if (dev := data.dev) is not None:
            score = _each_lane(lambda params: self._score(params, data, dev), params, ~state.ended)
            better = _higher(score, best_score) & ~state.ended
            best, best_score, best_epoch = _select(
                better, (params, score, epoch), (best, best_score, state.best_epoch)
            )
            here = jnp.arange(self.adapt.epochs) == epoch[:, None] - 1
            here &= ~state.ended[:, None]
            scores = jnp.where(here[..., None], score[:, None], scores)
        ended = (epoch >= self.adapt.epochs) | (epoch - best_epoch >= self.adapt.patience)
        return dataclasses.replace(
            state,
            params=params,
            moments=moments,
            best=best,
            best_score=best_score,
            best_epoch=best_epoch,
            epoch=jnp.where(state.ended, state.epoch, epoch),
            ended=state.ended | ended,
            scores=scores,
        )

    def _train(
        self,
        shared: Mapping[str, jax.Array],
        params: Params,
        moments: optax.ScaleByAdamState,
        moves: jax.Array,
        seed: jax.Array,
        learning_rate: jax.Array,
        epoch: jax.Array,
        rows: Batch,
    ) -> tuple[Params, optax.ScaleByAdamState]:
        """Trains one lane, if it `moves`, for an epoch over its bucket."""
        key = jax.random.fold_in(jax.random.key(seed), epoch)
        rows, examples = dict(rows), rows['examples']
        del rows['examples']

        def step(carry, numbered):
            number, batch = numbered
            params, moments = carry

            def loss(params):
                rng = jax.random.fold_in(key, number)
                model, every = _whole(self._trained_model, params, shared)
                total = self._objective.loss(model, every, batch, rng)['loss']
                return total / jnp.maximum(self._objective.weight(batch), 1.0)

            gradients = jax.grad(loss)(params)
            # A batch of padding, which a smaller bucket has at its end, moves nothing.
            real = moves & (self._objective.weight(batch) > 0)
            _, moments = self._adam.update(gradients, moments)
            # Without a barrier XLA computes the moments again for the parameters, and for that
            # copies the old ones at every step.
            moments = jax.lax.optimization_barrier(_select(real, moments, carry[1]))
            updates = adam_direction(moments, **self.adapt.adam)
            moved = jax.tree.map(lambda x, update: x - learning_rate * update, params, updates)
            return (_select(real, moved, params), moments), None

        if not self.adapt.batch_size:
            return step((params, moments), (0, rows))[0]
        # Examples are in a random order, and padding comes behind them.
        num_rows, size = rows['labels'].shape[0], self.adapt.batch_size
        real = jnp.arange(-(-num_rows // size) * size) < examples
        drawn = jax.random.uniform(jax.random.fold_in(key, num_rows), (num_rows,))
        order = jnp.argsort(jnp.where(real[:num_rows], drawn, 2.0))
        order = jnp.pad(order, (0, len(real) - num_rows))
        name = self._objective.weights
        batches = jax.tree.map(lambda x: x[order].reshape(-1, size, *x.shape[1:]), rows)
        real = real.reshape(-1, size, *[1] * (batches[name].ndim - 2))
        batches[name] = batches[name] * real
        return jax.lax.scan(step, (params, moments), (jnp.arange(len(real)), batches))[0]

    def _predict_lanes(
        self, state: State, data: LaneData, test: EvalSet, where: jax.Array
    ) -> jax.Array:
        params = state.params if state.best is None else state.best
        return _each_lane(lambda params: self._labels(params, data, test), params, where)

    def _labels(self, params: Params, data: LaneData, examples: EvalSet) -> jax.Array:
        """Returns [W] int32: what one lane's parameters predict, -1 at separators."""
        shared = data.shared if self.method.runs_encoder else {}
        model, every = _whole(self._predicting_model, params, shared)

        def predict(batch):
            return self._objective.row_losses(model, every, batch)['predicted'].reshape(-1)

        labels = [jax.lax.map(predict, stack).reshape(-1) for stack in examples.batches]
        return jnp.where(examples.take >= 0, jnp.concatenate(labels)[examples.take], -1)

    def _score(self, params: Params, data: LaneData, dev: EvalSet) -> jax.Array:
        """Scores a lane on the development set: [2] int32, numerator and denominator."""
        # Of accuracy, or of F1, 2 right / (predicted + gold): equal scores are so on every device.
        gold, labels = dev.gold, self._labels(params, data, dev)
        if not self._of_words:
            return jnp.stack([jnp.sum(labels == gold), jnp.int32(len(gold))])
        found = self._chunks.compare(gold, labels, jnp, jax.lax.cummax)
        right, predicted, real = map(jnp.sum, found)
        return jnp.stack([2 * right, jnp.maximum(predicted + real, 1)])


def _whole(
    model: nn.Module, params: Params, shared: Mapping[str, jax.Array]
) -> tuple[nn.Module, Params]:
    """Returns a model over as many ids as there are, and its parameters, by path `shared` ones."""
    flat = traverse_util.flatten_dict(params, sep='/')
    for name, leaf in shared.items():
        flat[name] = jnp.concatenate([flat[name], leaf]) if name in flat else leaf
    if EMBEDDING in flat:
        model = resized(model, len(flat[EMBEDDING]))
    return model, traverse_util.unflatten_dict(flat, sep='/')


def adam_direction(moments: optax.ScaleByAdamState, *, b1: float, b2: float, eps: float) -> Params:
    """Returns the update that optax.scale_by_adam returns beside these moments, from them alone."""
    mean = optax.tree.bias_correction(moments.mu, b1, moments.count)
    square = optax.tree.bias_correction(moments.nu, b2, moments.count)
    return jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mean, square)


def _higher(score: jax.Array, best: jax.Array) -> jax.Array:
    """Compares fractions [..., 2] exactly, for numbers below 2**20 and -1."""

    def product(a, b):  # As a b = high * 2**11 + low; int64 is none of JAX's types.
        low = (a & 0x7FF) * b
        return (a >> 11) * b + (low >> 11), low & 0x7FF

    high, low = product(score[..., 0], best[..., 1])
    best_high, best_low = product(best[..., 0], score[..., 1])
    return (high > best_high) | ((high == best_high) & (low > best_low))


def _select(where: jax.Array, yes: Tree, no: Tree) -> Tree:
    """Chooses between trees of arrays: `yes` where `where`, [] or [slots], holds, else `no`."""

    def select(a, b):
        return jnp.where(where.reshape(where.shape + (1,) * (jnp.ndim(b) - where.ndim)), a, b)

    return jax.tree.map(select, yes, no)


def _each_lane(
    function: Callable[[Params], jax.Array], params: Params, where: jax.Array
) -> jax.Array:
    """Maps a function over lanes' parameters one by one, where `where` [slots]; else 0."""
    shape = jax.eval_shape(function, jax.tree.map(lambda x: x[0], params))

    def one(lane):
        params, runs = lane
        nothing = lambda _: jnp.zeros(shape.shape, shape.dtype)  # noqa: E731
        return jax.lax.cond(runs, function, nothing, params)

    return jax.lax.map(one, (params, where))
