"""Looks tasks and mixtures up, and imports the file that has them."""

import contextlib
import hashlib
import pathlib
import re
import threading
import traceback
import types
from collections.abc import Iterator

from xlbench.benchmarks import task_files
from xlbench.pipeline import declarations
from xlbench.pipeline.declarations import DeclaredMixture, DeclaredTask
from xlbench.system import errors

_user_files: dict[str, str] = {}  # Word of a task, or its whole name -> the file it stands in.
_imported: dict[str, str] = {}  # A user's file -> sha256 of it when it was imported.
_lock = threading.RLock()  # What a file registers is known by what was there before.


def get(name: str) -> DeclaredTask | DeclaredMixture:
    """The task or mixture of that name; imports the task file it must stand in.

    Raises:
      UserError: there is none; or a task file has a mistake.
    """
    if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.]*', name):
        raise errors.UserError(f'{name!r} is not a name of a task or mixture')
    with _lock:
        return _get(name)


def _get(name: str) -> DeclaredTask | DeclaredMixture:
    _load_tasks(name.split('_')[0])
    if (task := declarations.find(name)) is not None:
        return task
    # A registry that was written for T5X is called as its author liked, and has tasks of any name.
    for path in task_files.registries():
        _import_file(path, path.stem)
    if (task := declarations.find(name)) is not None:
        return task
    for path in task_files.REPOSITORY.glob('[a-z]*.py'):
        _load_tasks(path.stem)
    raise errors.unknown(
        'task or mixture',
        name,
        declarations.names(),
        'Your own tasks have to be in a file of the folder tasks here, or in the file or folder '
        'that XLBENCH_TASKS names',
    )


def check_split(name: str, split: str) -> None:
    """Raises UserError unless a task, or each task of a mixture, has a split."""
    entry = get(name)
    for task in declarations.members(entry):
        check_split_of(task, split, f' (in mixture {name})' if task is not entry else '')


def check_split_of(task: DeclaredTask, split: str, where: str = '') -> None:
    """The same of one task; `where` is said of it in the message."""
    with blaming(task.name):
        splits = tuple(task.splits)
    if split not in splits:
        raise errors.UserError(
            f'task {task.name}{where} has no split {split!r}; it has {", ".join(splits)}'
        )


@contextlib.contextmanager
def blaming(name: str) -> Iterator[None]:
    """An error in this block is said in one line if a task of the user's own has raised it."""
    try:
        yield
    except (errors.UserError, OSError):
        raise
    except Exception as error:
        if (path := user_task_file(name)) is None:
            raise
        raise mistake(error, path, f'task {name}: ') from error


def user_task_file(task: str) -> str | None:
    """The file that declares a task outside this repository, None for the tasks that come along."""
    word = task.split('_')[0]
    if known := _user_files.get(task) or _user_files.get(word):
        return known
    if (task_files.REPOSITORY / f'{word}.py').is_file():
        return None
    # Another part of the program has imported the file, for a metric that stands in it.
    loaded = [path for path in task_files.registries(word) if task_files.is_loaded(path)]
    return str(loaded[0]) if loaded else None


def edited_task_file(task: str) -> str | None:
    """The user's file that declares a task, if it was edited after this process had imported it."""
    path = user_task_file(task)
    if path not in _imported or _imported[path] == _hash(path):
        return None
    return path


def _hash(path: str) -> str | None:
    """Hashes a file's bytes; None if there is no file, as while an editor replaces it."""
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _load_tasks(word: str) -> None:
    if path := task_files.find(word):
        _import_file(path, word)


def _import_file(path: pathlib.Path, word: str) -> types.ModuleType:
    """Imports a task file once.

    Raises:
      UserError: a file of the user has a mistake; with the line of it.
    """
    ours = path.parent == task_files.REPOSITORY
    if not ours:
        _user_files[word] = str(path)
        if not task_files.is_loaded(path) and (version := _hash(str(path))):
            _imported[str(path)] = version
    before = declarations.names()
    try:
        module = task_files.load(path)
    except Exception as error:
        declarations.remove(declarations.names() - before)  # Half a file is none.
        if ours:
            raise
        raise mistake(error, str(path)) from error
    if not ours:
        _user_files.update(dict.fromkeys(declarations.names() - before, str(path)))
    return module


def mistake(error: Exception, path: str, what: str = '') -> errors.UserError:
    """Returns what went wrong in a task file of the user, in one line with its place.

    Args:
      error: what was raised.
      path: of the file.
      what: was being done, for the start of the line.
    """
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == path]  # fmt: skip
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    place = ':'.join(map(str, [path, *([line] if line else lines[-1:])]))
    said = ' '.join(str(getattr(error, 'message', error)).split())[:300]
    kind = '' if isinstance(error, errors.UserError) else f'{type(error).__name__}: '
    return errors.UserError(f'{place}: {what}{kind}{said}')
