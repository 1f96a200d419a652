"""A system is added to four papers' tables by one command each, from an empty folder."""

import zipfile

import pytest
from newcomer import Newcomer

# Benchmark, table, config, share of the steps, and a row that the system fills.
TABLES = [
    ('mtg', '14', 'mtg_mt5.py', '0.005', '| Mine | en->en | '),
    ('clidsum', '3', 'clidsum_mbart.py', '0.005', '| + | Mine |'),
    ('mrs', '3', 'mrs_retriever.py', '0.002', '| Mine | '),
    ('fewshot', '12', 'fewshot.py', '0.02', '| Mine | '),
]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ('benchmark', 'table', 'config', 'steps', 'row'), TABLES, ids=[one[0] for one in TABLES]
)
def test_one_command_adds_a_system_to_a_table(benchmark, table, config, steps, row, tmp_path):
    newcomer = Newcomer(tmp_path)
    said = newcomer.run(
        f'python -m xlbench.reproduce {benchmark} --table={table} --add=Mine=configs/{config} '
        f'--steps={steps} --examples=4 --seeds=1 --bundle=mine.zip'
    )
    cells = [line.partition(row)[2] for line in said.splitlines() if row in line]
    assert any(any(char.isdigit() for char in of_row) for of_row in cells)
    assert 'Cost: commands ' in said and 'model card(s)' in said and 'Missing' not in said
    checked = newcomer.home / 'elsewhere'
    checked.mkdir()
    said = newcomer.run('python -m xlbench.reproduce --check ../mine.zip', cwd=checked)
    assert f'agrees: {benchmark}, table {table}: ' in said and 'DIFFERS' not in said
    with zipfile.ZipFile(newcomer.home / 'mine.zip') as archive:
        assert not any(str(tmp_path).encode() in archive.read(name) for name in archive.namelist())
