"""The steps of a build, each of which goes on where it was interrupted.

  WORK/scan/FILE/BLOCK    comments of a block of a dump, by thread
  WORK/pair/PARTITION     pairs of the threads of a partition, by reply
  WORK/split/PARTITION    what of the final files belongs to the replies of a partition
  WORK/translated_LANG    English pairs and responses in another language, in blocks
  OUTPUT/mrs              the final files, which appear together

A step is a set of jobs, and a job is done when its file is there: it appears when it is whole, and
holds the same whoever wrote it.
"""

import functools
import json
import os
from collections.abc import Callable, Sequence

from xlbench import jobs
from xlbench.jobs import Engine, shards
from xlbench.system import locks
from xlbench.system.errors import UserError
from xlbench.tasks.building import builds
from xlbench.tasks.building.builds import TRANSLATED, Settings
from xlbench.tasks.mrs_build import (
    dumps,
    options as options_lib,
    pairs,
    plugins,
    publish,
    translating,
)
from xlbench.tasks.mrs_build.options import Options
from xlbench.tasks.mrs_build.publish import Stats

_READERS = {
    'scan': ('pair', 'split', f'{TRANSLATED}*'),
    'pair': ('split', f'{TRANSLATED}*'),
    'split': (f'{TRANSLATED}*',),
    # It says which English responses are translated.
    'publish': (f'{TRANSLATED}*/{translating.RESPONSES}',),
}


def build(options: Options, engine: Engine) -> Stats:
    """Does what is left to do.

    Args:
      options: what is to be built; they get the largest languages. With `redo`, work of other
        options is thrown away, from the first step that they change.
      engine: runs the jobs.

    Returns:
      The statistics, as in OUTPUT/mrs/stats.json.

    Raises:
      UserError: an input is wrong, or a folder holds the work of other options.
    """
    settings = options_lib.settings(options)
    final = os.path.join(options.output, 'mrs')
    if os.path.exists(final):
        return _finished(final, options, settings)
    with locks.folder(options.work), engine:
        # What is wrong with an engine or the user's own files is said before hours of work.
        if options.languages:
            translating.check(options)
            settings |= options_lib.translated_settings(options)
        builds.begin(options.work, settings, options.redo, _READERS)
        plugins.identifier(options.language_model)
        for spec in filter(None, (options.toxicity, options.strict_toxicity)):
            plugins.scorer(spec, options.toxic_label)
        scanned = dumps.scan(options, engine)
        comments = [path for file in scanned for path in file.shards()]
        paired = _partitions('pair', pairs.join, options, comments, engine)
        if not options.languages:
            options.languages = _largest(options, paired)
            translating.check(options)
            settings |= options_lib.translated_settings(options)
            builds.begin(options.work, settings, options.redo, _READERS)
        split = _partitions('split', pairs.split, options, paired, engine)
        stats = publish.count(options, settings, scanned, paired, split)
        responses = publish.english_responses(options, split, stats)
        translated = translating.translate(options, split, responses, engine)
        publish.publish(options, final, split, translated, stats)
    return stats


def _largest(options: Options, paired: Sequence[str]) -> tuple[str, ...]:
    """The languages with most pairs, the largest first (arXiv:2106.02017, section 2)."""
    counts = shards.reasons(shards.total(paired), 'pairs')
    largest = [lang for lang, count in counts.most_common() if count >= options.min_pairs]
    if not largest:
        most = ', '.join(f'{count:,} in {lang}' for lang, count in counts.most_common(3))
        raise UserError(
            f'no language has --min_pairs={options.min_pairs:,} pairs; there are '
            f'{most or "none"}. Lower it, or name --languages'
        )
    return tuple(largest[: options.num_languages])


def _finished(final: str, options: Options, settings: Settings) -> Stats:
    try:
        with open(os.path.join(final, 'stats.json'), encoding='utf-8') as file:
            stats = json.load(file)
        if not options.languages:
            options.languages = tuple(stats['languages'])
        if stats['settings'] == settings | options_lib.translated_settings(options):
            return stats
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UserError(
        f'{final} exists already and was not built by this command; name another --output, or '
        'move it away'
    )


def _partitions(
    step: str,
    work: Callable[[Options, Sequence[str], int, str], None],
    options: Options,
    sources: Sequence[str],
    engine: Engine,
) -> list[str]:
    """Makes those shards of a step, one of each partition, that are not there; returns them all.

    Args:
      step: its name.
      work: makes a shard: (options, sources, partition, path).
      options: of the build.
      sources: shards of the step before.
      engine: runs the jobs.
    """
    numbers = range(options.num_partitions)
    made = {os.path.join(options.work, step, f'{number:06d}'): (number,) for number in numbers}
    jobs.make(engine, step, functools.partial(work, options, sources), made, 'partitions')
    return list(made)
