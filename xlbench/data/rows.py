"""Rows of any common file: JSON, CSV, TSV, Parquet, and what the library `datasets` writes.

  jsonl     a JSON object on each line
  json      a JSON array of objects
  csv, tsv  a header and rows, quoted as by pandas, Excel and the csv module
  parquet   with the names of labels that `datasets` keeps in it
  arrow     files of `Dataset.save_to_disk`, or of the cache of `datasets`

As in xlbench/data/readers, a `BadRecord` stands for each row that cannot be used. Formats of
benchmarks, such as XNLI's TSV without quotes, have readers of their own.
"""

import contextlib
import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xlbench.data import readers
from xlbench.data.readers import BadRecord, Json
from xlbench.system import errors, untrusted

if TYPE_CHECKING:
    import pyarrow  # Loaded where a file needs it.

FORMATS = ('jsonl', 'json', 'csv', 'tsv', 'parquet', 'arrow')
_ENDINGS = {ending: name for name in FORMATS for ending in (f'.{name}', f'.{name}.gz')}
_ENDINGS |= {'.ndjson': 'jsonl', '.ndjson.gz': 'jsonl'}


Values = Mapping[str, Json]  # Of a row, by key.


class Row(NamedTuple):
    """A row: its line or, in json, parquet and arrow, its place (from 1), and its values by key."""

    number: int
    values: Values


@dataclasses.dataclass(frozen=True)
class Layout:
    """The format of a file; the columns, separator and quotes are those of csv and tsv."""

    format: str | None = None  # One of FORMATS; by default the ending of the file's name.
    columns: Sequence[str] | None = None  # Names of all, if the first line does not have them.
    separator: str | None = None  # By default ',' and a TAB.
    # Whether quotes may enclose a cell with separators and line breaks, in which "" is a quote.
    quotes: bool = True
    # Key -> value; other rows are ignored.
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.format is not None and self.format not in FORMATS:
            raise errors.unknown('format', self.format, FORMATS)
        if self.separator is not None and len(self.separator) != 1:
            raise errors.UserError(f'separator {self.separator!r} is not one character, as ";" is')

    def format_of(self, path: str) -> str:
        """Returns the format of a file; UserError for an unknown ending."""
        if self.format:
            return self.format
        for ending, name in _ENDINGS.items():
            if path.endswith(ending):
                return name
        raise errors.UserError(
            f'the name of {path} does not say its format; it may end in '
            f'{", ".join(f".{name}" for name in FORMATS)}, or give format='
        )

    def between(self, path: str) -> str:
        """Returns the separator of two cells."""
        return self.separator or {'csv': ',', 'tsv': '\t'}[self.format_of(path)]


_UNPACKED = ('parquet', 'arrow')  # They are compressed inside.


def read(path: str, keys: Sequence[str], layout: Layout) -> Iterator[Row | BadRecord]:
    """Reads the values of some keys in the rows of a file; a row without one is a BadRecord.

    Example: a csv file of 'text,label', '"Well, no",bad', keys ('label', 'text') ->
      Row(2, {'label': 'bad', 'text': 'Well, no'})
    """
    kind, where = layout.format_of(path), layout.where.items()
    if path.endswith('.gz') and kind in _UNPACKED:
        raise readers.broken_file(path, 0, f'{kind} is compressed inside; unpack the file')
    keys = list(dict.fromkeys((*keys, *layout.where)))
    if kind in ('csv', 'tsv'):
        rows = _read_cells(path, keys, layout)
    else:
        rows = _read_columns(path, keys) if kind in _UNPACKED else _read_objects(path, keys, kind)
    for row in rows:
        if isinstance(row, BadRecord) or all(str(row.values[k]) == value for k, value in where):
            yield row


def count(path: str, layout: Layout) -> int:
    """Returns the number of rows, bad ones included."""
    kind = layout.format_of(path)
    if kind == 'jsonl' and not layout.where:
        return readers.count_lines(path)
    if kind in ('csv', 'tsv') and not layout.where:
        rows = sum(1 for _ in _lines(path, layout)) if layout.quotes else readers.count_lines(path)
        return max(rows - (layout.columns is None), 0)
    return sum(1 for _ in read(path, (), layout))


