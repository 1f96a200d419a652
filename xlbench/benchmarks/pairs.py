"""Benchmarks that have some pairs of languages, not all of them."""

import dataclasses
from collections.abc import Mapping

from xlbench.benchmarks.benchmark import Benchmark, Scenario
from xlbench.system import errors


@dataclasses.dataclass(frozen=True)
class PairBenchmark(Benchmark):
    """Texts in some pairs of languages, such as English dialogues with summaries in three.

    mono trains the pivot's own pair, with itself; cross goes from `source`, by default the pivot,
    to `target`, or with one model to each language that it is paired with.

    Attributes:
      pairs: of each task, the (source, target) languages that it has.
    """

    scenario_names: tuple[str, ...] = ('mono', 'cross')
    pairs: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(
        hash=False, default_factory=dict
    )

    def task_names(self) -> tuple[str, ...]:
        """Lists every SeqIO task of the benchmark: each task in each of its pairs."""
        return tuple(
            self.task_name(task, *pair) for task in self.tasks for pair in self.pairs[task]
        )

    def task_name(self, task: str, source: str, target: str | None = None) -> str:
        """The SeqIO task of one task and pair; the target defaults to the source."""
        name = super().task_name(task, source, target)
        if (source, target or source) not in self.pairs[task]:
            known = ', '.join(' -> '.join(pair) for pair in self.pairs[task])
            raise errors.UserError(
                f'{self.name} {task} has no {source} -> {target or source}; it has {known}'
            )
        return name

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        source = source or self.pivot
        if name == 'mono':
            target = target or source
            if target != source:
                raise errors.UserError(
                    f"scenario 'mono' has the same source and target, got {source} -> {target}; "
                    "for another target use 'cross'"
                )
        targets = self._targets(task, source, target)
        if name == 'cross' and (not targets or source in targets):
            raise errors.UserError(
                f"scenario 'cross' of {self.name} {task} goes from {self.pivot} to another "
                f'language, got {source} -> {target or source}'
            )
        train = tuple(self.task_name(task, source, t) for t in targets)
        mixture = train[0] if len(train) == 1 else f'{self.name}_cross_{task}'
        return Scenario(name, mixture, train, train, task, source, target)

    def _targets(self, task: str, source: str, target: str | None) -> list[str]:
        """The target languages of a scenario: the one that is named, or all but the source."""
        if target:
            return [target]
        # Translated dialogues are in the language of their summary, not in the pivot's.
        pairs = [pair for pair in self.pairs[task] if pair[0] == source] or self.pairs[task]
        return [t for _, t in pairs if t != source]

    def scenarios(self) -> tuple[Scenario, ...]:
        """Lists every scenario that has a mixture of its own: cross into several languages."""
        several = [t for t in self.tasks if sum(a == self.pivot for a, _ in self.pairs[t]) > 1]
        return tuple(self.scenario('cross', task) for task in several)
