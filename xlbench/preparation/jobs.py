"""One task and split -> a folder of prepared examples."""

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from multiprocessing.sharedctypes import Synchronized

from xlbench import pipeline
from xlbench.benchmarks import languages
from xlbench.data import postprocess, prepared, readers, tokenizers
from xlbench.data.prepared import InputEntry, Manifest, SkippedEntry
from xlbench.pipeline import declarations, late, registry, scoring, seqio_tasks
from xlbench.preparation import encoding, examples
from xlbench.system import errors
from xlbench.system.work import in_flight


@dataclasses.dataclass(frozen=True)
class Job:
    """One task and split to prepare."""

    task: str
    split: str

    def __str__(self) -> str:
        return f'{self.task}/{self.split}'


@dataclasses.dataclass(frozen=True)
class Done:
    """A prepared job, as the summary tells it."""

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
    """Counters of one run, the same in all its processes.

    Attributes:
      examples: read so far.
      skips_left: how many bad records may still be skipped.
    """

    examples: Synchronized
    skips_left: Synchronized

    @classmethod
    def make(cls, skips: int = 0) -> 'Shared':
        """Counters at the start of a run."""
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


_shared: Shared | None = None  # In a worker process: the counters of its run.


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
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def input_stamp(path: str, root: str) -> InputEntry:
    """Returns what tells versions of a file apart without reading it."""
    status = os.stat(path)
    name = _relative(path, root)
    return {'path': name, 'bytes': status.st_size, 'mtime_ns': status.st_mtime_ns}


def input_entry(path: str, root: str) -> InputEntry:
    """A file, as the manifest lists it."""
    stamp = input_stamp(path, root)
    return stamp | {'sha256': _sha256(path, stamp['bytes'], stamp['mtime_ns'])}


def _relative(path: str, root: str) -> str:
    """A path below the root without it, so that the root can move; others are absolute."""
    path, root = os.path.abspath(path), os.path.abspath(root)
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def input_paths(job: Job) -> list[str]:
    """The files a job is made from; UserError if one is missing."""
    task = pipeline.get(job.task)
    with registry.blaming(task.name):
        paths = seqio_tasks.source_paths(task, job.split)
    # A task file of the user's own is no part of the code's fingerprint.
    task_file = registry.user_task_file(task.name)
    return [*paths, *seqio_tasks.vocabulary_paths(task), *([task_file] if task_file else [])]


# ---------------------------------------------------------------------------------------------
# Its manifest.


def manifest_of(job: Job, root: str, inputs: list[InputEntry]) -> Manifest:
    """Returns what is known before reading; `inputs` are the `input_entry` of the files."""
    tokenizer = pipeline.tokenizer()
    task, split = pipeline.get(job.task), job.split
    patterns = seqio_tasks.source_patterns(task, split)
    is_sample = os.path.isfile(os.path.join(root, 'SAMPLE.json'))
    draws = seqio_tasks.draws(task, split)
    return {
        'task': task.name,
        'split': split,
        'splits': list(task.splits),
        'view': pipeline.view(task),
        'labels': list(pipeline.labels(task)),  # Of targets that are labels: id = place.
        'features': {
            name: {'pad_id': tokenizer.pad_id, 'eos_id': tokenizer.eos_id}
            for name in task.output_features
        },
        'vocabulary': tokenizer.manifest(),
        'answer_mark': tokenizer.answer_mark(),
        **({'segment_marks': tokenizer.segment_marks()} if declarations.has_views(task) else {}),
        'source_lang': getattr(task.source, 'source_lang', None),
        'target_lang': getattr(task.source, 'target_lang', None),
        'languages': languages.registered(
            getattr(task.source, f'{side}_lang', None) for side in ('source', 'target')
        ),
        'headline': pipeline.headline(task),
        'metrics': scoring.metric_specs(task),
        'inputs': inputs,
        'patterns': [_relative(path, root) for path in patterns],
        # A function reads what nobody can compare with what it read before.
        'unseen': not seqio_tasks.is_visible(task),
        'postprocessor': postprocess.entry(task.postprocessor),
        'data': 'sample' if is_sample else 'files',
        'skipped': [],
        'left_out': {},
    } | ({'draws': draws} if draws > 1 else {})


def skipped_entry(bad: readers.BadRecord, root: str) -> SkippedEntry:
    """A bad record, as the manifest lists it."""
    return {'path': _relative(bad.path, root), 'line': bad.line, 'reason': bad.reason}


def complete(
    manifest: Manifest,
    job: Job,
    root: str,
    num_examples: int,
    skipped: Sequence[SkippedEntry],
    left_out: Mapping[str, int],
) -> None:
    """Adds to the manifest what reading a job has shown; UserError if it cannot be used."""
    if not num_examples:
        paths = seqio_tasks.source_paths(pipeline.get(job.task), job.split)
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
    manifest['skipped'] += skipped
    manifest['left_out'] |= dict(sorted(left_out.items()))


