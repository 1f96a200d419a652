"""Builds of data sets: options, and a folder for the work.

A build is a command whose stages (xlbench/jobs) make files in a work folder, and from them those
that tasks read. With the same settings, a command continues where the last one stopped:

  WORK/settings.json    {step: {flag: value}}, what decides about the files of each step
  WORK/STEP             files of a step, each of which appears when it is whole
"""

import argparse
import functools
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence

from xlbench.system import files
from xlbench.system.errors import UserError

ENGLISH = 'en'  # What is translated.
TRANSLATED = 'translated_'  # Begins the step that translates into a language, and its folder.

Setting = str | int | float | list[str | int | float] | dict[str, str]
Settings = dict[str, dict[str, Setting]]  # {step: {name of a flag: what it stands for}}


class Options(argparse.Namespace):
    """The flags of a build by their names, and what follows from them; all jobs get them."""


def settings(
    options: Options, steps: Mapping[str, Sequence[str]], instead: dict[str, Setting]
) -> Settings:
    """The values of each step's flags, or what is `instead`: a file's contents, not its path."""
    values = vars(options) | instead
    return {
        step: {n: list(v) if isinstance(v := values[n], tuple) else v for n in names}
        for step, names in steps.items()
    }


def codes(example: str) -> Callable[[str], tuple[str, ...]]:
    """The type of a flag with codes of languages, each once; `example` is for errors."""

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(text.split(','))
        if not all(re.fullmatch('[a-z]{2,3}', c) for c in found) or len({*found}) < len(found):
            raise argparse.ArgumentTypeError(f'{text!r} is not a list of codes like {example}')
        return found

    return parse


def check_files(paths: Iterable[str]) -> None:
    """Raises UserError for a file that is not there."""
    for path in paths:
        if not os.path.isfile(path):
            raise UserError(f'there is no file {path}')


def begin(
    folder: str, settings: Settings, redo: bool, readers: Mapping[str, Sequence[str]]
) -> None:
    """Checks that a work folder, whose lock the caller holds, is of these settings.

    `redo` makes it so: what was made with other settings goes, and with a step the folders of its
    `readers`, which may be patterns; TRANSLATED stands for all steps that translate. UserError if
    the folder holds something else, or the work of other settings and not `redo`.
    """
    path = os.path.join(folder, 'settings.json')
    try:
        with open(path, encoding='utf-8') as file:
            before = json.load(file)
    except FileNotFoundError:
        if others := [name for name in os.listdir(folder) if name[0] != '.']:
            raise UserError(
                f'{folder} holds {min(others)!r} but no build; name another --work'
            ) from None
        before = settings
    changed = {
        step: _difference(before.get(step, {}), of_step)
        for step, of_step in settings.items()
        if before.get(step, of_step) != of_step
    }
    if changed and not redo:
        raise UserError(
            f'{folder} was begun by another command: {"; ".join(changed.values())}; repeat that '
            'command, name another --output, or repeat the changed steps with --redo'
        )
    for step in changed:
        kind = TRANSLATED if step.startswith(TRANSLATED) else step
        for pattern in (step, *readers.get(kind, ())):
            for place in pathlib.Path(folder).glob(pattern):
                shutil.rmtree(place, ignore_errors=True)
    files.remove_leftovers(folder)
    # What is not asked for now, such as another language, keeps its settings.
    if before | settings != before or not os.path.exists(path):
        files.write(path, json.dumps(before | settings, indent=1))


def _difference(before: Mapping[str, Setting], now: Mapping[str, Setting]) -> str:
    """Example: --min_confidence was 0.7 and is 0.8"""
    plain = functools.partial(json.dumps, ensure_ascii=False)
    return ', '.join(
        f'--{name} was {plain(before.get(name))} and is {plain(now[name])}'
        for name in now
        if before.get(name) != now[name]
    )
