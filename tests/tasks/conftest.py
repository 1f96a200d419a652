"""The registry, bound to what a file's tests have made."""

import pathlib
from collections.abc import Iterator

import pytest

from xlbench import pipeline


@pytest.fixture
def root(made) -> Iterator[pathlib.Path]:
    """The folder that a file's fixture `made` has written, as the data root of all tasks."""
    with pipeline.bound('sample', str(made)):
        yield made
