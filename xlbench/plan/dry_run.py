"""Prints what a command would do; trains, prepares, downloads and writes nothing.

`python -m xlbench.train --dry_run ...` and `python -m xlbench.fewshot --dry_run ...` call it.
"""

import os
import pathlib
from collections.abc import Generator, Iterator, Mapping, Sequence

from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, metrics, runs
from xlbench.data import prepared, tokenizers
from xlbench.huggingface import hub
from xlbench.parallel import partitioning
from xlbench.plan import study
from xlbench.settings import epochs
from xlbench.system.files import Setting
from xlbench.system.progress import quantity
from xlbench.training import checkpoints, memory, messages, objectives, tracking
from xlbench.training.experiment import Data, stage_batches, trained_vocab_rows
from xlbench.training.rows import ALL_ROWS, Rows

LAST = 'this was a dry run: nothing was trained, prepared, downloaded or written'


def of_run(config: ConfigDict, workdir: str) -> Iterator[str]:
    """Says what xlbench.train would do, a line each; UserError for what cannot work."""
    runs.check_config(config)
    tracking.check(config.get('trackers', ()))
    mesh = partitioning.make_mesh(**config.mesh)
    partitioning.check_batch_size(config.batches.batch_size, mesh, config.accumulate)
    memory.check(config, mesh)
    runs.check_attention(config, mesh)
    begun = config_lib.check_workdir(workdir, config)
    yield from settings(config)
    yield workdir_line(workdir, begun, begun and (pathlib.Path(workdir) / 'DONE').exists())
    yield f'mesh {partitioning.describe(mesh)}'
    pairs = config_lib.needed_splits(config) + config_lib.optional_splits(config)
    data = yield from data_lines(config.data, list(dict.fromkeys(pairs)))
    missing = [pair for pair in config_lib.needed_splits(config) if pair not in data]
    config_lib.check_splits(missing)
    if not missing:
        config = config.copy_and_resolve_references()
        runs.resolve_epochs(config, data, mesh, objectives.build(**config.objective).view)
    yield from _stages(config, data, mesh)
    for name, block in config.evals.items():
        when = f'every {epochs.words(block.every)}' if block.every else 'at the end'
        tasks = '1 task' if len(block.tasks) == 1 else f'{len(block.tasks)} tasks'
        yield f'{name}: {tasks}, split {block.split}, {when}, batches of {block.batch_size} rows'
    declared = config_lib.declared_labels([name for name, _ in missing], config.data.root)
    yield from size_lines(config, data, mesh, declared)
    if not begun:
        yield from download_lines(config)


def settings(config: ConfigDict) -> Iterator[str]:
    """The resolved config, a key with dots a line."""
    return (f'config.{key} = {value!r}' for key, value in config_lib.leaves(config))


def data_lines(
    block: Mapping[str, Setting], pairs: Sequence[tuple[str, str]]
) -> Generator[str, None, Data]:
    """Tasks with their counts, and what would be prepared; gives back what is prepared.

    `pairs` are (task or mixture, split), `block` is config.data.
    """
    data: Data = {}
    missing = []
    for pair in pairs:
        try:
            data[pair] = prepared.open_mixture(block['root'], block['vocabulary'], *pair)
        except prepared.NotPrepared as error:
            missing.append((pair, str(error)))
    counts = {(t.name, t.split): t.pass_size for tasks, _ in data.values() for t in tasks}
    for (task, split), count in sorted(counts.items()):
        yield f'  {task:<28} {split:<12} {count:>10,} examples'
    tasks = {task.name: task for prepared_tasks, _ in data.values() for task in prepared_tasks}
    suites = (metrics.Suite(name, task.manifest.get('metrics')) for name, task in tasks.items())
    lacking = dict.fromkeys(line for suite in suites for line in suite.missing())
    yield from (f'TO DO before the first evaluation: {line}' for line in lacking)
    if missing:
        source = f', from the embedded sample corpora in {block["root"]}' if block['sample'] else ''
        yield f'would prepare {len(missing)} of {len(pairs)} splits{source}; {missing[0][1]}'
        splits: dict[str, list[str]] = {}
        for (name, split), _ in missing:
            splits.setdefault(name, []).append(split)
        yield from (f'  {name:<28} {", ".join(listed)}' for name, listed in splits.items())
    return data


def _stages(config: ConfigDict, data: Data, mesh: Mesh) -> Iterator[str]:
    """Steps, and the shapes of batches, which the data's lengths decide where it is there."""
    objective = objectives.build(**config.objective)
    for name, stage in config.stages.items():
        block = config_lib.batches_of(config, name)
        parts = [(part, stage.split) for part in stage.get('curriculum') or ()]
        pairs, length = (*config_lib.stage_pairs(stage), *parts), stage.num_steps
        if isinstance(length, str) or not all(known in data for known in pairs):
            lengths = block['lengths']
            yield f'{name}: {stage.mixture}, split {stage.split}, {epochs.words(length)}'
            yield (
                f'  batches of {block["batch_size"]} rows x at most '
                f'({lengths.get("inputs")} inputs + {lengths.get("targets")} targets)'
            )
            continue
        with stage_batches(config, name, data, mesh, objective.view, prefetch=0) as feed:
            yield from messages.data_table(name, stage, feed, ())


