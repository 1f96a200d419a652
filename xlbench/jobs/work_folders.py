"""The folder for a build's intermediate files, with their settings, so that the build can continue.

  FOLDER/settings.json    {step: {flag: value}}, what decides about the files of each step
  FOLDER/STEP             files of a step, each of which appears when it is whole

With the same settings, a command continues where the last one stopped; other settings are refused,
or the steps redone if this is asked for.
"""

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping

from xlbench.system import files
from xlbench.system.errors import UserError

Setting = str | int | float | list[str | int | float] | dict[str, str]
Settings = dict[str, dict[str, Setting]]  # {step: {name of a flag: what it stands for}}


def begin(
    folder: str, settings: Settings, redo: bool, affected: Callable[[str], Iterable[str]]
) -> None:
    """Checks that a work folder is of these settings, or makes it so.

    Args:
      folder: of the work; the caller holds its lock.
      settings: of all steps.
      redo: throws away what was made with other settings.
      affected: gives the steps that are redone, if a step has other settings: that one, and
        those that read its files.

    Raises:
      UserError: the folder holds something else, or the work of other settings and not `redo`.
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
        for name in affected(step):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
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
