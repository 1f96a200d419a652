"""Files of a sweep's workdir: written and read here.

  config.json       what was run (xlbench.config.claim_workdir): config, data, versions, ...; under
                    'asked' what each command asked for, as a sweep may grow
  results.jsonl     a line per finished adaptation, in the order in which they ended
  results.csv       the same as a tidy table, in an order of its own, without the curves
  predictions/<task>-<lang>-<K>-<method>-<start>/<rate>-<seed>.npy   uint8 [buckets, W], test set
  predictions/<task>-<lang>-zero_shot-<start>.npy      uint8 [W], without adaptation
  predictions/<task>-<lang>-gold.npy                   uint8 [W], the right labels
  predictions/<task>-<lang>.json                       names of the labels, number of examples

W is as in corpus.EvalSet; a label is its number, and 255 stands for the separators between
sentences and for what is not there yet. Predictions are on disk before the line that speaks of
them, so that whatever results.jsonl names is whole, also after the process was killed.
"""

import dataclasses
import io
import json
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from xlbench.reporting import render
from xlbench.system import errors, files, untrusted

ZERO_SHOT = 'zero_shot'  # The method of rows without shots.
PROMPT = 'prompt'  # The method of rows whose shots stand in a prompt, see xlbench.prompt.
STATUSES = ('done', 'empty')  # Of rows that are written down.
SEPARATOR = 255  # Stands between sentences, and for what is not there yet.
_SAFE_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.+]*')
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# Task, language, shots, method, start, learning rate, bucket, seed.
Key = tuple[str, str, int, str, str, float | None, int | None, int | None]


class Group(NamedTuple):
    """Adaptations of one task that differ in the bucket, the learning rate and the seed alone."""

    language: str
    shots: int
    method: str = 'full'
    start: str = 'source'

    @property
    def name(self) -> str:
        """Its name in plan.json and in the folders of kept parameters."""
        return f'{self.language}-{self.shots}-{self.method}-{self.start}'


@dataclasses.dataclass(frozen=True)
class Row:
    """One adaptation, or the model as it is (shots 0); its result is filled in later."""

    task: str  # Of the benchmark: 'udpos'.
    language: str
    shots: Count  # K; 0 for zero-shot rows, which have no bucket, learning rate and seed.
    bucket: Count | None
    method: str  # One of settings.METHODS, ZERO_SHOT, or PROMPT.
    start: str  # 'source', or 'none' for a model without source training.
    learning_rate: float | None
    seed: Count | None  # Of dropout, of the order of examples and of fresh heads.
    _: dataclasses.KW_ONLY
    score: float | None = None  # On the test set, 0 to 100.
    metric: str  # The name of that score.
    dev_score: float | None = None  # The best on the dev set, 0 to 100; None without one.
    best_epoch: Count | None = None  # Whose parameters were scored, counted from 1.
    epochs: Count | None = None
    examples: Count | None = None  # How many the bucket has.
    # 'done', or 'empty' for a bucket without an example, which has no score; 'planned' before.
    status: str = 'planned'
    curve: tuple[float, ...] = ()  # Score on the dev set after each epoch.

    @property
    def key(self) -> Key:
        """Returns the values that tell it from every other row of a sweep."""
        return (self.task, *self.group, self.learning_rate, self.bucket, self.seed)

    @property
    def group(self) -> Group:
        """Returns the group that it is of."""
        return Group(self.language, self.shots, self.method, self.start)

    def predictions(self, workdir: pathlib.Path) -> pathlib.Path:
        """Returns the file of its predictions, in which those of shots have a row a bucket."""
        shots = (self.shots,) if self.shots else ()
        path = path_of(workdir, self.task, self.language, *shots, self.method, self.start)
        if self.bucket is None:
            return path
        return path.with_suffix('') / f'{self.learning_rate}-{self.seed}.npy'

    def adapted(self, workdir: pathlib.Path) -> pathlib.Path:
        """Returns the workdir of its parameters, which is there if they were kept."""
        lane = f'{self.learning_rate}-{self.bucket}-{self.seed}'
        return workdir / 'adapted' / f'{self.task}-{self.group.name}' / lane


