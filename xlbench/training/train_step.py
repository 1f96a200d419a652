"""One optimizer step: the state, born sharded, and the compiled function that moves it."""

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct, traverse_util
from jax.sharding import Mesh

from xlbench.models.lora import Lora
from xlbench.parallel import partitioning, programs
from xlbench.system import machine
from xlbench.system.trees import Leaf, Mask, Params, Shapes, Shardings, Tree
from xlbench.training.objectives.contract import Batch, Objective, Sums
from xlbench.training.optimizers import Skipping
from xlbench.training.rows import ALL_ROWS, Rows

Flat = dict[str, Leaf]  # By 'a/b/c' names.
Gradients = dict[str, jax.Array]
_Part = TypeVar('_Part')


@struct.dataclass
class TrainState:
    """All that a step changes."""

    step: jax.Array  # [], optimizer steps done.
    params: Params  # Float32.
    opt_state: optax.OptState  # Of the trainable parameters only, keyed by 'a/b/c' names.


def split_params(params: Tree[Leaf], mask: Mask) -> tuple[Flat[Leaf], Flat[Leaf]]:
    """(trainable, frozen): flat dicts from 'a/b/c' names to leaves, as the tree of bools says."""
    flat = traverse_util.flatten_dict(params, sep='/')
    chosen = traverse_util.flatten_dict(mask, sep='/')
    trainable = {name: leaf for name, leaf in flat.items() if chosen[name]}
    return trainable, {name: leaf for name, leaf in flat.items() if not chosen[name]}


def merge_params(trainable: Flat[Leaf], frozen: Flat[Leaf]) -> Tree[Leaf]:
    """The inverse of `split_params`."""
    return traverse_util.unflatten_dict({**trainable, **frozen}, sep='/')


def init_params(
    model: nn.Module, objective: Objective, mesh: Mesh, rng: jax.Array, lora: Lora | None = None
) -> Params:
    """Fresh parameters, each device filling only its own part."""
    return Initialiser(model, objective, mesh, lora)(rng)


def params_like(
    model: nn.Module, objective: Objective, mesh: Mesh, lora: Lora | None = None
) -> tuple[Shapes, Shardings]:
    """(shapes, shardings) of the model's parameters; computes nothing on a device."""
    initialiser = Initialiser(model, objective, mesh, lora)
    return initialiser.shapes, initialiser.shardings


def placed(shapes: Shapes | Params, shardings: Shardings) -> Shapes:
    """Shapes that say where their arrays lie."""
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        shardings,
    )


def _mesh_of(arrays: Any) -> Mesh:
    return jax.tree.leaves(arrays)[0].sharding.mesh


def state_like(
    tx: optax.GradientTransformation,
    shapes: Shapes | Params,
    shardings: Shardings,
    mask: Mask,
    rows: Rows = ALL_ROWS,
) -> TrainState:
    """Shapes and shardings of the state, to restore one: nothing is on the devices yet.

    `shapes` and `shardings` are those of the parameters, see `params_like`. A statistic that has
    its parameter's shape lies where the parameter lies; smaller ones (Adafactor's rows and columns,
    counters) are held whole by every device.
    """
    params: Any = placed(shapes, shardings)
    whole = partitioning.replicated(_mesh_of(params))
    trainable = rows.like(split_params(params, mask)[0])
    statistics = jax.eval_shape(tx.init, trainable)
    of_statistics = optax.tree_map_params(
        tx,
        lambda leaf, param: param.sharding if leaf.shape == param.shape else whole,
        statistics,
        trainable,
        transform_non_params=lambda _: whole,
    )
    step: Any = jax.ShapeDtypeStruct((), jnp.int32, sharding=whole)
    return TrainState(step, params, placed(statistics, of_statistics))


def init_state(
    tx: optax.GradientTransformation,
    params: Params,
    mask: Mask,
    step: int = 0,
    rows: Rows = ALL_ROWS,
) -> TrainState:
    """The state before the first step of an optimizer, cut as `state_like` says."""
    like = state_like(tx, params, jax.tree.map(lambda x: x.sharding, params), mask, rows)
    count = jax.device_put(jnp.asarray(step, jnp.int32), like.step.sharding)
    trainable, _ = split_params(params, mask)
    shardings = jax.tree.map(lambda x: x.sharding, like.opt_state)
    opt_state = jax.jit(lambda x: tx.init(rows.taken(x)), out_shardings=shardings)(trainable)
    return TrainState(count, params, opt_state)


# (state, batch, rng) -> the next state, and the metrics of the step
StepFunction = Callable[[TrainState, Batch, jax.Array], tuple[TrainState, dict[str, jax.Array]]]
CompiledMemory: TypeAlias = Any  # The compiler's account of a program's memory on each device.


# Of steps that keep memory, the first 6 give it back: by then the places of blocks in the heap have
# settled. Later every hundredth does, so that memory that other programs left does not stay.
_RETURNING, _RETURNING_AGAIN = 6, 100


