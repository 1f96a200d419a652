"""Adapts group after group, and writes down every lane that ends."""

import contextlib
import gc
import itertools
import pathlib
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, replace
from typing import Annotated

import jax
import msgspec
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import config as config_lib, runs
from xlbench.data import tokenizers
from xlbench.fewshot import corpus as corpus_lib, report, results
from xlbench.fewshot.adaptation import Adapter
from xlbench.fewshot.frozen import FrozenEncoder
from xlbench.fewshot.lanes import Lanes
from xlbench.fewshot.results import Group, Row
from xlbench.fewshot.settings import METHODS, Adapt, in_order, planned, score
from xlbench.parallel.preemption import Interrupted
from xlbench.system import files, untrusted
from xlbench.system.progress import duration
from xlbench.training import checkpoints, init_from, objectives, tracking, train_step
from xlbench.training.experiment import Data
from xlbench.training.objectives.contract import Params

# Seconds between two lines about a group that is running.
SAY_EVERY = 20.0
# Lanes at once, of a group, as plan.json has it.
_AtOnce = Annotated[int, msgspec.Meta(ge=1, le=2**16)]


class Source:
    """The model that is adapted; its parameters go whole onto each device of the mesh.

    Attributes:
      workdir, config: of its training, which may be to come.
      vocabulary: of the data, as its manifests have it.
      labels: by number.

    Raises:
      UserError: it cannot be adapted.
    """

    def __init__(self, workdir: str, config: ConfigDict, data: Data, mesh: Mesh):
        self.workdir, self.config, self._mesh = workdir, config, mesh
        self.vocabulary = next(iter(data.values()))[0][0].manifest['vocabulary']
        self.labels = runs.labels_of(data, config.model)
        self.objective = objectives.build(**config.objective)
        self.model = runs.build_model(config.model, self.vocabulary['size'], self.labels)
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


