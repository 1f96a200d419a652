"""Files of tagged words of a user's own."""

import dataclasses
import functools
import os
from collections.abc import Callable

from xlbench.data import conllu, readers, rows
from xlbench.pipeline.declared import check_new
from xlbench.pipeline.labels import Labels
from xlbench.pipeline.user_files import Files, Hub, Read, read_rows, with_labels
from xlbench.system import errors

# Formats of tagged words that are no rows, and what names of files say about them.
FORMATS = {'conll': conllu.read_conll, 'conllu': conllu.read_conllu, 'iob2': conllu.read_iob2}
_TAGGED_ENDINGS = {'.conllu': 'conllu', '.iob2': 'iob2'}
_TAGGED_ENDINGS |= dict.fromkeys(('.conll', '.bio', '.iob', '.tsv', '.txt'), 'conll')


def tagged_files(
    name: str,
    files: Files,
    words: str,
    tags: str,
    word_column: int,
    tag_column: int | None,
) -> Callable[[Labels | None], Read]:
    """How the files of a new task of tagged words are read.

    Args:
      name, files, words, tags, word_column, tag_column: see `register_tagging_task`.

    Returns:
      The tags that records may have, or None for any -> the reader of a file.
    """
    formats = {files.format or _tagged_format(place) for place in files.values()}
    if len(formats) > 1:
        raise errors.UserError(f'task {name}: its files have the formats {", ".join(formats)}')
    (kind,) = formats or {None}
    if kind in FORMATS:
        check_new(name, files, rows.Layout('jsonl'))  # Whose names are not looked at.
        read = _tagged_reader(name, kind, word_column, tag_column)
        return lambda known: with_labels(read, known) if known else read
    if files.format is not None and files.format not in rows.FORMATS:
        raise errors.unknown('format', files.format, (*FORMATS, *rows.FORMATS))
    layout = dataclasses.replace(files, format=kind).layout
    check_new(name, files, layout)
    record_of = functools.partial(_tagged_record, words=words, tags=tags)
    return functools.partial(read_rows, [words, tags], layout, record_of)


def _tagged_format(place: str | Hub) -> str | None:
    """The format of tagged words that the name of a file says; None if it is one of rows."""
    if isinstance(place, Hub):
        return None
    return _TAGGED_ENDINGS.get(os.path.splitext(place.removesuffix('.gz'))[1])


def _tagged_reader(name: str, kind: str, word_column: int, tag_column: int | None) -> Read:
    """The reader of a format of tagged words; UserError for columns that it does not have."""
    columns = {} if tag_column is None else {'tag_column': tag_column}
    if kind == 'conll':
        columns['word_column'] = word_column
    if kind == 'iob2' and columns:
        raise errors.UserError(f'task {name}: the columns of iob2 are what they are')
    allowed = range(-1, 1000) if kind == 'conll' else range(conllu.COLUMNS)
    for argument, column in columns.items():
        if column not in allowed:
            raise errors.UserError(
                f'task {name}: {argument} is {column}; columns are counted from 0'
                + (f', and conllu has {conllu.COLUMNS}' if kind == 'conllu' else '')
            )
    return functools.partial(FORMATS[kind], **columns)


def _tagged_record(row: rows.Values, words: str, tags: str) -> readers.Record:
    """The record of a row of two lists; spaces in words go, as in xlbench/data/conllu.py."""
    texts, labels = rows.texts(row[words], words), rows.texts(row[tags], tags)
    if len(texts) != len(labels):
        raise ValueError(f'{len(texts)} {words} and {len(labels)} {tags}')
    plain = [''.join(rows.text(text, f'a text of {words}').split()) for text in texts]
    names = [rows.label(label, f'one of {tags}') for label in labels]
    if spaced := [name for name in names if len(name.split()) > 1]:
        raise ValueError(f'{spaced[0]!r} is not a tag')
    return {'words': ' '.join(plain), 'tags': ' '.join(names)}
