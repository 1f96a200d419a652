"""Linting a checkout in which something has run gives the result of linting a fresh clone."""

import ast
import shutil
import sysconfig

import pytest
from newcomer import PROJECT, Newcomer

# `install` counts as done: the linters are those of this environment.
LINT = f'make -o install lint VENV={sysconfig.get_path("scripts")}/..'


def _imported_names() -> set[str]:
    """Names that a test or script imports and a folder of the checkout could have, too."""
    names = set()
    for path in [p for f in ('tests', 'tools') for p in (PROJECT / f).rglob('*.py')]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition('.')[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition('.')[0])
    return names


@pytest.mark.nightly
def test_what_runs_leave_does_not_change_what_the_linters_see(tmp_path, tiny_run, tiny_root):
    newcomer = Newcomer(tmp_path)
    for workdir in ('runs/mtg', 'RUNS/mtg', 'mine'):
        shutil.copytree(tiny_run, newcomer.clone / workdir)
    shutil.copytree(tiny_root, newcomer.clone / 'data' / 'sample')
    (newcomer.clone / 'mine' / 'notes.py').write_text('import sys, os\n')
    for name in _imported_names():
        (newcomer.clone / name).mkdir(exist_ok=True)
    newcomer.run(LINT, cwd=newcomer.clone)


def test_the_linters_see_a_fault(tmp_path):
    newcomer = Newcomer(tmp_path)
    (newcomer.clone / 'launch' / 'fault.py').write_text('import sys, os\n')
    assert 'I001' in newcomer.run(LINT, cwd=newcomer.clone, code=2)
