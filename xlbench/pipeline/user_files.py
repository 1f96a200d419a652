"""Files of a user's own: what a task file says of them, checked, and their records."""

import dataclasses
import functools
import importlib.util
import inspect
import os
import random
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, ParamSpec, TypeVar

from xlbench.data import buckets, readers, rows
from xlbench.pipeline import declarations
from xlbench.pipeline.binding import Labels
from xlbench.pipeline.declarations import Metric
from xlbench.pipeline.sources import RecordSource, Stamps, below_root
from xlbench.system import errors


class Hub(NamedTuple):
    """A split of a data set of the Hugging Face hub, in place of a file of a task.

    It needs the library: python -m pip install 'datasets>=4'. What that has downloaded once it
    reads again without a connection.

    Args:
      name: as `datasets.load_dataset` takes it, such as 'google/xquad'; a folder, too.
      split: of the data set, such as 'train'.
      config: which of several data sets of that name, such as 'xquad.de'.
      revision: a branch, tag or commit; a commit stays what it is.
    """

    name: str
    split: str
    config: str | None = None
    revision: str | None = None

    def paths(self) -> list[str]:
        """The Arrow files of the split in the library's cache; downloads them if need be."""
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
            said = ' '.join(str(error).split())[:300]
            raise errors.UserError(f'the data set {self.name} cannot be read: {said}') from error
        paths = [entry['filename'] for entry in read.cache_files]
        if sum(rows.count(path, rows.Layout('arrow')) for path in paths) != len(read):
            raise errors.UserError(
                f'the split {self.split!r} of {self.name} is a part of what is stored; name a '
                'whole split, or save it with save_to_disk and name that folder'
            )
        return paths


@dataclasses.dataclass(frozen=True)
class Files(Mapping[str, str | Hub | Sequence[str]]):
    """The files of a task, and how they are written where their names do not say it.

    Attributes:
      paths: split -> path, absolute or below the data root. A path may be a pattern of several
        files (de/train-*.parquet), a folder of `datasets.Dataset.save_to_disk`, or a `Hub`; .gz is
        read too.
      format: 'jsonl', 'json' (an array of objects), 'csv', 'tsv', 'parquet' or 'arrow'; by default
        what the names of the files end in.
      columns: of csv and tsv, the names of all columns; None if the first line has them.
      separator: of csv and tsv; by default ',' and a TAB. Excel writes ';' in many countries.
      quotes: of csv and tsv, whether "..." holds a cell with separators and line breaks in it, as
        pandas and Excel write it. A file in which that cannot be is refused; False reads it.
      where: key or column -> its value in the rows that are read: {'language': 'en'}.
    """

    paths: Mapping[str, str | Hub | Sequence[str]]
    format: str | None = None
    columns: Sequence[str] | None = None
    separator: str | None = None
    quotes: bool | None = None
    where: Mapping[str, str] | None = None

    def __getitem__(self, split: str) -> str | Hub | Sequence[str]:
        return self.paths[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def layout(self) -> rows.Layout:
        """The layout of rows of these files; UserError for a format that has none."""
        quotes = self.quotes is None or self.quotes
        return rows.Layout(self.format, self.columns, self.separator, quotes, self.where or {})


DialogueFiles = dict[str, str]  # Split -> a path or a pattern.


# Split -> one of those, or the paths of two files whose lines belong together.
ParallelFiles = Mapping[str, str | Hub | Sequence[str]]


def is_pair(place: object) -> bool:
    """Returns whether it is two paths."""
    return is_texts(place) and len(place) == 2


def is_texts(value: object) -> bool:
    """Returns whether it is a list of texts."""
    # A text is a sequence of texts, too; a set has another order in each process.
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def is_files(value: object, places: type | types.UnionType, pairs: bool = False) -> bool:
    """Returns whether it is a place for each split; with `pairs` also two paths for one."""
    named = isinstance(value, Mapping) and bool(value)
    return named and all(
        isinstance(split, str)
        and re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.+-]*', split)
        and (isinstance(place, places) or (pairs and is_pair(place)))
        for split, place in value.items()
    )


PLACES = (
    "a path for each split, such as {'train': 'news/train.jsonl'}, or a pattern of several files, "
    "such as 'news/*.jsonl'"
)


