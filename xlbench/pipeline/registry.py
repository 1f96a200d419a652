"""Tasks and mixtures: declared as plain data, looked up by name, imported with their task file.

A declaration has the attributes of a `seqio.Task` or `seqio.Mixture` that xlbench reads. When SeqIO
is imported, all declarations move into its registries; callers need not know which they have.
"""

import contextlib
import dataclasses
import hashlib
import pathlib
import re
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from xlbench.benchmarks import task_files
from xlbench.pipeline import late, preprocessors
from xlbench.pipeline.binding import Feature, PlainVocabulary, Vocabulary
from xlbench.pipeline.sources import RecordSource
from xlbench.system import errors

if TYPE_CHECKING:
    import tensorflow as tf
    from typing_extensions import TypeIs

Metric = Callable[..., Mapping[str, float]]  # (targets, predictions) -> scores.


@dataclasses.dataclass(eq=False)
class DeclaredTask:
    """A task that a task file declares.

    `preprocessors` turn records into examples, and `postprocessor` turns a text into what metrics
    compare, see xlbench/data/postprocess.py.
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
        self.postprocess_fn = self.postprocessor  # Under the name that SeqIO's evaluators use.

    @property
    def splits(self) -> Sequence[str]:
        """The names of the splits."""
        return self.source.splits

    def num_input_examples(self, split: str) -> int:
        """Counts the examples of a split before preprocessing."""
        return self.source.num_input_examples(split)

    def get_dataset(self, *args: Any, **kwargs: Any) -> 'tf.data.Dataset':
        """See seqio.Task.get_dataset."""
        return late.seqio().TaskRegistry.get(self.name).get_dataset(*args, **kwargs)


@dataclasses.dataclass(eq=False)
class DeclaredMixture:
    """A mixture that a task file declares; rates are numbers, or functions of a task."""

    name: str
    rates: Mapping[str, float | Callable[[DeclaredTask], float]]

    @property
    def tasks(self) -> list[DeclaredTask]:
        """The tasks of the mixture and of mixtures within it, by name."""
        found = {task.name: task for name in self.rates for task in members(_known(name))}
        return [found[name] for name in sorted(found)]

    @property
    def output_features(self) -> Mapping[str, Feature]:
        """The features of its tasks."""
        return self.tasks[0].output_features

    def get_rate(self, task: DeclaredTask) -> float:
        """Returns the rate of a task; ValueError for a task of a mixture within this one."""
        if task.name not in self.rates:
            raise ValueError('a mixture within a mixture needs a number as its rate')
        rate = self.rates[task.name]
        return float(rate(task) if callable(rate) else rate)

    def get_dataset(self, *args: Any, **kwargs: Any) -> 'tf.data.Dataset':
        """See seqio.Mixture.get_dataset."""
        return late.seqio().MixtureRegistry.get(self.name).get_dataset(*args, **kwargs)


def labels(task: DeclaredTask) -> tuple[str, ...]:
    """Returns the labels of a task; () for a task of texts."""
    targets = task.output_features.get('targets')
    return getattr(targets and targets.vocabulary, 'labels', ())


def view(task: DeclaredTask) -> str:
    """Returns the view of a task: 'classification', 'tagging', 'retrieval' or 'generation'.

    A task is for retrieval if its targets are encoded like inputs.
    """
    targets = task.output_features.get('targets')
    return getattr(targets and targets.vocabulary, 'view', 'generation')


def has_views(task: DeclaredTask) -> bool:
    """Returns whether the inputs of a task have two views."""
    return any(getattr(step, 'has_views', False) for step in task.preprocessors)


_waiting: dict[str, DeclaredTask | DeclaredMixture] = {}  # Not yet in SeqIO's registries.


def _registries() -> list[Any]:
    seqio = late.loaded_seqio()
    return [] if seqio is None else [seqio.MixtureRegistry, seqio.TaskRegistry]


def names() -> set[str]:
    """Returns the names of all tasks and mixtures."""
    return {*_waiting, *(name for registry in _registries() for name in registry.names())}


def find(name: str) -> DeclaredTask | DeclaredMixture | None:
    """Returns the registered task or mixture of a name, None if there is none."""
    for registry in _registries():
        if name in registry.names():
            return registry.get(name)
    return _waiting.get(name)


def _known(name: str) -> DeclaredTask | DeclaredMixture:
    if (entry := find(name)) is None:
        raise KeyError(name)
    return entry


def members(entry: DeclaredTask | DeclaredMixture) -> list[DeclaredTask]:
    """Returns the tasks of a mixture; a task has itself."""
    return list(entry.tasks) if is_mixture(entry) else [entry]


def is_mixture(entry: DeclaredTask | DeclaredMixture) -> 'TypeIs[DeclaredMixture]':
    """Returns whether it is a mixture."""
    return hasattr(entry, 'get_rate')


Entry = TypeVar('Entry', DeclaredTask, DeclaredMixture)


def add(entry: Entry) -> Entry:
    """Adds a task or a mixture; returns it as the registry has it.

    Raises:
      UserError: the name is taken, or the tasks of a mixture have different features.
    """
    if find(entry.name) is not None:
        kind = 'mixture' if is_mixture(entry) else 'task'
        raise errors.UserError(f'{kind} {entry.name} is there already; choose another name')
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
    """Removes tasks and mixtures from the registry."""
    for name in some:
        _waiting.pop(name, None)
        for registry in _registries():
            registry.remove(name)


def _register(seqio: types.ModuleType, entry: DeclaredTask | DeclaredMixture) -> Any:
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
        (seqio.Vocabulary, Vocabulary),
    ):
        kind.register(ours)  # For isinstance.
    waiting = list(_waiting.values())
    _waiting.clear()
    for entry in waiting:
        _register(seqio, entry)


late.when_seqio_is_there(_materialise)


# ---------------------------------------------------------------------------------------------
# Task files.

_user_files: dict[str, str] = {}  # First word of a task, or its whole name -> its file.
_imported: dict[str, str] = {}  # A user's file -> its sha256 when it was imported.
_lock = threading.RLock()  # The tasks of a file are those that its import adds.


def get(name: str) -> DeclaredTask | DeclaredMixture:
    """Returns the task or mixture of a name, after importing its task file.

    Raises:
      UserError: there is none, or a task file has a mistake.
    """
    if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.]*', name):
        raise errors.UserError(f'{name!r} is not a name of a task or mixture')
    with _lock:
        _load_tasks(name.split('_')[0])
        if (task := find(name)) is not None:
            return task
        # A registry that was written for T5X has any name, and tasks of any name.
        for path in task_files.registries():
            _import_file(path, path.stem)
        if (task := find(name)) is not None:
            return task
        for path in task_files.REPOSITORY.glob('[a-z]*.py'):
            _load_tasks(path.stem)
        raise errors.unknown(
            'task or mixture',
            name,
            names(),
            'Your own tasks have to be in a file of the folder tasks here, or in the file or '
            'folder that XLBENCH_TASKS names',
        )


def task(name: str) -> DeclaredTask:
    """Returns the task of a name, as `get` does; UserError for a mixture, too."""
    if is_mixture(entry := get(name)):
        raise errors.UserError(f'{name} is a mixture; name one of its tasks')
    return entry


def check_split(name: str, split: str) -> None:
    """Raises UserError unless a task, or each task of a mixture, has a split."""
    entry = get(name)
    for task in members(entry):
        check_split_of(task, split, f' (in mixture {name})' if task is not entry else '')


def check_split_of(task: DeclaredTask, split: str, where: str = '') -> None:
    """Raises UserError unless a task has a split; the message says `where` the task is."""
    with blaming(task.name):
        splits = tuple(task.splits)
    if split not in splits:
        raise errors.UserError(
            f'task {task.name}{where} has no split {split!r}; it has {", ".join(splits)}'
        )


@contextlib.contextmanager
def blaming(name: str) -> Iterator[None]:
    """Turns an error in this block into a UserError if the task is one of the user's own."""
    try:
        yield
    except (errors.UserError, OSError):
        raise
    except Exception as error:
        if (path := user_task_file(name)) is None:
            raise
        raise errors.mistake(error, path, f'task {name}: ') from error


