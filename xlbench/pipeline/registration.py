"""`register_...`: tasks for a user's own files of texts, labels, tags or translations."""

import dataclasses
import functools
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xlbench.benchmarks import Benchmark
from xlbench.data import conllu, readers, rows
from xlbench.pipeline import registry, scoring
from xlbench.pipeline.binding import Feature, Labels, label_features, text_features
from xlbench.pipeline.mixtures import add_scenarios
from xlbench.pipeline.preprocessors import (
    classification_preprocessors,
    tagging_preprocessors,
    text_preprocessors,
)
from xlbench.pipeline.registry import DeclaredTask
from xlbench.pipeline.sources import RecordSource
from xlbench.pipeline.user_files import (
    Files,
    ParallelFiles,
    Read,
    Shots,
    declares,
    file_source,
    known_labels,
    read_rows,
    with_labels,
)
from xlbench.system import errors


def add_task(
    name: str,
    source: RecordSource,
    preprocessors: Sequence[Callable[..., Any]],
    output_features: Mapping[str, Feature],
    metric_fns: Sequence[scoring.Metric],
    headline: str | None = None,
    default: str = '',
    postprocess_fn: Callable[..., Any] | None = None,
) -> DeclaredTask:
    """Adds a task to the registry; its parts are named as in SeqIO.

    Its `headline`, or else `default`, is the score that represents it; see `headline`. For
    `postprocess_fn` see xlbench/data/postprocess.py.
    """
    chosen = scoring.checked_headline(name, headline, default, metric_fns)
    task = registry.add(
        DeclaredTask(
            name, source, list(preprocessors), output_features, list(metric_fns), postprocess_fn
        )
    )
    scoring.HEADLINES[name] = chosen
    return task


def add_text_task(
    name: str,
    source: RecordSource,
    inputs: str = '{inputs}',
    targets: str = '{targets}',
    *,
    keep: Sequence[str] = (),
    metrics: Sequence[scoring.Metric] | None = None,
    **more: Any,
) -> DeclaredTask:
    """Adds a text-to-text task between the languages of its source.

    Its texts are as for `format_text`, its metrics by default `text_metrics`, and `more` is as for
    `add_task`.
    """
    lang = source.target_lang
    steps = text_preprocessors(inputs, targets, lang, keep, source.source_lang)
    metrics = scoring.text_metrics(lang or '') if metrics is None else metrics
    return add_task(name, source, steps, text_features(), metrics, **more)


def add_text_tasks(
    benchmark: Benchmark,
    read: Callable[..., Iterator[readers.Item]],
    files: Callable[..., Sequence[str]],
    splits: Sequence[str],
    fields: Sequence[str],
    *,
    hint: str = '',
    **more: Any,
) -> None:
    """Adds a text-to-text task for each name of a benchmark, and its mixtures.

    `read` and `files` are those of a `RecordSource`, but get the task, the source language and the
    target language first; `hint` is as there. `more` is as for `add_text_task`.
    """
    for name in benchmark.task_names():
        task, source, target = name.split('_')[1:]
        texts = RecordSource(
            functools.partial(read, task, source, target),
            functools.partial(files, task, source, target),
            splits,
            fields,
            source_lang=source,
            target_lang=target,
            hint=hint,
        )
        add_text_task(name, texts, **more)
    add_scenarios(benchmark)


