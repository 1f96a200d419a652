"""Tasks and mixtures as plain data, until SeqIO is imported; from then on they are SeqIO's own.

A declaration has the attributes of a `seqio.Task` or `seqio.Mixture` that xlbench reads, so that
callers need not know which of the two they have.
"""

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xlbench.pipeline import late, preprocessors
from xlbench.pipeline.binding import Feature, PlainVocabulary
from xlbench.pipeline.sources import RecordSource
from xlbench.system import errors

if TYPE_CHECKING:
    import tensorflow as tf

Metric = Callable[..., dict[str, float]]  # (targets, predictions) -> scores.


@dataclasses.dataclass(eq=False)
class DeclaredTask:
    """A task that a task file declares.

    Attributes:
      name: of the task.
      source: gives its records.
      preprocessors: records -> examples.
      output_features: of an example.
      metric_fns: (targets, predictions) -> scores.
      postprocessor: text -> what metrics compare, see xlbench/data/postprocess.py.
    """

    name: str
    source: RecordSource
    preprocessors: Sequence[Callable[..., Any]]
    output_features: Mapping[str, Feature]
    metric_fns: Sequence[Metric] = ()
    postprocessor: Callable[..., Any] | None = None
    cache_dir = None  # SeqIO's cache, which is not used.
    metric_objs = ()

    def __post_init__(self):
        self.output_features = dict(sorted(self.output_features.items()))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits there are."""
        return self.source.splits

    @property
    def postprocess_fn(self) -> Callable[..., Any] | None:
        """The postprocessor, as SeqIO's evaluators call it."""
        return self.postprocessor

    def num_input_examples(self, split: str) -> int:
        """Examples of a split before preprocessing."""
        return self.source.num_input_examples(split)

    def get_dataset(self, *args: Any, **kwargs: Any) -> 'tf.data.Dataset':
        """See seqio.Task.get_dataset."""
        return late.seqio().TaskRegistry.get(self.name).get_dataset(*args, **kwargs)


@dataclasses.dataclass(eq=False)
class DeclaredMixture:
    """A mixture that a task file declares.

    Attributes:
      name: of the mixture.
      rates: name of a task or a mixture -> its rate, or what computes it from the task.
    """

    name: str
    rates: Mapping[str, float | Callable[[DeclaredTask], float]]

    @property
    def tasks(self) -> list[DeclaredTask]:
        """The tasks that it draws from, in the order of their names."""
        found = {task.name: task for name in self.rates for task in members(find(name))}
        return [found[name] for name in sorted(found)]

    @property
    def output_features(self) -> Mapping[str, Feature]:
        """The features of its tasks."""
        return self.tasks[0].output_features

    def get_rate(self, task: DeclaredTask) -> float:
        """The rate of a task; ValueError where that takes a rate of a mixture within this one."""
        if task.name not in self.rates:
            raise ValueError('a mixture within a mixture needs a number as its rate')
        rate = self.rates[task.name]
        return float(rate(task) if callable(rate) else rate)

    def get_dataset(self, *args: Any, **kwargs: Any) -> 'tf.data.Dataset':
        """See seqio.Mixture.get_dataset."""
        return late.seqio().MixtureRegistry.get(self.name).get_dataset(*args, **kwargs)


def labels(task: DeclaredTask) -> tuple[str, ...]:
    """The labels of a task, () where it has texts to write."""
    targets = task.output_features.get('targets')
    return getattr(targets and targets.vocabulary, 'labels', ())


def view(task: DeclaredTask) -> str:
    """The view in which the examples of a task are read.

    'classification' or 'tagging' where it has labels; 'retrieval' if its targets are written like
    inputs; else 'generation'.
    """
    targets = task.output_features.get('targets')
    return getattr(targets and targets.vocabulary, 'view', 'generation')


def has_views(task: DeclaredTask) -> bool:
    """Returns whether the inputs of a task have two views."""
    return any(isinstance(step, preprocessors.TokenizeViews) for step in task.preprocessors)


_waiting: dict[str, DeclaredTask | DeclaredMixture] = {}  # What SeqIO does not have yet, in order.


def names() -> set[str]:
    """The names of all tasks and mixtures."""
    seqio = late.loaded_seqio()
    if seqio is None:
        return set(_waiting)
    return {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}


def find(name: str) -> DeclaredTask | DeclaredMixture | None:
    """The task or mixture of a name, None if there is none."""
    seqio = late.loaded_seqio()
    if seqio is None:
        return _waiting.get(name)
    for registry in (seqio.MixtureRegistry, seqio.TaskRegistry):
        if name in registry.names():
            return registry.get(name)
    return None


def members(entry: DeclaredTask | DeclaredMixture | None) -> list[DeclaredTask]:
    """The tasks of a mixture; of a task, itself."""
    return list(entry.tasks) if is_mixture(entry) else [entry]


def is_mixture(entry: object) -> bool:
    """Returns whether it is a mixture."""
    return hasattr(entry, 'get_rate')


def add(entry: DeclaredTask | DeclaredMixture) -> DeclaredTask | DeclaredMixture:
    """Adds a task or a mixture, and gives back what stands in the registry.

    Raises:
      UserError: the name is taken, or the tasks of a mixture are of different kinds.
    """
    if find(entry.name) is not None:
        raise errors.UserError(f'task {entry.name} is there already; choose another name')
    if is_mixture(entry):
        kinds = {tuple(task.output_features): task.name for task in members(entry)}
        if len(kinds) > 1:
            raise errors.UserError(
                f'mixture {entry.name} has tasks of different kinds, such as '
                f'{" and ".join(kinds.values())}; name those alone that have the same features'
            )
    seqio = late.loaded_seqio()
    if seqio is None:
        _waiting[entry.name] = entry
        return entry
    return _register(seqio, entry)


def remove(some: Iterable[str]) -> None:
    """Takes tasks and mixtures out of the registry."""
    seqio = late.loaded_seqio()
    for name in some:
        _waiting.pop(name, None)
        for registry in (seqio.TaskRegistry, seqio.MixtureRegistry) if seqio else ():
            registry.remove(name)


def _register(
    seqio: types.ModuleType, entry: DeclaredTask | DeclaredMixture
) -> DeclaredTask | DeclaredMixture:
    if is_mixture(entry):
        from xlbench.pipeline import mixtures

        kind, rates = mixtures.seqio_class(), list(entry.rates.items())
        return seqio.MixtureRegistry.add(entry.name, rates, mixture_cls=kind)
    return seqio.TaskRegistry.add(
        entry.name,
        source=entry.source,
        preprocessors=[
            seqio.CacheDatasetPlaceholder() if step is preprocessors.cache_here else step
            for step in entry.preprocessors
        ],
        output_features=entry.output_features,
        postprocess_fn=entry.postprocessor,
        metric_fns=list(entry.metric_fns),
    )


def _materialise(seqio: types.ModuleType) -> None:
    """Moves all declarations into the registries of SeqIO."""
    for kind, ours in (
        (seqio.Task, DeclaredTask),
        (seqio.Mixture, DeclaredMixture),
        (seqio.Vocabulary, PlainVocabulary),
    ):
        kind.register(ours)  # For isinstance.
    waiting = list(_waiting.values())
    _waiting.clear()
    for entry in waiting:
        _register(seqio, entry)


late.when_seqio_is_there(_materialise)