@dataclass
class Runner:
    """The sweep as it goes on: its journal, its plan, its progress, and its log.

    After every result `check` is called, which raises Interrupted if the process was told to end.
    """

    config: ConfigDict
    adapt: Adapt
    workdir: pathlib.Path
    source: Source
    mesh: Mesh
    journal: results.Journal
    check: Callable[[], None]

    def __post_init__(self):
        self.log = tracking.open_log(self.config, str(self.workdir))
        path = untrusted.file(self.workdir, 'plan.json')
        self._at_once = files.read_json(path, dict[str, _AtOnce]) if path else {}
        asked = {row.key for row in planned(self.config.task, self.adapt)}
        self._total = len(asked)
        self._before = self._done = sum(row.key in asked for row in self.journal.rows)
        self._began = time.monotonic()
        self.log.rewind(self._before)

    def run(self, corpora: dict[str, corpus_lib.Corpus]) -> None:
        """Does all that is not done yet; writes results.csv, the tables and DONE.

        A language that is done leaves `corpora`.
        """
        if self.journal.dropped:
            self.log.line(self.journal.dropped)
        if self._before:
            self.log.line(f'resumed with {self._before} of {self._total} results')
        if others := len(self.journal.rows) - self._before:
            self.log.line(f'{others} other results, which this command does not need, are kept')
        # Not finished, until all that is asked for now is in the tables.
        (self.workdir / 'DONE').unlink(missing_ok=True)
        try:
            for language in list(corpora):
                self._run_language(language, corpora.pop(language))
        except Interrupted as error:
            raise Interrupted(
                f'{error}: {self._done} of {self._total} results are in '
                f'{self.workdir}; the same command continues from there'
            ) from None
        ordered = in_order(self.journal.rows)
        results.write_csv(ordered, self.workdir / 'results.csv')
        self.log.line('\n' + report.table(str(self.workdir)))
        files.write(self.workdir / 'DONE', f'{len(ordered)}\n')
        self.log.finish()

    def _run_language(self, language: str, corpus: corpus_lib.Corpus) -> None:
        """Adapts to one language; its arrays are there no longer than that."""
        gc.collect()  # Of the language before.
        gold = corpus.test.gold
        self.journal.add_gold(self.config.task, language, gold, corpus.labels, corpus.test_size)
        for start in self.adapt.starts:
            rows = planned(self.config.task, self.adapt, [language], [start])
            left = [row for row in rows if not self.journal.has(row.key)]
            if not left:
                continue
            source, params = self.source, self.source.params(start)
            frozen = FrozenEncoder(source.model, source.objective, params, corpus, self.mesh)
            if not left[0].shots:
                self._zero_shot(left.pop(0), frozen)
            for row in left:
                if not corpus.num_examples(row):
                    self._add(replace(row, examples=0, status='empty'))
            left = [row for row in left if corpus.num_examples(row)]
            for method, of_method in itertools.groupby(left, lambda row: row.method):
                self._run_method(method, [*of_method], frozen)

    def _add(self, row: Row, predicted: np.ndarray | None = None, num_buckets: int = 0) -> None:
        self.journal.add(row, predicted, num_buckets)
        self._done += 1

    def _zero_shot(self, row: Row, frozen: FrozenEncoder) -> None:
        corpus, predicted = frozen.corpus, frozen.predict(frozen.corpus.test)
        test_score = score(corpus.of_words, corpus.labels, corpus.test.gold, predicted)
        self._add(replace(row, score=test_score, status='done'), predicted)
        self.log.line(
            f'{row.language}, start {row.start}, without adaptation: '
            f'{row.metric} {test_score:.2f} on {corpus.test_size} examples'
        )
        self._track(row, [test_score])
        self.check()

    def _run_method(self, method: str, left: Sequence[Row], frozen: FrozenEncoder) -> None:
        """Adapts by one method, group after group."""
        gc.collect()  # What was compiled before refers to itself, and to memory of the devices.
        lanes = Lanes(frozen, self.adapt, method)
        groups = [[*rows] for _, rows in itertools.groupby(left, lambda row: row.group)]
        with futures.ThreadPoolExecutor(1) as beside:
            compiled = None
            for rows, following in itertools.zip_longest(groups, groups[1:]):
                compiled = self._run_group(rows, lanes, compiled, beside, following)

    def _run_group(
        self,
        rows: Sequence[Row],
        lanes: Lanes,
        compiled: futures.Future[tuple[Adapter, int]] | None,
        beside: futures.Executor,
        following: Sequence[Row] | None,
    ) -> futures.Future[tuple[Adapter, int]] | None:
        """Adapts to what is left of a group, and compiles for the `following` one `beside` it."""
        group = rows[0].group
        adapter, at_once = compiled.result() if compiled else self._adapter(lanes, group)
        # A user who says how many run at once means all of them.
        streams = 1 if self.adapt.at_once else adapter.streams(len(rows), at_once)
        self.log.line(
            f'{group.language}, {group.shots} shots, {group.method}, start {group.start}: '
            f'{len(rows)} adaptations, {at_once * streams} at once'
        )
        said, scores, coming = time.monotonic(), [], None
        may_compile = bool(following) and adapter.may_compile_beside(at_once, streams)
        keep = [row for row in rows if row.bucket in range(self.adapt.keep_params)]
        # An error does not go on before the streams have ended.
        with contextlib.closing(adapter.run(rows, at_once, keep, streams)) as adapted:
            for row, predicted, params in adapted:
                # This group's own programs are there by now.
                if following and may_compile and not coming:
                    coming = beside.submit(self._adapter, lanes, following[0].group, ahead=True)
                if params is not None:
                    self._keep(row, params)
                self._add(row, predicted, len(lanes.frozen.corpus.bucket_sizes(group.shots)))
                assert row.score is not None  # It has ended.
                scores.append(row.score)
                if time.monotonic() - said > SAY_EVERY or len(scores) == len(rows):
                    said = time.monotonic()
                    rate = (self._done - self._before) / (said - self._began)
                    self.log.line(progress(self._done, self._total, rate, row.metric, scores))
                self.check()
        self._track(rows[0], scores)
        return coming

    def _adapter(self, lanes: Lanes, group: Group, ahead: bool = False) -> tuple[Adapter, int]:
        """Returns the adapter of a group, and how many lanes run at once, as plan.json has it."""
        adapter, known = Adapter(lanes, group.shots), self._at_once.get(group.name)
        if known is None or known % self.mesh.size:  # There were other devices.
            # At most one lane a bucket: the number of rows may change when a sweep grows.
            most = len(lanes.frozen.corpus.bucket_sizes(group.shots))
            self._at_once[group.name] = self.adapt.at_once or adapter.lanes_at_once(most)
            files.write(self.workdir / 'plan.json', files.as_json(self._at_once))
        if ahead:
            adapter.compile(self._at_once[group.name])
        return adapter, self._at_once[group.name]

    def _track(self, row: Row, scores: Sequence[float]) -> None:
        """Gives the trackers the scores of a row's group; their step is a result of the sweep."""
        values = {'mean': float(np.mean(scores)), 'min': min(scores), 'max': max(scores)}
        scalars = {f'{row.group.name}/{row.metric}_{k}': one for k, one in values.items()}
        self.log.track(self._done, scalars, {})

    def _keep(self, row: Row, params: Params) -> None:
        """Writes adapted parameters as a workdir, for xlbench.evaluate, predict and convert."""
        folder = row.adapted(self.workdir)
        shutil.rmtree(folder, ignore_errors=True)  # What a killed process has begun to write.
        about = config_lib.read_about(self.source.workdir)
        vocabulary = tokenizers.path_of_workdir(self.source.workdir, about)
        config = ConfigDict(about.pop('config'))
        if METHODS[row.method].cosine:
            with config.unlocked():
                config.model.head = 'cosine'
        lane = {key: getattr(row, key) for key in ('bucket', 'learning_rate', 'seed')}
        about = about | {'adapted': row.group._asdict() | lane}
        config_lib.claim_workdir(str(folder), config, about)
        tokenizers.copy_files(vocabulary, '', folder)
        checkpoints.save_params(str(folder), 0, params)


def progress(done: int, total: int, rate: float, metric: str, scores: Sequence[float]) -> str:
    """Describes the progress at a rate of results a second, and the scores of the running group."""
    return (
        f'  {done}/{total} | {60 * rate:.1f} a minute | {len(scores)} of this '
        f'group: {metric} {min(scores):.2f} to {max(scores):.2f} | '
        f'{duration((total - done) / rate)} left'
    )
