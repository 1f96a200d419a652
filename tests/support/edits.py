"""Files that a test changes, and what is said of them."""

import contextlib
import json
import pathlib

import pytest

from xlbench.system import errors


@contextlib.contextmanager
def edited(path):
    """Inside, the content of a JSON file, which is written back as it was changed."""
    content = json.loads(pathlib.Path(path).read_text())
    yield content
    pathlib.Path(path).write_text(json.dumps(content))


def content(folder):
    """{path: bytes} of all files below a folder."""
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob('*') if p.is_file()}


@contextlib.contextmanager
def refused(message):
    """What is inside ends in one plain line that has this message, a pattern."""
    with pytest.raises(errors.UserError, match=message) as caught:
        yield caught
    assert '\n' not in str(caught.value)
