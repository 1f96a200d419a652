"""The command `xlbench` starts the programs that `python -m` starts."""

import os
import runpy
import subprocess
import sys

import pages
import pytest
import warm

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


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm.python(), '-m', 'xlbench', *arguments], capture_output=True, text=True, check=False
    )


def test_the_command():
    help_ = run()
    assert help_.returncode == 0
    assert help_.stdout.startswith('usage: xlbench PROGRAM [options]\n')
    groups = [line.rstrip(':') for line in help_.stdout.split('\n') if line.endswith(':')]
    assert groups == list(command.GROUPS)
    assert help_.stdout.count('\n  ') == len(command.PROGRAMS)
    wrong = run('trian')
    assert (wrong.returncode, wrong.stderr.count('\n')) == (
        2,
        1,
    ) and 'nearest: train' in wrong.stderr
    report = run('report', 'RUNS', '--no_such_flag')
    assert report.returncode == 2 and 'no_such_flag' in report.stderr


@pytest.mark.parametrize('name', command_line.FORMER)
def test_a_former_program_becomes_the_command_of_today(name, monkeypatch, capsys):
    """`python -m xlbench.NAME` and `xlbench NAME` both."""

    def execute(path: str, line: list[str]) -> None:
        assert path == line[0] == sys.executable
        raise SystemExit(' '.join(line[1:]))

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
    [
        ('tasks', 'qg_en', 'mtg_qg_en_de '),
        ('tasks', 'mood', 'mood_...  your tasks in tasks/mood.py'),
        ('metrics', 'CHRF+', 'chrf++'),
        ('configs', 'finetune', 'finetune  Any task or mixture: trains'),
        ('models', 'mt5 base', 'mt5 base   12 layers of 768'),
        ('languages', 'swah', 'sw  swahili, latin'),
    ],
)
def test_names_are_listed(kind, word, line, tmp_path, monkeypatch, capsys):
    (tmp_path / 'tasks').mkdir()
    (tmp_path / 'tasks' / 'mood.py').write_text('import xlbench\n')
    monkeypatch.chdir(tmp_path)
    list_program.main(['list', kind, word])
    assert any(said.startswith(line) for said in capsys.readouterr().out.splitlines())
    with pytest.raises(UserError, match=rf"none of the \d+ {kind} has 'zzz' in its line"):
        list_program.main(['list', kind, 'zzz'])
