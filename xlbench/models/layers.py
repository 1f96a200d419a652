"""Layers that the model families share: products, norms, positions, attention, MLP.

Kernels are stored [out, in] and fused along a leading 'stack' axis (q/k/v, k/v, gated MLP), which
is what XLA:CPU multiplies fastest and what tensor parallelism shards on one axis. Parameters are
always float32. Two types govern the arithmetic: `dtype` is the type of activations, `matmul_dtype`
that of the operands of products with parameters. float32 activations with bfloat16 operands is the
form that pays on a CPU: bf16 x bf16 -> fp32 in all three products of a layer's step.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from xlbench import ranges
from xlbench.errors import UserError

Dtype = Any
Initializer = Callable[..., jax.Array]

# Added to the logits of what a query may not see. Finite, so that a row that sees nothing (padding)
# gives some average and not NaN; far above any real logit in float32.
MASKED = -1e9

# Blocks of queries that a bias is made of (see `skew`): what a mesh cuts a length into divides it.
BIAS_BLOCKS = 64

REMAT = {
    'full': jax.checkpoint_policies.nothing_saveable,
    # By name: a policy that looks for products does not see into one with a gradient of its own.
    'dots': jax.checkpoint_policies.save_only_these_names('kept'),
}
# What remat 'dots' keeps.
_kept = functools.partial(checkpoint_name, name='kept')


def check_config(config: Any) -> None:
    """Raises UserError for a model config with an impossible type, remat, size or rate."""
    allowed = ('float32', 'bfloat16')
    for name in ('dtype', 'matmul_dtype'):
        if getattr(config, name) not in (*allowed, *([None] if name == 'matmul_dtype' else [])):
            raise UserError(f'{name}={getattr(config, name)!r}; allowed: {", ".join(allowed)}')
    if config.remat not in ('none', *REMAT):
        raise UserError(f'remat={config.remat!r}; allowed: none, {", ".join(REMAT)}')
    ranges.check_own(type(config), vars(config))


def checkpointed(layer: type[nn.Module], remat: str, train_argument: int) -> type[nn.Module]:
    """The layer, recomputed in the backward pass as `remat` says ('none', 'dots', 'full').

    Args:
      layer: called with positional arguments only.
      remat: 'none' keeps everything, 'dots' recomputes all but products, 'full' everything.
      train_argument: which argument of the call (self is 0) is the Python bool `train`.
    """
    if remat == 'none':
        return layer
    return nn.remat(layer, policy=REMAT[remat], prevent_cse=True, static_argnums=(train_argument,))


# ---------------------------------------------------------------------------------------- placement


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
    """x with its axes on those of the mesh that the logical ones lie on; not where its size is 1.

    So the one position of a decoding step is no length that a mesh cuts.
    """
    axes = tuple(axis if size > 1 else None for axis, size in zip(axes, x.shape, strict=True))
    return nn.with_logical_constraint(x, axes)


def place(x: jax.Array, features: str = 'embed') -> jax.Array:
    """Activations [batch, length, features]: a device holds its rows and its positions of them."""
    return constrain(x, 'batch', 'length', features)


# ----------------------------------------------------------------------------------------- products


def _dot(a, b, contract, dtype: Dtype, out_dtype: Dtype) -> jax.Array:
    """A product without batch axes, accumulated in float32 whatever the operands' type."""
    a, b = a.astype(dtype), b.astype(dtype)
    out = lax.dot_general(a, b, (contract, ((), ())), preferred_element_type=jnp.float32)
    return out.astype(out_dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: jax.Array, kernel: jax.Array, matmul_dtype: Dtype) -> jax.Array:
    """x [..., in] times kernel [*out, in] -> [..., *out] in x's type.

    Autodiff would take the cotangent in float32 and so break the bf16 x bf16 -> fp32 form in the
    backward pass (XLA:CPU then widens the operands first); here it is rounded to `matmul_dtype`.
    """
    if kernel.ndim > 2 and x.size < kernel.size:
        # A decoding step. With x first, XLA:CPU would write a transposed copy of a stacked kernel
        # at every step; so the kernel comes first, and the small result is turned.
        out = _dot(kernel, x, ((kernel.ndim - 1,), (x.ndim - 1,)), matmul_dtype, x.dtype)
        return jnp.moveaxis(out, range(kernel.ndim - 1), range(1 - kernel.ndim, 0))
    return _dot(x, kernel, ((x.ndim - 1,), (kernel.ndim - 1,)), matmul_dtype, x.dtype)


