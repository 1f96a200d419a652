"""Parameters alone, of the checkpoints of any workdir.

Orbax takes most of a second to import, which a run that begins need not wait for: its functions
import it.
"""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from flax import traverse_util

from xlbench.system.errors import UserError
from xlbench.training import train_step
from xlbench.training.checkpoints import record, sums
from xlbench.training.checkpoints.folders import damage, damage_in, damaged, folder_of, steps
from xlbench.training.checkpoints.record import Progress
from xlbench.training.train_step import TrainState
from xlbench.trees import Params, Shapes, Shardings, Tree


def load_params(workdir: str, step: int, shapes: Shapes, shardings: Shardings) -> Params:
    """The parameters alone of a checkpoint, whatever else it holds.

    Args:
      workdir: of the run that saved it.
      step: one of its checkpoints.
      shapes: tree of arrays or ShapeDtypeStructs.
      shardings: the same tree of shardings.

    Raises:
      UserError: there is no such checkpoint, it is damaged, or it holds other arrays.
    """
    import orbax.checkpoint as ocp

    abstract = {'params': train_step.placed(shapes, shardings)}
    arguments = ocp.checkpoint_utils.construct_restore_args(abstract)
    with _reading(workdir, step, abstract) as folder, ocp.PyTreeCheckpointer() as checkpointer:
        args = ocp.args.PyTreeRestore(item=abstract, restore_args=arguments, partial_restore=True)
        restored = checkpointer.restore(folder / 'state', args=args)
        sums.check(record.read(folder), restored)
    return restored['params']


def save_params(workdir: str, step: int, params: Params) -> None:
    """Parameters that no run of ours has trained, as the checkpoint of a step.

    Args:
      workdir: without checkpoints.
      step: what to call it.
      params: tree of arrays.
    """
    import orbax.checkpoint as ocp

    largest = max(leaf.nbytes for leaf in jax.tree.leaves(params))
    # What Orbax copies is one large parameter at a time, or a few small ones. Numbers that nobody
    # rounded hardly get smaller by compression, which would need the same memory again.
    handler = ocp.PyTreeCheckpointHandler(
        save_concurrent_gb=1.01 * largest / 10**9,
        enable_pinned_host_transfer=False,
        use_compression=False,
    )
    folder = folder_of(workdir, step)
    temporary = folder.with_name(f'{step}.orbax-checkpoint-tmp')
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(temporary / 'state', args=ocp.args.PyTreeSave({'params': params}))
    numbers = {}
    for path, leaf in jax.tree.leaves_with_path({'params': params}):  # One array at a time, too.
        (number,) = jax.device_get(sums.array_sums([leaf])).tolist()
        numbers[f'{sums.array_name(path)} {leaf.dtype}'] = number
    record.write(temporary, Progress(), numbers)
    os.replace(temporary, folder)


def param_shapes(workdir: str, step: int) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter of a checkpoint, by its 'a/b/c' name; reads no numbers."""
    import orbax.checkpoint as ocp

    with _reading(workdir, step) as folder:
        tree = ocp.PyTreeCheckpointHandler().metadata(folder / 'state').tree['params']
    return {name: leaf.shape for name, leaf in traverse_util.flatten_dict(tree, sep='/').items()}


def read_params(workdir: str, step: int, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some of a checkpoint's parameters, by their 'a/b/c' names, in the host's memory."""
    import orbax.checkpoint as ocp

    def tree_of(leaf: 'int | ocp.RestoreArgs') -> 'Tree[int | ocp.RestoreArgs]':
        return {'params': traverse_util.unflatten_dict(dict.fromkeys(names, leaf), sep='/')}

    arguments = ocp.args.PyTreeRestore(
        item=tree_of(0),
        restore_args=tree_of(ocp.RestoreArgs(restore_type=np.ndarray)),
        partial_restore=True,
    )
    with _reading(workdir, step) as folder, ocp.PyTreeCheckpointer() as checkpointer:
        restored = checkpointer.restore(folder / 'state', args=arguments)
        sums.check(record.read(folder), restored)
    return traverse_util.flatten_dict(restored['params'], sep='/')


@contextlib.contextmanager
def _reading(workdir: str, step: int, abstract: Shapes | None = None) -> Iterator[pathlib.Path]:
    """The folder of a checkpoint; if it is damaged, or holds other arrays, that is one line."""
    folder = folder_of(workdir, step)
    if not (folder / 'state').is_dir():
        raise UserError(
            f'{workdir} has no checkpoint of step {step}; it has {steps(workdir) or "none"}'
        )
    if reason := damage(workdir, step):
        raise damaged(workdir, step, reason)
    try:
        yield folder
    except Exception as error:
        if not (reason := damage_in(error, folder)):
            refuse_other_arrays(workdir, step, abstract, error)
            raise
        raise damaged(workdir, step, reason) from error


def refuse_other_arrays(
    workdir: str, step: int, abstract: TrainState | Shapes | None, error: Exception
) -> None:
    """Raises UserError if a checkpoint holds other arrays than those that are asked for."""
    import orbax.checkpoint as ocp

    try:
        metadata = ocp.PyTreeCheckpointHandler().metadata(folder_of(workdir, step) / 'state').tree
    except Exception:  # The first error says more.
        return
    leaves = jax.tree.leaves_with_path(metadata)
    there = {sums.array_name(path): leaf.shape for path, leaf in leaves}
    for path, leaf in jax.tree.leaves_with_path(abstract):
        name = sums.array_name(path)
        if there.get(name) != leaf.shape:
            found = f'has shape {there[name]}' if name in there else 'is missing'
            raise UserError(
                f'{name} {found} in checkpoint {step} of {workdir}, but the config of the run '
                f'needs shape {leaf.shape}; one of the two belongs to another model, or was changed'
            ) from error
