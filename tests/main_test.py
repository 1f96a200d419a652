"""The command `xlbench` starts the programs that `python -m` starts; addresses are no paths."""

import importlib
import os
import runpy
import sys

import pages
import pytest

from xlbench import __main__ as command, list as list_program
from xlbench.system import command_line
from xlbench.system.errors import UserError


def test_every_program_is_listed():
    """All with a command line, but what other programs start."""
    named = set()
    for folder, prefix in (('xlbench', ''), ('tasks', 'tasks.')):
        root = pages.PROJECT / folder
        for path in root.rglob('*.py'):
            name = '.'.join(path.relative_to(root).with_suffix('').parts)
            if "\nif __name__ == '__main__':" in path.read_text('utf-8') and name != '__main__':
                named.add(prefix + name.removesuffix('.__main__'))
    named -= {'system.command_line', *command_line.FORMER}
    assert set(command.PROGRAMS) == named


def execute(path: str, line: list[str]) -> None:
    """In place of os.execv, which does not come back."""
    assert path == line[0] == sys.executable
    raise SystemExit(' '.join(line[1:]))


def test_the_command(monkeypatch, capsys):
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, 'argv', ['xlbench', *arguments])
        return command.main()

    assert run() == 0
    help_ = capsys.readouterr().out
    assert help_.startswith('usage: xlbench PROGRAM [options]\n')
    groups = [line.rstrip(':') for line in help_.split('\n') if line.endswith(':')]
    assert groups == list(command.GROUPS)
    assert help_.count('\n  ') == len(command.PROGRAMS)
    assert run('trian') == 2
    said = capsys.readouterr().err
    assert said.count('\n') == 1 and 'nearest: train' in said
    monkeypatch.setattr(os, 'execv', execute)
    with pytest.raises(SystemExit, match=r'^-m xlbench\.report RUNS --no_such_flag$'):
        run('report', 'RUNS', '--no_such_flag')


@pytest.mark.parametrize('name', command_line.FORMER)
def test_a_former_program_becomes_the_command_of_today(name, monkeypatch, capsys):
    """`python -m xlbench.NAME` and `xlbench NAME` both."""
    monkeypatch.setattr(os, 'execv', execute)
    today = f'-m xlbench.{command_line.FORMER[name]} --seed=1 a'
    words = ['--seed=1', 'a']
    for argv, module in ((['x', *words], name), (['x', name, *words], '__main__')):
        monkeypatch.setattr(sys, 'argv', argv)
        monkeypatch.delitem(sys.modules, f'xlbench.{module}', raising=False)
        with pytest.raises(SystemExit, match=f'^{today}$'):
            runpy.run_module(f'xlbench.{module}', run_name='__main__', alter_sys=True)
        said = f'xlbench {name} is now `xlbench {command_line.FORMER[name]}`\n'
        assert capsys.readouterr() == ('', said)


@pytest.mark.parametrize(
    ('kind', 'word', 'line'),
    [('tasks', 'qg_en', 'mtg_qg_en_de '),
     ('tasks', 'mood', 'mood_...  your tasks in tasks/mood.py'), ('metrics', 'CHRF+', 'chrf++'),
     ('configs', 'finetune', 'finetune  Any task or mixture: trains'),
     ('models', 'mt5 base', 'mt5 base   12 layers of 768'),
     ('languages', 'swah', 'sw  swahili, latin')],
)  # fmt: skip
def test_names_are_listed(kind, word, line, tmp_path, monkeypatch, capsys):
    (tmp_path / 'tasks').mkdir()
    (tmp_path / 'tasks' / 'mood.py').write_text('import xlbench\n')
    monkeypatch.chdir(tmp_path)
    list_program.main(['list', kind, word])
    assert any(said.startswith(line) for said in capsys.readouterr().out.splitlines())
    with pytest.raises(UserError, match=rf"none of the \d+ {kind} has 'zzz' in its line"):
        list_program.main(['list', kind, 'zzz'])


# A command of every program that reads or writes files, with something like gs:// in place of one.
ADDRESSES = (
    'train --config=configs/mtg_mt5.py --workdir=gs://bucket/run',
    'train --config=configs/mtg_mt5.py --config.data.root=s3://bucket/data',
    'fewshot --config=configs/fewshot.py --workdir=gs://bucket/run',
    'fewshot.report RUNS/fewshot --output=gs://bucket/report',
    'plan --config=configs/mtg_mt5.py --topology=cpu:8 --output=gs://bucket/plan',
    'prepare --mixture=mtg_multi --root=gs://bucket/data',
    'prepare --mixture=mtg_multi --new_vocabulary=gs://bucket/x.model',
    'evaluate --workdir=gs://bucket/run',
    'predict RUNS/mtg --output=hdfs://host/answers.txt',
    'convert RUNS/mtg gs://bucket/exported',
    'report gs://bucket/run',
    'translate.chain_command RUNS/mtg --task=mtg_qg_en_en --workdir=gs://bucket/chain',
    'translate.chain_command gs://bucket/run --task=mtg_qg_en_en --workdir=chain',
    'data.buckets sample --task=udpos --lang=de --output=gs://bucket/b train-de.tsv',
    'tasks.mrs_build.command RC_2018-01.zst --output=gs://bucket/data',
    'tasks.mtg_build.command build --engine=apertium --tg=x --output=gs://bucket/data',
)


@pytest.mark.parametrize('line', ADDRESSES)
def test_an_address_is_no_path(line, tmp_path, monkeypatch):
    """Nothing is written, not even a folder named `gs:`."""
    monkeypatch.chdir(tmp_path)
    name, *arguments = line.replace('configs/', f'{pages.PROJECT}/configs/').split()
    main = importlib.import_module(f'xlbench.{name}')
    if not hasattr(main, 'main'):
        main = importlib.import_module(f'xlbench.{name}.__main__')
    with pytest.raises(UserError, match=r'://\S+ begins with \w+://, and files are read') as error:
        main.main([name, *arguments])
    assert '\n' not in str(error.value)
    assert not list(tmp_path.iterdir())
