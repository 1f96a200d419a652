"""Rows of CSV and TSV."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence

from xlbench.data import readers
from xlbench.data.readers import BadRecord
from xlbench.data.rows.layout import Layout, Row
from xlbench.system import errors, untrusted

_UNQUOTED = 'if quotes mean nothing in this file, say quotes=False'


def read_cells(path: str, keys: tuple[str, ...], layout: Layout) -> Iterator[Row | BadRecord]:
    """Reads the rows of a CSV or TSV file, with the values of some columns."""
    separator, names, numbered = layout.between(path), layout.columns, lines(path, layout)
    if names is None:
        names = _header(path, layout, numbered)
        if isinstance(names, BadRecord):
            yield names
            return
    for key in keys:
        if list(names).count(key) != 1:
            there = 'more than one' if key in names else 'no'
            reason = f'{there} column {key!r}; the columns are {errors.shortened(list(names), 400)}'
            yield BadRecord(path, 1, reason + _other_separator(names), fatal=True)
            return
    places = {key: list(names).index(key) for key in keys}
    for number, line in numbered:
        if isinstance(line, BadRecord):
            yield line
            continue
        cells = _cells(line, separator, layout.quotes)
        if cells is None:
            yield BadRecord(path, number, f'a quote where none can be; {_UNQUOTED}')
        elif len(cells) != len(names):
            columns = '1 column' if len(cells) == 1 else f'{len(cells)} columns'
            reason = f'{columns} instead of {len(names)}' if line.strip() else 'the line is empty'
            yield BadRecord(path, number, reason)
        else:
            yield Row(number, {key: cells[place] for key, place in places.items()})


def header(path: str, layout: Layout) -> list[str] | BadRecord:
    """Returns the names of the columns, which the first line has if the layout does not."""
    return list(layout.columns or ()) or _header(path, layout, lines(path, layout))


def _header(
    path: str, layout: Layout, numbered: Iterator[tuple[int, str | BadRecord]]
) -> list[str] | BadRecord:
    number, head = next(numbered, (1, BadRecord(path, 1, 'the file is empty')))
    if isinstance(head, BadRecord):
        return dataclasses.replace(head, fatal=True)
    separator = layout.between(path)
    names = _cells(head, separator, layout.quotes)
    if names is None:
        # As of "text";"label", where no cell ends behind its quote.
        other = _other_separator([head]) if separator not in head else ''
        reason = f'a quote inside a cell of the header; {other[2:] or _UNQUOTED}'
        return BadRecord(path, number, reason, fatal=True)
    return names


def _other_separator(names: Sequence[str]) -> str:
    """Suggests another separator if the header is one cell with such separators in it."""
    for separator in (';', '\t', ',', '|'):
        if len(names) == 1 and separator in names[0]:
            return f'; try separator={separator!r}'
    return ''


def lines(path: str, layout: Layout) -> Iterator[tuple[int, str | BadRecord]]:
    """Yields the rows of a file as text, with the number of the first line of each.

    With quotes, a row goes on as long as the number of its quotes is odd, and a \\r may stand in a
    cell with quotes around it, which is how pandas and the csv module write one.
    """
    pending: list[str] = []
    first, is_open, size = 0, False, 0
    for number, line in enumerate(readers.lines(path, inner_cr=layout.quotes), 1):
        if isinstance(line, BadRecord):
            yield number, dataclasses.replace(line, fatal=line.fatal or is_open)
            continue
        if not is_open:
            pending, first, size = [], number, 0
        pending.append(line)
        size += len(line)
        is_open ^= layout.quotes and line.count('"') % 2 == 1
        if not is_open:
            row = '\n'.join(pending)
            is_bad = '\r' in row and '\r' in re.sub('"[^"]*"', '', row)
            yield first, BadRecord(path, first, readers.CR_INSIDE) if is_bad else row
        elif size > untrusted.LINE_BYTES.value:
            break
    if is_open:
        reason = f'a quote is opened here and never closed; {_UNQUOTED}'
        yield first, BadRecord(path, first, reason, fatal=True)


def _cells(row: str, separator: str, quotes: bool) -> list[str] | None:
    """Splits a row into cells; None if its quotes are not those of RFC 4180.

    Python's csv module would take quotes inside a cell for text, and so could not tell a file in
    which they mean nothing.
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
