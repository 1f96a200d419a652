"""What a sweep leaves in its workdir, as it is written and as it is read.

  config.json       what was run (xlbench.config.claim_workdir): config, data, versions, ...; under
                    'asked' what each command asked for, as a sweep may grow
  results.jsonl     a line per finished adaptation, in the order in which they ended
  results.csv       the same as a tidy table, in an order of its own, without the curves
  predictions/<task>-<lang>-<K>-<method>-<start>/<rate>-<seed>.npy   uint8 [buckets, W], test set
  predictions/<task>-<lang>-zero_shot-<start>.npy      uint8 [W], without adaptation
  predictions/<task>-<lang>-gold.npy                   uint8 [W], the right labels
  predictions/<task>-<lang>.json                       names of the labels, number of examples

W is as in shots.EvalSet; a label is its number, and 255 stands for the separators between sentences
and for what is not there yet. Predictions are on disk before the line that speaks of them, so that
whatever results.jsonl names is whole, also after the process was killed.

In workdirs of earlier versions a group has a single file [lanes, W] in place of its folder, and
lines of results.jsonl have a 'lane', their place in it; these are read, too.
"""

import dataclasses
import functools
import hashlib
import io
import json
import math
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from xlbench import errors, files, foreign
from xlbench.benchmarks import topics
from xlbench.data import prepared
from xlbench.reporting import render

SEPARATOR = 255
ZERO_SHOT = 'zero_shot'  # The method of rows without shots.
STATUSES = ('done', 'empty')
_SAFE_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.+]*')


@dataclasses.dataclass(frozen=True)
class Row:
    """One adaptation, or with shots 0 the score of a model without any.

    Attributes:
        task: Of the benchmark: 'udpos'.
        language: ISO code.
        shots: K; 0 for zero-shot rows, which have no bucket, learning rate and seed.
        bucket: Number of the bucket.
        method: One of lanes.METHODS, or ZERO_SHOT.
        start: 'source', or 'none' for a model without source training.
        learning_rate: Of Adam.
        seed: Of dropout, of the order of examples and of fresh heads.
        score: On the test set, 0 to 100.
        metric: The name of that score.
        dev_score: The best on the dev set, 0 to 100; None without one.
        best_epoch: The epoch whose parameters were scored, counted from 1.
        epochs: How many were run.
        examples: Of the bucket.
        status: 'done', or 'empty' for a bucket without an example, which has no score.
        curve: Score on the dev set after each epoch.
    """

    task: str
    language: str
    shots: int
    bucket: int | None
    method: str
    start: str
    learning_rate: float | None
    seed: int | None
    score: float | None
    metric: str
    dev_score: float | None
    best_epoch: int | None
    epochs: int | None
    examples: int | None
    status: str
    curve: tuple[float, ...] = ()

    @property
    def key(self) -> tuple:
        """What tells it from every other row of a sweep."""
        return (*self.group, self.learning_rate, self.bucket, self.seed)

    @property
    def group(self) -> tuple[str, str, int, str, str]:
        """(task, language, shots, method, start)."""
        return self.task, self.language, self.shots, self.method, self.start


_FIELDS = tuple(field.name for field in dataclasses.fields(Row))
_COUNTS = ('shots', 'bucket', 'seed', 'best_epoch', 'epochs', 'examples')


