"""Checkpoints of a run: parameters, optimizer state and input position, saved while it trains.

  <workdir>/checkpoints/<step>/state/           Orbax: step, parameters, optimizer state
  <workdir>/checkpoints/<step>/checkpoint.json  stage, input position, best score so far; checksums
  <workdir>/damaged/<step>/                     a checkpoint that is damaged; nothing reads it

A checkpoint appears under its final name only when it is complete, so a process that dies while
it saves leaves the one before as the newest. What a disk, or a crash of the machine, does to it
afterwards is noticed: all but the arrays by sizes and checksums, before anything is used, and the
arrays by checksums of what was read. See checkpoint_record.py.
"""

import contextlib
import copy
import dataclasses
import errno
import functools
import itertools
import json
import logging
import os
import pathlib
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax import traverse_util
from jax.experimental import multihost_utils
from orbax.checkpoint.checkpoint_managers import preservation_policy

from xlbench import errors, files, foreign
from xlbench.config import ranges
from xlbench.errors import UserError
from xlbench.training import checkpoint_record
from xlbench.training.checkpoint_record import Damage, Progress

# Seconds that `close` waits, after an error, for a checkpoint that needs the other processes.
_CLOSE_SECONDS = 5
# Bytes. The devices that hold the same array write a part each; a part of less costs more than it
# saves, as each is cut off in a program of its own while training waits.
_SMALLEST_PART = 1 << 20
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


def check_options(
    *, every: Annotated[int, '1 or more'] = 1000, keep: Annotated[int, '1 or more'] = 2
) -> None:
    """Raises UserError for options that `Checkpoints` does not take."""
    ranges.check_own(check_options, dict(every=every, keep=keep), 'config.checkpoints')


@dataclasses.dataclass
class _Kept(preservation_policy.PreservationPolicy):
    """Keeps the newest checkpoints, the best one, and that of each stage before.

    Orbax could find the best one itself, but keeps the scores of a process in memory alone.
    """

    newest: int
    chosen: Collection[int] = ()  # Steps.

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: preservation_policy.PreservationContext
    ) -> list[bool]:
        """True for each of the checkpoints, oldest first, that stays."""
        del context
        steps = [checkpoint.step for checkpoint in checkpoints]
        return [step in (*self.chosen, *steps[-self.newest :]) for step in steps]


class _Manager(ocp.CheckpointManager):
    """Orbax's manager, which asks nobody whether the machine is about to be taken away.

    It would ask jax with a step, from a thread as well; all who ask must count in the same way.
    """

    def reached_preemption(self, step: int) -> bool:
        """Not its business."""
        return False


