"""Names of mixtures and splits -> the jobs behind them, and which of these are done already."""

import dataclasses
import os
from collections.abc import Iterator, Sequence

from xlbench import pipeline
from xlbench.data import prepared, tokenizers
from xlbench.pipeline import declarations, registry, seqio_tasks
from xlbench.preparation.jobs import Done, Job, input_paths, opened
from xlbench.system import errors

# Below this many bytes of text, one process is done before others have started.
WORKERS_FROM_BYTES = 256 * 2**20
MAX_DEFAULT_WORKERS = 16  # Each may hold TensorFlow, about 0.7 GB.


@dataclasses.dataclass(frozen=True)
class Size:
    """How much work a job is.

    Attributes:
      bytes: of its files.
      examples: as far as they are known.
    """

    bytes: int
    examples: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """Resolves names to tasks, mixtures and splits.

    Attributes:
      sizes: of each job, in the order of the names, without repetition.
      mixtures: with the splits that all of their tasks have.
    """

    sizes: dict[Job, Size]
    mixtures: list[tuple[declarations.DeclaredMixture, str]]

    @property
    def jobs(self) -> list[Job]:
        """Lists all jobs, each once."""
        return list(self.sizes)


def resolve(mixtures: str | Sequence[str], splits: str | Sequence[str]) -> Plan:
    """The jobs behind names of mixtures or tasks.

    Args:
      mixtures: comma-separated or a sequence; NAME:SPLIT takes that split alone, NAME:SPLIT? those
        of its tasks that have it.
      splits: of the other names, likewise.

    Raises:
      UserError: a name, a split or a file is not there.
    """
    plan = Plan({}, [])
    names, splits = _names(mixtures, 'mixture'), _names(splits, 'split')
    for name in names:
        name, colon, one_split = name.partition(':')
        entry = pipeline.get(name)
        is_mixture, members = declarations.is_mixture(entry), declarations.members(entry)
        for split in [one_split.removesuffix('?')] if colon else splits:
            tasks = members
            if one_split.endswith('?'):
                tasks = [task for task in members if split in task.splits]
            if is_mixture and len(tasks) == len(members):
                plan.mixtures.append((entry, split))
            for task in tasks:
                where = f' (in mixture {name})' if is_mixture else ''
                registry.check_split_of(task, split, where)
                job = Job(task.name, split)
                if job not in plan.sizes:
                    plan.sizes[job] = _size(task, job)
    return plan


def _names(value: str | Sequence[str], what: str) -> list[str]:
    parts = value.split(',') if isinstance(value, str) else list(value)
    names = list(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not names:
        raise errors.UserError(f'no {what} is named; give --{what}=NAME or NAME,NAME')
    return names


def _size(task: pipeline.DeclaredTask, job: Job) -> Size:
    size = sum(os.path.getsize(path) for path in input_paths(job))
    with registry.blaming(task.name):
        count = task.num_input_examples(job.split) or 0
        return Size(size, count * seqio_tasks.draws(task, job.split))


def check_vocabulary(jobs: Sequence[Job]) -> None:
    """UserError for a task that the vocabulary is not for, before any is prepared."""
    for name in dict.fromkeys(job.task for job in jobs):
        with registry.blaming(name):
            seqio_tasks.check(pipeline.get(name), pipeline.tokenizer())


def up_to_date(root: str, vocabulary: str, job: Job) -> Done | None:
    """Returns what is prepared of a job, if it is as it would be made now."""
    manifest = opened(root, vocabulary, job)
    if manifest is None:
        return None
    if manifest.get('unseen'):
        print(
            f'{job} is prepared again: a function reads its data, so that nobody can tell whether '
            'that has changed',
            flush=True,
        )
        return None
    return Done(job, manifest, True)


def num_processes(asked: int | None) -> int:
    """How many processes may work in all; `asked` is what the user wants, if anything."""
    return asked or min(tokenizers.num_threads(), MAX_DEFAULT_WORKERS)


def num_workers(asked: int | None, jobs: Sequence[Job], sizes: dict[Job, Size]) -> int:
    """How many processes work on a job each; `asked` is what the user wants, if anything."""
    large = sum(sizes[job].bytes for job in jobs) >= WORKERS_FROM_BYTES
    workers = num_processes(asked) if asked or large else 1
    return max(min(workers, len(jobs)), 1)


def equal_splits(root: str, vocabulary: str, made: Sequence[Done]) -> Iterator[str]:
    """A line for every two splits of a task that hold the same examples, one of them new."""
    new = {done.job for done in made}
    for name in dict.fromkeys(job.task for job in new):
        same: dict[tuple[str, ...], list[str]] = {}
        for split in pipeline.get(name).splits:
            try:
                task = prepared.open_task(root, vocabulary, name, split)
            except (prepared.NotPrepared, errors.UserError):
                continue
            shards = tuple(shard['sha256'] for shard in task.manifest['shards'])
            same.setdefault(shards, []).append(split)
        for splits in same.values():
            if len(splits) > 1 and any(Job(name, split) in new for split in splits):
                scored = [split for split in splits if 'train' not in split]
                why = '; their scores will be the same' if len(scored) > 1 else ''
                if scored and len(scored) < len(splits):
                    why = f'; a model is scored on {scored[0]} with what it was trained on'
                yield f'WARNING: {name} has the very same examples in {" and ".join(splits)}{why}'
