r"""Trains one model as one config says, and goes on where it was when started again.

  python -m xlbench.train --config=configs/mtg_mt5.py
  python -m xlbench.train --config=configs/mtg_mt5.py:base,scenario=cross,task=qg,source=en \
      --workdir=RUNS/qg_from_en --config.seed=1

The config file says what there is to set; any of it can be set on the command line.
"""

import collections
import contextlib
import math
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from xlbench import (
    batches as batches_lib,
    checkpoints as checkpoints_lib,
    config as config_lib,
    errors,
    init_from,
    logs,
    optimizers,
    partitioning,
    processes,
    report,
    runs,
    train_step as train_step_lib,
)
from xlbench.benchmarks import BENCHMARKS
from xlbench.errors import UserError
from xlbench.evaluators import baselines

# Steps that may be in flight: enough to keep a device busy, few enough to notice a failure soon.
STEPS_AHEAD = 2


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    config, workdir = config_lib.parse_flags(argv, doc=__doc__)
    found = processes.join()
    processes.keep_programs()
    train(config, workdir, found)


def train(config: ConfigDict, workdir: str, found: str = 'alone') -> None:
    """Trains every stage of the config, evaluates, and prints the benchmark's table.

    Args:
      config: see configs/; every block is the arguments of one function.
      workdir: made, or resumed if this config was begun in it.
      found: how the processes of the run found each other, to say it.

    Raises:
      UserError: before anything is written, if config, data, mesh or workdir cannot work.
    """
    runs.check_config(config)
    if config_lib.check_workdir(workdir, config) and (pathlib.Path(workdir) / 'DONE').exists():
        print(f'{workdir} is finished already; its table:\n\n{report.table(workdir)}')
        return
    parts = runs.build(config)
    source = None
    if config.init_from and not checkpoints_lib.steps(workdir):  # A resumed run has its own.
        source = init_from.Plan(config.init_from, config.model.family, parts.model, parts.shapes)
    if jax.process_index() == 0:
        facts = runs.facts(config, parts) | (source.facts if source else {})
        config_lib.claim_workdir(workdir, config, facts)
    with contextlib.closing(Trainer(config, workdir, parts, source)) as trainer:
        for line in introduction(workdir, parts, found):
            trainer.log.line(line)
        for name in config.stages:  # In the order of their names.
            trainer.train_stage(name)
        trainer.finish()


