"""Files whose lines belong together, and tables with tabs."""

import dataclasses
from collections.abc import Iterator, Sequence

from xlbench import errors
from xlbench.data.readers.records import BadRecord, Record
from xlbench.data.readers.text_lines import count_lines, lines


def fields(
    path: str,
    number: int,
    line: str,
    columns: Sequence[str],
    *,
    unused: int = 0,
    strip: bool = False,
) -> Record | BadRecord:
    """One line as TAB-separated columns; a single column may hold TABs.

    Args:
      path, number: where the line stands.
      line: the line.
      columns: names of the columns; none may be empty.
      unused: how many more columns there are behind them; they may hold anything.
      strip: whether spaces around a text are taken off.
    """
    num_columns = len(columns) + unused
    parts = [line] if num_columns == 1 else line.split('\t')
    if len(parts) != num_columns:
        names = [*columns, *['unused'] * unused]
        return BadRecord(
            path,
            number,
            f'{len(parts)} TAB-separated columns instead of {num_columns} ({", ".join(names)})',
        )
    record = {}
    for name, part in zip(columns, parts, strict=False):
        if not part.strip():
            return BadRecord(path, number, f'{name} is empty')
        record[name] = part.strip() if strip else part
    return record


def unequal_lines(*paths: str) -> BadRecord | None:
    """Describes the first line without partner of two files; None if both are equally long."""
    counts = [count_lines(path) for path in paths]
    if counts[0] == counts[1]:
        return None
    shorter, longer = (0, 1) if counts[0] < counts[1] else (1, 0)
    return BadRecord(
        paths[shorter],
        counts[shorter] + 1,
        f'has {counts[shorter]} lines but {paths[longer]} has {counts[longer]}; line n of both '
        'must be the same example',
        fatal=True,
    )


def read_parallel(
    source_path: str,
    target_path: str,
    source_columns: Sequence[str] = ('source',),
    target_columns: Sequence[str] = ('target',),
) -> Iterator[Record | BadRecord]:
    """Two files of which line n belongs together.

    Unequal numbers of lines are found before the first record is yielded: past a missing line every
    pair would be wrong, and nothing would show it.

    Args:
      source_path: one example a line.
      target_path: the same examples, in the same order.
      source_columns: names of the TAB-separated columns of a source line. With one name the line
        is one text, TABs and all.
      target_columns: likewise of a target line.

    Example: 'Rome is old.\\tRome' and 'What is old?', with source_columns ('passage', 'answer') ->
      {'passage': 'Rome is old.', 'answer': 'Rome', 'target': 'What is old?'}
    """
    if unequal := unequal_lines(source_path, target_path):
        yield unequal
        return
    # Not strict: a line that cannot be read ends its side early, after a fatal BadRecord.
    pairs = zip(lines(source_path), lines(target_path), strict=False)
    for number, (source, target) in enumerate(pairs, 1):
        record: Record = {}
        for path, line, columns in (
            (source_path, source, source_columns),
            (target_path, target, target_columns),
        ):
            part = fields(path, number, line, columns) if isinstance(line, str) else line
            if isinstance(part, BadRecord):
                yield part
                break
            record |= part
        else:
            yield record


def read_tsv(
    path: str, columns: Sequence[str], header: bool = False
) -> Iterator[Record | BadRecord]:
    """TAB-separated columns; quotes mean nothing, so a field holds neither a TAB nor a line end.

    Args:
      path: the file.
      columns: without a header, the name of each column, in order, all of them. With a header, the
        names to keep, in any order.
      header: the first line names the columns.

    Example: 'Der Zug hielt.\\tHalt', columns ('inputs', 'targets') ->
      {'inputs': 'Der Zug hielt.', 'targets': 'Halt'}
    """
    numbered: Iterator[tuple[int, str | BadRecord]] = enumerate(lines(path), 1)
    names = list(columns)
    if header:
        _, line = next(numbered, (1, ''))
        if isinstance(line, BadRecord):
            yield dataclasses.replace(line, fatal=True)
            return
        names = line.split('\t')
        for name in columns:
            if names.count(name) != 1:
                count = 'no' if name not in names else 'more than one'
                there = errors.shortened(names, 400)
                yield BadRecord(
                    path, 1, f'{count} column {name!r}; the header has {there}', fatal=True
                )
                return
    for number, line in numbered:
        if isinstance(line, BadRecord):
            yield line
            continue
        parts = line.split('\t')
        if len(parts) != len(names):
            yield BadRecord(
                path, number, f'{len(parts)} TAB-separated columns instead of {len(names)}'
            )
            continue
        record = dict(zip(names, parts, strict=True))
        empty = [name for name in columns if not record[name].strip()]
        if empty:
            yield BadRecord(path, number, f'{empty[0]} is empty')
        else:
            yield {name: record[name] for name in columns}
