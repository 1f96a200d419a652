r"""Prepares tasks for training: runs their SeqIO pipeline once and writes token ids to disk.

  python -m xlbench.prepare --sample --mixture=mtg_multi_qg
  python -m xlbench.prepare --mixture=mtg_cross_qg_en,mtg_qg_en_en --split=train,validation \
      --root=/data --vocabulary=mt5

What is up to date is left as it is, so the same command goes on after an interruption. A record
that cannot be used stops it with `file:line: reason`. What another process is preparing is waited
for and used, so that any number of runs may start at once on the same data.
"""

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import numpy as np

from xlbench import errors, files, locks, machine, names
from xlbench.benchmarks import languages
from xlbench.data import prepared, readers, tokenizers
from xlbench.in_flight import in_flight
from xlbench.preparation import workers as workers_lib
from xlbench.progress import Progress

BATCH = 1024  # Examples for one call of the tokenizer.
# Below this many bytes of text, one process is done before others have imported TensorFlow.
WORKERS_FROM_BYTES = 256 * 2**20
MAX_DEFAULT_WORKERS = 16  # Each holds TensorFlow, about 0.7 GB.
SAMPLES = ('mtg', 'mrs', 'labels')  # Modules of tasks/samples.


def load_pipeline() -> Any:
    """xlbench.pipeline. Imported late: TensorFlow takes seconds that --help need not wait for."""
    if 'xlbench.pipeline' not in sys.modules:
        from absl import logging

        logging.set_verbosity(logging.ERROR)  # SeqIO warns about each uncached task.
        with _hidden_stderr():
            importlib.import_module('xlbench.pipeline')
    return sys.modules['xlbench.pipeline']


@contextlib.contextmanager
def _hidden_stderr() -> Iterator[None]:
    """Keeps back what is written to standard error, and shows it only if the block fails.

    TensorFlow's C++ code speaks about CUDA and oneDNN before it has read its log level.
    """
    with tempfile.TemporaryFile() as hidden:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except BaseException:
            hidden.seek(0)
            os.write(saved, hidden.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)


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
    manifest: dict[str, Any]
    fresh: bool  # It was up to date before.

    def __str__(self) -> str:
        count = self.manifest['num_examples']
        tokens = self.manifest['tokens']
        sizes = ', '.join(
            f'{name} {tokens[name]["total"] / max(count, 1):.1f} tokens on average and '
            f'{tokens[name]["max"]} at most'
            for name in ('inputs', 'targets')
        )
        skipped = len(self.manifest.get('skipped') or [])
        left_out = (self.manifest.get('left_out') or {}).items()
        return (
            f'{self.job}: {count:,} examples; {sizes}'
            + (f'; {skipped} bad records skipped' if skipped else '')
            + ''.join(f'; without {number:,} {reason}' for reason, number in left_out)
            + (' (up to date)' if self.fresh else '')
        )


# ---------------------------------------------------------------------------------------------
# One task and split -> records.


def text_steps(task: Any) -> tuple[list[Callable[..., Any]], dict[str, Any]] | None:
    """The preprocessors before tokenisation, if only prefix and eos come after it.

    Such a task can be tokenised in large batches, with the result of SeqIO's own pipeline; another
    gets None and goes through SeqIO's.

    Returns:
      The preprocessors, and what `pipeline.add_prefix` is told; nothing without it.
    """
    import seqio

    pipeline = load_pipeline()
    steps = [s for s in task.preprocessors if not isinstance(s, seqio.CacheDatasetPlaceholder)]
    sides = {name: pipeline.vocabulary(name) for name in ('inputs', 'targets')}
    ends = (seqio.preprocessors.append_eos_after_trim, seqio.preprocessors.append_eos)
    plain = all(
        type(feature) is seqio.Feature
        and name in sides
        and any(feature.vocabulary is ours for ours in sides.values())
        and (feature.rank, feature.dtype.name) == (1, 'int32')
        for name, feature in task.output_features.items()
    )
    if not plain or not steps or steps[-1] not in ends:
        return None
    steps, told = steps[:-1], {}
    if steps and steps[-1] is pipeline.cut_passage:  # Examples are prepared whole.
        steps.pop()
    if steps and getattr(steps[-1], 'func', None) is pipeline.add_prefix:
        told = steps.pop().keywords
        if set(told) - {'view'} != {'source_lang', 'target_lang'}:
            return None
    if not steps or steps[-1] is not seqio.preprocessors.tokenize:
        return None
    return steps[:-1], told


