"""A task file of the user's own."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import pytest
import seqio

from xlbench import pipeline

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


def forget() -> None:
    """Forgets the file, as a new process has not imported it yet."""
    seqio.TaskRegistry.remove('mine_x')
    sys.modules.pop('xlbench_user_tasks.mine', None)
