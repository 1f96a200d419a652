"""Device programs of lanes: begin, train epoch by epoch, predict.

Each function of `LanePrograms` sees the lanes of one device.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct, traverse_util
from jax.sharding import Mesh, NamedSharding

from xlbench.data import features
from xlbench.fewshot.eval_sets import EvalSet
from xlbench.fewshot.frozen import EMBEDDING, LANES, WHOLE, resized
from xlbench.fewshot.settings import METHODS, Adapt, Lane
from xlbench.models import bert, lora
from xlbench.training.objectives.contract import Batch, Objective, Params

Tree = TypeVar('Tree')


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
      scores: [slots, epochs, 2] int32, a fraction for each epoch: see `LanePrograms._score`.
    """

    bucket: jax.Array
    seed: jax.Array
    learning_rate: jax.Array
    params: Params
    moments: optax.ScaleByAdamState
    best: Params | None
    best_score: jax.Array
    best_epoch: jax.Array
    epoch: jax.Array
    ended: jax.Array
    scores: jax.Array


@struct.dataclass
class LaneData:
    """The data that lanes read, whole on every device.

    Attributes:
      chunks: see metrics.tagging.Chunks.tables.
      dev: the development set, if there is one.
      frozen: the parameters that lanes share and do not train, by path; () where what they read is
        made of them already.
      params: that lanes start from; of the embeddings only the rows that they train.
      rest: [ids, emb_dim], the other rows of the embeddings; () where they are not read.
      shots: the buckets as Corpus.bucket_arrays has them.
    """

    chunks: dict[str, jax.Array]
    dev: EvalSet | None
    frozen: Mapping[str, jax.Array] | tuple[()]
    params: Params
    rest: jax.Array | tuple[()]
    shots: dict[str, jax.Array]


def assigned(slots: Sequence[Lane | None]) -> dict[str, np.ndarray]:
    """Returns the lanes of slots as arrays; a slot without one has ended."""
    lanes = [slot or Lane(0, 0.0, 0) for slot in slots]
    return {
        'bucket': np.array([lane.bucket for lane in lanes], np.int32),
        'seed': np.array([lane.seed for lane in lanes], np.uint32),
        'learning_rate': np.array([lane.learning_rate for lane in lanes], np.float32),
        'ended': np.array([slot is None for slot in slots]),
    }


