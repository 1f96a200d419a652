"""A whole sweep: one source-trained model, adapted to few shots again and again, and resumed.

What is adapted comes in groups: a language, what it starts from, a method, and a number of shots K.
A group has a lane for each learning rate, bucket and seed, and one compiled program runs as many of
its lanes at once as fit; see adaptation.py. Every lane that ends is written down (results.py), so
that a sweep that was stopped, however it was, goes on with the others, and ends with the same
results. For that the number of lanes at once is kept as well, in plan.json: it decides in which
order a compiled program adds.

A later command may ask for more in the same workdir: see workdir.py. What is done is kept, and the
results are those of a sweep that was asked for everything at once, in the same bytes: no lane
depends on which others there are, and results.csv has an order of its own. Everything else stays
as it was begun, the contents of the data included.
"""

import contextlib
import dataclasses
import gc
import hashlib
import json
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import jax
import msgspec
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from xlbench import (
    config as config_lib,
    dry_run,
    errors,
    files,
    foreign,
    locks,
    logs,
    names,
    runs,
    train,
)
from xlbench.benchmarks import topics
from xlbench.config import check_keys
from xlbench.data import features, prepared, tokenizers
from xlbench.errors import UserError
from xlbench.fewshot import adaptation, report, results, shots as shots_lib, workdir as workdir_lib
from xlbench.fewshot.adaptation import Lane
from xlbench.metrics import tagging
from xlbench.parallel import partitioning
from xlbench.parallel.preemption import Interrupted, Interruption
from xlbench.training import checkpoints, init_from, memory, objectives, train_step
from xlbench.training.experiment import Data

STARTS = ('source', 'none')
# Seconds between two lines about a group that is running.
SAY_EVERY = 20.0


@dataclasses.dataclass(frozen=True)
class Adapt:
    """The block config.adapt: what is adapted, and how; each language with each of the others.

    Attributes:
      languages: ISO codes.
      shots: numbers of shots, K.
      buckets: of each K: a number, the first so many; or a range (FIRST, END), so that (30, 40) are
        the ten buckets from 30 to 39.
      learning_rates: of Adam, without a schedule.
      starts: 'source', the source-trained model; 'none', what source training began with.
      methods: see adaptation.METHODS.
      seeds: of dropout, of the order of examples and of fresh heads.
      epochs: at most.
      patience: epochs without a higher dev score after which an adaptation ends.
      batch_size: examples of a step; 0 is the whole bucket.
      adam: b1, b2 and eps.
      dev: what adaptations are stopped by, see shots.DEV_SETS.
      dev_examples: so many of a larger dev set; 0 takes all.
      lengths: most tokens of 'inputs'.
      eval_batch_size: rows of a batch of dev and test sets.
      at_once: adaptations that run at once; 0 chooses as many as fit.
      keep_params: of the first so many buckets of each group, the adapted parameters are kept.
    """

    languages: Sequence[str]
    shots: Sequence[int]
    buckets: int | Sequence[int]
    learning_rates: Sequence[float]
    starts: Sequence[str] = ('source',)
    methods: Sequence[str] = ('full',)
    seeds: Sequence[int] = (42,)
    epochs: int = 50
    patience: int = 10
    batch_size: int = 0
    adam: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: dict(b1=0.9, b2=0.999, eps=1e-8)
    )
    dev: str = 'validation'
    dev_examples: int = 0
    lengths: Mapping[str, int] = dataclasses.field(default_factory=lambda: dict(inputs=128))
    eval_batch_size: int = 512
    at_once: int = 0
    keep_params: int = 0

    def check(self, task: str) -> None:
        """Raises UserError for a value that is not allowed, or not for this task."""
        allowed = {
            'languages': topics.languages(task),
            'shots': topics.shots(task) or self.shots,
            'starts': STARTS,
            'methods': adaptation.TAGGING_METHODS if is_tagging(task) else adaptation.METHODS,
        }
        for key in (*allowed, 'learning_rates', 'seeds'):
            values = getattr(self, key)
            if not isinstance(values, list | tuple) or not values:
                raise UserError(f'config.adapt.{key} is {values!r}; give one or more, as (A, B)')
            if len(set(values)) < len(values):
                raise UserError(f'config.adapt.{key} is {tuple(values)}; one of it is there twice')
            for value in values:
                if value not in allowed.get(key, values):
                    known = map(str, allowed[key])
                    raise errors.unknown(
                        f'value for {task} in config.adapt.{key}', f'{value}', known
                    )
        if self.dev not in shots_lib.DEV_SETS:
            raise errors.unknown('dev set in config.adapt.dev', self.dev, shots_lib.DEV_SETS)
        if not self.numbers:
            raise UserError(
                f'config.adapt.buckets is {_as_tuple(self.buckets)}; give a number, for the first '
                'so many, or a range (FIRST, END), such as (30, 40) for those from 30 to 39'
            )
        for key, least in (
            ('epochs', 1), ('patience', 1), ('batch_size', 0),
            ('eval_batch_size', 1), ('dev_examples', 0), ('at_once', 0), ('keep_params', 0),
        ):  # fmt: skip
            if (value := getattr(self, key)) < least:
                raise UserError(f'config.adapt.{key} is {value}; it must be {least} or more')
        if not all(isinstance(rate, float | int) and rate > 0 for rate in self.learning_rates):
            raise UserError(f'config.adapt.learning_rates is {self.learning_rates}; all above 0')
        if not all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in self.seeds):
            raise UserError(f'config.adapt.seeds is {self.seeds}; whole numbers from 0 to 2**32')
        check_keys(self.adam, ('b1', 'b2', 'eps'), 'config.adapt.adam')
        check_keys(self.lengths, ('inputs',), 'config.adapt.lengths')

    def groups(self, language: str, start: str) -> list['Group']:
        """The groups of a language that start alike, in their order."""
        return [Group(language, start, method, k) for method in self.methods for k in self.shots]

    @property
    def numbers(self) -> range:
        """Those of the buckets."""
        return results.bucket_numbers(self.buckets)

    def lanes(self) -> list[Lane]:
        """The lanes of each group."""
        return [
            Lane(bucket, float(rate), seed)
            for rate in self.learning_rates
            for bucket in self.numbers
            for seed in self.seeds
        ]