class TrainStep:
    """The compiled step: `state, metrics = step(state, batch)`; the old state is consumed.

    It compiles once for each shape of batch, which is once for a run without length buckets. The
    context `compiling` is entered for each compilation, and `on_compile` is called after it. `rng`
    is folded with the number of the step.

    Attributes:
      compile_seconds: one entry per compilation.
      memory: the compiler's own accounting of the newest compilation, or None.
      flops: of the products of one step on all devices, or None before it is traced. A product
        that is computed again in the backward pass counts again.
      keeps_memory: True keeps what a step frees for the next; `on_compile` may set it.
    """

    def __init__(
        self,
        step: StepFunction,
        rng: jax.Array,
        *,
        on_compile: Callable[['TrainStep'], None] = lambda step: None,
        compiling: Callable[[str], AbstractContextManager] = contextlib.nullcontext,
    ):
        self._step, self._rng = step, rng
        self._compiled: dict[tuple[tuple[int, ...], ...], jax.stages.Compiled] = {}
        # What is compiled next, if `lower` was called, and the seconds that it took.
        self._lowered: tuple[jax.stages.Lowered, float] | None = None
        self._on_compile, self._compiling = on_compile, compiling
        self.compile_seconds: list[float] = []
        self.memory: CompiledMemory | None = None
        self.flops: int | None = None
        self.keeps_memory = False
        self._calls = 0  # Since the last compilation.

    def __call__(self, state: TrainState, batch: Batch) -> tuple[TrainState, dict[str, jax.Array]]:
        """Dispatches one step; returns before the device has done it."""
        shapes = tuple(value.shape for value in batch.values())
        if shapes not in self._compiled:
            self._compiled[shapes] = self._compile(state, batch)
            if self.keeps_memory:  # What compiling took is half a gigabyte.
                machine.return_freed_memory()
        result = self._compiled[shapes](state, batch, self._rng)
        self._calls += 1
        if self.keeps_memory and (self._calls <= _RETURNING or self._calls % _RETURNING_AGAIN == 0):
            machine.return_freed_memory()
        return result

    def lower(self, state: TrainState, batch: Batch) -> None:
        """Traces and lowers the step for the first batch; the state is of shapes with shardings."""
        start = time.monotonic()
        lowered = self._lower(state, batch)
        self._lowered = lowered, time.monotonic() - start

    def _lower(self, state: TrainState, batch: Batch) -> jax.stages.Lowered:
        with partitioning.activate(_mesh_of(state.step)):
            traced = jitted(self._step, state).trace(state, batch, self._rng)
            # Compilers do not count what libraries and kernels of their own compute.
            self.flops = programs.matmul_flops(traced.jaxpr.jaxpr)
            return traced.lower()

    def _compile(self, state: TrainState, batch: Batch) -> jax.stages.Compiled:
        start = time.monotonic()
        (lowered, seconds), self._lowered = self._lowered or (None, 0.0), None
        with self._compiling('compiling'), partitioning.activate(_mesh_of(state.step)):
            compiled = (lowered or self._lower(state, batch)).compile()
        self.compile_seconds.append(seconds + time.monotonic() - start)
        self._calls = 0
        self.memory = compiled.memory_analysis()
        self._on_compile(self)
        return compiled


def jitted(step: StepFunction, state: TrainState) -> jax.stages.Wrapped:
    """The step under jit: it consumes a state that lies as this one does, and so does its result.

    `state` is of arrays, or of shapes with shardings.
    """
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))