def _product_fwd(x, kernel, matmul_dtype):
    saved = (x.astype(matmul_dtype), kernel.astype(matmul_dtype), jnp.zeros((0,), x.dtype))
    return product(x, kernel, matmul_dtype), saved


def _product_bwd(matmul_dtype, saved, g):
    x, kernel, like = saved
    if x.ndim == 2:
        # With two axes summed over, XLA:CPU transposes g first and then multiplies in bfloat16; a
        # single one it would sum over as it lies, which it can do in float32 only.
        dx, dkernel = _product_bwd(matmul_dtype, (x[None], kernel, like), g[None])
        return dx[0], dkernel
    batch = tuple(range(x.ndim - 1))
    out = tuple(range(x.ndim - 1, g.ndim))
    dx = _dot(g, kernel, (out, tuple(range(kernel.ndim - 1))), matmul_dtype, like.dtype)
    dkernel = _dot(g, x, (batch, batch), matmul_dtype, jnp.float32)
    return dx, dkernel


product.defvjp(_product_fwd, _product_bwd)


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
    matmul_dtype: Dtype = jnp.float32
    kernel_init: Initializer = fan_in_normal()

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., in] -> [..., features] or [..., stack, features]."""
        shape, axes = (self.features, x.shape[-1]), self.axes
        if self.stack:
            shape, axes = (self.stack, *shape), ('stack', *axes)
        init = nn.with_logical_partitioning(self.kernel_init, axes)
        y = _kept(product(x, self.param('kernel', init, shape, jnp.float32), self.matmul_dtype))
        if self.use_bias:
            init = nn.with_logical_partitioning(nn.initializers.zeros, axes[:-1])
            y = y + self.param('bias', init, shape[:-1], jnp.float32).astype(y.dtype)
        # Parameters decide whether the layer is adapted: see xlbench/lora.py.
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


# ----------------------------------------------------------------------------- embeddings and norms


@jax.custom_vjp
def look_up(table: jax.Array, ids: jax.Array) -> jax.Array:
    """Rows of table [vocab, emb_dim] at ids [batch, length] -> [batch, length, emb_dim]."""
    return _as_the_table(jnp.take(table, ids, axis=0))


def _as_the_table(x: jax.Array) -> jax.Array:
    """x [batch, length, emb_dim], its features cut as those of a table.

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


class Embedding(nn.Module):
    """A table of `size` rows; called with ids it looks them up."""

    size: int
    features: int
    dtype: Dtype = jnp.float32
    embedding_init: Initializer = nn.initializers.normal(1.0)
    rows: str = 'vocab'  # logical axis of the rows

    def setup(self):
        """Makes the parts."""
        init = nn.with_logical_partitioning(self.embedding_init, (self.rows, 'embed'))
        self.embedding = self.param('embedding', init, (self.size, self.features), jnp.float32)

    def __call__(self, ids: jax.Array) -> jax.Array:
        """ids [batch, length] -> [batch, length, features]."""
        return place(look_up(self.embedding, ids).astype(self.dtype))


