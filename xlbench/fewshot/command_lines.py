"""The command lines of xlbench.fewshot, read without jax; see xlbench/commands.py."""

import argparse
import pathlib
from collections.abc import Sequence

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import topics
from xlbench.fewshot import workdir as workdir_lib
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.system import errors
from xlbench.system.errors import UserError

_REPORT = '--report='


def sweep(argv: Sequence[str], doc: str) -> config_lib.Command:
    """Reads a command line of xlbench.fewshot, and checks every name in it and its config."""
    report_folder(argv)
    command = config_lib.parse_command(
        [argument for argument in argv if not argument.startswith(_REPORT)],
        doc=doc,
        dry_run=True,
    )
    check_sweep(command.config, command.workdir)
    return command


def check_sweep(config: ConfigDict, workdir: str) -> None:
    """Raises UserError for a name in a config that nothing has, or for another sweep's workdir.

    Args:
      config: of the sweep.
      workdir: that it is to have, or has already.
    """
    config_lib.check_sweep(config)
    if not workdir_lib.check_workdir(workdir, config):
        config_lib.check_sweep_places(config)


def report_folder(argv: Sequence[str]) -> str:
    """Reads the folder that --report names in a command line; '' without it."""
    given = [argument.removeprefix(_REPORT) for argument in argv if argument.startswith(_REPORT)]
    if '' in given or '--report' in argv:
        raise UserError('--report needs a folder to write tables and figures into: --report=FOLDER')
    if given:
        errors.check_path('--report', given[-1])
    return given[-1] if given else ''


def attention(argv: Sequence[str], doc: str) -> argparse.Namespace:
    """Reads a command line of xlbench.fewshot.attention."""
    parser = errors.ArgumentParser('python -m xlbench.fewshot.attention', doc)
    add = parser.add_argument
    add('workdir', type=pathlib.Path, metavar='WORKDIR', help='of a finished sweep')
    add('--lang', required=True, help='code of the language, such as de')
    add('--shots', type=int, default=1, help='K')
    add('--bucket', type=int, default=0, help='number of the bucket')
    add('--from', dest='right', metavar='LABEL', help='only examples with this true label')
    add('--to', dest='wrong', metavar='LABEL', help='only examples with this wrong prediction')
    add('--top', type=int, default=10, help='tokens to print of each sign')
    add('--output', metavar='FILE', help='CSV file; default: WORKDIR/attention-....csv')
    args = parser.parse_args(argv[1:])
    task = Sweep.read(args.workdir).task
    if topics.is_tagging(task):
        raise UserError(f'{args.workdir} has the task {task}, which labels words instead of [CLS]')
    return args
