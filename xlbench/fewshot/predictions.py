"""Files of predicted labels in the workdir of a sweep; results.py says where each is.

A label is its number in a byte, and SEPARATOR stands between sentences and for what is not there
yet.
"""

import io
import json
import pathlib
import re

import msgspec
import numpy as np

from xlbench.system import errors, files, untrusted

SEPARATOR = 255
_SAFE_NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.+]*')


class TestSet(msgspec.Struct):
    """The labels and the size of a test set.

    Attributes:
        labels: The name of each label.
        num_examples: How many there are; 0 if it is not known.
    """

    labels: list[str] = []
    num_examples: int = 0


def read_test_set(workdir: str | pathlib.Path, task: str, language: str) -> TestSet | None:
    """Reads the note on the test set of a task in one language; None if there is none."""
    path = path_of(workdir, task, language, suffix='.json')
    name = path.relative_to(workdir)
    return files.read_json(path, TestSet) if untrusted.file(workdir, name) else None


def write_test_set(workdir: str | pathlib.Path, task: str, language: str, what: TestSet) -> None:
    """Notes what `read_test_set` reads."""
    text = json.dumps(msgspec.structs.asdict(what), ensure_ascii=False, indent=1)
    files.write(path_of(workdir, task, language, suffix='.json'), text + '\n')


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


def as_bytes(numbers: np.ndarray) -> np.ndarray:
    """Converts numbers of labels, below 0 between sentences, to uint8."""
    numbers = np.asarray(numbers)
    if numbers.max(initial=0) >= SEPARATOR:
        raise ValueError(f'label {numbers.max()} does not fit; at most {SEPARATOR} are stored')
    return np.where(numbers < 0, SEPARATOR, numbers).astype(np.uint8)


def save(path: pathlib.Path, table: np.ndarray) -> None:
    """Writes an array whole or not at all."""
    out = io.BytesIO()
    np.save(out, table, allow_pickle=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, out.getvalue())


def save_row(path: pathlib.Path, number: int, num_rows: int, row: np.ndarray) -> None:
    """Writes one row of an array that may be there already, and then has `num_rows` or more."""
    num_rows = max(number + 1, num_rows)
    there = np.load(path, mmap_mode='r', allow_pickle=False) if path.is_file() else None
    if there is None or len(there) < num_rows:
        table = np.full((num_rows, len(row)), SEPARATOR, np.uint8)
        if there is not None:
            table[: len(there)] = there
        save(path, table)
    table = np.load(path, mmap_mode='r+', allow_pickle=False)
    table[number] = row
    table.flush()


def load(workdir: pathlib.Path, path: pathlib.Path) -> np.ndarray:
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
