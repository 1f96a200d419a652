"""Files of a test: written, read as a whole, damaged."""

import gzip
import json
import pathlib
from collections.abc import Iterable

import pytest

from xlbench.system.errors import UserError


def put(folder, name: str, content) -> str:
    """Writes bytes, a text, or anything else as JSON; packed if the name ends in .gz."""
    path = pathlib.Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content if isinstance(content, bytes | str) else json.dumps(content)
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith('.gz') else data)
    return str(path)


def broken(items: Iterable) -> tuple[list, str]:
    """Reads items up to the UserError of a broken file; returns the items and the message."""
    found = []
    with pytest.raises(UserError) as raised:
        for item in items:
            found.append(item)
    return found, str(raised.value)


def tree(folder) -> dict[str, bytes]:
    """Relative path -> bytes of every file below a folder, hidden ones included."""
    paths = [p for p in pathlib.Path(folder).rglob('*') if p.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def damage(path: pathlib.Path, line: int, data: bytes) -> None:
    """Puts other bytes in place of a line, counted from 1."""
    lines = path.read_bytes().split(b'\n')
    lines[line - 1] = data
    path.write_bytes(b'\n'.join(lines))
