"""Starts the programs: `xlbench train ...` is `python -m xlbench.train ...`.

  xlbench                  lists the programs, with a line on each
  xlbench train --help     lists the options of one
  xlbench --version
"""

import ast
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence

import xlbench
from xlbench.system import errors

# The programs, in the groups and the order of `xlbench --help` and of docs/programs.md.
GROUPS = {
    'Train and evaluate': ('train', 'evaluate', 'fewshot', 'reproduce', 'plan', 'list', 'doctor'),
    'Use models': ('predict', 'convert', 'translate', 'chain'),
    'Compare results': (
        'report', 'score', 'annotate', 'zoo', 'fewshot.report', 'fewshot.attention',
    ),
    'Data': (
        'data', 'prepare', 'buckets', 'segment', 'mark_dialogues', 'triples', 'tasks.mrs_build',
        'tasks.mtg_build', 'tasks.dev_split', 'tasks.xtreme',
    ),
    'Shell': ('completion',),
}  # fmt: skip
PROGRAMS = tuple(program for programs in GROUPS.values() for program in programs)


def main() -> int:
    """Becomes the program that the command line names, or lists all programs."""
    name = sys.argv[1] if sys.argv[1:] else '--help'
    if name in PROGRAMS:
        # A program of its own in place of this one: it starts as `python -m` starts it.
        os.execv(sys.executable, [sys.executable, '-m', f'xlbench.{name}', *sys.argv[2:]])
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
    *packages, module = program.split('.')
    folder = pathlib.Path(xlbench.__file__).parent.joinpath(*packages)
    if packages == ['tasks']:  # Beside the package in a checkout, in it in a wheel.
        folder = pathlib.Path(importlib.util.find_spec('xlbench.tasks').origin).parent
    path = folder / module / '__main__.py'
    source = (path if path.exists() else folder / f'{module}.py').read_text('utf-8')
    return ast.get_docstring(ast.parse(source)).splitlines()[0]


if __name__ == '__main__':
    sys.exit(main())