@declares
def register_text_task(
    name: str,
    *,
    files: Files,
    fields: Mapping[str, str],
    lang: str | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    metrics: Sequence[scoring.Metric] | None = None,
    headline: str | None = None,
) -> DeclaredTask:
    """Adds a text-to-text task that reads files of any common format.

    Args:
      name: of the task; its first word (up to the first _) is the name of the task file.
      files: split -> path, see `Files`; its other arguments can be given here, too.
      fields: `inputs`, `targets` and any further text to keep -> JSON key or column. Inputs that
        are too long for a model lose their end. If they contain ' <answer> ', they lose the end of
        the text before it, so that the answer stays.
      lang: ISO code of inputs and targets.
      source_lang, target_lang: ISO codes of each, instead of `lang`. The target language is written
        before each input, and decides how metrics split texts into words.
      metrics: metric functions besides those of `text_metrics`, which need a target language.
      headline: the score that represents the task in tables and config.best; see `headline`.

    Example, tasks/news.py:
      from xlbench import pipeline

      pipeline.register_text_task(
          'news_title_de',
          files={'train': 'news/de/train.jsonl', 'validation': 'news/de/dev.jsonl'},
          fields={'inputs': 'text', 'targets': 'headline'},
          lang='de',
      )
    """
    for needed in ('inputs', 'targets'):
        if needed not in fields:
            raise errors.UserError(f'task {name}: fields has no {needed!r}; it has {list(fields)}')
    columns = list(files.columns or fields.values())
    if missing := [key for key in fields.values() if key not in columns]:
        raise errors.UserError(f'task {name}: column {missing[0]!r} is not in {columns}')

    def record_of(row: rows.Values) -> readers.Record:
        return {field: rows.text(row[key], key) for field, key in fields.items()}

    langs = source_lang or lang, target_lang or lang
    read = read_rows(list(fields.values()), files.layout, record_of)
    source = file_source(files, read, list(fields), langs)
    keep = [field for field in fields if field not in ('inputs', 'targets')]
    usual = scoring.text_metrics(langs[1]) if langs[1] else []
    scores, default = scoring.with_own(metrics, usual, 'rouge_l' if usual else '')
    return add_text_task(
        name, source, keep=keep, metrics=scores, headline=headline, default=default
    )


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
    metrics: Sequence[scoring.Metric] | None = None,
    headline: str | None = None,
    shots: Shots | None = None,
) -> DeclaredTask:
    """Adds a task that gives a text, or a pair of texts, one of several labels.

    Args:
      name, files, lang, headline: as for `register_text_task`.
      text: JSON key or column of the text; for pairs of texts both: ('premise', 'hypothesis').
      label: JSON key or column of the label, a text or a whole number.
      labels: all labels, in the order of their ids; by default those of the split 'train', sorted
        (numbers by value). They are needed if there is no such split, and for tasks in several
        languages of which one lacks a label, because a model has one list of labels.
      keep: keys or columns of further texts to keep with each example, such as an id.
      metrics: metric functions besides accuracy and macro-F1.
      shots: few-shot buckets to draw from the split 'train', for python -m xlbench.fewshot.

    Example: docs/your_own.md.
    """
    keys = [text] if isinstance(text, str) else list(text)
    if len(keys) not in (1, 2):
        raise errors.UserError(f'task {name}: text is {text!r}; it names one column, or two')
    names = ['text_a', 'text_b'][: len(keys)]

    def record_of(row: rows.Values) -> readers.Record:
        record = {name: rows.text(row[key], key) for name, key in zip(names, keys, strict=True)}
        record |= {key: rows.text(row[key], key) for key in keep}
        return record | {'label': rows.label(row[label], label)}

    return _add_labelled(
        'classification',
        functools.partial(read_rows, [*keys, label, *keep], files.layout, record_of),
        [*names, *keep, 'label'],
        lambda known, bucket: classification_preprocessors(known, names, [*keep, *bucket]),
        name=name, files=files, labels=labels, lang=lang, metrics=metrics, headline=headline,
        shots=shots,
    )  # fmt: skip


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
    metrics: Sequence[scoring.Metric] | None = None,
    headline: str | None = None,
    shots: Shots | None = None,
) -> DeclaredTask:
    """Adds a task that gives each word of a sentence a tag.

    Args:
      name, files, lang, headline: as for `register_text_task`. Further formats of files are 'conll'
        (a word on each line, with its tag in the last column), 'conllu' and 'iob2' (Universal NER);
        files of other formats have lists of words and tags. By default .txt, .tsv, .bio and .iob
        are conll.
      words, tags: JSON keys or columns of the lists.
      word_column: of conll: the column of the words, counted from 0.
      tag_column: of conll and conllu: the column of the tags; by default the last one, or UPOS.
      labels: all tags, in the order of their ids; by default those of the split 'train', sorted.
        They are needed if there is no such split, or if another split has further tags.
      metrics: metric functions besides chunk F1 and the accuracy of tags.
      shots: few-shot buckets to draw from the split 'train', for python -m xlbench.fewshot.

    Example: docs/your_own.md.
    """
    files, reading = _tagged_files(name, files, words, tags, word_column, tag_column)
    return _add_labelled(
        'tagging', reading, ('words', 'tags'), tagging_preprocessors, name=name, files=files,
        labels=labels, lang=lang, metrics=metrics, headline=headline, shots=shots,
    )  # fmt: skip


