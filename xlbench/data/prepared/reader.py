"""Reads preparations: examples at random, tasks and mixtures by name."""

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Mapping, Sequence

import numpy as np
from array_record.python import array_record_module

from xlbench.data import readers
from xlbench.data.prepared import format, freshness
from xlbench.data.prepared.format import Manifest, NotPrepared, Record
from xlbench.system import errors, untrusted

_READER_OPTIONS = 'readahead_buffer_size:0'
_LENGTHS_IN_MEMORY = 2**20  # Of more examples they are read where they are needed.


@dataclasses.dataclass(frozen=True)
class Prepared:
    """One prepared task and split: random access to its examples.

    `labels` are those that the ids in targets stand for; by default the manifest's. Others have to
    contain these; a record's ids are translated when it is read.
    """

    folder: str
    manifest: Manifest = dataclasses.field(repr=False)
    labels: tuple[str, ...] = dataclasses.field(default=(), repr=False)

    def __post_init__(self):
        labels = self.labels or tuple(self.manifest.get('labels') or ())
        object.__setattr__(self, 'labels', labels)

    @property
    def name(self) -> str:
        """Returns the name of the SeqIO task."""
        return self.manifest['task']

    @property
    def split(self) -> str:
        """Returns the split of the task."""
        return self.manifest['split']

    @functools.cached_property
    def sha256(self) -> str:
        """Returns the SHA-256 of manifest.json, which names the SHA-256 of everything else."""
        return readers.sha256(os.path.join(self.folder, format.MANIFEST))

    @property
    def content(self) -> str:
        """Returns a hash of the examples alone; `sha256` changes with the manifest, too."""
        shards = ' '.join(shard['sha256'] for shard in self.manifest['shards'])
        return hashlib.sha256(shards.encode()).hexdigest()

    @property
    def draws(self) -> int:
        """Returns the number of consecutive copies of each example, each with other noise."""
        return self.manifest.get('draws', 1)

    @property
    def pass_size(self) -> int:
        """Returns the number of examples of a pass: each is read once, in one of its draws."""
        return len(self) // self.draws

    def __len__(self) -> int:
        return self.manifest['num_examples']

    def lengths(self) -> np.ndarray:
        """Returns [examples, 2] int32: tokens of inputs and targets, with eos, untrimmed.

        Those of large data stay in their file, of which the system keeps in memory what is used.
        """
        return self._lengths

    @functools.cached_property
    def _lengths(self) -> np.ndarray:
        path = os.path.join(self.folder, format.LENGTHS)
        if not os.path.isfile(path):
            raise NotPrepared(f'{path} does not exist')
        try:
            # The header decides how much is read, so it is checked before.
            array: np.ndarray = np.lib.format.open_memmap(path, mode='r')
            if array.dtype != np.dtype('<i4') or array.shape != (len(self), 2):
                raise ValueError(f'{array.dtype}{list(array.shape)} for {len(self)} examples')
            if len(array) <= _LENGTHS_IN_MEMORY or array.dtype != np.int32:
                array = np.array(array, np.int32)
        except Exception as error:  # numpy reads the header as Python code, whose errors are many.
            if isinstance(error, OSError) and errors.is_withheld(error):
                raise
            reason = ' '.join(str(error).split())[:300]
            raise NotPrepared(f'{path} cannot be read: {reason}') from error
        if array.size and array.min() < 1:
            raise NotPrepared(f'{path} has an example without tokens')
        array = array.view(np.ndarray)
        array.flags.writeable = False
        return array

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        """[num_shards]: the number of examples up to the end of each shard."""
        return np.cumsum([shard['examples'] for shard in self.manifest['shards']], dtype=np.int64)

    @functools.cached_property
    def _readers(self) -> dict[int, array_record_module.ArrayRecordReader]:
        return {}

    def __getstate__(self) -> dict[str, str | Manifest | tuple[str, ...]]:
        # Open files and caches stay behind when this goes to another process.
        return {'folder': self.folder, 'manifest': self.manifest, 'labels': self.labels}

    def _shard_path(self, shard: int) -> str:
        name = format.safe_name(self.manifest['shards'][shard]['file'], 'shard file')
        return os.path.join(self.folder, name)

    def _reader(self, shard: int) -> array_record_module.ArrayRecordReader:
        if shard not in self._readers:
            path = self._shard_path(shard)
            try:
                with open(path, 'rb'):  # The reader takes one that it cannot open for an empty one.
                    pass
                reader = array_record_module.ArrayRecordReader(
                    path, options=_READER_OPTIONS, file_reader_buffer_size=32768
                )
                count = reader.num_records()
            except (RuntimeError, ValueError, OSError) as error:
                if isinstance(error, OSError) and errors.is_withheld(error):
                    raise
                raise self._broken(path, error) from error
            if count != (expected := self.manifest['shards'][shard]['examples']):
                raise self._broken(path, f'{count} records instead of {expected}')
            self._readers[shard] = reader
        return self._readers[shard]

    def _broken(self, path: str, detail: Exception | str) -> errors.UserError:
        line = ' '.join(str(detail).split())[:300]
        return errors.UserError(
            f'{path} is broken ({line}); prepare {self.name}/{self.split} again with --force'
        )

    def read(self, indices: Sequence[int] | np.ndarray) -> list[Record]:
        """Returns the records at `indices`, in that order, with one read for each shard."""
        numbers = np.asarray(indices, np.int64)
        if numbers.size and (numbers.min() < 0 or numbers.max() >= len(self)):
            raise IndexError(f'{self.name}/{self.split} has {len(self)} examples')
        shards = np.searchsorted(self._ends, numbers, side='right')
        records: list[Record] = [{}] * len(numbers)
        for shard in np.unique(shards).tolist():
            where = np.flatnonzero(shards == shard)
            start = int(self._ends[shard - 1]) if shard else 0
            reader, path = self._reader(shard), self._shard_path(shard)
            try:
                data = reader.read((numbers[where] - start).tolist())
                if len(data) != len(where):
                    raise ValueError(f'{len(data)} records instead of {len(where)}')
                for at, value in zip(where.tolist(), data, strict=True):
                    records[at] = self._checked(format.decode(value), int(numbers[at]))
            except (RuntimeError, ValueError) as error:
                raise self._broken(path, error) from error
        return records

    def _checked(self, record: Record, index: int) -> Record:
        """Checks that a record is as long as lengths.npy says, from which batches are planned."""
        size = self.manifest['vocabulary']['size']
        for name, expected in zip(format.SIDES, self._lengths[index], strict=True):
            value = record.get(name)
            if not isinstance(value, np.ndarray) or len(value) != expected:
                raise ValueError(f'{name} of example {index} has not the {expected} tokens listed')
            if value.view(np.uint32).max() >= size:  # Numbers below 0, too.
                raise ValueError(f'{name} of example {index} has ids beyond the vocabulary')
        if self._languages is not None:
            record['languages'] = self._languages
        if self._label_ids is not None:
            record['targets'] = self._label_ids[record['targets']]
        return record

    @functools.cached_property
    def _label_ids(self) -> np.ndarray | None:
        """[labels of the manifest] int32: their places in `labels`; None where these are equal."""
        own = self.manifest.get('labels') or []
        if list(self.labels) == own:
            return None
        return np.array([self.labels.index(label) for label in own], np.int32)

    @functools.cached_property
    def _languages(self) -> np.ndarray | None:
        rows = self.manifest['vocabulary'].get('language_rows')
        langs = self.manifest.get('source_lang'), self.manifest.get('target_lang')
        return language_places(rows, *langs) if rows else None

    def __getitem__(self, index: int) -> Record:
        """Returns {'inputs': [length] int32, 'targets': ..., 'inputs_pretokenized': str}."""
        return self.read([index])[0]


