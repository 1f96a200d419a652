"""The script that completes command lines, in a real bash; others read it at least."""

import os
import shutil
import subprocess
import sys

import pytest

from xlbench import __main__ as command, completion

ASK = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_xlbench
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope='module')
def script(tmp_path_factory):
    """The script, as the command prints it."""
    path = tmp_path_factory.mktemp('completion') / 'xlbench.bash'
    run = subprocess.run(
        [sys.executable, '-m', 'xlbench', 'completion', 'bash'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stderr == ''
    path.write_text(run.stdout, encoding='utf-8')
    return path


def test_bash_completes_programs_flags_configs_and_files(script, tmp_path):
    (tmp_path / 'mine.py').write_text('')
    (tmp_path / 'texts.txt').write_text('')
    (tmp_path / 'runs').mkdir()

    def complete(*words: str) -> set[str]:
        answer = subprocess.run(
            ['bash', '--norc', '-c', ASK, 'bash', script, 'xlbench', *words],
            cwd=tmp_path,
            env={'PATH': os.environ['PATH']},
            capture_output=True,
            text=True,
            check=True,
        )
        return {*answer.stdout.split()}

    assert complete('') == {*command.PROGRAMS}
    assert complete('tr') == {'train', 'translate'}
    # Bash takes --config=mtg_m for three words.
    assert complete('train', '--config', '=', 'mtg_m') == {'mtg_mbart', 'mtg_mt5'}
    assert complete('train', '--config', 'mtg_m') == {'mtg_mbart', 'mtg_mt5'}
    assert complete('train', '--config', '=') >= {'mtg_mt5', 'fewshot', 'mine.py', 'runs'}
    assert 'texts.txt' not in complete('train', '--config', '=')
    assert complete('train', '--dr') == {'--dry_run'}
    assert complete('fewshot', '--config', '=', 'fewshot', '--rep') == {'--report'}
    assert '--config.batches.batch_size' in complete('train', '--config.batches.')
    assert complete('convert', '--dtype', '=', 'fl') == {'float16', 'float32'}
    assert complete('predict', '--input', '=', 't') == {'texts.txt'}
    assert complete('data', 'ge') == {'get'}
    assert complete('data', 'seg') == {'segment'}
    assert complete('data', 'segment', '--en') == {'--encoder'}
    assert complete('data', 'get', '--') >= {'--root', '--mirror_url'}


@pytest.mark.parametrize('shell', ['zsh', 'fish'])
def test_other_shells_read_it(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f'needs {shell}')
    path = tmp_path / 'script'
    path.write_text(completion.script(shell), encoding='utf-8')
    subprocess.run([shell, '-n', path], check=True)
    if shell == 'fish':
        ask = f'source {path}; complete -C "xlbench train --config=mtg_m"'
        answer = subprocess.run(['fish', '-c', ask], capture_output=True, text=True, check=True)
        words = {line.split('\t')[0] for line in answer.stdout.splitlines()}
        assert words == {'--config=mtg_mbart', '--config=mtg_mt5'}
