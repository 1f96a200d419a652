"""What a command leaves behind, in a form in which two of its runs can be compared, and leftovers.

What depends on the clock is left out: log.txt, sessions.jsonl, TensorBoard's files, seconds and
rates. Of a checkpoint the progress and the checksums of its arrays are compared, not the bytes of
its files, which Orbax writes in another order each time.
"""

import contextlib
import json
import pathlib
import sqlite3
from typing import Any

# Of the clock, of the process's memory and of caches; and the commit, which may move on.
_TIMED = (
    'tokens_per_second', 'examples_per_second', 'input_wait', 'mfu', 'seconds', 'time', 'git',
    'compile_seconds', 'process', 'needed', 'translated_before', 'translated_now',
)  # fmt: skip
# A run says in them how it went, and a disturbed one went in another way.
_HISTORY = ('log.txt', 'sessions.jsonl')


def content(folder: pathlib.Path) -> dict[str, Any]:
    """What there is below a folder, by place; equal of two runs that came to the same end."""
    there: dict[str, Any] = {}
    for path in sorted(folder.rglob('*')):
        place = path.relative_to(folder)
        names = place.parts
        timed = place.name in _HISTORY or 'tensorboard' in names
        if path.is_dir() or timed or _is_lock(place.name):
            continue
        if 'checkpoints' in names:
            step = names[: names.index('checkpoints') + 2]
            if place.name == 'checkpoint.json':
                said = json.loads(path.read_text(encoding='utf-8'))
                there['/'.join(step)] = {key: said[key] for key in ('progress', 'sums')}
            else:
                there.setdefault('/'.join(step), None)
        elif path.suffix == '.jsonl':
            lines = path.read_text(encoding='utf-8').splitlines()
            there[str(place)] = [_timeless(json.loads(line)) for line in lines]
        elif path.suffix == '.json':
            there[str(place)] = _timeless(json.loads(path.read_text(encoding='utf-8')))
        elif path.suffix == '.sqlite':
            with contextlib.closing(sqlite3.connect(path)) as rows:
                there[str(place)] = sorted(rows.execute('SELECT * FROM kept'))
        else:
            there[str(place)] = path.read_bytes()
    return there


def _is_lock(name: str) -> bool:
    """The file of a lock, which means nothing when nobody holds it; see xlbench/system/locks.py."""
    return name.startswith('.') and name.endswith('.lock')


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(v) for key, v in value.items() if key not in _TIMED}
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    return value


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The places at which two contents differ, with what is there, shortened."""
    absent = '(nothing)'
    return [
        f'{place}: {one.get(place, absent)!r:.160} and {other.get(place, absent)!r:.160}'
        for place in sorted(one.keys() | other.keys())
        if one.get(place, absent) != other.get(place, absent)
    ]


def leftovers(folder: pathlib.Path) -> list[str]:
    """What no finished command leaves: hidden names, half checkpoints, parts of files."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob('*'))
        if (path.name.startswith('.') and not _is_lock(path.name))
        or path.name.endswith(('.tmp', '.part'))
        or 'orbax-checkpoint-tmp' in path.name
    ]


def faults(end: dict[str, Any], folder: pathlib.Path) -> list[str]:
    """What a folder has in place of, or beside, what an undisturbed run leaves."""
    left = [f'left behind: {name}' for name in leftovers(folder)]
    return [*differences(end, content(folder)), *left]
