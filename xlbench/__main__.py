"""One command for all programs: `xlbench train ...` is `python -m xlbench.train ...`.

  xlbench                  the programs, with a line on each
  xlbench train --help     what one of them takes
  xlbench --version
"""

import ast
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence

import xlbench
from xlbench import errors

PROGRAMS = (
    'train', 'evaluate', 'report', 'predict', 'score', 'prepare', 'convert', 'data', 'fewshot',
    'fewshot.report', 'fewshot.attention', 'translate', 'chain', 'annotate', 'plan', 'zoo',
    'reproduce', 'doctor', 'buckets', 'segment', 'mark_dialogues', 'triples', 'tasks.mrs_build',
    'tasks.mtg_build', 'tasks.dev_split', 'tasks.xtreme', 'completion',
)  # fmt: skip


def main() -> int:
    """Becomes the program that the command line names, or says which there are."""
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
        print('xlbench PROGRAM ..., where PROGRAM --help says what it takes, and PROGRAM is\n')
        print('\n'.join(f'  {program:{width}}  {about(program)}' for program in PROGRAMS))
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