def language_places(
    rows: Mapping[str, int], source_lang: str | None, target_lang: str | None
) -> np.ndarray:
    """Returns [2] int32: 1 + the rows of the languages of inputs and targets; 0 for no row.

    `rows` has them by ISO codes, see Tokenizer.language_rows.
    """
    return np.array([rows.get(lang or '', -1) + 1 for lang in (source_lang, target_lang)], np.int32)


def open_task(
    root: str, vocabulary: str, task: str, split: str, content: str | None = None
) -> Prepared:
    """Opens one prepared task; NotPrepared if it is missing, stale or broken.

    With `content`, as a run noted `Prepared.content`, it may be stale, but hold nothing else.
    """
    place = format.folder(root, vocabulary, task, split)
    untrusted.check_tree(os.path.join(root, 'prepared'), place)
    path = os.path.join(place, format.MANIFEST)
    if not os.path.isfile(path):
        raise NotPrepared(f'{task}/{split} is not prepared in {place}')
    manifest = format.checked_manifest(path, format.read_json(path), task, split)
    prepared = Prepared(place, manifest)
    for index, shard in enumerate(manifest['shards']):
        shard_path = prepared._shard_path(index)
        if not os.path.isfile(shard_path) or os.path.getsize(shard_path) != shard['bytes']:
            raise NotPrepared(f'{shard_path} is missing or has not {shard["bytes"]} bytes')
    prepared.lengths()
    if content is None:
        if reason := freshness.stale_reason(manifest, root):
            raise NotPrepared(f'{task}/{split} in {place} is stale: {reason}')
    elif prepared.content != content:
        raise NotPrepared(f'{task}/{split} in {place} holds other examples by now')
    return prepared