@dataclasses.dataclass(frozen=True)
class Group:
    """What one compiled program adapts."""

    language: str
    start: str
    method: str
    shots: int

    @property
    def name(self) -> str:
        """As plan.json and the folders of kept parameters have it."""
        return f'{self.language}-{self.shots}-{self.method}-{self.start}'

    def row(self, task: str, lane: Lane | None = None, **values: Any) -> results.Row:
        """A result of this group, or the one without adaptation."""
        empty = dict(score=None, dev_score=None, best_epoch=None, epochs=None, examples=None)
        return results.Row(
            task=task,
            language=self.language,
            shots=self.shots,
            bucket=lane and lane.bucket,
            method=self.method,
            start=self.start,
            learning_rate=lane and lane.learning_rate,
            seed=lane and lane.seed,
            metric=topics.main_score(task),
            **empty | {'status': 'done'} | values,
        )


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def zero_shot(language: str, start: str) -> Group:
    """The model without adaptation, as a group of one row."""
    return Group(language, start, results.ZERO_SHOT, 0)


def is_tagging(task: str) -> bool:
    """Whether words are labelled."""
    return topics.is_tagging(task)


def score(view: str, labels: Sequence[str], gold: np.ndarray, predicted: np.ndarray) -> float:
    """Chunk F1 of tags, accuracy of labels, 0 to 100; the same numbers as xlbench.metrics gives.

    Args:
      view: 'tagging' or 'classification'.
      labels: their names.
      gold: [W] numbers of labels, -1 between sentences.
      predicted: [W], likewise.
    """
    if features.VIEWS[view].labels == 'text':
        return 100.0 * int((gold == predicted).sum()) / len(gold)
    found = tagging.Chunks(labels).compare(gold, predicted)
    return 100.0 * float(tagging.f1(*(where.sum() for where in found))[0])


# ---------------------------------------------------------------------------------------------
# Checks, before anything costs.


def check_config(config: ConfigDict) -> Adapt:
    """config.adapt, if all that needs nothing opened is right.

    Raises:
      UserError: a key or value is wrong, or missing.
    """
    names.check_sweep(config)
    try:
        runs.check_config(config.source)
    except UserError as error:
        raise UserError(f'in config.source: {error}') from None
    for axis, size in config.mesh.items():
        if axis != 'data' and size != 1:
            raise UserError(
                f'config.mesh.{axis} is {size}, but every adaptation runs on one device; set it '
                'to 1'
            )
    adapt = Adapt(**config.adapt.to_dict())
    adapt.check(config.task)
    if jax.process_count() > 1:
        raise UserError(
            f'a sweep runs in one process, on all devices of its machine, and this is one of '
            f'{jax.process_count()}; start it without XLBENCH_PROCESSES, and other languages, with '
            'config.adapt.languages and a --workdir of their own, on other machines'
        )
    return adapt


