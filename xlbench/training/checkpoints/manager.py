"""Checkpoints of a run: parameters, optimizer state and input position, saved while it trains.

  <workdir>/checkpoints/<step>/state/           Orbax: step, parameters, optimizer state
  <workdir>/checkpoints/<step>/checkpoint.json  stage, input position, best score so far; checksums
  <workdir>/damaged/<step>/                     a checkpoint that is damaged; nothing reads it

A checkpoint appears under its final name only when it is complete, so a process that dies while
it saves leaves the one before as the newest. What a disk, or a crash of the machine, does to it
afterwards is noticed: all but the arrays by sizes and checksums, before anything is used, and the
arrays by checksums of what was read. See record.py.
"""

import contextlib
import copy
import errno
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from xlbench.settings import blocks
from xlbench.system import errors, files
from xlbench.system.errors import UserError
from xlbench.training.checkpoints import record
from xlbench.training.checkpoints.folders import (
    DamagedCheckpoint,
    damage_in,
    refuse_other_arrays,
    set_aside,
    steps,
)
from xlbench.training.checkpoints.record import Progress, damage, folder_of
from xlbench.training.train_step import TrainState

if TYPE_CHECKING:
    from xlbench.training.checkpoints.orbax_manager import Manager

# Seconds that `close` waits, after an error, for a checkpoint that needs the other processes.
_CLOSE_SECONDS = 5


@jax.jit
def _copied(state: TrainState) -> TrainState:
    """All arrays by one program, where each would be dispatched to each device."""
    return jax.tree.map(jnp.copy, state)


