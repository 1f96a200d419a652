"""The wheel: what is in it, and that it works where nothing else of the project is.

XLBENCH_EMPTY_ENVIRONMENT=1 installs it with what it says it needs, and nothing else, by plain pip
from the package index, with each Python that it is for and that is here, as a release is checked.
That takes minutes. Otherwise it shares the packages
of this environment, and what it imports is compared with what it says it needs.
"""

import ast
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator

import pytest
from newcomer import PROJECT, Home
from packaging.requirements import Requirement

import xlbench

# In the source tree -> in the wheel.
FOLDERS = {'xlbench': 'xlbench', 'tasks': 'xlbench/tasks', 'configs': 'xlbench/configs'}
OWN_TASK = """
from xlbench import pipeline

pipeline.register_text_task(
    'news_title_de',
    files={split: f'news/{split}.jsonl' for split in ('train', 'validation', 'test')},
    format='jsonl',
    fields={'inputs': 'text', 'targets': 'headline'},
    lang='de',
)
"""
OWN_CONFIG = """
from xlbench.configs import finetune


def get_config(variant=''):
    variant = 'tiny,objective=generation,mixture=news_title_de,steps=4,batch_size=4'
    config = finetune.get_config(variant)
    config.log_every = 2
    return config
"""
# A sample run of seconds: one language, few steps, one layer.
SHORT = ' '.join(
    [
        'mtg_mt5:sample,scenario=mono,task=qg,source=de,target=de',
        *(
            f'--config.stages.stage{stage}.num_steps=2 '
            f'--config.stages.stage{stage}.optimizer.warmup_steps=1'
            for stage in (1, 2)
        ),
        '--config.evals.dev.num_examples=8 --config.evals.test.num_examples=8',
        '--config.model.num_encoder_layers=1 --config.model.num_decoder_layers=1',
    ]
)


def tracked(*folders: str) -> list[str]:
    """The files of the checkout that git has or would take."""
    command = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard', *folders]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    # Not those that were removed since the last commit.
    return [name for name in run.stdout.split('\0') if name and (PROJECT / name).exists()]


@pytest.fixture(scope='module')
def built(tmp_path_factory) -> pathlib.Path:
    """The folder of the sdist of this source tree, and of the wheel that is made of it."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'  # A build writes beside its sources.
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, source / name)
    command = [sys.executable, '-m', 'uv', 'build', '--quiet', f'--out-dir={folder}']
    subprocess.run([*command, source], check=True)
    return folder


@pytest.fixture(scope='module')
def wheel(built) -> pathlib.Path:
    (path,) = built.glob('*.whl')
    return path


def test_the_sdist_is_a_checkout(built):
    """Tests, pages, launchers and locks can be used from it."""
    (path,) = built.glob('*.tar.gz')
    with tarfile.open(path) as archive:
        there = {name.partition('/')[2] for name in archive.getnames()}
    assert {'requirements-core.lock', 'launch/local.sh', 'tests/wall_test.py'} <= there
    assert {name for name in tracked() if not name.startswith('.')} <= there


def test_the_page_of_the_wheel_has_no_dead_link(wheel):
    content = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in content.namelist() if name.endswith('.dist-info/METADATA'))
    links = re.findall(r'\]\(([^)]+)\)', content.read(metadata).decode())
    ours = [link.partition('/blob/main/')[2] for link in links if '/blob/main/' in link]
    assert len(ours) > 10 and [link for link in links if not link.startswith('https://')] == []
    assert [name for name in ours if not (PROJECT / name.partition('#')[0]).exists()] == []


def test_the_core_lock_is_the_other_without_tensorflow():
    """The same versions, no package host, and nothing of TensorFlow's."""

    def locked(name: str) -> set[str]:
        text = (PROJECT / name).read_text('utf-8')
        assert '://' not in text and text.count('--hash=sha256:') > 500
        return set(re.findall(r'(?m)^([\w.-]+==\S+)', text))

    core, whole = locked('requirements-core.lock'), locked('requirements.lock')
    assert core < whole
    behind = ('tensorflow', 'seqio', 'keras', 'tf-')
    assert not [name for name in core if name.startswith(behind)]
    assert {name for name in whole if name.startswith('tensorflow-cpu==')}


def test_the_wheel_holds_every_file_and_one_top_level_package(wheel):
    expected = set()
    for name in tracked(*FOLDERS):
        folder, _, rest = name.partition('/')
        expected.add(f'{FOLDERS[folder]}/{rest}')
    names = {n for n in zipfile.ZipFile(wheel).namelist() if '.dist-info/' not in n}
    assert 'xlbench/tasks/mtg.py' in expected and 'xlbench/configs/mtg_mt5.py' in expected
    assert 'xlbench/tasks/samples/frames.txt' in expected
    assert names == expected
    assert wheel.name.startswith(f'xlbench-{xlbench.__version__}-')


