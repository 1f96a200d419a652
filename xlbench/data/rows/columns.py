"""Rows of Parquet and Arrow."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from xlbench.data import readers
from xlbench.data.readers import BadRecord, Json
from xlbench.data.rows.cells import header
from xlbench.data.rows.layout import Layout, Row
from xlbench.system import errors, untrusted

if TYPE_CHECKING:
    import pyarrow  # Loaded where a file needs it.

_BATCH = 1024
_BROKEN = (OSError, ValueError, OverflowError)


def read_columns(path: str, keys: tuple[str, ...]) -> Iterator[Row | BadRecord]:
    """Reads the rows of a Parquet or Arrow file, with the values of some columns."""
    import pyarrow

    try:
        # A pipe, a folder or nothing at all is another error than what is in a file.
        with readers.open_binary(path):
            pass
        number, size = 0, os.path.getsize(path)
        expansion = untrusted.Expansion('the file')
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
                yield BadRecord(path, 0, reason, fatal=True)
                return
            columns = [_named(batch[key].to_pylist(), names.get(key)) for key in keys]
            for i in range(batch.num_rows):
                number += 1
                yield Row(number, {k: column[i] for k, column in zip(keys, columns, strict=True)})
    except (untrusted.Exceeded, pyarrow.ArrowException, *_BROKEN) as error:
        yield _unreadable(path, error)


def column_names(path: str, layout: Layout) -> list[str] | BadRecord:
    """Returns the names of the columns; none if there are no rows."""
    import pyarrow

    del layout
    try:
        with readers.open_binary(path):
            pass
        batch = next(_batches(path), None)
        return [] if batch is None else batch.schema.names
    except (untrusted.Exceeded, pyarrow.ArrowException, *_BROKEN) as error:
        return _unreadable(path, error)


def column_types(path: str, layout: Layout) -> 'dict[str, pyarrow.DataType]':
    """Returns the types of the columns of a table, as its rows are read.

    Those of Parquet are the file's, but named labels are strings; those of CSV and TSV are strings.
    """
    import pyarrow
    from pyarrow import parquet

    if layout.format_of(path) != 'parquet':
        return dict.fromkeys(header(path, layout), pyarrow.string())
    schema = parquet.read_schema(path)
    kinds = dict(zip(schema.names, schema.types, strict=True))
    for name in _label_names(schema):
        is_list = pyarrow.types.is_list(kinds[name])
        kinds[name] = pyarrow.list_(pyarrow.string()) if is_list else pyarrow.string()
    return kinds


def _unreadable(path: str, error: Exception) -> BadRecord:
    reason = f'{error}'
    if not isinstance(error, untrusted.Exceeded):
        reason = f'cannot be read: {" ".join(reason.split())[:200]}'
    return BadRecord(path, 0, reason, fatal=True)


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
    """Returns values with names in place of numbers; a number that has none stays, such as -1."""
    if names is None:
        return values

    def name(value: Json) -> Json:
        if isinstance(value, list):
            return [name(one) for one in value]
        known = isinstance(value, int) and 0 <= value < len(names)
        return names[value] if known else value

    return [name(value) for value in values]