def size_lines(
    config: ConfigDict, data: Data, mesh: Mesh, declared: Mapping[str, Sequence[str]] | None = None
) -> Iterator[str]:
    """Parameters, and what they and the optimizer take of a device's memory.

    `data` is what is prepared; `declared` has the labels of tasks that are not.
    """
    size, source = _vocabulary_size(config, data)
    data = runs.with_shared_labels(data)
    yield from messages.label_notes(data)
    labels = runs.labels_of(data, config.model) if data else []
    own = dict.fromkeys(label for listed in (declared or {}).values() for label in listed)
    if new := [label for label in own if label not in labels]:
        labels = [*labels, *new]
        yield f'{len(labels)} labels in all tasks together: {", ".join(labels)}'
    count = len(labels) or config.model.get('num_labels') or 2
    job = study.Job(config, list(mesh.devices.flat), size, count)
    held = job.state_bytes
    rows = _rows(config, data, job)
    width = job.model.config.emb_dim
    yield messages.parameter_line(job.num_parameters, job.num_trained, rows or ALL_ROWS, width)
    yield f'vocabulary of {size:,} ({source})'
    yield from messages.of_rows(rows or ALL_ROWS)
    if rows is None and config.get('embedding_rows') == 'occurring':
        yield 'of the token table, only rows that occur in the training data are trained'
    gradients = held['parameters'] * job.trained_share
    needed = sum(held.values()) + gradients
    line = (
        f'parameters {quantity(held["parameters"], "B")}, gradients '
        f'{quantity(gradients, "B")} and optimizer state '
        f'{quantity(held["optimizer_state"], "B")} on each device'
    )
    if limit := memory.device(mesh):
        line += f', of {quantity(limit, "B")}'
        if needed > limit:
            line += ': TOO MUCH'
    yield f'{line}; activations not included; see `xlbench plan`'


def _rows(config: ConfigDict, data: Data, job: study.Job) -> Rows | None:
    """The rows of token tables that are trained; None where the data that decides is missing."""
    pairs = (pair for stage in config.stages.values() for pair in config_lib.stage_pairs(stage))
    if not all(pair in data for pair in pairs):
        return None
    vocabulary = tokenizers.load(config.data.vocabulary, config.data.root)
    params = job.state.params
    return trained_vocab_rows(config, data, params, job.mask, job.model.config, vocabulary)


def _vocabulary_size(config: ConfigDict, data: Data) -> tuple[int, str]:
    """(size, where it is known from)."""
    if data:
        return next(iter(data.values()))[0][0].manifest['vocabulary']['size'], 'as prepared'
    spec, root = config.data.vocabulary, config.data.root
    path = spec
    if spec in tokenizers.SAMPLE_FILES:
        path = os.path.join(root, tokenizers.SAMPLE_FILES[spec])
    if spec == tokenizers.BYTES or os.path.exists(os.path.expanduser(path)):
        return tokenizers.load(spec, root).vocab_size, spec
    if config.model.get('vocab_size'):
        return runs.published_vocabulary(config)
    if spec in tokenizers.SAMPLE_SIZES and config.data.sample:
        return tokenizers.SAMPLE_SIZES[spec], 'of the embedded sample corpora'
    if size := config.data.get('vocabulary_size'):
        return size, f'at most; {spec} is made of the training data'
    return runs.published_vocabulary(config)


def download_lines(config: ConfigDict) -> Iterator[str]:
    """Says what would be fetched from the Hugging Face hub."""
    spec, _ = tokenizers.split_spec(config.data.vocabulary)
    vocabulary = tokenizers.HUB_NAMES.get(spec, spec)
    for what, name in (('checkpoint', config.init_from), ('vocabulary', vocabulary)):
        is_path = what == 'vocabulary' and name.endswith(('.model', '.json'))
        if not is_path and hub.is_name(name) and not hub.is_cached(name):
            yield f'to download: {what} {name}, from the Hugging Face hub'
        elif what == 'checkpoint' and name:
            yield f'parameters from {name}'


def workdir_line(workdir: str, begun: bool, finished: bool) -> str:
    """Says how far the workdir of a run or a sweep is: new, begun or finished."""
    state = 'new'
    if finished:
        state = 'finished; its tables would be printed again'
    elif begun:
        steps = checkpoints.steps(workdir)
        state = f'begun; continues{f" from step {max(steps)}" if steps else ""}'
    return f'workdir {workdir}: {state}'
