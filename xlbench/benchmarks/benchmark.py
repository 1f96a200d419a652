"""The contract of a benchmark: tasks in languages, scenarios over them, a paper's scores."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

from xlbench.benchmarks import paper
from xlbench.benchmarks.paper import PaperTable
from xlbench.system import errors
from xlbench.system.files import Block, Setting

# How the tasks of a mixture are weighed; the suffix of its name, '' for the first.
RATES = ('proportional', 'equal', 'temperature', 'capped')


class TaskName(NamedTuple):
    """The parts of a task's name; `benchmark` is a key of `BENCHMARKS`."""

    benchmark: str
    task: str
    source: str
    target: str


class Added(NamedTuple):
    """Further examples that a scenario trains on: a split of another mixture or task.

    `rate` of them are mixed with each example of the scenario's mixture; the name is that of the
    block in config.stages.STAGE.added.
    """

    name: str
    mixture: str
    split: str
    rate: float = 1.0

    def block(self) -> dict[str, Setting]:
        """The block of config.stages.STAGE.added."""
        return dict(mixture=self.mixture, split=self.split, rate=self.rate)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One setting of a benchmark: what is trained on together, and what is evaluated.

    Attributes:
      name: one of the benchmark's `scenario_names`.
      mixture: the SeqIO mixture (or the task, where it is a single one) to train on.
      train: the tasks of that mixture.
      evaluate: the tasks whose test examples are scored.
      task: the benchmark's task, None where all are trained together.
      source: the source language it is narrowed to, None where it covers several.
      target: the target language it is narrowed to, None where it covers several.
      split: the split to train on.
      select: the tasks whose validation examples may choose a checkpoint: those that are trained,
        so that nothing is chosen by what the scenario has never seen.
      curriculum: tasks or mixtures that make up `mixture`, in the order in which each epoch has
        them; empty where examples of all tasks are mixed.
      added: further examples, of another split, that are mixed with those of `mixture`.
      select_split: the split of `select` that may choose a checkpoint.
    """

    name: str
    mixture: str
    train: tuple[str, ...]
    evaluate: tuple[str, ...]
    task: str | None = None
    source: str | None = None
    target: str | None = None
    split: str = 'train'
    select: tuple[str, ...] = ()
    curriculum: tuple[str, ...] = ()
    added: tuple[Added, ...] = ()
    select_split: str = 'validation'

    def __post_init__(self):
        object.__setattr__(self, 'select', self.select or self.train)

    def with_rate(self, rate: str) -> 'Scenario':
        """The same scenario with another mixing rate: mtg_multi_qg -> mtg_multi_qg.equal."""
        errors.check_known('mixing rate', rate, RATES)
        if rate == RATES[0] or self.mixture in self.train:  # A single task has nothing to weigh.
            return self
        base = self.mixture.partition('.')[0]
        return dataclasses.replace(self, mixture=f'{base}.{rate}')

    def stage(
        self, num_steps: int | str, optimizer: Block, **options: Setting
    ) -> dict[str, Setting]:
        """A block of config.stages; the options are further keys, or another split."""
        block = dict(mixture=self.mixture, split=self.split, num_steps=num_steps)
        parts: dict[str, Setting] = {'curriculum': self.curriculum} if self.curriculum else {}
        if self.added:
            parts['added'] = {added.name: added.block() for added in self.added}
        return block | parts | dict(optimizer=optimizer) | options

    def evals(
        self,
        every: int | str,
        *,
        dev: Block | None = None,
        test: Block | None = None,
        **both: Setting,
    ) -> dict[str, dict[str, Setting]]:
        """The block config.evals: 'dev' every so many steps or epochs, 'test' at the end.

        The options `both`, such as batch_size and lengths, are for 'dev' and 'test'.
        """
        in_training = dict(tasks=self.select, split=self.select_split, every=every)
        at_end = dict(tasks=self.evaluate, split='test', every=0)
        return dict(dev=in_training | both | dict(dev or {}), test=at_end | both | dict(test or {}))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Benchmark:
    """A published benchmark.

    Attributes:
      name: first word of all its task names.
      languages: ISO 639-1 codes; every example exists in each of them.
      task_titles: the short name of each of its tasks -> a readable one.
      scores: the scores the report shows, the main one first.
      metrics: score of its tables -> the name of the metric that gives it, where the tasks' own
        do not; see `xlbench.metrics.suite`.
      title: title of the paper.
      arxiv: its arXiv identifier.
      pivot: the language that zero-shot transfer is trained in.
      paper_models: the systems in the paper's tables.
      paper_checkpoints: what the paper's models began from: model -> a part of the name of its
        checkpoint or family.
      fractions: the scores that the paper prints between 0 and 1; all are 0 to 100 in xlbench.
      split_sizes: official number of examples, by task and split, where all languages have the
        same; paper_scores/NAME_sizes.csv has the sizes that differ.
      scenario_names: what `scenario` takes.
      tables: scores that share a table with a row a language and a column a setting; none: a
        table a score, with a row a system and a column a language.
      decimals: of the scores in tables.
      paper_tasks: tasks with the same texts as one that the paper has scores of -> that one.
      declare_tables: declares the `paper_tables`, where they are not those of papers/NAME.toml.
      paper_note: what has to be said where scores of the paper are shown.
      paper_gaps: what has to be said of scenarios that the paper has no scores of, by (name,
        whether it is narrowed to a source, whether to a target).
      size_tolerance: how far a split may be from its official size, as a share of it.
      has_unpublished_sizes: whether splits without an official size may have any.
    """

    name: str
    languages: tuple[str, ...]
    task_titles: Mapping[str, str]
    scores: tuple[str, ...]
    title: str
    arxiv: str
    pivot: str = 'en'
    metrics: Mapping[str, str] = dataclasses.field(default_factory=dict)
    paper_models: tuple[str, ...] = ()
    paper_checkpoints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fractions: tuple[str, ...] = ()
    split_sizes: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    scenario_names: tuple[str, ...] = ()
    tables: tuple[tuple[str, ...], ...] = ()
    decimals: int = 1
    paper_tasks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    declare_tables: Callable[..., tuple[PaperTable, ...]] | None = None
    paper_note: str = ''
    paper_gaps: Mapping[tuple[str, bool, bool], str] = dataclasses.field(default_factory=dict)
    size_tolerance: float = 0.0
    has_unpublished_sizes: bool = False

    # Kinds of benchmarks have fields of their own, some of which have no hash.
    def __eq__(self, other: object) -> bool:
        names = [field.name for field in dataclasses.fields(self)]
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    def __hash__(self) -> int:
        return hash(self.name)

    @functools.cached_property
    def tasks(self) -> tuple[str, ...]:
        """The short names of its tasks."""
        return tuple(self.task_titles)

    @functools.cached_property
    def paper_tables(self) -> tuple[PaperTable, ...]:
        """The tables and figures of the paper, tables first, in its order."""
        return self.declare_tables(self) if self.declare_tables else paper.tables(self.name)

    @functools.cached_property
    def _printed_systems(self) -> set[tuple[str | None, str | None]]:
        """The models and scenarios that the paper's tables have rows of."""
        keys = [key for table in self.paper_tables for key in table.keys]
        return {(key.get('model'), key.get('scenario')) for key in keys}

    def task_name(self, task: str, source: str, target: str | None = None) -> str:
        """The SeqIO task of one task and language pair; the target defaults to the source."""
        self._check(task, source, target)
        return f'{self.name}_{task}_{source}_{target or source}'

    def main_score(self, task: str) -> str:
        """The score that counts for one of `tasks`."""
        del task
        return self.scores[0]

    def languages_of(self, task: str) -> tuple[str, ...]:
        """The languages of a task, the pivot first."""
        del task
        return self.languages

    def task_names(self) -> tuple[str, ...]:
        """Every SeqIO task of the benchmark."""
        raise NotImplementedError

    def scenario(
        self,
        name: str,
        task: str | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> Scenario:
        """Returns the scenario of a name, narrowed to a task and languages.

        A benchmark with a single task needs no task.

        Raises:
          UserError: there is no such scenario, task or language, or not together.
        """
        errors.check_known('scenario', name, self.scenario_names)
        self._check(task, source, target)
        return self._scenario(name, self._task_of(name, task), source, target)

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        """The scenario of checked names; without a task of all of them."""
        raise NotImplementedError

    def scenarios(self) -> tuple[Scenario, ...]:
        """Lists every scenario that has a mixture of its own name."""
        raise NotImplementedError

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The published number of examples of a split; None if there is no such split."""
        size = paper.printed_sizes(self.name).get((task, source, split))
        return size or self.split_sizes.get(task, {}).get(split)

    def is_official(self, task: str, split: str, num_examples: int, source: str = '') -> bool:
        """Returns whether a split has the published number of examples, up to `size_tolerance`."""
        size = self.official_size(task, split, source)
        if size is None:
            return self.has_unpublished_sizes
        return abs(num_examples - size) <= self.size_tolerance * size

    def paper_scores(
        self, model: str, scenario: str, task: str, source: str, target: str | None = None
    ) -> dict[str, float] | None:
        """The paper's scores of one model on one language pair; None where it gives none.

        They are {score: value}; scores that xlbench also computes range from 0 to 100.
        """
        if (model, scenario) not in self._printed_systems:
            errors.check_known(f'{self.name} model', model, self.paper_models)
            errors.check_known('scenario', scenario, self.scenario_names)
        self._check(task, source, target)
        key = (scenario, self.paper_tasks.get(task, task), model, source, target or source)
        return dict(paper.printed_scores(self.name, self.fractions).get(key, {})) or None

    def paper_lacks(self, scenario: Scenario | None) -> str:
        """Says why the paper has no scores beside those of a scenario; '' if it may have some."""
        if scenario is None:
            return 'A run follows no scenario of the benchmark: no scores of the paper.'
        if scenario.name not in self.scenario_names:
            return f'The paper has no scores of {scenario.name} alone.'
        narrowed = bool(scenario.source), bool(scenario.target)
        return self.paper_gaps.get((scenario.name, *narrowed), '')

    def _task_of(self, name: str, task: str | None) -> str:
        """The task a scenario is about, '' for the multitask ones."""
        if name.endswith('_multitask'):
            if task is not None and len(self.tasks) > 1:
                raise errors.UserError(
                    f'scenario {name!r} trains all tasks together and takes no task, got {task!r}'
                )
            return ''
        if task is None and len(self.tasks) == 1:
            return self.tasks[0]
        if task is None:
            raise errors.UserError(
                f'scenario {name!r} of {self.name} needs a task, one of {", ".join(self.tasks)}'
            )
        return task

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        if task is not None and task not in self.tasks:
            raise errors.unknown(f'{self.name} task', task, self.tasks)
        for lang in (source, target):
            if lang is not None and lang not in self.languages:
                raise errors.unknown(f'{self.name} language', lang, self.languages)
