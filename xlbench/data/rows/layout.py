"""One row, and how a file of rows is written."""

import dataclasses
from collections.abc import Mapping, Sequence

from xlbench.data.readers import Json
from xlbench.system import errors

FORMATS = ('jsonl', 'json', 'csv', 'tsv', 'parquet', 'arrow')
_ENDINGS = {ending: name for name in FORMATS for ending in (f'.{name}', f'.{name}.gz')}
_ENDINGS |= {'.ndjson': 'jsonl', '.ndjson.gz': 'jsonl'}


Values = Mapping[str, Json]  # Of a row, by key.


@dataclasses.dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        number: Its line, 1-based; of json, parquet and arrow, its place among the rows.
        values: Those of the keys that were asked for.
    """

    number: int
    values: Values


@dataclasses.dataclass(frozen=True)
class Layout:
    """Format of a file, where its name does not say it.

    Attributes:
        format: One of FORMATS; by default what the file's name ends in.
        columns: Of csv and tsv, the names of all columns if the first line does not have them.
        separator: Of csv and tsv, what stands between two cells; by default ',' and a TAB.
        quotes: Of csv and tsv, whether a quote at the start of a cell opens one that may hold
            separators and line breaks, and "" in it is a quote.
        where: Key -> the value of the rows that count; others are as if they were not there.
    """

    format: str | None = None
    columns: Sequence[str] | None = None
    separator: str | None = None
    quotes: bool = True
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.format is not None and self.format not in FORMATS:
            raise errors.unknown('format', self.format, FORMATS)
        if self.separator is not None and len(self.separator) != 1:
            raise errors.UserError(f'separator {self.separator!r} is not one character, as ";" is')

    def format_of(self, path: str) -> str:
        """Returns the format of a file; UserError if nothing says it."""
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