class Trainer:
    """The run as it goes on: its state on the devices, its progress, its log and checkpoints."""

    def __init__(
        self,
        config: ConfigDict,
        workdir: str,
        parts: runs.Parts,
        source: init_from.Plan | None = None,
    ):
        self.config, self.workdir, self.parts, self.source = config, workdir, parts, source
        self.log = logs.Log(workdir, active=jax.process_index() == 0)
        self.checkpoints = checkpoints_lib.Checkpoints(workdir, **config.checkpoints)
        self.rng = jax.random.key(config.seed)
        self.num_steps = sum(stage.num_steps for stage in config.stages.values())
        self.state: train_step_lib.TrainState | None = None
        # Saved with every checkpoint. position: of the input; best: step and score, or None;
        # stale: evaluations since the best one.
        self.progress: dict[str, Any] = {'stage': '', 'position': None, 'best': None, 'stale': 0}

    # ------------------------------------------------------------------------------- one stage

    def train_stage(self, name: str) -> None:
        """Trains one stage to its end; does nothing if a checkpoint is from a later stage."""
        config, parts = self.config, self.parts
        names, stage = list(config.stages), config.stages[name]
        first_step = sum(config.stages[n].num_steps for n in names[: names.index(name)])
        tx, schedule = optimizers.build(**stage.optimizer, num_steps=stage.num_steps)
        if not self._enter(name, tx, first_step):
            return
        tasks, rates = parts.data[stage.mixture, stage.split]
        batches = batches_lib.train_batches(
            tasks,
            rates,
            **config.batches,
            view=parts.objective.view,
            seed=config.seed,
            position=self.progress['position'],
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        )
        train_step = train_step_lib.TrainStep(
            parts.model,
            parts.objective,
            tx,
            schedule,
            parts.mask,
            self.rng,
            first_step=first_step,
            accumulate=config.accumulate,
            on_compile=lambda step: self.log.line(compile_line(step, parts.mesh)),
        )
        for line in data_table(name, stage, batches, tasks):
            self.log.line(line)
        with contextlib.closing(batches):
            self._loop(name, train_step, batches, first_step + stage.num_steps)

    def _enter(self, name: str, tx: Any, first_step: int) -> bool:
        """Sets state and progress to where the stage begins or was left; False if it is over."""
        latest = self.checkpoints.latest_step if self.state is None else None
        if latest is not None:
            saved = checkpoints_lib.read_progress(self.workdir, latest)
            if saved['stage'] != name:
                return False
            like = train_step_lib.init_state(tx, self._fresh_params(), self.parts.mask)
            self.state, self.progress = self.checkpoints.restore(latest, like), saved
            self.log.rewind(latest, [n for n, (_, every) in self.parts.evals.items() if not every])
            self.log.line(f'resumed at step {latest}, in stage {name}')
            return True
        best = self.progress['best']
        if self.state is None:
            self.log.rewind(0)  # What a process wrote that died before its first checkpoint.
            params = self._first_params()
        elif best and self.config.stages[name].get('start_from', 'last') == 'best':
            self.log.line(f'stage {name} starts from the best checkpoint, step {best["step"]}')
            params = self._load_params(best['step'])
        else:
            params = self.state.params
        self.state = train_step_lib.init_state(tx, params, self.parts.mask, first_step)
        self.progress |= {'stage': name, 'position': None, 'stale': 0}
        return True

    def _fresh_params(self) -> Any:
        rng = jax.random.fold_in(self.rng, 2**31 - 1)  # No step's key.
        return train_step_lib.init_params(
            self.parts.model, self.parts.objective, self.parts.mesh, rng, self.parts.lora
        )

    def _first_params(self) -> Any:
        params = self._fresh_params()
        if self.source is None:
            return params
        for line in self.source.lines:
            self.log.line(line)
        return self.source.load(params)

    def _load_params(self, step: int) -> Any:
        self.checkpoints.wait()
        return checkpoints_lib.load_params(
            self.workdir, step, self.parts.shapes, self.parts.shardings
        )

    # -------------------------------------------------------------------------------- the loop

    def _loop(
        self,
        name: str,
        train_step: train_step_lib.TrainStep,
        batches: batches_lib.TrainBatches,
        end_step: int,
    ) -> None:
        """Dispatches steps; only logging, evaluation and saving wait for the device."""
        config, clock = self.config, logs.Clock()
        window: list[Any] = []
        in_flight: collections.deque = collections.deque()
        for step in range(int(self.state.step) + 1, end_step + 1):
            if self._is_stale():
                self.log.line(f'stage {name} ends before step {step}: the score rises no more')
                break
            with clock.waiting():
                batch = next(batches)
            batch = partitioning.put_batch(batch, self.parts.mesh)
            self.state, metrics = train_step(self.state, batch)
            window.append(metrics)
            in_flight.append(metrics['loss'])
            if len(in_flight) > STEPS_AHEAD:
                in_flight.popleft().block_until_ready()
            last = step == end_step
            if step % config.log_every == 0 or last:
                self._log_window(name, step, window, clock, train_step.flops)
                window = []
            self.progress['position'] = batches.position()
            score = self._evaluate(name, step, last, clock)
            if score is not None or step % self.checkpoints.every == 0 or last:
                self.checkpoints.save(step, self.state, self.progress)

    def _log_window(
        self, name: str, step: int, window: list[Any], clock: logs.Clock, flops: float | None
    ) -> None:
        values = train_step_lib.window_metrics(window)
        seconds, waited = clock.window()
        values |= {
            'tokens_per_second': values.pop('tokens') / seconds,
            'examples_per_second': values.pop('examples') / seconds,
            'input_wait': waited,
        }
        peak = partitioning.peak_flops(self.parts.mesh)
        if peak and flops:
            values['mfu'] = flops * len(window) / seconds / peak
        left = seconds / len(window) * (self.num_steps - step)
        self.log.write(step, 'train', name, values)
        self.log.line(logs.progress(step, self.num_steps, name, values, left))
        if not math.isfinite(values['loss']):
            raise UserError(
                f'the loss is {values["loss"]} at step {step}; the newest checkpoint is of step '
                f'{self.checkpoints.latest_step}. Try a lower learning_rate, or clip_norm=1.0'
            )

    def _evaluate(self, stage: str, step: int, last: bool, clock: logs.Clock) -> float | None:
        """Runs what is due; returns the score that chooses the best checkpoint, if it was due."""
        chosen = None
        for name, (evaluator, every) in self.parts.evals.items():
            if not every or not (step % every == 0 or last):
                continue
            with clock.paused():
                scores = self._run_evaluator(name, evaluator, self.state.params, step, stage)
            eval_name, _, rest = self.config.best.score.partition('/')
            if eval_name == name:
                chosen = self._note_score(step, scores, rest)
        return chosen

    def _run_evaluator(
        self, name: str, evaluator: Any, params: Any, step: int, stage: str
    ) -> dict[str, dict[str, float]]:
        started = time.monotonic()
        scores = evaluator.run(params, step, self.workdir, stage)
        for task, values in scores.items():
            self.log.write(step, 'eval', f'{name}/{task}', values)
        took = logs.duration(time.monotonic() - started)
        mean = headline(scores, self.config.best.score)
        self.log.line(f'{name} at step {step}, mean of {len(scores) - 1} tasks: {mean} ({took})')
        return scores

    def _note_score(self, step: int, scores: Mapping[str, Mapping[str, float]], at: str) -> float:
        task, key = at.split('/')
        if key not in scores[task]:
            raise errors.unknown('score in config.best.score', key, scores[task])
        score, best = scores[task][key], self.progress['best']
        sign = 1 if self.config.best.mode == 'max' else -1
        if math.isfinite(score) and (best is None or sign * score > sign * best['score']):
            self.progress |= {'best': {'step': step, 'score': score}, 'stale': 0}
        else:
            self.progress['stale'] += 1
        return score

    def _is_stale(self) -> bool:
        return 0 < self.config.best.patience <= self.progress['stale']

    # ------------------------------------------------------------------------------------- end

    def finish(self) -> None:
        """The evaluations of the end, on the best checkpoint; the baselines; the table; DONE."""
        self.checkpoints.wait()
        best = self.progress['best']
        step, params = int(self.state.step), self.state.params
        if best and best['step'] != step:
            step, params = best['step'], self._load_params(best['step'])
            self.log.line(f'the evaluation at the end takes the best checkpoint, step {step}')
        final = {name: e for name, (e, every) in self.parts.evals.items() if not every}
        for name, evaluator in final.items():
            self._run_evaluator(name, evaluator, params, step, 'final')
        if jax.process_index() > 0:
            return
        for name in final:
            for task in self.config.evals[name].tasks:
                baselines.score(
                    self.workdir,
                    self.config.baselines,
                    self.parts.data[task, self.config.evals[name].split][0][0],
                    self.parts.data.get((task, self.config.baseline_split), ([None], []))[0][0],
                )
        if any(every for _, every in self.parts.evals.values()) or final:
            self.log.line('\n' + report.table(self.workdir))
        (pathlib.Path(self.workdir) / 'DONE').write_text(f'{step}\n', encoding='utf-8')

    def close(self) -> None:
        """Waits for checkpoints; frees threads and files."""
        self.checkpoints.close()
        self.log.close()


