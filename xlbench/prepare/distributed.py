"""The preparation in jobs that may run on other machines, for data that outgrows one.

  python -m xlbench.prepare --beam --mixture=mrs_multi --root=/mnt/data -- \
      --runner=FlinkRunner --flink_master=HOST:8081 --environment_type=LOOPBACK

What it writes has the same bytes as the ordinary preparation. It takes two stages:

  files -> records in parts, one for each file that can be read apart
  parts -> shards, each written by one worker

The numbers of the records of all parts say which shard each record lies in, and at which place.
A task whose steps may look at more than one record is read and tokenised by one worker.

This process and all workers need the same installation, and a network disk with the data root at
the same path; so give --root, a --vocabulary that is a file, and --tasks as absolute paths. A shard
must fit into the memory of a worker.
"""

import contextlib
import dataclasses
import functools
import itertools
import operator
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from xlbench import pipeline
from xlbench.data import prepared, readers
from xlbench.data.prepared import ShardEntry
from xlbench.pipeline import registry
from xlbench.prepare import examples as examples_lib, jobs as jobs_lib, shards
from xlbench.prepare.jobs import Done, Job
from xlbench.prepare.stages import Engine

_BLOCK = 1024  # Rows of a part that are read together.

# Of a part, the rows from one number up to another: (number of the part, first, end).
Piece = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Worker:
    """Settings of a worker, see `run`; its methods are the stages."""

    root: str
    vocabulary: str
    skip_bad: int
    scratch: str  # A folder for parts.
    folders: dict[Job, str]  # The hidden folders for their shards.

    def read(
        self, task: str, split: str, number: int, paths: Sequence[str] | None
    ) -> dict[str, Any]:
        """Reads a part into a file: records, or examples of a task that cannot be divided.

        Returns:
          The task, the split and the number of the part, and what reading it has shown.
        """
        job, skips = Job(task, split), itertools.count()
        policy = readers.BadRecords(lambda: next(skips) < self.skip_bad)
        writer, count = shards.Writer(self._part(task, split, number), 0), 0
        with pipeline.bound(self.vocabulary, self.root), jobs_lib.reading(job, policy):
            declared = registry.task(task)
            divisible = examples_lib.encoder(declared) is not None
            read = functools.partial(examples_lib.source_records, paths=paths)
            batches = (read if divisible else examples_lib.examples)(declared, split)
            for row in itertools.chain.from_iterable(batches):
                line = msgspec.json.encode(row, enc_hook=np.ndarray.tolist).decode()
                writer.add(count // _BLOCK, line)
                count += 1
        writer.close({})
        skipped = [dataclasses.asdict(bad) for bad in policy.skipped]
        shown = {'examples': count, 'skipped': skipped, 'left_out': dict(policy.left_out)}
        return {'job': job, 'part': number} | shown

    def write(
        self, task: str, split: str, index: int, first: int, pieces: Sequence[Piece]
    ) -> tuple[str, str, ShardEntry]:
        """Writes the rows of some pieces as a shard; returns the manifest's entry.

        `first` is the number of its first row among those of the job.
        """
        rows = [row for piece in pieces for row in self._rows(task, split, *piece)]
        with pipeline.bound(self.vocabulary, self.root):
            encode = examples_lib.encoder(registry.task(task))
            entry = prepared.write_shard(
                self.folders[Job(task, split)],
                index,
                encode(rows) if encode else [prepared.pack(rows)],
                first=first,
                vocabulary_size=pipeline.tokenizer().vocab_size,
            )
        if entry['examples'] != len(rows):
            raise ValueError(f'{task}: {entry["examples"]} examples of {len(rows)} records')
        return task, split, entry

    def _rows(self, task: str, split: str, number: int, first: int, end: int) -> Iterator[dict]:
        path, start = self._part(task, split, number), first // _BLOCK
        blocks = range(start, -(-end // _BLOCK))
        lines = itertools.chain.from_iterable(shards.lines(path, block) for block in blocks)
        for line in itertools.islice(lines, first - start * _BLOCK, end - start * _BLOCK):
            row = msgspec.json.decode(line)
            yield {k: np.array(v, np.int32) if isinstance(v, list) else v for k, v in row.items()}

    def _part(self, task: str, split: str, number: int) -> str:
        return os.path.join(self.scratch, f'{task}.{split}.{number}')


def _parts(job: Job) -> list[tuple[str, str, int, tuple[str, ...] | None]]:
    """Returns the arguments of `Worker.read` for each part of a job, in order."""
    task = registry.task(job.task)
    if examples_lib.encoder(task) is None:
        return [(*job, 0, None)]
    return [(*job, n, tuple(paths)) for n, paths in enumerate(task.source.parts(job.split))]


def _shards(sizes: Sequence[int], size: int) -> Iterator[list[Piece]]:
    """Yields the pieces of each shard of a job, from the sizes of its parts in order.

    Example: parts of 3 and 4 rows, size 5 -> [(0, 0, 3), (1, 0, 2)], [(1, 2, 4)]
    """
    starts = [0, *itertools.accumulate(sizes)]
    for first in range(0, starts[-1], size):
        yield [
            (part, max(first - start, 0), min(first + size, end) - start)
            for part, (start, end) in enumerate(itertools.pairwise(starts))
            if start < first + size and first < end
        ]


def run(
    jobs: Sequence[Job],
    *,
    engine: Engine,
    root: str,
    vocabulary: str,
    skip_bad: int = 0,
    force: bool = False,
    shard_examples: int = prepared.SHARD_EXAMPLES,
) -> Iterator[Done]:
    """Prepares jobs on an engine, and yields the results; at its end all are there, or none.

    Root and vocabulary, which are bound as well, and `skip_bad` are as `mixtures.prepare` takes
    them. With `force`, what another process has made in the meantime is made again.
    """
    if not jobs:
        return
    with contextlib.ExitStack() as stack:
        parent = os.path.join(root, 'prepared', prepared.vocabulary_folder(vocabulary))
        # One such program at a time, so that no two wait for each other's jobs.
        stack.enter_context(prepared.alone(os.path.join(parent, 'beam')))
        scratch = os.path.abspath(stack.enter_context(prepared.scratch(parent, 'beam')))
        held = [jobs_lib.alone(root, vocabulary, job, force) for job in jobs]
        there = dict(zip(jobs, map(stack.enter_context, held), strict=True))
        yield from filter(None, there.values())
        jobs = [job for job, done in there.items() if done is None]
        if not jobs:
            return
        stamps, manifests, writers = {}, {}, {}
        for job in jobs:
            stamps[job] = [jobs_lib.input_stamp(path, root) for path in jobs_lib.input_paths(job)]
            manifests[job] = jobs_lib.manifest_of(job, root, [])
            place = prepared.folder(root, vocabulary, *job)
            writer = prepared.Writer(place, manifest=manifests[job], shard_examples=shard_examples)
            writers[job] = stack.enter_context(writer)
        folders = {job: writer.temporary for job, writer in writers.items()}
        worker = Worker(os.path.abspath(root), vocabulary, skip_bad, scratch, folders)
        stack.enter_context(engine)
        paths = dict.fromkeys(path for job in jobs for path in jobs_lib.input_paths(job))
        entry_of = functools.partial(jobs_lib.input_entry, root=worker.root)
        hashed = engine.run(entry_of, [(os.path.abspath(path),) for path in paths])
        hashes = {entry['path']: entry for entry in hashed}
        read = engine.run(worker.read, [part for job in jobs for part in _parts(job)])
        parts: dict[Job, list[dict[str, Any]]] = {job: [] for job in jobs}
        for part in sorted(read, key=operator.itemgetter('part')):
            parts[Job(*part['job'])].append(part)
        skips = itertools.count()
        plan = []
        for job in jobs:
            # Each worker knows only what it has skipped itself.
            policy = readers.BadRecords(lambda: next(skips) < skip_bad)
            for part in parts[job]:
                for bad in part['skipped']:
                    policy.add(readers.BadRecord(**bad))
                policy.left_out.update(part['left_out'])
            manifests[job]['inputs'] += [hashes[stamp['path']] | stamp for stamp in stamps[job]]
            sizes = [part['examples'] for part in parts[job]]
            jobs_lib.complete(manifests[job], job, root, sum(sizes), policy)
            for index, pieces in enumerate(_shards(sizes, shard_examples)):
                plan.append((*job, index, index * shard_examples, pieces))
        written: dict[Job, list[ShardEntry]] = {job: [] for job in jobs}
        for task, split, entry in engine.run(worker.write, plan):
            written[Job(task, split)].append(entry)
        for job, entries in written.items():
            writers[job].adopt(sorted(entries, key=operator.itemgetter('file')))
    for job in jobs:
        yield jobs_lib.just_made(root, vocabulary, job)
