"""Checkpoints of a run: parameters, optimizer state and input position, saved while it trains.

  <workdir>/checkpoints/<step>/state/      Orbax: step, parameters, optimizer state
  <workdir>/checkpoints/<step>/progress/   JSON: stage, input position, best score so far
  <workdir>/checkpoints/<step>/sums/       JSON: {array: its checksum}
  <workdir>/checkpoints/<step>/files.json  {name: bytes} of the files in state and sums, as written
  <workdir>/damaged/<step>/                a checkpoint that was found damaged; nothing reads it

A checkpoint appears under its final name only when it is complete, so a process that dies while
it saves leaves the one before as the newest. What a disk, or a crash of the machine, does to it
afterwards is found: files that are missing or cut by their sizes, before anything is read, and
altered ones by the reader or by the checksums of what was read.
"""

import contextlib
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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

FILES = 'files.json'
# How checksums are computed; those of another formula are not compared.
_FORMULA = 'formula', 1
_ITEMS = ('state', 'progress', 'sums')
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


class DamagedCheckpoint(UserError):
    """A checkpoint that cannot be read; the same command takes the one before it."""

    exit_code = 75  # START_AGAIN in processes.py, which stands above this file.


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
        self._wait_for_others = ocp.multihost.get_barrier_sync_fn()
        self._manager = _Manager(
            pathlib.Path(workdir).absolute() / 'checkpoints',
            item_names=_ITEMS,
            options=ocp.CheckpointManagerOptions(
                preservation_policy=self._kept,
                cleanup_tmp_directories=True,
                enable_async_checkpointing=True,
                # Folders that machines share are seen late by some; all go by process 0.
                single_host_load_and_broadcast=True,
                async_options=ocp.AsyncOptions(
                    barrier_sync_fn=self._barrier, post_finalization_callback=self._list_files
                ),
            ),
        )

    @property
    def latest_step(self) -> int | None:
        """The newest checkpoint, complete or being written."""
        return self._manager.latest_step()

    def newest(self, say: Callable[[str], None] = print) -> int | None:
        """The newest checkpoint whose files are all there; the same on all processes.

        A damaged one is moved to <workdir>/damaged/, and the one before it is looked at.

        Args:
          say: is told, on process 0, of each checkpoint that was set aside.

        Returns:
          a step, or None if the run has not saved any yet.

        Raises:
          UserError: there were checkpoints, and none is whole. To begin from nothing is a choice.
        """
        found = self._set_damaged_aside(say) if jax.process_index() == 0 else None
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

    def _set_damaged_aside(self, say: Callable[[str], None]) -> int | None:
        for step in reversed(steps(self._workdir)):
            if not (reason := damage(self._workdir, step)):
                return step
            say(f'checkpoint {step} is damaged: {reason}; {_set_aside(self._workdir, step)}')
        return None

    def save(self, step: int, state: Any, progress: Mapping[str, Any]) -> None:
        """Begins to save; the files are written while training goes on.

        Of a step that is saved already, the progress is written anew if it is another one now: the
        run was told to end in an evaluation of this step, which has been done since.

        Args:
          step: the global step.
          state: a TrainState; its arrays may be donated as soon as this returns.
          progress: what JSON can hold; its 'best' is None or holds the 'step' that is to stay,
            and so do the values of its 'chosen', if it has any.

        Raises:
          UserError: this one, or the one before it, cannot be written; the newest whole one stays.
        """
        self.wait()
        best = progress['best']
        self._kept.chosen = {
            *progress.get('chosen', {}).values(),
            *([best['step']] if best else ()),
        }
        self._saving = step
        if step == self.latest_step:
            self._renew(step, progress)
            return
        if jax.default_backend() == 'cpu':
            # On a CPU the writer would see the arrays themselves, and the next step reuses their
            # memory; accelerators are copied to the host before `save` returns.
            state = jax.tree.map(jnp.copy, state)
        with self._writing():
            folder = str(self._manager.directory)
            if not os.path.isdir(folder):  # Orbax would make it anew, in a workdir without a run.
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(state),
                    progress=ocp.args.JsonSave(dict(progress)),
                    sums=ocp.args.JsonSave(_sums(state) | dict([_FORMULA])),
                ),
            )

    def _renew(self, step: int, progress: Mapping[str, Any]) -> None:
        text = json.dumps(dict(progress))
        if jax.process_index() == 0:
            with self._writing():
                if json.loads(text) != _read_json(self._workdir, step, 'progress'):
                    files.write(_json_path(self._workdir, step, 'progress'), text)

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

    def restore(self, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
        """(state, progress) of a step.

        Args:
          step: one of the checkpoints.
          like: a TrainState of arrays, or of shapes with shardings; the state is placed like it.

        Raises:
          DamagedCheckpoint: the files cannot be read; they were set aside, and `newest` gives the
            checkpoint before this one.
        """
        abstract = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like
        )
        try:
            found = self._manager.restore(
                step, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
            )['state']
            progress = _read_json(self._workdir, step, 'progress')
            _check_sums(self._workdir, step, found)
        except Exception as error:
            if not (reason := _damage_in(error)):
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
        return found, progress

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

    def _list_files(self) -> None:
        """Notes what was written, on process 0, right before the checkpoint gets its final name."""
        folder = pathlib.Path(self._unfinished)
        sizes = {
            str(path.relative_to(folder)): path.stat().st_size
            for item in ('state', 'sums')  # Progress may be written anew.
            for path in sorted((folder / item).rglob('*'))
            if path.is_file()
        }
        files.write(folder / FILES, json.dumps(sizes, indent=1) + '\n')

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
    """What is wrong with the files of a checkpoint, in words; '' if they are as they were written.

    Their names and sizes are compared; a checkpoint without a list of them is not doubted.

    Raises:
      UserError: one of them is a link that leads out of the workdir, or no file.
    """
    folder = _folder(workdir, step)
    foreign.check_tree(workdir, folder)
    try:
        if (folder / FILES).exists():
            for name, size in _parse((folder / FILES).read_text(encoding='utf-8')).items():
                if (found := (folder / name).stat().st_size) != size:
                    return f'{name} has {found} bytes instead of {size}'
        _read_json(workdir, step, 'progress')
    except FileNotFoundError as error:
        return f'{pathlib.Path(error.filename).relative_to(folder)} is missing'
    except (ValueError, AttributeError) as error:  # JSON of another kind has no items.
        return f'it has broken JSON: {error}'
    return ''