def columns(path: str, layout: Layout) -> list[str]:
    """Returns the names of all columns of a csv, tsv, parquet or arrow file, in their order.

    UserError if there are none, or two of one name, or the file cannot be read.
    """
    if layout.format_of(path) in _UNPACKED:
        with _reading(path):
            first = next(_batches(path), None)
        found = [] if first is None else first.schema.names
    else:
        found = _column_names(path, layout, _lines(path, layout))
    if twice := [name for name in found if found.count(name) > 1]:
        raise errors.UserError(f'{path}: two columns are called {twice[0]!r}')
    return found


def in_folder(path: str) -> str:
    """Returns the pattern of the files in a folder of one split; another path stays.

    Example: corpus/train with data-00000-of-00002.arrow in it -> corpus/train/*.arrow
    """
    if os.path.isdir(path):
        # No json: `save_to_disk` writes such files about the data beside it.
        for kind in ('arrow', 'parquet', 'jsonl', 'csv', 'tsv'):
            if readers.find(pattern := os.path.join(path, f'*.{kind}')):
                return pattern
    return path


def _read_objects(path: str, keys: Sequence[str], kind: str) -> Iterator[Row | BadRecord]:
    def row(number: int, value: Json) -> Iterator[Row]:
        readers.check_keys(value, keys)
        yield Row(number, {key: value[key] for key in keys})

    items, what = _ITEMS[kind]
    return readers.convert(path, items(path), row, what)


# Of each format of objects, its reader, and what a place in a file is the number of, if no line.
_ITEMS = {'jsonl': (readers.json_lines, None), 'json': (readers.json_items, 'object')}
text = readers.text_field  # A value that must be a text other than spaces; else ValueError.


def label(value: Json, key: str) -> str:
    """Returns the label that a value names: a text, a whole number, true or false."""
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        raise ValueError(f'{key} is {value}; a label is a text or a whole number')
    return str(value) if isinstance(value, int) else text(value, key).strip()


def texts(value: Json, key: str) -> list[Json]:
    """Returns a value that must be a list with items; a text is split at spaces."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or not value:
        raise ValueError(f'{key} is not a list with something in it')
    return value


def dialogue(value: Json, key: str, speaker: str = 'speaker', words: str = 'text') -> str:
    """Returns a dialogue as one text, with a line for each turn; ValueError if it is not right.

    The value is a text, which stays, or a list of turns. A turn is a text, such as 'Anna: Hi!', or
    an object with the keys `speaker` and `words`. Line breaks inside a turn become spaces.

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


def dialogues(
    path: str, key: str, speaker: str = 'speaker', words: str = 'text', may_be_empty: bool = False
) -> Iterator[tuple[Mapping[str, Json], str]]:
    """Yields each object or row of a file, with its dialogue as a text; see `dialogue`.

    An object without `key` may have lists `utt` and `speaker`, as in MediaSum. A JSON array may
    have any size. UserError if an object or row cannot be read, or has no dialogue.
    """
    layout = Layout()
    kind = layout.format_of(path)
    is_table = kind not in _ITEMS
    items = read(path, columns(path, layout), layout) if is_table else _ITEMS[kind][0](path)
    for number, value in readers.good(items):
        try:
            readers.check_keys(value, ())
            said, speakers = value.get('utt'), value.get('speaker')
            if key not in value and isinstance(said, list) and isinstance(speakers, list):
                pairs = zip(speakers, said, strict=False)
                turns = (f'{who}: {turn}' for who, turn in pairs if f'{turn}'.strip())
                text = '\n'.join(' '.join(turn.split()) for turn in turns)
            else:
                readers.check_keys(value, (key,))
                empty = may_be_empty and value[key] == ''
                text = '' if empty else dialogue(value[key], key, speaker, words)
        except ValueError as error:
            raise errors.UserError(f'{path}: record {number}: {error}') from None
        yield value, text


_UNQUOTED = 'if quotes mean nothing in this file, say quotes=False'


