"""A user's own files: how a task file describes them, and how they are read."""

import dataclasses
import functools
import importlib.util
import inspect
import os
import random
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, ParamSpec, TypeGuard, TypeVar

from xlbench.data import buckets, readers, rows
from xlbench.pipeline import registry
from xlbench.pipeline.binding import Labels
from xlbench.pipeline.registry import Metric
from xlbench.pipeline.sources import RecordSource, Stamps, below_root, stamps
from xlbench.system import errors


class Hub(NamedTuple):
    """A split of a dataset on the Hugging Face hub, in place of a file of a task.

    It needs the library: python -m pip install 'datasets>=4'. After the first download no
    connection is needed.

    Args:
      name: as `datasets.load_dataset` takes it, such as 'google/xquad'; a folder, too.
      split: of the dataset, such as 'train'.
      config: one of several datasets of that name, such as 'xquad.de'.
      revision: a branch, tag or commit; only a commit never changes.
    """

    name: str
    split: str
    config: str | None = None
    revision: str | None = None

    def paths(self) -> list[str]:
        """Returns the split's Arrow files in the library's cache, downloaded if necessary."""
        try:
            datasets = importlib.import_module('datasets')
        except ImportError:
            raise errors.UserError(
                f'the data set {self.name} needs the package datasets: '
                "python -m pip install 'datasets>=4', or name Parquet files of it that are here"
            ) from None
        try:
            read = datasets.load_dataset(
                self.name, self.config, split=self.split, revision=self.revision
            )
        except Exception as error:  # Of any kind: the name, the network, the disk, the files.
            said = errors.printable(error, 300)
            raise errors.UserError(f'the data set {self.name} cannot be read: {said}') from error
        paths = [entry['filename'] for entry in read.cache_files]
        if sum(rows.count(path, rows.Layout('arrow')) for path in paths) != len(read):
            raise errors.UserError(
                f'the split {self.split!r} of {self.name} is a part of what is stored; name a '
                'whole split, or save it with save_to_disk and name that folder'
            )
        return paths


@dataclasses.dataclass(frozen=True)
class Files:
    """The files of a task and their format.

    Attributes:
      paths: split -> path, absolute or below the data root. A path may be a pattern of several
        files (de/train-*.parquet), a folder of `datasets.Dataset.save_to_disk`, or a `Hub`. Files
        may be packed (.gz).
      format: 'jsonl', 'json' (an array of objects), 'csv', 'tsv', 'parquet' or 'arrow'; by default
        the ending of the files' names.
      columns: of csv and tsv: the names of all columns; None if the first line has them.
      separator: of csv and tsv; by default ',' and a TAB. Excel writes ';' in many countries.
      quotes: of csv and tsv: whether "..." encloses a cell that may hold separators and line
        breaks, as pandas and Excel write it. A file whose quotes are not so is refused; False reads
        them as text.
      where: key or column -> value; only rows with this value are read: {'language': 'en'}.
    """

    paths: Mapping[str, str | Hub | Sequence[str]]
    format: str | None = None
    columns: Sequence[str] | None = None
    separator: str | None = None
    quotes: bool | None = None
    where: Mapping[str, str] | None = None

    @property
    def layout(self) -> rows.Layout:
        """The layout of files of rows; UserError for another format."""
        quotes = self.quotes is None or self.quotes
        return rows.Layout(self.format, self.columns, self.separator, quotes, self.where or {})


DialogueFiles = Annotated[Files, 'texts']  # A place is a path or a pattern.
ParallelFiles = Annotated[Files, 'pairs']  # A place may be two paths, aligned line by line.


def _is_pair(place: object) -> TypeGuard[Sequence[str]]:
    return _is_texts(place) and len(place) == 2


def _is_texts(value: object) -> TypeGuard[Sequence[str]]:
    # A text is a sequence of texts, too; a set has another order in each process.
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def _is_files(value: object, places: type | types.UnionType, pairs: bool = False) -> bool:
    """Returns whether it is a place for each split; with `pairs`, two paths are a place, too."""
    paths = value.paths if isinstance(value, Files) else None
    if not isinstance(paths, Mapping) or not paths:
        return False
    return all(
        isinstance(split, str)
        and re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.+-]*', split)
        and (isinstance(place, places) or (pairs and _is_pair(place)))
        for split, place in paths.items()
    )


