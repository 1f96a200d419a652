"""What the documentation says works: its commands and Python blocks, run by a newcomer.

The commands run as they are written, in a fresh clone and a folder beside it that holds nothing but
small sample corpora, with relative paths. What takes minutes, or what the machine cannot have, is
made small by flags behind the command (`flags`), or by files of the right form that are there
before (`prepare`). Whatever is not run has its reason beside it (`skip`). PLAN has all this, from
two files of tests/support: the pages of benchmarks and of translation are in readme_benchmarks.py,
all others in readme_usage.py. A command without a line there fails the test, and so does a page or
heading with commands that is in none of GROUPS.
"""

import pathlib
import re
import shutil
from collections.abc import Iterator, Sequence

import pages
import pytest
import readme_benchmarks
import readme_usage
from newcomer import Newcomer
from readme_files import own_data, small_corpora
from readme_steps import Step

PLAN = readme_usage.PLAN | readme_benchmarks.PLAN


def _commands() -> Iterator[pages.Block]:
    """The blocks of commands that are not copied from a finished run, as those of the zoo are."""
    return (block for block in pages.blocks('sh') if block.page != 'zoo.md')


def test_every_command_has_a_plan():
    written = {page: [] for page in PLAN}
    for block in _commands():
        written.setdefault(block.page, []).extend(block.commands)
    for page, commands in written.items():
        assert len(commands) == len(set(commands)), page
        assert set(commands) == set(PLAN.get(page, {})), page
    assert all(s.skip or s.prints or s.leaves for plan in PLAN.values() for s in plan.values())


# One newcomer follows the places of a group, one after another.
GROUPS = (
    (
        'README.md',
        'index.md',
        'start.md',
        'reports.md',
        'tracking.md',
        'mtg.md',
        'checkpoints.md',
        'inference.md',
        'translation.md#Machine translation',
        'devices.md',
        'reproduce.md',
    ),
    (
        'data.md',
        'clidsum.md',
        'translation.md#Translators from parallel texts',
        'mrs.md',
        'fewshot.md',
        'translation.md#Chains',
    ),
    ('migration.md', 'your_own.md'),
)


@pytest.mark.parametrize(
    'places',
    # The README and what it begins with on every change; all pages each night.
    [GROUPS[0][:3], *(pytest.param(group, marks=pytest.mark.nightly) for group in GROUPS)],
    ids=lambda places: places[-1],
)
def test_the_commands_work(places: Sequence[str], tmp_path, corpora):
    newcomer = Newcomer(tmp_path)
    if 'your_own.md' not in places:  # There, nothing is read but one's own.
        shutil.copytree(corpora, newcomer.home / 'data' / 'sample')
    programs = {place: [] for place in places}
    for block in pages.blocks('python'):
        if match := re.match(r'# (tasks/\w+\.py)\n', block.text):
            own_data(newcomer)
            before = newcomer.home / match[1]
            newcomer.write(match[1], (before.read_text() if before.exists() else '') + block.text)
        else:
            for place in filter(block.is_at, places):
                programs[place].append(block.text)
    for place in places:
        for block in filter(lambda block: block.is_at(place), pages.blocks('sh')):
            for command in block.commands:
                follow(newcomer, command, PLAN[block.page][command])
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
def corpora(tmp_path_factory) -> pathlib.Path:
    """The sample corpora with few texts, for all newcomers; package_test.py begins without any."""
    folder = tmp_path_factory.mktemp('corpora')
    small_corpora(folder)
    return folder


def follow(newcomer: Newcomer, command: str, step: Step) -> None:
    """Runs a command as its step says."""
    if step.skip:
        return
    if step.prepare:
        step.prepare(newcomer)
    head, redirect, target = command.partition(' < ')
    printed = newcomer.run(
        f'{head} {step.flags}{redirect}{target}', HF_HOME=str(newcomer.home / 'hub')
    )
    assert step.prints in printed, f'{command} printed\n{printed}'
    assert not step.leaves or (newcomer.home / step.leaves).exists(), printed


def test_every_command_and_program_is_followed_once():
    places = [place for group in GROUPS for place in group]
    for block in (*_commands(), *pages.blocks('python')):
        assert sum(map(block.is_at, places)) == 1, (block.page, block.heading)
