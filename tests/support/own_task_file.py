"""A task file of the user's own."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import pytest
import seqio

from xlbench import pipeline
from xlbench.benchmarks import languages, task_files
from xlbench.pipeline import registry

_TEXT = """
from xlbench import pipeline

pipeline.register_text_task(
    'mine_x',
    files={'train': 'mine.jsonl'},
    format='jsonl',
    fields={'inputs': 'a', 'targets': 'b'},
    lang='en',
)
"""


@contextlib.contextmanager
def used(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Writes mine.py, whose task mine_x reads mine.jsonl of the data root, and has it found."""
    folder.mkdir()
    path = folder / 'mine.py'
    path.write_text(_TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('XLBENCH_TASKS', str(folder))
        try:
            yield path
        finally:
            forget()
            pipeline.registry._user_files.clear()


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Tasks and mixtures that are registered in this block are forgotten, with their files."""
    before = registry.names()
    try:
        yield
    finally:
        for name in registry.names() - before:
            # Not those that come along: their files are imported once.
            if not (task_files.REPOSITORY / f'{name.split("_")[0]}.py').is_file():
                registry.remove([name])
        for name in [name for name in sys.modules if name.startswith('xlbench_user_tasks.')]:
            del sys.modules[name]
        pipeline.registry._user_files.clear()


@contextlib.contextmanager
def languages_forgotten() -> Iterator[None]:
    """Languages that are registered in this block are forgotten; those of benchmarks stay."""
    before = set(languages.LANGUAGES)
    try:
        yield
    finally:
        for code in set(languages.LANGUAGES) - before:
            del languages.LANGUAGES[code]


def forget() -> None:
    """Forgets the file, as a new process has not imported it yet."""
    seqio.TaskRegistry.remove('mine_x')
    sys.modules.pop('xlbench_user_tasks.mine', None)
