"""Checksums of the arrays of a checkpoint, made on the devices that hold them."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from xlbench.training.checkpoints.record import FORMULA, Damage, Record
from xlbench.training.train_step import TrainState
from xlbench.trees import Arrays


def array_name(path: jax.tree_util.KeyPath) -> str:
    """The name of an array from its place in a tree, 'params/a/b'."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


@jax.jit
def array_sums(leaves: Sequence[jax.Array]) -> jax.Array:
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


def of(state: TrainState | Arrays) -> dict[str, int]:
    """{name and type of an array: its checksum}; the same on all processes."""
    named = jax.tree_util.tree_leaves_with_path(state)
    names = [f'{array_name(path)} {leaf.dtype}' for path, leaf in named]
    sums = jax.device_get(array_sums([leaf for _, leaf in named]))
    return dict(zip(names, sums.tolist(), strict=True))


def check(record: Record, state: TrainState | Arrays) -> None:
    """Raises Damage if an array of the state, or of a part of it, is not what was saved."""
    if record.formula != FORMULA or not record.sums:
        return  # Checkpoints of earlier versions may have none.
    for name, number in of(state).items():
        if number != record.sums.get(name, number):  # Read as another type, it has other bits.
            raise Damage(f'{name} is not what was saved (its checksum differs)')