def _add_labelled(
    view: str,
    reading: Callable[[Labels | None], Read],
    fields: Sequence[str],
    steps: Callable[[Labels, Sequence[str]], Sequence[Callable[..., Any]]],
    *,
    name: str,
    files: Files,
    labels: Sequence[str] | None,
    lang: str | None,
    metrics: Sequence[scoring.Metric] | None,
    headline: str | None,
    shots: Shots | None,
) -> DeclaredTask:
    """Adds a task with labels: those of the user, or else those of its split 'train'.

    `reading` makes the reader of a file from the labels that records may have (None: any), and
    `steps` the preprocessors from the labels and the further fields to keep.
    """
    if shots and 'train' not in files.paths:
        raise errors.UserError(f"task {name} has no split 'train' to draw shots from")
    known = known_labels(name, files, labels, reading(None), view)
    also = ('train',) if labels is None else ()
    source = file_source(files, reading(known), fields, (lang, lang), also=also, shots=shots)
    metrics, default = scoring.with_own(metrics, *scoring.label_metrics(view, tuple(labels or ())))
    bucket = ['bucket'] if shots else []
    return add_task(
        name, source, steps(known, bucket), label_features(known, view), metrics, headline, default
    )


# Formats of tagged words that are not rows: their readers, and the numbers that columns may have.
_FORMATS: dict[str, tuple[Callable[..., Iterator[readers.Item]], range]] = {
    'conll': (conllu.read_conll, range(-1, 1000)),
    'conllu': (conllu.read_conllu, range(conllu.COLUMNS)),
    'iob2': (conllu.read_iob2, range(0)),
}
_TAGGED_ENDINGS = {'.conllu': 'conllu', '.iob2': 'iob2'}
_TAGGED_ENDINGS |= dict.fromkeys(('.conll', '.bio', '.iob', '.tsv', '.txt'), 'conll')


def _tagged_files(
    name: str, files: Files, words: str, tags: str, word_column: int, tag_column: int | None
) -> tuple[Files, Callable[[Labels | None], Read]]:
    """Returns the files with their format, and (tags that may occur; None: any) -> their reader."""
    places = (p.removesuffix('.gz') if isinstance(p, str) else '' for p in files.paths.values())
    kind, *others = dict.fromkeys(
        files.format or _TAGGED_ENDINGS.get(os.path.splitext(place)[1]) for place in places
    )
    if others:
        named = ', '.join(str(format or 'rows') for format in (kind, *others))
        raise errors.UserError(f'task {name}: its files have the formats {named}')
    files = dataclasses.replace(files, format=kind)
    if kind not in _FORMATS:
        if kind is not None:
            errors.check_known('format', kind, (*_FORMATS, *rows.FORMATS))
        record_of = functools.partial(_tagged_record, words=words, tags=tags)
        return files, functools.partial(read_rows, [words, tags], files.layout, record_of)
    read_format, allowed = _FORMATS[kind]
    columns = {} if tag_column is None else {'tag_column': tag_column}
    if kind == 'conll':
        columns['word_column'] = word_column
    for argument, column in columns.items():
        if not allowed:
            raise errors.UserError(f'task {name}: the columns of {kind} are what they are')
        if column not in allowed:
            raise errors.UserError(
                f'task {name}: {argument} is {column}; columns are counted from 0'
                + (f', and conllu has {conllu.COLUMNS}' if kind == 'conllu' else '')
            )
    read = functools.partial(read_format, **columns)
    return files, lambda known: with_labels(read, known) if known else read


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