def open_data(config: ConfigDict, adapt: Adapt) -> Data:
    """What the sweep reads, and its source training learns from; makes what is not prepared."""
    root, vocabulary = config.source.data.root, config.source.data.vocabulary
    pairs = needed_data(config, adapt)
    trained = [(stage.mixture, stage.split) for stage in config.source.stages.values()]
    prepared.ensure(
        pairs,
        root=root,
        vocabulary=vocabulary,
        sample=config.source.data.sample,
        vocabulary_size=config.source.data.get('vocabulary_size') or 0,
        texts=[*trained, *(pair for pair in pairs if pair[1].startswith('shots_'))],
    )
    return {pair: prepared.open_mixture(root, vocabulary, *pair) for pair in pairs}


def needed_data(config: ConfigDict, adapt: Adapt) -> list[tuple[str, str]]:
    """(task or mixture, split) of all that `open_data` opens."""
    pairs = [
        pair
        for language in adapt.languages
        for pair in shots_lib.needed(config.task, language, adapt.shots, adapt.dev)
    ]
    if not config.source_workdir:
        pairs += [(stage.mixture, stage.split) for stage in config.source.stages.values()]
        blocks = [b for b in config.source.evals.values() if not b.get('optional')]
        pairs += [(task, block.split) for block in blocks for task in block.tasks]
    return list(dict.fromkeys(pairs))


