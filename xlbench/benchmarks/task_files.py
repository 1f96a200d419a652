"""A user's own task files: where they are looked for, and how they are imported.

They are the files of the folder that XLBENCH_TASKS names (or the one file that it names), then
those of `tasks/` in the current folder. The task `news_title_de` stands in `news.py`, or in a
registry of any name; metrics may stand in any of the files. A file imports its neighbours with
`from .news_metrics import length`.

Only the user puts files there. Nothing else that is named in a workdir or in prepared data is
imported, so that those may be somebody else's. For the same reason `tasks/` does not count where
the current folder is a workdir or a model, that is, has a config.json.
"""

import ast
import contextlib
import importlib.util
import os
import pathlib
import re
import sys
import types

import xlbench.tasks as tasks
from xlbench.system import errors, files

PACKAGE = 'xlbench_user_tasks'  # What the files outside of this repository are modules of.
_HEAVY = ('tensorflow', 'seqio', 't5', 't5x')
REPOSITORY = pathlib.Path(tasks.__file__).resolve().parent


def user_paths() -> list[pathlib.Path]:
    """The task files of the user, those that XLBENCH_TASKS names first."""
    paths = []
    if named := os.environ.get('XLBENCH_TASKS'):
        place = pathlib.Path(os.path.expanduser(named)).resolve()
        if not place.is_dir() and not (place.is_file() and place.suffix == '.py'):
            raise errors.UserError(
                f'XLBENCH_TASKS={named} is not a folder of task files, nor one of them (.py)'
            )
        paths += _programs(place) if place.is_dir() else [place]
    if not is_in_a_workdir():
        paths += _programs((pathlib.Path.cwd() / 'tasks').resolve())
    theirs = (path for path in paths if path.parent != REPOSITORY and path.stem[0] != '_')
    return [path for path in theirs if path.is_file()]


def _programs(folder: pathlib.Path) -> list[pathlib.Path]:
    return [folder / name for name in files.names(folder) if name.endswith('.py')]


def is_in_a_workdir() -> bool:
    """Returns whether the current folder is a workdir or a model; its tasks/ may be foreign."""
    return (pathlib.Path.cwd() / 'config.json').exists()


def find(word: str) -> pathlib.Path | None:
    """The task file WORD.py of xlbench or of the user; None if there is none.

    Raises:
      UserError: there are both. Neither may hide the other: one task name has one meaning.
    """
    ours = REPOSITORY / f'{word}.py'
    theirs = next((path for path in user_paths() if path.stem == word), None)
    if not ours.is_file():
        return theirs
    if theirs and theirs.read_bytes() != ours.read_bytes():  # Another clone has the same file.
        raise errors.UserError(
            f'{theirs} has the name of a task file that comes with xlbench; give it another one, '
            f'and its tasks another first word than {word!r}'
        )
    return ours


def registries(word: str = '') -> list[pathlib.Path]:
    """The user's files that may register tasks of any name, as those written for T5X do.

    The first word of a task's name stands in such a file somewhere, maybe before a _.
    """
    alone = re.compile(rf'(?<![^\W_]){re.escape(word)}(?![^\W_])')
    texts = {path: path.read_text(encoding='utf-8', errors='replace') for path in user_paths()}
    theirs = (path for path, text in texts.items() if 'seqio' in text or 'xlbench' in text)
    return [path for path in theirs if alone.search(texts[path])]


def of_user(task: str) -> pathlib.Path | None:
    """The user's file that may declare a task or mixture; pipeline.get looks there, too."""
    word = task.split('_')[0]
    path = find(word)
    is_theirs = path is not None and path.parent != REPOSITORY
    return path if is_theirs else next(iter(registries(word)), None)


def name_of(file: str | None) -> str | None:
    """The name of a task file, 'tasks/news.py'; None for a file of another place."""
    path = pathlib.Path(file or '').resolve()
    is_one = path.suffix == '.py' and (path.parent == REPOSITORY or path in user_paths())
    return f'tasks/{path.name}' if is_one and find(path.stem) == path else None


def load(path: pathlib.Path) -> types.ModuleType:
    """Imports a file that `find` has named, once, whatever the current folder shadows."""
    is_ours = path.parent == REPOSITORY
    package = tasks.__name__ if is_ours else PACKAGE
    name = f'{package}.{path.stem}'
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known
    if not is_ours:  # So that a file can import its neighbours.
        parent = sys.modules.setdefault(PACKAGE, types.ModuleType(PACKAGE))
        parent.__path__ = list(dict.fromkeys(str(file.parent) for file in user_paths()))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f'{path} is no module')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def is_loaded(path: pathlib.Path) -> bool:
    """Returns whether a file of the user's has been imported."""
    return getattr(sys.modules.get(f'{PACKAGE}.{path.stem}'), '__file__', None) == str(path)


def is_heavy(path: pathlib.Path) -> bool:
    """Returns whether a task file imports TensorFlow or SeqIO, which take many seconds."""
    return any(name.partition('.')[0] in _HEAVY for name in imported_modules(path))


def imported_modules(path: pathlib.Path) -> set[str]:
    """The modules that the import statements of a file name, found without running it.

    `from a.b import c` names a.b, and a.b.c, which may be a module.
    """
    names = set()
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f'{node.module}.{alias.name}' for alias in node.names)}
    return names
