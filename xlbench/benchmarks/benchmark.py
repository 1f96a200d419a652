"""What a benchmark is: tasks in languages, scenarios over them, and a paper with its scores."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xlbench import errors
from xlbench.benchmarks import paper

# What the model is trained on and asked for. `cross` and `zero_shot` ask for a target in another
# language than the source; only `cross` has seen such pairs in training.
SCENARIOS = ('mono', 'mono_multitask', 'multi', 'multi_multitask', 'cross', 'zero_shot')

# How the tasks of a mixture are weighed; the suffix of its name, '' for the first.
RATES = ('proportional', 'equal', 'temperature', 'capped')


# A value in a config, and a block of values.
Setting: TypeAlias = 'bool | int | float | str | Sequence[Setting] | Mapping[str, Setting] | None'
Block: TypeAlias = Mapping[str, Setting]


class TaskName(NamedTuple):
    """The parts of a task's name; `benchmark` is a key of `BENCHMARKS`."""

    benchmark: str
    task: str
    source: str
    target: str


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One setting of a benchmark: what is trained on together, and what is evaluated.

    Attributes:
        name: One of the benchmark's `scenario_names`.
        mixture: The SeqIO mixture (or the task, where it is a single one) to train on.
        train: The tasks of that mixture.
        evaluate: The tasks whose test examples are scored.
        task: The benchmark's task, None where all are trained together.
        source: The source language it is narrowed to, None where it covers several.
        target: The target language it is narrowed to, None where it covers several.
        split: The split to train on.
        select: The tasks whose validation examples may choose a checkpoint: those that are trained,
            so that nothing is chosen by what the scenario has never seen.
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

    def __post_init__(self):
        object.__setattr__(self, 'select', self.select or self.train)

    def with_rate(self, rate: str) -> 'Scenario':
        """The same scenario with another mixing rate: mtg_multi_qg -> mtg_multi_qg.equal."""
        if rate not in RATES:
            raise errors.unknown('mixing rate', rate, RATES)
        if rate == RATES[0] or self.mixture in self.train:  # A single task has nothing to weigh.
            return self
        base = self.mixture.partition('.')[0]
        return dataclasses.replace(self, mixture=f'{base}.{rate}')

    def stage(self, num_steps: int, optimizer: Block, **options: Setting) -> dict[str, Setting]:
        """A block of config.stages that trains on this scenario.

        Args:
            num_steps: Length of the stage.
            optimizer: Its block.
            **options: Further keys, or another split.
        """
        block = dict(mixture=self.mixture, split=self.split, num_steps=num_steps)
        return block | dict(optimizer=optimizer) | options

    def evals(
        self, every: int, *, dev: Block | None = None, test: Block | None = None, **both: Setting
    ) -> dict[str, dict[str, Setting]]:
        """The block config.evals of this scenario: 'dev' in training, 'test' at its end.

        Args:
            every: Steps between two evaluations of 'dev'.
            dev: Options of 'dev' alone.
            test: Options of 'test' alone.
            **both: Options of both, such as batch_size and lengths.
        """
        return dict(
            dev=dict(tasks=self.select, split='validation', every=every) | both | dict(dev or {}),
            test=dict(tasks=self.evaluate, split='test', every=0) | both | dict(test or {}),
        )


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A published benchmark.

    Attributes:
        name: First word of all its task names.
        tasks: Its tasks, short names.
        languages: ISO 639-1 codes; every example exists in each of them.
        task_titles: A readable name per task.
        scores: The scores the report shows, the main one first.
        title: Title of the paper.
        arxiv: Its arXiv identifier.
        pivot: The language that zero-shot transfer is trained in.
        paper_models: The systems in the paper's tables.
        fractions: The scores that the paper prints between 0 and 1; all are 0 to 100 in xlbench.
        split_sizes: Official number of examples, by task and split (of each language).
        scenario_names: What `scenario` takes.
        tables: Scores that share a table with a row a language and a column a setting; none: a
            table a score, with a row a system and a column a language.
        decimals: Of the scores in tables.
        paper_note: What has to be said where scores of the paper are shown.
        doubt_note: Why some of them are marked as doubtful.
        size_tolerance: How far a split may be from its official size, as a share of it.
    """

    name: str
    tasks: tuple[str, ...]
    languages: tuple[str, ...]
    task_titles: Mapping[str, str] = dataclasses.field(hash=False)
    scores: tuple[str, ...]
    title: str
    arxiv: str
    pivot: str = 'en'
    paper_models: tuple[str, ...] = ()
    fractions: tuple[str, ...] = ()
    split_sizes: Mapping[str, Mapping[str, int]] = dataclasses.field(
        hash=False, default_factory=dict
    )
    scenario_names: tuple[str, ...] = SCENARIOS
    tables: tuple[tuple[str, ...], ...] = ()
    decimals: int = 1
    paper_note: str = ''
    doubt_note: str = ''
    size_tolerance: float = 0.0

    def task_name(self, task: str, source: str, target: str | None = None) -> str:
        """The SeqIO task of one task and language pair; the target defaults to the source."""
        self._check(task, source, target)
        return f'{self.name}_{task}_{source}_{target or source}'

    def main_score(self, task: str) -> str:
        """The score that counts for one of `tasks`."""
        del task
        return self.scores[0]

    def task_names(self) -> tuple[str, ...]:
        """Every SeqIO task of the benchmark: all tasks, all ordered pairs of languages."""
        return tuple(
            self.task_name(task, source, target)
            for task in self.tasks
            for source in self.languages
            for target in self.languages
        )

    def scenario(
        self,
        name: str,
        task: str | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> Scenario:
        """One scenario, narrowed to a task and languages.

        Args:
            name: One of `scenario_names`.
            task: Needed by mono, multi, cross and zero_shot; the multitask ones train them all.
                A benchmark with a single task needs it nowhere.
            source: The language of mono and mono_multitask; narrows cross to one source.
            target: Narrows cross (with source) and what zero_shot evaluates to one target.
        """
        if name not in self.scenario_names:
            raise errors.unknown('scenario', name, self.scenario_names)
        self._check(task, source, target)
        task = self._task_of(name, task)
        if name in ('mono', 'mono_multitask'):
            return self._monolingual(name, task, source, target)
        if name == 'cross':
            return self._cross(task, source, target)
        if name == 'zero_shot':
            return self._zero_shot(task, source, target)
        _refuse(name, source=source, target=target)
        tasks = self.tasks if task is None else (task,)
        train = tuple(self.task_name(t, lang) for t in tasks for lang in self.languages)
        mixture = f'{self.name}_{name}' + (f'_{task}' if task else '')
        return Scenario(name, mixture, train, train, task=task)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario, each with a mixture of its own name.

        Left out are the narrowings to one pair, whose mixture is that single task.
        """
        scenarios = [self.scenario('mono', t, lang) for t in self.tasks for lang in self.languages]
        scenarios += [self.scenario('mono_multitask', source=lang) for lang in self.languages]
        scenarios += [self.scenario('multi', t) for t in self.tasks]
        scenarios += [self.scenario('multi_multitask')]
        for task in self.tasks:
            scenarios += [self.scenario('cross', task)]
            scenarios += [self.scenario('cross', task, lang) for lang in self.languages]
            scenarios += [self.scenario('zero_shot', task)]
        return tuple(scenarios)

    def official_size(self, task: str, split: str, source: str) -> int | None:
        """The published number of examples of a split; None if there is no such split."""
        del source  # All languages have the same examples.
        return self.split_sizes.get(task, {}).get(split)

    def is_official(self, task: str, split: str, num_examples: int, source: str = '') -> bool:
        """Whether a split has exactly the published number of examples."""
        return self.official_size(task, split, source) == num_examples

    def paper_scores(
        self, model: str, scenario: str, task: str, source: str, target: str | None = None
    ) -> dict[str, float] | None:
        """The paper's scores of one model on one language pair; None where it gives none.

        Args:
            model: A name in `paper_models`.
            scenario: One of `scenario_names`; cross means one model per source language, as in the
                paper.
            task: One of `tasks`.
            source: Source language.
            target: Target language, by default the source.

        Returns:
            MTG: bleu, rouge_l, meteor, bertscore, distinct_1 (0 to 100), ensemble (1 to 5) and,
            into English only, bleurt (unbounded). MRS: mrs_rouge, dist_1, dist_2 (0 to 100).
        """
        return dict(self._paper_row(model, scenario, task, source, target)[0]) or None

    def paper_lacks(self, scenario: Scenario | None) -> str:
        """Why the paper has no scores beside those of a scenario; '' if it may have some."""
        if scenario is None:
            return 'A run follows no scenario of the benchmark: no scores of the paper.'
        if scenario.name == 'cross' and scenario.target is not None:
            return 'The paper trains no model on one pair alone: no scores of the paper.'
        if scenario.name == 'cross' and scenario.source is None:
            return (
                'The paper trains one model per source language, this run one on all pairs: '
                'no scores of the paper. Narrow the scenario to a source to compare.'
            )
        return ''

    def paper_doubts(
        self, model: str, scenario: str, task: str, source: str, target: str | None = None
    ) -> tuple[str, ...]:
        """Which of `paper_scores` can hardly be meant as they are printed."""
        return self._paper_row(model, scenario, task, source, target)[1]

    def _paper_row(self, model, scenario, task, source, target):
        if model not in self.paper_models:
            raise errors.unknown(f'{self.name} model', model, self.paper_models)
        if scenario not in self.scenario_names:
            raise errors.unknown('scenario', scenario, self.scenario_names)
        self._check(task, source, target)
        key = (scenario, task, model, source, target or source)
        return paper.printed_scores(self.name, self.fractions).get(key, ({}, ()))

    def _monolingual(self, name, task, source, target) -> Scenario:
        if source is None:
            raise errors.UserError(
                f'scenario {name!r} trains one language; give source, one of '
                f'{", ".join(self.languages)}'
            )
        if target not in (None, source):
            raise errors.UserError(
                f'scenario {name!r} has the same source and target, got {source} -> {target}; '
                "for another target use 'cross' or 'zero_shot'"
            )
        tasks = self.tasks if task is None else (task,)
        train = tuple(self.task_name(t, source) for t in tasks)
        mixture = f'{self.name}_{name}_' + (f'{task}_' if task else '') + source
        return Scenario(name, mixture, train, train, task, source, source)

    def _cross(self, task, source, target) -> Scenario:
        if target is not None and (source is None or source == target):
            raise errors.UserError(
                f"scenario 'cross' goes from one language to another, got {source} -> {target}; "
                'give two different ones, a source alone, or neither'
            )
        sources = self.languages if source is None else (source,)
        targets = self.languages if target is None else (target,)
        train = tuple(self.task_name(task, s, t) for s in sources for t in targets if s != t)
        mixture = f'{self.name}_cross_{task}' + (f'_{source}' if source else '')
        if target is not None:
            mixture = train[0]  # A single task needs no mixture.
        return Scenario('cross', mixture, train, train, task, source, target)

    def _zero_shot(self, task, source, target) -> Scenario:
        if source not in (None, self.pivot) or target == self.pivot:
            raise errors.UserError(
                f"scenario 'zero_shot' trains {self.pivot} -> {self.pivot} and evaluates from "
                f'{self.pivot} into another language, got {source} -> {target}'
            )
        targets = self.languages if target is None else (target,)
        return Scenario(
            'zero_shot',
            f'{self.name}_zero_shot_{task}',
            train=(self.task_name(task, self.pivot),),
            evaluate=tuple(self.task_name(task, self.pivot, t) for t in targets if t != self.pivot),
            task=task,
            source=self.pivot,
            target=target,
        )

    def _task_of(self, name: str, task: str | None) -> str | None:
        """The task a scenario is about, None for the multitask ones."""
        if name.endswith('_multitask'):
            if task is not None and len(self.tasks) > 1:
                raise errors.UserError(
                    f'scenario {name!r} trains all tasks together and takes no task, got {task!r}'
                )
            return None
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


def _refuse(name: str, **given: str | None) -> None:
    """Raises if a scenario got a narrowing that it has no use for."""
    for key, value in given.items():
        if value is not None:
            raise errors.UserError(
                f'scenario {name!r} covers all languages and takes no {key}, got {value!r}'
            )
