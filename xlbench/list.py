"""Lists the names of tasks, metrics, configs, models or languages.

  xlbench list tasks mtg_qg
  xlbench list models xlmr
  xlbench list languages

A word keeps the lines that have it. Tasks are those of the benchmarks, and the files that declare
your own; models are the families with their sizes, as config.model.family and config.model.size
name them.
"""

import ast
import os
import sys
from collections.abc import Iterator, Sequence

from xlbench import benchmarks, config
from xlbench.benchmarks import languages as languages_lib, task_files
from xlbench.models.families import SIZES
from xlbench.system import errors
from xlbench.system.command_line import CommandLine, flag
from xlbench.system.errors import UserError


def tasks() -> Iterator[tuple[str, str]]:
    """(name, its benchmark) of all tasks, and the user's files of tasks."""
    for word in benchmarks.BENCHMARKS:
        yield from ((name, word) for name in benchmarks.get(word).task_names())
    for path in task_files.user_paths():
        yield f'{path.stem}_...', f'your tasks in {os.path.relpath(path)}'


def metrics() -> Iterator[tuple[str, str]]:
    """(name, '') of the metrics that command lines and configs name."""
    from xlbench.metrics import suite

    yield from ((name, '') for name in (*suite.NAMES, 'bertscore=MODEL@LAYER', 'bleurt=FOLDER'))
    yield 'fitted_rating=FILE', 'a rating fitted by xlbench annotate'
    yield 'tasks/FILE.py:FUNCTION', 'your own'


def configs() -> Iterator[tuple[str, str]]:
    """(name, first line of its docstring) of the configs that come with the package."""
    for name, path in config.config_files().items():
        doc = ast.get_docstring(ast.parse(path.read_text('utf-8'))) or ''
        yield name, doc.partition('\n')[0]


def models() -> Iterator[tuple[str, str]]:
    """(family and size, its width and layers) of all sizes."""
    for family, sizes in SIZES.items():
        for size, fields in sizes.items():
            layers = fields.get('num_layers') or fields.get('num_encoder_layers')
            yield f'{family} {size}', f'{layers} layers of {fields["emb_dim"]}'


def languages() -> Iterator[tuple[str, str]]:
    """(code, name and script) of the table of languages."""
    for code, row in languages_lib.LANGUAGES.items():
        yield code, f'{row.name}, {row.script}'


KINDS = {
    'tasks': tasks, 'metrics': metrics, 'configs': configs, 'models': models,
    'languages': languages,
}  # fmt: skip


FLAGS = (
    flag('kind', 'whose names are listed', choices=tuple(KINDS)),
    flag('word', 'part of the lines to keep', '', nargs='?'),
)


def main(argv: Sequence[str]) -> None:
    """The command line, the program's name first."""
    args = CommandLine('list', __doc__, FLAGS).parse(argv[1:])
    rows = list(KINDS[args.kind]())
    kept = [row for row in rows if args.word.lower() in ' '.join(row).lower()]
    if not kept:
        raise UserError(f'none of the {len(rows)} {args.kind} has {args.word!r} in its line')
    width = max(len(name) for name, _ in kept)
    print('\n'.join(f'{name:{width}}  {about}'.rstrip() for name, about in kept))


if __name__ == '__main__':
    sys.exit(errors.run_main(main, sys.argv))
