"""Shared code of the sample corpora: each is written whole into a folder below the data root.

`<root>/SAMPLE.json` lists the corpora that are complete; with that file, nothing in the root is
real data.
"""

import functools
import json
import os
import shutil
from collections.abc import Callable, Sequence

from xlbench.system import errors, files, locks

NOTE = (
    'Made-up text from the grammars of xlbench; not the benchmark it is named after, no real data.'
)
_DESCRIPTION = 'SAMPLE.json'
_MARK = '.sample'  # In <root>/<name>: a sample, which may be replaced.


def write(
    root: str,
    name: str,
    about: dict[str, int | str],
    vocabulary: str,
    fill: Callable[[str], None],
    train: Callable[[str], bytes],
) -> bool:
    """Writes a corpus and its vocabulary; nothing where they are already.

    Args:
        root: The data root, made if missing. Official files in it are never replaced.
        name: The corpus, and its folder in the root.
        about: What its bytes depend on, such as the seed; it is written anew when that changes.
        vocabulary: Name of the vocabulary's file in the root; another one trains it again.
        fill: Writes the corpus into an empty folder.
        train: Given the folder of the corpus, returns the vocabulary.

    Returns:
        Whether anything was written.
    """
    vocabulary = os.path.join(root, vocabulary)
    if _is_there(root, name, about, vocabulary):
        return False
    with locks.file(os.path.join(root, _DESCRIPTION), wait=functools.partial(print, flush=True)):
        return _write(root, name, about, vocabulary, fill, train)


def _is_there(root: str, name: str, about: dict[str, int | str], vocabulary: str) -> bool:
    is_new = _corpora(root).get(name) != about or not os.path.exists(os.path.join(root, name))
    return not is_new and os.path.isfile(vocabulary)


def _write(
    root: str,
    name: str,
    about: dict[str, int | str],
    vocabulary: str,
    fill: Callable[[str], None],
    train: Callable[[str], bytes],
) -> bool:
    """Writes a corpus under the lock of `write`."""
    if _is_there(root, name, about, vocabulary):  # Another one has just written it.
        return False
    folder, complete = os.path.join(root, name), _corpora(root)
    if complete.get(name) != about or not os.path.exists(folder):
        if os.path.exists(folder) and not os.path.exists(os.path.join(folder, _MARK)):
            raise errors.UserError(
                f'{folder} holds files that are no sample; they are kept. Choose another root for '
                'the sample corpora, for example data/sample'
            )
        # From here until the end the corpus is incomplete, and the list says so.
        if complete.pop(name, None):
            _describe(root, complete)
        _replace(folder, fill)
    files.write(vocabulary, train(folder))
    _describe(root, complete | {name: about})
    return True


def _replace(folder: str, fill: Callable[[str], None]) -> None:
    """Puts a new folder in the place of an old one in a moment."""
    root, name = os.path.split(folder)
    temporary = os.path.join(root, f'.{name}.tmp')
    shutil.rmtree(temporary, ignore_errors=True)  # What a process that was killed left here.
    try:
        new = os.path.join(temporary, 'new')
        os.makedirs(new)
        fill(new)
        write_text(os.path.join(new, _MARK), '')
        if os.path.exists(folder):
            os.rename(folder, os.path.join(temporary, 'old'))
        os.rename(new, folder)
        files.sync_folder(root)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _corpora(root: str) -> dict[str, dict[str, int | str]]:
    """The complete corpora of a root; none if the list is missing, broken or of another form."""
    try:
        with open(os.path.join(root, _DESCRIPTION), encoding='utf-8') as file:
            return dict(json.load(file)['corpora'])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _describe(root: str, corpora: dict[str, dict[str, int | str]]) -> None:
    text = json.dumps({'corpora': corpora, 'note': NOTE}, indent=1, sort_keys=True)
    files.write(os.path.join(root, _DESCRIPTION), text + '\n')


def write_text(path: str, text: str) -> None:
    """Writes a file of a corpus, which appears as a whole; its folder is made if missing."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(text.encode('utf-8'))


def main(argv: Sequence[str], program: str, write: Callable[[str, int], bool]) -> int:
    """The command line of a corpus; `write` takes root and seed."""
    parser = errors.ArgumentParser(program, __doc__)
    parser.add_argument('--root', default='data/sample', help='the data root to write')
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args(argv[1:])
    write(options.root, options.seed)
    print(f'sample corpora (made-up text, seed {options.seed}) are in {options.root}')
    return 0