def in_advance(config: ConfigDict, workdir: str, found: str) -> Iterator[str]:
    """What `sweep` would do, a line each; the arguments are the same. Nothing is written."""
    adapt = check_config(config)
    mesh = partitioning.make_mesh(**config.mesh)
    memory.check(config.source, mesh)
    begun = workdir_lib.check_workdir(workdir, config)
    yield from dry_run.settings(config)
    yield dry_run.workdir_line(workdir, begun, begun and is_finished(workdir, config.task, adapt))
    yield from introduction(config, adapt, workdir, mesh, found)
    source = source_config(config)
    pairs = needed_data(config, adapt)
    data = yield from dry_run.data_lines(config.source.data, pairs)
    if config.source_workdir:
        yield f'source model: {config.source_workdir}'
    else:
        yield 'source model: trained first'
        yield from dry_run.size_lines(source, data, mesh)
        yield from dry_run.download_lines(source)


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
      model: the module.
      objective: what it is trained and adapted for.

    Raises:
      UserError: it cannot be adapted.
    """

    def __init__(self, workdir: str, config: ConfigDict, data: Data, mesh: Mesh):
        self.workdir, self.config, self._mesh = workdir, config, mesh
        vocabulary = next(iter(data.values()))[0][0].manifest['vocabulary']
        self.labels = runs.labels_of(data)
        self.objective = objectives.build(**config.objective)
        self.model = runs.build_model(config.model, vocabulary['size'], self.labels)
        self._shapes, self._shardings = train_step.params_like(self.model, self.objective, mesh)

    def params(self, start: str) -> Any:
        """What adaptations start from."""
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


def source_config(config: ConfigDict) -> ConfigDict:
    """How the source model is trained, or was; UserError if it is none to adapt to the task."""
    own, workdir = config.source, config.source_workdir
    if workdir:
        own = config_lib.read_config(workdir)
        if not (pathlib.Path(workdir) / 'DONE').is_file():
            raise UserError(
                f'config.source_workdir={workdir} is a run that is not finished; the command that '
                'began it finishes it'
            )
    needed = 'tagging' if is_tagging(config.task) else 'classification'
    if own.objective.name != needed:
        raise UserError(
            f'the source model is trained for {own.objective.name}, and {config.task} is '
            f'{needed}; name another one in config.source or config.source_workdir'
        )
    if rank := own.lora.rank:
        raise UserError(
            f'the source model is trained with LoRA of rank {rank}, and only whole models are '
            'adapted; set config.source.lora.rank to 0, or name another source_workdir'
        )
    return own


def check_fits(config: ConfigDict, adapt: Adapt, source: Source, data: Data) -> None:
    """Raises UserError unless texts of the data are what the source model reads and labels."""
    length, most = adapt.lengths['inputs'], source.model.config.max_positions
    if length > most:
        raise UserError(
            f'config.adapt.lengths.inputs is {length}, but the source model holds {most} tokens; '
            f'set it to {most} or less'
        )
    if not config.source_workdir:
        return
    about = config_lib.read_about(source.workdir)
    if (labels := about.get('labels') or []) != source.labels:
        raise UserError(
            f'config.source_workdir={source.workdir} was trained with the labels '
            f'{", ".join(labels) or "none"}, but {config.task} has {", ".join(source.labels)}'
        )
    vocabulary = next(iter(data.values()))[0][0].manifest['vocabulary']
    theirs = about.get('vocabulary') or {}
    if theirs.get('sha256') != vocabulary['sha256']:
        raise UserError(
            f'config.source_workdir={source.workdir} was trained with the vocabulary '
            f'{theirs.get("name")!r}, and the data is prepared with another, '
            f'{vocabulary["name"]!r}; set config.source.data.vocabulary to it'
        )


# ---------------------------------------------------------------------------------------------
# The sweep.


def sweep(config: ConfigDict, workdir: str, found: str = 'alone') -> None:
    """Trains the source model unless there is one, and adapts it as often as config.adapt says.

    Args:
      config: see configs/fewshot.py.
      workdir: made, or resumed if this config was begun in it.
      found: how the process was started, to say it.

    Raises:
      UserError: before anything is written, if config, data, mesh or workdir cannot work, or if
        another process writes into the workdir.
      Interrupted: the process was told to end.
    """
    adapt = check_config(config)
    if workdir_lib.check_workdir(workdir, config) and is_finished(workdir, config.task, adapt):
        print(f'{workdir} is finished already; its tables:\n\n{report.table(workdir)}')
        return
    mesh = partitioning.make_mesh(**config.mesh)
    memory.check(config.source, mesh)
    if adapt.at_once % mesh.size:
        raise UserError(
            f'config.adapt.at_once is {adapt.at_once}, but {mesh.size} devices share them equally; '
            f'set it to a multiple of {mesh.size}, or to 0'
        )
    own = config.source_workdir or os.path.join(workdir, 'source')
    theirs = source_config(config)
    with locks.folder(workdir), Interruption() as interruption:
        workdir_lib.check_workdir(workdir, config)  # It may have been begun since.
        print(f'{config.task}: reads the data of {len(adapt.languages)} languages', flush=True)
        data = open_data(config, adapt)
        source = Source(own, theirs, data, mesh)
        check_fits(config, adapt, source, data)
        journal = results.Journal.open(workdir)
        corpora = open_corpora(config, adapt, journal, interruption.check)
        surveys = [survey(adapt, *item) for item in corpora.items()]
        workdir_lib.claim_workdir(workdir, config, facts(config, source, data, mesh))
        if not config.source_workdir and not (pathlib.Path(own) / 'DONE').exists():
            train.train(config.source, own, found)
        with contextlib.closing(
            Runner(config, adapt, workdir, source, mesh, journal, interruption.check)
        ) as runner:
            for line in (*introduction(config, adapt, workdir, mesh, found), *surveys):
                runner.log.line(line)
            runner.run(corpora)


def planned(
    task: str, adapt: Adapt, languages: Sequence[str] = (), starts: Sequence[str] = ()
) -> list[results.Row]:
    """Every row there will be, without its result.

    Args:
      task: of the benchmark.
      adapt: the block of the config.
      languages: of these; all by default.
      starts: likewise.
    """
    lanes = adapt.lanes()
    return [
        row
        for language in languages or adapt.languages
        for start in starts or adapt.starts
        for row in (
            zero_shot(language, start).row(task),
            *(group.row(task, lane) for group in adapt.groups(language, start) for lane in lanes),
        )
    ]


def in_order(rows: Iterable[results.Row]) -> list[results.Row]:
    """Rows in the order of results.csv, which is the same however a sweep came about."""
    methods = (results.ZERO_SHOT, *adaptation.METHODS)

    def place(row: results.Row) -> tuple:
        named = (
            (row.language, topics.languages(row.task)),
            (row.start, STARTS),
            (row.method, methods),
        )
        numbers = (row.shots, row.learning_rate, row.bucket, row.seed)
        return (
            # Names of other versions come last.
            *(names.index(name) if name in names else len(names) for name, names in named),
            *((number is not None, number or 0) for number in numbers),
        )

    return sorted(rows, key=place)


def is_finished(workdir: str, task: str, adapt: Adapt) -> bool:
    """Whether all that is asked for now is in the tables of the workdir."""
    if not (pathlib.Path(workdir) / 'DONE').exists():
        return False
    return results.Journal.open(workdir).has_all(planned(task, adapt))


def source_model(config: ConfigDict) -> str:
    """What tells a finished source model from others: a hash; '' for one that is trained here."""
    if not (workdir := config.source_workdir):
        return ''
    about = config_lib.read_about(workdir)
    trained = {key: value for key, value in about['config'].items() if key != 'mesh'}
    step = checkpoints.find_step(workdir, 'best')
    text = json.dumps([trained, about.get('contents'), step], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# Lanes at once, of a group, as plan.json has it.
_AtOnce = Annotated[int, msgspec.Meta(ge=1, le=2**16)]


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
        self._lanes = adapt.lanes()
        self.log = logs.Log(workdir)
        self._journal, self._check = journal, check
        self._keys = {row.key for row in planned(self._task, adapt)}
        path = foreign.file(self._folder, 'plan.json')
        self._at_once = files.read_json(path, dict[str, _AtOnce]) if path else {}
        self._began, self._before = time.monotonic(), self._done

    def run(self, corpora: dict[str, shots_lib.Corpus]) -> None:
        """All that is not done yet; results.csv; the tables; DONE.

        Args:
          corpora: of each language that is not done; a language that is leaves it.
        """
        if self._journal.dropped:
            self.log.line(self._journal.dropped)
        if self._before:
            self.log.line(f'resumed with {self._before} of {len(self._keys)} results')
        if others := len(self._journal.rows) - self._before:
            self.log.line(f'{others} results are kept that this command does not ask for')
        # Not finished, until all that is asked for now is in the tables.
        (self._folder / 'DONE').unlink(missing_ok=True)
        try:
            for language in list(corpora):
                self._run_language(language, corpora.pop(language))
        except Interrupted as error:
            raise Interrupted(
                f'{error}: {self._done} of {len(self._keys)} results are in '
                f'{self._folder}; the same command goes on from there'
            ) from None
        ordered = in_order(self._journal.rows)
        results.write_csv(ordered, self._folder / 'results.csv')
        self.log.line('\n' + report.table(str(self._folder)))
        files.write(self._folder / 'DONE', f'{len(ordered)}\n')

    @property
    def _done(self) -> int:
        """How many of the results that this command asks for are there."""
        return sum(row.key in self._keys for row in self._journal.rows)

    def close(self) -> None:
        """Closes the files."""
        self.log.close()

    def _run_language(self, language: str, corpus: shots_lib.Corpus) -> None:
        """Everything in one language; its arrays are there no longer than that."""
        gc.collect()  # Of the language before.
        test = corpus.test
        self._journal.add_gold(self._task, language, test.gold, corpus.labels, test.num_examples)
        for start in self._adapt.starts:
            if self._journal.has_all(planned(self._task, self._adapt, [language], [start])):
                continue
            params = self._source.params(start)
            frozen = adaptation.FrozenEncoder(
                self._source.model, self._source.objective, params, corpus, self._mesh
            )
            unadapted = zero_shot(language, start)
            if not self._journal.has(unadapted.row(self._task).key):
                self._zero_shot(unadapted, corpus, frozen)
            for method in self._adapt.methods:
                groups = [g for g in self._adapt.groups(language, start) if g.method == method]
                left = [
                    group
                    for group in groups
                    if not self._journal.has_all(group.row(self._task, x) for x in self._lanes)
                ]
                if left:
                    self._run_groups(left, corpus, params, frozen)

    def _run_groups(
        self,
        groups: Sequence[Group],
        corpus: shots_lib.Corpus,
        params: Any,
        frozen: adaptation.FrozenEncoder,
    ) -> None:
        """Groups of one method."""
        gc.collect()  # What was compiled before refers to itself, and to memory of the devices.
        adapt, source = self._adapt, self._source
        adapter = adaptation.Adapter(
            source.model,
            source.objective,
            params,
            corpus,
            self._mesh,
            method=groups[0].method,
            epochs=adapt.epochs,
            patience=adapt.patience,
            batch_size=adapt.batch_size,
            adam=adapt.adam,
            frozen=frozen,
        )
        for group in groups:
            self._run_group(group, adapter, corpus)

    def _zero_shot(
        self, group: Group, corpus: shots_lib.Corpus, frozen: adaptation.FrozenEncoder
    ) -> None:
        predicted = frozen.predict(corpus.test)
        found = score(self._view, corpus.labels, corpus.test.gold, predicted)
        self._journal.add(group.row(self._task, score=found), predicted)
        self.log.line(
            f'{group.language}, start {group.start}, without adaptation: '
            f'{topics.main_score(self._task)} {found:.2f} on {corpus.test.num_examples} examples'
        )
        self._check()

    def _run_group(
        self, group: Group, adapter: adaptation.Adapter, corpus: shots_lib.Corpus
    ) -> None:
        """The lanes of a group that are not done yet."""
        examples = corpus.bucket_sizes(group.shots)
        left = [
            lane for lane in self._lanes if not self._journal.has(group.row(self._task, lane).key)
        ]
        for lane in left:
            if not examples[lane.bucket]:
                self._journal.add(group.row(self._task, lane, examples=0, status='empty'))
        left = [lane for lane in left if examples[lane.bucket]]
        if not left:
            return
        num_buckets = corpus.num_buckets(group.shots)
        # No more than there are buckets: how many lanes there are may change when a sweep grows.
        at_once = self._lanes_at_once(group, adapter, num_buckets)
        self.log.line(
            f'{group.language}, {group.shots} shots, {group.method}, start {group.start}: '
            f'{len(left)} adaptations, {at_once} at once'
        )
        said, scores = time.monotonic(), []
        keep = [lane for lane in left if lane.bucket < self._adapt.keep_params]
        for result in adapter.run(group.shots, left, at_once, keep):
            lane = result.lane
            row = group.row(
                self._task,
                lane,
                score=score(self._view, corpus.labels, corpus.test.gold, result.predicted),
                dev_score=result.dev_score,
                best_epoch=result.best_epoch,
                epochs=result.epochs,
                examples=examples[lane.bucket],
                curve=tuple(result.curve),
            )
            if result.params is not None:
                self._keep(group, lane, result.params)
            self._journal.add(row, result.predicted, num_buckets)
            scores.append(row.score)
            if time.monotonic() - said > SAY_EVERY or len(scores) == len(left):
                said = time.monotonic()
                self.log.line(self._progress(scores))
            self._check()

    def _lanes_at_once(self, group: Group, adapter: adaptation.Adapter, most: int) -> int:
        """As plan.json says; what is chosen now is written there."""
        known = self._at_once.get(group.name)
        if known is None or known % self._mesh.size:  # There were other devices.
            chosen = self._adapt.at_once or adapter.lanes_at_once(group.shots, most)
            self._at_once[group.name] = chosen
            files.write(self._folder / 'plan.json', logs.as_json(self._at_once))
        return self._at_once[group.name]

    def _progress(self, scores: Sequence[float]) -> str:
        """How far all is, and the scores of the group that is running."""
        done, total = self._done, len(self._keys)
        rate = (done - self._before) / (time.monotonic() - self._began)
        name = topics.main_score(self._task)
        return (
            f'  {done}/{total} | {60 * rate:.1f} a minute | {len(scores)} of this group: {name} '
            f'{min(scores):.2f} to {max(scores):.2f} | {logs.duration((total - done) / rate)} left'
        )

    def _keep(self, group: Group, lane: Lane, params: Any) -> None:
        """Adapted parameters as a workdir of its own, for xlbench.evaluate, predict and convert."""
        lane_name = f'{lane.learning_rate}-{lane.bucket}-{lane.seed}'
        folder = self._folder / 'adapted' / f'{self._task}-{group.name}' / lane_name
        shutil.rmtree(folder, ignore_errors=True)  # What a killed process has begun to write.
        about = config_lib.read_about(self._source.workdir)
        vocabulary = tokenizers.path_of_workdir(self._source.workdir, about)
        config = ConfigDict(about.pop('config'))
        if adaptation.METHODS[group.method].cosine:
            with config.unlocked():
                config.model.head = 'cosine'
        lane_of = dataclasses.asdict(group) | dataclasses.asdict(lane)
        config_lib.claim_workdir(str(folder), config, about | {'adapted': lane_of})
        tokenizers.copy_files(vocabulary, '', folder)
        checkpoints.save_params(str(folder), 0, params)


# ---------------------------------------------------------------------------------------------
# What a sweep says.


def open_corpus(config: ConfigDict, adapt: Adapt, language: str) -> shots_lib.Corpus:
    """One language's buckets, dev and test sets."""
    return shots_lib.Corpus.open(
        config.source.data.root,
        config.source.data.vocabulary,
        config.task,
        language,
        shots=tuple(adapt.shots),
        buckets=adapt.numbers,
        dev=adapt.dev,
        lengths=adapt.lengths,
        batch_size=adapt.eval_batch_size,
        view='tagging' if is_tagging(config.task) else 'classification',
        dev_examples=adapt.dev_examples,
    )