class Journal:
    """results.jsonl, continued: what is there, and what is added.

    Attributes:
        rows: All rows, in the order of the file.
        dropped: A sentence if the last line was cut short, and therefore dropped; else ''.
    """

    def __init__(self, workdir: str | pathlib.Path):
        """Use `Journal.open`."""
        self._workdir = pathlib.Path(workdir)
        self._path = self._workdir / 'results.jsonl'
        found, self._size, self.dropped = _read_rows(self._path)
        self.rows = [row for row, _ in found]
        self._keys = {row.key for row in self.rows}

    @classmethod
    def open(cls, workdir: str | pathlib.Path) -> 'Journal':
        """Reads what is there; the next `add` overwrites a line that was cut short."""
        return cls(workdir)

    def has(self, key: tuple) -> bool:
        """Whether the row with this `Row.key` is there."""
        return key in self._keys

    def has_all(self, rows: Iterable[Row]) -> bool:
        """Whether rows with the keys of these are there."""
        return all(self.has(row.key) for row in rows)

    def add(self, row: Row, predicted: np.ndarray | None = None, num_buckets: int = 0) -> None:
        """Writes a row, and before it what the model predicts on the test set.

        Args:
            row: One that is not there yet.
            predicted: [W] numbers of labels, -1 at separators; None for an empty bucket.
            num_buckets: How many buckets the group's data has, whichever the sweep asks for.
        """
        if self.has(row.key):
            raise ValueError(f'results.jsonl already has {row.key}')
        if predicted is not None:
            self._write_predictions(row, predicted, num_buckets)
        data = (json.dumps(dataclasses.asdict(row), allow_nan=False) + '\n').encode()
        with files.naming(self._path), self._path.open('ab') as file:
            file.truncate(self._size)
            file.write(data)
            file.flush()
        self._size += len(data)
        self.rows.append(row)
        self._keys.add(row.key)

    def add_gold(
        self,
        task: str,
        language: str,
        gold: np.ndarray,
        labels: Sequence[str],
        num_examples: int,
    ) -> None:
        """Writes the right labels of a test set, or compares them with those that are there.

        Args:
            task: Of the benchmark.
            language: ISO code.
            gold: [W] numbers of labels, -1 at separators.
            labels: Name of each number.
            num_examples: Of the test set.

        Raises:
            UserError: there are others.
        """
        path = predictions_path(self._workdir, task, language, 'gold')
        about = path.with_name(_name(task, language) + '.json')
        content = {'labels': list(labels), 'num_examples': num_examples}
        gold = _as_bytes(gold)
        if path.is_file() and about.is_file():
            there = np.load(path, allow_pickle=False)
            same = _read_json(self._workdir, about.relative_to(self._workdir)) == content
            if not same or not np.array_equal(there, gold):
                raise errors.UserError(
                    f'the test set of {task} in {language} is another than when {self._workdir} '
                    'was begun; choose another --workdir'
                )
            return
        _save(path, gold)
        files.write(about, json.dumps(content, ensure_ascii=False, indent=1) + '\n')

    def _write_predictions(self, row: Row, predicted: np.ndarray, num_buckets: int) -> None:
        path = _path_of(self._workdir, row)
        predicted = _as_bytes(predicted)
        if row.bucket is None:
            _save(path, predicted)
            return
        shape = (max(row.bucket + 1, num_buckets), len(predicted))
        there = np.load(path, mmap_mode='r', allow_pickle=False) if path.is_file() else None
        if there is None or len(there) < shape[0]:
            table = np.full(shape, SEPARATOR, np.uint8)
            if there is not None:
                table[: len(there)] = there
            _save(path, table)
        table = np.load(path, mmap_mode='r+', allow_pickle=False)
        table[row.bucket] = predicted
        table.flush()


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep's workdir, finished or not.

    Attributes:
        workdir: The folder.
        info: config.json as it is.
        rows: All rows, sorted by task, language, shots, method, start, learning rate, bucket, seed.
        lanes: By `Row.key`, the place of a row among the predictions of its group, in workdirs of
            earlier versions; None in others.
        dropped: A sentence if the last line of results.jsonl was left out; else ''.
    """

    workdir: pathlib.Path
    info: Mapping[str, Any]
    rows: tuple[Row, ...]
    lanes: Mapping[tuple, int | None]
    dropped: str = ''

    @classmethod
    def read(cls, workdir: str | pathlib.Path) -> 'Sweep':
        """Reads a workdir; UserError if it is none, or if nothing in it is finished yet."""
        folder = pathlib.Path(workdir)
        if not foreign.file(folder, 'results.jsonl'):
            inner = sorted(path.parent.name for path in folder.glob('*/results.jsonl'))
            hint = f'; did you mean its subfolder {inner[0]}?' if inner else ''
            raise errors.UserError(
                f'{workdir} has no results.jsonl, so it is no workdir of xlbench.fewshot, or no '
                f'adaptation of it is finished{hint}'
            )
        info = _read_json(folder, 'config.json')
        if isinstance(info.get('config'), dict):
            topics.add(info['config'])
        found, _, dropped = _read_rows(folder / 'results.jsonl')
        if not found:
            raise errors.UserError(f'no adaptation of {workdir} is finished; continue the sweep')
        rows = sorted((row for row, _ in found), key=lambda row: _sortable(row.key))
        return cls(folder, info, tuple(rows), {row.key: lane for row, lane in found}, dropped)

    @property
    def config(self) -> Mapping[str, Any]:
        """The resolved config."""
        config = self.info.get('config')
        return config if isinstance(config, dict) else {}

    @functools.cached_property
    def asked(self) -> tuple[Mapping[str, Any], ...]:
        """What each command that added to the sweep asked for: `config.adapt` of each."""
        blocks = self.info.get('asked') or [self.config.get('adapt')]
        blocks = blocks if isinstance(blocks, list) else []
        return tuple(block for block in blocks if isinstance(block, dict))

    def buckets(self, language: str, shots: int, method: str, start: str) -> set[int]:
        """The numbers of the buckets that a group is to be adapted to."""
        group = dict(languages=language, shots=shots, methods=method, starts=start)
        return {
            number
            for block in self.asked
            if all(_asks_for(block.get(key), value) for key, value in group.items())
            for number in bucket_numbers(block.get('buckets'))
        }

    @property
    def is_sample(self) -> bool:
        """Whether its data is the embedded sample corpora."""
        return self.info.get('data') == 'sample'

    @property
    def source_workdir(self) -> pathlib.Path:
        """Where the source-trained model is, or was."""
        if not (named := self.config.get('source_workdir')):
            return self.workdir / 'source'
        return pathlib.Path(self._where(str(named)))

    @property
    def source_data(self) -> dict[str, Any]:
        """config.source.data, with the root as it is found from the current folder."""
        data = (self.config.get('source') or {}).get('data') or {}
        root, vocabulary = (str(data.get(key, '')) for key in ('root', 'vocabulary'))
        return {**data, 'root': self._where(root), 'vocabulary': vocabulary}

    @functools.cached_property
    def source_info(self) -> Mapping[str, Any]:
        """config.json of the source-trained model; empty if its workdir is not there any more."""
        path = self.source_workdir
        return _read_json(path, 'config.json') if foreign.file(path, 'config.json') else {}

    @property
    def source_config(self) -> Mapping[str, Any]:
        """The config of the source-trained model."""
        config = self.source_info.get('config') or self.config.get('source')
        return config if isinstance(config, dict) else {}

    @property
    def source_examples(self) -> Mapping[str, int]:
        """'<task>/<split>' -> number of examples, of what the source model was trained with."""
        examples = self.source_info.get('examples') or self.info.get('examples')
        return examples if isinstance(examples, dict) else {}

    @functools.cached_property
    def contents(self) -> Mapping[str, str]:
        """'<task>/<split>' -> `Prepared.content` of what was read, as far as it was noted."""
        own, source = (info.get('contents') for info in (self.info, self.source_info))
        return {
            **(source if isinstance(source, dict) else {}),
            **(own if isinstance(own, dict) else {}),
        }

    def open_prepared(self, name: str, split: str) -> prepared.Prepared:
        """The prepared examples of a SeqIO task that the sweep has read.

        Raises:
            prepared.NotPrepared: They are not there any more.
        """
        data = self.source_data
        content = self.contents.get(f'{name}/{split}')
        return prepared.open_recorded(data['root'], data['vocabulary'], name, split, content)

    def _where(self, folder: str) -> str:
        """A folder of the config; a relative one starts where the sweep was run, or else here."""
        begun = os.path.join(str(self.info.get('cwd') or ''), folder)
        return begun if os.path.isdir(begun) else folder

    @functools.cached_property
    def source(self) -> str:
        """Equal for sweeps that adapt the same source-trained model: a hash of its config."""
        text = json.dumps(self.source_config, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def learning_rate(
        self, task: str, language: str, shots: int, method: str = 'full', start: str = 'source'
    ) -> float | None:
        """The learning rate of a group's reported scores; None if nothing of it is finished.

        It is the one with the highest mean dev score over buckets, the smaller one of equals. Only
        those compete that have the most finished buckets: means over other buckets do not compare.
        Without a dev set it is the smallest.
        """
        return self._rates.get((task, language, shots, method, start))

    def zero_shot(self, task: str, language: str, start: str = 'source') -> np.ndarray:
        """[W] uint8: predictions of the model without adaptation."""
        return _load(self.workdir, predictions_path(self.workdir, task, language, ZERO_SHOT, start))

    def predicted(self, row: Row) -> np.ndarray:
        """[W] uint8: predictions of an adapted model."""
        lane = self.lanes.get(row.key)
        if lane is None:
            path, lane = _path_of(self.workdir, row), row.bucket
        else:
            path = predictions_path(self.workdir, *_place(row))
        table = _load(self.workdir, path)
        if table.ndim == 1:
            return table
        if lane is None or lane >= len(table):
            raise errors.UserError(f'{self.workdir} has no predictions of {row.key}')
        return table[lane]

    def gold(self, task: str, language: str) -> np.ndarray:
        """[W] uint8: the right labels of the test set."""
        return _load(self.workdir, predictions_path(self.workdir, task, language, 'gold'))

    def labels(self, task: str, language: str) -> list[str]:
        """The name of each label."""
        return [str(label) for label in self._about(task, language).get('labels', ())]

    def num_examples(self, task: str, language: str) -> int:
        """Of the test set; 0 if it is not known."""
        count = self._about(task, language).get('num_examples')
        return count if isinstance(count, int) else 0

    @functools.cached_property
    def _rates(self) -> dict[tuple, float]:
        groups: dict[tuple, dict[float, list[Row]]] = {}
        for row in self.rows:
            if row.status == 'done' and row.learning_rate is not None:
                groups.setdefault(row.group, {}).setdefault(row.learning_rate, []).append(row)
        chosen = {}
        for group, rates in groups.items():
            most = max(map(len, rates.values()))
            full = {rate: rows for rate, rows in rates.items() if len(rows) == most}
            chosen[group] = min(full, key=lambda rate: (-_mean_dev(full[rate]), rate))
        return chosen

    def _about(self, task: str, language: str) -> dict[str, Any]:
        path = predictions_path(self.workdir, task, language, 'gold')
        name = path.with_name(_name(task, language) + '.json').relative_to(self.workdir)
        return _read_json(self.workdir, name) if foreign.file(self.workdir, name) else {}


def bucket_numbers(asked: Any) -> range:
    """The numbers of the buckets that config.adapt.buckets asks for; none if it is not valid.

    Example: 3 or (3,) or (0, 3) -> 0, 1, 2; (30, 40) -> 30, 31, ..., 39
    """
    ends = tuple(asked) if isinstance(asked, list | tuple) else (asked,)
    if not 1 <= len(ends) <= 2 or any(isinstance(n, bool) or not isinstance(n, int) for n in ends):
        return range(0)
    return range(*ends) if min(ends) >= 0 else range(0)


def predictions_path(workdir: str | pathlib.Path, *parts: Any) -> pathlib.Path:
    """predictions/<part>-<part>....npy, where no part can lead out of the folder."""
    return pathlib.Path(workdir) / 'predictions' / f'{_name(*parts)}.npy'


def write_csv(rows: Iterable[Row], path: str | pathlib.Path) -> None:
    """Writes rows as a tidy table, in the order given; the same rows give the same bytes."""
    columns = [name for name in _FIELDS if name != 'curve']
    values = ([getattr(row, name) for name in columns] for row in rows)
    files.write(path, render.comma_separated(columns, values))


def _asks_for(values: Any, value: Any) -> bool:
    """Whether a value is among those that a command names; all are where it names none."""
    return not isinstance(values, list | tuple) or value in values


def _path_of(workdir: str | pathlib.Path, row: Row) -> pathlib.Path:
    """The file of a row's predictions."""
    path = predictions_path(workdir, *_place(row))
    if row.bucket is None:
        return path
    return path.with_suffix('') / f'{row.learning_rate}-{row.seed}.npy'


