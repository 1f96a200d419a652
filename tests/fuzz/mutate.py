"""Seeded harm to files: what disks, editors, half a download and strangers do to them.

  said, harmed = mutate.harmed(data, random.Random(7))               bytes -> other bytes
  said = mutate.file(path, random.Random(7))                         one file, in place

Equal seeds give equal harm, so that a failure is repeated by its number. Where the bytes are JSON,
or JSON a line, most of the harm is done to its values; otherwise to bytes.
"""

import copy
import json
import os
import pathlib
import random
import shutil
from collections.abc import Callable
from typing import Any

DEEP = 10_000  # Levels; Python's own parser gives up at about a thousand.
LONG = 5_000  # Characters.
SUITE = 1130  # Cases of all readers together that the suite runs.

# What stands in the place of a value; each is of another type than most readers want.
VALUES: dict[str, Any] = {
    'null': None, 'true': True, 'minus one': -1, 'zero': 0, 'a billion': 10**9,
    'beyond 64 bits': 2**70, 'a fraction': 0.5, 'infinite': float('inf'),
    'not a number': float('nan'), 'an empty text': '', 'a text': 'x', 'a long text': 'x' * LONG,
    'a path that leaves': '../../../../etc/passwd', 'a NUL': 'a\0b', 'a lone surrogate': '\ud800',
    'an empty list': [], 'a list': [1, 'x', None], 'an empty object': {}, 'an object': {'x': 1},
}  # fmt: skip


