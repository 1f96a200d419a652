"""Layers of products with parameters, the MLP, and dropout.

Kernels are stored [out, in] and fused along a leading 'stack' axis (q/k/v, k/v, gated MLP), which
is what XLA:CPU multiplies fastest and what tensor parallelism shards on one axis. Parameters are
always float32; `matmul_dtype` is the type of a product's operands (see cpu_kernels.py).
"""

import contextvars
import functools
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.typing import DTypeLike

from xlbench.models import placement
from xlbench.models.cpu_kernels import product
from xlbench.models.fused import choice

Initializer = Callable[..., jax.Array]

KEPT = 'kept'  # The name of what recomputation by 'dots' keeps (loops.REMAT).
keep_for_backward = functools.partial(checkpoint_name, name=KEPT)


# Whether the layers that are traced are rounds of a loop.
IN_LOOP = contextvars.ContextVar('IN_LOOP', default=False)


def recomputed(f: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """f, of whose intermediate results the backward pass keeps none, on GPUs and in loops of TPUs.

    A loop writes down whatever its backward pass reads. Arithmetic without products waits for the
    memory of accelerators, and doing it twice takes less time than to write and read it. Outside
    loops XLA decides that by itself for TPUs; for GPUs it keeps three arrays of a GELU.
    """
    on = choice.platform()
    return jax.checkpoint(f) if on == 'gpu' or (IN_LOOP.get() and on != 'cpu') else f


ACTIVATIONS = {
    'relu': jax.nn.relu,
    'gelu': functools.partial(jax.nn.gelu, approximate=False),
    'gelu_tanh': functools.partial(jax.nn.gelu, approximate=True),  # T5's, 'gelu_new' elsewhere.
    'swish': jax.nn.swish,
    'tanh': jnp.tanh,
}


def fan_in_normal(scale: float | Sequence[float] = 1.0) -> Initializer:
    """Normal with standard deviation scale / sqrt(in); one scale for each part of a stack."""

    def init(rng, shape, dtype=jnp.float32):
        scales = jnp.asarray(scale, dtype) * shape[-1] ** -0.5
        if scales.ndim:
            scales = scales.reshape(-1, *[1] * (len(shape) - 1))
        return jax.random.normal(rng, shape, dtype) * scales

    return init


class Dense(nn.Module):
    """A product with one kernel [features, in], or with `stack` of them at once."""

    features: int
    axes: tuple[str, str]  # logical axes of (features, in)
    stack: int = 0  # 0: the kernel is [features, in]; n: [n, features, in]
    use_bias: bool = False
    matmul_dtype: DTypeLike = jnp.float32
    kernel_init: Initializer = fan_in_normal()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., in] -> [..., features] or [..., stack, features]."""
        shape, axes = (self.features, x.shape[-1]), self.axes
        if self.stack:
            shape, axes = (self.stack, *shape), ('stack', *axes)
        init = nn.with_logical_partitioning(self.kernel_init, axes)
        y = keep_for_backward(
            product(x, self.param('kernel', init, shape, jnp.float32), self.matmul_dtype)
        )
        if self.use_bias:
            init = nn.with_logical_partitioning(nn.initializers.zeros, axes[:-1])
            y = y + self.param('bias', init, shape[:-1], jnp.float32).astype(y.dtype)
        # Parameters decide whether the layer is adapted: see xlbench/models/lora.py.
        return y + self._adapted(x) if self.has_variable('params', 'lora_a') else y

    def _adapted(self, x: jax.Array) -> jax.Array:
        """scale B A x of LoRA (arXiv:2106.09685, equation 3), for each part of a stack."""
        a, b, scale = (self.get_variable('params', f'lora_{name}') for name in ('a', 'b', 'scale'))
        x = product(x, a, self.matmul_dtype)  # [..., rank] or [..., stack, rank]
        if not self.stack:
            return scale.astype(x.dtype) * product(x, b, self.matmul_dtype)
        parts = [
            product(part, part_b, self.matmul_dtype)
            for part, part_b in zip(jnp.moveaxis(x, -2, 0), b, strict=True)
        ]
        return scale.astype(x.dtype) * jnp.stack(parts, axis=-2)


def unstack(x: jax.Array) -> list[jax.Array]:
    """[batch, length, n, features] -> n arrays [batch, length, features].

    By `split`, whose gradient is one concatenation; indexing would pad and add n times.
    """
    parts = lax.split(x, [1] * x.shape[2], axis=2)
    return [part.reshape(*x.shape[:2], -1) for part in parts]


class Mlp(nn.Module):
    """Two layers; `gated` multiplies the activated half by a linear one (arXiv:2002.05202)."""

    features: int
    activation: str = 'relu'
    gated: bool = False
    use_bias: bool = False
    dropout_rate: float = 0.0
    shared_dropout: bool = True
    matmul_dtype: DTypeLike = jnp.float32
    kernel_init: Initializer = fan_in_normal()
    out_kernel_init: Initializer | None = None  # Of the second layer; None: kernel_init.

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """x [batch, length, embed] -> the same shape."""
        dense = functools.partial(Dense, use_bias=self.use_bias, matmul_dtype=self.matmul_dtype)
        first, second = self.kernel_init, self.out_kernel_init or self.kernel_init
        stack = 2 if self.gated else 0
        y = dense(self.features, ('mlp', 'embed'), stack, kernel_init=first, name='wi')(x)
        y = recomputed(functools.partial(_activated, self.activation, self.gated))(y)
        y = placement.place(y, 'mlp')
        y = Dropout(self.dropout_rate, positions_shared(self.shared_dropout))(y, train)
        return dense(x.shape[-1], ('embed', 'mlp'), kernel_init=second, name='wo')(y)


def _activated(activation: str, gated: bool, y: jax.Array) -> jax.Array:
    """y [batch, length, features], if gated two such halves -> [batch, length, features]."""
    if not gated:
        return ACTIVATIONS[activation](y)
    gate, y = unstack(y)
    return ACTIVATIONS[activation](gate) * y


class Dropout(nn.Module):
    """Dropout, with one mask for all indices of `shared_axes`."""

    rate: float
    shared_axes: tuple[int, ...] = ()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """x of any shape -> the same shape."""
        axes = tuple(axis % x.ndim for axis in self.shared_axes)
        return nn.Dropout(self.rate, broadcast_dims=axes)(x, deterministic=not train)


def positions_shared(shared: bool) -> tuple[int, ...]:
    """The axes of [..., length, features] over which a dropout mask is shared."""
    return (-2,) if shared else ()
