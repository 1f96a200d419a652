"""The programs of a config as shapes: the train step and decoding, ready to be compiled.

Nothing of a Job exists but shapes with shardings; xlbench/plan/study.py compiles its programs.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, decoding, runs
from xlbench.config import epochs
from xlbench.data import features
from xlbench.evaluators import generation
from xlbench.models.lora import Lora
from xlbench.parallel import partitioning
from xlbench.training import objectives, optimizers, stage_steps, train_step as train_step_lib
from xlbench.training.objectives.contract import Objective
from xlbench.trees import Mask, Params, Shapes

# Of a program, as shapes: first the state or the parameters, then the batch.
Arguments: TypeAlias = tuple[
    Any, dict[str, jax.ShapeDtypeStruct], *tuple[jax.ShapeDtypeStruct, ...]
]


@dataclasses.dataclass(frozen=True)
class Job:
    """Holds the shapes and shardings of a config on a mesh; no array is allocated."""

    config: ConfigDict
    mesh: Mesh
    model: nn.Module
    objective: Objective
    mask: Mask
    state: train_step_lib.TrainState
    batch: dict[str, jax.ShapeDtypeStruct]
    rng: jax.ShapeDtypeStruct
    stage: str

    @property
    def lora(self) -> Lora:
        """Returns the block config.lora."""
        return Lora(**self.config.lora)

    @property
    def num_parameters(self) -> int:
        """Counts the parameters, trained or not."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.state.params))

    @property
    def num_trained(self) -> int:
        """Counts the parameters that training moves."""
        trained, _ = train_step_lib.split_params(self.state.params, self.mask)
        return sum(leaf.size for leaf in trained.values())

    @property
    def trained_share(self) -> float:
        """Returns the share of parameters that training moves."""
        return self.num_trained / self.num_parameters

    @property
    def state_bytes(self) -> dict[str, int]:
        """Returns the bytes of the state on one device, by kind."""
        return {
            'parameters': device_bytes(self.state.params),
            'optimizer_state': device_bytes(self.state.opt_state),
        }


def make_job(
    config: ConfigDict, devices: Sequence[jax.Device], vocab_size: int, labels: int
) -> Job:
    """Returns the first stage's step on these devices.

    Raises:
      UserError: mesh, model, batch or pattern cannot work.
    """
    mesh = partitioning.make_mesh(**config.mesh, devices=devices)
    stage = next(iter(config.stages))
    batches = config_lib.batches_of(config, stage)
    rows, lengths = batches['batch_size'], dict(batches['lengths'])
    partitioning.check_batch_size(rows, mesh, config.accumulate)
    partitioning.check_lengths(lengths, mesh)
    runs.check_attention(config, mesh)
    objective = objectives.build(**config.objective)
    block = dict(config.model)
    if 'num_labels' in block:
        block['num_labels'] = labels
    model = runs.build_model(block, vocab_size)
    lora = Lora(**config.lora)
    shapes, shardings = train_step_lib.params_like(model, objective, mesh, lora)
    mask = lora.restrict(optimizers.trainable_mask(shapes, tuple(config.trainable)))
    tx, _ = stage_steps.optimizer(epochs.as_steps(config), stage)
    state = train_step_lib.state_like(tx, shapes, shardings, mask)
    key = jax.eval_shape(lambda: jax.random.key(0))
    rng = jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=partitioning.replicated(mesh))
    batch = batch_like(objective.view, rows, lengths, mesh)
    return Job(config, mesh, model, objective, mask, state, batch, rng, stage)


def batch_like(
    view: str, rows: int, lengths: Mapping[str, int], mesh: Mesh
) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the shapes of a batch without a single example, cut over the mesh."""
    conventions = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=2)
    empty = features.VIEWS[view]([[]] * rows, features.Layout(lengths, conventions))
    return {name: _row_array(mesh, value.shape, value.dtype) for name, value in empty.items()}


def _row_array(mesh: Mesh, shape: tuple[int, ...], dtype: np.dtype) -> jax.ShapeDtypeStruct:
    sharding = partitioning.batch_sharding(mesh, shape)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def device_bytes(tree: Shapes | Params) -> int:
    """Counts the bytes of a tree of arrays, or of shapes with shardings, on one device."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def train_program(job: Job) -> tuple[jax.stages.Wrapped, Arguments]:
    """Returns (the train step as xlbench.train jits it, its arguments)."""
    tx, schedule = stage_steps.optimizer(job.config, job.stage)
    step = train_step_lib.make_train_step(
        job.model,
        job.objective,
        tx,
        schedule,
        job.mask,
        accumulate=job.config.accumulate,
        lora=job.lora,
        adapters=range(len(job.lora.languages)),
    )
    return train_step_lib.jitted(step, job.state), (job.state, job.batch, job.rng)


def decode_program(job: Job, block: ConfigDict) -> tuple[jax.stages.Wrapped, Arguments, int]:
    """Returns (decoding as the evaluator jits it, its arguments, most tokens of a text)."""
    partitioning.check_batch_size(block.batch_size, job.mesh)
    partitioning.check_lengths(block.lengths, job.mesh)
    options = generation.options(block.lengths, block.get('decoding'))
    lengths = dict(block.lengths)
    batch = batch_like(job.objective.view, block.batch_size, lengths, job.mesh)
    index = _row_array(job.mesh, (block.batch_size,), jnp.int32)
    batch['example_index'] = index
    if job.config.model.family == 'mbart':
        batch['forced_first'] = index  # The language of each text.

    layout = decoding.layout_of(job.model, job.state.params)

    def decode(params: Params, batch: dict[str, jax.Array]) -> decoding.Decoded:
        params = job.lora.of(params, 0)
        first = batch.pop('forced_first', None)
        ids: Any = dict(start_id=0, eos_id=1, pad_id=0)  # Which they are changes no shape.
        return decoding.decode(
            job.model, params, batch, options, **ids, forced_first=first, layout=layout
        )

    return jax.jit(decode), (job.state.params, batch), options.max_length


def decoded_evals(config: ConfigDict) -> dict[str, ConfigDict]:
    """Returns the evaluations that decode, one for each different shape."""
    if not objectives.build(**config.objective).writes_text:
        return {}
    shapes: dict[tuple, tuple[str, ConfigDict]] = {}
    for name, block in config.evals.items():
        if block.get('decode', True):
            shape = (block.batch_size, str(block.lengths), str(block.get('decoding')))
            shapes.setdefault(shape, (name, block))
    return dict(shapes.values())
