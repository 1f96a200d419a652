"""The registry, bound to what a file's tests have made; sample corpora, each written once."""

import functools
import pathlib
import types
from collections.abc import Callable, Iterator

import pytest

from xlbench import pipeline


@pytest.fixture
def root(made) -> Iterator[pathlib.Path]:
    """The folder that a file's fixture `made` has written, as the data root of all tasks."""
    with pipeline.bound('sample', str(made)):
        yield made


@pytest.fixture(scope='session')
def written(tmp_path_factory) -> Callable[[types.ModuleType], pathlib.Path]:
    """A module of tasks/samples -> the root with its corpus of seed 0."""

    @functools.cache
    def write(module: types.ModuleType) -> pathlib.Path:
        folder = tmp_path_factory.mktemp('sample') / 'new'
        assert module.write(str(folder), seed=0)
        return folder

    return write