class Checkpoints:
    """The checkpoints of one workdir.

    Args:
      workdir: of the run.
      every: steps between two of them; the run's last step is always saved.
      keep: how many of the newest stay; besides, those stay that `progress` calls the best, or
        chosen for an earlier stage.
    """

    def __init__(self, workdir: str, *, every: int = 1000, keep: int = 2):
        check_options(every=every, keep=keep)
        _set_up_orbax()
        self.every = every
        self._workdir = workdir
        self._kept = _Kept(keep)
        self._saving: int | None = None  # The step that was begun last.
        self._noted: tuple[Progress, dict[str, int]] | None = None  # Its progress and checksums.
        self._wait_for_others = ocp.multihost.get_barrier_sync_fn()
        self._manager = _Manager(
            pathlib.Path(workdir).absolute() / 'checkpoints',
            item_names=('state',),
            options=ocp.CheckpointManagerOptions(
                preservation_policy=self._kept,
                cleanup_tmp_directories=True,
                enable_async_checkpointing=True,
                # Folders that machines share are seen late by some; all go by process 0.
                single_host_load_and_broadcast=True,
                async_options=ocp.AsyncOptions(
                    barrier_sync_fn=self._barrier, post_finalization_callback=self._write_record
                ),
            ),
        )

    @property
    def latest_step(self) -> int | None:
        """The newest checkpoint, complete or being written."""
        return self._manager.latest_step()

    def newest(
        self,
        say: Callable[[str], None] = print,
        doubt: Callable[[int, Progress], str] = lambda step, progress: progress.doubt(step),
    ) -> int | None:
        """The newest checkpoint that is not known to be damaged; the same on all processes.

        A damaged one is moved to <workdir>/damaged/, and the one before it is looked at.

        Args:
          say: is told, on process 0, of each checkpoint that was set aside.
          doubt: what cannot be so in the progress of a step, in words; '' if all of it can.

        Returns:
          a step, or None if the run has not saved any yet.

        Raises:
          UserError: there were checkpoints, and none is whole. To begin from nothing is a choice.
        """
        found = self._set_damaged_aside(say, doubt) if jax.process_index() == 0 else None
        found = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if found is None else found)))
        self._manager.reload()
        if found >= 0:
            return found
        folder = pathlib.Path(self._workdir) / 'damaged'
        if any(folder.glob('*')):
            raise UserError(
                f'{self._workdir} has no whole checkpoint, and damaged ones in {folder}: put back '
                f'a copy of one into {folder.with_name("checkpoints")}, or remove {folder} to '
                'begin from nothing, and start the same command again'
            )
        return None

    def _set_damaged_aside(
        self, say: Callable[[str], None], doubt: Callable[[int, Progress], str]
    ) -> int | None:
        for step in reversed(steps(self._workdir)):
            folder = _folder(self._workdir, step)
            reason = damage(self._workdir, step)
            if not (reason := reason or doubt(step, checkpoint_record.read(folder).progress)):
                files.remove_leftovers(folder)
                if checkpoint_record.is_earlier(folder):
                    say(
                        f'checkpoint {step} is of an earlier version, without a checksum of its '
                        'progress: only the ranges of what it says are checked'
                    )
                return step
            say(f'checkpoint {step} is damaged: {reason}; {_set_aside(self._workdir, step)}')
        return None

    def save(self, step: int, state: Any, progress: Progress) -> None:
        """Begins to save; the files are written while training goes on.

        Of a step that is saved already, the progress is written anew if it is another one now: the
        run was told to end in an evaluation of this step, which has been done since.

        Args:
          step: the global step.
          state: a TrainState; its arrays may be donated as soon as this returns.
          progress: of the run; the checkpoints that it calls best or chosen stay.

        Raises:
          UserError: this one, or the one before it, cannot be written; the newest whole one stays.
        """
        self.wait()
        best = [progress.best.step] if progress.best else []
        self._kept.chosen = {*progress.chosen.values(), *best}
        self._saving = step
        if step == self.latest_step:
            if jax.process_index() == 0:
                with self._writing():
                    checkpoint_record.renew(_folder(self._workdir, step), progress)
            return
        if jax.default_backend() == 'cpu':
            # On a CPU the writer would see the arrays themselves, and the next step reuses their
            # memory; accelerators are copied to the host before `save` returns.
            state = jax.tree.map(jnp.copy, state)
        with self._writing():
            folder = str(self._manager.directory)
            if not os.path.isdir(folder):  # Orbax would make it anew, in a workdir without a run.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
            # The thread that saves writes them when the files of the state are there.
            self._noted = copy.deepcopy(progress), _sums(state)
            self._manager.save(step, args=ocp.args.Composite(state=ocp.args.StandardSave(state)))

    def check(self) -> None:
        """Raises what stopped the writer, if anything did; waits for nothing."""
        if self._saving is not None and not self._manager.is_saving_in_progress():
            self.wait()

    def wait(self) -> None:
        """Returns when everything that was begun is on disk.

        Raises:
          UserError: it cannot be written; the newest whole checkpoint stays.
        """
        with self._writing():
            self._manager.wait_until_finished()
        self._saving = None

    def close(self) -> None:
        """Waits, then frees the threads.

        After an error in a run of several processes the others may be gone, without whom nothing
        can be finished, so that the wait is short then.
        """
        if sys.exception() is not None and jax.process_count() > 1:
            end = time.monotonic() + _CLOSE_SECONDS
            while self._manager.is_saving_in_progress():
                if time.monotonic() > end:
                    return
                time.sleep(0.05)
        with self._writing():
            self._manager.close()

    def restore(self, step: int, like: Any) -> tuple[Any, Progress]:
        """(state, progress) of a step.

        Args:
          step: one of the checkpoints.
          like: a TrainState of arrays, or of shapes with shardings; the state is placed like it.

        Raises:
          DamagedCheckpoint: the files cannot be read; they were set aside, and `newest` gives the
            checkpoint before this one.
          UserError: it holds other arrays than those of `like`.
        """
        abstract = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like
        )
        try:
            found = self._manager.restore(
                step, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
            )['state']
            record = checkpoint_record.read(_folder(self._workdir, step))
            _check_sums(record, found)
        except Exception as error:
            if not (reason := _damage_in(error, _folder(self._workdir, step))):
                _refuse_other_arrays(self._workdir, step, abstract, error)
                raise
            aside = _set_aside(self._workdir, step)
            before = [other for other in steps(self._workdir) if other < step]
            raise DamagedCheckpoint(
                f'checkpoint {step} cannot be read: {reason}; {aside}; '
                + (
                    f'the same command goes on from the one before it, of step {before[-1]}'
                    if before
                    else 'there is none before it'
                )
            ) from error
        return found, record.progress

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
            rest = f'the newest whole one is of step {whole[-1]}' if whole else 'there is no other'
            raise UserError(
                f'cannot write the checkpoint of step {self._saving}: {trouble.reason}; {rest}; '
                f'{trouble.advice} and start the same command again'
            ) from error

    @property
    def _unfinished(self) -> pathlib.Path:
        return self._manager.directory / f'{self._saving}.orbax-checkpoint-tmp'

    def _write_record(self) -> None:
        """Called on process 0, right before the checkpoint gets its final name."""
        progress, sums = self._noted
        checkpoint_record.write(self._unfinished, progress, sums)

    def _barrier(self, *, key: str, timeout_ms: int) -> None:
        """Waits for the other processes, in a thread that has not failed.

        Orbax's thread waits for them with its error in hand, which would be seen only when they
        gave up waiting for the files of this process.
        """
        own = threading.current_thread() is threading.main_thread()
        if own or sys.exception() is None:
            self._wait_for_others(key=key, timeout_ms=timeout_ms)


