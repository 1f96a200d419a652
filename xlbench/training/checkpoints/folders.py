"""The checkpoints of any workdir: which there are, whether they are whole, and their parameters.

Orbax takes most of a second to import, which a run that begins need not wait for: the functions
that read or write parameters import it.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from flax import traverse_util

from xlbench.settings.workdirs import check_step, steps
from xlbench.system import errors
from xlbench.system.errors import UserError
from xlbench.system.trees import Params, Shapes, Shardings, Tree
from xlbench.training import train_step
from xlbench.training.checkpoints import record
from xlbench.training.checkpoints.record import Damage, Progress, damage, folder_of
from xlbench.training.train_step import TrainState

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


def find_step(workdir: str, name: str) -> int:
    """The step of a checkpoint by its name: 'best', 'last' or a number.

    The best one is of the stage that the run has come to. Where that has no score yet, it is the
    newest one.

    Raises:
      UserError: there is none, with those that there are.
    """
    newest = check_step(workdir, name)[-1]
    if name == 'best':
        best = read_progress(workdir, newest).best
        return best.step if best else newest
    return newest if name == 'last' else int(name)


def read_progress(workdir: str, step: int) -> Progress:
    """The progress that was saved with a step; UserError if it is damaged."""
    try:
        return record.read(folder_of(workdir, step)).progress
    except Damage as error:
        raise damaged(workdir, step, f'its progress cannot be read ({error})') from None


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
    """Finds a reader's complaint about altered files, cut short; '' for any other error."""
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


def load_params(workdir: str, step: int, shapes: Shapes, shardings: Shardings) -> Params:
    """The parameters alone of a checkpoint, whatever else it holds, placed by `shardings`.

    Raises:
      UserError: there is no such checkpoint, it is damaged, or it holds other arrays.
    """
    import orbax.checkpoint as ocp

    abstract = {'params': train_step.placed(shapes, shardings)}
    arguments = ocp.checkpoint_utils.construct_restore_args(abstract)
    with _reading(workdir, step, abstract) as folder, ocp.PyTreeCheckpointer() as checkpointer:
        args = ocp.args.PyTreeRestore(item=abstract, restore_args=arguments, partial_restore=True)
        restored = checkpointer.restore(folder / 'state', args=args)
        record.check_sums(record.read(folder), restored)
    return restored['params']


def save_params(workdir: str, step: int, params: Params) -> None:
    """Saves parameters that no run of ours has trained, in a workdir without checkpoints."""
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
        (number,) = jax.device_get(record.array_sums([leaf])).tolist()
        numbers[f'{record.array_name(path)} {leaf.dtype}'] = number
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
        record.check_sums(record.read(folder), restored)
    return traverse_util.flatten_dict(restored['params'], sep='/')


@contextlib.contextmanager
def _reading(workdir: str, step: int, abstract: Shapes | None = None) -> Iterator[pathlib.Path]:
    """The folder of a checkpoint; raises UserError if it is damaged, or holds other arrays."""
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
    there = {record.array_name(path): leaf.shape for path, leaf in leaves}
    for path, leaf in jax.tree.leaves_with_path(abstract):
        name = record.array_name(path)
        if there.get(name) != leaf.shape:
            found = f'has shape {there[name]}' if name in there else 'is missing'
            raise UserError(
                f'{name} {found} in checkpoint {step} of {workdir}, but the config of the run '
                f'needs shape {leaf.shape}; one of the two belongs to another model, or was changed'
            ) from error
