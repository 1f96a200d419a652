"""The wheel: what is in it, and that it runs in an empty folder beside tasks of a user's own."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

import xlbench

PROJECT = pathlib.Path(__file__).parent.parent
# In the source tree -> in the wheel.
FOLDERS = {'xlbench': 'xlbench', 'tasks': 'xlbench/tasks', 'configs': 'xlbench/configs'}
OWN_TASK = """
from xlbench import pipeline

pipeline.register_text_task(
    'news_title_de',
    files={'train': 'news/train.jsonl'},
    format='jsonl',
    fields={'inputs': 'text', 'targets': 'headline'},
    lang='de',
)
"""


@pytest.fixture(scope='module')
def wheel(tmp_path_factory) -> pathlib.Path:
    """The wheel of this source tree."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'  # A build writes beside its sources.
    source.mkdir()
    for name in ('pyproject.toml', 'setup.py', 'README.md', 'LICENSE', *FOLDERS):
        subprocess.run(['cp', '-r', PROJECT / name, source], check=True)
    command = [sys.executable, '-m', 'uv', 'build', '--quiet', '--wheel', f'--out-dir={folder}']
    subprocess.run([*command, source], check=True)
    (path,) = folder.glob('*.whl')
    return path


def test_the_wheel_holds_every_source_file_and_one_top_level_package(wheel):
    expected = {
        f'{inside}/{path.relative_to(PROJECT / folder)}'
        for folder, inside in FOLDERS.items()
        for pattern in ('*.py', '*.csv', '*.txt', '*.html', '*.css', '*.js')
        for path in (PROJECT / folder).rglob(pattern)
    }
    names = {n for n in zipfile.ZipFile(wheel).namelist() if '.dist-info/' not in n}
    assert 'xlbench/tasks/mtg.py' in expected and 'xlbench/configs/mtg_mt5.py' in expected
    assert 'xlbench/tasks/samples/frames.txt' in expected
    assert names == expected
    assert wheel.name.startswith(f'xlbench-{xlbench.__version__}-')


def test_the_wheel_prepares_a_task_of_the_current_folder_and_names_its_configs(wheel, tmp_path):
    packages, folder = tmp_path / 'packages', tmp_path / 'mine'
    zipfile.ZipFile(wheel).extractall(packages)
    (folder / 'tasks').mkdir(parents=True)
    (folder / 'tasks' / 'news.py').write_text(OWN_TASK, encoding='utf-8')
    (folder / 'data' / 'news').mkdir(parents=True)
    lines = '{"text": "Der Zug hielt am See.", "headline": "Zug am See"}\n' * 3
    (folder / 'data' / 'news' / 'train.jsonl').write_text(lines, encoding='utf-8')
    environ = {k: v for k, v in os.environ.items() if not k.startswith('XLBENCH_')}
    script = (
        'import sys, xlbench; from xlbench import __main__, config, errors, prepare\n'
        f'assert xlbench.__path__ == [{str(packages / "xlbench")!r}], xlbench.__path__\n'
        "sample, _ = config.parse_flags(['train', '--config=mtg_mt5'], doc='')\n"
        "same, _ = config.parse_flags(['train', '--config', 'configs/mtg_mt5.py'], doc='')\n"
        'assert sample.to_dict() == same.to_dict()\n'
        "__main__._answer(['xlbench'])\n"  # A line on each program, those of tasks/ too.
        "prepare.make_sample('data')\n"
        "names = 'news_title_de:train,mtg_tg_de_de:validation'\n"
        "sys.exit(errors.run_main(prepare.main, ['prepare', f'--mixture={names}', '--root=data']))"
    )
    run = subprocess.run(
        [sys.executable, '-c', script],
        cwd=folder,
        env=environ | {'PYTHONPATH': str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert 'news_title_de/train: 3 examples' in run.stdout
    assert '  tasks.mrs_build    Builds ' in run.stdout
    assert 'xlbench = xlbench.__main__:main' in next(
        (packages / f'xlbench-{xlbench.__version__}.dist-info').glob('entry_points.txt')
    ).read_text(encoding='utf-8')
