"""The preparation as an Apache Beam program, for data that outgrows one machine.

  python -m xlbench.prepare --beam --mixture=mrs_multi --root=/mnt/data -- \
      --runner=FlinkRunner --flink_master=HOST:8081 --environment_type=LOOPBACK

What it writes has the same bytes as the ordinary preparation. What stands after `--` is for Beam;
without a runner it runs here, in this process.

  files -> records -> records of one shard -> one shard, written by one worker -> manifest

The files of a task that can be read apart are read in parallel, in any order; the numbers of their
records then say in which shard each record lies, and at which place. Tokenising and writing, nearly
all of the work, is parallel over shards. A task whose steps may look at more than one record is
read and tokenised by one worker.

This process and all workers need the same installation, and a network disk with the data root at
the same path; so give --root, a --vocabulary that is a file, and --tasks as absolute paths. A shard
must fit into the memory of a worker.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypedDict

import apache_beam as beam
from apache_beam.options import pipeline_options

from xlbench import pipeline
from xlbench.data import prepared, readers
from xlbench.data.prepared import InputEntry, ShardEntry, SkippedEntry
from xlbench.preparation import examples as examples_lib, jobs as jobs_lib
from xlbench.preparation.jobs import Done, Job
from xlbench.system import errors, files

REPORT = 'report'  # A line of JSON for each input file, part that was read, and shard.
ERROR = 'error'  # What a worker has to say to the user.

# Records of a source; examples of a task that cannot be divided.
Rows = list[readers.Record] | list[examples_lib.Example]
# Task, split and number of a shard.
ShardKey = tuple[str, str, int]


class InputLine(TypedDict):
    """Reports an input file."""

    input: InputEntry


class PartLine(TypedDict):
    """Reports a part of a job that was read."""

    job: tuple[str, str]
    part: int
    examples: int
    skipped: list[SkippedEntry]
    left_out: dict[str, int]


class ShardLine(TypedDict):
    """Reports a shard that was written."""

    job: tuple[str, str]
    shard: int
    entry: ShardEntry


@dataclasses.dataclass(frozen=True)
class Setting:
    """Holds the settings of a worker.

    Attributes:
      root, vocabulary: as `mixtures.prepare` takes them.
      tasks: XLBENCH_TASKS of the process that began.
      skip_bad: bad records that may be skipped in all.
      shard_examples: examples of a shard.
      scratch: a folder for messages.
      folders: job -> the hidden folder for its shards.
    """

    root: str
    vocabulary: str
    tasks: str | None
    skip_bad: int
    shard_examples: int
    scratch: str
    folders: dict[Job, str]


class _Step(beam.DoFn):
    """A step in a worker."""

    def __init__(self, setting: Setting):
        self._setting = setting

    def setup(self) -> None:
        """Called by Beam before the first element."""
        if self._setting.tasks:
            os.environ['XLBENCH_TASKS'] = self._setting.tasks

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Binds root and vocabulary in this thread, one of several that a runner may have.

        A mistake of the user reaches them as one line, whatever the runner makes of it.
        """
        try:
            with pipeline.bound(self._setting.vocabulary, self._setting.root):
                yield
        except (errors.UserError, OSError) as error:
            files.write(os.path.join(self._setting.scratch, ERROR), str(error))
            raise


class _Hash(_Step):
    """The path of an input file -> what the manifest says about it."""

    def process(self, path: str) -> Iterator[InputLine]:
        """Called by Beam."""
        with self._working():
            yield {'input': jobs_lib.input_entry(path, self._setting.root)}


class _Read(_Step):
    """(job, number of a part, its files) -> its rows; 'parts' says how many there are."""

    def process(
        self, part: tuple[Job, int, Sequence[str] | None]
    ) -> Iterator[tuple[Job, int, int, Rows]]:
        """Yields (job, number of the part, number of the first row in it, rows)."""
        job, number, paths = part
        skips = itertools.count()
        policy = readers.BadRecords(lambda: next(skips) < self._setting.skip_bad)
        count = 0
        with self._working(), jobs_lib.reading(job, policy):
            task = pipeline.get(job.task)
            divisible = examples_lib.encoder(task, job.split) is not None
            read = functools.partial(examples_lib.source_records, paths=paths)
            for rows in (read if divisible else examples_lib.examples)(task, job.split):
                yield job, number, count, rows
                count += len(rows)
        read = {
            'job': dataclasses.astuple(job),
            'part': number,
            'examples': count,
            'skipped': [dataclasses.asdict(bad) for bad in policy.skipped],
            'left_out': dict(policy.left_out),
        }
        yield beam.pvalue.TaggedOutput('parts', read)