def open_corpora(
    config: ConfigDict, adapt: Adapt, journal: results.Journal, check: Callable[[], None]
) -> dict[str, shots_lib.Corpus]:
    """{language: corpus} of what is not done, all of them before anything costs.

    So what cannot be read is found at once; an example takes a few kB until its language is done.
    """
    left = [
        language
        for language in adapt.languages
        if not journal.has_all(planned(config.task, adapt, [language]))
    ]
    corpora, said = {}, time.monotonic()
    for language in left:
        corpora[language] = open_corpus(config, adapt, language)
        if time.monotonic() - said > SAY_EVERY:
            said = time.monotonic()
            print(f'  {len(corpora)} of {len(left)} languages are read', flush=True)
        check()
    return corpora


def survey(adapt: Adapt, language: str, corpus: shots_lib.Corpus) -> str:
    """A line on a language's dev and test sets and buckets; UserError if there is no dev set."""
    parts = [f'{corpus.test_size} examples to test']
    for number in adapt.shots:
        every, dev = corpus.bucket_sizes(number), corpus.dev_size(number)
        sizes = {bucket: every[bucket] for bucket in adapt.numbers}
        text = f'{number} shots: {min(sizes.values())} to {max(sizes.values())} examples'
        parts.append(text + (f', dev {dev}' if dev else ''))
        if empty := [f'{bucket}' for bucket, size in sizes.items() if not size]:
            parts.append(f'EMPTY of {number} shots: bucket {", ".join(empty)}')
    if note := corpus.about_test:
        parts.append(note)
    return f'  {language}: {"; ".join(parts)}'


