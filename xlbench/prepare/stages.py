"""The engines that run the jobs of a stage: processes of this machine, or Apache Beam.

A stage makes files, a job a file, and only those that are not there.
"""

import argparse
import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar, TypeVarTuple

from xlbench.system.command_line import CommandLine, flag, whole
from xlbench.system.errors import UserError
from xlbench.system.machine import quietly
from xlbench.system.progress import Progress
from xlbench.system.work import Pool

Args = TypeVarTuple('Args')
Result = TypeVar('Result')


class Engine(contextlib.AbstractContextManager, Protocol):
    """Runs jobs, in a `with` block: `Pool` on this machine, `beam.Beam` on many."""

    is_elsewhere: ClassVar[bool]  # True: on other machines, to which little should be sent.

    def run(
        self, work: Callable[[*Args], Result], jobs: Iterable[tuple[*Args]]
    ) -> Iterator[Result]:
        """Yields work(*job) for each job, in any order; the first error ends all of them.

        All of it can be pickled; a job gives a number, a text, or a list or dict of such.
        """


FLAGS = (
    flag('--workers', 'processes; default: by cores, and 1 for translations', type=whole(1)),
    flag(
        '--beam',
        'run on Apache Beam; what stands behind -- is for its runner: -- --runner=FlinkRunner',
        False,
    ),
)


def parse(line: CommandLine, argv: Sequence[str]) -> argparse.Namespace:
    """Parses a command line with FLAGS; `beam_options` are what stands behind `--`.

    Raises:
      UserError: flags do not go together, or Beam is not there.
    """
    argv = list(argv)
    place = argv.index('--') if '--' in argv else len(argv)
    flags = line.parse(argv[:place])
    flags.beam_options = argv[place + 1 :]
    flags.beam = getattr(flags, 'beam', False)  # Of a subcommand that runs no jobs.
    if flags.beam_options and not flags.beam:
        raise UserError(f'{flags.beam_options[0]!r} is not a flag; see --help')
    if flags.beam and flags.workers:
        raise UserError(
            '--beam goes without --workers; for several workers, tell its runner: '
            '-- --direct_running_mode=multi_processing --direct_num_workers=4'
        )
    if flags.beam and importlib.util.find_spec('apache_beam') is None:
        raise UserError(
            "--beam needs the package apache-beam: python -m uv pip install --editable '.[beam]'"
        )
    return flags


def of_flags(flags: argparse.Namespace, scratch: str, workers: int) -> Engine:
    """The engine that a command line names, with `workers` processes unless it says how many.

    `scratch` is a folder for Beam's messages, on a disk that all its workers share.
    """
    if not flags.beam:
        return Pool(flags.workers or workers)
    with quietly():
        from xlbench.prepare import beam
    return beam.Beam(flags.beam_options, scratch)


def make(
    engine: Engine,
    stage: str,
    work: Callable[[*tuple[object, ...]], int | None],
    jobs: Mapping[str, tuple[object, ...]],
    unit: str,
) -> int:
    """Makes the files of a stage that are missing, and says how many `unit`s it has.

    `jobs` has the path of each file with the arguments of its job. work(*arguments, path) makes the
    file, which appears when it is whole, and may give a number.

    Returns:
      The sum of the numbers.
    """
    missing = {path: job for path, job in jobs.items() if not os.path.exists(path)}
    for folder in {os.path.dirname(path) for path in missing}:
        os.makedirs(folder, exist_ok=True)
    total = 0
    with Progress(stage, len(jobs), unit) as progress:
        progress.skip(len(jobs) - len(missing))
        for number in engine.run(work, ((*job, path) for path, job in missing.items())):
            total += number or 0
            progress.add()
    print(f'{stage}: {len(jobs):,} {unit}', file=sys.stderr, flush=True)
    return total
