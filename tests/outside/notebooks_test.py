"""The notebooks of the documentation work, cell by cell, in an empty folder and in one process.

`make docs` executes them as well, each in a kernel and a folder of its own, and shows what they
print. Here they share the sample corpora and what they compile, and train for a tenth of the steps.
"""

import json
import os
import re
import subprocess

import pages
import pytest
import quick_compilation
import warm

pytestmark = pytest.mark.nightly

STEPS = re.compile(r"((?:num_steps': |,steps=)\d+)0")  # Without the last digit they are a tenth.

# Cells like `frame.head()` are evaluated, and what a notebook would show is made: its HTML.
PROGRAM = """
import ast
import json
import pathlib
import sys

from xlbench.system.errors import UserError

for name, cells in json.loads(pathlib.Path(sys.argv[1]).read_text('utf-8')).items():
    names = {}
    for number, (code, raises) in enumerate(cells, 1):
        place = f'{name}, cell {number}'
        print(f'{place} begins', flush=True)
        statements = ast.parse(code).body
        last = statements.pop() if isinstance(statements[-1], ast.Expr) else None
        try:
            exec(compile(ast.Module(statements, []), place, 'exec'), names)
            if last:
                shown = eval(compile(ast.Expression(last.value), place, 'eval'), names)
                getattr(shown, '_repr_html_', shown.__repr__)()
        except UserError as error:
            if not raises:
                raise
            print(error)
            raises = False
        assert not raises, f'{place} shows no error'
"""


def test_every_cell_of_every_notebook_works(tmp_path):
    notebooks = {
        name: [(STEPS.sub(r'\1', cell.code), cell.raises) for cell in pages.cells(name)]
        for name in pages.NOTEBOOKS
    }
    assert all(notebooks.values())
    (tmp_path / 'cells.json').write_text(json.dumps(notebooks), encoding='utf-8')
    folder = tmp_path / 'folder'
    folder.mkdir()
    environ = {k: v for k, v in os.environ.items() if not k.startswith('XLBENCH_')}
    run = subprocess.run(
        [warm.python(), '-c', PROGRAM, str(tmp_path / 'cells.json')],
        cwd=folder,
        env=environ | {'MPLBACKEND': 'Agg', 'XLA_FLAGS': quick_compilation.xla_flags()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    assert 'nearest: num_steps' in run.stdout
    for place in ('runs/questions/DONE', 'runs/parts_of_speech/results.csv', 'runs/trips/DONE'):
        assert (folder / place).exists(), place
    for place in ('report/report.html', 'sweep_report/report.md'):
        assert (folder / place).exists(), place