def user_task_file(task: str) -> str | None:
    """Returns the user's file that declares a task; None for the tasks of this repository."""
    word = task.split('_')[0]
    if known := _user_files.get(task) or _user_files.get(word):
        return known
    if (task_files.REPOSITORY / f'{word}.py').is_file():
        return None
    # Another part of the program has imported the file, for a metric that stands in it.
    loaded = [path for path in task_files.registries(word) if task_files.is_loaded(path)]
    return str(loaded[0]) if loaded else None


def edited_task_file(task: str) -> str | None:
    """Returns the user's file that declares a task if it was edited since its import."""
    path = user_task_file(task)
    if path not in _imported or _imported[path] == _hash(path):
        return None
    return path


def _hash(path: str) -> str | None:
    """Hashes a file's bytes; None if there is no file, as while an editor replaces it."""
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _load_tasks(word: str) -> None:
    if path := task_files.find(word):
        _import_file(path, word)


def _import_file(path: pathlib.Path, word: str) -> types.ModuleType:
    """Imports a task file once; a mistake in a user's file is a UserError with its line."""
    ours = path.parent == task_files.REPOSITORY
    if not ours:
        _user_files[word] = str(path)
        if not task_files.is_loaded(path) and (version := _hash(str(path))):
            _imported[str(path)] = version
    before = names()
    try:
        module = task_files.load(path)
    except Exception as error:
        remove(names() - before)  # Half a file is none.
        if ours:
            raise
        raise errors.mistake(error, str(path)) from error
    if not ours:
        _user_files.update(dict.fromkeys(names() - before, str(path)))
    return module
