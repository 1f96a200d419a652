"""Some of the attacks that are run by hand, with fixed seeds."""

import pathlib
import subprocess
import sys

import commands
import pytest

from xlbench.__main__ import PROGRAMS

pytestmark = pytest.mark.outside

ATTACKS = pathlib.Path(__file__).parent


def test_every_program_is_attacked_or_writes_nothing():
    attacked = {command.program for command in commands.COMMANDS.values()}
    assert attacked | set(commands.SILENT) == set(PROGRAMS)
    assert not attacked & set(commands.SILENT)


@pytest.mark.parametrize(
    'arguments',
    [
        ['failing_files.py', '--commands=train,report,score', '--sample=2', '--seed=7'],
        ['kills.py', '--commands=score', '--kills=5', '--seed=7'],
    ],
    ids=['failing_files', 'kills'],
)
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