class Journal:
    """The file results.jsonl of a workdir, continued; `add` overwrites a line that was cut short.

    Attributes:
      rows: all rows, in the order of the file.
      dropped: a sentence if the last line was cut short, and therefore dropped; else ''.
    """

    def __init__(self, workdir: str | pathlib.Path):
        self._workdir = pathlib.Path(workdir)
        self._path = self._workdir / 'results.jsonl'
        self.rows, self._size, self.dropped = read_rows(self._path)
        self._keys = {row.key for row in self.rows}

    def has(self, key: Key) -> bool:
        """Returns whether the row with this `Row.key` exists."""
        return key in self._keys

    def has_all(self, rows: Iterable[Row]) -> bool:
        """Returns whether rows with the keys of these exist."""
        return all(self.has(row.key) for row in rows)

    def add(self, row: Row, predicted: np.ndarray | None = None, num_buckets: int = 0) -> None:
        """Writes a row, and before it what the model predicts on the test set.

        Args:
          row: one that is not there yet.
          predicted: [W] numbers of labels, -1 at separators; None for an empty bucket.
          num_buckets: how many buckets the group's data has, whichever the sweep asks for.
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
        self, task: str, language: str, gold: np.ndarray, labels: Sequence[str], num_examples: int
    ) -> None:
        """Writes the right labels of a test set, [W] numbers of `labels` and -1 at separators.

        Raises:
          UserError: other ones are there.
        """
        path = path_of(self._workdir, task, language, 'gold')
        test_set = TestSet(list(labels), num_examples)
        before = read_test_set(self._workdir, task, language)
        gold = _as_bytes(gold)
        if before and path.is_file():
            there = load_labels(self._workdir, path)
            if before != test_set or not np.array_equal(there, gold):
                raise errors.UserError(
                    f'the test set of {task} in {language} has changed since {self._workdir} was '
                    'started; choose another --workdir'
                )
            return
        _save_labels(path, gold)
        note = files.as_json(msgspec.structs.asdict(test_set))
        files.write(path_of(self._workdir, task, language, suffix='.json'), note)

    def _write_predictions(self, row: Row, predicted: np.ndarray, num_buckets: int) -> None:
        path, labels = row.predictions(self._workdir), _as_bytes(predicted)
        if row.bucket is None:
            _save_labels(path, labels)
        else:
            _save_row(path, row.bucket, num_buckets, labels)


def bucket_numbers(asked: int | Sequence[int]) -> range:
    """Lists the buckets that config.adapt.buckets asks for; none if it is not valid.

    Example: 3 or (3,) or (0, 3) -> 0, 1, 2; (30, 40) -> 30, 31, ..., 39
    """
    ends = tuple(asked) if isinstance(asked, list | tuple) else (asked,)
    if not 1 <= len(ends) <= 2 or any(isinstance(n, bool) or not isinstance(n, int) for n in ends):
        return range(0)
    return range(*ends) if min(ends) >= 0 else range(0)


def drawn(size: int, most: int) -> Sequence[int]:
    """Draws `most` of `size` examples, always the same; all for 0. Their numbers rise."""
    if not 0 < most < size:
        return range(size)
    # Of all parts of a file, whose order often means something.
    return sorted(np.random.default_rng(0).permutation(size)[:most].tolist())


def write_csv(rows: Iterable[Row], path: str | pathlib.Path) -> None:
    """Writes rows as a tidy table, in the order given; the same rows give the same bytes."""
    columns = [one.name for one in dataclasses.fields(Row) if one.name != 'curve']
    values = ([getattr(row, name) for name in columns] for row in rows)
    files.write(path, render.comma_separated(columns, values))


def read_rows(path: pathlib.Path) -> tuple[list[Row], int, str]:
    """Reads the rows of results.jsonl, and the bytes that they take.

    The third value is a sentence if the last line was cut short, else ''.
    """
    data = path.read_bytes() if path.is_file() else b''
    size = data.rfind(b'\n') + 1
    rows = []
    lines: dict[Key, int] = {}
    for number, line in enumerate(data[:size].split(b'\n')[:-1], 1):
        try:
            rows.append(row := _parse(line))
            if lines.setdefault(row.key, number) != number:
                raise errors.UserError(f'it repeats line {lines[row.key]}')
        except errors.UserError as error:
            raise errors.UserError(
                f'{path}:{number} is not a result ({error}); delete that line, and the sweep makes '
                'it again'
            ) from None
    dropped = f'The last line of {path.name} is incomplete and was ignored.'
    return rows, size, dropped if size < len(data) else ''


def _parse(line: bytes) -> Row:
    """Parses a line of results.jsonl; UserError if it is none."""
    row = files.parse_json(line, Row, 'the line')
    if row.status not in STATUSES:
        raise errors.UserError(f'status is {errors.shortened(row.status)}')
    if (row.status == 'done') != (row.score is not None):
        raise errors.UserError(f'a row that is {row.status} with the score {row.score}')
    for name in ('bucket', 'learning_rate', 'seed') if row.shots else ():
        if getattr(row, name) is None:
            raise errors.UserError(f'a row with shots has no {name}')
    joined(row.task, row.language, row.method, row.start)
    return row


# ---------------------------------------------------------------------------------------------
# Files of predicted labels: a label is its number in a byte.


class TestSet(msgspec.Struct):
    """The names of a test set's labels, and its size; 0 if that is not known."""

    labels: list[str] = []
    num_examples: int = 0


