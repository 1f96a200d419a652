"""The command that made a workdir, as a reader may type it: without the paths of one machine."""

import itertools
import os
import pathlib
import re
import shlex
from collections.abc import Sequence

# An absolute path of two names or more that does not continue a word, an address or another path.
_ABSOLUTE = re.compile(r'(?<![\w.~/<@*-])/(?:[\w.+@~%-]+/)+[\w.+@~%-]*')
_PACKAGE = 'xlbench'


def command(argv: Sequence[str], cwd: str = '') -> str:
    """Writes a recorded command line for a shell.

    A path below the folder that the command was started in, or below that of the code, is written
    as it is seen from there; of any other absolute path the last name is left.

    Args:
      argv: the program and its arguments, as config.json has them; empty gives ''.
      cwd: where it was started.

    Example: ['/home/anna/code/xlbench/train.py', '--config=configs/mtg_mt5.py'] ->
      python -m xlbench.train --config=configs/mtg_mt5.py
    """
    if not argv:
        return ''
    program, code = _program(argv[0])
    places = [place for place in (cwd, code) if os.path.isabs(place) and place != '/']
    places.sort(key=len, reverse=True)  # One may lie in the other.
    arguments = [_seen_from(argument, places) for argument in argv[1:]]
    return ' '.join([program, *map(shlex.quote, arguments)])


def config_of(argv: Sequence[str], cwd: str = '') -> str:
    """The config file that a command names, with its variant; '' if it names none.

    Example: [..., '--config=configs/mtg_mt5.py:base'] -> configs/mtg_mt5.py:base
    """
    words = [*shlex.split(command(argv, cwd)), '']
    for word, following in itertools.pairwise(words):
        if word.startswith('--config='):
            return word.partition('=')[2]
        if word == '--config':
            return following
    return ''


def without_places(text: str) -> str:
    """Leaves the last name of every absolute path in a text.

    Example: 'read from /home/anna/data/xnli.tsv' -> 'read from xnli.tsv'
    """
    return _ABSOLUTE.sub(lambda match: match[0].rstrip('/').rpartition('/')[2], text)


def _program(path: str) -> tuple[str, str]:
    """The words that start the program, and the folder of its package; '' if it is not known."""
    parts = pathlib.PurePath(path).with_suffix('').parts
    if _PACKAGE not in parts:
        return shlex.quote(pathlib.PurePath(path).name), ''
    place = len(parts) - 1 - parts[::-1].index(_PACKAGE)  # Its folder may have the same name.
    module = [part for part in parts[place:] if part != '__main__']
    return f'python -m {".".join(module)}', str(pathlib.PurePath(*parts[:place]))


def _seen_from(argument: str, places: Sequence[str]) -> str:
    for place in places:
        argument = re.sub(rf'(?<![\w./]){re.escape(place.rstrip("/"))}/(?=[^/])', '', argument)
    return without_places(argument)
