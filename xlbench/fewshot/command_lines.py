"""The command lines of xlbench.fewshot, read without jax; see xlbench/commands.py."""

import argparse
import pathlib
from collections.abc import Sequence

from ml_collections import ConfigDict

from xlbench import config as config_lib
from xlbench.benchmarks import topics
from xlbench.config import flags as config_flags
from xlbench.fewshot import workdir as workdir_lib
from xlbench.fewshot.analysis.sweeps import Sweep
from xlbench.system import errors
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError

_REPORT = '--report='
SWEEP = CommandLine(
    'fewshot',
    flags=(
        config_flags.RUN_FLAGS,
        flag('--report', 'write tables and figures at the end', metavar='FOLDER'),
    ),
    commands={'report': 'xlbench.fewshot.report', 'attention': 'xlbench.fewshot.attention'},
)
ATTENTION = CommandLine('fewshot attention', flags=(
    flag('workdir', 'of a finished sweep', type=pathlib.Path, metavar='WORKDIR'),
    flag('--lang', 'code of the language, such as de', required=True),
    flag('--shots', 'K', 1),
    flag('--bucket', 'number of the bucket', 0),
    flag('--from', 'only examples with this true label', dest='right', metavar='LABEL'),
    flag('--to', 'only examples with this wrong prediction', dest='wrong', metavar='LABEL'),
))  # fmt: skip


def check(argv: Sequence[str]) -> None:
    """Raises UserError for what is wrong with a command line of xlbench.fewshot."""
    if argv[1:2] == ['attention']:
        attention(argv[1:])
    elif argv[1:2] != ['report']:  # Which imports nothing that takes seconds.
        sweep(argv)


def sweep(argv: Sequence[str]) -> config_lib.Command:
    """Reads a command line of xlbench.fewshot, and checks every name in it and its config."""
    report_folder(argv)
    command = config_lib.parse_command(
        [argument for argument in argv if not argument.startswith(_REPORT)],
        line=SWEEP,
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


def attention(argv: Sequence[str]) -> argparse.Namespace:
    """Reads a command line of `xlbench fewshot attention`."""
    args = ATTENTION.parse(argv[1:])
    task = Sweep.read(args.workdir).task
    if topics.is_tagging(task):
        raise UserError(f'{args.workdir} has the task {task}, which labels words instead of [CLS]')
    return args
