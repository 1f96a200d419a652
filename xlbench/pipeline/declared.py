"""Checks of what a task file gives to `register_...`, before anything is read."""

import dataclasses
import functools
import inspect
import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from xlbench.data import rows
from xlbench.pipeline import declarations
from xlbench.pipeline.declarations import Metric
from xlbench.pipeline.user_files import (
    PLACES,
    DialogueFiles,
    Files,
    Hub,
    ParallelFiles,
    Shots,
    is_files,
    is_texts,
)
from xlbench.system import errors

Parameters = ParamSpec('Parameters')
Result = TypeVar('Result')

# What may be declared of a task: annotation -> whether a value is of that kind, and what is.
_KINDS: dict[object, tuple[Callable[[object], bool], str]] = {
    str: (lambda value: isinstance(value, str), 'a text'),
    bool: (lambda value: isinstance(value, bool), 'True or False'),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), 'a whole number'),
    types.NoneType: (lambda value: value is None, 'None'),
    Sequence[str]: (is_texts, "a list of texts, such as ['a', 'b']"),
    Mapping[str, str]: (
        lambda value: isinstance(value, Mapping) and is_texts([*value, *value.values()]),
        "texts by name, such as {'inputs': 'text', 'targets': 'headline'}",
    ),
    Files: (lambda value: is_files(value, str | Hub), PLACES),
    ParallelFiles: (
        lambda value: is_files(value, str | Hub, pairs=True),
        f"{PLACES}, or two paths, such as {{'train': ('news/train.en', 'news/train.de')}}",
    ),
    DialogueFiles: (lambda value: is_files(value, str), PLACES),
    Sequence[Metric]: (
        lambda value: isinstance(value, list | tuple) and all(map(callable, value)),
        'a list of metrics, such as [exact_match], a function of (targets, predictions)',
    ),
    Callable[[str, int], bool]: (callable, 'a function'),
    Shots: (lambda value: isinstance(value, Shots), 'pipeline.Shots(numbers=(1, 2, 4))'),
}


# What is said of files as a part of `Files`, or beside a plain mapping.
_OF_FILES = {field.name: field.type for field in dataclasses.fields(Files) if field.name != 'paths'}


def declares(register: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Checks what a `register_...` function is called with by its annotations, in one line.

    What `Files` says of files may also stand beside them: files={...}, format='csv'.
    """
    signature = inspect.signature(register)
    taken = signature.parameters

    @functools.wraps(register)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        about = {name: kwargs.pop(name) for name in {*kwargs} & {*_OF_FILES} - {*taken}}
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:  # A misspelt argument, or one that is missing.
            raise errors.UserError(f'{register.__name__}: {error}') from None
        given = bound.arguments
        if isinstance(files := given['files'], Mapping):  # A pathlib.Path is a path, too.
            files = files if isinstance(files, Files) else Files(files)
            paths = {split: _as_text(place) for split, place in files.items()}
            given['files'] = dataclasses.replace(files, paths=paths, **about)
        name = given['name']
        if not isinstance(name, str) or not re.fullmatch(r'[A-Za-z0-9][A-Za-z0-9_.]*', name):
            raise errors.UserError(
                f'{register.__name__}: {name!r} is not a name of a task; letters, digits, "_" and '
                '"." are, such as news_title_de'
            )
        for argument, value in (given | about).items():
            annotation = taken[argument].annotation if argument in taken else _OF_FILES[argument]
            is_union = isinstance(annotation, types.UnionType)
            kinds = [_KINDS[kind] for kind in (annotation.__args__ if is_union else [annotation])]
            if not any(fits(value) for fits, _ in kinds):
                allowed = ' or '.join(words for _, words in kinds if words != 'None')
                shown = errors.shortened(value.paths if isinstance(value, Files) else value)
                raise errors.UserError(f'task {name}: {argument} is {shown}; give {allowed}')
        return register(*bound.args, **bound.kwargs)

    return checked


def _as_text(place: object) -> object:
    """A path as text, and so those of a pair."""
    if isinstance(place, list | tuple) and not isinstance(place, Hub):
        return type(place)(_as_text(path) for path in place)
    return os.fspath(place) if isinstance(place, os.PathLike) else place


def check_new(name: str, files: Files, layout: rows.Layout) -> None:
    """UserError for a task that cannot be registered."""
    if name in declarations.names():
        raise errors.UserError(f'task {name} is there already; choose another name')
    for path in files.values():
        ending = '' if isinstance(path, Hub) else os.path.splitext(path)[1]
        if ending and not layout.format:
            layout.format_of(path)  # A folder has no ending, and is looked into when it is read.
