"""Prepares every task of mixtures, in this process, in several, or elsewhere.

Which tasks these are, which of them are done already, and a new vocabulary from their texts.
"""

import functools
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from xlbench import pipeline
from xlbench.data import prepared, tokenizers
from xlbench.pipeline import registry, seqio_tasks
from xlbench.prepare import examples as examples_lib, jobs as jobs_lib
from xlbench.prepare.jobs import Done, Job, Shared
from xlbench.system import errors, files, locks
from xlbench.system.progress import Progress
from xlbench.system.work import Pool

# Below this many bytes of text, one process is done before others have started.
WORKERS_FROM_BYTES = 256 * 2**20
MAX_DEFAULT_WORKERS = 16  # Each may hold TensorFlow, about 0.7 GB.
_MOST_EXAMPLES = 10_000_000  # Of a vocabulary; their texts are held in memory.


class Size(NamedTuple):
    """The amount of work of a job."""

    bytes: int  # Of its files.
    examples: int  # As far as they are known.


def resolve(
    mixtures: str | Sequence[str], splits: str | Sequence[str]
) -> tuple[dict[Job, Size], list[tuple[registry.DeclaredMixture, str]]]:
    """Resolves names of mixtures or tasks.

    Both are comma-separated or a sequence; NAME:SPLIT takes that split alone, NAME:SPLIT? those of
    its tasks that have it.

    Returns:
      The jobs in the order of the names; the mixtures, with the splits that all of their tasks
      have.

    Raises:
      UserError: a name, a split or a file is not there.
    """
    sizes: dict[Job, Size] = {}
    whole: list[tuple[registry.DeclaredMixture, str]] = []
    names, splits = _names(mixtures, 'mixture'), _names(splits, 'split')
    for name in names:
        name, colon, one_split = name.partition(':')
        entry = pipeline.get(name)
        members = registry.members(entry)
        for split in [one_split.removesuffix('?')] if colon else splits:
            tasks = members
            if one_split.endswith('?'):
                tasks = [task for task in members if split in task.splits]
            if registry.is_mixture(entry) and len(tasks) == len(members):
                whole.append((entry, split))
            for task in tasks:
                where = f' (in mixture {name})' if task is not entry else ''
                registry.check_split_of(task, split, where)
                job = Job(task.name, split)
                if job not in sizes:
                    sizes[job] = _size(task, job)
    return sizes, whole


