"""What the sample corpora share: each is written whole into a folder below the data root, or not.

`<root>/SAMPLE.json` lists the corpora that are complete; with that file, nothing in the root is
real data.
"""

import json
import os
import tempfile
from collections.abc import Callable, Sequence

from xlbench import errors

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
    folder, vocabulary = os.path.join(root, name), os.path.join(root, vocabulary)
    complete = _corpora(root)
    is_new = complete.get(name) != about or not os.path.exists(folder)
    if not is_new and os.path.isfile(vocabulary):
        return False
    if is_new:
        if os.path.exists(folder) and not os.path.exists(os.path.join(folder, _MARK)):
            raise errors.UserError(
                f'{folder} holds files that are no sample; they are kept. Choose another root for '
                'the sample corpora, for example data/sample'
            )
        os.makedirs(root, exist_ok=True)
        # From here until the end the corpus is incomplete, and the list says so.
        if complete.pop(name, None):
            _describe(root, complete)
        _replace(folder, fill)
    write_bytes(vocabulary, train(folder))
    _describe(root, complete | {name: about})
    return True


def _replace(folder: str, fill: Callable[[str], None]) -> None:
    """Puts a new folder in the place of an old one in a moment."""
    root, name = os.path.split(folder)
    with tempfile.TemporaryDirectory(prefix=f'.{name}.', dir=root) as temporary:
        new = os.path.join(temporary, 'new')
        os.mkdir(new)
        fill(new)
        write_text(os.path.join(new, _MARK), '')
        if os.path.exists(folder):
            os.rename(folder, os.path.join(temporary, 'old'))
        os.rename(new, folder)


def _corpora(root: str) -> dict[str, dict[str, int | str]]:
    """The complete corpora of a root; none if the list is missing, broken or of another form."""
    try:
        with open(os.path.join(root, _DESCRIPTION), encoding='utf-8') as file:
            return dict(json.load(file)['corpora'])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _describe(root: str, corpora: dict[str, dict[str, int | str]]) -> None:
    text = json.dumps({'corpora': corpora, 'note': NOTE}, indent=1, sort_keys=True)
    write_text(os.path.join(root, _DESCRIPTION), text + '\n')


def write_text(path: str, text: str) -> None:
    """Writes a file whole or not at all; its folder is made if missing."""
    write_bytes(path, text.encode('utf-8'))


def write_bytes(path: str, data: bytes) -> None:
    """Writes a file whole or not at all; its folder is made if missing."""
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    temporary = f'{path}.{os.getpid()}.tmp'
    with open(temporary, 'wb') as file:
        file.write(data)
    os.replace(temporary, path)


def main(argv: Sequence[str], program: str, write: Callable[[str, int], bool]) -> int:
    """The command line of a corpus; `write` takes root and seed."""
    parser = errors.ArgumentParser(program, __doc__)
    parser.add_argument('--root', default='data/sample', help='the data root to write')
    parser.add_argument('--seed', type=int, default=0)
    options = parser.parse_args(argv[1:])
    write(options.root, options.seed)
    print(f'sample corpora (made-up text, seed {options.seed}) are in {options.root}')
    return 0
