"""Mixtures of tasks, and the rates at which they are mixed."""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from xlbench import benchmarks
from xlbench.pipeline.binding import root
from xlbench.system import errors, work

_split: contextvars.ContextVar[str] = contextvars.ContextVar('split', default='train')


class Mixture(seqio.Mixture):
    """A SeqIO mixture whose rates count the examples of the split that is asked for.

    SeqIO's own rate functions see the task alone and count its training examples, which for MTG's
    rough_train would be the wrong ones.
    """

    def get_dataset(
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = 'train',
        *args: Any,
        **kwargs: Any,
    ) -> tf.data.Dataset:
        """See seqio.Mixture.get_dataset."""
        with work.setting(_split, split):
            return super().get_dataset(sequence_length, split, *args, **kwargs)


class _Counted:
    """A task whose source does not know its number of examples: they are counted, once."""

    cache_dir = None

    def __init__(self, task: seqio.Task, split: str):
        self.name, self._task, self._split = task.name, task, split

    def num_input_examples(self, split: str) -> int:
        """Returns the number of examples of the split that was counted."""
        assert split == self._split
        return _count(self._task, split, root())


@functools.lru_cache(maxsize=256)
def _count(task: seqio.Task, split: str, root: str) -> int:
    del root  # Another one has other files.
    dataset = task.source.get_dataset(split=split, shuffle=False)
    return int(dataset.reduce(np.int64(0), lambda count, _: count + 1))


def mixing_rate(
    kind: str, temperature: float = 2.0, maximum: int = 10_000
) -> Callable[[seqio.Task], float]:
    """How often a mixture draws from a task, as a function of the task.

    Args:
      kind: 'proportional': by number of examples n, so that every example is seen equally often.
        'equal': every task as often as the others; the examples of small ones are repeated.
        'temperature': n ** (1 / temperature). 'capped': min(n, maximum).
      temperature: of 'temperature'.
      maximum: of 'capped'.
    """
    arguments = {
        'proportional': {},
        'equal': {'maximum': 1},
        'temperature': {'temperature': temperature},
        'capped': {'maximum': maximum},
    }
    if not isinstance(kind, str) or kind not in arguments:
        raise errors.unknown('mixing rate', kind, arguments)
    for what, value in (('temperature', temperature), ('maximum', maximum)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < math.inf):
            raise errors.UserError(
                f'the {what} of a mixing rate is {value!r}; give a number above 0'
            )

    def rate(task: seqio.Task) -> float:
        split = _split.get()
        if not task.cache_dir and task.num_input_examples(split) is None:
            task = _Counted(task, split)
        return seqio.mixing_rate_num_examples(task, split=split, **arguments[kind])

    return rate


def add_mixture(
    name: str, tasks: Sequence[str], rates: Iterable[str] = benchmarks.RATES
) -> list[seqio.Mixture]:
    """Registers a mixture in each of several mixing rates.

    The first rate, 'proportional', has the plain name; the others follow a dot: mtg_multi_qg.equal.

    Args:
      name: of the mixture.
      tasks: names of tasks, or of mixtures, that are registered.
      rates: of benchmarks.RATES.
    """
    for what, values in (('tasks', tasks), ('rates', rates)):
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise errors.UserError(
                f'mixture {name}: {what} is {values!r}; give a list of names, such as [{values!r}]'
            )
    tasks, rates = tuple(tasks), tuple(rates)
    if not tasks or not rates:
        raise errors.UserError(f'mixture {name} has no {"rates" if tasks else "tasks"}')
    known = {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
    for task in tasks:
        if task not in known:
            raise errors.unknown(f'task of mixture {name}', task, known)
    if len(set(tasks)) < len(tasks):
        twice = next(task for task in tasks if tasks.count(task) > 1)
        raise errors.UserError(f'mixture {name} has task {twice} twice; name each once')
    if name in known:
        raise errors.UserError(f'mixture {name} is there already; choose another name')
    added = []
    for kind in rates:
        full_name = name if kind == benchmarks.RATES[0] else f'{name}.{kind}'
        rate = mixing_rate(kind)
        added.append(
            seqio.MixtureRegistry.add(
                full_name, [(task, rate) for task in tasks], mixture_cls=Mixture
            )
        )
    return added


@contextlib.contextmanager
def _all_counted(tasks: Iterable[seqio.Task]) -> Iterator[None]:
    """Within the block every task knows its number of examples, for SeqIO's own rate functions.

    They read it from SeqIO's cache, which does not exist here, or from the source, which need not
    know it.
    """

    def number(task: seqio.Task, split: str) -> int:
        known = task.source.num_input_examples(split)
        return _count(task, split, root()) if known is None else known

    tasks = list(tasks)
    for task in tasks:  # An attribute of the instance stands before the method of its class.
        task.num_input_examples = functools.partial(number, task)
    try:
        yield
    finally:
        for task in tasks:
            del task.num_input_examples


def mixture_rates(mixture: seqio.Mixture, split: str) -> dict[str, float]:
    """The rate of each task of a mixture on one split."""
    token = _split.set(split)
    try:
        with _all_counted(mixture.tasks):
            rates = {task.name: float(mixture.get_rate(task)) for task in mixture.tasks}
    # A function of the user's, or of SeqIO, or a source without the split that it counts.
    except (TypeError, ValueError, KeyError, tf.errors.OpError) as error:
        raise errors.UserError(
            f'a rate of mixture {mixture.name} on split {split!r} cannot be computed '
            f'({" ".join(str(error).split())[:200]}); give numbers, or pipeline.mixing_rate(...)'
        ) from error
    finally:
        _split.reset(token)
    for task, rate in rates.items():
        if not (rate > 0 and math.isfinite(rate)):
            raise errors.UserError(
                f'task {task} of mixture {mixture.name} has rate {rate} on split {split!r}; '
                'is its file empty?'
            )
    return rates