@functools.cache
def _set_up_orbax() -> None:
    """Has Orbax write small arrays whole, and its threads fail without a page of tracebacks each.

    What stops them is raised by `Checkpoints` and said there; they would print it several times
    before, and once more for each write that ends after the first one that failed. That another
    handler of arrays takes the place of the default one is no news, either.
    """

    def is_news(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.levelno < logging.ERROR:
            return not text.startswith('Type handler registry type')
        return 'orbax' not in record.pathname and 'exception was never retrieved' not in text

    for name in ('absl', 'asyncio'):
        logging.getLogger(name).addFilter(is_news)
    hook = sys.unraisablehook
    sys.unraisablehook = lambda args: (
        None if f'{args.exc_value}' == 'Event loop is closed' else hook(args)
    )
    ocp.type_handlers.register_type_handler(
        jax.Array,
        ocp.type_handlers.ArrayHandler(min_slice_bytes_for_replica_parallel=_SMALLEST_PART),
        override=True,
    )


# ---------------------------------------------------------------------------------------------
# Damage.


def damage(workdir: str, step: int) -> str:
    """What is wrong with a checkpoint, in words; '' if all of it but the arrays is as written.

    Raises:
      UserError: one of its files is a link that leads out of the workdir, or no file.
    """
    folder = _folder(workdir, step)
    foreign.check_tree(workdir, folder)
    return checkpoint_record.damage(folder, step)


@jax.jit
def _array_sums(leaves: Sequence[jax.Array]) -> jax.Array:
    """[leaves] uint32: of each array the sum of its elements' bits, mixed with their places.

    One altered element always alters its sum, any other damage but for one chance in 2**32. Whole
    numbers add up to the same in any order, so that a sum does not depend on how an array is cut.
    """
    sums = []
    for leaf in leaves:
        if leaf.dtype != jnp.bool_:
            leaf = jax.lax.bitcast_convert_type(leaf, f'uint{8 * leaf.dtype.itemsize}')
        place = jnp.zeros(leaf.shape, jnp.uint32)
        for axis, size in enumerate(leaf.shape):
            place = place * np.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, leaf.shape, axis)
        # The last steps of MurmurHash3, a bijection (github.com/aappleby/smhasher, fmix32).
        mixed = leaf.astype(jnp.uint32) ^ (place * np.uint32(0x9E3779B9))
        mixed = (mixed ^ (mixed >> 16)) * np.uint32(0x85EBCA6B)
        mixed = (mixed ^ (mixed >> 13)) * np.uint32(0xC2B2AE35)
        sums.append(jnp.sum(mixed ^ (mixed >> 16), dtype=jnp.uint32))
    return jnp.stack(sums)


def _sums(state: Any) -> dict[str, int]:
    """{name and type of an array: its checksum}; the same on all processes."""
    named = jax.tree_util.tree_leaves_with_path(state)
    names = [f'{_array_name(path)} {leaf.dtype}' for path, leaf in named]
    sums = jax.device_get(_array_sums([leaf for _, leaf in named]))
    return dict(zip(names, sums.tolist(), strict=True))