class _WrongSum(ValueError):
    """An array is not what was saved."""


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
    names = [
        f'{jax.tree_util.keystr(path, simple=True, separator="/")} {leaf.dtype}'
        for path, leaf in named
    ]
    found = jax.device_get(_array_sums([leaf for _, leaf in named]))
    return dict(zip(names, found.tolist(), strict=True))


def _check_sums(workdir: str, step: int, state: Any) -> None:
    """Raises _WrongSum if an array of the state, or of a part of it, is not what was saved."""
    try:
        saved = _read_json(workdir, step, 'sums')
    except FileNotFoundError:
        return  # Checkpoints had none once, and those that `save_params` writes have none.
    if _FORMULA not in saved.items():
        return
    for name, found in _sums(state).items():
        if found != saved.get(name, found):  # Read as another type, it has other bits.
            raise _WrongSum(f'{name} is not what was saved (its checksum is another one)')


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


def _damage_in(error: BaseException | None) -> str:
    """What a reader says of altered files, shortened; '' if the error has another cause."""
    text = ' '.join(f'{error}'.split())
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | _WrongSum):
        return text
    if isinstance(error, ValueError) and _DAMAGE.match(text):
        return re.split(r' \[(?:tensorstore_spec|source)', text)[0].rpartition('": ')[2][-200:]
    return _damage_in(error.__cause__) if error is not None else ''


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
      UserError: there is no such checkpoint, or it is damaged.
    """
    abstract = {
        'params': jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            shapes,
            shardings,
        )
    }
    arguments = ocp.checkpoint_utils.construct_restore_args(abstract)
    with _reading(workdir, step) as folder, ocp.PyTreeCheckpointer() as checkpointer:
        found = checkpointer.restore(
            folder,
            args=ocp.args.PyTreeRestore(
                item=abstract, restore_args=arguments, partial_restore=True
            ),
        )
        _check_sums(workdir, step, found)
    return found['params']


def save_params(workdir: str, step: int, params: Any) -> None:
    """Parameters that no run of ours has trained, as the checkpoint of a step.

    Args:
      workdir: without checkpoints.
      step: what to call it.
      params: tree of arrays.
    """
    largest = max(leaf.nbytes for leaf in jax.tree.leaves(params))
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    # What Orbax copies is one large parameter at a time, or a few small ones. Numbers that nobody
    # rounded hardly get smaller by compression, which would need the same memory again.
    handler = ocp.PyTreeCheckpointHandler(
        save_concurrent_gb=1.01 * largest / 10**9,
        enable_pinned_host_transfer=False,
        use_compression=False,
    )
    with ocp.CheckpointManager(
        pathlib.Path(workdir).absolute() / 'checkpoints',
        options=options,
        item_handlers={'state': handler, 'progress': ocp.JsonCheckpointHandler()},
    ) as manager:
        progress = {'stage': '', 'position': None, 'best': None, 'stale': 0}
        manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeSave({'params': params}), progress=ocp.args.JsonSave(progress)
            ),
        )


def param_shapes(workdir: str, step: int) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter of a checkpoint, by its 'a/b/c' name; reads no numbers."""
    with _reading(workdir, step) as folder:
        tree = ocp.PyTreeCheckpointHandler().metadata(folder).tree['params']
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
        found = checkpointer.restore(folder, args=arguments)
        _check_sums(workdir, step, found)
    return traverse_util.flatten_dict(found['params'], sep='/')