class LanePrograms:
    """The programs of one method; each is compiled by `compile`, or when it is first called.

    Args:
      model: what is trained.
      objective: of the model.
      mesh: lanes are cut over its axis 'data'.
      adapt: epochs, patience, batch size and Adam's numbers.
      method: a name in METHODS, what of it is adapted.
      whole: the whole model, where a part of it that is frozen reads the shots at every step.

    Attributes:
      begin: (data, assigned) -> lanes before their first epoch.
      refill: (state, data, assigned, new [slots]) -> `state`, with lanes begun where `new`.
      advance: (state, data, epochs) -> lanes after these epochs; and [slots, 3 + 2 * epochs] int32,
        ended, epoch, best epoch and scores of each.
      predict: (state, data, eval, where [slots]) -> [slots, W] int32, labels by the best
        parameters.
      read: (tree, slot) -> the tree of one lane.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        mesh: Mesh,
        adapt: Adapt,
        method: str,
        whole: nn.Module | None = None,
    ):
        self._model, self._objective, self._adapt, self._whole = model, objective, adapt, whole
        self._lanes = NamedSharding(mesh, LANES)
        self._method = METHODS[method]
        self._of_words = features.VIEWS[objective.view].labels == 'word'
        self._adam = optax.scale_by_adam(**adapt.adam)

        # A head costs as much in Adam as in products, and XLA:CPU uses half of a wide register.
        on_cpu, wide = mesh.devices.flat[0].platform == 'cpu', None
        if on_cpu and not self._method.runs_encoder:
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
        self.read = jax.jit(lambda tree, slot: jax.tree.map(lambda x: x[slot], tree))

    def state_like(self, data: LaneData, slots: int) -> State:
        """Returns shapes and shardings of the state of a number of lanes."""
        state = jax.eval_shape(self.begin, data, assigned([None] * slots))
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._lanes), state
        )

    def compile(self, data: LaneData, test: EvalSet, slots: int) -> None:
        """Compiles the programs for a number of lanes; jax finds them when they are called."""
        state, lanes = self.state_like(data, slots), assigned([None] * slots)
        some = np.zeros(slots, bool)
        self.begin.lower(data, lanes).compile()
        if slots > 1:
            self.refill.lower(state, data, lanes, some).compile()
        self.advance.lower(state, data, np.int32(0)).compile()
        self.predict.lower(state, data, test, some).compile()

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
            scores=jnp.zeros((slots, self._adapt.epochs, 2), jnp.int32),
            **assigned,
        )

    def _fresh(self, params: Params, seed: jax.Array) -> Params:
        """Returns the parameters that a lane starts from."""
        # Epochs count from 1.
        key = jax.random.fold_in(jax.random.key(seed), 0)
        if self._method.lora:
            return lora.drawn(params, key)
        if not self._method.fresh:
            return params
        shape = params['classifier']['kernel'].shape
        fresh = {'kernel': bert.INIT(key, shape, jnp.float32)}
        if not self._method.cosine:
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
        params, moments = jax.vmap(functools.partial(self._train, data.frozen))(
            state.params, state.moments, ~state.ended, state.seed, state.learning_rate, epoch, shots
        )
        best, best_score, best_epoch = state.best, state.best_score, epoch
        scores = state.scores
        if data.dev is not None:
            score = _each_lane(lambda params: self._score(params, data), params, ~state.ended)
            better = _higher(score, best_score) & ~state.ended
            best, best_score, best_epoch = _select(
                better, (params, score, epoch), (best, best_score, state.best_epoch)
            )
            here = jnp.arange(self._adapt.epochs) == epoch[:, None] - 1
            here &= ~state.ended[:, None]
            scores = jnp.where(here[..., None], score[:, None], scores)
        ended = (epoch >= self._adapt.epochs) | (epoch - best_epoch >= self._adapt.patience)
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

    def _train(
        self,
        frozen: Mapping[str, jax.Array] | tuple[()],
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
                model, every = self._reading_shots(params, frozen)
                total = self._objective.loss(model, every, batch, rng)['loss']
                return total / jnp.maximum(self._objective.weight(batch), 1.0)

            gradients = jax.grad(loss)(params)
            # A batch of padding, which a smaller bucket has at its end, moves nothing.
            real = moves & (self._objective.weight(batch) > 0)
            _, moments = self._adam.update(gradients, moments)
            # Without a barrier XLA computes the moments again for the parameters, and for that
            # copies the old ones at every step.
            moments = jax.lax.optimization_barrier(_select(real, moments, carry[1]))
            updates = adam_direction(moments, **self._adapt.adam)
            moved = jax.tree.map(lambda x, update: x - learning_rate * update, params, updates)
            return (_select(real, moved, params), moments), None

        if not self._adapt.batch_size:
            return step((params, moments), (0, rows))[0]
        # Examples in a random order, and behind them what is none.
        num_rows, size = rows['labels'].shape[0], self._adapt.batch_size
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
        if self._method.encoder:
            flat = traverse_util.flatten_dict(params, sep='/')
            flat[EMBEDDING] = jnp.concatenate([flat[EMBEDDING], data.rest])
            params = traverse_util.unflatten_dict(flat, sep='/')

        model, every = self._sized(params), params
        if self._method.lora:
            model, every = self._reading_shots(params, data.frozen)

        def labels(batch):
            return self._objective.row_losses(model, every, batch)['predicted'].reshape(-1)

        labels = [jax.lax.map(labels, stack).reshape(-1) for stack in examples.batches]
        return jnp.where(examples.take >= 0, jnp.concatenate(labels)[examples.take], -1)

    def _reading_shots(
        self, params: Params, frozen: Mapping[str, jax.Array] | tuple[()]
    ) -> tuple[nn.Module, Params]:
        """Returns the model that reads the shots, and all of its parameters."""
        if self._whole is None:
            return self._sized(params), params
        flat = dict(frozen) | traverse_util.flatten_dict(params, sep='/')
        return self._whole, traverse_util.unflatten_dict(flat, sep='/')

    def _sized(self, params: Params) -> Params:
        """Returns the model that is trained, over as many ids as these parameters have."""
        flat = traverse_util.flatten_dict(params, sep='/')
        return resized(self._model, len(flat[EMBEDDING])) if EMBEDDING in flat else self._model

    def _score(self, params: Params, data: LaneData) -> jax.Array:
        """Scores a lane on the development set: [2] int32, numerator and denominator.

        Of accuracy, or of the F1 of chunks, which is 2 right / (predicted + gold). Whole numbers,
        so that equal scores are equal on every device.
        """
        gold, labels = data.dev.gold, self._labels(params, data, data.dev)
        if not self._of_words:
            return jnp.stack([jnp.sum(labels == gold), jnp.int32(len(gold))])
        right, predicted, real = map(jnp.sum, compare_chunks(data.chunks, gold, labels))
        return jnp.stack([2 * right, jnp.maximum(predicted + real, 1)])


def adam_direction(moments: optax.ScaleByAdamState, *, b1: float, b2: float, eps: float) -> Params:
    """Returns the update that optax.scale_by_adam returns beside these moments, from them alone."""
    mean = optax.tree.bias_correction(moments.mu, b1, moments.count)
    square = optax.tree.bias_correction(moments.nu, b2, moments.count)
    return jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mean, square)


def compare_chunks(
    tables: Mapping[str, jax.Array], gold: jax.Array, predicted: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Does metrics.tagging.Chunks.compare on a device, from its `tables`; [words] each."""
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
    """Compares fractions [..., 2] exactly, for numbers below 2**20 and -1."""

    def product(a, b):  # As a b = high * 2**11 + low; int64 is none of JAX's types.
        low = (a & 0x7FF) * b
        return (a >> 11) * b + (low >> 11), low & 0x7FF

    high, low = product(score[..., 0], best[..., 1])
    best_high, best_low = product(best[..., 0], score[..., 1])
    return (high > best_high) | ((high == best_high) & (low > best_low))


def _select(where: jax.Array, yes: Tree, no: Tree) -> Tree:
    """Trees of arrays: `yes` where `where`, [] or [slots], else `no`."""

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