@dataclasses.dataclass(frozen=True)
class Shots:
    """Buckets of few shots that are drawn from the split 'train': further splits shots_1, ...

    Each bucket is as arXiv:2012.15682 has it (`xlbench data buckets --help`): K examples of each
    label, no example in two buckets; of tags, sentences until each tag is on K words, and none
    without need. The same files, numbers and seed give the same buckets.

    Attributes:
      numbers: of shots, K.
      buckets: of each.
      seed: another one draws others.
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
        """The records of all buckets of K shots, each with its `bucket`; bad ones as they are."""
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


Read = Callable[[str], Iterator[readers.Item]]


def file_source(
    files: Files,
    read_file: Read,
    fields: Sequence[str],
    *,
    source_lang: str | None,
    target_lang: str | None,
    layout_of: Callable[[str], rows.Layout | None] = lambda path: None,
    also: Sequence[str] = (),
    shots: Shots | None = None,
    read_pair: Callable[[str, Sequence[str]], Iterator[readers.Item]] | None = None,
) -> RecordSource:
    """The records of a user's files.

    Args:
      files: split -> what it is read from.
      read_file: a path -> its records.
      fields: of a record.
      source_lang, target_lang: see RecordSource.
      layout_of: a path -> the layout of a file of rows, which are counted without reading them.
      also: splits whose files decide what the records of any split are, as its own do.
      shots: what buckets of few shots are drawn, as further splits.
      read_pair: a split, the paths of two files whose lines belong together -> their records.

    Raises:
      UserError: the name of a file of rows does not say its format.
    """
    for place in files.values():
        # A folder has no ending, and is looked into when it is read.
        if isinstance(place, str) and os.path.splitext(place)[1] and (layout := layout_of(place)):
            layout.format_of(place)
    drawn = shots.splits if shots else {}

    def patterns(split: str) -> list[str]:
        place = files['train' if split in drawn else split]
        if isinstance(place, Hub):
            return place.paths()
        if is_pair(place):
            return list(place)
        return [rows.in_folder(below_root(place))]

    def of_split(split: str, paths: Sequence[str]) -> Sequence[str]:
        """Without those of `also`, which come last."""
        return paths[: sum(len(readers.find(path)) for path in patterns(split))]

    def read(split: str, *paths: str) -> Iterator[readers.Item]:
        if split in files and is_pair(files[split]):
            yield from read_pair(split, paths)
            return
        records = (record for path in of_split(split, paths) for record in read_file(path))
        if split in drawn:
            yield from shots.draw(records, drawn[split])
        elif shots:
            yield from (r | {'bucket': ''} if isinstance(r, dict) else r for r in records)
        else:
            yield from records

    def count(split: str, *paths: str) -> int:
        if split in files and is_pair(files[split]):
            return readers.count_lines(paths[0])
        places = () if split in drawn else of_split(split, paths)
        layouts = [layout_of(path) for path in places]
        if layouts and all(layouts):
            return sum(map(rows.count, places, layouts))
        return sum(isinstance(record, dict) for record in read(split, *paths))

    return RecordSource(
        read,
        lambda split: [path for part in dict.fromkeys((split, *also)) for path in patterns(part)],
        (*files, *drawn),
        (*fields, 'bucket') if shots else tuple(fields),
        source_lang=source_lang,
        target_lang=target_lang,
        count=count,
    )


def read_rows(
    keys: Sequence[str],
    layout: rows.Layout,
    record_of: Callable[[rows.Values], readers.Record],
    labels: Labels | None = None,
) -> Read:
    """Reads rows as records.

    Args:
      keys: of a row, those that are needed.
      layout: how the files are written.
      record_of: the values of a row -> a record; ValueError says what is wrong with them.
      labels: those that records may have; by default any.
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
    """The labels of a task, given or those of its split 'train'."""
    if labels is not None:
        if isinstance(labels, str) or len(set(labels)) < max(len(labels), 2):
            raise errors.UserError(
                f'task {name}: labels is {labels!r}; give two or more, each once: ("bad", "good")'
            )
        return Labels([str(label) for label in labels], view)
    if 'train' not in files:
        raise errors.UserError(
            f"task {name} has no split 'train' to read its labels from; give labels=(...)"
        )

    @functools.lru_cache(maxsize=8)
    def of_files(paths: tuple[str, ...], stamps: Stamps) -> tuple[str, ...]:
        del stamps  # Other files of the same name have others.
        there: set[str] = set()
        bad = None
        for record in (record for path in paths for record in read(path)):
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

    def read_labels() -> tuple[str, ...]:
        paths = tuple(declarations.find(name).source.paths('train'))
        return of_files(paths, tuple((os.path.getsize(p), os.stat(p).st_mtime_ns) for p in paths))

    return Labels(read_labels, view)


