"""Norms over the features, computed in float32, and vectors of length 1."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from xlbench.models.dense import recomputed


class RMSNorm(nn.Module):
    """Divides by the root mean square, in float32, and scales; no mean, no offset."""

    epsilon: float = 1e-6
    from_one: bool = False  # The scale is 1 + the parameter.

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., embed] -> the same shape and type."""
        fresh = nn.initializers.zeros if self.from_one else nn.initializers.ones
        init = nn.with_logical_partitioning(fresh, ('embed',))
        scale = self.param('scale', init, (x.shape[-1],), jnp.float32) + self.from_one
        return recomputed(functools.partial(_rms_normed, self.epsilon))(x, scale)


def _rms_normed(epsilon: float, x: jax.Array, scale: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    return (wide * lax.rsqrt(mean_square + epsilon) * scale).astype(x.dtype)


class LayerNorm(nn.Module):
    """Subtracts the mean, divides by the standard deviation, in float32; scales and shifts."""

    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., embed] -> the same shape and type."""
        axes, shape = ('embed',), (x.shape[-1],)
        ones = nn.with_logical_partitioning(nn.initializers.ones, axes)
        zeros = nn.with_logical_partitioning(nn.initializers.zeros, axes)
        scale = self.param('scale', ones, shape, jnp.float32)
        bias = self.param('bias', zeros, shape, jnp.float32)
        return recomputed(functools.partial(_layer_normed, self.epsilon))(x, scale, bias)


def _layer_normed(epsilon: float, x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return (centred * lax.rsqrt(variance + epsilon) * scale + bias).astype(x.dtype)


def unit(x: jax.Array) -> jax.Array:
    """Vectors [..., features] divided by their length; one of zeros, without NaN, stays one."""
    return x * lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(x), axis=-1, keepdims=True), 1e-24))