_PLACES = (
    "a path for each split, such as {'train': 'news/train.jsonl'}, or a pattern of several files, "
    "such as 'news/*.jsonl'"
)


@dataclasses.dataclass(frozen=True)
class Shots:
    """Few-shot buckets that are drawn from the split 'train' and become the splits shots_1, ...

    They follow arXiv:2012.15682 (`xlbench data buckets --help`): K examples of each label, and no
    example in two buckets; for tags, sentences until each tag is on K words, and no needless ones.
    The same files, numbers and seed give the same buckets.

    Attributes:
      numbers: the values of K.
      buckets: how many there are for each K.
      seed: of the random draws.
    """

    numbers: Sequence[int] = (1, 2, 4)
    buckets: int = 40
    seed: int = 0

    def __post_init__(self):
        for number in (*self.numbers, self.buckets):
            if not isinstance(number, int) or number < 1:
                raise errors.UserError(f'{self} has a number that is not a whole one above 0')

    @property
    def splits(self) -> dict[str, int]:
        """Split -> K."""
        return {f'shots_{number}': number for number in self.numbers}

    def draw(self, records: Iterable[readers.Item], number: int) -> Iterator[readers.Item]:
        """Yields the records of all buckets of K = `number` shots, with their `bucket`."""
        pool = []
        for record in records:
            if isinstance(record, dict):
                pool.append(record)
            elif isinstance(record, readers.BadRecord):  # Only empty buckets count as left out.
                yield record
        random_numbers = random.Random(f'{self.seed}/{number}')
        if pool and 'tags' in pool[0]:
            sampler = buckets.MinimumIncluding([_labels_in(r, 'tagging') for r in pool], number)
            chosen = [sampler.sample(random_numbers) for _ in range(self.buckets)]
        else:
            labels = [record['label'] for record in pool]
            ways = sorted(set(labels))
            chosen = buckets.n_way(labels, ways, number, self.buckets, random_numbers)
        for index, places in enumerate(chosen):
            if not places:
                yield readers.LeftOut('empty buckets')
            yield from (pool[place] | {'bucket': str(index)} for place in places)


Read = Callable[..., Iterator[readers.Item]]  # A path, or the paths of a pair -> records.


def file_source(
    files: Files,
    read_file: Read,
    fields: Sequence[str],
    langs: tuple[str | None, str | None],
    *,
    layout_of: Callable[[str], rows.Layout | None] | None = None,
    also: Sequence[str] = (),
    shots: Shots | None = None,
) -> RecordSource:
    """Returns the source of the records of a user's files.

    Args:
      files, read_file, fields, langs: path -> records with these fields, in these languages.
      layout_of: path -> the layout of a file of rows, whose rows are counted without making
        records; by default that of `files`.
      also: splits whose files decide the records of every split.
      shots: the few-shot buckets that become further splits.

    Raises:
      UserError: a file of rows has no known format.
    """
    of_rows = files.format in (None, *rows.FORMATS)
    layout_of = layout_of or (lambda path: files.layout if of_rows else None)
    for place in files.paths.values():
        # A folder has no ending, and is looked into when it is read.
        if isinstance(place, str) and os.path.splitext(place)[1] and (layout := layout_of(place)):
            layout.format_of(place)
    drawn = shots.splits if shots else {}

    def place_of(split: str) -> str | Hub | Sequence[str]:
        return files.paths['train' if split in drawn else split]

    def patterns(split: str) -> list[str]:
        place = place_of(split)
        if isinstance(place, Hub):
            return place.paths()
        if isinstance(place, str):
            return [rows.in_folder(below_root(place))]
        return [*map(below_root, place)]

    def own_paths(split: str, paths: Sequence[str]) -> Sequence[str]:
        # The files of `also` come last.
        return paths[: sum(len(readers.find(path)) for path in patterns(split))]

    def read(split: str, *paths: str) -> Iterator[readers.Item]:
        own = own_paths(split, paths)
        is_pair = _is_pair(place_of(split))
        items: list[Sequence[str]] = [own] if is_pair else [[path] for path in own]
        records = (record for item in items for record in read_file(*item))
        if shots and split in drawn:
            yield from shots.draw(records, drawn[split])
        elif shots:
            yield from (r | {'bucket': ''} if isinstance(r, dict) else r for r in records)
        else:
            yield from records

    def count(split: str, *paths: str) -> int:
        if _is_pair(place_of(split)):
            return readers.count_lines(paths[0])
        places = () if split in drawn else own_paths(split, paths)
        layouts = list(filter(None, map(layout_of, places)))
        if layouts and len(layouts) == len(places):
            return sum(map(rows.count, places, layouts))
        return sum(isinstance(record, dict) for record in read(split, *paths))

    return RecordSource(
        read,
        lambda split: [path for part in dict.fromkeys((split, *also)) for path in patterns(part)],
        (*files.paths, *drawn),
        (*fields, 'bucket') if shots else tuple(fields),
        source_lang=langs[0],
        target_lang=langs[1],
        count=count,
    )