# ---------------------------------------------------------------------------------------------
# Parallel texts: a text in one language, its translation in another.

_TMX = ('.tmx', '.tmx.gz')


@declares
def register_translation_tasks(
    name: str,
    source_lang: str,
    target_lang: str,
    *,
    files: ParallelFiles,
    fields: Mapping[str, str] | None = None,
    metrics: Sequence[scoring.Metric] | None = None,
    headline: str | None = None,
) -> list[DeclaredTask]:
    """Adds <name>_translation_<source>_<target>, and the same in the other direction.

    Args:
      name: without _; the name of the task file.
      source_lang, target_lang: ISO codes.
      files: split -> the paths of two files that are aligned line by line, the source language
        first; or one path to pairs: .tmx (TMX), .tsv, .csv, .jsonl or what else
        `register_text_task` reads. Each may be packed (.gz). The other arguments of `Files` apply
        to neither TMX nor aligned files. By default quotes are special only in .csv, because other
        corpora of parallel texts do not quote.
      fields: language -> JSON key or column of its texts; by default the language's code.
      metrics: metric functions besides BLEU, TER and chrF.
      headline: as for `register_text_task`.

    Example: docs/your_own.md.
    """
    if source_lang == target_lang:
        raise errors.UserError(f'{name}: both languages are {source_lang!r}; name two')
    langs = source_lang, target_lang
    keys = {lang: lang for lang in langs} if fields is None else dict(fields)
    if set(keys) != set(langs):
        raise errors.UserError(
            f'{name}: fields has {", ".join(keys)}; it names the columns of {" and ".join(langs)}'
        )
    tasks = []
    for source, target in (langs, langs[::-1]):
        task = f'{name}_translation_{source}_{target}'
        texts = _parallel_source(name, files, langs, keys, source)
        scores, default = scoring.with_own(metrics, scoring.translation_metrics(target), 'bleu')
        tasks.append(add_text_task(task, texts, metrics=scores, headline=headline, default=default))
    return tasks


def _parallel_source(
    name: str, files: Files, langs: tuple[str, str], keys: Mapping[str, str], lang: str
) -> RecordSource:
    """The pairs of `register_translation_tasks` with the texts of one language as inputs."""
    sides = ('inputs', 'targets') if lang == langs[0] else ('targets', 'inputs')
    columns = [keys[lang] for lang in langs]

    def layout_of(path: str) -> rows.Layout | None:
        if path.endswith(_TMX):
            return None
        if files.quotes is None:
            return dataclasses.replace(files.layout, quotes=files.layout.format_of(path) == 'csv')
        return files.layout

    def record_of(row: rows.Values) -> readers.Record:
        return {side: rows.text(row[key], key) for side, key in zip(sides, columns, strict=True)}

    def read_file(path: str, *others: str) -> Iterator[readers.Item]:
        if len(others) == 1:
            return readers.read_parallel(path, *others, *([side] for side in sides))
        if others:
            raise errors.UserError(
                f'{name}: a pair has {len(others) + 1} files, {", ".join((path, *others))}; '
                'name two whose lines belong together'
            )
        if layout := layout_of(path):
            return read_rows(columns, layout, record_of)(path)
        items = readers.read_tmx(path, *langs)
        pair = operator.itemgetter('source', 'target')
        return (
            dict(zip(sides, pair(item), strict=True)) if isinstance(item, dict) else item
            for item in items
        )

    to = langs[lang == langs[0]]
    return file_source(files, read_file, ('inputs', 'targets'), (lang, to), layout_of=layout_of)
