"""Parallel benchmarks: every example is in each language, so any pair of languages is a task."""

import dataclasses

from xlbench.benchmarks.benchmark import Benchmark, Scenario
from xlbench.system import errors

# What the model is trained on and asked for. `cross` and `zero_shot` ask for a target in another
# language than the source; only `cross` has seen such pairs in training.
SCENARIOS = ('mono', 'mono_multitask', 'multi', 'multi_multitask', 'cross', 'zero_shot')

# Their names in the tables of that paper.
SCENARIO_TITLES = {
    'mono': 'Mono',
    'multi': 'Multi',
    'mono_multitask': 'Mono-M',
    'multi_multitask': 'Multi-M',
    'cross': 'Cross',
    'zero_shot': 'Zero',
}


@dataclasses.dataclass(frozen=True)
class ParallelBenchmark(Benchmark):
    """Examples that exist in each language; their six scenarios are those of arXiv:2108.07140.

    mono and mono_multitask train one language, `source`. multi and multi_multitask train all
    languages. cross goes from each language to the others; `source`, or both, narrow it. zero_shot
    trains the pivot and evaluates from it into the others, or into `target`. The multitask ones
    train all tasks and take none, the others one.

    Attributes:
      sources: the languages that there are inputs in; none: all.
    """

    scenario_names: tuple[str, ...] = SCENARIOS
    sources: tuple[str, ...] = ()

    @property
    def _sources(self) -> tuple[str, ...]:
        return self.sources or self.languages

    def task_names(self) -> tuple[str, ...]:
        """Lists every SeqIO task of the benchmark: all tasks, all ordered pairs of languages."""
        return tuple(
            self.task_name(task, source, target)
            for task in self.tasks
            for source in self._sources
            for target in self.languages
        )

    def pairs(self, name: str, sources: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
        """The pairs of languages that a scenario evaluates, all its runs together.

        Args:
          name: one of `scenario_names`.
          sources: those to take; none: all.

        Example: MTG.pairs('zero_shot') -> ('en', 'de'), ('en', 'fr'), ('en', 'es')
        """
        known = (self.pivot,) if name == 'zero_shot' else self._sources
        crosses = name in ('cross', 'zero_shot')
        return tuple(
            (source, target)
            for source in known
            for target in self.languages
            if (source != target) == crosses and (not sources or source in sources)
        )

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        if name in ('mono', 'mono_multitask'):
            return self._monolingual(name, task, source, target)
        if name == 'cross':
            return self._cross(task, source, target)
        if name == 'zero_shot':
            return self._zero_shot(task, source, target)
        for key, value in (('source', source), ('target', target)):
            if value is not None:
                raise errors.UserError(
                    f'scenario {name!r} covers all languages and takes no {key}, got {value!r}'
                )
        tasks = (task,) if task else self.tasks
        train = tuple(self.task_name(t, lang) for t in tasks for lang in self._sources)
        mixture = f'{self.name}_{name}' + (f'_{task}' if task else '')
        return Scenario(name, mixture, train, train, task=task or None)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario, each with a mixture of its own name.

        Left out are the narrowings to one pair, whose mixture is that single task.
        """
        some, every = self.tasks, self._sources
        narrowed: dict[str, list[tuple[str | None, str | None]]] = {
            'mono': [(task, lang) for task in some for lang in every],
            'mono_multitask': [(None, lang) for lang in every],
            'multi': [(task, None) for task in some],
            'multi_multitask': [(None, None)],
            'cross': [(task, lang) for task in some for lang in (None, *every)],
            'zero_shot': [(task, None) for task in some],
        }
        scenarios = [
            self.scenario(name, task, source)
            for name in self.scenario_names
            for task, source in narrowed[name]
        ]
        return tuple({scenario.mixture: scenario for scenario in scenarios}.values())

    def _monolingual(
        self, name: str, task: str, source: str | None, target: str | None
    ) -> Scenario:
        if source is None:
            raise errors.UserError(
                f'scenario {name!r} trains one language; give source, one of '
                f'{", ".join(self._sources)}'
            )
        if target not in (None, source):
            raise errors.UserError(
                f'scenario {name!r} has the same source and target, got {source} -> {target}; '
                "for another target use 'cross' or 'zero_shot'"
            )
        tasks = (task,) if task else self.tasks
        train = tuple(self.task_name(t, source) for t in tasks)
        mixture = f'{self.name}_{name}_' + (f'{task}_' if task else '') + source
        return Scenario(name, mixture, train, train, task or None, source, source)

    def _cross(self, task: str, source: str | None, target: str | None) -> Scenario:
        if target is not None and (source is None or source == target):
            raise errors.UserError(
                f"scenario 'cross' goes from one language to another, got {source} -> {target}; "
                'give two different ones, a source alone, or neither'
            )
        if source is None and len(self._sources) == 1:
            source = self._sources[0]
        sources = self._sources if source is None else (source,)
        targets = self.languages if target is None else (target,)
        train = tuple(self.task_name(task, s, t) for s in sources for t in targets if s != t)
        mixture = f'{self.name}_cross_{task}' + (f'_{source}' if source else '')
        if target is not None:
            mixture = train[0]  # A single task needs no mixture.
        return Scenario('cross', mixture, train, train, task, source, target)

    def _zero_shot(self, task: str, source: str | None, target: str | None) -> Scenario:
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

    def _check(self, task: str | None, source: str | None, target: str | None) -> None:
        super()._check(task, source, target)
        if source is not None and source not in self._sources:
            raise errors.unknown(f'source language of {self.name}', source, self._sources)
