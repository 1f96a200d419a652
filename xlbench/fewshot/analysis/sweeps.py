"""Reads the workdir of a sweep, finished or not; xlbench/fewshot/results.py says what is in it.

Every number of a group is over its buckets, with the learning rate that is best on dev (see
`Adaptations`), and with the seed that has the most buckets.
"""

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import operator
import os
import pathlib
import statistics
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from xlbench.benchmarks import topics
from xlbench.data import prepared
from xlbench.fewshot import results
from xlbench.fewshot.results import ZERO_SHOT, Group, Row, TestSet
from xlbench.reporting import results as runs_results
from xlbench.reporting.tables import clean
from xlbench.system import errors, files, untrusted
from xlbench.system.files import Json

Config = Mapping[str, Json]


class _Adapt(msgspec.Struct):
    """The part of config.adapt, or of a later command, that is read; None stands for all."""

    languages: list[str] | None = None
    shots: list[int] | None = None
    methods: list[str] | None = None
    starts: list[str] | None = None
    buckets: int | list[int] = 0
    dev: str | None = None
    lengths: dict[str, int] = {}
    test_examples: int = 0

    def asks_for(self, group: Group) -> bool:
        """Returns whether the filters include a group."""
        named = (self.languages, self.shots, self.methods, self.starts)
        return all(x is None or value in x for x, value in zip(named, group, strict=True))


class _Data(msgspec.Struct):
    """The part of config.source.data that is read."""

    root: str = ''
    vocabulary: str = ''


class _Source(msgspec.Struct):
    data: _Data = msgspec.field(default_factory=_Data)


class _Config(msgspec.Struct):
    adapt: _Adapt = msgspec.field(default_factory=_Adapt)
    source: _Source = msgspec.field(default_factory=_Source)
    source_workdir: str = ''


class About(msgspec.Struct):
    """The part of a sweep's config.json that is read; None is what earlier versions lack."""

    config: _Config = msgspec.field(default_factory=_Config)
    asked: list[_Adapt] | None = None  # By each command that added to the sweep.
    data: str | None = None  # 'sample' or 'files'.
    cwd: str | None = None  # Where the sweep was begun.
    contents: dict[str, str] | None = None  # '<task>/<split>' -> `Prepared.content`.
    examples: dict[str, int] | None = None  # '<task>/<split>' -> number of examples.
    git: str | None = None
    devices: str | None = None  # The mesh, in words.
    dtype: str | None = None
    versions: dict[str, str] | None = None


class _Trained(msgspec.Struct):
    """The part of the source-trained model's config.json that is read."""

    config: dict | None = None
    contents: dict[str, str] | None = None
    examples: dict[str, int] | None = None


