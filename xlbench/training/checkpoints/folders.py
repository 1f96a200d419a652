"""Checkpoints that a workdir has: their steps, which one a user means, whether they are whole."""

import itertools
import json
import pathlib
import re

from xlbench.system import errors, files, untrusted
from xlbench.system.errors import UserError
from xlbench.training.checkpoints import record
from xlbench.training.checkpoints.record import Damage, Progress

# What tensorstore says of a file that is cut, missing or altered: a status, which is left out of
# what its decompressor finds.
_DAMAGE = re.compile(
    '(DATA_LOSS|OUT_OF_RANGE|NOT_FOUND|INVALID_ARGUMENT|FAILED_PRECONDITION'
    '|Error (open|read)ing .*): '
)
# What Python says of a list of arrays that is JSON, and not of the form that Orbax gives it.
_MISREAD = (json.JSONDecodeError, UnicodeDecodeError, LookupError, TypeError, AttributeError)


class DamagedCheckpoint(UserError):
    """A checkpoint that cannot be read; the same command takes the one before it."""

    exit_code = 75  # START_AGAIN of parallel/cluster.py.


def folder_of(workdir: str, step: int) -> pathlib.Path:
    """Returns the folder of a checkpoint."""
    return pathlib.Path(workdir).absolute() / 'checkpoints' / str(step)


def find_step(workdir: str, name: str) -> int:
    """The step of the checkpoint that is called 'best', 'last' or by its number.

    The best one is of the stage that the run has come to. Where that has no score yet, it is the
    newest one.

    Raises:
      UserError: there is none, with those that there are.
    """
    there = steps(workdir)
    if not there:
        raise UserError(f'{workdir} has no checkpoint yet')
    if name == 'last':
        return there[-1]
    if name == 'best':
        best = read_progress(workdir, there[-1]).best
        return best.step if best else there[-1]
    if not files.is_step(name) or int(name) not in there:
        raise UserError(
            f'{workdir} has no checkpoint {name!r}; it has best, last, {", ".join(map(str, there))}'
        )
    return int(name)


def steps(workdir: str) -> list[int]:
    """The steps of a workdir's complete checkpoints, in order."""
    names = files.names(pathlib.Path(workdir) / 'checkpoints')
    return sorted(int(name) for name in names if files.is_step(name))


def read_progress(workdir: str, step: int) -> Progress:
    """The progress that was saved with a step; UserError if it is damaged."""
    try:
        progress = record.read(folder_of(workdir, step)).progress
        reason = progress.inconsistency(step)
    except Damage as error:
        reason = str(error)
    if reason:
        raise damaged(workdir, step, f'its progress cannot be read ({reason})')
    return progress


def damage(workdir: str, step: int) -> str:
    """Says in words how a checkpoint is damaged; '' if all of it but the arrays is as written.

    Raises:
      UserError: one of its files is a link that leads out of the workdir, or no file.
    """
    folder = folder_of(workdir, step)
    untrusted.check_tree(workdir, folder)
    return record.damage(folder, step)


def damaged(workdir: str, step: int, reason: str) -> UserError:
    """The error for a checkpoint that cannot be read, with those to take instead."""
    others = ', '.join(str(other) for other in steps(workdir) if other != step)
    return UserError(
        f'checkpoint {step} of {workdir} is damaged: {reason}; '
        + (f'try another one: {others}' if others else 'there is no other one')
    )


def set_aside(workdir: str, step: int) -> str:
    """Moves a checkpoint out of the way; says where it went."""
    folder = pathlib.Path(workdir) / 'damaged'
    folder.mkdir(exist_ok=True)
    numbers = itertools.count(2)
    target = folder / str(step)
    while target.exists():
        target = folder / f'{step}-{next(numbers)}'
    try:
        folder_of(workdir, step).rename(target)
    except FileNotFoundError:  # Another process was faster.
        target = folder / str(step)
    return f'it was moved to {target}'


def damage_in(error: BaseException | None, folder: pathlib.Path) -> str:
    """Returns what a reader says of altered files, cut short; '' if the error has another cause."""
    text = ' '.join(f'{error}'.split())
    if isinstance(error, Damage):
        return text
    if error is not None and errors.is_withheld(error):
        return ''  # It may be whole.
    if isinstance(error, ValueError) and _DAMAGE.match(text):
        return re.split(r' \[(?:tensorstore_spec|source)', text)[0].rpartition('": ')[2][-200:]
    # Nothing covers Orbax's list of the arrays there, so that it reads whatever stands in it.
    if record.is_earlier(folder) and isinstance(error, _MISREAD):
        return f'{type(error).__name__}: {text}'[:200]
    return damage_in(error.__cause__, folder) if error is not None else ''
