"""Writes the predictions of a table as Parquet, with all columns of the table that was read."""

from collections.abc import Sequence
from typing import IO, Self

from xlbench.data import rows
from xlbench.inference.answer_lines import Answers, Record, answer_cells
from xlbench.inference.answering import Classified, Tagged
from xlbench.system.files import Json

_ROWS = 8192  # Of a row group; fewer would make files larger and slower to read.


class ParquetAnswers:
    """Rows with their predictions, written to a file as row groups.

    Columns of Parquet keep their types, but the numbers of named labels become their names. Those
    of CSV and TSV are strings. The tags of a text are a list. A missing prediction, as of an empty
    message, is null.

    Args:
      file: binary, to write to.
      path: the table that is read.
      format: of it: csv, tsv or parquet.
      added: the columns of the predictions.
      count: predictions to each row.
      is_tagger: whether predictions are tags, with a score for each.
    """

    def __init__(
        self,
        file: IO[bytes],
        path: str,
        format: str,
        added: Sequence[str],
        *,
        count: int,
        is_tagger: bool,
    ):
        import pyarrow
        from pyarrow import parquet

        kinds = rows.column_types(path, rows.Layout(format))
        for name in added:
            is_text = name.startswith('prediction')
            kind = pyarrow.string() if is_text else pyarrow.float64()
            kinds[name] = pyarrow.list_(kind) if is_tagger else kind
        self._schema, self._added, self._count = pyarrow.schema(kinds.items()), added, count
        self._writer = parquet.ParquetWriter(file, self._schema)
        self._rows: list[dict[str, Json]] = []

    def add(self, record: Record, answers: Answers | Classified | Tagged) -> None:
        """Adds a row with its predictions."""
        if isinstance(answers, Tagged):
            found = {'prediction': list(answers.tags), 'score': list(answers.probabilities)}
        else:
            found = answer_cells(answers, self._count)
        self._rows.append(record | {name: found.get(name) for name in self._added})
        if len(self._rows) == _ROWS:
            self._write()

    def _write(self) -> None:
        import pyarrow

        self._writer.write_table(pyarrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
        self._writer.close()