def open_mixture(
    root: str, vocabulary: str, name: str, split: str
) -> tuple[list[Prepared], list[float]]:
    """Opens the tasks of a mixture; with their rates. A task is a mixture of itself alone."""
    parent, name = format.vocabulary_path(root, vocabulary), format.safe_name(name, 'mixture')
    path = os.path.join(parent, f'{name}.json')
    if not untrusted.file(os.path.join(root, 'prepared'), os.path.abspath(path)):
        return [open_task(root, vocabulary, name, split)], [1.0]
    content = format.read_json(path)
    if content.get('code') and freshness.is_of_other_code(name, content['code']):
        raise NotPrepared(f'{path} is stale: {freshness.CHANGED}')
    rates = content.get(split) if split not in format.MIXTURE_KEYS else None
    if not isinstance(rates, dict) or not rates:
        raise NotPrepared(f'{path} has no split {split!r}')
    for task, rate in rates.items():
        if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate < 1e30:
            what = f'the rate of {errors.shortened(task)} is {errors.shortened(rate)}'
            raise NotPrepared(f'{path}: {what}, not a positive number')
    tasks = [open_task(root, vocabulary, task, split) for task in rates]
    return tasks, [float(rate) for rate in rates.values()]


def is_there(root: str, vocabulary: str, name: str) -> bool:
    """Returns whether any split of a task or mixture has been prepared, up to date or not."""
    place = os.path.join(format.vocabulary_path(root, vocabulary), format.safe_name(name, 'name'))
    return os.path.isdir(place) or os.path.isfile(f'{place}.json')


def members(root: str, vocabulary: str, name: str) -> dict[str, tuple[str, ...]]:
    """Returns the prepared tasks of a task or mixture, with the splits that each can have."""
    parent, tasks = format.vocabulary_path(root, vocabulary), [format.safe_name(name, 'name')]
    with contextlib.suppress(NotPrepared):
        content = format.read_json(os.path.join(parent, f'{name}.json'))
        rates = [content[key] for key in content if key not in format.MIXTURE_KEYS]
        tasks = [task for of_split in rates if isinstance(of_split, dict) for task in of_split]
    splits_of: dict[str, tuple[str, ...]] = {}
    for task in dict.fromkeys(tasks):
        folder = os.path.join(parent, format.safe_name(task, 'task'))
        for split in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, split, format.MANIFEST)
            if split.startswith('.') or not os.path.isfile(path):
                continue
            with contextlib.suppress(NotPrepared):
                splits = format.read_json(path).get('splits')
                splits_of[task] = tuple(map(str, splits)) if isinstance(splits, list) else ()
    return splits_of


def open_optional(root: str, vocabulary: str, name: str, split: str) -> list[Prepared]:
    """Opens those tasks of a task or mixture of which a split is prepared; there may be none."""
    tasks = []
    for task in members(root, vocabulary, name):
        with contextlib.suppress(NotPrepared):
            tasks.append(open_task(root, vocabulary, task, split))
    return tasks
