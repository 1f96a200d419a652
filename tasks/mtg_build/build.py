"""The steps of a build of one task, each of which goes on where it was interrupted.

  WORK/read              originals, and the sample of them for people
  WORK/translated_LANG   translations of both, those of the rough data there and back
  WORK/rough             rough data at the threshold
  WORK/sheets            sheets for people
  OUTPUT/mtg/TASK        the files that tasks/mtg.py reads
"""

import functools
import sys

from xlbench.data import work_folders
from xlbench.system import locks
from xlbench.system.work import Pool
from xlbench.tasks.mtg_build import (
    correcting,
    options as options_lib,
    publishing,
    sampling,
    translating,
)
from xlbench.tasks.mtg_build.options import Options
from xlbench.tasks.mtg_build.publishing import About


def build(options: Options, redo: bool) -> About:
    """Does what is left to do.

    Args:
      options: what is to be built.
      redo: work of other options is thrown away, and what they have published is replaced.

    Returns:
      The note about the rough data.

    Raises:
      UserError: an input is wrong, a folder holds the work of other options, or other files are in
        the place of the final ones.
    """
    settings = options_lib.settings(options, translating.identities(options))
    with locks.folder(options.work), Pool(options.workers) as pool:
        affected = functools.partial(options_lib.affected, options)
        work_folders.begin(options.work, settings, redo, affected)
        counts = sampling.read(options)
        _say(f'{options.task}: {counts.rough:,} examples, {counts.sample:,} for people')
        translating.translate(options, counts, pool)
        about = publishing.publish(options, counts, settings, redo)
        _say(f'{options.task}: {about.counts["kept"]:,} examples stay; {publishing.final(options)}')
        folder = correcting.write_sheets(options, counts)
        if counts.sample:
            _say(f'{options.task}: sheets for people are in {folder}')
    return about


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
