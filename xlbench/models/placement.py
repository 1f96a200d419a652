"""Places activations on a mesh: models name logical axes, and one table elsewhere maps them."""

import flax.linen as nn
import jax


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
    """x with its axes on those of the mesh that the logical ones lie on; not where its size is 1.

    So the one position of a decoding step is no length that a mesh cuts.
    """
    axes = tuple(axis if size > 1 else None for axis, size in zip(axes, x.shape, strict=True))
    return nn.with_logical_constraint(x, axes)


def place(x: jax.Array, features: str = 'embed') -> jax.Array:
    """Activations [batch, length, features]: a device holds its rows and its positions of them."""
    return constrain(x, 'batch', 'length', features)