def make_train_step(
    model: nn.Module,
    objective: Objective,
    tx: optax.GradientTransformation,  # over the parameters that `mask` calls trainable
    schedule: optax.Schedule,  # the learning rate, to report it
    mask: Mask,
    *,
    first_step: int = 0,  # the global step from which the schedule counts
    accumulate: int = 1,  # parts of a batch, whose gradients are added
    rows: Rows = ALL_ROWS,  # of tables, those that are trained
    lora: Lora | None = None,  # needed where there are `adapters`
    adapters: Sequence[int] = (),  # the place of each task's; empty for one adapter, or none
) -> StepFunction:
    """The step as a pure function of (state, batch, rng).

    The loss is the sum over the batch divided by the batch's weight once, so that neither the
    number of devices nor of accumulation steps changes it. `adapters` are for batches with equally
    many rows of each task; the tasks are then computed one after the other.
    """

    def train_step(
        state: TrainState, batch: Batch, rng: jax.Array
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        rng = jax.random.fold_in(rng, state.step)
        whole, frozen = split_params(state.params, mask)
        trainable = rows.taken(whole)
        # A batch whose rows are all padding (a window's rest) must not divide by zero.
        weight = jnp.maximum(objective.weight(batch), 1.0)

        def of_part(
            batch: Batch, rng: jax.Array, adapter: jax.Array | None = None
        ) -> tuple[Gradients, Sums]:
            def loss_fn(trainable: Flat[jax.Array]) -> tuple[jax.Array, Sums]:
                params = merge_params(trainable, frozen | rows.places())
                params = params if adapter is None or lora is None else lora.of(params, adapter)
                sums = objective.loss(model, params, batch, rng)
                return sums['loss'] / weight, sums

            return jax.grad(loss_fn, has_aux=True)(trainable)

        if adapters:  # A part is the rows of a task, which lie together.
            parts = jax.tree.map(lambda x: x.reshape(len(adapters), -1, *x.shape[1:]), batch)
            keys = jax.random.split(rng, len(adapters))
            grads, sums = _accumulate(of_part, (parts, keys, jnp.asarray(adapters, jnp.int32)))
        elif accumulate > 1:
            keys = jax.random.split(rng, accumulate)
            grads, sums = _accumulate(of_part, (_strided(batch, accumulate), keys))
        else:
            grads, sums = of_part(batch, rng)
        grad_norm = optax.global_norm(grads)
        finite = jnp.isfinite(sums['loss']) & jnp.isfinite(grad_norm)
        count, options = state.step - first_step, {}
        if isinstance(state.opt_state, Skipping):
            count, options = count - state.opt_state.skipped, {'finite': finite}
        updates, opt_state = tx.update(grads, state.opt_state, trainable, **options)
        trainable = optax.apply_updates(trainable, updates)
        metrics = sums | {
            'finite': finite,
            'grad_norm': grad_norm,
            'learning_rate': jnp.asarray(schedule(count), jnp.float32),
        }
        params = merge_params(rows.put_back(whole, trainable), frozen)
        return TrainState(state.step + 1, params, opt_state), metrics

    return train_step


def _strided(batch: Batch, parts: int) -> Batch:
    """A batch in strided parts, [parts, rows, ...]: every device keeps its own rows."""
    return {
        name: jnp.swapaxes(value.reshape(value.shape[0] // parts, parts, *value.shape[1:]), 0, 1)
        for name, value in batch.items()
    }


def _accumulate(
    part_gradients: Callable[..., _Part], parts: tuple[Batch | jax.Array, ...]
) -> _Part:
    """Adds gradients and sums over parts, along the leading axis of all arguments."""
    total = jax.eval_shape(part_gradients, *jax.tree.map(lambda x: x[0], parts))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), total)

    def add(total, part):
        return jax.tree.map(jnp.add, total, part_gradients(*part)), None

    return jax.lax.scan(add, zeros, parts)[0]


def window_metrics(steps: Sequence[Mapping[str, jax.Array]]) -> dict[str, float]:
    """One row for the log from the metrics of several steps: sums are divided once."""
    steps = jax.device_get(list(steps))
    sums = {key: float(sum(step[key] for step in steps)) for key in steps[0]}
    weight = max(sums.pop('weight'), 1.0)
    tokens, positions = sums.pop('tokens'), sums.pop('positions')
    examples = sums.pop('examples')
    for key in ('finite', 'grad_norm', 'learning_rate'):
        sums.pop(key)
    return {key: value / weight for key, value in sums.items()} | {
        'grad_norm': float(steps[-1]['grad_norm']),
        'learning_rate': float(steps[-1]['learning_rate']),
        'tokens': tokens,
        'examples': examples,
        'real_token_share': tokens / max(positions, 1.0),
    }


class Initialiser:
    """Makes fresh parameters; the model is traced once, for their shapes and for the program.

    `shapes` and `shardings` are those of the parameters; each device fills only its own part.
    """

    def __init__(self, model: nn.Module, objective: Objective, mesh: Mesh, lora: Lora | None):
        init = _initialisation(model, objective, lora)
        rng = jax.eval_shape(jax.random.key, 0)
        boxed = jax.jit(init).eval_shape(rng)
        self.shapes: Shapes = nn.unbox(boxed)
        self.shardings: Shardings = partitioning.param_shardings(boxed, mesh)
        # The same function, so that jax need not trace it again.
        out_shardings = nn.meta.replace_boxed(boxed, self.shardings)
        self._program = jax.jit(init, out_shardings=out_shardings)
        self._compiling: Future[jax.stages.Compiled] | None = None

    def compile_ahead(self, rng: jax.Array) -> None:
        """Compiles the program in a thread; `rng` is any key like the one to come."""
        thread = ThreadPoolExecutor(1, 'initialiser')
        self._compiling = thread.submit(lambda: self._program.lower(rng).compile())
        thread.shutdown(wait=False)

    def __call__(self, rng: jax.Array) -> Params:
        """Fresh parameters, on the devices."""
        compiled, self._compiling = self._compiling, None
        return nn.unbox((compiled.result() if compiled else self._program)(rng))


@functools.lru_cache(8)
def _initialisation(
    model: nn.Module, objective: Objective, lora: Lora | None
) -> Callable[[jax.Array], Tree[nn.meta.AxisMetadata[jax.Array]]]:
    """The function that makes parameters: the same for equal models, so that jax traces it once."""

    def init(rng: jax.Array) -> Tree[nn.meta.AxisMetadata[jax.Array]]:
        params = model.init(rng, *objective.example_inputs())['params']
        return params if lora is None else lora.add(params, jax.random.fold_in(rng, 1))

    return init
