"""Looks up benchmarks, tasks and mixtures by their names."""

import functools
import importlib
import pathlib
from collections.abc import Iterator, Mapping

from xlbench.benchmarks import recipe
from xlbench.benchmarks.benchmark import RATES, Benchmark, Scenario, TaskName
from xlbench.benchmarks.recipe import Recipe
from xlbench.system import errors

_FOLDER = pathlib.Path(__file__).parent


def _declared() -> Iterator[Benchmark]:
    """The benchmarks that the files beside this one declare."""
    for file in sorted(_FOLDER.glob('[a-z]*.py')):
        if file.name != pathlib.Path(__file__).name:
            module = importlib.import_module(f'xlbench.benchmarks.{file.stem}')
            yield from (value for value in vars(module).values() if isinstance(value, Benchmark))


_NAMED = {benchmark.name: benchmark for benchmark in _declared()}
BENCHMARKS: dict[str, Benchmark] = dict(sorted(_NAMED.items()))


class _Recipes(Mapping[str, Recipe]):
    """By name; each is read when somebody asks for it, which most programs do not."""

    def __init__(self):
        self._read = functools.cache(lambda name: recipe.read(BENCHMARKS[name]))
        self._names = sorted(path.stem for path in (_FOLDER / 'papers').glob('*.toml'))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Recipe:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)


RECIPES = _Recipes()


def get(name: str) -> Benchmark:
    """The benchmark of that name."""
    errors.check_known('benchmark', name, BENCHMARKS)
    return BENCHMARKS[name]


def parse_task(name: str) -> TaskName:
    """The parts of a task's name: mtg_qg_en_de -> ('mtg', 'qg', 'en', 'de')."""
    parts = tuple(name.split('_'))
    benchmark = BENCHMARKS.get(parts[0])
    if benchmark is None or len(parts) != 4 or name not in benchmark.task_names():
        raise errors.unknown('task', name, (t for b in BENCHMARKS.values() for t in b.task_names()))
    return TaskName(*parts)


def parse_mixture(name: str) -> Scenario:
    """The scenario of a mixture's name, its mixing rate included: mtg_multi_qg.equal.

    A task's name gives the scenario that trains on this task alone: mono or cross.
    """
    base, _, rate = name.partition('.')
    own = [b.scenarios() for b in BENCHMARKS.values() if base.startswith(f'{b.name}_')]
    if found := [scenario for scenario in sum(own, ()) if scenario.mixture == base]:
        return found[0].with_rate(rate or RATES[0])
    try:
        benchmark, task, source, target = parse_task(name)
    except errors.UserError:
        known = (s.mixture for b in BENCHMARKS.values() for s in b.scenarios())
        raise errors.unknown('mixture', name, known) from None
    scenario = 'mono' if source == target else 'cross'
    return BENCHMARKS[benchmark].scenario(scenario, task, source, target)