class Sweep:
    """A sweep's workdir, of one task; UserError if it is none, or if nothing in it is finished yet.

    Attributes:
      config: the resolved config, as it is in config.json.
      about: config.json as far as it is read.
      rows: all rows, sorted by language, shots, method, start, learning rate, bucket, seed.
      dropped: a sentence if the last line of results.jsonl was left out; else ''.
      name: of the workdir.
      task: of the benchmark, or a user's own.
      source_workdir: of the source-trained model, which may be gone.
    """

    def __init__(self, workdir: str | pathlib.Path):
        self.workdir = folder = pathlib.Path(workdir)
        if not untrusted.file(folder, 'results.jsonl'):
            inner = sorted(path.parent.name for path in folder.glob('*/results.jsonl'))
            hint = f'; did you mean its subfolder {inner[0]}?' if inner else ''
            raise errors.UserError(
                f'{workdir} has no results.jsonl, so it is not a workdir of xlbench.fewshot, or no '
                f'adaptation of it is finished{hint}'
            )
        path = untrusted.file(folder, 'config.json') or folder / 'config.json'
        info = files.read_json(path, dict)
        self.about = files.check_type(info, About, str(path))
        self.config: Config = info.get('config', {})
        topics.add(self.config)
        rows, _, self.dropped = results.read_rows(folder / 'results.jsonl')
        if not rows:
            raise errors.UserError(f'no adaptation of {workdir} is finished; continue the sweep')
        self.name, self.task = clean(folder.resolve().name), rows[0].task
        if others := sorted({row.task for row in rows} - {self.task}):
            raise errors.UserError(
                f'{workdir} has results of {self.task} and {others[0]}; a sweep is of one task'
            )
        # None first.
        rows.sort(key=lambda row: [(value is not None, value or 0) for value in row.key])
        self.rows = tuple(rows)
        named = self.about.config.source_workdir
        self.source_workdir = pathlib.Path(self._where(named)) if named else folder / 'source'

    @functools.cached_property
    def groups(self) -> dict[Group, 'Adaptations']:
        """Returns the adaptations of each group."""
        by_group = itertools.groupby(self.rows, lambda row: row.group)
        return {group: Adaptations(self, group, [*rows]) for group, rows in by_group}

    @property
    def max_tokens(self) -> int:
        """Returns most tokens of an input; longer ones were cut."""
        return self.about.config.adapt.lengths['inputs']

    def test_numbers(self, size: int) -> Sequence[int]:
        """Returns the numbers of the predicted examples of a prepared test set of that size."""
        return results.drawn(size, self.about.config.adapt.test_examples)

    def buckets(self, group: Group) -> set[int]:
        """Returns the numbers of the buckets that a group is to be adapted to."""
        return {
            number
            for asked in self.about.asked or [self.about.config.adapt]
            if asked.asks_for(group)
            for number in results.bucket_numbers(asked.buckets)
        }

    # ------------------------------------------------------------------------ the source model

    @property
    def searched(self) -> list[pathlib.Path]:
        """Lists the workdirs of source models that were trained to be compared, not adapted."""
        if self.about.config.source_workdir:
            return []
        folders = sorted(self.workdir.glob('source-*'))
        return [folder for folder in folders if untrusted.file(folder, 'config.json')]

    @functools.cached_property
    def _trained(self) -> _Trained:
        """Returns the config.json of the source-trained model; empty if its workdir is gone."""
        path = untrusted.file(self.source_workdir, 'config.json')
        return files.read_json(path, _Trained) if path else _Trained()

    @property
    def source_config(self) -> Config:
        """Returns the config of the source-trained model."""
        return self._trained.config or self.config.get('source', {})

    @property
    def source_examples(self) -> Mapping[str, int]:
        """Counts the examples that the source model was trained with, by '<task>/<split>'."""
        return self._trained.examples or self.about.examples or {}

    @functools.cached_property
    def source(self) -> str:
        """Hashes the source model's config: sweeps that adapt the same model have the same."""
        text = json.dumps(self.source_config, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    # ---------------------------------------------------------------------------- prepared data

    def open_prepared(self, language: str, split: str) -> prepared.Prepared:
        """Returns the prepared examples in a language that the sweep has read.

        Raises:
          UserError: they are not there any more.
        """
        name = topics.task_name(self.task, language)
        contents = {**(self._trained.contents or {}), **(self.about.contents or {})}
        data = self.about.config.source.data
        root, vocabulary = self._where(data.root), data.vocabulary
        try:
            content = contents.get(f'{name}/{split}')
            return prepared.open_task(root, vocabulary, name, split, content)
        except prepared.NotPrepared as error:
            raise errors.UserError(
                f'{error}; make it with: python -m xlbench.prepare '
                f'--mixture={name}:{split} --root={root} --vocabulary={vocabulary}'
            ) from None

    def _where(self, folder: str) -> str:
        """Finds a folder of the config; a relative one starts where the sweep was run, or here."""
        begun = os.path.join(self.about.cwd or '', folder)
        return begun if os.path.isdir(begun) else folder

    # ------------------------------------------------------------------------------ its results

    def zero_shot(self, language: str, start: str = 'source') -> np.ndarray:
        """Returns [W] uint8: predictions of the model without adaptation."""
        path = results.path_of(self.workdir, self.task, language, ZERO_SHOT, start)
        return results.load_labels(self.workdir, path)

    def gold(self, language: str) -> np.ndarray:
        """Returns [W] uint8: the right labels of the test set."""
        path = results.path_of(self.workdir, self.task, language, 'gold')
        return results.load_labels(self.workdir, path)

    def predicted(self, row: Row) -> np.ndarray:
        """Returns [W] uint8: predictions of an adapted model."""
        table = results.load_labels(self.workdir, row.predictions(self.workdir))
        if table.ndim == 1:
            return table
        if row.bucket is None or row.bucket >= len(table):
            raise errors.UserError(f'{self.workdir} has no predictions of {row.key}')
        return table[row.bucket]

    def test_set(self, language: str) -> TestSet:
        """Reads the names of the labels, and the number of test examples, where noted."""
        return results.read_test_set(self.workdir, self.task, language) or TestSet()


# -----------------------------------------------------------------------------------------------
# Groups of adaptations.


class Adaptations:
    """The finished adaptations of a group in one sweep, with one learning rate.

    It is the one with the highest mean dev score over buckets, the smaller one of equals. Only
    those compete that have the most finished buckets: means over other buckets do not compare.
    Without a dev set it is the smallest.

    Attributes:
      language, shots, method, start: of the group; K is 0 without adaptation.
      learning_rate: None without adaptation, or if none is finished.
      rows: one for each bucket and seed.
      by_bucket: those of the seed that has most buckets.
      by_seed: those of the bucket that has most seeds.
      scores: [buckets], test scores of `by_bucket`, 0 to 100.
      mean: of the scores; NaN without any.
      deviation: standard deviation of the sample (n - 1); None for a single bucket.
      seed: of the adaptations in `by_bucket`; None without any.
      has_dev: the learning rate was chosen on a dev set.
      empty: numbers of the buckets without an example.
      missing: number of buckets that the sweep still has to adapt to.
    """

    def __init__(self, sweep: Sweep, group: Group, rows: Sequence[Row]):
        self.sweep, (self.language, self.shots, self.method, self.start) = sweep, group
        done = collections.defaultdict[float | None, list[Row]](list)
        for row in rows:
            if row.status == 'done':
                done[row.learning_rate].append(row)
        most = max(map(len, done.values()), default=0)
        full = [rate for rate, of_rate in done.items() if len(of_rate) == most]

        def place(rate: float | None) -> tuple[float, float]:
            scores = [row.dev_score for row in done[rate] if row.dev_score is not None]
            # fsum does not depend on the order in which adaptations ended.
            mean = math.fsum(scores) / most if len(scores) == most else -math.inf
            return -mean, rate or 0

        self.learning_rate = min(full, key=place, default=None)
        self.rows = tuple(done[self.learning_rate])
        self.by_bucket = _most(self.rows, 'seed', 'bucket')
        self.by_seed = _most(self.rows, 'bucket', 'seed')
        scores = [row.score for row in self.by_bucket if row.score is not None]
        self.scores = np.array(scores)
        self.mean = statistics.fmean(scores) if scores else math.nan
        self.deviation = statistics.stdev(scores) if len(scores) > 1 else None
        self.seed = self.by_bucket[0].seed if self.by_bucket else None
        self.has_dev = all(row.dev_score is not None for row in self.by_bucket)
        self.empty = sorted({row.bucket or 0 for row in rows if row.status == 'empty'})
        asked = sweep.buckets(group) if self.shots else set()
        self.missing = len(asked - {row.bucket for row in self.by_bucket} - {*self.empty})

    @property
    def zero_shot(self) -> float:
        """Returns the test score of the source-trained model in the sweep; NaN without one."""
        same = self.sweep.groups.get(Group(self.language, 0, ZERO_SHOT))
        return same.mean if same else math.nan


def _most(rows: Sequence[Row], same: str, order: str) -> tuple[Row, ...]:
    """Returns the most rows with the `same` field, in `order`; of equally many the first."""
    groups = collections.defaultdict[int | None, list[Row]](list)
    for row in sorted(rows, key=operator.attrgetter(same, order)):
        groups[getattr(row, same)].append(row)
    most = max(groups.values(), key=len, default=[])
    return tuple(most)


# -----------------------------------------------------------------------------------------------
# Source training.


class _Optimizer(msgspec.Struct):
    learning_rate: float | None = None


class _Stage(msgspec.Struct):
    num_steps: int = 0
    optimizer: _Optimizer = msgspec.field(default_factory=_Optimizer)


class _Batches(msgspec.Struct):
    batch_size: int = 0


class _Training(msgspec.Struct):
    """The part of the config of a source training that is read."""

    stages: dict[str, _Stage] = {}
    batches: _Batches = msgspec.field(default_factory=_Batches)


@dataclasses.dataclass(frozen=True)
class SourceTraining:
    """The training of a source model; None where its workdir does not say."""

    workdir: pathlib.Path
    learning_rate: float | None  # Of the last stage, at its highest.
    batch_size: int | None
    epochs: float | None  # Over the training examples.
    # Score on the source language's dev set, and of how many examples, at the step that is adapted;
    # or a sentence on why that is not known.
    dev: tuple[float | None, int] | str
    test: tuple[float | None, int] | str  # Likewise, on its test set.


def read_source(workdir: pathlib.Path, task: str, language: str) -> SourceTraining | str:
    """Reads a workdir of source training for a task; a sentence on why if it cannot be read."""
    try:
        run = runs_results.read_run(workdir)
        config = files.check_type(run.config, _Training, f'{workdir}/config.json')
    except errors.UserError as error:
        return str(error)
    name, metric = topics.task_name(task, language), topics.main_score(task)

    def score(split: str) -> tuple[float | None, int] | str:
        try:
            result = run.at(run.choose_step('best', split, metric), split).get(name)
        except errors.UserError as error:
            return str(error)
        if result is None or metric not in result.scores:
            return f'{workdir} has no {metric} of {name} on the split {split!r}'
        return result.scores[metric], result.num_examples

    stages = list(config.stages.values())
    examples = (run.info.get('examples') or {}).get(f'{name}/train')
    rows = config.batches.batch_size * sum(stage.num_steps for stage in stages)
    return SourceTraining(
        workdir,
        stages[-1].optimizer.learning_rate if stages else None,
        config.batches.batch_size or None,
        rows / examples if examples else None,
        score('validation'),
        score('test'),
    )