# ---------------------------------------------------------------------------------------------
# Doing it.


def opened(root: str, vocabulary: str, job: Job) -> Manifest | None:
    """The manifest of what is prepared of a job; None if it is stale or of another vocabulary."""
    try:
        manifest = prepared.open_task(root, vocabulary, job.task, job.split).manifest
    except prepared.NotPrepared:
        return None
    # Another vocabulary of the same name may have been there.
    return manifest if manifest['vocabulary'] == pipeline.tokenizer().manifest() else None


def just_made(root: str, vocabulary: str, job: Job) -> Done:
    """A job that this process has prepared; UserError if it is stale already."""
    try:
        return Done(job, prepared.open_task(root, vocabulary, job.task, job.split).manifest, False)
    except prepared.NotPrepared as error:  # Whoever edits a file does not wait for us.
        raise prepared.stale_at_once(error) from None


def made_meanwhile(root: str, vocabulary: str, job: Job, waited: bool) -> Done | None:
    """Returns what another process has made of a job since this one looked; None if it has not.

    Args:
      root: the data root.
      vocabulary: see xlbench/data/tokenizers.
      job: whose preparation this process holds, see `prepared.alone`.
      waited: whether it has waited for another process before.
    """
    manifest = opened(root, vocabulary, job)
    if manifest is None:
        return None
    # What a function reads is prepared again each time; that has just been done.
    return None if manifest.get('unseen') and not waited else Done(job, manifest, True)


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

    Args:
      job: what to prepare.
      shared: the counters of the run; by default those of `start_worker`.
      root: the data root.
      vocabulary: see xlbench/data/tokenizers.
      force: make it in any case.
      encoders: processes that may tokenise, if the job is large.
    """
    place = prepared.folder(root, vocabulary, job.task, job.split)
    try:
        with (
            pipeline.bound(vocabulary, root),
            registry.blaming(job.task),
            prepared.alone(place) as waited,
        ):
            there = None if force else made_meanwhile(root, vocabulary, job, waited)
            return there or _prepare_one(job, shared or _shared, root, vocabulary, encoders)
    except OSError as error:  # A full disk, a folder that is not ours.
        said = error
        if trouble := errors.storage_trouble(error):
            said = f'{trouble.reason}; {trouble.advice}'
        raise errors.UserError(f'{job} cannot be prepared: {said}') from error


def _prepare_one(job: Job, shared: Shared, root: str, vocabulary: str, encoders: int) -> Done:
    manifest = manifest_of(job, root, [input_entry(p, root) for p in input_paths(job)])
    policy = readers.BadRecords(shared.allow_skip)
    place = prepared.folder(root, vocabulary, job.task, job.split)
    with (
        prepared.Writer(place, manifest=manifest) as writer,
        futures.ThreadPoolExecutor(1) as thread,
    ):
        total = 0
        if sum(entry['bytes'] for entry in manifest['inputs']) < ENCODERS_FROM_BYTES:
            encoders = 1
        with reading(job, policy):
            batches = _packed(job, root, vocabulary, encoders)
            # What is read and tokenised next, partly outside Python's lock, comes while one writes.
            write = functools.partial(thread.submit, writer.write_packed)
            for batch, written in in_flight(batches, write, depth=1):
                written.result()
                total += len(batch)
                shared.count(len(batch))
        skipped = [skipped_entry(bad, root) for bad in policy.skipped]
        complete(manifest, job, root, total, skipped, policy.left_out)
    return just_made(root, vocabulary, job)


def _packed(job: Job, root: str, vocabulary: str, encoders: int) -> Iterator[prepared.Packed]:
    task = pipeline.get(job.task)
    encoded = examples.encoded_texts(task, job.split)
    if encoded is None:
        return map(prepared.pack, examples.examples(task, job.split))
    if encoders > 1 and not pipeline.tokenizer().uses_cores:
        return encoding.pack_elsewhere(*encoded, encoders, vocabulary, root)
    return encoding.pack_beside(*encoded, pipeline.tokenizer())


@contextlib.contextmanager
def reading(job: Job, policy: readers.BadRecords) -> Iterator[None]:
    """Records of a job are read in this block; what is wrong with them becomes a UserError."""
    try:
        with pipeline.bad_records(policy):
            yield
    except Exception as error:
        if not late.is_tensorflow_error(error):
            raise
        if policy.error is not None:
            raise policy.error from None
        said = ' '.join(str(getattr(error, 'message', error)).split())[:300]
        raise errors.UserError(f'{job} cannot be read: {said}') from error
