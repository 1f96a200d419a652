"""`register_...`: tasks for files of a user's own, in one call."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlbench.data import conllu, readers, rows
from xlbench.pipeline import declarations
from xlbench.pipeline.binding import Feature, Labels, label_features, text_features
from xlbench.pipeline.declarations import DeclaredTask
from xlbench.pipeline.preprocessors import (
    classification_preprocessors,
    tagging_preprocessors,
    text_preprocessors,
)
from xlbench.pipeline.scoring import (
    HEADLINES,
    Metric,
    checked_headline,
    label_metrics,
    text_metrics,
    with_own,
)
from xlbench.pipeline.sources import RecordSource
from xlbench.pipeline.user_files import (
    Files,
    Hub,
    Read,
    Shots,
    declares,
    file_source,
    known_labels,
    read_rows,
    with_labels,
)
from xlbench.system import errors


@declares
def register_text_task(
    name: str,
    *,
    files: Files,
    fields: Mapping[str, str],
    lang: str | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
) -> DeclaredTask:
    """Adds a text-to-text task that reads files of any common format.

    Args:
      name: of the task; its first word (up to the first _) is the name of the file it stands in.
      files: split -> path, see `Files`, whose other arguments may stand here, too.
      fields: `inputs`, `targets` and any further text to keep -> JSON key or column. An input that
        is too long for a model loses its end; but where it has ' <answer> ', the end of what stands
        before that, so that what is asked for stays.
      lang: ISO code of inputs and targets.
      source_lang: of the inputs, if `lang` is not given.
      target_lang: of the targets, if `lang` is not given. It is written before each input, and
        chooses the metrics' word splitting.
      metrics: metric functions besides those of `text_metrics`, for a target language.
      headline: the score that stands for the task in tables and config.best; see `headline`.

    Example, tasks/news.py:
      from xlbench import pipeline

      pipeline.register_text_task(
          'news_title_de',
          files={'train': 'news/de/train.jsonl', 'validation': 'news/de/dev.jsonl'},
          fields={'inputs': 'text', 'targets': 'headline'},
          lang='de',
      )
    """
    layout = files.layout
    for needed in ('inputs', 'targets'):
        if needed not in fields:
            raise errors.UserError(f'task {name}: fields has no {needed!r}; it has {list(fields)}')
    columns = list(files.columns or fields.values())
    if missing := [key for key in fields.values() if key not in columns]:
        raise errors.UserError(f'task {name}: column {missing[0]!r} is not in {columns}')
    source_lang, target_lang = source_lang or lang, target_lang or lang
    usual = text_metrics(target_lang) if target_lang else []
    metrics, default = with_own(metrics, usual, 'rouge_l' if usual else '')

    def record_of(row: rows.Values) -> readers.Record:
        return {field: rows.text(row[key], key) for field, key in fields.items()}

    source = file_source(
        files,
        read_rows(list(fields.values()), layout, record_of),
        list(fields),
        source_lang=source_lang,
        target_lang=target_lang,
        layout_of=lambda _: layout,
    )
    keep = [field for field in fields if field not in ('inputs', 'targets')]
    steps = text_preprocessors('{inputs}', '{targets}', target_lang, keep, source_lang)
    return add_task(name, source, steps, text_features(), metrics, headline, default)


@declares
def register_classification_task(
    name: str,
    *,
    files: Files,
    text: str | Sequence[str] = 'text',
    label: str = 'label',
    labels: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    lang: str | None = None,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
    shots: Shots | None = None,
) -> DeclaredTask:
    """Adds a task that gives a text, or a pair of texts, one of several labels.

    Args:
      name: of the task; its first word (up to the first _) is the name of the file it stands in.
      files: as for `register_text_task`.
      text: JSON key or column of the text; of a pair, those of both: ('premise', 'hypothesis').
      label: JSON key or column of the label, a text or a whole number.
      labels: all labels, in the order of their ids. By default those of the split 'train', sorted,
        numbers by value. A task without that split needs them, and so do tasks in several languages
        if not each has examples of every label: a model has one list of labels.
      keep: further keys or columns of texts that stay beside the example, such as an id.
      lang: ISO code of the texts.
      metrics: metric functions besides accuracy and macro-F1.
      headline: the score that stands for the task in tables and config.best; see `headline`.
      shots: buckets of few shots to draw from the split 'train', for python -m xlbench.fewshot.

    Example, tasks/reviews.py, for files such as 'review,stars' and '"Well, no",1' below it:
      from xlbench import pipeline

      pipeline.register_classification_task(
          'reviews_stars_en',
          files={'train': 'reviews/train.csv', 'validation': 'reviews/dev.csv'},
          text='review',
          label='stars',
          lang='en',
      )
    """
    layout = files.layout
    keys = [text] if isinstance(text, str) else list(text)
    if len(keys) not in (1, 2):
        raise errors.UserError(f'task {name}: text is {text!r}; it names one column, or two')
    names = ['text_a', 'text_b'][: len(keys)]

    def record_of(row: rows.Values) -> readers.Record:
        record = {name: rows.text(row[key], key) for name, key in zip(names, keys, strict=True)}
        record |= {key: rows.text(row[key], key) for key in keep}
        return record | {'label': rows.label(row[label], label)}

    return _add_labelled(
        name,
        'classification',
        files,
        functools.partial(read_rows, [*keys, label, *keep], layout, record_of),
        [*names, *keep, 'label'],
        lambda known, bucket: classification_preprocessors(known, names, [*keep, *bucket]),
        layout=layout,
        labels=labels,
        lang=lang,
        metrics=metrics,
        headline=headline,
        shots=shots,
    )


@declares
def register_tagging_task(
    name: str,
    *,
    files: Files,
    words: str = 'tokens',
    tags: str = 'tags',
    word_column: int = 0,
    tag_column: int | None = None,
    labels: Sequence[str] | None = None,
    lang: str | None = None,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
    shots: Shots | None = None,
) -> DeclaredTask:
    """Adds a task that gives each word of a sentence a tag.

    Args:
      name: of the task; its first word (up to the first _) is the name of the file it stands in.
      files: as for `register_text_task`. Further formats are 'conll', a word on each line with its
        tag in the last column, 'conllu' and 'iob2' (of Universal NER); the others have lists of
        words and tags. By default .txt, .tsv, .bio and .iob are conll.
      words, tags: JSON keys or columns of the lists.
      word_column: of conll, where the words are, counted from 0.
      tag_column: of conll and conllu, where the tags are; by default the last column, and UPOS.
      labels: all tags, in the order of their ids. By default those of the split 'train', sorted; a
        task without that split needs them, and one whose other splits have further tags.
      lang: ISO code of the sentences.
      metrics: metric functions besides chunk F1 and the share of right tags.
      headline: the score that stands for the task in tables and config.best; see `headline`.
      shots: buckets of few shots to draw from the split 'train', for python -m xlbench.fewshot.

    Example, tasks/places.py, for files of lines such as 'in O' and 'Rome B-LOC':
      from xlbench import pipeline

      pipeline.register_tagging_task(
          'places_ner_en',
          files={'train': 'places/train.conll', 'test': 'places/test.conll'},
          lang='en',
      )
    """
    return _add_labelled(
        name,
        'tagging',
        files,
        tagged_files(name, files, words, tags, word_column, tag_column),
        ('words', 'tags'),
        tagging_preprocessors,
        labels=labels,
        lang=lang,
        metrics=metrics,
        headline=headline,
        shots=shots,
    )


def _add_labelled(
    name: str,
    view: str,
    files: Files,
    reading: Callable[[Labels | None], Read],
    fields: Sequence[str],
    steps: Callable[[Labels, Sequence[str]], Sequence[Callable[..., Any]]],
    *,
    layout: rows.Layout | None = None,
    labels: Sequence[str] | None,
    lang: str | None,
    metrics: Sequence[Metric] | None,
    headline: str | None,
    shots: Shots | None,
) -> DeclaredTask:
    """Adds a task of labels, given or those that its split 'train' has.

    Args:
      name, files, labels, lang, metrics, headline, shots: as the caller takes them.
      view: 'classification' or 'tagging'.
      reading: the labels that records may have, or None for any -> the reader of a file.
      fields: of a record.
      steps: labels and further fields to keep -> preprocessors.
      layout: of files of rows.
    """
    if shots and 'train' not in files:
        raise errors.UserError(f"task {name} has no split 'train' to draw shots from")
    known = known_labels(name, files, labels, reading(None), view)
    source = file_source(
        files,
        reading(known),
        fields,
        source_lang=lang,
        target_lang=lang,
        layout_of=lambda _: layout,
        also=('train',) if labels is None else (),
        shots=shots,
    )
    metrics, default = with_own(metrics, *label_metrics(view, tuple(labels or ())))
    bucket = ['bucket'] if shots else []
    return add_task(
        name, source, steps(known, bucket), label_features(known, view), metrics, headline, default
    )


def add_task(
    name: str,
    source: RecordSource,
    preprocessors: Sequence[Callable[..., Any]],
    output_features: Mapping[str, Feature],
    metric_fns: Sequence[Metric],
    headline: str | None = None,
    default: str = '',
    postprocess_fn: Callable[..., Any] | None = None,
) -> DeclaredTask:
    """Adds a task, whose parts have the names that SeqIO gives them, to the registry.

    Args:
      name: of the task.
      source: gives its records.
      preprocessors: records -> examples.
      output_features: of an example.
      metric_fns: (targets, predictions) -> scores.
      headline: the score that stands for the task; see `headline`.
      default: that score where none is named.
      postprocess_fn: text -> what the metrics compare, see xlbench/data/postprocess.py.
    """
    chosen = checked_headline(name, headline, default, metric_fns)
    task = declarations.add(
        DeclaredTask(
            name, source, list(preprocessors), output_features, list(metric_fns), postprocess_fn
        )
    )
    HEADLINES[name] = chosen
    return task


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
    """Checks how the files of a new task of tagged words are read.

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
        read = _tagged_reader(name, kind, word_column, tag_column)
        return lambda known: with_labels(read, known) if known else read
    if files.format is not None and files.format not in rows.FORMATS:
        raise errors.unknown('format', files.format, (*FORMATS, *rows.FORMATS))
    layout = dataclasses.replace(files, format=kind).layout
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