def read_test_set(workdir: str | pathlib.Path, task: str, language: str) -> TestSet | None:
    """Reads the note on the test set of a task in one language; None if there is none."""
    path = path_of(workdir, task, language, suffix='.json')
    name = path.relative_to(workdir)
    return files.read_json(path, TestSet) if untrusted.file(workdir, name) else None


def path_of(workdir: str | pathlib.Path, *parts: str | int, suffix: str = '.npy') -> pathlib.Path:
    """Makes the path predictions/<part>-<part>....npy; no part can lead out of the folder."""
    return pathlib.Path(workdir) / 'predictions' / (joined(*parts) + suffix)


def joined(*parts: str | int) -> str:
    """Joins parts with a minus; UserError for one that no file can be named by."""
    for part in map(str, parts):
        # A minus would be taken for the one between the parts.
        if not _SAFE_NAME.fullmatch(part) or '..' in part:
            raise errors.UserError(
                f'{part!r} cannot be part of a file name; allowed: letters, digits, "_" and "."'
            )
    return '-'.join(map(str, parts))


def _as_bytes(numbers: np.ndarray) -> np.ndarray:
    """Converts numbers of labels, below 0 between sentences, to uint8."""
    numbers = np.asarray(numbers)
    if numbers.max(initial=0) >= SEPARATOR:
        raise ValueError(f'label {numbers.max()} does not fit; at most {SEPARATOR} are stored')
    return np.where(numbers < 0, SEPARATOR, numbers).astype(np.uint8)


def _save_labels(path: pathlib.Path, table: np.ndarray) -> None:
    """Writes an array whole or not at all."""
    out = io.BytesIO()
    np.save(out, table, allow_pickle=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, out.getvalue())


def _save_row(path: pathlib.Path, number: int, num_rows: int, row: np.ndarray) -> None:
    """Writes one row of an array that may be there already, and then has `num_rows` or more."""
    num_rows = max(number + 1, num_rows)
    there = np.load(path, mmap_mode='r', allow_pickle=False) if path.is_file() else None
    if there is None or len(there) < num_rows:
        table = np.full((num_rows, len(row)), SEPARATOR, np.uint8)
        if there is not None:
            table[: len(there)] = there
        _save_labels(path, table)
    table = np.load(path, mmap_mode='r+', allow_pickle=False)
    table[number] = row
    table.flush()


def load_labels(workdir: pathlib.Path, path: pathlib.Path) -> np.ndarray:
    """Opens a file below a workdir, [W] or [rows, W] uint8; UserError if it is none of ours."""
    untrusted.file(workdir, path.relative_to(workdir))
    try:
        # The header decides how much is read, and only what is asked for is.
        table = np.load(path, mmap_mode='r', allow_pickle=False)
    except FileNotFoundError:
        raise errors.UserError(f'there are no predictions {path}') from None
    except (OSError, ValueError, EOFError) as error:
        raise errors.UserError(f'{path} cannot be read: {error}') from None
    if table.dtype != np.uint8 or table.ndim not in (1, 2):
        raise errors.UserError(f'{path} has {table.dtype}{list(table.shape)}, not predictions')
    return table