def _read_cells(path: str, keys: Sequence[str], layout: Layout) -> Iterator[Row | BadRecord]:
    separator, numbered = layout.between(path), _lines(path, layout)
    names = _column_names(path, layout, numbered)
    for key in keys:
        if names.count(key) != 1:
            there = 'more than one' if key in names else 'no'
            reason = f'{there} column {key!r}; the columns are {errors.shortened(names, 400)}'
            raise readers.broken_file(path, 1, reason + _other_separator(names))
    places = {key: names.index(key) for key in keys}

    def row(number: int, line: str) -> Iterator[Row]:
        cells = _cells(line, separator, layout.quotes)
        if cells is None:
            raise ValueError(f'a quote where none can be; {_UNQUOTED}')
        if len(cells) != len(names):
            columns = '1 column' if len(cells) == 1 else f'{len(cells)} columns'
            raise ValueError(
                f'{columns} instead of {len(names)}' if line.strip() else 'the line is empty'
            )
        yield Row(number, {key: cells[place] for key, place in places.items()})

    yield from readers.convert(path, numbered, row)


def _column_names(
    path: str, layout: Layout, numbered: Iterator[tuple[int, str] | BadRecord]
) -> list[str]:
    """Returns the names that the layout or the header gives, which is then taken off the lines."""
    if layout.columns is not None:
        return list(layout.columns)
    first = next(numbered, BadRecord(path, 1, 'the file is empty'))
    if isinstance(first, BadRecord):
        raise errors.UserError(str(first))
    (number, head), separator = first, layout.between(path)
    names = _cells(head, separator, layout.quotes)
    if names is None:
        # "text";"label" for example, where no cell ends at its quote.
        other = _other_separator([head]) if separator not in head else ''
        reason = f'a quote inside a cell of the header; {other[2:] or _UNQUOTED}'
        raise readers.broken_file(path, number, reason)
    return names


def _other_separator(names: Sequence[str]) -> str:
    """Suggests another separator that is in a header of one cell."""
    other = next((s for s in (';', '\t', ',', '|') if len(names) == 1 and s in names[0]), '')
    return other and f'; try separator={other!r}'


def _lines(path: str, layout: Layout) -> Iterator[tuple[int, str] | BadRecord]:
    """Yields the rows of a file as text, with the number of the first line of each.

    With quotes, a row continues while the number of its quotes is odd, and a \\r may be inside a
    quoted cell, as pandas and the csv module write it.
    """
    pending: list[str] = []
    first, is_open, size = 0, False, 0
    for item in readers.numbered(path, inner_cr=layout.quotes):
        if isinstance(item, BadRecord):
            if is_open:
                raise errors.UserError(str(item))
            yield item
            continue
        number, line = item
        if not is_open:
            pending, first, size = [], number, 0
        pending.append(line)
        size += len(line)
        is_open ^= layout.quotes and line.count('"') % 2 == 1
        if not is_open:
            row = '\n'.join(pending)
            is_bad = '\r' in row and '\r' in re.sub('"[^"]*"', '', row)
            yield BadRecord(path, first, readers.CR_INSIDE) if is_bad else (first, row)
        elif size > untrusted.LINE_BYTES.value:
            break
    if is_open:
        reason = f'a quote is opened here and never closed; {_UNQUOTED}'
        raise readers.broken_file(path, first, reason)


def _cells(row: str, separator: str, quotes: bool) -> list[str] | None:
    """Splits a row into cells; None if its quotes are not those of RFC 4180.

    Python's csv module accepts quotes inside a cell as text, and would hide such a file.
    """
    if not quotes:
        return row.split(separator)
    cells, place, pattern = [], 0, _cell(separator)
    while match := pattern.match(row, place):
        quoted, plain, after = match.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not after:
            return cells
        place = match.end()
    return None