def _names(value: str | Sequence[str], what: str) -> list[str]:
    parts = value.split(',') if isinstance(value, str) else list(value)
    names = list(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not names:
        raise errors.UserError(f'no {what} is named; give --{what}=NAME or NAME,NAME')
    return names


def _size(task: pipeline.DeclaredTask, job: Job) -> Size:
    size = sum(os.path.getsize(path) for path in jobs_lib.input_paths(job))
    with registry.blaming(task.name):
        count = task.num_input_examples(job.split) or 0
        ours = isinstance(task.source, pipeline.RecordSource)
        return Size(size, count * (task.source.draws(job.split) if ours else 1))


def up_to_date(root: str, vocabulary: str, job: Job) -> Done | None:
    """Returns what is prepared of a job, if it is as it would be made now."""
    done = jobs_lib.made_before(root, vocabulary, job)
    if done and done.manifest.get('unseen'):
        print(
            f'{job} is prepared again: a function reads its data, so that nobody can tell whether '
            'that has changed',
            flush=True,
        )
        return None
    return done


def num_processes(asked: int | None) -> int:
    """Chooses the number of processes in all; `asked` is the user's wish, if there is one."""
    return asked or min(tokenizers.num_threads(), MAX_DEFAULT_WORKERS)


def num_workers(asked: int | None, jobs: Sequence[Job], sizes: Mapping[Job, Size]) -> int:
    """Chooses the number of processes for each job; `asked` is the user's wish, if there is one."""
    large = sum(sizes[job].bytes for job in jobs) >= WORKERS_FROM_BYTES
    workers = num_processes(asked) if asked or large else 1
    return max(min(workers, len(jobs)), 1)


def equal_splits(root: str, vocabulary: str, made: Sequence[Done]) -> Iterator[str]:
    """Yields a line for all splits of a task that hold the same examples, one of them new."""
    new = {done.job for done in made}
    for name in dict.fromkeys(job.task for job in new):
        same: dict[tuple[str, ...], list[str]] = {}
        for split in registry.task(name).splits:
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


def prepare(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    *,
    root: str,
    vocabulary: str,
    skip_bad: int = 0,
    workers: int | None = None,
    force: bool = False,
    elsewhere: Callable[[Sequence[Job]], Iterable[Done]] | None = None,
) -> list[Done]:
    """Prepares every task of some mixtures (or tasks) on some splits.

    Args:
      mixtures, splits: see `resolve`.
      root, vocabulary: the data root; see xlbench/data/tokenizers.
      skip_bad: how many bad records may be skipped in the whole run.
      workers: processes; by default one for each core, and none beside this one for small data.
      force: also make what is up to date.
      elsewhere: prepares jobs in another way than in processes of this machine, and yields the
        results.

    Returns:
      What is prepared now, up-to-date tasks included, in the order of the names.
    """
    if skip_bad < 0 or (workers is not None and workers < 1):
        raise errors.UserError('--skip_bad must be 0 or more, and --workers 1 or more')
    started = time.monotonic()
    with pipeline.bound(vocabulary, root):
        sizes, whole = resolve(mixtures, splits)
        for name in dict.fromkeys(job.task for job in sizes):  # Before any is prepared.
            with registry.blaming(name):
                seqio_tasks.check(registry.task(name), pipeline.tokenizer())
        fresh = {} if force else {job: up_to_date(root, vocabulary, job) for job in sizes}
        results = {job: done for job, done in fresh.items() if done}
        # Large ones first, so that no worker begins the largest when the others are done.
        todo = [job for job in sizes if job not in results]
        todo.sort(key=lambda job: -sizes[job].bytes)
        encoders = num_processes(workers)
        workers = num_workers(workers, todo, sizes)
        encoders //= workers
        shared = Shared.make(skip_bad)
        total = sum(sizes[job].examples for job in todo)
        count = functools.partial(getattr, shared.examples, 'value')
        work = functools.partial(
            jobs_lib.prepare_one, root=root, vocabulary=vocabulary, force=force, encoders=encoders
        )
        own = shared if workers == 1 else None  # Others get it when they start.
        pool = Pool(workers, jobs_lib.start_worker, shared, tokenizers.num_threads() // workers)
        with Progress('prepared', total, 'examples', count=count, active=not elsewhere):
            for done in results.values():
                print(done, flush=True)
            with pool:
                local = pool.run(work, ((job, own) for job in todo))
                for done in elsewhere(todo) if elsewhere else local:
                    results[done.job] = done
                    print(done, flush=True)
                    for bad in done.manifest['skipped'] or ():
                        place = f'{bad["path"]}:{bad["line"]}' if bad['line'] else bad['path']
                        print(f'  skipped {place}: {bad["reason"]}', flush=True)
            for mixture, split in whole:
                rates = pipeline.mixture_rates(mixture, split)
                prepared.write_mixture(root, vocabulary, mixture.name, split, rates)
            for line in equal_splits(root, vocabulary, [results[job] for job in todo]):
                print(line, flush=True)
    made = [results[job] for job in sizes]
    new = [done for done in made if not done.fresh]
    examples = sum(done.manifest['num_examples'] for done in new)
    means = 'Beam' if elsewhere else f'{workers} process{"es" if workers > 1 else ""}'
    print(
        f'{len(new)} prepared, {len(made) - len(new)} were up to date: {examples:,} examples in '
        f'{time.monotonic() - started:.1f} s with {means} -> '
        + os.path.join(root, 'prepared', prepared.vocabulary_folder(vocabulary)),
        flush=True,
    )
    return made


def make_vocabulary(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    path: str,
    *,
    root: str,
    size: int,
    model_type: str = 'unigram',
    if_missing: bool = False,
) -> None:
    """Trains a SentencePiece vocabulary on the texts of tasks, see `resolve`, into a new file.

    Its `size` is the most pieces, and its type 'unigram' or 'bpe'. A file that exists is a
    UserError, or is kept with `if_missing`.
    """
    if not 0 < size < 2**31:
        raise errors.UserError(f'--vocabulary_size is {size}; give a number of pieces like 8000')
    with locks.file(path, wait=functools.partial(print, flush=True)):
        if os.path.exists(path):
            if not if_missing:
                raise errors.UserError(
                    f'{path} exists and is kept; name another --new_vocabulary, or go on with this '
                    'one: --if_missing'
                )
            print(f'{path} is there already', flush=True)
            return
        with pipeline.bound(None, root):
            sizes, _ = resolve(mixtures, splits)
            tasks = {job: registry.task(job.task) for job in sizes}
            # More texts make no better vocabulary: an even share of them, the same each time.
            share = 1 + sum(size.examples for size in sizes.values()) // _MOST_EXAMPLES
            langs = {
                lang
                for task in tasks.values()
                for side in ('source_lang', 'target_lang')
                if (lang := getattr(task.source, side, None))
            }
            # The same text stands in many tasks, such as one for each target language.
            lines = dict.fromkeys(
                text
                for job, task in tasks.items()
                for text in examples_lib.texts(task, job.split)
                if share == 1 or zlib.crc32(text.encode()) % share == 0
            )
        symbols = [*(f'<{lang}>' for lang in sorted(langs)), pipeline.ANSWER_SEPARATOR.strip()]
        # BPE is for texts that stay as they are, as in arXiv:1508.07909.
        normalization = 'identity' if model_type == 'bpe' else 'nmt_nfkc'
        model = tokenizers.train_sentencepiece(
            lines, size=size, symbols=symbols, model_type=model_type, normalization=normalization
        )
        files.write(path, model)
        print(f'a vocabulary of at most {size} pieces from {len(lines):,} texts -> {path}')