class RMSNorm(nn.Module):
    """Divides by the root mean square, in float32, and scales; no mean, no offset."""

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x [..., embed] -> the same shape and type."""
        init = nn.with_logical_partitioning(nn.initializers.ones, ('embed',))
        scale = self.param('scale', init, (x.shape[-1],), jnp.float32)
        wide = x.astype(jnp.float32)
        mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
        return (wide * lax.rsqrt(mean_square + self.epsilon) * scale).astype(x.dtype)


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
        wide = x.astype(jnp.float32)
        centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        return (centred * lax.rsqrt(variance + self.epsilon) * scale + bias).astype(x.dtype)


# ----------------------------------------------------------------------------- biases and positions


def relative_position_bucket(
    relative: jax.Array,  # key position minus query position
    *,
    bidirectional: bool,
    num_buckets: int,
    max_distance: int,
) -> jax.Array:
    """T5's buckets (arXiv:1910.10683, 2.1): exact when near, logarithmic up to max_distance."""
    bucket = jnp.zeros_like(relative)
    if bidirectional:
        num_buckets //= 2
        bucket = jnp.where(relative > 0, num_buckets, 0)
        distance = jnp.abs(relative)
    else:
        distance = -jnp.minimum(relative, 0)
    exact = num_buckets // 2
    ratio = jnp.log(jnp.maximum(distance, 1).astype(jnp.float32) / exact)
    far = exact + (ratio / math.log(max_distance / exact) * (num_buckets - exact)).astype(jnp.int32)
    return bucket + jnp.where(distance < exact, distance, jnp.minimum(far, num_buckets - 1))


