"""What the documentation says works: its commands and Python blocks, run by a newcomer.

The commands run as they are written, in a fresh clone and a folder beside it that holds nothing but
small sample corpora, with relative paths. What takes minutes, or what the machine cannot have, is
made small by flags behind the command, or by files of the right form that are there before; what is
not run has its reason. All this is in tests/support/readme.toml. A command without a row there
fails the test, and so does a page or heading with commands that is in none of GROUPS.
"""

import functools
import pathlib
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence

import pages
import pytest
import readme_files
from newcomer import Newcomer

from xlbench.prepare import __main__ as prepare

PLAN = tomllib.loads(pathlib.Path(readme_files.__file__).with_name('readme.toml').read_text())
NAMES: dict[str, str] = {}
for _name, _text in PLAN.pop('names').items():
    NAMES[_name] = _text.strip().format_map(NAMES)


def _commands() -> Iterator[pages.Block]:
    """The blocks of commands that are not copied from a finished run, as those of the zoo are."""
    return (block for block in pages.blocks('sh') if block.page != 'zoo.md')


def _words(page: str, command: str) -> str:
    """Finds the words of a page's table that stand for a command."""
    found = [words for words in PLAN[page] if words in f'{command}$']
    assert len(found) == 1, f'{page}: {command}: {found}'
    return found[0]


def test_every_command_has_a_row():
    written = [(block.page, command) for block in _commands() for command in block.commands]
    rows = [(page, _words(page, command)) for page, command in written]
    assert sorted(rows) == sorted((page, words) for page in PLAN for words in PLAN[page])
    settings = [PLAN[page][words] for page, words in rows]
    assert all(isinstance(row, str) or {'prints', 'leaves'} & set(row) for row in settings)


# One newcomer follows the places of a group, one after another.
GROUPS = (
    (
        'README.md', 'index.md', 'start.md', 'reports.md', 'tracking.md', 'mtg.md',
        'checkpoints.md', 'inference.md', 'translation.md#Machine translation', 'devices.md',
        'reproduce.md',
    ),
    (
        'data.md', 'clidsum.md', 'translation.md#Translators from parallel texts',
        'translation.md#Real decoders on a laptop', 'mrs.md', 'fewshot.md', 'translation.md#Chains',
    ),
    ('migration.md', 'your_own.md'),
)  # fmt: skip


@pytest.mark.parametrize(
    'places',
    # The README and what it begins with on every change; all pages each night.
    [GROUPS[0][:3], *(pytest.param(group, marks=pytest.mark.nightly) for group in GROUPS)],
    ids=lambda places: places[-1],
)
def test_the_commands_work(places: Sequence[str], tmp_path, corpora):
    newcomer = Newcomer(tmp_path)
    if 'your_own.md' not in places:  # There, nothing is read but one's own.
        folder = corpora('mtg') if places[-1] == 'start.md' else corpora(*prepare.SAMPLES)
        shutil.copytree(folder, newcomer.home / 'data' / 'sample')
    programs = {place: [] for place in places}
    for block in pages.blocks('python'):
        if match := re.match(r'# ((?:tasks/)?\w+\.py)\n', block.text):
            readme_files.own_data(newcomer)
            before = newcomer.home / match[1]
            newcomer.write(match[1], (before.read_text() if before.exists() else '') + block.text)
        else:
            for place in filter(block.is_at, places):
                programs[place].append(block.text)
    for place in places:
        for block in filter(lambda block: block.is_at(place), pages.blocks('sh')):
            for command in block.commands:
                follow(newcomer, command, PLAN[block.page][_words(block.page, command)])
    for program in filter(None, programs.values()):  # The blocks of a place are one program.
        newcomer.write('block.py', '\n'.join(program))
        newcomer.run('python block.py')
    if 'your_own.md' in places:
        names = (
            'news_lead_de,reviews_stars_en:test,reviews_places_en:test,chat_retrieval_de_de:test,'
            'meetings_summary_en_de:test,meetings_translation_en_de:test,'
            'subtitles_translation_en_de'
        )
        newcomer.run(
            f'python -m xlbench.prepare --mixture={names} --split=train '
            '--vocabulary=data/news_title_de.model'
        )


@pytest.fixture(scope='module')
def corpora(tmp_path_factory) -> Callable[..., pathlib.Path]:
    """Writes sample corpora with few texts, for all newcomers; package_test.py begins without."""

    @functools.cache
    def write(*names: str) -> pathlib.Path:
        folder = tmp_path_factory.mktemp('corpora')
        readme_files.small_corpora(folder, names)
        return folder

    return write


def follow(newcomer: Newcomer, command: str, row: str | dict[str, str]) -> None:
    """Runs a command as its row says."""
    if isinstance(row, str):
        return
    if 'prepare' in row:
        name, *words = row['prepare'].split()
        getattr(readme_files, name)(newcomer, *words)
    head, redirect, target = command.partition(' < ')
    flags = row.get('flags', '').format_map(NAMES)
    printed = newcomer.run(
        f'{head} {flags}{redirect}{target}', HF_HOME=str(newcomer.home / 'hub')
    )
    assert row.get('prints', '') in printed, f'{command} printed\n{printed}'
    assert 'leaves' not in row or (newcomer.home / row['leaves']).exists(), printed


def test_every_command_and_program_is_followed_once():
    places = [place for group in GROUPS for place in group]
    for block in (*_commands(), *pages.blocks('python')):
        assert sum(map(block.is_at, places)) == 1, (block.page, block.heading)
