"""Checkpoints of a run: parameters, optimizer state and input position, saved while it trains.

  <workdir>/checkpoints/<step>/state/     Orbax: step, parameters, optimizer state
  <workdir>/checkpoints/<step>/progress/  JSON: stage, input position, best score so far

A checkpoint appears under its final name only when it is complete, so a process that dies while
it saves leaves the one before as the newest.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax import traverse_util
from orbax.checkpoint.checkpoint_managers import preservation_policy

from xlbench.errors import UserError


def check_options(*, every: int = 1000, keep: int = 2) -> None:
    """Raises UserError for options that `Checkpoints` does not take."""
    if every < 1 or keep < 1:
        raise UserError(f'config.checkpoints: every {every} and keep {keep} must be 1 or more')


@dataclasses.dataclass
class _Kept(preservation_policy.PreservationPolicy):
    """Keeps the newest checkpoints and the best one.

    Orbax could find the best one itself, but keeps the scores of a process in memory alone.
    """

    newest: int
    best: int | None = None  # A step.

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: preservation_policy.PreservationContext
    ) -> list[bool]:
        """True for each of the checkpoints, oldest first, that stays."""
        del context
        steps = [checkpoint.step for checkpoint in checkpoints]
        return [step in (self.best, *steps[-self.newest :]) for step in steps]


class Checkpoints:
    """The checkpoints of one workdir.

    Args:
      workdir: of the run.
      every: steps between two of them; the run's last step is always saved.
      keep: how many of the newest stay; the one that `progress` calls the best stays besides.
    """

    def __init__(self, workdir: str, *, every: int = 1000, keep: int = 2):
        check_options(every=every, keep=keep)
        self.every = every
        self._kept = _Kept(keep)
        self._folder = pathlib.Path(workdir).absolute() / 'checkpoints'
        self._manager = ocp.CheckpointManager(
            self._folder,
            item_names=('state', 'progress'),
            options=ocp.CheckpointManagerOptions(
                preservation_policy=self._kept,
                cleanup_tmp_directories=True,
                enable_async_checkpointing=True,
            ),
        )

    @property
    def latest_step(self) -> int | None:
        """The newest complete checkpoint."""
        return self._manager.latest_step()

    def save(self, step: int, state: Any, progress: Mapping[str, Any]) -> None:
        """Begins to save; the files are written while training goes on.

        Args:
          step: the global step.
          state: a TrainState; its arrays may be donated as soon as this returns.
          progress: what JSON can hold; its 'best' is None or holds the 'step' that is to stay.
        """
        if step == self.latest_step:
            return
        if jax.default_backend() == 'cpu':
            # On a CPU the writer would see the arrays themselves, and the next step reuses their
            # memory; accelerators are copied to the host before `save` returns.
            state = jax.tree.map(jnp.copy, state)
        best = progress['best']
        self._kept.best = best and best['step']
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), progress=ocp.args.JsonSave(dict(progress))
            ),
        )

    def restore(self, step: int, like: Any) -> Any:
        """The state of a step, placed as `like` (arrays, or shapes with shardings) is placed."""
        abstract = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like
        )
        return self._manager.restore(
            step, args=ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
        )['state']

    def wait(self) -> None:
        """Returns when everything that was begun is on disk."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits, then frees the threads."""
        self._manager.close()


def load_params(workdir: str, step: int, shapes: Any, shardings: Any) -> Any:
    """The parameters alone of a checkpoint, whatever else it holds.

    Args:
      workdir: of the run that saved it.
      step: one of its checkpoints.
      shapes: tree of arrays or ShapeDtypeStructs.
      shardings: the same tree of shardings.

    Raises:
      UserError: there is no such checkpoint.
    """
    abstract = {
        'params': jax.tree.map(
            lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
            shapes,
            shardings,
        )
    }
    arguments = ocp.checkpoint_utils.construct_restore_args(abstract)
    with ocp.PyTreeCheckpointer() as checkpointer:
        return checkpointer.restore(
            _state_folder(workdir, step),
            args=ocp.args.PyTreeRestore(
                item=abstract, restore_args=arguments, partial_restore=True
            ),
        )['params']


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
    handler = ocp.PyTreeCheckpointHandler()
    tree = handler.metadata(_state_folder(workdir, step)).tree['params']
    return {name: leaf.shape for name, leaf in traverse_util.flatten_dict(tree, sep='/').items()}


def read_params(workdir: str, step: int, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some of a checkpoint's parameters, by their 'a/b/c' names, in the host's memory."""

    def tree_of(leaf):
        return {'params': traverse_util.unflatten_dict(dict.fromkeys(names, leaf), sep='/')}

    with ocp.PyTreeCheckpointer() as checkpointer:
        arguments = ocp.args.PyTreeRestore(
            item=tree_of(0),
            restore_args=tree_of(ocp.RestoreArgs(restore_type=np.ndarray)),
            partial_restore=True,
        )
        tree = checkpointer.restore(_state_folder(workdir, step), args=arguments)['params']
    return traverse_util.flatten_dict(tree, sep='/')


def _state_folder(workdir: str, step: int) -> pathlib.Path:
    folder = pathlib.Path(workdir).absolute() / 'checkpoints' / str(step) / 'state'
    if not folder.is_dir():
        raise UserError(
            f'{workdir} has no checkpoint of step {step}; it has {steps(workdir) or "none"}'
        )
    return folder


def find_step(workdir: str, wanted: str) -> int:
    """The checkpoint that 'best', 'last' or a number means.

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
    if not wanted.isdigit() or int(wanted) not in there:
        raise UserError(
            f'{workdir} has no checkpoint {wanted!r}; it has best, last, '
            f'{", ".join(map(str, there))}'
        )
    return int(wanted)


def steps(workdir: str) -> list[int]:
    """The steps of a workdir's complete checkpoints, in order."""
    folder = pathlib.Path(workdir) / 'checkpoints'
    return sorted(int(entry.name) for entry in folder.glob('*') if entry.name.isdigit())


def read_progress(workdir: str, step: int) -> dict[str, Any]:
    """The progress that was saved with a step."""
    folder = pathlib.Path(workdir).absolute() / 'checkpoints' / str(step) / 'progress'
    with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as checkpointer:
        return checkpointer.restore(folder)
