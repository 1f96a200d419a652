"""A run in words: what `python -m xlbench.train` says of its devices, data, programs and scores."""

from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench.benchmarks import BENCHMARKS
from xlbench.data.batches import TrainBatches
from xlbench.data.prepared import Prepared
from xlbench.models.fused import choice
from xlbench.parallel import partitioning
from xlbench.settings import blocks, workdirs
from xlbench.system.progress import duration, quantity
from xlbench.training import memory
from xlbench.training.experiment import Data, Experiment, is_sample
from xlbench.training.rows import ALL_ROWS, Rows
from xlbench.training.train_step import TrainStep

MANY_EPOCHS = 20
SAMPLE_DATA = 'data: the embedded sample corpora; scores cannot be compared with published ones'


def machine(workdir: str, mesh: Mesh, joined: str) -> Iterator[str]:
    """Versions, processes and mesh, a line each; `joined` says how the processes were found."""
    versions = workdirs.facts()['versions'].items()
    yield f'{", ".join(f"{k} {v}" for k, v in versions)}, backend {jax.default_backend()}'
    several = jax.process_count() > 1
    rank = f'process {jax.process_index()} of {jax.process_count()} ({joined}), ' if several else ''
    yield f'{rank}workdir {workdir}'
    yield f'mesh {partitioning.describe(mesh)}'


def introduction(
    workdir: str, experiment: Experiment, joined: str, rows: Rows = ALL_ROWS
) -> Iterator[str]:
    """Versions, processes, mesh, model and data, a plain line each."""
    yield from machine(workdir, experiment.mesh, joined)
    width = experiment.model.config.emb_dim
    yield parameter_line(experiment.num_parameters, experiment.num_trainable, rows, width)
    yield from of_rows(rows)
    with partitioning.activate(experiment.mesh):
        if attention := choice.describe(experiment.model.config):
            yield attention
    for evaluator, _ in experiment.evals.values():
        yield from evaluator.notes.values()
    yield from label_notes(experiment.data)
    if is_sample(experiment.data):
        yield SAMPLE_DATA


def parameter_line(total: int, trained: int, rows: Rows, width: int) -> str:
    """Counts the parameters of a model, and how many of them training moves.

    `trained` counts whole tables, also those of which only some `rows` of a width are trained.
    """
    trained -= width * sum(size - rows.count(name) for name, size in rows.sizes.items())
    size = quantity(4 * total, 'B')
    return f'{quantity(total)} parameters ({size} in float32), {quantity(trained)} of them trained'


def of_rows(rows: Rows) -> Iterator[str]:
    """Says of which tables only some rows are trained."""
    for name, size in rows.sizes.items():
        yield (
            f'{name}: {rows.count(name):,} of {size:,} rows occur in the training data and are '
            'trained; the others keep their values'
        )


def label_notes(data: Data) -> list[str]:
    """Names the labels that some tasks of a run lack, a line for each task."""
    tasks = {task.name: task for of_pair, _ in data.values() for task in of_pair}
    lacking = {
        name: [label for label in task.labels if label not in task.manifest.get('labels', ())]
        for name, task in tasks.items()
    }
    return [
        f'{name} has no examples of the label{"s" * (len(labels) > 1)} {", ".join(labels)}'
        for name, labels in lacking.items()
        if labels
    ]


def data_table(
    name: str, stage: ConfigDict, batches: TrainBatches, tasks: Sequence[Prepared]
) -> Iterator[str]:
    """Each task with its examples, rate and epochs; the batches' shapes; one example a task."""
    yield f'{name}: {stage.mixture}, split {stage.split}, {stage.num_steps} steps'
    for mixture, split in blocks.stage_pairs(stage)[1:]:
        yield f'  mixed with {mixture}, split {split}'
    if parts := stage.get('curriculum'):
        steps = f'{batches.steps_per_epoch:,} steps'
        yield f'  an epoch, of about {steps}, has {", then ".join(parts)}'
    most = 0.0
    for share in batches.describe(stage.num_steps):
        most = max(most, share.epochs)
        yield (
            f'  {share.task:<24} {share.examples:>9,} examples, rate {share.rate:.3f}, '
            f'{share.epochs:.2f} epochs'
            + (f' of {share.draws} with noise of their own' if share.draws > 1 else '')
        )
    if most > MANY_EPOCHS:
        yield (
            f'  {most:.0f} epochs are many: a model often learns its examples by heart; for fewer, '
            f'--config.stages.{name}.num_steps=10epochs'
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


def step_line(
    step: int, num_steps: int, stage: str, values: Mapping[str, float], seconds_left: float
) -> str:
    """The line of a step of all `num_steps`; `values` are those of its row of metrics.jsonl."""
    parts = [
        f'{stage} {step}/{num_steps}',
        f'loss {values["loss"]:.4f}',
        f'lr {values["learning_rate"]:.2e}',
        f'{quantity(values["tokens_per_second"])} tokens/s',
        f'{values["examples_per_second"]:.1f} examples/s',
        f'input wait {100 * values["input_wait"]:.1f}%',
    ]
    if 'mfu' in values:
        parts.append(f'MFU {100 * values["mfu"]:.1f}%')
    return ' | '.join([*parts, f'{duration(seconds_left)} left'])


def compile_line(step: TrainStep, mesh: Mesh) -> str:
    """Says how long the step took to compile, and how much memory it takes of each device."""
    line = f'compiled the train step in {duration(step.compile_seconds[-1])}'
    if len(step.compile_seconds) > 1:
        line += f' (batch shape {len(step.compile_seconds)})'
    if step.memory is not None:
        line += f'; it takes {quantity(memory.step_bytes(step.memory), "B")} per device'
        if limit := partitioning.memory_limit(mesh):
            line += f' of {quantity(limit, "B")}'
    return line


def headline(scores: Mapping[str, Mapping[str, float]], best: str) -> str:
    """Picks the means of an evaluation that a line has room for; metrics.jsonl has all scores.

    The loss, the score `best` that chooses the best checkpoint, the main one of each task, and the
    first table of the paper that there is a score of. All scores of a task that is not a
    benchmark's.
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
