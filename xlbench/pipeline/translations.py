"""Tasks of parallel texts: a text in one language, its translation in another."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

from xlbench.data import readers, rows
from xlbench.pipeline.binding import text_features
from xlbench.pipeline.declarations import DeclaredTask
from xlbench.pipeline.preprocessors import text_preprocessors
from xlbench.pipeline.registration import add_task
from xlbench.pipeline.scoring import Metric, translation_metrics, with_own
from xlbench.pipeline.sources import RecordSource, below_root
from xlbench.pipeline.user_files import Hub, ParallelFiles, check_new, declares, is_pair, read_rows
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
    if '_' in name:
        raise errors.UserError(f'{name!r} has a _, where the name of a benchmark ends; take it out')
    if source_lang == target_lang:
        raise errors.UserError(f'{name}: both languages are {source_lang!r}; name two')
    langs = source_lang, target_lang
    keys = {lang: lang for lang in langs} if fields is None else dict(fields)
    if set(keys) != set(langs):
        raise errors.UserError(
            f'{name}: fields has {", ".join(keys)}; it names the columns of {" and ".join(langs)}'
        )
    texts = _Texts(name, files, langs, keys)
    tasks = []
    for source, target in (langs, langs[::-1]):
        task = f'{name}_translation_{source}_{target}'
        tables = {s: p for s, p in files.items() if not is_pair(p) and not _is_tmx(p)}
        check_new(task, tables, files.layout)
        tasks.append(
            add_translation_task(task, texts.source(source), source, target, metrics, headline)
        )
    return tasks


def _is_tmx(place: str | Hub) -> bool:
    return isinstance(place, str) and place.endswith(TMX)


@dataclasses.dataclass(frozen=True)
class _Texts:
    """Files of parallel texts; see `register_translation_tasks`."""

    name: str
    files: ParallelFiles
    langs: tuple[str, str]
    keys: Mapping[str, str]

    def source(self, lang: str) -> RecordSource:
        """The pairs with the texts of one language as inputs."""
        sides = ('inputs', 'targets') if lang == self.langs[0] else ('targets', 'inputs')
        other = self.langs[lang == self.langs[0]]
        return RecordSource(
            functools.partial(self._records, sides),
            self._patterns,
            tuple(self.files),
            ('inputs', 'targets'),
            source_lang=lang,
            target_lang=other,
            count=self._count,
        )

    def _patterns(self, split: str) -> list[str]:
        place = self.files[split]
        if isinstance(place, Hub):
            return place.paths()
        return list(place) if is_pair(place) else [rows.in_folder(below_root(place))]

    def _records(self, sides: tuple[str, str], split: str, *paths: str) -> Iterator[readers.Item]:
        if is_pair(self.files[split]):
            if len(paths) != 2:
                raise errors.UserError(
                    f'{self.name}: split {split!r} has {len(paths)} files, {", ".join(paths)}; '
                    'name two whose lines belong together'
                )
            yield from readers.read_parallel(*paths, *([side] for side in sides))
            return
        for path in paths:
            yield from self._tmx(sides, path) if path.endswith(TMX) else self._rows(sides, path)

    def _tmx(self, sides: tuple[str, str], path: str) -> Iterator[readers.Item]:
        for item in readers.read_tmx(path, *self.langs):
            if isinstance(item, dict):
                yield dict(zip(sides, (item['source'], item['target']), strict=True))
            else:
                yield item

    def _rows(self, sides: tuple[str, str], path: str) -> Iterator[readers.Item]:
        keys = [self.keys[lang] for lang in self.langs]

        def record_of(row: rows.Values) -> readers.Record:
            return {side: rows.text(row[k], k) for side, k in zip(sides, keys, strict=True)}

        return read_rows(keys, self._layout_of(path), record_of)(path)

    def _layout_of(self, path: str) -> rows.Layout:
        layout = self.files.layout
        if self.files.quotes is None:
            return dataclasses.replace(layout, quotes=layout.format_of(path) == 'csv')
        return layout

    def _count(self, split: str, *paths: str) -> int:
        if is_pair(self.files[split]):
            return readers.count_lines(paths[0])
        return sum(
            sum(isinstance(item, dict) for item in readers.read_tmx(path, *self.langs))
            if path.endswith(TMX)
            else rows.count(path, self._layout_of(path))
            for path in paths
        )