def _check_sums(record: checkpoint_record.Record, state: Any) -> None:
    """Raises Damage if an array of the state, or of a part of it, is not what was saved."""
    if record.formula != checkpoint_record.FORMULA or not record.sums:
        return  # Checkpoints of earlier versions may have none.
    for name, number in _sums(state).items():
        if number != record.sums.get(name, number):  # Read as another type, it has other bits.
            raise Damage(f'{name} is not what was saved (its checksum is another one)')


def _set_aside(workdir: str, step: int) -> str:
    """Moves a checkpoint out of the way; says where it went."""
    folder = pathlib.Path(workdir) / 'damaged'
    folder.mkdir(exist_ok=True)
    numbers = itertools.count(2)
    target = folder / str(step)
    while target.exists():
        target = folder / f'{step}-{next(numbers)}'
    try:
        _folder(workdir, step).rename(target)
    except FileNotFoundError:  # Another process was faster.
        target = folder / str(step)
    return f'it was set aside as {target}'


def _damage_in(error: BaseException | None, folder: pathlib.Path) -> str:
    """What a reader says of altered files, shortened; '' if the error has another cause."""
    text = ' '.join(f'{error}'.split())
    if isinstance(error, Damage):
        return text
    if error is not None and errors.is_withheld(error):
        return ''  # It may be whole.
    if isinstance(error, ValueError) and _DAMAGE.match(text):
        return re.split(r' \[(?:tensorstore_spec|source)', text)[0].rpartition('": ')[2][-200:]
    # Nothing covers Orbax's list of the arrays there, so that it reads whatever stands in it.
    if checkpoint_record.is_earlier(folder) and isinstance(error, _MISREAD):
        return f'{type(error).__name__}: {text}'[:200]
    return _damage_in(error.__cause__, folder) if error is not None else ''


# ---------------------------------------------------------------------------------------------
# Parameters alone, of any workdir.


def load_params(workdir: str, step: int, shapes: Any, shardings: Any) -> Any:
    """The parameters alone of a checkpoint, whatever else it holds.

    Args:
      workdir: of the run that saved it.
      step: one of its checkpoints.
      shapes: tree of arrays or ShapeDtypeStructs.
      shardings: the same tree of shardings.

    Raises:
      UserError: there is no such checkpoint, it is damaged, or it holds other arrays.
    """
    abstract = {
        'params': jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            shapes,
            shardings,
        )
    }
    arguments = ocp.checkpoint_utils.construct_restore_args(abstract)
    with _reading(workdir, step, abstract) as folder, ocp.PyTreeCheckpointer() as checkpointer:
        restored = checkpointer.restore(
            folder / 'state',
            args=ocp.args.PyTreeRestore(
                item=abstract, restore_args=arguments, partial_restore=True
            ),
        )
        _check_sums(checkpoint_record.read(folder), restored)
    return restored['params']


def save_params(workdir: str, step: int, params: Any) -> None:
    """Parameters that no run of ours has trained, as the checkpoint of a step.

    Args:
      workdir: without checkpoints.
      step: what to call it.
      params: tree of arrays.
    """
    largest = max(leaf.nbytes for leaf in jax.tree.leaves(params))
    # What Orbax copies is one large parameter at a time, or a few small ones. Numbers that nobody
    # rounded hardly get smaller by compression, which would need the same memory again.
    handler = ocp.PyTreeCheckpointHandler(
        save_concurrent_gb=1.01 * largest / 10**9,
        enable_pinned_host_transfer=False,
        use_compression=False,
    )
    folder = _folder(workdir, step)
    temporary = folder.with_name(f'{step}.orbax-checkpoint-tmp')
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(temporary / 'state', args=ocp.args.PyTreeSave({'params': params}))
    sums = {}
    for path, leaf in jax.tree.leaves_with_path({'params': params}):  # One array at a time, too.
        (number,) = jax.device_get(_array_sums([leaf])).tolist()
        sums[f'{_array_name(path)} {leaf.dtype}'] = number
    checkpoint_record.write(temporary, Progress(), sums)
    os.replace(temporary, folder)


