"""One task and split -> a folder of prepared examples."""

import contextlib
import ctypes
import dataclasses
import functools
import multiprocessing
import os
from collections.abc import Iterator
from concurrent import futures
from multiprocessing.sharedctypes import Synchronized
from typing import Any, NamedTuple

from xlbench import pipeline
from xlbench.benchmarks import languages
from xlbench.data import postprocess, prepared, readers, tokenizers
from xlbench.data.prepared import InputEntry, Manifest
from xlbench.pipeline import late, registry, seqio_tasks
from xlbench.prepare import examples
from xlbench.system import errors
from xlbench.system.work import in_flight


class Job(NamedTuple):
    """One task and split to prepare."""

    task: str
    split: str

    def __str__(self) -> str:
        return f'{self.task}/{self.split}'


@dataclasses.dataclass(frozen=True)
class Done:
    """A prepared job; its text is a line of the summary."""

    job: Job
    manifest: Manifest
    fresh: bool  # It was up to date before.

    def __str__(self) -> str:
        count, draws = self.manifest['num_examples'], self.manifest.get('draws', 1)
        of_each = f' ({count // draws:,} in {draws} draws of noise)' if draws > 1 else ''
        tokens = self.manifest['tokens']
        sizes = ', '.join(
            f'{name} {tokens[name]["total"] / max(count, 1):.1f} tokens on average and '
            f'{tokens[name]["max"]} at most'
            for name in ('inputs', 'targets')
        )
        skipped = len(self.manifest.get('skipped') or [])
        left_out = (self.manifest.get('left_out') or {}).items()
        return (
            f'{self.job}: {count:,} examples{of_each}; {sizes}'
            + (f'; {skipped} bad records skipped' if skipped else '')
            + ''.join(f'; without {number:,} {reason}' for reason, number in left_out)
            + (' (up to date)' if self.fresh else '')
        )


@dataclasses.dataclass(frozen=True)
class Shared:
    """Counters of one run, the same in all its processes."""

    examples: Synchronized  # Read so far.
    skips_left: Synchronized  # Bad records that may still be skipped.

    @classmethod
    def make(cls, skips: int = 0) -> 'Shared':
        """Makes the counters at the start of a run."""
        context = multiprocessing.get_context('spawn')
        return cls(context.Value(ctypes.c_int64, 0), context.Value(ctypes.c_int64, skips))

    def count(self, examples: int) -> None:
        """Adds examples that were read."""
        with self.examples.get_lock():
            self.examples.value += examples

    def allow_skip(self) -> bool:
        """Returns whether one more bad record may be skipped; takes one from what is left."""
        with self.skips_left.get_lock():
            self.skips_left.value -= 1
            return self.skips_left.value >= 0


_shared: Shared  # In a worker process: the counters of its run.


def start_worker(shared: Shared, threads: int) -> None:
    """Takes the counters of a run, and the threads of the tokenizer, in a worker process."""
    global _shared
    _shared = shared
    tokenizers.limit_threads(threads)


# ---------------------------------------------------------------------------------------------
# What a job is made from.


@functools.lru_cache(maxsize=1024)
def _sha256(path: str, size: int, mtime_ns: int) -> str:
    """Hashes a file once for all tasks that read it; size and time tell its versions apart."""
    return readers.sha256(path)


def input_stamp(path: str, root: str) -> InputEntry:
    """Returns what tells versions of a file apart without reading it."""
    status = os.stat(path)
    name = _relative(path, root)
    return {'path': name, 'bytes': status.st_size, 'mtime_ns': status.st_mtime_ns}


def input_entry(path: str, root: str) -> InputEntry:
    """Describes a file as the manifest lists it."""
    stamp = input_stamp(path, root)
    return stamp | {'sha256': _sha256(path, stamp['bytes'], stamp['mtime_ns'])}


def _relative(path: str, root: str) -> str:
    """Takes the root off a path below it, so that the root can move; others are absolute."""
    path, root = os.path.abspath(path), os.path.abspath(root)
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def input_paths(job: Job) -> list[str]:
    """Lists the files that a job is made from; UserError if one is missing."""
    task = registry.task(job.task)
    with registry.blaming(task.name):
        paths, _ = seqio_tasks.source_files(task, job.split)
    # A task file of the user's own is no part of the code's fingerprint.
    task_file = registry.user_task_file(task.name)
    return [*paths, *seqio_tasks.vocabulary_paths(task), *([task_file] if task_file else [])]


# ---------------------------------------------------------------------------------------------
# Its manifest.


def manifest_of(job: Job, root: str, inputs: list[InputEntry]) -> Any:
    """Returns what a Manifest has before reading; `inputs` are the `input_entry` of the files."""
    tokenizer = pipeline.tokenizer()
    task, split = registry.task(job.task), job.split
    _, patterns = seqio_tasks.source_files(task, split)
    is_sample = os.path.isfile(os.path.join(root, 'SAMPLE.json'))
    draws = task.source.draws(split) if isinstance(task.source, pipeline.RecordSource) else 1
    return {
        'task': task.name,
        'split': split,
        'splits': list(task.splits),
        **pipeline.described(job.task),
        'labels': list(pipeline.labels(task)),  # Of targets that are labels: id = place.
        'features': {
            name: {'pad_id': tokenizer.pad_id, 'eos_id': tokenizer.eos_id}
            for name in task.output_features
        },
        'vocabulary': tokenizer.manifest(),
        'answer_mark': tokenizer.answer_mark(),
        **({'segment_marks': tokenizer.segment_marks()} if registry.has_views(task) else {}),
        'source_lang': getattr(task.source, 'source_lang', None),
        'languages': languages.registered(
            getattr(task.source, f'{side}_lang', None) for side in ('source', 'target')
        ),
        'inputs': inputs,
        'patterns': [_relative(path, root) for path in patterns],
        # A function reads what nobody can compare with what it read before.
        'unseen': not seqio_tasks.is_visible(task),
        'postprocessor': postprocess.entry(task.postprocessor),
        'data': 'sample' if is_sample else 'files',
        'skipped': [],
        'left_out': {},
    } | ({'draws': draws} if draws > 1 else {})


