"""The steps of a build, each of which goes on where it was interrupted.

  WORK/scan/FILE/BLOCK    comments of a block of a dump, by thread
  WORK/pair/PARTITION     pairs of the threads of a partition, by reply
  WORK/split/PARTITION    what of the final files belongs to the replies of a partition
  OUTPUT/mrs              the final files, which appear together

A step is a set of jobs, and a job is done when its file is there: it appears when it is whole, and
holds the same whoever wrote it.
"""

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from xlbench import locks
from xlbench.data import work_folders
from xlbench.data.work_folders import Setting, Settings
from xlbench.errors import UserError
from xlbench.pool import Pool
from xlbench.progress import Progress
from xlbench.tasks.mrs_build import (
    options as options_lib,
    pairs,
    plugins,
    scan,
    splits,
    stats as stats_lib,
)
from xlbench.tasks.mrs_build.options import Options
from xlbench.tasks.mrs_build.publish import Publisher
from xlbench.tasks.mrs_build.stats import Stats


def build(options: Options, redo: bool) -> Stats:
    """Does what is left to do.

    Args:
      options: what is to be built.
      redo: work of other options is thrown away, from the first step that they change.

    Returns:
      The statistics, as in OUTPUT/mrs/stats.json.

    Raises:
      UserError: an input is wrong, or a folder holds the work of other options.
    """
    settings = options_lib.settings(options)
    final = os.path.join(options.output, 'mrs')
    if os.path.exists(final):
        return _finished(final, settings)
    with locks.folder(options.work), Pool(options.workers) as pool:
        _begin(options.work, settings, redo)
        # What is wrong with the user's own files is said before hours of work.
        plugins.identifier(options.language_model)
        options = _with_indexed_scores(options, settings['split'])
        publisher = Publisher(options)
        scanned = scan.scan(options, pool)
        paired = _pair(options, [path for file in scanned for path in file.shards()], pool)
        split = _split(options, paired, pool)
        stats = stats_lib.count(options, settings, scanned, paired, split)
        publisher.publish(final, split, stats)
    return stats


# ---------------------------------------------------------------------------------------------
# Folders.


def _finished(final: str, settings: Settings) -> Stats:
    try:
        with open(os.path.join(final, 'stats.json'), encoding='utf-8') as file:
            stats = json.load(file)
        if stats['settings'] == settings:
            return stats
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise UserError(
        f'{final} exists already and was not built by this command; name another --output, or '
        'move it away'
    )


def _begin(work: str, settings: Settings, redo: bool) -> None:
    """Checks that the work folder is of these settings, or makes it so."""
    steps = list(options_lib.STEPS)
    work_folders.begin(work, settings, redo, lambda step: steps[steps.index(step) :])
    for step in steps:
        if step != 'publish':
            os.makedirs(os.path.join(work, step), exist_ok=True)


def _with_indexed_scores(options: Options, names: Mapping[str, Setting]) -> Options:
    """The options with files of scores replaced by folders that processes share."""
    folders = {}
    for name in ('toxicity', 'strict_toxicity'):
        spec = getattr(options, name)
        if plugins.is_function(spec):
            plugins.scorer(spec)
        elif spec:
            folders[name] = os.path.join(options.work, f'scores {names[name]}')
            if not os.path.exists(folders[name]):
                with locks.appearing(folders[name]) as new:
                    plugins.index_scores(spec, str(new))
    return dataclasses.replace(options, **folders)


# ---------------------------------------------------------------------------------------------
# Steps.


def _pair(options: Options, sources: Sequence[str], pool: Pool) -> list[str]:
    """Shards of comments -> shards of pairs."""
    return _partitions(options, 'pair', functools.partial(_join, options, sources), pool)


def _join(options: Options, sources: Sequence[str], partition: int, path: str) -> None:
    pairs.join(
        sources,
        partition,
        options.num_partitions,
        path,
        languages=options.languages,
        identify=plugins.identifier(options.language_model),
        min_confidence=options.min_confidence,
        english_years=options.english_years,
    )


def _split(options: Options, sources: Sequence[str], pool: Pool) -> list[str]:
    """Shards of pairs -> shards of lines of the final files."""
    return _partitions(options, 'split', functools.partial(_sort, options, sources), pool)


def _sort(options: Options, sources: Sequence[str], partition: int, path: str) -> None:
    splits.split(
        sources,
        partition,
        path,
        languages=options.languages,
        toxicity=options.toxicity_filter,
    )


def _partitions(
    options: Options, step: str, work: Callable[[int, str], None], pool: Pool
) -> list[str]:
    """The shards of a step, one of each partition; those that are not there are made."""
    count = options.num_partitions
    paths = [os.path.join(options.work, step, f'{number:06d}') for number in range(count)]
    jobs = [(n, path) for n, path in enumerate(paths) if not os.path.exists(path)]
    with Progress(step, count, 'partitions') as progress:
        progress.skip(count - len(jobs))
        for _ in pool.run(work, jobs):
            progress.add()
    print(f'{step}: {count:,} partitions', file=sys.stderr, flush=True)
    return paths
