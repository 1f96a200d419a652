"""The engines that run the jobs of a stage: processes of this machine, or Apache Beam."""

import argparse
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import ClassVar, Protocol, TypeVar, TypeVarTuple

from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError
from xlbench.system.flags import whole
from xlbench.system.machine import quietly
from xlbench.system.work import Pool

Args = TypeVarTuple('Args')
Result = TypeVar('Result')


class Engine(Protocol):
    """Runs jobs, in a `with` block: `Pool` on this machine, `beam.Beam` on many.

    Attributes:
      is_elsewhere: whether jobs may run on other machines, where little should be sent.
    """

    is_elsewhere: ClassVar[bool]

    def __enter__(self) -> 'Engine': ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def run(
        self, work: Callable[[*Args], Result], jobs: Iterable[tuple[*Args]]
    ) -> Iterator[Result]:
        """Yields work(*job) for each job, in any order; the first error ends all of them.

        Args:
          work: can be pickled, and gives a number, a text, or a list or dict of such.
          jobs: arguments that can be pickled.
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
    """The engine that a command line names.

    Args:
      flags: see `parse`.
      scratch: a folder for Beam's messages, on a disk that all its workers share.
      workers: processes, where the command line does not name them.
    """
    if not flags.beam:
        return Pool(flags.workers or workers)
    with quietly():
        from xlbench.jobs import beam
    return beam.Beam(flags.beam_options, scratch)
