"""Starts the programs: `xlbench train ...` is `python -m xlbench.train ...`.

xlbench                  lists the programs, with a line on each
xlbench train --help     lists the options of one
xlbench --version
"""

import sys
from collections.abc import Sequence

import xlbench
from xlbench.system import command_line, errors

# The programs, in the groups and the order of `xlbench --help` and of docs/programs.md.
GROUPS = {
    'Train and evaluate': ('train', 'evaluate', 'fewshot', 'reproduce', 'plan', 'list', 'doctor'),
    'Use models': ('predict', 'convert', 'translate', 'prompt'),
    'Compare results': ('report', 'score', 'annotate', 'zoo'),
    'Data': ('data', 'prepare'),
}
PROGRAMS = tuple(program for programs in GROUPS.values() for program in programs)


def main() -> int:
    """Becomes the program that the command line names, or lists all programs."""
    name = sys.argv[1] if sys.argv[1:] else '--help'
    if name in PROGRAMS:
        command_line.become(name, sys.argv[2:])
    if name in command_line.FORMER:
        command_line.former(name, sys.argv[2:])
    return errors.run_main(_answer, sys.argv)


def _answer(argv: Sequence[str]) -> None:
    name = argv[1] if argv[1:] else '--help'
    if name == '--version':
        print(f'xlbench {xlbench.__version__}')
    elif name in ('--help', '-h'):
        width = max(map(len, PROGRAMS))
        print('usage: xlbench PROGRAM [options]\n\n`xlbench PROGRAM --help` lists the options.')
        for group, programs in GROUPS.items():
            print(f'\n{group}:')
            print('\n'.join(f'  {program:{width}}  {about(program)}' for program in programs))
    else:
        raise errors.unknown('program', name, PROGRAMS)


def about(program: str) -> str:
    """The first line of a program's docstring, without importing the program."""
    return command_line.about(f'xlbench.{program}').splitlines()[0]


if __name__ == '__main__':
    sys.exit(main())
