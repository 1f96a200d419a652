"""Tasks of parallel texts: a text in one language, its translation in another."""

import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence

from xlbench.data import readers, rows
from xlbench.pipeline.binding import text_features
from xlbench.pipeline.declarations import DeclaredTask
from xlbench.pipeline.preprocessors import text_preprocessors
from xlbench.pipeline.registration import add_task
from xlbench.pipeline.scoring import Metric, translation_metrics, with_own
from xlbench.pipeline.sources import RecordSource
from xlbench.pipeline.user_files import (
    Files,
    ParallelFiles,
    declares,
    file_source,
    read_rows,
)
from xlbench.system import errors

TMX = ('.tmx', '.tmx.gz')  # What the names of translation memories end in.


def add_translation_task(
    name: str,
    source: RecordSource,
    source_lang: str,
    target_lang: str,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
) -> DeclaredTask:
    """Registers a task of translation.

    Args:
      name: of the task; its first word is the name of the file it stands in.
      source: gives `inputs` and `targets`.
      source_lang, target_lang: ISO codes of them.
      metrics: metric functions besides those of `translation_metrics`.
      headline: the score that stands for the task; see `headline`.
    """
    metrics, default = with_own(metrics, translation_metrics(target_lang), 'bleu')
    steps = text_preprocessors('{inputs}', '{targets}', target_lang, (), source_lang)
    return add_task(name, source, steps, text_features(), metrics, headline, default)


@declares
def register_translation_tasks(
    name: str,
    source_lang: str,
    target_lang: str,
    *,
    files: ParallelFiles,
    fields: Mapping[str, str] | None = None,
    metrics: Sequence[Metric] | None = None,
    headline: str | None = None,
) -> list[DeclaredTask]:
    """Adds <name>_translation_<source>_<target>, and the same in the other direction.

    Args:
      name: without _; the name of the file it stands in.
      source_lang, target_lang: ISO codes.
      files: split -> two paths, of files whose lines belong together, the source language first; or
        a path of pairs: .tmx (TMX), .tsv, .csv, .jsonl and what else `register_text_task` reads.
        Each may be packed (.gz). The other arguments of `Files` are of neither TMX nor two files;
        by default quotes mean something in .csv alone: corpora of parallel texts have none.
      fields: language -> JSON key or column of its texts; by default the languages themselves.
      metrics: metric functions besides BLEU, TER and chrF, for the target language.
      headline: the score that stands for the tasks in tables and config.best; see `headline`.

    Example, tasks/subtitles.py:
      from xlbench import pipeline

      pipeline.register_translation_tasks(
          'subtitles',
          'en',
          'de',
          files={
              'train': ('subtitles/train.en.gz', 'subtitles/train.de.gz'),
              'test': 'subtitles/test.tmx',
          },
      )
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
        texts = _source(name, files, langs, keys, source)
        tasks.append(add_translation_task(task, texts, source, target, metrics, headline))
    return tasks


def _source(
    name: str, files: Files, langs: tuple[str, str], keys: Mapping[str, str], lang: str
) -> RecordSource:
    """The pairs of `register_translation_tasks` with the texts of one language as inputs."""
    sides = ('inputs', 'targets') if lang == langs[0] else ('targets', 'inputs')
    columns = [keys[lang] for lang in langs]

    def layout_of(path: str) -> rows.Layout | None:
        if path.endswith(TMX):
            return None
        if files.quotes is None:
            return dataclasses.replace(files.layout, quotes=files.layout.format_of(path) == 'csv')
        return files.layout

    def record_of(row: rows.Values) -> readers.Record:
        return {side: rows.text(row[key], key) for side, key in zip(sides, columns, strict=True)}

    def read_file(path: str) -> Iterator[readers.Item]:
        if layout := layout_of(path):
            return read_rows(columns, layout, record_of)(path)
        items = readers.read_tmx(path, *langs)
        pair = operator.itemgetter('source', 'target')
        return (
            dict(zip(sides, pair(item), strict=True)) if isinstance(item, dict) else item
            for item in items
        )

    def read_pair(split: str, paths: Sequence[str]) -> Iterator[readers.Item]:
        if len(paths) != 2:
            raise errors.UserError(
                f'{name}: split {split!r} has {len(paths)} files, {", ".join(paths)}; '
                'name two whose lines belong together'
            )
        return readers.read_parallel(*paths, *([side] for side in sides))

    return file_source(
        files,
        read_file,
        ('inputs', 'targets'),
        source_lang=lang,
        target_lang=langs[lang == langs[0]],
        layout_of=layout_of,
        read_pair=read_pair,
    )