def _on_batches(task: Any, steps: list[Callable[..., Any]]) -> bool:
    """Whether steps make one text of each record, for a whole batch at once."""
    pipeline = load_pipeline()
    return isinstance(task.source, pipeline.RecordSource) and all(
        pipeline.works_on_batches(step) for step in steps
    )


def _text_dataset(
    task: Any, split: str, steps: list[Callable[..., Any]], batches: Any = None
) -> Any:
    """The texts of a task, in batches; None if they are not plain texts by then.

    Args:
      task: a SeqIO task.
      split: one of its splits.
      steps: see `text_steps`.
      batches: a dataset of batches of its records, where `_on_batches`; by default all of them.
    """
    import seqio
    import tensorflow as tf

    batched = _on_batches(task, steps)
    if batches is not None:
        dataset = batches
    elif batched:
        dataset = task.source.batches(split)
    else:
        dataset = task.source.get_dataset(split=split, shuffle=False)
    for step in steps:
        step = seqio.utils.add_kwargs_to_transform(
            step, sequence_length=None, output_features=task.output_features
        )
        dataset = step(dataset)
    dataset = dataset if batched else dataset.batch(BATCH)
    spec = dataset.element_spec
    texts = isinstance(spec, dict) and all(
        isinstance(s, tf.TensorSpec) and s.dtype == tf.string and s.shape.rank == 1
        for s in spec.values()
    )
    if not texts or not set(task.output_features) <= set(spec):
        return None
    return dataset.prefetch(4)


