"""The training loop: stages of steps, with their evaluations and checkpoints."""

import collections
import contextlib
import functools
import importlib
import itertools
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import jax
from flax import core
from ml_collections import ConfigDict

from xlbench.data import batches as batches_lib
from xlbench.parallel import cluster, partitioning
from xlbench.parallel.preemption import Interruption
from xlbench.parallel.watchdog import Watch
from xlbench.settings import workdirs
from xlbench.system import files, machine
from xlbench.system.errors import UserError
from xlbench.system.trees import Params
from xlbench.training import (
    checkpoints as checkpoints_lib,
    init_from,
    memory,
    messages,
    optimizers,
    tracking,
    train_step as train_step_lib,
)
from xlbench.training.checkpoints import DamagedCheckpoint, Position, Progress
from xlbench.training.evaluation import Evaluation
from xlbench.training.experiment import Experiment, stage_batches, stage_data, trained_vocab_rows
from xlbench.training.train_step import TrainState, TrainStep

# Steps that may be in flight: enough to keep a device busy, few enough to notice a failure soon.
STEPS_AHEAD = 2
# The function of a step: the same for equal stages of several runs, which compile it once.
_step_function = functools.lru_cache(4)(train_step_lib.make_train_step)


class Clock:
    """Seconds of training, apart from those of evaluation, and the share that waits for input."""

    def __init__(self):
        self._start = time.monotonic()
        self._spent: dict[str, float] = collections.defaultdict(float)

    @contextlib.contextmanager
    def spent(self, on: str) -> Iterator[None]:
        """Time in this block is 'evaluation', or training that waits for 'input'."""
        started = time.monotonic()
        yield
        self._spent[on] += time.monotonic() - started

    def window(self) -> tuple[float, float]:
        """(seconds of training, share of them that waited for input) since the last call."""
        now = time.monotonic()
        seconds = max(now - self._start - self._spent['evaluation'], 1e-9)
        share = self._spent['input'] / seconds
        self._start, self._spent = now, collections.defaultdict(float)
        return seconds, share


class InFlightStep(NamedTuple):
    """A step that was dispatched, and whose end nobody has waited for yet."""

    step: int
    batches: batches_lib.TrainBatches
    position: Position  # Of its batch in `batches`.
    metrics: dict[str, jax.Array]  # On the device.


