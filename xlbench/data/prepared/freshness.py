"""Tells stale preparations: as declared, never because a file of code was edited elsewhere.

The examples depend on the inputs and the vocabulary, whose hashes are in the manifest, and on what
is declared here: the statements of the task file, and the versions below.
"""

import ast
import functools
import hashlib
import io
import os
import pathlib
import stat
import tokenize

import xlbench.tasks as tasks
from xlbench.data import readers
from xlbench.data.prepared.format import FORMAT, InputEntry, Manifest, safe_name
from xlbench.system import errors

# Raise one when the same inputs are to give other records, rates or ids from now on; everything
# that was prepared before is then made anew. tests/data/freshness_test.py holds what they make.
VERSIONS = {
    'format': 1,  # The manifest and the shards: data/prepared/.
    'benchmarks': 1,  # The tasks of mixtures: benchmarks/.
    'languages': 1,  # Names and tags of languages: benchmarks/languages.csv.
    'readers': 1,  # Files to records: data/readers, rows, labelled.py, conllu.py, buckets.
    'preprocessors': 1,  # Records to texts: pipeline/.
    'mixtures': 1,  # Rates: pipeline/mixtures.py.
    'tokenizers': 1,  # Texts to ids: data/tokenizers, vocabularies.py.
}
CHANGED = 'its task file, or a declared version of what prepares it, has changed'
# No statement changes by these.
_NO_STATEMENTS = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
)  # fmt: skip


def of_task_file(path: str | os.PathLike) -> str | None:
    """Hashes the versions, and the statements of a task file and of the tasks/ that it imports.

    The versions alone count where there is no such file, as for a task file of the user's own,
    which is among the inputs of its tasks.
    """
    digest = hashlib.sha256(repr(sorted(VERSIONS.items())).encode())
    try:
        for file in _with_neighbours(pathlib.Path(path)):
            source = statements(file.read_bytes())
            digest.update(file.name.encode() + b'\0' + source.encode() + b'\0')
    except SyntaxError as error:  # It is being edited.
        raise errors.UserError(
            f'{path}, or a task file that it imports, is no valid Python: {error.msg}, line '
            f'{error.lineno}; correct it, and start the same command again'
        ) from None
    return digest.hexdigest()


def statements(source: bytes) -> str:
    """Returns Python source without comments, docstrings and line breaks.

    Example: b'def f():\\n  "Doc."\\n  return 1  # One.' -> 'def f ( ) : return 1'
    """
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
    }
    return ' '.join(
        token.string
        for token in tokenize.tokenize(io.BytesIO(source).readline)
        if token.type not in _NO_STATEMENTS and token.start not in docstrings
    )


def _with_neighbours(path: pathlib.Path) -> list[pathlib.Path]:
    """Lists the file if it exists, and the files of the same folder that it imports, in order."""
    files: dict[str, pathlib.Path] = {}
    names = [path.stem]
    while names:
        file = path.with_name(f'{names.pop()}.py')
        if file.name in files or not file.is_file():
            continue
        files[file.name] = file
        for node in ast.walk(ast.parse(file.read_bytes())):
            if not isinstance(node, ast.ImportFrom):
                continue
            module = node.module or ''
            if module in (tasks.__name__, 'tasks'):
                names += [alias.name for alias in node.names]
            elif module.startswith(f'{tasks.__name__}.'):
                names.append(module.rpartition('.')[2])
    return [files[name] for name in sorted(files)]


def code_fingerprint(name: str) -> str | None:
    """Returns a hash of the code that defines task or mixture `name`; see freshness.py."""
    return _of_word(safe_name(name, 'task').split('_')[0])


def is_of_other_code(name: str, made: str | None) -> bool:
    """Returns whether the code of a task or mixture has another fingerprint than `made`."""
    return code_fingerprint(name) not in (None, made)


@functools.cache
def _of_word(word: str) -> str | None:
    """Hashes a task file once for all of its tasks: a run opens many of one."""
    return of_task_file(os.path.join(os.path.dirname(tasks.__file__), f'{word}.py'))


def _is_changed(path: str, expected: InputEntry) -> bool | None:
    """Returns whether an input file differs from the one that was read; None if it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size != expected.get('bytes'):
        return True
    # The hash decides: a fresh checkout has other times and the same bytes.
    return status.st_mtime_ns != expected.get('mtime_ns') and (
        readers.sha256(path) != expected.get('sha256')
    )


def stale_reason(manifest: Manifest, root: str) -> str | None:
    """Says why a preparation no longer fits its inputs and code; None if it does.

    Prepared data that was copied somewhere without any of its input files stays valid: nothing
    there could contradict it, and nothing there could make it again. Relative paths of inputs
    start from `root`.
    """
    if manifest.get('format') != FORMAT:
        return f'its format is {manifest.get("format")!r}, this code writes {FORMAT}'
    if manifest.get('code') and is_of_other_code(manifest['task'], manifest['code']):
        return CHANGED
    inputs = manifest.get('inputs') or []
    changed = [_is_changed(os.path.join(root, entry['path']), entry) for entry in inputs]
    for entry, state in zip(inputs, changed, strict=True):
        if state:
            return f'its input {entry["path"]} has changed'
    if inputs and all(state is None for state in changed):
        return None
    if None in changed:
        return f'its input {inputs[changed.index(None)]["path"]} is gone'
    known = {os.path.join(root, entry['path']) for entry in inputs}
    for pattern in manifest.get('patterns') or []:
        for path in readers.find(os.path.join(root, pattern)):
            if path not in known:
                return f'there is a further input {path}'
    return None
