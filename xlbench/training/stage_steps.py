"""The train step of a stage: its state and its optimizer, compiled, and checked to fit."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import flax.linen as nn
import jax
import optax
from flax import traverse_util
from ml_collections import ConfigDict

from xlbench.data import batches as batches_lib
from xlbench.parallel import cluster, partitioning
from xlbench.parallel.watchdog import Watch
from xlbench.system import logs
from xlbench.training import memory, messages, optimizers, train_step as train_step_lib
from xlbench.training.experiment import Experiment
from xlbench.training.objectives.contract import Objective
from xlbench.training.rows import Rows
from xlbench.training.train_step import TrainState, TrainStep
from xlbench.trees import Params


def optimizer(
    config: ConfigDict, stage: str
) -> tuple[optax.GradientTransformation, optax.Schedule]:
    """The optimizer of a stage, and its learning rate by step."""
    block = config.stages[stage]
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in block.optimizer.items()}
    return _optimizer(bool(config.nonfinite.skip), num_steps=block.num_steps, **options)


@functools.lru_cache(8)
def _optimizer(
    skips: bool, **options: Any
) -> tuple[optax.GradientTransformation, optax.Schedule]:
    tx, schedule = optimizers.build(**options)
    return (train_step_lib.skip_nonfinite(tx) if skips else tx), schedule


@functools.lru_cache(4)
def _step(
    model: nn.Module,
    objective: Objective,
    tx: optax.GradientTransformation,
    schedule: optax.Schedule,
    mask: tuple[tuple[str, bool], ...],
    **options: Any,
) -> train_step_lib.StepFunction:
    """For equal stages of several runs it is the same function, and is traced and compiled once."""
    trained = traverse_util.unflatten_dict(dict(mask), sep='/')
    return train_step_lib.make_train_step(model, objective, tx, schedule, trained, **options)


class StageSteps:
    """The train steps of a run, of which each stage has its own.

    Args:
      config: of the run, checked.
      experiment: what the config builds.
      rng: of the run.
      rows: of tables, those that are trained.
      log: has a line for each compilation.
      watch: is told of each compilation.
    """

    def __init__(
        self,
        config: ConfigDict,
        experiment: Experiment,
        rng: jax.Array,
        rows: Rows,
        log: logs.Log,
        watch: Watch,
    ):
        self._config, self._experiment = config, experiment
        self._rng, self._rows, self._log, self._watch = rng, rows, log, watch

    def step(self, stage: str, first_step: int) -> TrainStep:
        """The step of a stage that begins after first_step."""
        of, (tx, schedule) = self._experiment, optimizer(self._config, stage)
        step = _step(
            of.model,
            of.objective,
            tx,
            schedule,
            tuple(traverse_util.flatten_dict(of.mask, sep='/').items()),
            first_step=first_step,
            accumulate=self._config.accumulate,
            rows=self._rows,
            lora=of.lora,
            adapters=tuple(of.adapters(self._config.stages[stage])),
        )
        return TrainStep(step, self._rng, compiling=self._compiling, on_compile=self._compiled)

    def state(self, stage: str, params: Params, first_step: int) -> TrainState:
        """The state before the first step of a stage."""
        tx, _ = optimizer(self._config, stage)
        return train_step_lib.init_state(tx, params, self._experiment.mask, first_step, self._rows)

    def state_like(self, stage: str) -> TrainState:
        """Its shapes and shardings."""
        of, (tx, _) = self._experiment, optimizer(self._config, stage)
        return train_step_lib.state_like(tx, of.shapes, of.shardings, of.mask, self._rows)

    def trace_ahead(self, stage: str, step: TrainStep, batches: batches_lib.TrainBatches) -> None:
        """Traces a run's first step while the program that makes its parameters is compiled."""
        of = self._experiment
        with self._watch.paused('compiling'):
            of.initialise.compile_ahead(self._rng)
            step.lower(self.state_like(stage), partitioning.put_batch(batches.first(), of.mesh))

    @contextlib.contextmanager
    def _compiling(self, what: str) -> Iterator[None]:
        """While a program is compiled, in some processes longer than in others."""
        with self._watch.paused(what):
            yield
            cluster.meet()

    def _compiled(self, step: TrainStep) -> None:
        mesh = self._experiment.mesh
        self._log.line(messages.compile_line(step, mesh))
        memory.check_step(step.memory, mesh, self._config)
        step.keeps_memory = memory.keep_freed(step.memory, mesh)
