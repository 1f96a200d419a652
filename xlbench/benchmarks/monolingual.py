"""Benchmarks whose examples are each in one language, and not parallel between languages."""

import dataclasses

from xlbench import errors
from xlbench.benchmarks.benchmark import Benchmark, Scenario


@dataclasses.dataclass(frozen=True)
class MonolingualBenchmark(Benchmark):
    """Inputs and targets in one language, so that a target language is the source."""

    def languages_of(self, task: str) -> tuple[str, ...]:
        """The languages of a task, the pivot first."""
        del task
        return self.languages

    def task_names(self) -> tuple[str, ...]:
        """Lists every SeqIO task of the benchmark: each task in each of its languages."""
        return tuple(
            self.task_name(task, lang) for task in self.tasks for lang in self.languages_of(task)
        )

    def _scenario(
        self, name: str, task: str | None, source: str | None, target: str | None
    ) -> Scenario:
        return self._in_language(name, task, source or target)

    def _in_language(self, name: str, task: str, lang: str | None) -> Scenario:
        """The scenario of a task, narrowed to a language."""
        raise NotImplementedError

    def _named(self, task: str, languages: tuple[str, ...]) -> tuple[str, ...]:
        """The SeqIO tasks of a task in these languages."""
        return tuple(self.task_name(task, lang) for lang in languages)

    def _refuse_other(
        self, name: str, task: str, lang: str | None, allowed: tuple[str, ...]
    ) -> None:
        """Raises UserError unless a scenario of one language got one of those that have it."""
        if lang not in allowed:
            raise errors.UserError(
                f'scenario {name!r} trains one language, got {lang}; give source, for {task} one '
                f'of {", ".join(allowed)}'
            )

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        if None not in (source, target) and source != target:
            raise errors.UserError(
                f'{self.name} has inputs and targets in one language, got {source} -> {target}; '
                'leave out the target'
            )