@functools.cache
def _cell(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    return re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|([^"\n{mark}]*))({mark}|\Z)')


_BATCH = 1024


def _read_columns(path: str, keys: Sequence[str]) -> Iterator[Row]:
    number = 0
    with _reading(path):
        expansion, size = untrusted.Expansion('the file'), os.path.getsize(path)
        for batch in _batches(path):
            expansion.add(batch.nbytes, size)
            if batch.nbytes > (most := untrusted.LINE_BYTES.value):
                _check_cells(batch, keys, most)
            batch.validate(full=True)  # Offsets may lead out of what was read.
            names = _label_names(batch.schema)
            missing = [key for key in keys if key not in batch.schema.names]
            if missing:
                there = errors.shortened(batch.schema.names, 400)
                reason = f'no column {missing[0]!r}; the columns are {there}'
                raise readers.broken_file(path, 0, reason)
            columns = [_named(batch[key].to_pylist(), names.get(key)) for key in keys]
            for i in range(batch.num_rows):
                number += 1
                yield Row(number, {k: column[i] for k, column in zip(keys, columns, strict=True)})


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turns a fault of the file in this block into a UserError."""
    import pyarrow

    try:
        # A pipe, a folder or a missing file is another error than bad content.
        with readers.open_binary(path):
            pass
        yield
    except untrusted.Exceeded as error:
        raise readers.broken_file(path, 0, f'{error}') from None
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = f'cannot be read: {" ".join(f"{error}".split())[:200]}'
        raise readers.broken_file(path, 0, reason) from None


def column_types(path: str, layout: Layout) -> 'dict[str, pyarrow.DataType]':
    """Returns the types of the columns of a table; CSV, TSV and named labels have strings."""
    import pyarrow
    from pyarrow import parquet

    if layout.format_of(path) != 'parquet':
        return dict.fromkeys(columns(path, layout), pyarrow.string())
    schema = parquet.read_schema(path)
    kinds = dict(zip(schema.names, schema.types, strict=True))
    for name in _label_names(schema):
        is_list = pyarrow.types.is_list(kinds[name])
        kinds[name] = pyarrow.list_(pyarrow.string()) if is_list else pyarrow.string()
    return kinds


def _check_cells(batch: 'pyarrow.RecordBatch', keys: Sequence[str], most: int) -> None:
    """Raises Exceeded for a cell with a text of more than `most` bytes."""
    import pyarrow
    from pyarrow import compute

    for key in keys:
        kind = batch[key].type if key in batch.schema.names else None
        if kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.binary()):
            longest = compute.max(compute.binary_length(batch[key])).as_py() or 0
            if longest > most:
                raise untrusted.LINE_BYTES.exceeded(
                    f'a cell of column {key!r} has {longest:,} bytes'
                )


def _batches(path: str) -> Iterator['pyarrow.RecordBatch']:
    """Yields the record batches of a Parquet file, or of an Arrow stream or file."""
    import pyarrow
    from pyarrow import ipc, parquet

    with open(path, 'rb') as file:
        start = file.read(6)
    if start[:4] == b'PAR1':
        with parquet.ParquetFile(path) as source:
            about = source.metadata
            sizes = (about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            untrusted.Expansion('the file').add(sum(sizes), os.path.getsize(path))
            yield from source.iter_batches(_BATCH)
        return
    with pyarrow.memory_map(path) as file:
        if start == b'ARROW1':
            source = ipc.open_file(file)
            yield from map(source.get_batch, range(source.num_record_batches))
        else:
            yield from ipc.open_stream(file)


def _label_names(schema: 'pyarrow.Schema') -> dict[str, list[str]]:
    """Returns the names of each column's numbers, where `datasets` wrote them."""
    try:
        about = readers.parse_json((schema.metadata or {}).get(b'huggingface', b'{}').decode())
        features = about['info']['features']
        # One label for each row, or a list of them.
        kinds = {key: f.get('feature', f) for key, f in features.items() if isinstance(f, dict)}
        return {
            key: [str(name) for name in kind['names']]
            for key, kind in kinds.items()
            if kind.get('_type') == 'ClassLabel' and kind.get('names')
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _named(values: list[Json], names: Sequence[str] | None) -> list[Json]:
    """Replaces numbers by names; a number without a name, such as -1, stays."""
    if names is None:
        return values

    def name(value: Json) -> Json:
        if isinstance(value, list):
            return [name(one) for one in value]
        known = isinstance(value, int) and 0 <= value < len(names)
        return names[value] if known else value

    return [name(value) for value in values]
