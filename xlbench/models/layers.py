"""The layers that all families are built of: products, the MLP, norms, dropout, tables of tokens.

Kernels are stored [out, in] and fused along a leading 'stack' axis (q/k/v, k/v, gated MLP), which
is what XLA:CPU multiplies fastest and what tensor parallelism shards on one axis. Parameters are
always float32; `matmul_dtype` is the type of a product's operands (see cpu_kernels.py).

Models name logical axes; one table elsewhere (parallel/partitioning.py) maps them to a mesh.
"""

import contextvars
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.typing import DTypeLike

from xlbench.models.cpu_kernels import product
from xlbench.models.fused import choice
from xlbench.system.ranges import Block, Meta

Initializer = Callable[..., jax.Array]
Source: TypeAlias = Any  # Encoded inputs: [batch, inputs, emb_dim], or a tree of a family's own.

KEPT = 'kept'  # The name of what recomputation by 'dots' keeps (transformer.REMAT).
keep_for_backward = functools.partial(checkpoint_name, name=KEPT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(Block):
    """Sizes and types that every family has.

    Attributes:
      vocab_size: rows of the embedding tables.
      vocab_padding: how many of them, at the end, are no token's. They are there for a mesh to cut
        the tables evenly; no text holds their ids, and no decoder gives them any probability.
      emb_dim: features of a token between the layers.
      num_heads: heads of each attention.
      head_dim: features of each head.
      mlp_dim: hidden units of each MLP.
      dropout_rate: on embeddings and residuals.
      shared_dropout: one mask for all positions of a row, as T5X draws it (and cheaper); False
        draws one for each position, as transformers does.
      dtype: type of activations.
      matmul_dtype: type of the operands of products with parameters; None means `dtype`.
      remat: what is recomputed in the backward pass: 'none', 'dots' (all but products), 'full'.
      attention: 'plain', 'fused' (no array of queries x keys), or 'auto', which takes the
        fused one on TPUs and CPUs where it is possible and the texts are long enough.
      scan_layers: layers of a round of a loop over a stack, of which one round is compiled; 0: no
        loop, every layer is compiled. The results are the same, but for the masks of dropout.
    """

    vocab_size: Annotated[int, Meta(ge=0, le=2**26)]
    vocab_padding: Annotated[int, Meta(ge=0, le=2**20)] = 0
    emb_dim: Annotated[int, Meta(ge=1, le=2**20)]
    num_heads: Annotated[int, Meta(ge=1, le=2**20)]
    head_dim: Annotated[int, Meta(ge=1, le=2**20)]
    mlp_dim: Annotated[int, Meta(ge=1, le=2**20)]
    dropout_rate: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    shared_dropout: bool = True
    dtype: Literal['float32', 'bfloat16'] = 'float32'
    matmul_dtype: Literal['float32', 'bfloat16'] | None = None
    remat: Literal['none', 'dots', 'full'] = 'none'
    attention: Literal['plain', 'fused', 'auto'] = 'auto'
    scan_layers: Annotated[int, Meta(ge=0, le=2**8)] = 0

    @property
    def operands(self) -> str:
        """The type of the operands of products with parameters."""
        return self.matmul_dtype or self.dtype

    @property
    def inits(self) -> dict[str, Any]:
        """Fields of attention and MLP that draw fresh kernels; by default `fan_in_normal` does."""
        return {}

    def norm(self) -> nn.Module:
        """Makes a norm of a layer or a stack, of a config with `norm_epsilon`."""
        fields: Any = self
        return LayerNorm(fields.norm_epsilon)


# ------------------------------------------------------------------------------ placing on a mesh


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
    """Lays the axes of x on the mesh as their logical names say; an axis of size 1 stays whole.

    So no mesh cuts the single position of a decoding step.
    """
    axes = tuple(axis if size > 1 else None for axis, size in zip(axes, x.shape, strict=True))
    return nn.with_logical_constraint(x, axes)


def with_axes(init: Initializer, *axes: str) -> Callable[..., Any]:
    """Makes an initializer of `init` that gives the axes of what it draws logical names."""
    return nn.with_logical_partitioning(init, axes)


def place(x: jax.Array, features: str = 'embed') -> jax.Array:
    """Lays activations [batch, length, features] on the mesh, cut by rows and positions."""
    return constrain(x, 'batch', 'length', features)


# -------------------------------------------------------------------- products, the MLP, dropout


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


ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
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
        stack, stack_axis = ((self.stack,), ('stack',)) if self.stack else ((), ())
        shape, axes = (*stack, self.features, x.shape[-1]), (*stack_axis, *self.axes)
        kernel = self.param('kernel', with_axes(self.kernel_init, *axes), shape, jnp.float32)
        y = keep_for_backward(product(x, kernel, self.matmul_dtype))
        if self.use_bias:
            init = with_axes(nn.initializers.zeros, *axes[:-1])
            y = y + self.param('bias', init, shape[:-1], jnp.float32).astype(y.dtype)
        # Parameters decide whether the layer is adapted: see xlbench/models/lora.py.
        return y + self._adapted(x) if self.has_variable('params', 'lora_a') else y

    def _adapted(self, x: jax.Array) -> jax.Array:
        """scale B A x of LoRA (arXiv:2106.09685, equation 3), for each part of a stack."""
        leaves: Mapping[str, Any] = self.variables['params']
        a, b, scale = (leaves[f'lora_{name}'] for name in ('a', 'b', 'scale'))
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

    config: TransformerConfig
    activation: str = 'relu'
    gated: bool = False
    use_bias: bool = False
    dropout_rate: float = 0.0
    kernel_init: Initializer = fan_in_normal()
    out_kernel_init: Initializer | None = None  # Of the second layer; None: kernel_init.

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """x [batch, length, embed] -> the same shape."""
        cfg = self.config
        dense = functools.partial(Dense, use_bias=self.use_bias, matmul_dtype=cfg.operands)
        first, second = self.kernel_init, self.out_kernel_init or self.kernel_init
        stack = 2 if self.gated else 0
        y = dense(cfg.mlp_dim, ('mlp', 'embed'), stack, kernel_init=first, name='wi')(x)
        y = recomputed(functools.partial(_activated, self.activation, self.gated))(y)
        y = dropout(cfg, self.dropout_rate)(place(y, 'mlp'), train)
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


def dropout(cfg: TransformerConfig, rate: float) -> Dropout:
    """Dropout of [..., length, features], with one mask for all positions if the config says so."""
    return Dropout(rate, (-2,) if cfg.shared_dropout else ())


# ------------------------------------------------------------------------------------------- norms


class RMSNorm(nn.Module):
    """Divides by the root mean square, in float32, and scales; no mean, no offset."""

    epsilon: float = 1e-6
    from_one: bool = False  # The scale is 1 + the parameter.

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., embed] -> the same shape and type."""
        fresh = nn.initializers.zeros if self.from_one else nn.initializers.ones
        scale = self.param('scale', with_axes(fresh, 'embed'), (x.shape[-1],), jnp.float32)
        scale = scale + self.from_one
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
        ones, zeros = nn.initializers.ones, nn.initializers.zeros
        shape = (x.shape[-1],)
        scale = self.param('scale', with_axes(ones, 'embed'), shape, jnp.float32)
        bias = self.param('bias', with_axes(zeros, 'embed'), shape, jnp.float32)
        return recomputed(functools.partial(_layer_normed, self.epsilon))(x, scale, bias)


def _layer_normed(epsilon: float, x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return (centred * lax.rsqrt(variance + epsilon) * scale + bias).astype(x.dtype)


def unit(x: jax.Array) -> jax.Array:
    """Vectors [..., features] divided by their length; one of zeros, without NaN, stays one."""
    return x * lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(x), axis=-1, keepdims=True), 1e-24))


# ------------------------------------------------------------------------------- tables of tokens


@jax.custom_vjp
def look_up(table: jax.Array, ids: jax.Array) -> jax.Array:
    """Rows of table [vocab, emb_dim] at ids [batch, length] -> [batch, length, emb_dim]."""
    return _as_the_table(jnp.take(table, ids, axis=0))


def _as_the_table(x: jax.Array) -> jax.Array:
    """Lays x [batch, length, emb_dim] on the mesh with its features cut as those of a table.

    So a device looks up, and sums up for the gradient, its own columns for the rows of all that
    share the table; no table, and nothing of a table's size, is sent for it.
    """
    return constrain(x, 'looked_up', 'length', 'embed')


def _look_up_fwd(table, ids):
    return look_up(table, ids), (ids, jnp.zeros((table.shape[0], 0), table.dtype))


def _look_up_bwd(saved, g):
    ids, like = saved
    table = jnp.zeros((like.shape[0], g.shape[-1]), like.dtype)
    return table.at[ids].add(_as_the_table(g.astype(like.dtype))), None


look_up.defvjp(_look_up_fwd, _look_up_bwd)


# The leaf beside a table that has only some of its rows: [size] int32, id -> its row there. A step
# of training puts it into the tree of parameters; see training/rows.py.
PLACES = 'places'


class Embedding(nn.Module):
    """A table of `size` rows; called with ids it looks them up."""

    size: int
    features: int
    dtype: DTypeLike = jnp.float32
    embedding_init: Initializer = nn.initializers.normal(1.0)
    rows: str = 'vocab'  # logical axis of the rows

    def setup(self):
        init = with_axes(self.embedding_init, self.rows, 'embed')
        self.places: jax.Array | None = self.get_variable('params', PLACES)
        if self.places is not None:
            self.embedding: jax.Array = self.get_variable('params', 'embedding')
        else:
            self.embedding = self.param('embedding', init, (self.size, self.features), jnp.float32)

    def __call__(self, ids: jax.Array) -> jax.Array:
        """ids [batch, length] -> [batch, length, features]."""
        ids = ids if self.places is None else jnp.take(self.places, ids)
        return place(look_up(self.embedding, ids).astype(self.dtype))


class OutputEmbedding(nn.Module):
    """An output table, [vocab, embed] like the input table."""

    size: int
    features: int

    def setup(self):
        init = with_axes(fan_in_normal(), 'vocab', 'embed')
        self.kernel = self.param('kernel', init, (self.size, self.features), jnp.float32)

    def __call__(self) -> jax.Array:
        """The table [vocab, embed]."""
        return self.kernel