class Checkpoints:
    """The checkpoints of one workdir, saved after `every` steps and after the last one.

    The newest `keep` of them stay, and those that `progress` calls the best, or chosen for an
    earlier stage.
    """

    def __init__(self, workdir: str, *, every: int = 1000, keep: int = 2):
        blocks.Checkpoints(every=every, keep=keep)  # Checks them.
        self.every = every
        self._workdir, self._keep = workdir, keep
        self._folder = pathlib.Path(workdir).absolute() / 'checkpoints'
        self._saving: int | None = None  # The step that was begun last.
        self._noted = Progress(), dict[str, int]()  # Its progress and checksums.
        self._opened: Manager | None = None
        if jax.process_index() == 0:
            self._folder.mkdir(parents=True, exist_ok=True)
        if jax.process_count() > 1:  # All at once, as the processes wait for each other in it.
            self._open()

    def _open(self) -> 'Manager':
        """Orbax's manager, made when something is saved or restored for the first time."""
        if self._opened is None:
            from xlbench.training.checkpoints import orbax_manager

            self._opened = orbax_manager.Manager(
                self._folder,
                keep=self._keep,
                complete=lambda: record.write(self._unfinished, *self._noted),
            )
        return self._opened

    @property
    def latest_step(self) -> int | None:
        """The newest checkpoint, complete or being written."""
        return self._open().latest_step()

    def newest(self, say: Callable[[str], None] = print) -> int | None:
        """The newest checkpoint that is not known to be damaged; the same on all processes.

        A damaged one is moved to <workdir>/damaged/, and the one before it is looked at; `say` is
        told of it on process 0. None if the run has not saved any yet.

        Raises:
          UserError: there were checkpoints, and none is whole. To begin from nothing is a choice.
        """
        step = self._set_damaged_aside(say) if jax.process_index() == 0 else None
        step = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if step is None else step)))
        if self._opened is not None:
            self._opened.reload()
        if step >= 0:
            return step
        folder = pathlib.Path(self._workdir) / 'damaged'
        if files.names(folder):
            raise UserError(
                f'{self._workdir} has no intact checkpoint, only damaged ones in {folder}: put a '
                f'copy of an intact one into {folder.with_name("checkpoints")}, or delete {folder} '
                'to start from scratch, and run the same command again'
            )
        return None

    def _set_damaged_aside(self, say: Callable[[str], None]) -> int | None:
        for step in reversed(steps(self._workdir)):
            folder = folder_of(self._workdir, step)
            if not (reason := damage(self._workdir, step)):
                files.remove_leftovers(folder)
                if record.is_earlier(folder):
                    say(
                        f'checkpoint {step} was written by an earlier version, without a checksum '
                        'of its progress: only the ranges of its values are checked'
                    )
                return step
            say(f'checkpoint {step} is damaged: {reason}; {set_aside(self._workdir, step)}')
        return None

    def save(self, step: int, state: TrainState, progress: Progress) -> None:
        """Begins to save; the files are written while training goes on.

        Of a step that is saved already, the progress is written anew if it is another one now: the
        run was told to end in an evaluation of this step, which has been done since.

        The arrays of the state may be donated as soon as this returns.

        Raises:
          UserError: this one, or the one before it, cannot be written; the newest whole one stays.
        """
        self.wait()
        best = [progress.best.step] if progress.best else []
        self._saving = step
        with self._writing():
            if not self._folder.is_dir():  # Orbax would make it anew, in a workdir without a run.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._folder))
        manager = self._open()
        manager.keep({*progress.chosen.values(), *best})
        if step == manager.latest_step():
            if jax.process_index() == 0:
                with self._writing():
                    record.renew(folder_of(self._workdir, step), progress)
            return
        if jax.default_backend() == 'cpu':
            # On a CPU the writer would see the arrays themselves, and the next step reuses their
            # memory; accelerators are copied to the host before `save` returns.
            state = _copied(state)
        with self._writing():
            # The thread that saves writes them when the files of the state are there.
            self._noted = copy.deepcopy(progress), record.sums_of(state)
            manager.save_state(step, state)

    def check(self) -> None:
        """Raises what stopped the writer, if anything did; waits for nothing."""
        if self._saving is not None and not self._is_saving():
            self.wait()

    def wait(self) -> None:
        """Returns when everything that was begun is on disk.

        Raises:
          UserError: it cannot be written; the newest whole checkpoint stays.
        """
        if self._opened is not None:
            with self._writing():
                self._opened.wait_until_finished()
        self._saving = None

    def _is_saving(self) -> bool:
        return self._opened is not None and self._opened.is_saving_in_progress()

    def close(self) -> None:
        """Waits, then frees the threads.

        After an error in a run of several processes the others may be gone, without whom nothing
        can be finished, so that the wait is short then.
        """
        if sys.exception() is not None and jax.process_count() > 1:
            end = time.monotonic() + _CLOSE_SECONDS
            while self._is_saving():
                if time.monotonic() > end:
                    return
                time.sleep(0.05)
        if self._opened is not None:
            with self._writing():
                self._opened.close()

    def restore(self, step: int, like: TrainState) -> tuple[TrainState, Progress]:
        """(state, progress) of a step, placed like `like`, which may be of shapes with shardings.

        Raises:
          DamagedCheckpoint: the files cannot be read; they were set aside, and `newest` gives the
            checkpoint before this one.
          UserError: it holds other arrays than those of `like`.
        """
        try:
            state = self._open().restore_state(step, like)
            saved = record.read(folder_of(self._workdir, step))
            record.check_sums(saved, state)
        except Exception as error:
            folder = folder_of(self._workdir, step)
            reason = damage_in(error, folder)
            if not reason and not folder.exists():
                reason = 'another process has found it damaged'  # And has set it aside already.
            if not reason:
                refuse_other_arrays(self._workdir, step, like, error)
                raise
            aside = set_aside(self._workdir, step)
            before = [other for other in steps(self._workdir) if other < step]
            raise DamagedCheckpoint(
                f'checkpoint {step} cannot be read: {reason}; {aside}; '
                + (
                    f'the same command continues from the one before it, step {before[-1]}'
                    if before
                    else 'there is none before it'
                )
            ) from error
        return state, saved.progress

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turns a full disk and the like into one line about the step that was begun last."""
        try:
            yield
        except Exception as error:
            if (trouble := errors.storage_trouble(error, str(self._unfinished))) is None:
                raise
            if jax.process_index() == 0:  # What was written of it takes room, and is of no use.
                shutil.rmtree(self._unfinished, ignore_errors=True)
            whole = steps(self._workdir)
            rest = f'the newest intact one is of step {whole[-1]}' if whole else 'there is no other'
            raise UserError(
                f'cannot write the checkpoint of step {self._saving}: {trouble.reason}; {rest}; '
                f'{trouble.advice} and start the same command again'
            ) from error

    @property
    def _unfinished(self) -> pathlib.Path:
        return self._folder / f'{self._saving}.orbax-checkpoint-tmp'
