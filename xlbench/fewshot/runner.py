"""Adapts group after group, and writes down every lane that ends."""

import contextlib
import dataclasses
import gc
import itertools
import pathlib
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import replace
from typing import Annotated

import jax
import msgspec
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, runs, tracking
from xlbench.benchmarks import topics
from xlbench.data import tokenizers
from xlbench.fewshot import adaptation, corpus as corpus_lib, report, results
from xlbench.fewshot.frozen import FrozenEncoder
from xlbench.fewshot.results import Group, Row
from xlbench.fewshot.settings import (
    METHODS,
    Adapt,
    Lane,
    in_order,
    planned,
    row_of,
    score,
    zero_shot,
)
from xlbench.parallel.preemption import Interrupted
from xlbench.system import files, logs, untrusted
from xlbench.system.progress import duration
from xlbench.training import checkpoints, init_from, objectives, train_step
from xlbench.training.experiment import Data
from xlbench.training.objectives.contract import Params

# Seconds between two lines about a group that is running.
SAY_EVERY = 20.0
# Lanes at once, of a group, as plan.json has it.
_AtOnce = Annotated[int, msgspec.Meta(ge=1, le=2**16)]


class Source:
    """The model that is adapted.

    Args:
      workdir: where it is trained, or has been.
      config: of its training.
      data: what the sweep reads.
      mesh: where its parameters go, whole on each device.

    Attributes:
      workdir: the same.
      config: the same.
      labels: what it labels with, by number.
      further_labels: those of them that the data does not have.
      model: the module.
      objective: what it is trained and adapted for.

    Raises:
      UserError: it cannot be adapted.
    """

    def __init__(self, workdir: str, config: ConfigDict, data: Data, mesh: Mesh):
        self.workdir, self.config, self._mesh = workdir, config, mesh
        vocabulary = next(iter(data.values()))[0][0].manifest['vocabulary']
        self.labels = runs.labels_of(data, config.model)
        self.further_labels = self.labels[len(runs.labels_of(data, {})) :]
        self.objective = objectives.build(**config.objective)
        self.model = runs.build_model(config.model, vocabulary['size'], self.labels)
        self._shapes, self._shardings = train_step.params_like(self.model, self.objective, mesh)

    def params(self, start: str) -> Params:
        """Returns the parameters that adaptations start from."""
        if start == 'source':
            step = checkpoints.find_step(self.workdir, 'best')
            return checkpoints.load_params(self.workdir, step, self._shapes, self._shardings)
        # As xlbench.train makes them.
        rng = jax.random.fold_in(jax.random.key(self.config.seed), 2**31 - 1)
        params = train_step.init_params(self.model, self.objective, self._mesh, rng)
        if not (spec := self.config.init_from):
            return params
        plan = init_from.Plan(spec, self.config.model.family, self.model, self._shapes)
        return plan.load(params)


@dataclasses.dataclass
class SweepProgress:
    """The progress of a command towards what it asks for.

    Attributes:
      total: results that it asks for.
      before: those of them that were there when it began.
      done: those of them that are there.
      began: when it began, in seconds of time.monotonic.
    """

    total: int
    before: int
    done: int
    began: float

    def line(self, metric: str, scores: Sequence[float]) -> str:
        """Says what is done, and the scores of the group that is running."""
        rate = (self.done - self.before) / (time.monotonic() - self.began)
        left = duration((self.total - self.done) / rate)
        return (
            f'  {self.done}/{self.total} | {60 * rate:.1f} a minute | {len(scores)} of this '
            f'group: {metric} {min(scores):.2f} to {max(scores):.2f} | {left} left'
        )