def _load(workdir: pathlib.Path, path: pathlib.Path) -> np.ndarray:
    foreign.file(workdir, path.relative_to(workdir))
    try:
        # The header decides how much is read, and only what is asked for is.
        table = np.load(path, mmap_mode='r', allow_pickle=False)
    except FileNotFoundError:
        raise errors.UserError(f'there are no predictions {path}') from None
    except (OSError, ValueError, EOFError) as error:
        raise errors.UserError(f'{path} cannot be read: {error}') from None
    if table.dtype != np.uint8 or table.ndim not in (1, 2):
        raise errors.UserError(f'{path} holds {table.dtype}{list(table.shape)}, no predictions')
    return table


def _place(row: Row) -> tuple:
    """What the file or folder of a row's predictions is named by."""
    shots = () if row.shots == 0 else (row.shots,)
    return row.task, row.language, *shots, row.method, row.start


def _name(*parts: Any) -> str:
    for part in map(str, parts):
        # A minus would be taken for the one between the parts.
        if not _SAFE_NAME.fullmatch(part) or '..' in part:
            raise errors.UserError(
                f'{part!r} cannot be part of a file name; allowed: letters, digits, "_" and "."'
            )
    return '-'.join(map(str, parts))


def _as_bytes(numbers: np.ndarray) -> np.ndarray:
    numbers = np.asarray(numbers)
    if numbers.max(initial=0) >= SEPARATOR:
        raise ValueError(f'label {numbers.max()} does not fit; at most {SEPARATOR} are stored')
    return np.where(numbers < 0, SEPARATOR, numbers).astype(np.uint8)