def imported(tree: ast.AST) -> Iterator[str]:
    """The packages that a module imports when it is imported itself."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition('.')[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition('.')[0]
        elif not isinstance(node, ast.FunctionDef | ast.If | ast.Try):  # Those are optional.
            yield from imported(node)


def test_what_is_imported_is_declared(wheel):
    """What only tests or extras bring would be missing where a user installs the wheel."""
    content = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in content.namelist() if name.endswith('.dist-info/METADATA'))
    lines = content.read(metadata).decode().splitlines()
    needed = [Requirement(line[15:]) for line in lines if line.startswith('Requires-Dist: ')]
    declared = {one.name.lower().replace('_', '-') for one in needed if not one.marker}
    homes = importlib.metadata.packages_distributions()
    undeclared = {
        (name, package)
        for name in content.namelist()
        if name.endswith('.py')
        for package in imported(ast.parse(content.read(name)))
        if package not in sys.stdlib_module_names and package != 'xlbench'
        if not {home.lower().replace('_', '-') for home in homes.get(package, [])} & declared
    }
    # seqio needs TensorFlow, and says which version; optional programs, which say what to install.
    optional = {'tensorflow', 'apache_beam', 'wandb', 'mlflow'}
    assert {(name, package) for name, package in undeclared if package not in optional} == set()


class Machine(Home):
    """An empty folder, and an environment that has the wheel in it."""

    def __init__(self, folder: pathlib.Path, wheel: pathlib.Path, python: str = ''):
        programs = folder / 'venv' / 'bin'
        # Those of this environment's jaxlib end a process of another one that lacks a flag.
        super().__init__(folder, programs, **({'XLA_FLAGS': ''} if python else {}))
        subprocess.run([python or sys.executable, '-m', 'venv', folder / 'venv'], check=True)
        install = [programs / 'python', '-m', 'pip', 'install', '--quiet', wheel]
        if python:
            subprocess.run([*install, '--disable-pip-version-check'], check=True)
        else:
            subprocess.run([*install, '--no-deps', '--no-index'], check=True)
            (packages,) = (folder / 'venv').glob('lib/python*/site-packages')
            # Behind the wheel's own folder; and files that link to sources are not read there.
            others = sysconfig.get_paths()['purelib']
            (packages / 'shared_packages.pth').write_text(f'{others}\n', encoding='utf-8')


def interpreter(version: str) -> str:
    """A Python of a version on this machine, '' if there is none."""
    homes = pathlib.Path(os.environ.get('PYENV_ROOT') or pathlib.Path.home() / '.pyenv')
    places = [f'python{version}', *homes.glob(f'versions/{version}.*/bin/python')]
    for place in filter(None, map(shutil.which, map(str, places))):
        if not subprocess.run([place, '-c', ''], capture_output=True, check=False).returncode:
            return place
    return ''


@pytest.mark.nightly
@pytest.mark.parametrize('version', ['3.11', '3.12', '3.13'])
def test_the_wheel_trains_outside_the_checkout(wheel, tmp_path, version):
    python = ''
    if os.environ.get('XLBENCH_EMPTY_ENVIRONMENT'):
        if not (python := interpreter(version)):
            pytest.skip(f'no Python {version} on this machine')
    elif version != '.'.join(map(str, sys.version_info[:2])):
        pytest.skip('packages are shared with this Python; XLBENCH_EMPTY_ENVIRONMENT=1 installs')
    machine = Machine(tmp_path, wheel, python)
    assert machine.answers('xlbench --version') == f'xlbench {xlbench.__version__}\n'
    place = machine.answers('python -c "import xlbench; print(xlbench.__file__)"')
    assert place.startswith(str(tmp_path / 'venv'))
    assert '\n    mrs_build' in machine.answers('xlbench data --help')  # Programs of tasks/, too.
    # The embedded sample.
    printed = machine.answers(f'xlbench train --config={SHORT} --workdir=RUNS/sample')
    assert 'copy_input' in printed and (machine.home / 'RUNS/sample/DONE').is_file()
    # A task file and a config of the current folder.
    machine.write('tasks/news.py', OWN_TASK)
    machine.write('own.py', OWN_CONFIG)
    for split, count in (('train', 32), ('validation', 8), ('test', 8)):
        lines = (
            f'{{"text": "Der Zug {number} hielt am See.", "headline": "Zug {number} am See"}}\n'
            for number in range(count)
        )
        machine.write(f'data/news/{split}.jsonl', ''.join(lines))
    printed = machine.answers('xlbench train --config=own.py --workdir=RUNS/own')
    assert 'news_title_de' in printed and (machine.home / 'RUNS/own/DONE').is_file()
    # The page of a report is made of files of the package.
    machine.answers('xlbench report RUNS/own RUNS/sample --output=report')
    page = (machine.home / 'report/report.html').read_text(encoding='utf-8')
    assert re.search('<style>.+</style>', page, re.S) and 'rouge_l' in page
