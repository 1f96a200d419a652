"""Benchmarks whose examples are each in one language, and not parallel between languages."""

import dataclasses

from xlbench.benchmarks.benchmark import Benchmark, Scenario
from xlbench.system import errors


@dataclasses.dataclass(frozen=True)
class MonolingualBenchmark(Benchmark):
    """Inputs and targets in one language, so that a target language is the source.

    Unless a benchmark says otherwise, mono trains one language, zero_shot the pivot and evaluates
    the others, and multi trains the languages `multi` and evaluates all of them.

    Attributes:
      multi: the languages that the multilingual setting trains on; every other one is unseen.
      scores_pivot: whether zero_shot evaluates the pivot, too.
    """

    scenario_names: tuple[str, ...] = ('mono', 'zero_shot', 'multi')
    multi: tuple[str, ...] = ()
    scores_pivot: bool = False

    def task_names(self) -> tuple[str, ...]:
        """Lists every SeqIO task of the benchmark: each task in each of its languages."""
        return tuple(
            self.task_name(task, lang) for task in self.tasks for lang in self.languages_of(task)
        )

    def train_languages(self, task: str) -> tuple[str, ...]:
        """The languages of a task that have a split 'train'."""
        return self.languages_of(task)

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        """The scenario of a language that is trained; of others, of what they evaluate."""
        lang = source or target
        if name == 'mono':
            lang = self._needed(name, task, lang, self.train_languages(task))
            tasks = self._named(task, (lang,))
            return Scenario(name, f'{self.name}_mono_{task}_{lang}', tasks, tasks, task, lang, lang)
        train, evaluated = self.multi, self.languages_of(task)
        if name == 'zero_shot':
            train = (self.pivot,)
            evaluated = tuple(one for one in evaluated if self.scores_pivot or one != self.pivot)
        if lang not in (None, *evaluated):
            raise errors.UserError(
                f"scenario 'zero_shot' trains on {self.pivot} and evaluates another language, got "
                f'{lang}'
            )
        return Scenario(
            name,
            f'{self.name}_{name}_{task}',
            train=self._named(task, train),
            evaluate=self._named(task, (lang,) if lang else evaluated),
            task=task,
            source=lang,
            target=lang,
        )

    def scenarios(self) -> tuple[Scenario, ...]:
        """Lists every scenario, each with a mixture of its own name."""
        scenarios = []
        for task in self.tasks:
            scenarios += [self.scenario('mono', task, one) for one in self.train_languages(task)]
            several = (name for name in ('zero_shot', 'multi') if name in self.scenario_names)
            scenarios += [self.scenario(name, task) for name in several]
        return tuple(scenarios)

    def _named(self, task: str, languages: tuple[str, ...]) -> tuple[str, ...]:
        """The SeqIO tasks of a task in these languages."""
        return tuple(self.task_name(task, lang) for lang in languages)

    def _needed(self, name: str, task: str, lang: str | None, allowed: tuple[str, ...]) -> str:
        """The language that a scenario needs; UserError unless it is among those that have it."""
        if lang is None or lang not in allowed:
            raise errors.UserError(
                f'scenario {name!r} trains one language, got {lang}; give source, for {task} one '
                f'of {", ".join(allowed)}'
            )
        return lang

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        if None not in (source, target) and source != target:
            raise errors.UserError(
                f'{self.name} has inputs and targets in one language, got {source} -> {target}; '
                'leave out the target'
            )