def param_shapes(workdir: str, step: int) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter of a checkpoint, by its 'a/b/c' name; reads no numbers."""
    with _reading(workdir, step) as folder:
        tree = ocp.PyTreeCheckpointHandler().metadata(folder / 'state').tree['params']
    return {name: leaf.shape for name, leaf in traverse_util.flatten_dict(tree, sep='/').items()}


def read_params(workdir: str, step: int, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some of a checkpoint's parameters, by their 'a/b/c' names, in the host's memory."""

    def tree_of(leaf):
        return {'params': traverse_util.unflatten_dict(dict.fromkeys(names, leaf), sep='/')}

    arguments = ocp.args.PyTreeRestore(
        item=tree_of(0),
        restore_args=tree_of(ocp.RestoreArgs(restore_type=np.ndarray)),
        partial_restore=True,
    )
    with _reading(workdir, step) as folder, ocp.PyTreeCheckpointer() as checkpointer:
        restored = checkpointer.restore(folder / 'state', args=arguments)
        _check_sums(checkpoint_record.read(folder), restored)
    return traverse_util.flatten_dict(restored['params'], sep='/')


@contextlib.contextmanager
def _reading(workdir: str, step: int, abstract: Any = None) -> Iterator[pathlib.Path]:
    """The folder of a checkpoint; if it is damaged, or holds other arrays, that is one line."""
    folder = _folder(workdir, step)
    if not (folder / 'state').is_dir():
        raise UserError(
            f'{workdir} has no checkpoint of step {step}; it has {steps(workdir) or "none"}'
        )
    if reason := damage(workdir, step):
        raise _damaged(workdir, step, reason)
    try:
        yield folder
    except Exception as error:
        if not (reason := _damage_in(error, folder)):
            _refuse_other_arrays(workdir, step, abstract, error)
            raise
        raise _damaged(workdir, step, reason) from error


def _refuse_other_arrays(workdir: str, step: int, abstract: Any, error: Exception) -> None:
    """Raises UserError if a checkpoint holds other arrays than those that are asked for."""
    try:
        metadata = ocp.PyTreeCheckpointHandler().metadata(_folder(workdir, step) / 'state').tree
    except Exception:  # The first error says more.
        return
    there = {_array_name(path): leaf.shape for path, leaf in jax.tree.leaves_with_path(metadata)}
    for path, leaf in jax.tree.leaves_with_path(abstract):
        name = _array_name(path)
        if there.get(name) != leaf.shape:
            holds = f'with shape {there[name]}' if name in there else 'not at all'
            raise UserError(
                f'checkpoint {step} of {workdir} holds {name} {holds}, and the config of the run '
                f'asks for shape {leaf.shape}; one of the two is of another model, or was changed'
            ) from error


def _array_name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator='/')


def _damaged(workdir: str, step: int, reason: str) -> UserError:
    others = ', '.join(str(other) for other in steps(workdir) if other != step)
    return UserError(
        f'checkpoint {step} of {workdir} is damaged: {reason}; '
        + (f'try another one: {others}' if others else 'there is no other one')
    )


def find_step(workdir: str, wanted: str) -> int:
    """The checkpoint that 'best', 'last' or a number means.

    The best one is of the stage that the run has come to. Where that has no score yet, it is the
    newest one.

    Raises:
      UserError: there is none, with those that there are.
    """
    there = steps(workdir)
    if not there:
        raise UserError(f'{workdir} has no checkpoint yet')
    if wanted == 'last':
        return there[-1]
    if wanted == 'best':
        best = read_progress(workdir, there[-1]).best
        return best.step if best else there[-1]
    if not files.is_step(wanted) or int(wanted) not in there:
        raise UserError(
            f'{workdir} has no checkpoint {wanted!r}; it has best, last, '
            f'{", ".join(map(str, there))}'
        )
    return int(wanted)


def steps(workdir: str) -> list[int]:
    """The steps of a workdir's complete checkpoints, in order."""
    names = files.names(pathlib.Path(workdir) / 'checkpoints')
    return sorted(int(name) for name in names if files.is_step(name))


def read_progress(workdir: str, step: int) -> Progress:
    """The progress that was saved with a step; UserError if it is damaged."""
    try:
        progress = checkpoint_record.read(_folder(workdir, step)).progress
        reason = progress.doubt(step)
    except Damage as error:
        reason = str(error)
    if reason:
        raise _damaged(workdir, step, f'its progress cannot be read ({reason})')
    return progress


def _folder(workdir: str, step: int) -> pathlib.Path:
    return pathlib.Path(workdir).absolute() / 'checkpoints' / str(step)