# ---------------------------------------------------------------------------------------------
# What a run says at its start.


def introduction(workdir: str, parts: runs.Parts, found: str) -> Iterator[str]:
    """Versions, processes, mesh, model and data, a plain line each."""
    versions = config_lib.facts()['versions'].items()
    yield f'{", ".join(f"{k} {v}" for k, v in versions)}, backend {jax.default_backend()}'
    yield f'process {jax.process_index()} of {jax.process_count()} ({found}), workdir {workdir}'
    yield f'mesh {partitioning.describe(parts.mesh)}'
    size = logs.quantity(4 * parts.num_parameters, 'B')
    yield (
        f'{logs.quantity(parts.num_parameters)} parameters ({size} in float32), '
        f'{logs.quantity(parts.num_trainable)} of them trained'
    )
    programs = sum(evaluator.num_programs for evaluator, _ in parts.evals.values())
    yield f'evaluation compiles at most {programs} programs'
    if parts.is_sample:
        yield 'data: the embedded sample corpora; no score here compares with a published one'


def data_table(
    name: str, stage: ConfigDict, batches: batches_lib.TrainBatches, tasks: Sequence[Any]
) -> Iterator[str]:
    """Each task with its examples, rate and epochs; the batches' shapes; one example a task."""
    yield f'{name}: {stage.mixture}, split {stage.split}, {stage.num_steps} steps'
    for task in batches.describe(stage.num_steps):
        yield (
            f'  {task.task:<24} {task.examples:>9,} examples, rate {task.rate:.3f}, '
            f'{task.epochs:.2f} epochs'
        )
    for line in batches.shape_lines():
        yield f'  {line}'
    for task in tasks:
        record = task[0]
        ids = np.asarray(record['inputs'])[:8].tolist()
        yield (
            f'  {task.name}: {record["inputs_pretokenized"][:160]!r} {ids} -> '
            f'{record["targets_pretokenized"][:120]!r}'
        )


