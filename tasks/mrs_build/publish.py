"""The last step of a build: shards of lines -> the final files, which appear together."""

import collections
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from xlbench import locks
from xlbench.progress import Progress
from xlbench.tasks.mrs_build import dumps, plugins, responses, shards, splits
from xlbench.tasks.mrs_build.options import Options
from xlbench.tasks.mrs_build.stats import Stats


class Publisher:
    """Writes the final files; begins with reading the user's own.

    Args:
      options: of the build.

    Raises:
      UserError: a file of translations or of what is shown for responses is wrong.
    """

    def __init__(self, options: Options):
        self._options = options
        self._translated = {lang: _translated(p) for lang, p in options.translations.items()}
        self._mapping = {lang: _mapping(path) for lang, path in options.mapping.items()}

    def publish(self, final: str, split: Sequence[str], stats: Stats) -> None:
        """Writes the final files, which appear together.

        Args:
          final: their folder.
          split: shards of their lines.
          stats: of all steps before; get those of the response sets.
        """
        names = splits.keys(self._options.languages)
        progress = Progress('publish', len(names), 'files')
        with locks.appearing(final) as part, progress:
            for number, name in enumerate(names):
                contents = (shards.data(path, number) for path in split)
                kind, lang = name.split('/')
                if kind == 'replies':
                    self._write_responses(str(part), lang, contents, stats)
                else:
                    _write(os.path.join(part, kind, lang, 'pairs.tsv'), contents)
                progress.add()
            text = json.dumps(stats, ensure_ascii=False, indent=1)
            _write(os.path.join(part, 'stats.json'), [f'{text}\n'.encode()])
        print(f'publish: {final}', file=sys.stderr, flush=True)

    def _write_responses(
        self, folder: str, lang: str, contents: Iterable[bytes], stats: Stats
    ) -> None:
        chosen = self._responses(contents, lang, stats)
        lines = (f'{response}\n'.encode() for response in chosen)
        _write(os.path.join(folder, 'rsp_set', lang, 'response_lm_cluster.txt'), lines)
        shown = self._mapping.get(lang, {})
        lines = (f'{r.text}\t{shown.get(r.text, r.text)}\n'.encode() for r in chosen)
        _write(os.path.join(folder, 'rsp_map', lang, 'response.mapping.txt'), lines)

    def _responses(
        self, contents: Iterable[bytes], lang: str, stats: Stats
    ) -> list[responses.Response]:
        """The response set of a language, from the lines that splits.split wrote."""
        options, translated = self._options, self._translated.get(lang, ())
        column = 0 if options.response_pairs == 'train' else 1
        counted = (
            (int(line[column]), line[2])
            for data in contents
            for line in (row.split('\t') for row in data.decode().split('\n')[:-1])
        )
        judged: collections.Counter[str] = collections.Counter()
        of_lang = stats['languages'][lang]
        places = splits.SPLITS[:1] if options.response_pairs == 'train' else splits.SPLITS
        chosen = responses.choose(
            counted,
            translated,
            sum(of_lang[place] for place in places),
            min_count=options.min_count,
            max_responses=options.max_responses,
            allowed=lambda texts: options.toxicity_filter.allowed(
                texts, texts, lang, [lang == 'en'] * len(texts), judged
            ),
        )
        of_lang['responses'] = len(chosen)
        of_lang['translated responses'] = len({r.text for r in chosen}.intersection(translated))
        of_lang['toxic responses'] = judged['toxic']
        of_lang['responses without a toxicity score'] = judged['unscored']
        return chosen


def _translated(path: str) -> list[str]:
    """The second column: English TAB translation."""
    texts = [dumps.clean(translation) for _, (_, translation) in plugins.columns(path)]
    return [text for text in dict.fromkeys(texts) if text]


def _mapping(path: str) -> Mapping[str, str]:
    """Response TAB what is shown for it."""
    rows = (map(dumps.clean, row) for _, row in plugins.columns(path))
    return {text: shown for text, shown in rows if shown}


def _write(path: str, contents: Iterable[bytes]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.writelines(contents)
        file.flush()
        os.fsync(file.fileno())