def _save(path: pathlib.Path, table: np.ndarray) -> None:
    out = io.BytesIO()
    np.save(out, table, allow_pickle=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, out.getvalue())


def _read_rows(path: pathlib.Path) -> tuple[list[tuple[Row, int | None]], int, str]:
    """The rows of results.jsonl with their lanes, its bytes up to there, what was dropped."""
    data = path.read_bytes() if path.is_file() else b''
    size = data.rfind(b'\n') + 1
    found = []
    lines: dict[tuple, int] = {}
    for number, line in enumerate(data[:size].split(b'\n')[:-1], 1):
        try:
            row, lane = _parse(line)
            if lines.setdefault(row.key, number) != number:
                raise errors.UserError(f'it repeats line {lines[row.key]}')
            found.append((row, lane))
        except errors.UserError as error:
            raise errors.UserError(
                f'{path}:{number} is no result ({error}); delete that line, and the sweep makes it '
                'again'
            ) from None
    dropped = f'The last line of {path.name} was cut short and is left out.'
    return found, size, dropped if size < len(data) else ''


class _Lane(msgspec.Struct):
    """What earlier versions wrote besides."""

    lane: Annotated[int, msgspec.Meta(ge=0)] | None = None


def _parse(line: bytes) -> tuple[Row, int | None]:
    """A line of results.jsonl; UserError if it is none."""
    row = files.parse_json(line, Row, 'the line')
    for name in _COUNTS:
        if not 0 <= (count := getattr(row, name) or 0) < 2**63:
            raise errors.UserError(f'{name} is {errors.shortened(count)}')
    if row.status not in STATUSES:
        raise errors.UserError(f'status is {errors.shortened(row.status)}')
    if (row.status == 'done') != (row.score is not None):
        raise errors.UserError(f'a row that is {row.status} with the score {row.score}')
    for name in ('bucket', 'learning_rate', 'seed') if row.shots else ():
        if getattr(row, name) is None:
            raise errors.UserError(f'a row with shots has no {name}')
    _name(row.task, row.language, row.method, row.start)
    return row, files.parse_json(line, _Lane, 'the line').lane


def _read_json(folder: str | pathlib.Path, name: str | pathlib.Path) -> dict[str, Any]:
    path = foreign.file(folder, name) or pathlib.Path(folder, name)
    return files.read_json(path, dict[str, Any])


def _mean_dev(rows: Sequence[Row]) -> float:
    scores = [row.dev_score for row in rows]
    # fsum does not depend on the order in which adaptations ended.
    return -math.inf if None in scores else math.fsum(scores) / len(scores)


def _sortable(key: tuple) -> tuple:
    return tuple((value is not None, 0 if value is None else value) for value in key)