def headline(scores: Mapping[str, Mapping[str, float]], best: str) -> str:
    """What a line has room for of an evaluation's means; metrics.jsonl has all scores.

    The loss, the score that chooses the best checkpoint, the main one of each task, and the first
    table of the paper that there is a score of. All scores of a task that is no benchmark's.

    Args:
      scores: {task: {score: value}}, with the task 'mean'.
      best: config.best.score, EVAL/TASK/SCORE or ''.
    """
    mean = scores['mean']
    chosen = ['loss', best.rpartition('/')[2]]
    for task in scores:
        if task == 'mean':
            continue
        name, _, rest = task.partition('_')
        if benchmark := BENCHMARKS.get(name):
            tables = benchmark.tables or (benchmark.scores,)
            chosen.append(benchmark.main_score(rest.partition('_')[0]))
            chosen += next((table for table in tables if mean.keys() & table), ())
        else:
            chosen += scores[task]
    shown = [key for key in dict.fromkeys(chosen) if key in mean]
    return ' '.join(f'{key} {mean[key]:.3f}' for key in shown)


def compile_line(step: train_step_lib.TrainStep, mesh: Any) -> str:
    """How long the step took to compile, and the memory that it takes of each device."""
    line = f'compiled the train step in {logs.duration(step.compile_seconds[-1])}'
    if len(step.compile_seconds) > 1:
        line += f' (batch shape {len(step.compile_seconds)})'
    if step.memory is not None:
        needed = (
            step.memory.argument_size_in_bytes
            + step.memory.output_size_in_bytes
            + step.memory.temp_size_in_bytes
            - step.memory.alias_size_in_bytes
        )
        line += f'; it takes {logs.quantity(needed, "B")} per device'
        if limit := partitioning.memory_limit(mesh):
            line += f' of {logs.quantity(limit, "B")}'
    return line


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
