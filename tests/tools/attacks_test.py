"""Some of the attacks that are run by hand, with fixed seeds."""

import json
import pathlib
import subprocess
import sys

import pytest

from xlbench.__main__ import PROGRAMS
from xlbench.data import __main__ as data
from xlbench.fewshot import command
from xlbench.translate import __main__ as translate

pytestmark = pytest.mark.nightly

ATTACKS = pathlib.Path(__file__).parents[2] / 'tools' / 'attacks'


def test_every_program_is_attacked_or_writes_nothing():
    code = (
        'import commands, json\nattacked = [[*map(str, (one.program, one.argv))]'
        ' for one in commands.COMMANDS.values()]\n'
        'print(json.dumps([attacked, list(commands.SILENT)]))'
    )
    listed = subprocess.run([sys.executable, '-c', code], cwd=ATTACKS, capture_output=True)
    attacked, silent = json.loads(listed.stdout)
    # With the commands that have a module of their own, such as `data segment`.
    lines = {'data': data.COMMAND, 'translate': translate.COMMAND, 'fewshot': command.COMMAND}
    ours = {f'{p} {word}' for p, line in lines.items()
            for word, module in line.commands.items() if isinstance(module, str)}  # fmt: skip
    words = (f'{program} {argv.split()[0]}' for program, argv in attacked)
    named = {pair if pair in ours else pair.split()[0] for pair in words}
    assert sorted([*named, *silent]) == sorted([*PROGRAMS, *ours])


@pytest.mark.parametrize(
    'arguments',
    [['failing_files.py', '--commands=train,report,score', '--sample=2', '--seed=7'],
     ['kills.py', '--commands=score', '--kills=5', '--seed=7']],
    ids=['failing_files', 'kills'],
)  # fmt: skip
def test_some_of_the_attacks(arguments):
    attack = subprocess.run(
        [sys.executable, ATTACKS / arguments[0], *arguments[1:]],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert attack.returncode == 0, attack.stdout + attack.stderr[-3000:]
    assert ' 0 wrong' in attack.stdout