def read_rows(
    keys: Sequence[str],
    layout: rows.Layout,
    record_of: Callable[[rows.Values], readers.Record],
    labels: Labels | None = None,
) -> Read:
    """Returns a reader of rows, of which these keys are needed, as records.

    `record_of` makes a record of a row's values; ValueError if they are not right. Records may have
    the `labels`, by default any.
    """

    def read(path: str) -> Iterator[readers.Record | readers.BadRecord]:
        check = _check_of(labels) if labels else lambda record: record

        def record(_: int, values: rows.Values) -> Iterator[readers.Record]:
            yield check(record_of(values))

        return readers.convert(path, rows.read(path, list(dict.fromkeys(keys)), layout), record)

    return read


def known_labels(
    name: str, files: Files, labels: Sequence[str] | None, read: Read, view: str
) -> Labels:
    """Returns the labels of a task: those of the user, or else those of its split 'train'."""
    if labels is not None:
        if isinstance(labels, str) or len(set(labels)) < max(len(labels), 2):
            raise errors.UserError(
                f'task {name}: labels is {labels!r}; give two or more, each once: ("bad", "good")'
            )
        return Labels([str(label) for label in labels], view)
    if 'train' not in files.paths:
        raise errors.UserError(
            f"task {name} has no split 'train' to read its labels from; give labels=(...)"
        )

    @functools.lru_cache(maxsize=8)
    def of_files(files: Stamps) -> tuple[str, ...]:
        there: set[str] = set()
        bad = None
        for record in (record for path, *_ in files for record in read(path)):
            if isinstance(record, dict):
                there.update(_labels_in(record, view))
            elif isinstance(record, readers.BadRecord):  # Reading the examples reports it, too.
                bad = bad or record
        if len(there) < 2:
            raise errors.UserError(
                f'{bad}'
                if bad
                else f"task {name}: the split 'train' has "
                f'{"only the label " if there else "no label"}{", ".join(there)}: there is nothing '
                'to tell apart'
            )
        is_number = all(re.fullmatch('-?[0-9]+', label) for label in there)
        return tuple(sorted(there, key=int if is_number else None))

    return Labels(lambda: of_files(stamps(registry.task(name).source.paths('train'))), view)


def _labels_in(record: readers.Record, view: str) -> list[str]:
    return record['tags'].split(' ') if view == 'tagging' else [record['label']]


def _check_of(labels: Labels) -> Callable[[readers.Record], readers.Record]:
    """Returns a function that gives a record back; ValueError for an unknown label."""
    known = dict.fromkeys(labels.labels)

    def check(record: readers.Record) -> readers.Record:
        for label in _labels_in(record, labels.view):
            if label not in known:
                listed = ', '.join([*known][:30]) + (', ...' if len(known) > 30 else '')
                raise ValueError(
                    f'{label!r} is none of the labels {listed}; labels=(...) of the task names all'
                )
        return record

    return check