def introduction(
    config: ConfigDict, adapt: Adapt, workdir: str, mesh: Mesh, found: str
) -> Iterator[str]:
    """Versions, mesh, and what will be adapted, a plain line each."""
    versions = config_lib.facts()['versions'].items()
    yield f'{", ".join(f"{k} {v}" for k, v in versions)}, backend {jax.default_backend()}'
    yield f'process 0 of 1 ({found}), workdir {workdir}'
    yield f'mesh {partitioning.describe(mesh)}'
    if config.source.data.sample:
        yield 'data: the embedded sample corpora; no score here compares with a published one'
    number = len(adapt.lanes())
    groups = len(adapt.languages) * len(adapt.groups('', '')) * len(adapt.starts)
    yield (
        f'{config.task}: {groups} groups of {number} adaptations = {groups * number}; '
        f'{len(adapt.languages)} languages x start {", ".join(adapt.starts)} x '
        f'{", ".join(adapt.methods)} x {", ".join(map(str, adapt.shots))} shots; a group has '
        f'{len(adapt.numbers)} buckets x {len(adapt.learning_rates)} learning rates x '
        f'{len(adapt.seeds)} seeds'
    )


def facts(config: ConfigDict, source: Source, data: Data, mesh: Mesh) -> dict[str, Any]:
    """What config.json says beside the config."""
    splits = {f'{t.name}/{t.split}': t for tasks, _ in data.values() for t in tasks}
    first = next(iter(splits.values()))
    is_sample = any(task.manifest['data'] == 'sample' for task in splits.values())
    return config_lib.facts() | {
        'vocabulary': first.manifest['vocabulary'],
        'labels': source.labels,
        'source_model': source_model(config),
        'manifests': {name: task.sha256 for name, task in sorted(splits.items())},
        'contents': {name: task.content for name, task in sorted(splits.items())},
        'examples': {name: len(task) for name, task in sorted(splits.items())},
        'data': 'sample' if is_sample else 'files',
        'devices': partitioning.describe(mesh),
        'dtype': source.config.model.get('dtype', 'float32'),
    }