class Runner:
    """The sweep as it goes on: its journal, its plan, its progress.

    Args:
      config: of the sweep.
      adapt: its block of that name.
      workdir: of the sweep.
      source: the model, trained.
      mesh: the devices.
      journal: of the workdir.
      check: called after every result; raises Interrupted if the process was told to end.

    Attributes:
      log: the voice of the sweep.
    """

    def __init__(
        self,
        config: ConfigDict,
        adapt: Adapt,
        workdir: str,
        source: Source,
        mesh: Mesh,
        journal: results.Journal,
        check: Callable[[], None],
    ):
        self._task, self._adapt = config.task, adapt
        self._folder, self._source, self._mesh = pathlib.Path(workdir), source, mesh
        self._view = source.objective.view
        self.log = tracking.open_log(config, workdir)
        self._journal, self._check = journal, check
        path = untrusted.file(self._folder, 'plan.json')
        self._at_once = files.read_json(path, dict[str, _AtOnce]) if path else {}
        asked = {row.key for row in planned(self._task, adapt)}
        before = sum(row.key in asked for row in journal.rows)
        self._progress = SweepProgress(len(asked), before, before, time.monotonic())
        self.log.rewind(before)

    def run(self, corpora: dict[str, corpus_lib.Corpus]) -> None:
        """Does all that is not done yet; writes results.csv, the tables and DONE.

        Args:
          corpora: of each language that is not done; a language that is leaves it.
        """
        if self._journal.dropped:
            self.log.line(self._journal.dropped)
        progress = self._progress
        if progress.before:
            self.log.line(f'resumed with {progress.before} of {progress.total} results')
        if others := len(self._journal.rows) - progress.before:
            self.log.line(f'{others} other results, which this command does not need, are kept')
        # Not finished, until all that is asked for now is in the tables.
        (self._folder / 'DONE').unlink(missing_ok=True)
        try:
            for language in list(corpora):
                self._run_language(language, corpora.pop(language))
        except Interrupted as error:
            raise Interrupted(
                f'{error}: {progress.done} of {progress.total} results are in '
                f'{self._folder}; the same command continues from there'
            ) from None
        ordered = in_order(self._journal.rows)
        results.write_csv(ordered, self._folder / 'results.csv')
        self.log.line('\n' + report.table(str(self._folder)))
        files.write(self._folder / 'DONE', f'{len(ordered)}\n')
        self.log.finish()

    def close(self) -> None:
        """Closes the files."""
        self.log.close()

    def _run_language(self, language: str, corpus: corpus_lib.Corpus) -> None:
        """Adapts to one language; its arrays are there no longer than that."""
        gc.collect()  # Of the language before.
        test = corpus.test
        self._journal.add_gold(self._task, language, test.gold, corpus.labels, corpus.test_size)
        for start in self._adapt.starts:
            if self._journal.has_all(planned(self._task, self._adapt, [language], [start])):
                continue
            source = self._source
            frozen = FrozenEncoder(
                source.model, source.objective, source.params(start), corpus, self._mesh
            )
            unadapted = zero_shot(language, start)
            if not self._journal.has(row_of(self._task, unadapted).key):
                self._zero_shot(unadapted, frozen)
            for method in self._adapt.methods:
                groups = [g for g in self._adapt.groups(language, start) if g.method == method]
                left = [group for group in groups if self._left(group)]
                if left:
                    self._run_groups(left, frozen)

    def _left(self, group: Group) -> list[Lane]:
        """Returns the lanes of a group that are not done yet."""
        return [
            lane
            for lane in self._adapt.lanes(group.method)
            if not self._journal.has(row_of(self._task, group, lane).key)
        ]

    def _add(self, row: Row, predicted: np.ndarray | None = None, num_buckets: int = 0) -> None:
        """Writes a result down; see Journal.add."""
        self._journal.add(row, predicted, num_buckets)
        self._progress.done += 1

    def _run_groups(self, groups: Sequence[Group], frozen: FrozenEncoder) -> None:
        """Adapts groups of one method."""
        gc.collect()  # What was compiled before refers to itself, and to memory of the devices.
        adapter = adaptation.Adapter(frozen, self._adapt, groups[0].method)
        with futures.ThreadPoolExecutor(1) as beside:
            compiled = None
            for group, following in itertools.zip_longest(groups, groups[1:]):
                if compiled is not None:
                    compiled.result()
                compiled = self._run_group(group, adapter, frozen.corpus, beside, following)

    def _zero_shot(self, group: Group, frozen: FrozenEncoder) -> None:
        corpus = frozen.corpus
        predicted = frozen.predict(corpus.test)
        test_score = score(self._view, corpus.labels, corpus.test.gold, predicted)
        self._add(replace(row_of(self._task, group), score=test_score), predicted)
        self.log.line(
            f'{group.language}, start {group.start}, without adaptation: '
            f'{topics.main_score(self._task)} {test_score:.2f} on '
            f'{corpus.test_size} examples'
        )
        self._track(group, [test_score])
        self._check()

    def _run_group(
        self,
        group: Group,
        adapter: adaptation.Adapter,
        corpus: corpus_lib.Corpus,
        beside: futures.Executor,
        following: Group | None,
    ) -> futures.Future[None] | None:
        """Adapts to what is left of a group.

        Args:
          group: of the adapter's method.
          adapter: to the language.
          corpus: of it.
          beside: compiles the programs of the next group while this one's run.
          following: the next group of the same adapter.

        Returns:
          What `beside` does, if there is anything.
        """
        examples, left = corpus.bucket_sizes(group.shots), self._left(group)
        for lane in left:
            if not examples[lane.bucket]:
                self._add(replace(row_of(self._task, group, lane), examples=0, status='empty'))
        left = [lane for lane in left if examples[lane.bucket]]
        if not left:
            return None
        num_buckets = corpus.num_buckets(group.shots)
        # No more than there are buckets: how many lanes there are may change when a sweep grows.
        at_once = self._lanes_at_once(group, adapter, num_buckets)
        # Who says how many run at once means all of them.
        streams = 1
        if not self._adapt.at_once:
            streams = adapter.streams(group.shots, len(left), at_once)
        self.log.line(
            f'{group.language}, {group.shots} shots, {group.method}, start {group.start}: '
            f'{len(left)} adaptations, {at_once * streams} at once'
        )
        said, scores, compiled = time.monotonic(), [], None
        may_compile = following and adapter.may_compile_beside(group.shots, at_once, streams)
        keep = [lane for lane in left if lane.bucket < self._adapt.keep_params]
        # An error does not go on before the streams have ended.
        with contextlib.closing(adapter.run(group.shots, left, at_once, keep, streams)) as adapted:
            for result in adapted:
                if may_compile and not compiled:  # This group's own programs are there by now.
                    compiled = beside.submit(self._compile, following, adapter, corpus)
                row = self._row(group, result, corpus)
                if result.params is not None:
                    self._keep(row, result.params)
                self._add(row, result.predicted, num_buckets)
                scores.append(row.score)
                if time.monotonic() - said > SAY_EVERY or len(scores) == len(left):
                    said = time.monotonic()
                    self.log.line(self._progress.line(row.metric, scores))
                self._check()
        self._track(group, scores)
        return compiled

    def _compile(
        self, group: Group, adapter: adaptation.Adapter, corpus: corpus_lib.Corpus
    ) -> None:
        """Compiles the programs of a group, unless none of its buckets has an example."""
        if any(corpus.bucket_sizes(group.shots)):
            at_once = self._lanes_at_once(group, adapter, corpus.num_buckets(group.shots))
            adapter.compile(group.shots, at_once)

    def _row(self, group: Group, result: adaptation.Result, corpus: corpus_lib.Corpus) -> Row:
        """Returns the row of an adaptation that has ended."""
        return replace(
            row_of(self._task, group, result.lane),
            score=score(self._view, corpus.labels, corpus.test.gold, result.predicted),
            dev_score=result.dev_score,
            best_epoch=result.best_epoch,
            epochs=result.epochs,
            examples=corpus.bucket_sizes(group.shots)[result.lane.bucket],
            curve=tuple(result.curve),
        )

    def _track(self, group: Group, scores: Sequence[float]) -> None:
        """Gives the trackers the scores of a group; a step of theirs is a result of the sweep."""
        metric = topics.main_score(self._task)
        values = {'mean': np.mean(scores), 'min': min(scores), 'max': max(scores)}
        scalars = {f'{group.name}/{metric}_{key}': float(one) for key, one in values.items()}
        self.log.track(self._progress.done, scalars, {})

    def _lanes_at_once(self, group: Group, adapter: adaptation.Adapter, most: int) -> int:
        """Reads how many lanes run at once from plan.json, or chooses and notes it there."""
        known = self._at_once.get(group.name)
        if known is None or known % self._mesh.size:  # There were other devices.
            chosen = self._adapt.at_once or adapter.lanes_at_once(group.shots, most)
            self._at_once[group.name] = chosen
            files.write(self._folder / 'plan.json', logs.as_json(self._at_once))
        return self._at_once[group.name]

    def _keep(self, row: Row, params: Params) -> None:
        """Writes adapted parameters as a workdir, for xlbench.evaluate, predict and convert."""
        folder = row.adapted(self._folder)
        shutil.rmtree(folder, ignore_errors=True)  # What a killed process has begun to write.
        about = config_lib.read_about(self._source.workdir)
        vocabulary = tokenizers.path_of_workdir(self._source.workdir, about)
        config = ConfigDict(about.pop('config'))
        if METHODS[row.method].cosine:
            with config.unlocked():
                config.model.head = 'cosine'
        lane = {key: getattr(row, key) for key in ('bucket', 'learning_rate', 'seed')}
        about = about | {'adapted': row.group._asdict() | lane}
        config_lib.claim_workdir(str(folder), config, about)
        tokenizers.copy_files(vocabulary, '', folder)
        checkpoints.save_params(str(folder), 0, params)
