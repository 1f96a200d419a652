r"""Splits multilingual dev sets into a small training set and test sets.

  python -m xlbench.tasks.dev_split --root=data --task=xnli,pawsx --output=data/dev_split

XNLI's and PAWS-X's dev sets have the same pairs in every language and are small; their English
training sets are large. This program cuts the pairs into two parts; pairs with the same first
English text are in the same part. The English pairs of the first part, two thirds, become the
training set. The pairs of the other part become the test set of each language whose dev set is
there, so no test pair is a translation of a training pair. Pairs in a language's published few
shots, and pairs that nobody translated, are left out of its test set; the files of few shots are
copied. The folder is a data root like any other:

  python -m xlbench.fewshot --config=configs/fewshot.py:encoder,task=xnli,languages=de+es+sw+zh \
      --config.source.model.from=FOLDER --config.source.data.root=data/dev_split --workdir=RUNS/xnli

Scores on it can be compared with each other, but not with published ones. The same files give the
same cut.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from xlbench.system import errors
from xlbench.system.machine import quietly
from xlbench.tasks.dev_split import TASKS


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    parser = errors.ArgumentParser('python -m xlbench.tasks.dev_split', __doc__)
    parser.add_argument('--root', default=os.environ.get('XLBENCH_DATA', 'data'))
    parser.add_argument('--task', required=True, help=f'with commas between: {", ".join(TASKS)}')
    parser.add_argument('--output', required=True, help='the new data root, a folder of its own')
    args: argparse.Namespace = parser.parse_args(argv[1:])
    if os.path.realpath(args.output) == os.path.realpath(args.root):
        raise errors.UserError(
            f'--output={args.output} is the data root; give another folder, so that nobody takes '
            'these sets for the official ones'
        )
    with quietly():
        from xlbench import pipeline
        from xlbench.tasks.dev_split import cut
    pipeline.use_root(args.root)
    for task in args.task.split(','):
        print('\n'.join(cut.split(task, args.output)), flush=True)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
