"""Flags that several programs share, and types: a text -> a value, or an error on the text."""

import argparse
import contextlib
import math
import os
from collections.abc import Callable

from xlbench.system import errors
from xlbench.system.command_line import Flags, flag


def whole(least: int) -> Callable[[str], int]:
    """The type of a whole number that is not below `least`."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f'{text!r} is not a whole number of {least} or more')
        return int(text)

    return parse


def share(text: str) -> float:
    """A number from 0 to 1."""
    return _number(text, 'from 0 to 1', lambda value: 0 <= value <= 1)


def positive(text: str) -> float:
    """A number above 0."""
    return _number(text, 'above 0', lambda value: 0 < value < math.inf)


def _number(text: str, words: str, fits: Callable[[float], bool]) -> float:
    with contextlib.suppress(ValueError):
        if fits(value := float(text)):
            return value
    raise argparse.ArgumentTypeError(f'{text!r} is not a number {words}')


def engine(text: str) -> str:
    """The name of an engine of translation or of prompts, which may be the address of a server."""
    if not text.removeprefix('chat+').startswith(('http://', 'https://')):
        errors.check_path('--engine', text)
    return text


ROOT = flag('--root', 'data root (default: XLBENCH_DATA, else data)', '')
# Where a task's data is; see `config.open_task`.
TASK_DATA = (
    flag('--like', 'workdir of a run; take its data', ''),
    ROOT,
    flag('--vocabulary', 'vocabulary to prepare a task with', ''),
)
CACHE = flag('--cache', 'cache of translations (default: DATA/translations)', '')
# What ranks the texts of a generator anew.
RERANKING = (
    flag('--mmi_model', 'reverse model that reranks the beams (arXiv:1510.03055)'),
    flag('--mmi_weight', 'its weight', 0.5),
    flag('--mmi_length_weight', 'bonus per token', 0.0),
    flag('--rerank', 'retriever that reranks the beams or samples'),
    flag('--rerank_weight', 'its weight', 1.0),
)
ENGINE_SETTINGS = (
    flag('--engine_version', 'version of your own program or server', ''),
    flag('--timeout', 'seconds for a batch', 600.0),
    flag('--prefix', 'text before each input, for a model that needs it', ''),
    flag('--batch_size', 'batch size of a model', 0, type=whole(0)),
)


def chosen_root(given: str | None) -> str:
    """The data root that a command line means: --root, else XLBENCH_DATA, else data."""
    return given or os.environ.get('XLBENCH_DATA') or 'data'


def engine_flags(*, required: bool) -> Flags:
    """--engine, and the flags of its settings but for decoding."""
    named = flag('--engine', 'see below', '', type=engine, required=required)
    return (named, ENGINE_SETTINGS)