def number_of_cases(seeded: int) -> int:
    """How many cases a test runs: the suite's, or its share of XLBENCH_FUZZ_CASES in all tests."""
    return max(1, seeded * int(os.environ.get('XLBENCH_FUZZ_CASES', SUITE)) // SUITE)


def first_seed() -> int:
    """The seed of the first case: XLBENCH_FUZZ_SEED, to repeat one or to go where none was."""
    return int(os.environ.get('XLBENCH_FUZZ_SEED', 0))


# ---------------------------------------------------------------------------------------------
# Values of JSON.


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The path of every value inside a JSON value, and of itself: keys and numbers."""
    inner = (
        value.items() if isinstance(value, dict)
        else enumerate(value) if isinstance(value, list) else ()
    )  # fmt: skip
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def _parent(value: Any, path: tuple) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


def value(original: Any, rng: random.Random) -> tuple[str, Any]:
    """(what was done, a copy of a JSON value with one thing changed)."""
    result = copy.deepcopy(original)
    path = rng.choice(places(result)) or ()
    where = '/'.join(str(key)[:40] for key in path) or 'the whole'
    if not path:
        name = rng.choice(list(VALUES))
        return f'{where} becomes {name}', copy.deepcopy(VALUES[name])
    parent, key = _parent(result, path), path[-1]
    kind = rng.randrange(8)
    if kind == 0:
        del parent[key]
        return f'{where} is gone', result
    if kind == 1 and isinstance(parent, dict):
        parent[str(rng.choice(['x', 'x' * LONG, '', '../x', str(key).upper()]))] = parent.pop(key)
        return f'{where} has another name', result
    if kind == 2 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
        return f'{where} is there twice', result
    if kind == 3 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] = rng.choice([-parent[key], parent[key] * 10**9, parent[key] + 1, 0.5])
        return f'{where} becomes {parent[key]}', result
    if kind == 4 and isinstance(parent[key], str) and parent[key]:
        at = rng.randrange(len(parent[key]))
        text = parent[key][:at] + chr(ord(parent[key][at]) ^ 1) + parent[key][at + 1 :]
        parent[key] = text
        return f'{where} differs in character {at}', result
    name = rng.choice(list(VALUES))
    parent[key] = copy.deepcopy(VALUES[name])
    return f'{where} becomes {name}', result


def _dump(value: Any) -> str:
    # A lone surrogate is written as an escape, which is JSON, and not as bytes, which are no UTF-8.
    return json.dumps(value, ensure_ascii=True)


def _deep(original: Any, rng: random.Random) -> tuple[str, bytes]:
    """One value nested so deeply that json.dumps cannot write it."""
    mark = 'xlbench-deep'
    _, changed = 'deep', copy.deepcopy(original)
    path = rng.choice(places(changed))
    if path:
        _parent(changed, path)[path[-1]] = mark
    else:
        changed = mark
    begin, end = rng.choice([('[', ']'), ('{"x":', '}')])
    nested = begin * DEEP + '1' + end * DEEP
    where = '/'.join(str(key)[:40] for key in path) or 'the whole'
    return f'{where} is nested {DEEP} deep', _dump(changed).replace(f'"{mark}"', nested).encode()


# ---------------------------------------------------------------------------------------------
# Bytes of any file.


def _cut(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    at = rng.randrange(max(1, len(data)))
    return f'cut to {at} of {len(data)} bytes', data[:at]


def _empty(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    return 'empty', b''


def _flip(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    if not data:
        return _junk(data, rng)
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return f'bit {bit} of byte {at} is another one', bytes(changed)


def _junk(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    at = rng.randrange(len(data) + 1)
    junk = rng.choice([b'\0', b'\xff', b'\xef\xbb\xbf', b'\r', b'\n\n', b'}', rng.randbytes(9)])
    return f'{junk!r} in front of byte {at}', data[:at] + junk + data[at:]


def _zeros(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    at = rng.randrange(len(data) + 1)
    return f'zeros from byte {at} on', data[:at] + b'\0' * (len(data) - at)


def _twice(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    return 'its content twice', data * 2


def _other(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    name = rng.choice(['[]', '{}', 'null', '3', '"x"', '[[[', '\n', 'true', '-', '{"x":1,"x":2}'])
    return f'only {name!r}', name.encode()


BYTES: tuple[Callable, ...] = (_cut, _empty, _flip, _flip, _junk, _zeros, _twice, _other)


def _lines(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    """Harm to one line of a JSONL file; None if it is none."""
    lines = data.split(b'\n')
    if data.startswith(b'\n') or len(lines) < 2:
        return None
    full = [at for at, line in enumerate(lines) if line]
    at = rng.choice(full)
    try:
        row = json.loads(lines[at])
    except (ValueError, RecursionError):
        return None
    kind = rng.randrange(6)
    if kind == 0:
        lines.insert(at, lines[at])
        return f'line {at + 1} is there twice', b'\n'.join(lines)
    if kind == 1:
        lines.insert(rng.randrange(len(lines)), lines.pop(at))
        return f'line {at + 1} is in another place', b'\n'.join(lines)
    if kind == 2:
        del lines[at]
        return f'line {at + 1} is gone', b'\n'.join(lines)
    if kind == 3:
        said, lines[at] = _deep(row, rng)
    else:
        said, changed = value(row, rng)
        lines[at] = _dump(changed).encode()
    return f'line {at + 1}: {said}', b'\n'.join(lines)


def harmed(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """(what was done, other bytes) of the bytes of any file."""
    if rng.random() < 0.3:
        return rng.choice(BYTES)(data, rng)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return _lines(data, rng) or rng.choice(BYTES)(data, rng)
    if rng.random() < 0.1:
        return _deep(content, rng)
    said, changed = value(content, rng)
    return said, _dump(changed).encode()


def file(path: pathlib.Path, rng: random.Random) -> str:
    """Harms one file in place; says what was done. One in ten is gone, or a folder, or a link."""
    kind = rng.randrange(30)
    if kind == 0:
        path.unlink()
        return f'{path.name} is gone'
    if kind == 1:
        path.unlink()
        path.mkdir()
        return f'{path.name} is a folder'
    if kind == 2:
        path.unlink()
        path.symlink_to(path.name)
        return f'{path.name} is a link to itself'
    said, data = harmed(path.read_bytes(), rng)
    path.write_bytes(data)
    return f'{path.name}: {said}'


def folder(place: pathlib.Path, rng: random.Random, keep: Callable[[str], bool]) -> str:
    """Harms one of the files of a folder that `keep` allows; says which, and what was done."""
    files = sorted(str(p.relative_to(place)) for p in place.rglob('*') if p.is_file())
    chosen = rng.choice([name for name in files if keep(name)])
    said = file(place / chosen, rng)
    return f'{os.path.dirname(chosen)}/{said}'.lstrip('/')


def put(path: pathlib.Path, whole: bytes) -> None:
    """Puts a file there, whatever stands in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.write_bytes(whole)


def restore(source: pathlib.Path, target: pathlib.Path) -> None:
    """Makes a folder the same as another one again, whatever was done to it."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