def complete(
    manifest: dict[str, Any], job: Job, root: str, num_examples: int, policy: readers.BadRecords
) -> None:
    """Adds the records that were skipped or left out; UserError if the job cannot be used."""
    if not num_examples:
        paths, _ = seqio_tasks.source_files(registry.task(job.task), job.split)
        place = f', in {paths[0]}{" and others" if paths[1:] else ""}' if paths else ''
        raise errors.UserError(f'{job} has no usable examples{place}')
    read = [{k: v for k, v in entry.items() if k != 'sha256'} for entry in manifest['inputs']]
    changed = ''
    if path := registry.edited_task_file(job.task):
        changed = f'{path} was edited after this program had read it'
    elif read != [input_stamp(path, root) for path in input_paths(job)]:
        changed = f'the files of {job} changed while they were read'
    if changed:
        raise errors.UserError(f'{changed}; start the same command again')
    manifest['skipped'] += [
        {'path': _relative(bad.path, root), 'line': bad.line, 'reason': bad.reason}
        for bad in policy.skipped
    ]
    manifest['left_out'] |= dict(sorted(policy.left_out.items()))


# ---------------------------------------------------------------------------------------------
# Doing it.


def made_before(root: str, vocabulary: str, job: Job) -> Done | None:
    """Opens a prepared job; None if it is missing, stale or of another vocabulary."""
    try:
        manifest = prepared.open_task(root, vocabulary, *job).manifest
    except prepared.NotPrepared:
        return None
    # Another vocabulary of the same name may have been there.
    is_same = manifest['vocabulary'] == pipeline.tokenizer().manifest()
    return Done(job, manifest, True) if is_same else None


def just_made(root: str, vocabulary: str, job: Job) -> Done:
    """Opens a job that this process has prepared; UserError if it is stale already."""
    try:
        return Done(job, prepared.open_task(root, vocabulary, *job).manifest, False)
    except prepared.NotPrepared as error:  # Whoever edits a file does not wait for us.
        raise prepared.stale_at_once(error) from None


@contextlib.contextmanager
def alone(root: str, vocabulary: str, job: Job, force: bool) -> Iterator[Done | None]:
    """Holds a job in this block; gives what another process has made of it since this one looked.

    That is None where there is nothing, or with `force`.
    """
    with prepared.alone(prepared.folder(root, vocabulary, *job)) as waited:
        done = None if force else made_before(root, vocabulary, job)
        # What a function reads is prepared again each time; after a wait that has just been done.
        yield None if done and done.manifest.get('unseen') and not waited else done


# Of less text, other processes would learn the same words, and the job would soon be done.
ENCODERS_FROM_BYTES = 128 * 2**20


def prepare_one(
    job: Job,
    shared: Shared | None = None,
    *,
    root: str,
    vocabulary: str,
    force: bool = False,
    encoders: int = 1,
) -> Done:
    """Prepares one task and split, or takes what another process has prepared in the meantime.

    The counters of the run are by default those of `start_worker`. With `force` it is made in any
    case. Of a large job, as many processes as `encoders` may tokenise.
    """
    try:
        with (
            pipeline.bound(vocabulary, root),
            registry.blaming(job.task),
            alone(root, vocabulary, job, force) as there,
        ):
            return there or _prepare_one(job, shared or _shared, root, vocabulary, encoders)
    except OSError as error:  # A full disk, a folder that is not ours.
        trouble = errors.storage_trouble(error)
        said = f'{trouble.reason}; {trouble.advice}' if trouble else error
        raise errors.UserError(f'{job} cannot be prepared: {said}') from error


def _prepare_one(job: Job, shared: Shared, root: str, vocabulary: str, encoders: int) -> Done:
    manifest = manifest_of(job, root, [input_entry(p, root) for p in input_paths(job)])
    policy = readers.BadRecords(shared.allow_skip)
    place = prepared.folder(root, vocabulary, *job)
    with (
        prepared.Writer(place, manifest=manifest) as writer,
        futures.ThreadPoolExecutor(1) as thread,
    ):
        total = 0
        if sum(entry['bytes'] for entry in manifest['inputs']) < ENCODERS_FROM_BYTES:
            encoders = 1
        with reading(job, policy):
            batches = examples.examples(registry.task(job.task), job.split, encoders)
            # What is read and tokenised next, partly outside Python's lock, comes while one writes.
            for batch, written in in_flight(
                batches, lambda batch: thread.submit(writer.write_packed, batch), depth=1
            ):
                written.result()
                total += len(batch)
                shared.count(len(batch))
        complete(manifest, job, root, total, policy)
    return just_made(root, vocabulary, job)


@contextlib.contextmanager
def reading(job: Job, policy: readers.BadRecords) -> Iterator[None]:
    """Reads the records of a job in this block; what is wrong with them becomes a UserError."""
    try:
        with pipeline.bad_records(policy):
            yield
    except Exception as error:
        if not late.is_tensorflow_error(error):
            raise
        if policy.error is not None:
            raise policy.error from None
        said = errors.printable(getattr(error, 'message', error), 300)
        raise errors.UserError(f'{job} cannot be read: {said}') from error
