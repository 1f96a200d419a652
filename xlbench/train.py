r"""Trains a model from a config. Run the command again to resume.

  python -m xlbench.train --config=configs/mtg_mt5.py
  python -m xlbench.train --config=configs/mtg_mt5.py:base,scenario=cross,task=qg,source=en \
      --workdir=RUNS/qg_from_en --config.seed=1

The config file documents its settings. Each of them can be set on the command line, and so can any
other field of the model, the optimizer and the other blocks. --dry_run only prints what the command
would do, with counts, sizes and memory. After Ctrl-C, SIGTERM or SIGHUP, a run saves its current
step and ends with code 75; start the same command again to continue.
"""

import contextlib
import pathlib
import sys
from collections.abc import Sequence

from xlbench.config import commands

if __name__ == '__main__':  # A slip is answered before the imports below, which take seconds.
    commands.check_first(commands.parse_train, sys.argv)

import jax
from ml_collections import ConfigDict

from xlbench import config as config_lib, runs
from xlbench.evaluators import baselines
from xlbench.parallel import cluster, partitioning, programs
from xlbench.parallel.preemption import Interrupted, Interruption
from xlbench.parallel.watchdog import Watch
from xlbench.plan import dry_run
from xlbench.reporting import layout
from xlbench.system import files, locks, sessions
from xlbench.training import checkpoints, init_from, memory, messages, tracking
from xlbench.training.loop import Trainer


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    config, workdir, args = commands.parse_train(argv)
    joined = cluster.join()
    if args.dry_run:
        for line in (*dry_run.of_run(config, workdir), dry_run.LAST):
            print(line)
        return
    cluster.keep_programs()
    programs.run_inline()
    train(config, workdir, joined)


def train(config: ConfigDict, workdir: str, joined: str = 'alone') -> None:
    """Trains every stage of the config, evaluates, and prints the benchmark's table.

    The workdir is made, or resumed if this config was begun in it. `joined` is how the processes of
    the run found each other.

    Raises:
      UserError: before anything is written, if config, data, mesh or workdir cannot work, or if
        another process writes into the workdir; later, if a loss is not finite or a disk does not
        take what is written.
      Interrupted: the run was told to end, and has saved where it is.
    """
    # 1. What can be refused at once, and a run that is finished.
    config = config.copy_and_resolve_references()  # Its epochs become steps.
    runs.check_config(config)
    first = jax.process_index() == 0
    if config_lib.check_workdir(workdir, config) and (pathlib.Path(workdir) / 'DONE').exists():
        print(f'{workdir} is finished already; its table:\n\n{layout.screen(workdir)}')
        return
    if first:
        tracking.check(config.get('trackers', ()))
    with (
        locks.folder(workdir, active=first),
        sessions.Recorder(workdir, active=first) as session,
        Interruption() as interruption,
    ):
        # 2. What the config's blocks build: mesh, data, model, objective, evaluators.
        begun = config_lib.check_workdir(workdir, config)
        experiment = runs.build(config, workdir if begun else '')
        cluster.meet()
        interruption.check()
        # 3. What the parameters start from; a run that was begun has its own.
        source = None
        if config.init_from and not checkpoints.steps(workdir):
            family, model = config.model.family, experiment.model
            source = init_from.Plan(config.init_from, family, model, experiment.shapes)
        # 4. The workdir, from now on this run's.
        if first:
            facts = runs.facts(config, experiment) | (source.facts if source else {})
            config_lib.claim_workdir(workdir, config, facts)
            runs.copy_inputs(config, experiment, workdir)
        session.begin(partitioning.describe(experiment.mesh), jax.process_count())
        with (
            Watch(workdir) as watch,
            contextlib.closing(
                Trainer(config, workdir, experiment, source, interruption, watch)
            ) as trainer,
        ):
            for line in messages.introduction(workdir, experiment, joined, trainer.rows):
                trainer.log.line(line)
            # 5. The loop, stage after stage, in the order of their names.
            trainer.resume()
            try:
                for name in config.stages:
                    with memory.advising(memory.of_training(config)):
                        trainer.train_stage(name)
                finish(trainer)
            except Interrupted as signal:
                step = trainer.save_now()
                raise Interrupted(
                    f'{signal}: saved step {step}; the same command continues from there'
                ) from signal


def finish(trainer: Trainer) -> None:
    """The baselines, the table, DONE."""
    trainer.wait()
    config, workdir, experiment = trainer.config, trainer.workdir, trainer.experiment
    if jax.process_index() > 0:
        return
    with trainer.watch.paused('scoring the baselines'):
        for name, evaluator in trainer.evaluation.final.items():
            block = config.evals[name]
            learnt = {**block, 'split': config.baseline_split}
            train_tasks = {task.name: task for task in runs.evaluated(learnt, experiment.data)}
            for task in runs.evaluated(block, experiment.data):
                train_task = train_tasks.get(task.name)
                examples = evaluator.examples(task.name)
                baselines.score(workdir, config.baselines, task, train_task, examples)
    if experiment.evals:
        trainer.log.line('\n' + layout.screen(workdir))
    step = trainer.progress.chosen[trainer.progress.stage]
    files.write(pathlib.Path(workdir) / 'DONE', f'{step}\n')
    trainer.log.finish()


if __name__ == '__main__':
    sys.exit(cluster.run_main(main, sys.argv))
