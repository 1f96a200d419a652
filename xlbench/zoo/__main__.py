r"""Writes a Markdown page of experiments from their workdirs.

  python -m xlbench.zoo RUNS/* --output=zoo.md
  python -m xlbench.zoo RUNS/new --add --output=zoo.md

A workdir is one of xlbench.train, xlbench.fewshot, xlbench.score or a chain. Each experiment has
its command, wall and processor time, hardware, dtype, seeds, data with hashes, and its tables of
scores with baselines, notes and signatures. Runs of one config that differ in the seed are one
experiment, whose scores are means with standard deviations; a sweep is one by itself.

Without --output the page goes to the screen. With --output it is written into that file; if the
file is there and is no such page, it is left alone, and the command fails. The same workdirs give
the same bytes. Of absolute paths, the page shows only the last name.

With --add, experiments are added to the page in the file. Those that are already on it remain
unchanged, so their workdirs are not needed. If a named workdir belongs to one of them (the same
config, or the same name of a scored system), the new result replaces the old one; in that case,
name the workdirs of all its seeds.
"""

import pathlib
import sys
from collections.abc import Sequence

from xlbench.system import errors, files, locks, untrusted
from xlbench.system.command_line import CommandLine, flag
from xlbench.zoo import experiments
from xlbench.zoo.experiments import Experiment

FLAGS = (
    flag('folder', 'workdir', nargs='+'),
    flag('--output', 'file of Markdown to write'),
    flag('--add', 'add to the page in the file of --output', False),
)


def main(argv: Sequence[str]) -> int:
    """The command line, without the program's name."""
    args = CommandLine('zoo', __doc__, FLAGS).parse(argv)
    if args.add and not args.output:
        raise errors.UserError('--add needs --output=FILE, the page that it adds to')
    named = experiments.of_workdirs(args.folder)
    if not args.output:
        print(experiments.markdown(experiments.joined(named)), end='')
        return 0
    output = pathlib.Path(args.output)
    files.check_own(output, 'a page of xlbench.zoo', [experiments.MARK])
    try:
        with locks.file(output):
            before: Sequence[Experiment] = ()
            if args.add and output.exists():
                before = experiments.of_page(untrusted.read_bytes(output), str(output))
            files.write(output, experiments.markdown(experiments.joined(named, before)))
    except OSError as error:
        raise errors.UserError(f'cannot write {output}: {error.strerror}') from None
    print(f'wrote {output}')
    return 0


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv[1:]))