def _labels_in(record: readers.Record, view: str) -> list[str]:
    return record['tags'].split(' ') if view == 'tagging' else [record['label']]


def _check_of(labels: Labels) -> Callable[[readers.Record], readers.Record]:
    """Gives a record back, or raises ValueError for a label that is none of these."""
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
    """Reads sentences; those with another tag are BadRecords."""

    def checked(path: str) -> Iterator[readers.Item]:
        check = _check_of(labels)
        for record in read(path):
            try:
                yield check(record) if isinstance(record, dict) else record
            except ValueError as error:
                start = record['words'][:40]
                yield readers.BadRecord(path, 0, f'in the sentence {start!r} {error}')

    return checked


Parameters = ParamSpec('Parameters')
Result = TypeVar('Result')

# What may be declared of a task: annotation -> whether a value is of that kind, and what is.
_KINDS: dict[object, tuple[Callable[[object], bool], str]] = {
    str: (lambda value: isinstance(value, str), 'a text'),
    bool: (lambda value: isinstance(value, bool), 'True or False'),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), 'a whole number'),
    types.NoneType: (lambda value: value is None, 'None'),
    Sequence[str]: (is_texts, "a list of texts, such as ['a', 'b']"),
    Mapping[str, str]: (
        lambda value: isinstance(value, Mapping) and is_texts([*value, *value.values()]),
        "texts by name, such as {'inputs': 'text', 'targets': 'headline'}",
    ),
    Files: (lambda value: is_files(value, str | Hub), PLACES),
    ParallelFiles: (
        lambda value: is_files(value, str | Hub, pairs=True),
        f"{PLACES}, or two paths, such as {{'train': ('news/train.en', 'news/train.de')}}",
    ),
    DialogueFiles: (lambda value: is_files(value, str), PLACES),
    Sequence[Metric]: (
        lambda value: isinstance(value, list | tuple) and all(map(callable, value)),
        'a list of metrics, such as [exact_match], a function of (targets, predictions)',
    ),
    Callable[[str, int], bool]: (callable, 'a function'),
    Shots: (lambda value: isinstance(value, Shots), 'pipeline.Shots(numbers=(1, 2, 4))'),
}


# What is said of files as a part of `Files`, or beside a plain mapping.
_OF_FILES = {field.name: field.type for field in dataclasses.fields(Files) if field.name != 'paths'}


def declares(register: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Checks what a `register_...` function is called with by its annotations, in one line.

    What `Files` says of files may also stand beside them: files={...}, format='csv'.
    """
    signature = inspect.signature(register)
    taken = signature.parameters

    @functools.wraps(register)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        about = {name: kwargs.pop(name) for name in {*kwargs} & {*_OF_FILES} - {*taken}}
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:  # A misspelt argument, or one that is missing.
            raise errors.UserError(f'{register.__name__}: {error}') from None
        given = bound.arguments
        if isinstance(files := given['files'], Mapping):  # A pathlib.Path is a path, too.
            files = files if isinstance(files, Files) else Files(files)
            paths = {split: _as_text(place) for split, place in files.items()}
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
            annotation = taken[argument].annotation if argument in taken else _OF_FILES[argument]
            is_union = isinstance(annotation, types.UnionType)
            kinds = [_KINDS[kind] for kind in (annotation.__args__ if is_union else [annotation])]
            if not any(fits(value) for fits, _ in kinds):
                allowed = ' or '.join(words for _, words in kinds if words != 'None')
                shown = errors.shortened(value.paths if isinstance(value, Files) else value)
                raise errors.UserError(f'task {name}: {argument} is {shown}; give {allowed}')
        return register(*bound.args, **bound.kwargs)

    return checked


def _as_text(place: object) -> object:
    """A path as text, and so those of a pair."""
    if isinstance(place, list | tuple) and not isinstance(place, Hub):
        return type(place)(_as_text(path) for path in place)
    return os.fspath(place) if isinstance(place, os.PathLike) else place