@contextlib.contextmanager
def _reading(workdir: str, step: int) -> Iterator[pathlib.Path]:
    """The folder of a checkpoint's state; if it is damaged, that is one line."""
    folder = _folder(workdir, step) / 'state'
    if not folder.is_dir():
        raise UserError(
            f'{workdir} has no checkpoint of step {step}; it has {steps(workdir) or "none"}'
        )
    if reason := damage(workdir, step):
        raise _damaged(workdir, step, reason)
    try:
        yield folder
    except Exception as error:
        if not (reason := _damage_in(error)):
            raise
        raise _damaged(workdir, step, reason) from error


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
        best = read_progress(workdir, there[-1])['best']
        return best['step'] if best else there[-1]
    if not files.is_step(wanted) or int(wanted) not in there:
        raise UserError(
            f'{workdir} has no checkpoint {wanted!r}; it has best, last, '
            f'{", ".join(map(str, there))}'
        )
    return int(wanted)


def steps(workdir: str) -> list[int]:
    """The steps of a workdir's complete checkpoints, in order."""
    folder = pathlib.Path(workdir) / 'checkpoints'
    return sorted(int(entry.name) for entry in folder.glob('*') if files.is_step(entry.name))


def read_progress(workdir: str, step: int) -> dict[str, Any]:
    """The progress that was saved with a step."""
    try:
        progress = _read_json(workdir, step, 'progress')
        if (best := progress['best']) is not None and not isinstance(best['step'], int):
            raise ValueError(f'the step of its best is {best["step"]!r}')
        return progress
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise _damaged(workdir, step, f'its progress cannot be read ({error})') from error


def _read_json(workdir: str, step: int, item: str) -> dict[str, Any]:
    # Not with Orbax, with which all processes would have to read it together.
    path = _json_path(workdir, step, item)
    if not foreign.file(workdir, path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return _parse(path.read_text('utf-8'))


def _parse(text: str) -> Any:
    """json.loads of which every failure is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError('nested too deeply') from None


def _json_path(workdir: str, step: int, item: str) -> pathlib.Path:
    return _folder(workdir, step) / item / 'metadata'


def _folder(workdir: str, step: int) -> pathlib.Path:
    return pathlib.Path(workdir).absolute() / 'checkpoints' / str(step)
