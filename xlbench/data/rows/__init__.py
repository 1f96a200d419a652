"""Rows of any common file: JSON, CSV, TSV, Parquet, and what the library `datasets` writes.

  jsonl     a JSON object on each line
  json      a JSON array of objects
  csv, tsv  a header and rows, quoted as pandas, Excel and the csv module quote
  parquet   also with the names of labels that `datasets` keeps in it
  arrow     the files in a folder of `Dataset.save_to_disk`, and those of its cache

They follow xlbench/data/readers: a generator of rows, with a `BadRecord` in place of each that
cannot be used. The formats of benchmarks are elsewhere, because their official code reads
them in its own way: a quote means nothing in the TSV of XNLI.
"""

from xlbench.data.rows.columns import column_types
from xlbench.data.rows.layout import FORMATS, Layout, Row, Values
from xlbench.data.rows.reading import columns, count, dialogue, in_folder, label, read, text, texts

__all__ = [
    'FORMATS',
    'Layout',
    'Row',
    'Values',
    'column_types',
    'columns',
    'count',
    'dialogue',
    'in_folder',
    'label',
    'read',
    'text',
    'texts',
]
