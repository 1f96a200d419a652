"""The command lines of version 0.1 that have other names today: they do the same, and say so."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pages
import pytest
import readme_files
import tiny
import tiny_sweep
import warm

from tests import dialogues_test
from tests.tasks import mrs_build_test, mtg_build_test
from xlbench.data import labelled
from xlbench.system import command_line

pytestmark = pytest.mark.nightly

# Former program: a command line, its exit code, and a file that it leaves or a part of its message.
WORK = {
    'buckets': (
        'sample --task=udpos --lang=de --shots=1 --count=2 --output=b words-de.tsv', 0,
        'b/udpos/1-shots/de/0-th/train.tsv',
    ),
    'chain': (
        'translate:command:cat --task=mtg_qg_en_de --root=root --cache=c --workdir=system', 0,
        'system/eval/0/test/mtg_qg_en_de/metrics.json',
    ),
    'fewshot.attention': ('sweep --lang=de', 2, 'udpos, which labels words instead of [CLS]'),
    'fewshot.report': ('sweep --output=report', 0, 'report/report.md'),
    'mark_dialogues': ('--model=gpt2 --input=one.json --output=marked.json', 0, 'marked.json'),
    'segment': ('one.json', 0, 'one.views.jsonl'),
    'tasks.dev_split': ('--root=. --task=xnli --output=o', 0, 'o/fewshot/xnli/train-en.tsv'),
    'tasks.mrs_build': (
        'dumps/RC_2018-01.zst --output=mrs --language_model=reddit_files:identify --languages=en '
        '--min_count=2 --partitions=2 --max_bad=0.5 --workers=1', 0, 'mrs/mrs/stats.json',
    ),
    'tasks.mtg_build': (
        'build --sg=roc.csv --engine=command:cat --languages=de --sizes=0,0,0 --output=mtg', 0,
        'mtg/mtg/sg/de/rough_train.src',
    ),
    'tasks.xtreme': ('--task=pnax', 2, "unknown task 'pnax'; nearest: panx"),
    'triples': ('one.json --tagger=./none', 2, '--tagger: there is no folder ./none'),
}  # fmt: skip


def _inputs(folder: pathlib.Path) -> None:
    """Small files for the command lines of WORK."""
    (folder / 'root').mkdir()
    tiny.write_root(folder / 'root', ['mtg_qg_en_de'])
    rows = [tiny_sweep.zero_shot('de', 45.0), *tiny_sweep.group('de', 1, [50.0, 54.0])]
    tiny_sweep.write(folder / 'sweep', rows)
    readme_files.small_model(folder / 'gpt2', 'gpt2', 'gpt2')
    dialogues = dialogues_test.corpus(np.random.default_rng(0), 3)
    (folder / 'one.json').write_text(json.dumps(dialogues))
    words = ('Anna\tPROPN\nschläft\tVERB\n', 'Der\tDET\nHund\tNOUN\nbellt\tVERB\n')
    (folder / 'words-de.tsv').write_text('\n'.join(words * 20))
    (folder / 'fewshot' / 'xnli').mkdir(parents=True)
    pairs = (f'a {i // 3}\tb {i}\t{label}\n' for i, label in enumerate(labelled.LABELS['xnli'] * 4))
    (folder / 'fewshot' / 'xnli' / 'dev-en.tsv').write_text(''.join(pairs))
    mrs_build_test.write_dumps(folder / 'dumps')
    mtg_build_test.write_stories(folder / 'roc.csv', 20)


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp('former')
    _inputs(folder)
    return folder


@pytest.mark.parametrize('name', command_line.FORMER)
def test_a_former_program_still_does_its_work(name, folder):
    """As it was typed: what it makes, its messages and its exit code are there."""
    line, code, left = WORK[name]
    support = str(pages.PROJECT / 'tests' / 'support')
    paths = os.pathsep.join([support, os.environ.get('PYTHONPATH', '')])
    done = subprocess.run(
        [warm.python(), '-m', f'xlbench.{name}', *line.split()], cwd=folder,
        env=os.environ | {'PYTHONPATH': paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = f'xlbench {name} is now `xlbench {command_line.FORMER[name]}`'
    first, *others = done.stderr.splitlines()
    assert (done.returncode, first) == (code, said), done.stderr
    assert left in others[-1] if code else (folder / left).is_file(), done.stderr
