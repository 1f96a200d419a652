"""Benchmarks of pairs of languages: parallel ones, where each pair is a task, and of some pairs."""

import dataclasses
from collections.abc import Mapping

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


@dataclasses.dataclass(frozen=True, eq=False)
class ParallelBenchmark(Benchmark):
    """Examples that exist in each language; their six scenarios are those of arXiv:2108.07140.

    mono and mono_multitask train one language, `source`. multi and multi_multitask train all
    languages. cross goes from each language to the others; `source`, or both, narrow it. zero_shot
    trains the pivot and evaluates from it into the others, or into `target`. The multitask ones
    train all tasks and take none, the others one.
    """

    scenario_names: tuple[str, ...] = SCENARIOS

    def task_names(self) -> tuple[str, ...]:
        """All tasks in all ordered pairs of languages."""
        return tuple(
            self.task_name(task, source, target)
            for task in self.tasks
            for source in self.languages
            for target in self.languages
        )

    def pairs(self, name: str, sources: tuple[str, ...] = ()) -> tuple[tuple[str, str], ...]:
        """The pairs of languages that a scenario evaluates, all its runs or some sources together.

        Example: MTG.pairs('zero_shot') -> ('en', 'de'), ('en', 'fr'), ('en', 'es')
        """
        known = (self.pivot,) if name == 'zero_shot' else self.languages
        crosses = name in ('cross', 'zero_shot')
        return tuple(
            (source, target)
            for source in known
            for target in self.languages
            if (source != target) == crosses and (not sources or source in sources)
        )

    def _scenario(self, name: str, task: str, source: str | None, target: str | None) -> Scenario:
        if mistake := self._mistake(name, source, target):
            raise errors.UserError(f'scenario {name!r} {mistake}')
        if name == 'zero_shot':
            source = self.pivot
        elif name in ('mono', 'mono_multitask'):
            target = source
        pairs = self.pairs(name, (source,) if source else ())
        evaluate = tuple(
            self.task_name(one, *pair)
            for one in ((task,) if task else self.tasks)
            for pair in pairs
            if target in (None, pair[1])
        )
        words = (self.name, name, task, source if name != 'zero_shot' else '')
        # A single task needs no mixture.
        mixture = evaluate[0] if name == 'cross' and target else '_'.join(filter(None, words))
        train = (self.task_name(task, self.pivot),) if name == 'zero_shot' else evaluate
        return Scenario(name, mixture, train, evaluate, task or None, source, target)

    def _mistake(self, name: str, source: str | None, target: str | None) -> str:
        """Says why a scenario cannot be narrowed to languages, behind its name; '' if it can."""
        got, pivot, is_mono = f'got {source} -> {target}', self.pivot, name.startswith('mono')
        if is_mono and source is None:
            return f'trains one language; give source, one of {", ".join(self.languages)}'
        if is_mono and target not in (None, source):
            other = "for another target use 'cross' or 'zero_shot'"
            return f'has the same source and target, {got}; {other}'
        if name == 'cross' and target is not None and source in (None, target):
            advice = 'give two different ones, a source alone, or neither'
            return f'goes from one language to another, {got}; {advice}'
        if name == 'zero_shot' and (source not in (None, pivot) or target == pivot):
            trained = f'{pivot} -> {pivot} and evaluates from {pivot} into another language'
            return f'trains {trained}, {got}'
        if name.startswith('multi') and (source or target):
            key = 'source' if source else 'target'
            return f'covers all languages and takes no {key}, got {source or target!r}'
        return ''

    def scenarios(self) -> tuple[Scenario, ...]:
        """Every scenario with a mixture of its own name: those of more than one pair."""
        some, every = self.tasks, self.languages
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


@dataclasses.dataclass(frozen=True, eq=False)
class PairBenchmark(Benchmark):
    """Texts in some pairs of languages, such as English dialogues with summaries in three.

    mono trains the pivot's own pair, with itself; cross goes from `source`, by default the pivot,
    to `target`, or with one model to each language that it is paired with.

    Attributes:
      pairs: of each task, the (source, target) languages that it has.
    """

    scenario_names: tuple[str, ...] = ('mono', 'cross')
    pairs: Mapping[str, tuple[tuple[str, str], ...]] = dataclasses.field(default_factory=dict)

    def task_names(self) -> tuple[str, ...]:
        """Each task in each of its pairs."""
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