def _fast_records(
    task: Any, dataset: Any, prefixes: Mapping[str, np.ndarray]
) -> Iterator[list[dict[str, Any]]]:
    """Tokenises batches of texts; `prefixes` stand before the ids of a feature."""
    pipeline = load_pipeline()
    tokenizer = pipeline.tokenizer()
    eos = np.array([tokenizer.eos_id], np.int32)
    none = np.zeros(0, np.int32)
    for batch in dataset.as_numpy_iterator():
        columns: dict[str, list[Any]] = {}
        for name, values in batch.items():
            texts = [value.decode() for value in values.tolist()]
            feature = task.output_features.get(name)
            if feature is None:
                columns[name] = texts
                continue
            ends = prefixes.get(name, none), eos if feature.add_eos else none
            target = feature.vocabulary is pipeline.vocabulary('targets')
            ids = tokenizer.encode_batch(texts, target)
            columns[name] = [np.concatenate((ends[0], row, ends[1])) for row in ids]
            columns[f'{name}_pretokenized'] = texts
        names = tuple(columns)
        yield [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _seqio_records(task: Any, split: str) -> Iterator[list[dict[str, Any]]]:
    """The examples of SeqIO's own pipeline."""
    from xlbench.pipeline import seqio_tasks

    dataset = task.get_dataset(
        sequence_length=None, split=split, shuffle=False, try_in_mem_cache=False
    )
    records = []
    for example in dataset.as_numpy_iterator():
        record = {}
        for name, value in example.items():
            if isinstance(value, bytes):
                record[name] = value.decode()
            elif name in task.output_features:
                record[name] = value
            elif np.ndim(value) == 0 and not isinstance(value, dict):
                record[name] = str(value)
        records.append(seqio_tasks.complete_record(task, example, record))
        if len(records) == BATCH:
            yield records
            records = []
    if records:
        yield records


def _label_step(task: Any) -> dict[str, Any] | None:
    """What `pipeline.encode_labelled` is told, if it is all that a task does with its records."""
    import seqio

    pipeline = load_pipeline()
    steps = [s for s in task.preprocessors if not isinstance(s, seqio.CacheDatasetPlaceholder)]
    alone = len(steps) == 1 and getattr(steps[0], 'func', None) is pipeline.encode_labelled
    return steps[0].keywords if alone and isinstance(task.source, pipeline.RecordSource) else None


def source_records(
    task: Any, split: str, paths: Sequence[str] | None = None
) -> Iterator[list[dict[str, str]]]:
    """The records of a RecordSource as it reads them, of all its files or of a part of them."""
    paths = task.source.paths(split) if paths is None else paths
    for chunk in task.source.chunks(split, paths):
        yield [dict(zip(chunk, row, strict=True)) for row in zip(*chunk.values(), strict=True)]


def _labelled(
    told: Mapping[str, Any], batches: Iterable[list[dict[str, str]]]
) -> Iterator[list[dict[str, Any]]]:
    """Batches of records -> batches of examples, by what `pipeline.encode_labelled` is told."""
    encode, keep = told['encoder'](), told.get('keep', ())
    for batch in batches:
        yield [{name: record[name] for name in keep} | encode(record) for record in batch]


def encoder(task: Any, split: str) -> Callable[[Sequence[dict[str, str]]], Any] | None:
    """Encodes any run of a task's `source_records`, one example for each, as `records` does.

    Returns:
      Records -> batches of examples; None for a task whose steps may look at several records.
    """
    import tensorflow as tf

    told = _label_step(task)
    if told is not None:
        return lambda rows: _labelled(told, [rows])
    steps, told = text_steps(task) or (None, {})
    if steps is None or not _on_batches(task, steps) or _text_dataset(task, split, steps) is None:
        return None
    spec = task.source.batches(split).element_spec

    def encode(rows: Sequence[dict[str, str]]) -> Iterator[list[dict[str, Any]]]:
        columns = (
            {name: [row[name] for row in rows[start : start + BATCH]] for name in spec}
            for start in range(0, len(rows), BATCH)
        )
        batches = tf.data.Dataset.from_generator(lambda: columns, output_signature=spec)
        prefixes = load_pipeline().prefixes(**told) if told else {}
        yield from _fast_records(task, _text_dataset(task, split, steps, batches), prefixes)

    return encode


def records(task: Any, split: str) -> Iterator[list[dict[str, Any]]]:
    """The examples of a task and split in order, in batches; ids end in eos and are not cut."""
    told = _label_step(task)
    if told is not None:  # One by one, without TensorFlow in between.
        yield from _labelled(told, source_records(task, split))
        return
    steps, told = text_steps(task) or (None, {})
    dataset = None if steps is None else _text_dataset(task, split, steps)
    if dataset is None:
        yield from _seqio_records(task, split)
    else:
        prefixes = load_pipeline().prefixes(**told) if told else {}
        yield from _fast_records(task, dataset, prefixes)


def texts(task: Any, split: str) -> Iterator[str]:
    """Inputs and targets of a task and split as text, without language tags and labels."""
    told = _label_step(task)
    if told is not None:
        for batch in source_records(task, split):
            yield from (record[name] for record in batch for name in told['texts'])
        return
    steps, _ = text_steps(task) or (None, {})
    dataset = None if steps is None else _text_dataset(task, split, steps)
    if dataset is None:
        from xlbench.pipeline import seqio_tasks

        if brought := seqio_tasks.vocabulary_of(task):
            raise errors.UserError(
                f'task {task.name} brings its own vocabulary, so that none is trained on it; name '
                f'that one: --vocabulary={brought}, in a config data.vocabulary'
            )
        raise errors.UserError(
            f'task {task.name} does not end in tokenisation of plain text, so that a vocabulary '
            'cannot be trained on it; name other tasks in --mixture'
        )
    for batch in dataset.as_numpy_iterator():
        for name in task.output_features:
            yield from (value.decode() for value in batch[name].tolist())


def make_vocabulary(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    path: str,
    *,
    root: str,
    size: int,
    if_missing: bool = False,
) -> None:
    """Trains a SentencePiece vocabulary on the texts of tasks, into a new file.

    Args:
      mixtures: names, comma-separated or a sequence; NAME:SPLIT takes that split alone.
      splits: of the other names, likewise.
      path: of the model file; one that is there is kept, and the command stops.
      root: the data root.
      size: pieces at most.
      if_missing: one that is there is no error.
    """
    if not 0 < size < 2**31:
        raise errors.UserError(f'--vocabulary_size is {size}; give a number of pieces like 8000')
    with locks.file(path, wait=functools.partial(print, flush=True)):
        if os.path.exists(path):
            if not if_missing:
                raise errors.UserError(f'{path} exists and is kept; name another --new_vocabulary')
            print(f'{path} is there already', flush=True)
            return
        _make_vocabulary(mixtures, splits, path, root, size)


def _make_vocabulary(
    mixtures: str | Sequence[str], splits: str | Sequence[str], path: str, root: str, size: int
) -> None:
    pipeline = load_pipeline()
    pipeline.use_no_vocabulary(root)
    jobs, _, _ = _resolve(_names(mixtures, 'mixture'), _names(splits, 'split'))
    tasks = {job: pipeline.get(job.task) for job in jobs}
    langs = {
        lang
        for task in tasks.values()
        for side in ('source_lang', 'target_lang')
        if (lang := getattr(task.source, side, None))
    }
    # The same text stands in many tasks, such as one for each target language.
    lines = dict.fromkeys(text for job, task in tasks.items() for text in texts(task, job.split))
    symbols = [*(f'<{lang}>' for lang in sorted(langs)), pipeline.ANSWER_SEPARATOR.strip()]
    model = tokenizers.train_sentencepiece(lines, size=size, symbols=symbols)
    files.write(path, model)
    print(f'a vocabulary of at most {size} pieces from {len(lines):,} texts -> {path}')


# ---------------------------------------------------------------------------------------------
# One task and split -> a folder.


@functools.lru_cache(maxsize=1024)
def _sha256(path: str, size: int, mtime_ns: int) -> str:
    """Of a file; many tasks read the same one, the other arguments tell its versions apart."""
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def input_stamp(path: str, root: str) -> dict[str, Any]:
    """What tells versions of a file apart without reading it."""
    status = os.stat(path)
    name = _relative(path, root)
    return {'path': name, 'bytes': status.st_size, 'mtime_ns': status.st_mtime_ns}


def input_entry(path: str, root: str) -> dict[str, Any]:
    """A file, as the manifest lists it."""
    stamp = input_stamp(path, root)
    return stamp | {'sha256': _sha256(path, stamp['bytes'], stamp['mtime_ns'])}


def _relative(path: str, root: str) -> str:
    """A path below the root without it, so that the root can move; others are absolute."""
    path, root = os.path.abspath(path), os.path.abspath(root)
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def input_paths(job: Job) -> list[str]:
    """The files a job is made from; UserError if one is missing."""
    from xlbench.pipeline import seqio_tasks

    pipeline = load_pipeline()
    task = pipeline.get(job.task)
    with _blaming(task.name):
        paths = seqio_tasks.source_paths(task, job.split)
    # A task file of the user's own is no part of the code's fingerprint.
    own = pipeline.user_task_file(task.name)
    return [*paths, *seqio_tasks.vocabulary_paths(task), *([own] if own else [])]


@contextlib.contextmanager
def _blaming(name: str) -> Iterator[None]:
    """An error in this block is said in one line if a task of the user's own has raised it."""
    try:
        yield
    except (errors.UserError, OSError):
        raise
    except Exception as error:
        pipeline = load_pipeline()
        if (path := pipeline.user_task_file(name)) is None:
            raise
        raise pipeline.mistake(error, path, f'task {name}: ') from error


def manifest_of(job: Job, root: str, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known before reading; `inputs` are the `input_entry` of the files."""
    from xlbench.pipeline import seqio_tasks

    pipeline = load_pipeline()
    tokenizer = pipeline.tokenizer()
    task, split = pipeline.get(job.task), job.split
    patterns = seqio_tasks.source_patterns(task, split)
    is_sample = os.path.isfile(os.path.join(root, 'SAMPLE.json'))
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
        'source_lang': getattr(task.source, 'source_lang', None),
        'target_lang': getattr(task.source, 'target_lang', None),
        'languages': languages.registered(
            getattr(task.source, f'{side}_lang', None) for side in ('source', 'target')
        ),
        'headline': pipeline.headline(task),
        'metrics': pipeline.metric_specs(task),
        'inputs': inputs,
        'patterns': [_relative(path, root) for path in patterns],
        # A function reads what nobody can compare with what it read before.
        'unseen': not seqio_tasks.is_visible(task),
        'postprocessor': task.postprocessor is not None,
        'data': 'sample' if is_sample else 'files',
        'skipped': [],
        'left_out': {},
    }


def prepare_one(
    job: Job, shared: workers_lib.Shared, *, root: str, vocabulary: str, force: bool = False
) -> Done:
    """Prepares one task and split, or takes what another process has prepared in the meantime.

    Args:
      job: what to prepare; `pipeline.use_vocabulary` has been called.
      shared: the counters of the run.
      root: the data root.
      vocabulary: see xlbench/data/tokenizers.
      force: make it in any case.
    """
    place = prepared.folder(root, vocabulary, job.task, job.split)
    try:
        with _blaming(job.task), prepared.alone(place) as waited:
            there = None if force else made_meanwhile(root, vocabulary, job, waited)
            return there or _prepare_one(job, shared, root, vocabulary)
    except OSError as error:  # A full disk, a folder that is not ours.
        raise errors.UserError(f'{job} cannot be prepared: {error}') from error


def _prepare_one(job: Job, shared: workers_lib.Shared, root: str, vocabulary: str) -> Done:
    task = load_pipeline().get(job.task)
    manifest = manifest_of(job, root, [input_entry(p, root) for p in input_paths(job)])
    policy = readers.BadRecords(shared.allow_skip)
    place = prepared.folder(root, vocabulary, job.task, job.split)
    with (
        prepared.Writer(place, manifest=manifest) as writer,
        futures.ThreadPoolExecutor(1) as thread,
    ):
        # The next batch is tokenised, outside Python's lock, while the last one is written.
        total = 0
        with reading(job, policy):
            write = functools.partial(thread.submit, writer.write_batch)
            for batch, written in in_flight(records(task, job.split), write, depth=1):
                written.result()
                total += len(batch)
                shared.count(len(batch))
        skipped = [skipped_entry(bad, root) for bad in policy.skipped]
        complete(manifest, job, root, total, skipped, policy.left_out)
    return Done(job, prepared.open_task(root, vocabulary, job.task, job.split).manifest, False)


@contextlib.contextmanager
def reading(job: Job, policy: readers.BadRecords) -> Iterator[None]:
    """Records of a job are read in this block; what is wrong with them becomes a UserError."""
    pipeline = load_pipeline()
    import tensorflow as tf

    try:
        with pipeline.bad_records(policy):
            yield
    except tf.errors.OpError as error:
        if policy.error is not None:
            raise policy.error from None
        raise errors.UserError(f'{job} cannot be read: {_one_line(error)}') from error


def skipped_entry(bad: readers.BadRecord, root: str) -> dict[str, Any]:
    """A bad record, as the manifest lists it."""
    return {'path': _relative(bad.path, root), 'line': bad.line, 'reason': bad.reason}


def complete(
    manifest: dict[str, Any],
    job: Job,
    root: str,
    examples: int,
    skipped: Sequence[dict[str, Any]],
    left_out: Mapping[str, int],
) -> None:
    """Adds to the manifest what reading a job has shown; UserError if it cannot be used."""
    if not examples:
        raise errors.UserError(f'{job} has no usable examples')
    read = [{k: v for k, v in entry.items() if k != 'sha256'} for entry in manifest['inputs']]
    if read != [input_stamp(path, root) for path in input_paths(job)]:
        raise errors.UserError(f'the files of {job} changed while they were read; run it again')
    manifest['skipped'] += skipped
    manifest['left_out'] |= dict(sorted(left_out.items()))


def _one_line(error: Any) -> str:
    return ' '.join(str(getattr(error, 'message', error)).split())[:300]


# ---------------------------------------------------------------------------------------------
# Many of them, here or in worker processes.


def start_worker(root: str, vocabulary: str, threads: int) -> None:
    """What a worker process does before its first job."""
    tokenizers.limit_threads(threads)
    load_pipeline().use_vocabulary(vocabulary, root)


def _resolve(
    names: Sequence[str], splits: Sequence[str]
) -> tuple[list[Job], list[tuple[Any, str]], dict[Job, tuple[int, int]]]:
    """Names -> jobs without repetition, (mixture, split) pairs, and (bytes, examples) of a job."""
    import seqio

    pipeline = load_pipeline()
    sizes: dict[Job, tuple[int, int]] = {}
    mixtures = []
    for name in names:
        name, colon, own_split = name.partition(':')
        found = pipeline.get(name)
        is_mixture = isinstance(found, seqio.Mixture)
        for split in [own_split.removesuffix('?')] if colon else splits:
            tasks = found.tasks if is_mixture else [found]
            if own_split.endswith('?'):
                tasks = [task for task in tasks if split in task.splits]
            mixtures += [(found, split)] if is_mixture and len(tasks) == len(found.tasks) else []
            for task in tasks:
                job = Job(task.name, split)
                with _blaming(task.name):
                    splits_there = tuple(task.splits)
                if split not in splits_there:
                    inside = f' (in mixture {name})' if is_mixture else ''
                    raise errors.UserError(
                        f'task {task.name}{inside} has no split {split!r}; it has '
                        f'{", ".join(splits_there)}'
                    )
                if job not in sizes:
                    size = sum(os.path.getsize(path) for path in input_paths(job))
                    with _blaming(task.name):
                        sizes[job] = (size, task.num_input_examples(split) or 0)
    return list(sizes), mixtures, sizes


def _check_tasks(jobs: Sequence[Job]) -> None:
    """UserError for a task that the vocabulary is not for, before any is prepared."""
    from xlbench.pipeline import seqio_tasks

    pipeline = load_pipeline()
    for name in dict.fromkeys(job.task for job in jobs):
        with _blaming(name):
            seqio_tasks.check(pipeline.get(name), pipeline.tokenizer())


def made_meanwhile(root: str, vocabulary: str, job: Job, waited: bool) -> Done | None:
    """What another process has made of a job since this one looked; None if it has not.

    Args:
      root: the data root.
      vocabulary: see xlbench/data/tokenizers.
      job: whose preparation this process holds, see `prepared.alone`.
      waited: whether it has waited for another process before.
    """
    try:
        there = prepared.open_task(root, vocabulary, job.task, job.split).manifest
    except prepared.NotPrepared:
        return None
    if there['vocabulary'] != load_pipeline().tokenizer().manifest():
        return None
    # What a function reads is prepared again each time; that has just been done.
    return None if there.get('unseen') and not waited else Done(job, there, True)


def _up_to_date(root: str, vocabulary: str, job: Job) -> Done | None:
    try:
        found = prepared.open_task(root, vocabulary, job.task, job.split)
    except prepared.NotPrepared:
        return None
    tokenizer = load_pipeline().tokenizer()
    if found.manifest['vocabulary'] != tokenizer.manifest():
        return None  # Another vocabulary of the same name was there.
    if found.manifest.get('unseen'):
        print(
            f'{job} is prepared again: a function reads its data, so that nobody can tell whether '
            'that has changed',
            flush=True,
        )
        return None
    return Done(job, found.manifest, True)


def _num_workers(workers: int | None, jobs: Sequence[Job], sizes: dict[Job, Any]) -> int:
    if workers is None:
        large = sum(sizes[job][0] for job in jobs) >= WORKERS_FROM_BYTES
        workers = min(tokenizers.num_threads(), MAX_DEFAULT_WORKERS) if large else 1
    return max(min(workers, len(jobs)), 1)


def prepare(
    mixtures: str | Sequence[str],
    splits: str | Sequence[str],
    *,
    root: str,
    vocabulary: str,
    skip_bad: int = 0,
    workers: int | None = None,
    force: bool = False,
    elsewhere: Callable[[Sequence[Job], Callable[[Done], None]], None] | None = None,
) -> list[Done]:
    """Prepares every task of some mixtures (or tasks) on some splits.

    Args:
      mixtures: names, comma-separated or a sequence; NAME:SPLIT takes that split alone.
      splits: of the other names, likewise.
      root: the data root.
      vocabulary: see xlbench/data/tokenizers.
      skip_bad: how many bad records may be skipped, in all of the run together.
      workers: processes; by default one for each core, and none beside this one for small data.
      force: make also what is up to date.
      elsewhere: (jobs, finished) prepares jobs in another way than in processes of this machine,
        and calls `finished` with each result.

    Returns:
      What is prepared now, up-to-date tasks included, in the order of the names.
    """
    names, splits = _names(mixtures, 'mixture'), _names(splits, 'split')
    if skip_bad < 0 or (workers is not None and workers < 1):
        raise errors.UserError('--skip_bad must be 0 or more, and --workers 1 or more')
    started = time.monotonic()
    pipeline = load_pipeline()
    pipeline.use_vocabulary(vocabulary, root)
    jobs, mixed, sizes = _resolve(names, splits)
    _check_tasks(jobs)
    fresh = {} if force else {job: _up_to_date(root, vocabulary, job) for job in jobs}
    results = {job: done for job, done in fresh.items() if done}
    # Large ones first, so that no worker begins the largest when the others are done.
    todo = sorted((job for job in jobs if job not in results), key=lambda job: -sizes[job][0])
    workers = _num_workers(workers, todo, sizes)
    shared = workers_lib.Shared.make(skip_bad)
    total = sum(sizes[job][1] for job in todo)
    count = functools.partial(getattr, shared.examples, 'value')
    with Progress('prepared', total, 'examples', count=count, active=not elsewhere):
        for job in results:
            print(results[job], flush=True)

        def finished(done: Done) -> None:
            results[done.job] = done
            print(done, flush=True)
            for bad in done.manifest['skipped']:
                place = f'{bad["path"]}:{bad["line"]}' if bad['line'] else bad['path']
                print(f'  skipped {place}: {bad["reason"]}', flush=True)

        work = functools.partial(prepare_one, root=root, vocabulary=vocabulary, force=force)
        if elsewhere:
            elsewhere(todo, finished)
        elif workers > 1:
            start = (start_worker, root, vocabulary, tokenizers.num_threads() // workers)
            workers_lib.run(work, todo, workers, start, shared, finished)
        else:
            for job in todo:
                finished(work(job, shared))
        for mixture, split in mixed:
            rates = pipeline.mixture_rates(mixture, split)
            prepared.write_mixture(root, vocabulary, mixture.name, split, rates)
        for line in _equal_splits([results[job] for job in todo], root, vocabulary):
            print(line, flush=True)
    done = [results[job] for job in jobs]
    seconds = time.monotonic() - started
    made = [d for d in done if not d.fresh]
    examples = sum(d.manifest['num_examples'] for d in made)
    means = 'Beam' if elsewhere else f'{workers} process{"es" if workers > 1 else ""}'
    print(
        f'{len(made)} prepared, {len(done) - len(made)} were up to date: {examples:,} examples in '
        f'{seconds:.1f} s with {means} -> '
        + os.path.join(root, 'prepared', prepared.vocabulary_folder(vocabulary)),
        flush=True,
    )
    return done


def _equal_splits(made: Sequence[Done], root: str, vocabulary: str) -> Iterator[str]:
    """A line for every two splits of a task that hold the same examples, one of them new."""
    new = {done.job for done in made}
    for name in dict.fromkeys(job.task for job in new):
        same: dict[tuple[str, ...], list[str]] = {}
        for split in load_pipeline().get(name).splits:
            with contextlib.suppress(prepared.NotPrepared, errors.UserError):
                found = prepared.open_task(root, vocabulary, name, split)
                shards = tuple(shard['sha256'] for shard in found.manifest['shards'])
                same.setdefault(shards, []).append(split)
        for splits in same.values():
            if len(splits) > 1 and any(Job(name, split) in new for split in splits):
                scored = [split for split in splits if 'train' not in split]
                why = '; their scores will be the same' if len(scored) > 1 else ''
                if scored and len(scored) < len(splits):
                    why = f'; a model is scored on {scored[0]} with what it was trained on'
                yield f'WARNING: {name} has the very same examples in {" and ".join(splits)}{why}'


def _names(value: str | Sequence[str], what: str) -> list[str]:
    parts = value.split(',') if isinstance(value, str) else list(value)
    names = list(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not names:
        raise errors.UserError(f'no {what} is named; give --{what}=NAME or NAME,NAME')
    return names


# ---------------------------------------------------------------------------------------------
# The command.


def make_sample(root: str, seed: int = 0) -> None:
    """Writes the sample corpora and their vocabularies into `root`, unless they are there."""
    modules = [importlib.import_module(f'xlbench.tasks.samples.{name}') for name in SAMPLES]
    written = [module.write(root, seed) for module in modules]
    if any(written):
        print(f'wrote the sample corpora into {root}', flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = errors.ArgumentParser('python -m xlbench.prepare', __doc__)
    add = parser.add_argument
    add(
        '--mixture',
        metavar='NAMES',
        help='mixtures or tasks, comma-separated; NAME:SPLIT for one split of it, NAME:SPLIT? for '
        'those of its tasks that have the split',
    )
    add(
        '--split',
        metavar='NAMES',
        default='train,validation',
        help='splits, comma-separated (default: train,validation)',
    )
    add(
        '--root',
        metavar='FOLDER',
        help='the data root (default: XLBENCH_DATA, else data; with --sample data/sample)',
    )
    add(
        '--vocabulary',
        metavar='NAME',
        default='sample',
        help='sample, sample_mrs, sample_fewshot, bytes, a SentencePiece .model, a folder with the '
        'vocabulary files of a model, or a name such as mt5 or google/mt5-base (default: sample)',
    )
    add('--sample', action='store_true', help='write the sample corpora first, if they are missing')
    add(
        '--skip_bad',
        metavar='N',
        type=int,
        default=0,
        help='skip at most N bad records in this run, and list them (default: 0, the first stops)',
    )
    add(
        '--new_vocabulary',
        metavar='FILE.model',
        help='train a SentencePiece vocabulary on the texts of the tasks; prepare nothing',
    )
    add(
        '--if_missing',
        action='store_true',
        help='with --new_vocabulary: a file that is there is kept, and that is no error',
    )
    add('--vocabulary_size', metavar='N', type=int, default=8000, help='of it (default: 8000)')
    add('--workers', metavar='N', type=int, help='processes (default: as many as it is worth)')
    add(
        '--beam',
        action='store_true',
        help='as an Apache Beam program: see xlbench/preparation/beam.py',
    )
    add('beam_options', metavar='-- OPTION', nargs='*', help="with --beam, the runner's options")
    add('--force', action='store_true', help='prepare anew what is up to date, too')
    add(
        '--tasks',
        metavar='PLACE',
        help='a folder of task files of your own, or one such file (default: XLBENCH_TASKS, else '
        './tasks)',
    )
    return parser


def _check_beam(flags: argparse.Namespace) -> None:
    """UserError on flags that do not go together."""
    if flags.beam_options and not flags.beam:
        raise errors.UserError(f'{flags.beam_options[0]!r} is no flag; see --help')
    if flags.beam and (flags.workers or flags.new_vocabulary):
        raise errors.UserError(
            '--beam goes with neither --workers nor --new_vocabulary; for several workers, tell '
            'its runner: -- --direct_running_mode=multi_processing --direct_num_workers=4'
        )
    if flags.beam and importlib.util.find_spec('apache_beam') is None:
        raise errors.UserError(
            "--beam needs the package apache-beam: python -m uv pip install --editable '.[beam]'"
        )


def main(argv: Sequence[str]) -> int:
    """Runs the command; `argv[0]` is the program."""
    flags = _parser().parse_args(list(argv[1:]))
    _check_beam(flags)
    if reason := machine.too_little_memory():
        raise errors.UserError(reason)
    root = flags.root or ('data/sample' if flags.sample else os.environ.get('XLBENCH_DATA', 'data'))
    # This process only reads text; the accelerator may be in use by the one that trains.
    os.environ['CUDA_VISIBLE_DEVICES'] = '-1'
    if flags.tasks:
        os.environ['XLBENCH_TASKS'] = flags.tasks
    for name in filter(None, (flags.mixture or '').split(',')):  # Before TensorFlow is imported.
        names.check_task(name.partition(':')[0], 'task or mixture', root, flags.vocabulary)
    if flags.mixture and not flags.new_vocabulary:
        tokenizers.check_name(flags.vocabulary)
    try:
        if flags.sample:
            make_sample(root)
            if not flags.mixture:
                return 0
        if flags.new_vocabulary:
            make_vocabulary(
                flags.mixture or '',
                flags.split,
                flags.new_vocabulary,
                root=root,
                size=flags.vocabulary_size,
                if_missing=flags.if_missing,
            )
            return 0
        chosen = {
            'root': root,
            'vocabulary': flags.vocabulary,
            'skip_bad': flags.skip_bad,
            'force': flags.force,
        }
        if flags.beam:
            with _hidden_stderr():  # Beam says what Google's packages are missing.
                from xlbench.preparation import beam
            options = flags.beam_options
            beam.prepare_with_beam(
                flags.mixture or '', flags.split, **chosen, options=options
            )
        else:
            prepare(flags.mixture or '', flags.split, **chosen, workers=flags.workers)
    except KeyboardInterrupt:
        line = 'stopped by Ctrl-C; what is finished stays, the same command goes on'
        print(f'error: {line}', file=sys.stderr)
        return 130
    return 0

