"""How workdirs were made: their commands, as a reader may type them, their time and hardware."""

import itertools
import os
import pathlib
import re
import shlex
import statistics
from collections.abc import Sequence

from xlbench.system import sessions
from xlbench.system.progress import duration
from xlbench.system.sessions import Session

# An absolute path of two names or more that does not continue a word, an address or another path.
_ABSOLUTE = re.compile(r'(?<![\w.~/<@*-])/(?:[\w.+@~%-]+/)+[\w.+@~%-]*')
_PACKAGE = 'xlbench'


def command(argv: Sequence[str], cwd: str = '') -> str:
    """Writes a recorded command line for a shell, without the paths of one machine.

    A path below `cwd`, where the command was started, or below the folder of the code, is written
    as it is seen from there; of any other absolute path the last name is left.

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


def costs(workdirs: Sequence[pathlib.Path]) -> dict[str, str]:
    """The time that runs of one config took, all their sessions together, and what they ran on.

    Example: {'wall time': '12m30s', 'processor time': ..., 'hardware': ..., 'peak memory': ...}; of
    several runs means with standard deviations. What is not recorded is said to be so.
    """
    recorded = {workdir: sessions.read(workdir) for workdir in workdirs}
    lacking = [workdir.resolve().name for workdir, of_run in recorded.items() if not of_run]
    if lacking:
        of = '' if len(lacking) == len(workdirs) else f' of {", ".join(lacking)}'
        return {'wall time': f'not recorded{of}'}
    runs = list(recorded.values())
    every = [session for of_run in runs for session in of_run]
    said = {
        'wall time': _times([sum(s.wall_seconds for s in of_run) for of_run in runs]),
        'processor time': _times([sum(s.processor_seconds for s in of_run) for of_run in runs]),
        'hardware': '; '.join(dict.fromkeys(_hardware(session) for session in every)),
    }
    if any(session.processes > 1 for session in every):
        said['processor time'] += ', of the first process'
    if interrupted := sum(len(of_run) - 1 for of_run in runs):
        said['wall time'] += f', {interrupted} interruption{"s" if interrupted > 1 else ""}'
    if peaks := [session.peak_bytes for session in every if session.peak_bytes]:
        said['peak memory'] = f'{max(peaks) / 2**30:.1f} GiB'
    return said


def commands(workdir: pathlib.Path) -> list[list[str]]:
    """The command lines of a workdir's sessions, each once, in their order."""
    return [list(c) for c in dict.fromkeys(tuple(s.command) for s in sessions.read(workdir)) if c]


def _times(seconds: Sequence[float]) -> str:
    """Example: [60, 80] -> '1m10s ±14s each of 2 runs, 2m20s in all'."""
    if len(seconds) == 1:
        return duration(seconds[0])
    mean, spread = (duration(f(seconds)) for f in (statistics.fmean, statistics.stdev))
    return f'{mean} ±{spread} each of {len(seconds)} runs, {duration(sum(seconds))} in all'


def _hardware(session: Session) -> str:
    memory = f', {session.memory_bytes / 2**30:.0f} GiB' if session.memory_bytes else ''
    cores = f'{session.cores} core{"s" if session.cores != 1 else ""}'
    processor = session.processor or 'a processor without a name'
    return f'{processor}, {cores}{memory}; {session.devices}'