def with_labels(read: Read, labels: Labels) -> Read:
    """Returns a reader of sentences for which a sentence with an unknown tag is a BadRecord."""

    def checked(path: str) -> Iterator[readers.Item]:
        check = _check_of(labels)
        for record in read(path):
            if isinstance(record, dict):
                try:
                    check(record)
                except ValueError as error:
                    start = record['words'][:40]
                    record = readers.BadRecord(path, 0, f'in the sentence {start!r} {error}')
            yield record

    return checked


Parameters = ParamSpec('Parameters')
Result = TypeVar('Result')

# Annotation of an argument -> whether a value is of that kind, and how messages describe it.
_KINDS: dict[object, tuple[Callable[[object], bool], str]] = {
    str: (lambda value: isinstance(value, str), 'a text'),
    bool: (lambda value: isinstance(value, bool), 'True or False'),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), 'a whole number'),
    types.NoneType: (lambda value: value is None, 'None'),
    Sequence[str]: (_is_texts, "a list of texts, such as ['a', 'b']"),
    Mapping[str, str]: (
        lambda value: isinstance(value, Mapping) and _is_texts([*value, *value.values()]),
        "texts by name, such as {'inputs': 'text', 'targets': 'headline'}",
    ),
    Files: (lambda value: _is_files(value, str | Hub), _PLACES),
    ParallelFiles: (
        lambda value: _is_files(value, str | Hub, pairs=True),
        f"{_PLACES}, or two paths, such as {{'train': ('news/train.en', 'news/train.de')}}",
    ),
    DialogueFiles: (lambda value: _is_files(value, str), _PLACES),
    Sequence[Metric]: (
        lambda value: isinstance(value, list | tuple) and all(map(callable, value)),
        'a list of metrics, such as [exact_match], a function of (targets, predictions)',
    ),
    Callable[[str, int], bool]: (callable, 'a function'),
    Shots: (lambda value: isinstance(value, Shots), 'pipeline.Shots(numbers=(1, 2, 4))'),
}


# The arguments of `Files`, which can be given beside a plain mapping, too.
_OF_FILES = {field.name: field.type for field in dataclasses.fields(Files) if field.name != 'paths'}


def declares(register: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Checks the arguments of a `register_...` function by their annotations.

    The arguments of `Files` can be given beside a mapping: files={...}, format='csv'.
    """
    signature = inspect.signature(register)
    taken = signature.parameters

    @functools.wraps(register)
    def checked(*args: Any, **kwargs: Any) -> Result:
        about = {name: kwargs.pop(name) for name in {*kwargs} & {*_OF_FILES} - {*taken}}
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:  # A misspelt argument, or one that is missing.
            raise errors.UserError(f'{register.__name__}: {error}') from None
        given = bound.arguments
        files = Files(given['files']) if isinstance(given['files'], Mapping) else given['files']
        if isinstance(files, Files) and isinstance(files.paths, Mapping):
            # A pathlib.Path is a path, too.
            paths = {split: _as_text(place) for split, place in files.paths.items()}
            given['files'] = dataclasses.replace(files, paths=paths, **about)
        name = given['name']
        if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.]*', name):
            raise errors.UserError(
                f'{register.__name__}: {name!r} is not a name of a task; letters, digits, "_" and '
                '"." are, such as news_title_de'
            )
        if register.__name__.endswith('_tasks') and '_' in name:
            raise errors.UserError(
                f'{name!r} has a _, where the name of a benchmark ends; take it out'
            )
        for argument, value in (given | about).items():
            kind: Any = taken[argument].annotation if argument in taken else _OF_FILES[argument]
            either = kind.__args__ if isinstance(kind, types.UnionType) else [kind]
            kinds = [_KINDS[kind] for kind in either]
            if not any(fits(value) for fits, _ in kinds):
                allowed = ' or '.join(words for _, words in kinds if words != 'None')
                shown = errors.shortened(value.paths if isinstance(value, Files) else value)
                raise errors.UserError(f'task {name}: {argument} is {shown}; give {allowed}')
        return register(*bound.args, **bound.kwargs)

    return checked


def _as_text(place: Any) -> Any:
    """Returns a path, or the paths of a pair, as text."""
    if isinstance(place, list | tuple) and not isinstance(place, Hub):
        return type(place)(_as_text(path) for path in place)
    return os.fspath(place) if isinstance(place, os.PathLike) else place
