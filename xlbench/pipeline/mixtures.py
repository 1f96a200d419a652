"""Mixtures of tasks, and the rates at which they are mixed."""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlbench import benchmarks
from xlbench.pipeline import late, registry
from xlbench.pipeline.binding import root
from xlbench.pipeline.registry import DeclaredMixture, DeclaredTask
from xlbench.system import errors, work

_split: contextvars.ContextVar[str] = contextvars.ContextVar('split', default='train')


def of_split(split: str) -> contextlib.AbstractContextManager[None]:
    """Makes rates that are computed in this block count the examples of a split."""
    return work.setting(_split, split)


@functools.cache
def seqio_class() -> type:
    """Returns our class of mixtures in SeqIO's registry, after importing SeqIO."""

    base: Any = late.seqio().Mixture

    class Mixture(base):
        """A SeqIO mixture whose rates count the examples of the split that is asked for.

        SeqIO's own rate functions count training examples, also for MTG's rough_train.
        """

        def get_dataset(
            self,
            sequence_length: Mapping[str, int] | None = None,
            split: str = 'train',
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            with of_split(split):
                return super().get_dataset(sequence_length, split, *args, **kwargs)

    return Mixture


@functools.lru_cache(maxsize=256)
def _count(task: DeclaredTask, split: str, root: str) -> int:
    del root  # Another one has other files.
    dataset = task.source.get_dataset(split=split, shuffle=False)
    return int(dataset.reduce(np.int64(0), lambda count, _: count + 1))


def _number(task: DeclaredTask, split: str) -> int:
    """Returns the number of examples of a split, counted once if the source does not know it."""
    known = task.source.num_input_examples(split)
    return _count(task, split, root()) if known is None else known


def mixing_rate(
    kind: str, temperature: float = 2.0, maximum: int = 10_000
) -> Callable[[DeclaredTask], float]:
    """Returns a function of a task: the rate at which a mixture draws from it.

    Args:
      kind: 'proportional' (n, the number of examples: every example is seen equally often), 'equal'
        (1: examples of small tasks are repeated), 'temperature' (n ** (1 / temperature)) or
        'capped' (min(n, maximum)).
      temperature: of 'temperature'.
      maximum: of 'capped'.
    """
    rates: dict[str, Callable[[float], float]] = {
        'proportional': lambda count: count,
        'equal': lambda count: min(count, 1),
        'temperature': lambda count: count ** (1.0 / temperature),
        'capped': lambda count: min(count, maximum),
    }
    if not isinstance(kind, str) or kind not in rates:
        raise errors.unknown('mixing rate', kind, rates)
    for what, value in (('temperature', temperature), ('maximum', maximum)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < math.inf):
            raise errors.UserError(
                f'the {what} of a mixing rate is {value!r}; give a number above 0'
            )

    def rate(task: DeclaredTask) -> float:
        split = _split.get()
        if task.cache_dir:
            return float(rates[kind](late.seqio().mixing_rate_num_examples(task, split=split)))
        return float(rates[kind](_number(task, split)))

    return rate


def add_mixture(
    name: str, tasks: Sequence[str], rates: Iterable[str] = benchmarks.RATES
) -> list[DeclaredMixture]:
    """Adds a mixture of registered tasks or mixtures for each of several mixing rates.

    With 'proportional' it has the plain name; other rates follow a dot: mtg_multi_qg.equal.
    """
    for what, values in (('tasks', tasks), ('rates', rates)):
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise errors.UserError(
                f'mixture {name}: {what} is {values!r}; give a list of names, such as [{values!r}]'
            )
    tasks, rates = tuple(tasks), tuple(rates)
    if not tasks or not rates:
        raise errors.UserError(f'mixture {name} has no {"rates" if tasks else "tasks"}')
    for task in tasks:
        if registry.find(task) is None:
            raise errors.unknown(f'task of mixture {name}', task, registry.names())
    if len(set(tasks)) < len(tasks):
        twice = next(task for task in tasks if tasks.count(task) > 1)
        raise errors.UserError(f'mixture {name} has task {twice} twice; name each once')
    added = []
    for kind in rates:
        full_name = name if kind == benchmarks.RATES[0] else f'{name}.{kind}'
        rates_of_tasks = dict.fromkeys(tasks, mixing_rate(kind))
        added.append(registry.add(DeclaredMixture(full_name, rates_of_tasks)))
    return added


def add_scenarios(benchmark: benchmarks.Benchmark) -> None:
    """Adds the mixtures of all scenarios of a benchmark that train on any task."""
    for scenario in filter(lambda scenario: scenario.train, benchmark.scenarios()):
        add_mixture(scenario.mixture, scenario.train)


@contextlib.contextmanager
def _all_counted(tasks: Iterable[DeclaredTask]) -> Iterator[None]:
    """Makes every task know its number of examples, for SeqIO's own rate functions."""
    tasks = list(tasks)  # Which else look into SeqIO's cache, or a source that may lack it.
    for task in tasks:  # An attribute of the instance stands before the method of its class.
        vars(task)['num_input_examples'] = functools.partial(_number, task)
    try:
        yield
    finally:
        for task in tasks:
            del vars(task)['num_input_examples']


def mixture_rates(mixture: DeclaredMixture, split: str) -> dict[str, float]:
    """Returns the rate of each task of a mixture on one split."""
    try:
        with of_split(split), _all_counted(mixture.tasks):
            rates = {task.name: float(mixture.get_rate(task)) for task in mixture.tasks}
    # A function of the user's, or of SeqIO, or a source without the split that it counts.
    except Exception as error:
        if not (
            isinstance(error, TypeError | ValueError | KeyError) or late.is_tensorflow_error(error)
        ):
            raise
        raise errors.UserError(
            f'a rate of mixture {mixture.name} on split {split!r} cannot be computed '
            f'({errors.printable(error)}); give numbers, or pipeline.mixing_rate(...)'
        ) from error
    for task, rate in rates.items():
        if not (rate > 0 and math.isfinite(rate)):
            raise errors.UserError(
                f'task {task} of mixture {mixture.name} has rate {rate} on split {split!r}; '
                'is its file empty?'
            )
    return rates