def skew(values: jax.Array, queries: int, keys: int) -> jax.Array:
    """[heads, queries + keys] by difference -> [heads, queries, keys].

    Entry n of `values` belongs to key minus query = n - (queries - 1). Blocks of queries are taken
    first, and each block's rows of it alone: where a mesh cuts the queries, a device makes its own.
    """
    size = queries // math.gcd(queries, BIAS_BLOCKS)
    blocks = _windows(values, queries // size, size, size + keys)
    blocks = constrain(blocks, 'heads', 'length', None)
    bias = _windows(blocks, size, 1, keys).reshape(len(values), queries, keys)
    return constrain(bias, 'heads', 'length', None)


def _windows(values: jax.Array, count: int, step: int, width: int) -> jax.Array:
    """[..., n] -> [..., count, width]; the last row begins at 0, each one above `step` later.

    Repeats the vector, and reads it back with rows shorter by `step`. The transpose of that is a
    pad and a sum, no scatter.
    """
    *lead, found = values.shape
    length = count * step + width
    values = jnp.pad(values, [(0, 0)] * len(lead) + [(0, max(0, length - found))])[..., :length]
    rows = jnp.broadcast_to(values[..., None, :], (*lead, count, length)).reshape(*lead, -1)
    rows = rows[..., : count * (length - step)].reshape(*lead, count, length - step)
    return rows[..., (count - 1) * step :]


class RelativePositions(nn.Module):
    """A learnt bias for each head and bucket of key position minus query position."""

    num_heads: int
    num_buckets: int
    max_distance: int
    bidirectional: bool

    @nn.compact
    def by_difference(self, queries: int, keys: int) -> jax.Array:
        """[heads, queries + keys]; entry n is for key minus query = n - (queries - 1).

        The last entry belongs to no pair; it makes room for `skew`. Buckets are spread by a
        one-hot product, because the gradient of a gather would be a scatter.
        """
        init = nn.with_logical_partitioning(
            nn.initializers.variance_scaling(1.0, 'fan_avg', 'uniform'), ('heads', 'relpos_buckets')
        )
        table = self.param('rel_embedding', init, (self.num_heads, self.num_buckets), jnp.float32)
        bucket = relative_position_bucket(
            jnp.arange(queries + keys) - (queries - 1),
            bidirectional=self.bidirectional,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        spread = jax.nn.one_hot(bucket, self.num_buckets, axis=0, dtype=jnp.float32)
        return jnp.dot(table, spread, precision=lax.Precision.HIGHEST)

    def __call__(self, queries: int, keys: int) -> jax.Array:
        """The bias [1, heads, queries, keys], float32."""
        return skew(self.by_difference(queries, keys), queries, keys)[None]


def mask_bias(mask: jax.Array) -> jax.Array:
    """True where a key may be seen -> 0 there and MASKED elsewhere, float32."""
    return jnp.where(mask, 0.0, MASKED)


def same_segment(query_segments: jax.Array, key_segments: jax.Array) -> jax.Array:
    """Segments [batch, queries] and [batch, keys] -> mask [batch, 1, queries, keys]."""
    same = query_segments[:, None, :, None] == key_segments[:, None, None, :]
    return constrain(same, 'batch', None, 'length', None)


# -------------------------------------------------------------------------------- attention and MLP


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


def split_heads(x: jax.Array, num_heads: int, length: str | None) -> jax.Array:
    """[batch, length, joined_kv] -> [batch, heads, length, head_dim]."""
    x = jnp.swapaxes(x.reshape(*x.shape[:-1], num_heads, -1), 1, 2)
    return constrain(x, 'batch', 'heads', length, None)


def _of_all_positions(x: jax.Array, num_heads: int, length: str | None) -> jax.Array:
    """Keys or values as `split_heads` makes them, of which every device then gets all positions.

    First cut, then gathered: so their gradients, sums over the devices, are not gathered as well.
    """
    x = split_heads(x, num_heads, length)
    return constrain(x, 'batch', 'heads', None, None)


def join_heads(x: jax.Array) -> jax.Array:
    """[batch, heads, length, head_dim] -> [batch, length, joined_kv]."""
    x = jnp.swapaxes(x, 1, 2)
    return x.reshape(*x.shape[:2], -1)


def unstack(x: jax.Array) -> list[jax.Array]:
    """[batch, length, n, features] -> n arrays [batch, length, features].

    By `split`, whose gradient is one concatenation; indexing would pad and add n times.
    """
    parts = lax.split(x, [1] * x.shape[2], axis=2)
    return [part.reshape(*x.shape[:2], -1) for part in parts]


def _plain(x: jax.Array) -> jax.Array:
    """x, on a CPU laid out in the order of its axes before anything reads it.

    XLA turns a transpose into another layout or folds it into the product that reads it, and
    XLA:CPU multiplies what is not laid out plainly slowly: in float32 even where both operands are
    bfloat16. The barrier stops the folding, and the added axis makes the layout plain in time for
    the choice of the kernel.
    """
    return lax.platform_dependent(
        x, cpu=lambda x: lax.optimization_barrier(x[None])[0], default=lambda x: x
    )


def _written_transpose(x: jax.Array) -> jax.Array:
    """[..., m, n] -> [..., n, m]; on a CPU as a copy in memory."""
    return _plain(jnp.swapaxes(x, -1, -2))


def _dot_heads(a: jax.Array, b: jax.Array, contract: tuple[int, int]) -> jax.Array:
    """The product of [batch, heads, ..] and [batch, heads, ..], accumulated in float32."""
    dims = (((contract[0],), (contract[1],)), ((0, 1), (0, 1)))
    return lax.dot_general(a, b, dims, preferred_element_type=jnp.float32)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def dot_product_attention(
    q: jax.Array,  # [batch, heads, queries, head_dim]
    k: jax.Array,  # [batch, heads, keys, head_dim]
    v: jax.Array,  # [batch, heads, keys, head_dim]
    bias: jax.Array | None,  # [1 or batch, heads, queries, keys], float32
    mask: jax.Array | None,  # broadcasts to [batch, heads, queries, keys]; 0 or MASKED, no gradient
    matmul_dtype: Dtype,
) -> jax.Array:  # [batch, heads, queries, head_dim]
    """Averages of values, weighted by the softmax (in float32) of q k^T + bias + mask.

    With its own gradient, so that only one array of size [queries, keys] is kept; the division by
    the softmax's sum is done on the result.
    """
    return _attention_fwd(q, k, v, bias, mask, matmul_dtype)[0]


def _attention_fwd(q, k, v, bias, mask, matmul_dtype):
    like = jnp.zeros((0,), q.dtype)
    q, k, v = (_plain(x.astype(matmul_dtype)) for x in (q, k, v))
    logits = _dot_heads(q, k, (3, 3))
    for addend in (bias, mask):
        logits = logits if addend is None else logits + addend
    # With these three kept, remat 'dots' makes the weights anew in one product and one pass.
    largest = _kept(jnp.max(logits, axis=-1, keepdims=True))
    weights = jnp.exp(logits - largest)
    total = _kept(jnp.sum(weights, axis=-1, keepdims=True))
    weights = weights.astype(matmul_dtype)
    out = _kept((_dot_heads(weights, v, (3, 2)) / total).astype(like.dtype))
    return out, (q, k, v, bias, mask, weights, total, out, like)


def _sum_of_rows(x: jax.Array) -> jax.Array:
    """[batch, ...] -> [1, ...]; a product on CPUs, which would sum a leading axis on one thread."""
    return lax.platform_dependent(
        x,
        cpu=lambda x: jnp.einsum('zb,b...->z...', jnp.ones((1, x.shape[0])), x),
        default=lambda x: jnp.sum(x, axis=0, keepdims=True),
    )


def _attention_bwd(matmul_dtype, saved, g):
    q, k, v, bias, mask, weights, total, out, like = saved
    g = g.astype(jnp.float32) / total
    # The softmax's own gradient takes the mean of d_weights off: sum_k weights d_weights = g . out.
    mean = jnp.sum(g * out, axis=-1, keepdims=True)
    g = _plain(g.astype(matmul_dtype))
    d_v = _dot_heads(_written_transpose(weights), g, (3, 2))
    d_logits = weights * (_dot_heads(g, v, (3, 3)) - mean)
    d_bias = None
    if bias is not None:
        d_bias = d_logits if bias.shape[0] == q.shape[0] else _sum_of_rows(d_logits)
    d_logits = d_logits.astype(matmul_dtype)
    d_q = _dot_heads(d_logits, k, (3, 2))
    d_k = _dot_heads(_written_transpose(d_logits), q, (3, 2))
    d_mask = None if mask is None else jnp.zeros_like(mask)
    return *(x.astype(like.dtype) for x in (d_q, d_k, d_v)), d_bias, d_mask


dot_product_attention.defvjp(_attention_fwd, _attention_bwd)


def step_attention(
    q: jax.Array,  # [batch, heads, queries, head_dim]
    k: jax.Array,  # [batch, heads, head_dim, keys]
    v: jax.Array,  # [batch, heads, keys, head_dim]
    bias: jax.Array | None,  # [1 or batch, heads, queries, keys], float32
    mask: jax.Array | None,  # broadcasts to [batch, heads, queries, keys]; 0 or MASKED
) -> jax.Array:  # [batch, heads, queries, head_dim]
    """Attention of the few queries of a decoding step.

    Its products read each key and value once, whatever their type: a cache is read as it lies,
    never copied or cast. Keys lie with the axis that is summed over before the one that stays, in
    which form XLA:CPU multiplies twice as fast.
    """
    logits = _dot_heads(q, k, (3, 2))
    for addend in (bias, mask):
        logits = logits if addend is None else logits + addend
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    out = _dot_heads(weights.astype(v.dtype), v, (3, 2))
    return (out / jnp.sum(weights, axis=-1, keepdims=True)).astype(q.dtype)


class Attention(nn.Module):
    """Multi-head attention; `cross` takes keys and values from elsewhere: query apart, k/v fused.

    T5 has no biases and does not divide the logits by sqrt(head_dim): `use_bias` and `scaled` are
    False there and True in all other families.
    """

    num_heads: int
    head_dim: int
    out_features: int
    cross: bool = False
    use_bias: bool = False
    scaled: bool = False
    dropout_rate: float = 0.0
    shared_dropout: bool = True
    matmul_dtype: Dtype = jnp.float32
    kernel_init: Initializer | None = None  # None: fan_in_normal, smaller for unscaled queries.

    def setup(self):
        """Makes the parts."""
        joined = self.num_heads * self.head_dim
        dense = functools.partial(Dense, matmul_dtype=self.matmul_dtype, use_bias=self.use_bias)
        inwards = ('joined_kv', 'embed')
        small = 1.0 if self.scaled else self.head_dim**-0.5  # In place of dividing the logits.
        if self.cross:
            init = self.kernel_init or fan_in_normal(small)
            self.query = dense(joined, inwards, kernel_init=init)
            init = self.kernel_init or fan_in_normal()
            self.kv = dense(joined, inwards, stack=2, kernel_init=init)
        else:
            init = self.kernel_init or fan_in_normal((small, 1.0, 1.0))
            self.qkv = dense(joined, inwards, stack=3, kernel_init=init)
        init = self.kernel_init or fan_in_normal()
        self.out = dense(self.out_features, ('embed', 'joined_kv'), kernel_init=init)
        shared = (-1,) if self.shared_dropout else ()  # Of values, or else of weights.
        self.dropout = Dropout(self.dropout_rate, shared)

    def project(
        self, x: jax.Array, length: str | None = 'length'
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """x [batch, length, embed] -> q, k, v, each [batch, heads, length, head_dim].

        `length` is the logical axis of the positions; None where they are the beams of a step.
        """
        q, k, v = unstack(self.qkv(x))
        k, v = (_of_all_positions(y, self.num_heads, length) for y in (k, v))
        return self._heads_of(q, length), k, v

    def keys_values(self, encoded: jax.Array) -> tuple[jax.Array, jax.Array]:
        """encoded [batch, length, embed] -> k, v, each [batch, heads, length, head_dim]."""
        k, v = unstack(self.kv(encoded))
        return tuple(_of_all_positions(y, self.num_heads, 'length') for y in (k, v))

    def queries(self, x: jax.Array, length: str | None = 'length') -> jax.Array:
        """x [batch, length, embed] -> q [batch, heads, length, head_dim]."""
        return self._heads_of(self.query(x), length)

    def _heads_of(self, q: jax.Array, length: str | None) -> jax.Array:
        q = q * self.head_dim**-0.5 if self.scaled else q
        return split_heads(q, self.num_heads, length)

    def attend(
        self,
        q: jax.Array,  # [batch, heads, queries, head_dim]
        k: jax.Array,  # [batch, heads, keys, head_dim]
        v: jax.Array,  # [batch, heads, keys, head_dim]
        bias: jax.Array | None = None,  # [1 or batch, heads, queries, keys], float32
        mask: jax.Array | None = None,  # broadcasts to [batch, heads, queries, keys]
        train: bool = False,
    ) -> jax.Array:  # [batch, queries, out_features]
        """Averages of values, weighted by the softmax of logits plus bias and mask."""
        if self.shared_dropout or not train:
            # One mask for all queries may as well drop the values.
            v = self.dropout(v, train)
            out = dot_product_attention(q, k, v, bias, mask, self.matmul_dtype)
        else:
            logits = jnp.einsum('bhqd,bhkd->bhqk', q, k, preferred_element_type=jnp.float32)
            for addend in (bias, mask):
                logits = logits if addend is None else logits + addend
            weights = self.dropout(jax.nn.softmax(logits, axis=-1).astype(v.dtype), train)
            out = jnp.einsum('bhqk,bhkd->bhqd', weights, v)
        return self.out(join_heads(out))

    def __call__(self, x, encoded=None, bias=None, mask=None, train: bool = False) -> jax.Array:
        """Self-attention over x, or attention from x over `encoded`."""
        if self.cross:
            q = self.queries(x)
            k, v = self.keys_values(encoded)
        else:
            q, k, v = self.project(x)
        return self.attend(q, k, v, bias, mask, train)

    def step(
        self,
        x: jax.Array,  # [rows, 1, embed]
        past: dict[str, jax.Array],  # of this layer, see generator.empty_cache
        index: jax.Array,  # [], position of this token
        bias: jax.Array | None = None,  # [1, heads, 1, max_length * beams], float32
        mask: jax.Array | None = None,  # [batch, 1, beams, max_length * beams], 0 or MASKED
    ) -> tuple[jax.Array, dict[str, jax.Array]]:  # [rows, 1, out_features] and past, grown
        """Self-attention of one new token over earlier ones and itself.

        The rows are batch * beams. Each hypothesis looks at the places of all beams of its example,
        and the mask leaves it those that hold its own tokens: so no key or value ever moves.
        """
        batch = len(past['key'])
        q, key, value = self.project(x.reshape(batch, -1, x.shape[-1]), length=None)
        key, place = jnp.swapaxes(key, 2, 3), index * q.shape[2]
        past = {
            'key': lax.dynamic_update_slice_in_dim(past['key'], key, place, axis=3),
            'value': lax.dynamic_update_slice_in_dim(past['value'], value, place, axis=2),
        }
        y = step_attention(q, past['key'], past['value'], bias, mask)
        return self.out(join_heads(y)).reshape(x.shape[0], 1, -1), past

    def cross_step(
        self,
        x: jax.Array,  # [rows, 1, embed]
        source: dict[str, jax.Array],  # of this layer, see generator.empty_cache
        mask: jax.Array | None = None,  # [batch, 1, 1, inputs], 0 or MASKED
    ) -> jax.Array:  # [rows, 1, out_features]
        """Attention of one new token over the source.

        There may be several rows (hypotheses) for each source, one after another: they are its
        queries, so that its keys and values exist, and are read, once.
        """
        batch = source['key'].shape[0]
        q = self.queries(x.reshape(batch, -1, x.shape[-1]), length=None)
        y = step_attention(q, source['key'], source['value'], None, mask)
        return self.out(join_heads(y)).reshape(x.shape[0], 1, -1)


ACTIVATIONS = {
    'relu': jax.nn.relu,
    'gelu': functools.partial(jax.nn.gelu, approximate=False),
    'gelu_tanh': functools.partial(jax.nn.gelu, approximate=True),  # T5's, 'gelu_new' elsewhere.
    'swish': jax.nn.swish,
    'tanh': jnp.tanh,
}


class Mlp(nn.Module):
    """Two layers; `gated` multiplies the activated half by a linear one (arXiv:2002.05202)."""

    features: int
    activation: str = 'relu'
    gated: bool = False
    use_bias: bool = False
    dropout_rate: float = 0.0
    shared_dropout: bool = True
    matmul_dtype: Dtype = jnp.float32
    kernel_init: Initializer = fan_in_normal()

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """x [batch, length, embed] -> the same shape."""
        dense = functools.partial(
            Dense,
            use_bias=self.use_bias,
            matmul_dtype=self.matmul_dtype,
            kernel_init=self.kernel_init,
        )
        y = dense(self.features, ('mlp', 'embed'), stack=2 if self.gated else 0, name='wi')(x)
        if self.gated:
            gate, y = unstack(y)
            y = ACTIVATIONS[self.activation](gate) * y
        else:
            y = ACTIVATIONS[self.activation](y)
        y = place(y, 'mlp')
        y = Dropout(self.dropout_rate, positions_shared(self.shared_dropout))(y, train)
        return dense(x.shape[-1], ('embed', 'mlp'), name='wo')(y)