class Trainer:
    """The run as it goes on: its state on the devices, its progress, its log and checkpoints.

    The parameters start from `source`, or fresh where it is None and the run has no checkpoint.
    `interruption` is asked after every step and batch, and `watch` is told of it.
    """

    def __init__(
        self,
        config: ConfigDict,
        workdir: str,
        experiment: Experiment,
        source: init_from.Plan | None,
        interruption: Interruption,
        watch: Watch,
    ):
        self.config, self.workdir = config, workdir
        self.experiment, self.source = experiment, source
        self.interruption, self.watch = interruption, watch
        self.log = tracking.open_log(config, workdir, active=jax.process_index() == 0)
        self.checkpoints = checkpoints_lib.Checkpoints(workdir, **config.checkpoints)
        self.rng = jax.random.key(config.seed)
        of = experiment
        self.rows = trained_vocab_rows(
            config, of.data, of.shapes, of.mask, of.model.config, of.tokenizer
        )
        lengths = {name: stage.num_steps for name, stage in config.stages.items()}
        self.num_steps = sum(lengths.values())
        ends = itertools.accumulate(lengths.values(), initial=0)
        self._begun = dict(zip(lengths, ends, strict=False))  # {stage: the step it begins after}
        self._state: TrainState | None = None
        self.progress = Progress()
        self.in_flight: collections.deque[InFlightStep] = collections.deque()  # Oldest first.
        self.window: list[dict[str, jax.Array]] = []  # Metrics of steps that are not logged yet.
        self.evaluation = Evaluation(
            config, workdir, experiment.evals, self.log, interruption, watch
        )

    @property
    def state(self) -> TrainState:
        """The newest state; before the first stage begins there is none."""
        assert self._state is not None
        return self._state

    # --------------------------------------------------------------------------------- the start

    def resume(self) -> None:
        """Takes up the newest checkpoint that can be read, if there is one."""
        with self.watch.paused('reading a checkpoint'):
            while (step := self.checkpoints.newest(self.log.line)) is not None:
                try:
                    self._restore(step)
                    return
                except DamagedCheckpoint as error:
                    if jax.process_count() > 1:  # The others may have read what they need of it.
                        raise
                    self.log.line(str(error))
        self.log.rewind(0)  # What a process wrote that died before its first checkpoint.

    def _restore(self, step: int) -> None:
        stage = checkpoints_lib.read_progress(self.workdir, step).stage
        if stage not in self.config.stages:
            raise UserError(
                f'checkpoint {step} of {self.workdir} is from stage {stage!r}, but the config has '
                f'{", ".join(self.config.stages)}; choose another --workdir'
            )
        self._state, self.progress = self.checkpoints.restore(step, self._state_like(stage))
        again = [] if stage in self.progress.chosen else list(self.evaluation.final)
        begun = self._begun[stage]
        self.log.rewind(step, again=again, after=begun, due=self.progress.due)
        self.log.line(f'resumed at step {step}, in stage {stage}')
        if line := self.progress.split_best_by_stage(stage, self._begun):
            self.log.line(line)
        if changed := workdirs.begun_with(self.workdir, self.config):
            self.log.line(f'changed since the run began: {changed}')

    def _load_params(self, step: int) -> Params:
        self.wait()
        with self.watch.paused('reading a checkpoint'):
            return checkpoints_lib.load_params(
                self.workdir, step, self.experiment.shapes, self.experiment.shardings
            )

    # ------------------------------------------------------------------------------- one stage

    def train_stage(self, name: str) -> None:
        """Trains one stage to its end, and evaluates it; does nothing if that was done before."""
        experiment = self.experiment
        order, stage = [*self.config.stages], self.config.stages[name]
        past = order[: order.index(self.progress.stage)] if self.progress.stage else ()
        if name in self.progress.chosen or name in past:
            return
        tasks, _ = stage_data(experiment.data, stage)
        first_step, train_step = self._begun[name], self._train_step(name)
        begins = self.progress.stage != name
        if begins:
            self.progress.position = None
        position = self.progress.position
        with stage_batches(
            self.config,
            name,
            experiment.data,
            experiment.mesh,
            experiment.objective.view,
            position=position.place() if position else None,
        ) as batches:
            if self._state is None and jax.process_count() == 1:
                # The step is traced while the program that makes the parameters is compiled.
                with self.watch.paused('compiling'):
                    experiment.initialise.compile_ahead(self.rng)
                    first = partitioning.put_batch(batches.first(), experiment.mesh)
                    train_step.lower(self._state_like(name), first)
            if begins:
                tx, _ = optimizers.of_stage(self.config, name)
                self._state = train_step_lib.init_state(
                    tx, self._params_for(name), experiment.mask, first_step, self.rows
                )
                self.progress.stage = name
                self.progress.best, self.progress.stale = None, 0
            for line in partitioning.held_whole(self.state):
                self.log.line(f'every device holds a full copy of {line}')
            for line in messages.data_table(name, stage, batches, tasks):
                self.log.line(line)
            self._loop(name, train_step, batches, first_step + stage.num_steps)
        self._end_stage(name)

    def _train_step(self, stage: str) -> TrainStep:
        of, (tx, schedule) = self.experiment, optimizers.of_stage(self.config, stage)
        step = _step_function(
            of.model,
            of.objective,
            tx,
            schedule,
            core.freeze(of.mask),
            first_step=self._begun[stage],
            accumulate=self.config.accumulate,
            rows=self.rows,
            lora=of.lora,
            adapters=tuple(of.adapters(self.config.stages[stage])),
        )
        return TrainStep(step, self.rng, compiling=self._compiling, on_compile=self._compiled)

    def _state_like(self, stage: str) -> TrainState:
        """The shapes and shardings of the state in a stage."""
        of, (tx, _) = self.experiment, optimizers.of_stage(self.config, stage)
        return train_step_lib.state_like(tx, of.shapes, of.shardings, of.mask, self.rows)

    @contextlib.contextmanager
    def _compiling(self, what: str) -> Iterator[None]:
        """Pauses the watch while a program is compiled, and waits for slower processes."""
        with self.watch.paused(what):
            yield
            cluster.meet()

    def _compiled(self, step: TrainStep) -> None:
        mesh = self.experiment.mesh
        self.log.line(messages.compile_line(step, mesh))
        memory.check_step(step.memory, mesh, self.config)
        step.keeps_memory = memory.keep_freed(step.memory, mesh)

    def _params_for(self, stage: str) -> Params:
        """The parameters that a stage starts from."""
        if self._state is None:
            rng = jax.random.fold_in(self.rng, 2**31 - 1)  # No step's key.
            with self.watch.paused('making parameters'):
                params = self.experiment.initialise(rng)
            if self.source is None:
                return params
            for line in self.source.notes(self.experiment.mask):
                self.log.line(line)
            return self.source.load(params)
        before = self.progress.chosen.get(self.progress.stage)
        last = self.config.stages[stage].get('start_from', 'last') != 'best'
        if last or before in (None, int(self.state.step)):
            return self.state.params
        self.log.line(
            f'stage {stage} starts from the best checkpoint of stage {self.progress.stage}, '
            f'step {before}'
        )
        return self._load_params(before)

    # -------------------------------------------------------------------------------- the loop

    def _loop(
        self, name: str, train_step: TrainStep, batches: batches_lib.TrainBatches, end_step: int
    ) -> None:
        """Dispatches steps; only logging, evaluation and saving wait for the device."""
        config, clock, first_step = self.config, Clock(), int(self.state.step)
        self.window, self.progress.position = [], Position(**batches.position())
        if self.progress.due:  # The run was told to end while it evaluated this step.
            self._evaluate(name, first_step, clock)
            self._save(first_step)
        for step in range(first_step + 1, end_step + 1):
            if 0 < config.best.patience <= self.progress.stale:
                self.log.line(f'stage {name} ends before step {step}: the score no longer improves')
                break
            with clock.spent('input'):
                read = next(batches)
            batch = partitioning.put_batch(read, self.experiment.mesh)
            self._state, metrics = train_step(self.state, batch)
            # The copy begins now; the value is read STEPS_AHEAD steps later, when it has arrived.
            metrics['finite'].copy_to_host_async()
            self.in_flight.append(InFlightStep(step, batches, self.progress.position, metrics))
            # Behind this batch: a checkpoint of this step goes on with the next one.
            self.progress.position = Position(**batches.position())
            self._wait_for_steps(STEPS_AHEAD)
            # After the first dispatch, so that no step waits for these imports.
            _import_orbax_in_background()
            last = step == end_step
            if step % config.log_every == 0 or last:
                self._log_window(name, step, clock, train_step.flops)
            # A run that is told to end while it evaluates saves what is still due of this step.
            self.progress.due = self.evaluation.due(step, last)
            scored = self._evaluate(name, step, clock)
            if scored or step % self.checkpoints.every == 0 or last:
                self._save(step)
            self.checkpoints.check()
            self.interruption.check()

    def _wait_for_steps(self, ahead: int = 0) -> None:
        """Waits for all steps but the newest `ahead`, and stops at one that is not finite."""
        while len(self.in_flight) > ahead:
            flight = self.in_flight.popleft()
            finite = bool(flight.metrics['finite'])
            self.watch.done(flight.step)
            if finite:
                self.window.append(flight.metrics)
            else:
                self._skip_step(flight)

    def _skip_step(self, flight: InFlightStep) -> None:
        """Leaves out a step that was not finite; UserError if config.nonfinite.skip is used up."""
        step, metrics = flight.step, flight.metrics
        loss, weight, norm = (float(metrics[key]) for key in ('loss', 'weight', 'grad_norm'))
        loss /= max(weight, 1.0)
        path = pathlib.Path(self.workdir, 'nonfinite', f'step-{step}.json')
        if jax.process_index() == 0:
            stage = self.config.stages[self.progress.stage]
            tasks, _ = stage_data(self.experiment.data, stage)
            of_name = {(task.name, task.split): task for task in tasks}
            shown = []
            for name, split, number in flight.batches.examples(flight.position.place()):
                record = of_name[name, split][number]
                sides = ('input', 'target')
                texts = {side: record[f'{side}s_pretokenized'][:200] for side in sides}
                shown.append({'task': name, 'split': split, 'number': number, **texts})
            facts = {'step': step, 'loss': str(loss), 'grad_norm': str(norm), 'examples': shown}
            path.parent.mkdir(exist_ok=True)
            files.write(path, files.as_json(facts))
        line = f'step {step}: the loss is {loss} and the norm of the gradients {norm}'
        self.progress.skipped += 1
        skipped, skip = self.progress.skipped, self.config.nonfinite.skip
        if skipped <= skip:
            self.log.line(f'{line}; skipped, {skipped} of {skip}; its examples are in {path}')
            return
        self.wait()
        newest = self.checkpoints.latest_step
        raise UserError(
            f'{line}, and nonfinite.skip is {skip}; its examples are in {path}, and the newest '
            f'checkpoint is {"none" if newest is None else f"of step {newest}"}. Try a lower '
            'learning_rate, clip_norm=1.0 or another nonfinite.skip, in another --workdir'
        )

    def _log_window(self, name: str, step: int, clock: Clock, flops: float | None) -> None:
        self._wait_for_steps()
        window, self.window = self.window, []
        if not window:  # All steps were left out.
            return
        values = train_step_lib.window_metrics(window)
        seconds, waited = clock.window()
        values |= {
            'tokens_per_second': values.pop('tokens') / seconds,
            'examples_per_second': values.pop('examples') / seconds,
            'input_wait': waited,
        }
        peak = partitioning.peak_flops(self.experiment.mesh)
        if peak and flops:
            values['mfu'] = flops * len(window) / seconds / peak
        left = seconds / len(window) * (self.num_steps - step)
        self.log.write(step, 'train', name, values)
        self.log.line(messages.step_line(step, self.num_steps, name, values, left))

    def _save(self, step: int) -> None:
        """Begins to save a step, or only its progress if it is saved already."""
        self._wait_for_steps()
        with self.watch.paused('saving'):
            self.checkpoints.save(step, self.state, self.progress)

    def save_now(self) -> int:
        """Saves the newest step, and returns it when it is on disk."""
        step = int(self.state.step)
        self._save(step)
        self.wait()
        return step

    def wait(self) -> None:
        """Returns when what was begun to be saved is on disk."""
        with self.watch.paused('saving'):
            self.checkpoints.wait()

    # ------------------------------------------------------------------------------ evaluation

    def _evaluate(self, stage: str, step: int, clock: Clock) -> bool:
        """Runs what is due; True if the score that chooses the best checkpoint was among it."""
        scored = False
        while due := self.progress.due:
            self._wait_for_steps()
            with clock.spent('evaluation'):
                scores = self.evaluation.run(due[0], self.state.params, step, stage)
            scored |= self.evaluation.note_score(due[0], step, scores, self.progress)
            self.progress.due = due[1:]
        return scored

    # ------------------------------------------------------------------------------------- end

    def _end_stage(self, stage: str) -> None:
        """Runs the final evaluations on the best checkpoint of the stage, or on its last one."""
        self.wait()
        best, last = self.progress.best, int(self.state.step)
        step, params = last, self.state.params
        if best and best.step != step:
            step, params = best.step, self._load_params(best.step)
        if self.evaluation.final:
            which = 'its best checkpoint' if best else 'its last checkpoint'
            self.log.line(f'stage {stage} ends: it is evaluated at {which}, step {step}')
        for name in self.evaluation.final:
            self.evaluation.run(name, params, step, stage)
        self.progress.chosen = self.progress.chosen | {stage: step}
        self._save(last)  # What was evaluated is not evaluated again.

    def close(self) -> None:
        """Waits for checkpoints; frees threads and files."""
        self.checkpoints.close()
        self.log.close()


@functools.cache
def _import_orbax_in_background() -> None:
    """Imports what saves checkpoints in a thread, which takes a second; collects garbage again."""
    machine.collect_as_ever()

    def load() -> None:
        # Whoever needs the module imports it again, and gets the error there.
        with contextlib.suppress(Exception):
            importlib.import_module('xlbench.training.checkpoints.orbax_manager')

    threading.Thread(target=load, name='imports').start()
