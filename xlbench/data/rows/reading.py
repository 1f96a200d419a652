"""The rows of a file, whatever its format, and their values, checked."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence

from xlbench.data import readers
from xlbench.data.readers import BadRecord, Json
from xlbench.data.rows.cells import header, lines, read_cells
from xlbench.data.rows.columns import column_names, read_columns
from xlbench.data.rows.layout import Layout, Row
from xlbench.system.errors import UserError

_UNPACKED = ('parquet', 'arrow')  # They are compressed inside.


def read(path: str, keys: Sequence[str], layout: Layout) -> Iterator[Row | BadRecord]:
    """Reads the rows of a file.

    Args:
        path: The file, .gz or not.
        keys: The values that are needed of each row; one that lacks a key is a BadRecord.
        layout: How the file is written.

    Example: a csv file of 'text,label', '"Well, no",bad', keys ('label', 'text') ->
      Row(2, {'label': 'bad', 'text': 'Well, no'})
    """
    if layout.where:
        every, asked = dataclasses.replace(layout, where={}), (*keys, *layout.where)
        for row in read(path, list(dict.fromkeys(asked)), every):
            if isinstance(row, BadRecord) or all(
                str(row.values[key]) == value for key, value in layout.where.items()
            ):
                yield row
        return
    kind = layout.format_of(path)
    if path.endswith('.gz') and kind in _UNPACKED:
        yield BadRecord(path, 0, f'{kind} is compressed inside; unpack the file', fatal=True)
        return
    readers_of: dict[str, Callable[..., Iterator[Row | BadRecord]]] = {
        'jsonl': _read_jsonl,
        'json': _read_json,
        'parquet': read_columns,
        'arrow': read_columns,
    }
    if kind in readers_of:
        yield from readers_of[kind](path, tuple(keys))
    else:
        yield from read_cells(path, tuple(keys), layout)


def count(path: str, layout: Layout) -> int:
    """Returns the number of rows, bad ones included."""
    kind = layout.format_of(path)
    if layout.where:
        return sum(1 for _ in read(path, (), layout))
    if kind == 'jsonl':
        return readers.count_lines(path)
    if kind in ('csv', 'tsv'):
        rows = sum(1 for _ in lines(path, layout)) if layout.quotes else readers.count_lines(path)
        return max(rows - (layout.columns is None), 0)
    return sum(1 for _ in read(path, (), layout))


def columns(path: str, layout: Layout) -> list[str]:
    """Returns the names of all columns of a csv, tsv, parquet or arrow file, in their order.

    Raises:
        UserError: There are none, or two of one name, or the file cannot be read.
    """
    of_kind = column_names if layout.format_of(path) in _UNPACKED else header
    found = of_kind(path, layout)
    if isinstance(found, BadRecord):
        raise UserError(str(found))
    if twice := [name for name in found if found.count(name) > 1]:
        raise UserError(f'{path}: two columns are called {twice[0]!r}')
    return found


def in_folder(path: str) -> str:
    """Finds a pattern for the files of a folder with one split; another path stays.

    Example: corpus/train with data-00000-of-00002.arrow in it -> corpus/train/*.arrow
    """
    if os.path.isdir(path):
        # No json: `save_to_disk` writes such files about the data beside it.
        for kind in ('arrow', 'parquet', 'jsonl', 'csv', 'tsv'):
            if readers.find(pattern := os.path.join(path, f'*.{kind}')):
                return pattern
    return path


def _read_jsonl(path: str, keys: tuple[str, ...]) -> Iterator[Row | BadRecord]:
    for line in readers.json_lines(path):
        if isinstance(line, BadRecord):
            yield line
            continue
        number, value = line
        try:
            yield Row(number, _of_object(value, keys))
        except ValueError as error:
            yield BadRecord(path, number, str(error))


def _read_json(path: str, keys: tuple[str, ...]) -> Iterator[Row | BadRecord]:
    try:
        rows = readers.json_document(path)
        if not isinstance(rows, list):
            raise ValueError(f'the file is {readers.kind_of(rows)}, not a list of objects')
    except ValueError as error:
        yield readers.as_bad_record(path, error)
        return
    for number, value in enumerate(rows, 1):
        try:
            yield Row(number, _of_object(value, keys))
        except ValueError as error:
            yield BadRecord(path, 0, f'object {number}: {error}')


def _of_object(value: Json, keys: tuple[str, ...]) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f'{readers.kind_of(value)}, not an object')
    readers.check_keys(value, keys)
    return {key: value[key] for key in keys}


def text(value: Json, key: str) -> str:
    """Checks a value that must be a text with something in it; ValueError says what it is."""
    return readers.text_field(value, key)


def label(value: Json, key: str) -> str:
    """Checks a value that must be the name of a label: a text, a whole number, true or false."""
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        raise ValueError(f'{key} is {value}; a label is a text or a whole number')
    return str(value) if isinstance(value, int) else text(value, key).strip()


def texts(value: Json, key: str) -> list[Json]:
    """Checks a value that must be a list with items; of csv and tsv, words between spaces."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or not value:
        raise ValueError(f'{key} is not a list with something in it')
    return value


def dialogue(value: Json, key: str, speaker: str = 'speaker', words: str = 'text') -> str:
    """Returns a dialogue as one text, a line for each turn; ValueError says what is wrong with it.

    Args:
        value: A text, which stays as it is, or a list of turns. A turn is a text, such as
            'Anna: Hi!', or an object with speaker and utterance. Line breaks inside a turn
            become spaces.
        key: The name of the value, for messages.
        speaker, words: The keys of a turn that is an object.

    Example: [{'speaker': 'Anna', 'text': 'Hi!'}, 'Ben: Hello.'] -> 'Anna: Hi!\nBen: Hello.'
    """
    if not isinstance(value, list):
        return text(value, key)
    if not value:
        raise ValueError(f'{key} has no turns')
    lines = []
    for number, turn in enumerate(value, 1):
        place = f'turn {number} of {key}'
        if isinstance(turn, dict):
            try:
                readers.check_keys(turn, (speaker, words))
            except ValueError as error:
                raise ValueError(f'{place}: {error}') from None
            parts = [text(turn[name], f'{name} of {place}') for name in (speaker, words)]
        else:
            parts = [text(turn, place)]
        lines.append(': '.join(' '.join(part.split()) for part in parts))
    return '\n'.join(lines)
