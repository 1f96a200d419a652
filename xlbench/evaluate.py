r"""Scores a checkpoint of a run on any prepared (or preparable) tasks.

  python -m xlbench.evaluate --workdir=RUNS/mtg --split=test
  python -m xlbench.evaluate --workdir=RUNS/mtg --tasks=mtg_qg_en_de,mtg_qg_en_fr --step=last

The scores go where the run's own evaluations are, WORKDIR/eval/STEP/SPLIT/TASK/, and as a table on
the screen. By default: the best checkpoint by the run's own choice, the tasks of its final
evaluation.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence

from ml_collections import ConfigDict

from xlbench import checkpoints as checkpoints_lib, errors, report, runs
from xlbench.errors import UserError


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = _parse(argv[1:])
    config = read_config(args.workdir)
    name = _eval_name(config, args.like)
    block = config.evals[name]
    changes = {
        'tasks': tuple(args.tasks.split(',')) if args.tasks else tuple(block.tasks),
        'split': args.split or block.split,
        'every': 0,
        'batch_size': args.batch_size or block.batch_size,
        'num_examples': args.num_examples,
        'decode': True,
    }
    config.evals = {name: dict(block) | changes}
    config.stages = {}
    config.baselines = ()
    parts = runs.build(config)
    step = find_step(args.workdir, args.step)
    params = checkpoints_lib.load_params(args.workdir, step, parts.shapes, parts.shardings)
    evaluator, _ = parts.evals[name]
    print(f'step {step} of {args.workdir} on {len(changes["tasks"])} tasks, {changes["split"]}')
    evaluator.run(params, step, args.workdir, 'evaluate')
    print('\n' + report.table(args.workdir, step, changes['split']))


def read_config(workdir: str) -> ConfigDict:
    """The config that a run was started with."""
    path = pathlib.Path(workdir) / 'config.json'
    if not path.is_file():
        raise UserError(f'{workdir} has no config.json, so it is no workdir of xlbench.train')
    return ConfigDict(json.loads(path.read_text(encoding='utf-8'))['config'])


def find_step(workdir: str, wanted: str) -> int:
    """The checkpoint that 'best', 'last' or a number means.

    Raises:
      UserError: there is none, with those that there are.
    """
    steps = checkpoints_lib.steps(workdir)
    if not steps:
        raise UserError(f'{workdir} has no checkpoint yet')
    if wanted == 'last':
        return steps[-1]
    if wanted == 'best':
        best = checkpoints_lib.read_progress(workdir, steps[-1])['best']
        return best['step'] if best else steps[-1]
    if not wanted.isdigit() or int(wanted) not in steps:
        raise UserError(
            f'{workdir} has no checkpoint {wanted!r}; it has best, last, '
            f'{", ".join(map(str, steps))}'
        )
    return int(wanted)


def _eval_name(config: ConfigDict, wanted: str | None) -> str:
    if not config.evals:
        raise UserError('the config of this run has no evals to take batch size and lengths from')
    if wanted:
        if wanted not in config.evals:
            raise errors.unknown('evaluation of the config', wanted, config.evals)
        return wanted
    final = [name for name, block in config.evals.items() if not block.every]
    return (final or list(config.evals))[0]


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = errors.ArgumentParser('python -m xlbench.evaluate', __doc__)
    parser.add_argument('--workdir', required=True, help='of the run')
    parser.add_argument('--tasks', help="comma-separated; default: the final evaluation's")
    parser.add_argument('--split', help="default: the final evaluation's, usually test")
    parser.add_argument('--step', default='best', help='best, last or a number (default: best)')
    parser.add_argument('--like', help='the eval block of the config to take settings from')
    parser.add_argument('--batch_size', type=int, default=0, help="default: the block's")
    parser.add_argument('--num_examples', type=int, default=0, help='of each task; 0: all')
    return parser.parse_args(argv)


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