def _starts(parts: Iterable[PartLine]) -> dict[Job, list[int]]:
    """Job -> the numbers of the first row of each part, and at last the number of all rows."""
    ordered = sorted(parts, key=lambda part: part['part'])
    jobs = {Job(*part['job']) for part in ordered}
    counts = {job: [0] for job in jobs}
    for part in ordered:
        counts[Job(*part['job'])].append(part['examples'])
    return {job: list(itertools.accumulate(numbers)) for job, numbers in counts.items()}


def _place(
    read: tuple[Job, int, int, Rows],
    starts: dict[Job, list[int]],
    shard_examples: int,
) -> Iterator[tuple[ShardKey, tuple[int, Rows]]]:
    """Yields ((task, split, shard), (number of the first row in the job, rows))."""
    job, part, first, rows = read
    first += starts[job][part]
    while rows:
        shard, at = divmod(first, shard_examples)
        taken = rows[: shard_examples - at]
        yield (job.task, job.split, shard), (first, taken)
        first, rows = first + len(taken), rows[len(taken) :]


class _Write(_Step):
    """All rows of a shard -> the file, and its entry in the manifest."""

    def process(
        self,
        shard: tuple[ShardKey, Iterable[tuple[int, Rows]]],
        starts: dict[Job, list[int]],
    ) -> Iterator[ShardLine]:
        """Called by Beam."""
        (task, split, index), pieces = shard
        job = Job(task, split)
        rows = [row for _, rows in sorted(pieces, key=lambda piece: piece[0]) for row in rows]
        with self._working():
            encode = examples_lib.encoder(pipeline.get(task), split)
            batches = encode(rows) if encode else [rows]
            entry = prepared.write_shard(
                self._setting.folders[job],
                index,
                -(-starts[job][-1] // self._setting.shard_examples),
                itertools.chain.from_iterable(batches),
                first=index * self._setting.shard_examples,
                vocabulary_size=pipeline.tokenizer().manifest()['size'],
            )
        if entry['examples'] != len(rows):
            raise ValueError(f'{job}: {entry["examples"]} examples of {len(rows)} records')
        yield {'job': (task, split), 'shard': index, 'entry': entry}


def _build(begin: beam.Pipeline, jobs: Sequence[Job], setting: Setting) -> None:
    """Puts the steps together."""
    paths = dict.fromkeys(path for job in jobs for path in jobs_lib.input_paths(job))
    inputs = (
        begin
        | 'input files' >> beam.Create([os.path.abspath(path) for path in paths])
        | 'spread files' >> beam.Reshuffle()
        | 'hash' >> beam.ParDo(_Hash(setting))
    )
    read = (
        begin
        | 'parts' >> beam.Create([part for job in jobs for part in _parts(job)])
        | 'spread parts' >> beam.Reshuffle()
        | 'read' >> beam.ParDo(_Read(setting)).with_outputs('parts', main='rows')
    )
    starts = beam.pvalue.AsSingleton(
        read.parts | beam.combiners.ToList() | 'starts' >> beam.Map(_starts)
    )
    shards = (
        read.rows
        | 'place' >> beam.FlatMap(_place, starts, setting.shard_examples)
        | 'gather' >> beam.GroupByKey()
        | 'write' >> beam.ParDo(_Write(setting), starts)
    )
    (
        (inputs, read.parts, shards)
        | beam.Flatten()
        | 'lines' >> beam.Map(json.dumps)
        | 'report'
        >> beam.io.WriteToText(os.path.join(setting.scratch, REPORT), shard_name_template='')
    )


def _parts(job: Job) -> list[tuple[Job, int, tuple[str, ...] | None]]:
    """Returns what one worker reads of a job, in order."""
    task = pipeline.get(job.task)
    if examples_lib.encoder(task, job.split) is None:
        return [(job, 0, None)]
    return [
        (job, number, tuple(paths)) for number, paths in enumerate(task.source.parts(job.split))
    ]


def run(
    jobs: Sequence[Job],
    finished: Callable[[Done], None],
    *,
    root: str,
    vocabulary: str,
    skip_bad: int = 0,
    force: bool = False,
    options: Sequence[str] = (),
    shard_examples: int = prepared.SHARD_EXAMPLES,
) -> None:
    """Prepares jobs as one Beam program; all of them are there at its end, or none.

    Args:
      jobs: what to prepare; root and vocabulary are bound, see `pipeline.bound`.
      finished: called with each result.
      root, vocabulary, skip_bad: as `mixtures.prepare` takes them.
      force: do also what another process has done in the meantime.
      options: Beam's own, such as '--runner=DataflowRunner'.
      shard_examples: examples of one file.
    """
    if not jobs:
        return
    with contextlib.ExitStack() as stack:
        parent = os.path.join(root, 'prepared', prepared.vocabulary_folder(vocabulary))
        # One such program at a time, so that no two wait for each other's jobs.
        stack.enter_context(prepared.alone(os.path.join(parent, 'beam')))
        scratch = os.path.abspath(stack.enter_context(prepared.scratch(parent, 'beam')))
        jobs = _left(jobs, finished, stack, root, vocabulary, force)
        if not jobs:
            return
        stamps, manifests, writers = {}, {}, {}
        for job in jobs:
            stamps[job] = [jobs_lib.input_stamp(path, root) for path in jobs_lib.input_paths(job)]
            manifests[job] = jobs_lib.manifest_of(job, root, [])
            place = prepared.folder(root, vocabulary, job.task, job.split)
            writer = prepared.Writer(place, manifest=manifests[job], shard_examples=shard_examples)
            writers[job] = stack.enter_context(writer)
        setting = Setting(
            root=os.path.abspath(root),
            vocabulary=vocabulary,
            tasks=os.environ.get('XLBENCH_TASKS'),
            skip_bad=skip_bad,
            shard_examples=shard_examples,
            scratch=scratch,
            folders={job: writer.temporary for job, writer in writers.items()},
        )
        report = _report(jobs, setting, options)
        hashes = {line['input']['path']: line['input'] for line in report if 'input' in line}
        parts = sorted((line for line in report if 'part' in line), key=lambda line: line['part'])
        shards = sorted(
            (line for line in report if 'shard' in line), key=lambda line: line['shard']
        )
        skips = itertools.count()
        for job in jobs:
            # Each worker knows only what it has skipped itself.
            policy = readers.BadRecords(lambda: next(skips) < skip_bad)
            examples = 0
            for part in parts:
                if tuple(part['job']) == dataclasses.astuple(job):
                    for bad in part['skipped']:
                        policy.add(readers.BadRecord(**bad))
                    policy.left_out.update(part['left_out'])
                    examples += part['examples']
            manifests[job]['inputs'] += [hashes[stamp['path']] | stamp for stamp in stamps[job]]
            skipped = [jobs_lib.skipped_entry(bad, root) for bad in policy.skipped]
            jobs_lib.complete(manifests[job], job, root, examples, skipped, policy.left_out)
            writers[job].adopt(
                [s['entry'] for s in shards if tuple(s['job']) == dataclasses.astuple(job)]
            )
    for job in jobs:
        finished(jobs_lib.just_made(root, vocabulary, job))


def _left(
    jobs: Sequence[Job],
    finished: Callable[[Done], None],
    stack: contextlib.ExitStack,
    root: str,
    vocabulary: str,
    force: bool,
) -> list[Job]:
    """The jobs that no other process has done in the meantime; the stack holds them."""
    left = []
    for job in jobs:
        place = prepared.folder(root, vocabulary, job.task, job.split)
        waited = stack.enter_context(prepared.alone(place))
        there = None if force else jobs_lib.made_meanwhile(root, vocabulary, job, waited)
        if there is None:
            left.append(job)
        else:
            finished(there)
    return left


def _report(
    jobs: Sequence[Job], setting: Setting, options: Sequence[str]
) -> list[InputLine | PartLine | ShardLine]:
    """Runs the program; the lines of its report."""
    # Beam's DirectRunner would download a program first.
    chosen = pipeline_options.PipelineOptions(['--runner=FnApiRunner', *options])
    try:
        begin = beam.Pipeline(options=chosen)
    except (ValueError, ImportError) as error:  # No such runner, or a package of it is missing.
        raise errors.UserError(f'Beam: {" ".join(str(error).split())}') from error
    try:
        with begin:
            _build(begin, jobs, setting)
    except Exception as error:
        said = os.path.join(setting.scratch, ERROR)
        if not os.path.exists(said):
            raise
        with open(said, encoding='utf-8') as file:
            raise errors.UserError(file.read()) from error
    with open(os.path.join(setting.scratch, REPORT), encoding='utf-8') as file:
        return [json.loads(line) for line in file]
