"""Attention of many heads: the product of queries, keys and values, and the layer."""

import functools
import importlib
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from xlbench.models import cpu_kernels, layers
from xlbench.models.fused import choice
from xlbench.models.masks import Bias, MaskSpec

KeysValues = dict[str, jax.Array]  # A layer's 'key' and 'value', see transformer.Cache.


def split_heads(x: jax.Array, num_heads: int, length: str | None) -> jax.Array:
    """[batch, length, joined_kv] -> [batch, heads, length, head_dim]."""
    x = jnp.swapaxes(x.reshape(*x.shape[:-1], num_heads, -1), 1, 2)
    return layers.constrain(x, 'batch', 'heads', length, None)


def _of_all_positions(x: jax.Array, num_heads: int, length: str | None) -> jax.Array:
    """Keys or values as `split_heads` makes them, of which every device then gets all positions."""
    # First cut, then gathered: so their gradients, sums over the devices, are not gathered as well.
    x = split_heads(x, num_heads, length)
    return layers.constrain(x, 'batch', 'heads', None, None)


def join_heads(x: jax.Array) -> jax.Array:
    """[batch, heads, length, head_dim] -> [batch, length, joined_kv]."""
    x = jnp.swapaxes(x, 1, 2)
    return x.reshape(*x.shape[:2], -1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def dot_product_attention(
    q: jax.Array,  # [batch, heads, queries, head_dim]
    k: jax.Array,  # [batch, heads, keys, head_dim]
    v: jax.Array,  # [batch, heads, keys, head_dim]
    bias: jax.Array | None,  # [1 or batch, heads, queries, keys], float32
    mask: jax.Array | None,  # broadcasts to [batch, heads, queries, keys]; 0 or MASKED, no gradient
    matmul_dtype: DTypeLike,
) -> jax.Array:  # [batch, heads, queries, head_dim]
    """Averages of values, weighted by the softmax (in float32) of q k^T + bias + mask.

    With its own gradient, so that only one array of size [queries, keys] is kept; the division by
    the softmax's sum is done on the result.
    """
    return _attention_fwd(q, k, v, bias, mask, matmul_dtype)[0]


def _sum(logits: jax.Array, *addends: jax.Array | None) -> jax.Array:
    return functools.reduce(jnp.add, (x for x in addends if x is not None), logits)


def _attention_fwd(q, k, v, bias, mask, matmul_dtype):
    like = jnp.zeros((0,), q.dtype)
    q, k, v = (cpu_kernels.materialize(x.astype(matmul_dtype)) for x in (q, k, v))
    q, *addends = cpu_kernels.optimization_barrier(q, bias, mask)
    logits = _sum(cpu_kernels.dot_heads(q, k, (3, 3)), *addends)
    # With these three kept, remat 'dots' makes the weights anew in one product and one pass.
    largest = layers.keep_for_backward(jnp.max(logits, axis=-1, keepdims=True))
    weights = jnp.exp(logits - largest).astype(matmul_dtype)
    (summed,) = cpu_kernels.optimization_barrier(weights)
    total = layers.keep_for_backward(jnp.sum(summed, axis=-1, keepdims=True, dtype=jnp.float32))
    out = (cpu_kernels.dot_heads(weights, v, (3, 2)) / total).astype(like.dtype)
    out = layers.keep_for_backward(out)
    return out, (q, k, v, bias, mask, weights, total, out, like)


def _attention_bwd(matmul_dtype, saved, g):
    q, k, v, bias, mask, weights, total, out, like = saved
    g = g.astype(jnp.float32) / total
    # The softmax's own gradient takes the mean of d_weights off: sum_k weights d_weights = g . out.
    mean = jnp.sum(g * out, axis=-1, keepdims=True)
    g = cpu_kernels.materialize(g.astype(matmul_dtype))
    d_v = cpu_kernels.dot_turned(weights, g)
    d_logits = weights * (cpu_kernels.dot_heads(g, v, (3, 3)) - mean)
    d_logits = d_logits.astype(matmul_dtype)
    d_bias = None
    if bias is not None:
        (summed,) = cpu_kernels.optimization_barrier(d_logits)
        of_each = bias.shape[0] == q.shape[0]
        d_bias = summed.astype(jnp.float32) if of_each else cpu_kernels.sum_of_rows(summed)
    d_q = cpu_kernels.dot_heads(d_logits, k, (3, 2))
    d_k = cpu_kernels.dot_turned(d_logits, q)
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
    if choice.platform() == 'tpu':
        return _step_attention_on_tpu(q, k, v, bias, mask)
    logits = _sum(cpu_kernels.dot_heads(q, k, (3, 2)), bias, mask)
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    out = cpu_kernels.dot_heads(weights.astype(v.dtype), v, (3, 2))
    return (out / jnp.sum(weights, axis=-1, keepdims=True)).astype(q.dtype)


def _step_attention_on_tpu(q, k, v, bias, mask):
    """The same, in a form that XLA leaves on the matrix units.

    The product of a single row it computes elsewhere, which takes thrice as long as reading its
    operands. So two heads of one query are rows of one product, each with zeros for the other's
    features; that reads the same bytes.
    """
    batch, heads, queries, head_dim = q.shape
    paired = queries == 1 and heads // choice.parts('heads') % 2 == 0
    if paired:
        own = jnp.arange(2 * head_dim) // head_dim == jnp.arange(2)[:, None]
        rows = jnp.where(own, q.reshape(batch, heads // 2, 1, 2 * head_dim), 0)
        # These move no byte: XLA lays values out as keys.
        k = k.reshape(batch, heads // 2, 2 * head_dim, -1)
        v = jnp.swapaxes(jnp.swapaxes(v, 2, 3).reshape(k.shape), 2, 3)
        bias = None if bias is None else bias.reshape(len(bias), heads // 2, 2, -1)
    elif queries == 1:
        rows = jnp.pad(q, ((0, 0), (0, 0), (0, 1), (0, 0)))
    else:
        rows = q
    logits = _sum(cpu_kernels.dot_heads(rows, k, (3, 2)), bias, mask)
    # Of rounded weights sum and product are made in one pass.
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True)).astype(v.dtype)
    total = jnp.sum(weights.astype(jnp.float32), axis=-1, keepdims=True)
    out = cpu_kernels.dot_heads(weights, v, (3, 2)) / total
    if paired:
        out = jnp.sum(jnp.where(own, out, 0.0), axis=2).reshape(q.shape)
    return out[:, :, :queries].astype(q.dtype)


def as_past(key: jax.Array, value: jax.Array) -> KeysValues:
    """Keys and values [batch, heads, length, head_dim] of whole texts, as a step reads them."""
    return {'key': jnp.swapaxes(key, 2, 3), 'value': value}


def grown(past: KeysValues, key: jax.Array, value: jax.Array, place: jax.Array) -> KeysValues:
    """The past with keys and values [batch, heads, new, head_dim] from a place on."""
    key = lax.dynamic_update_slice_in_dim(past['key'], jnp.swapaxes(key, 2, 3), place, axis=3)
    value = lax.dynamic_update_slice_in_dim(past['value'], value, place, axis=2)
    return {'key': key, 'value': value}


class Attention(nn.Module):
    """The common part of attention within a text and over a source.

    T5 has no biases and does not divide the logits by sqrt(head_dim): `use_bias` and `scaled` are
    False there and True in all other families.
    """

    config: layers.TransformerConfig
    use_bias: bool = False
    scaled: bool = False
    dropout_rate: float = 0.0
    # None: fan_in_normal, smaller for queries that are not scaled.
    kernel_init: layers.Initializer | None = None
    out_kernel_init: layers.Initializer | None = None  # Of the output; None: kernel_init.

    def setup(self):
        cfg, axes = self.config, ('embed', 'joined_kv')
        init = self.out_kernel_init or self.kernel_init or layers.fan_in_normal()
        self.out = layers.Dense(cfg.emb_dim, axes, 0, self.use_bias, cfg.operands, init)
        shared = (-1,) if cfg.shared_dropout else ()  # Of values, or else of weights.
        self.dropout = layers.Dropout(self.dropout_rate, shared)

    def _inwards(self, scale: float | tuple[float, ...] = 1.0, stack: int = 0) -> layers.Dense:
        """The product from features to all heads."""
        cfg, axes = self.config, ('joined_kv', 'embed')
        init = self.kernel_init or layers.fan_in_normal(scale)
        features = cfg.num_heads * cfg.head_dim
        return layers.Dense(features, axes, stack, self.use_bias, cfg.operands, init)

    @property
    def _query_scale(self) -> float:
        """Scale of fresh query kernels: small in place of dividing the logits."""
        return 1.0 if self.scaled else self.config.head_dim**-0.5

    def _heads_of(self, q: jax.Array, length: str | None) -> jax.Array:
        q = q * self.config.head_dim**-0.5 if self.scaled else q
        return split_heads(q, self.config.num_heads, length)

    def attend(
        self,
        q: jax.Array,  # [batch, heads, queries, head_dim]
        k: jax.Array,  # [batch, heads, keys, head_dim]
        v: jax.Array,  # [batch, heads, keys, head_dim]
        bias: Bias = None,  # [1 or batch, heads, queries, keys], float32; see `_fused`
        mask: jax.Array | MaskSpec | None = None,  # broadcasts to [batch, heads, queries, keys]
        train: bool = False,
    ) -> jax.Array:  # [batch, queries, out_features]
        """Averages of values, weighted by the softmax of logits plus bias and mask."""
        if isinstance(mask, MaskSpec):
            return self.out(self._fused(q, k, v, bias, mask, train))
        if self.config.shared_dropout or not train:
            # One mask for all queries may as well drop the values.
            v = self.dropout(v, train)
            out = dot_product_attention(q, k, v, bias, mask, self.config.operands)
        else:
            logits = jnp.einsum('bhqd,bhkd->bhqk', q, k, preferred_element_type=jnp.float32)
            weights = jax.nn.softmax(_sum(logits, bias, mask), axis=-1).astype(v.dtype)
            weights = self.dropout(weights, train)
            out = jnp.einsum('bhqk,bhkd->bhqd', weights, v)
        return self.out(join_heads(out))

    def _fused(self, q, k, v, bias: jax.Array | None, seen: MaskSpec, train: bool) -> jax.Array:
        """[batch, queries, joined_kv] of the same without an array [queries, keys].

        The bias is by difference of positions, [heads, queries + keys]; the dropout is of values.
        """
        # Late, because Pallas takes half a second to import, and few runs need it.
        fused, cfg = importlib.import_module('xlbench.models.fused.attention'), self.config
        drops = self.dropout(jnp.ones((*v.shape[:3], 1), v.dtype), train)
        q, k, v = (join_heads(x) for x in (q, k, v * drops))
        return fused.fused_attention(q, k, v, bias, seen, cfg.head_dim, cfg.operands)


class SelfAttention(Attention):
    """Attention within a text; query, key and value are one fused kernel."""

    def setup(self):
        super().setup()
        self.qkv = self._inwards((self._query_scale, 1.0, 1.0), stack=3)

    def __call__(
        self,
        x: jax.Array,  # [batch, length, embed]
        bias: Bias = None,  # [1 or batch, heads, length, length], or see `_fused`
        mask: jax.Array | MaskSpec | None = None,  # broadcasts to [batch, heads, length, length]
        train: bool = False,
    ) -> jax.Array:  # [batch, length, out_features]
        """Every position attends to all that its mask leaves it."""
        return self.attend(*self.project(x, bias), bias, mask, train)

    def prefill(
        self, x: jax.Array, bias: Bias, mask: jax.Array | MaskSpec
    ) -> tuple[jax.Array, KeysValues]:
        """The same without training, with the keys and values that `step` reads of the texts."""
        q, k, v = self.project(x, bias)
        return self.attend(q, k, v, bias, mask), as_past(k, v)

    def project(
        self, x: jax.Array, bias: Bias = None, length: str | None = 'length'
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """x [batch, length, embed] -> q, k, v, each [batch, heads, length, head_dim].

        `bias` counts where it is a rotation, see llama.py. `length` is the logical axis of the
        positions; None where they are the beams of a step.
        """
        q, k, v = layers.unstack(self.qkv(x))
        k, v = (_of_all_positions(y, self.config.num_heads, length) for y in (k, v))
        return self._heads_of(q, length), k, v

    def step(
        self,
        x: jax.Array,  # [rows, 1, embed]
        past: KeysValues,
        place: jax.Array,  # [], of this token's first key and value, those of its beams beside it
        bias: Bias = None,  # [1, heads, 1, places], float32
        mask: jax.Array | None = None,  # [batch, 1, beams, places], 0 or MASKED
    ) -> tuple[jax.Array, KeysValues]:  # [rows, 1, out_features] and past, grown
        """Attention of one new token over earlier ones and itself.

        The rows are batch * beams. Each hypothesis looks at the places of all beams of its example,
        and the mask leaves it those that hold its own tokens: so no key or value ever moves.
        """
        by_example = x.reshape(len(past['key']), -1, x.shape[-1])
        q, key, value = self.project(by_example, bias, length=None)
        past = grown(past, key, value, place)
        y = self.over(q, past, bias, mask)
        return self.out(join_heads(y)).reshape(x.shape[0], 1, -1), past

    def empty(self, source: KeysValues, places: int) -> KeysValues:
        """The past of texts that have no token yet, of the type of the source's."""
        batch, heads, _, head_dim = source['value'].shape
        return {
            'key': jnp.zeros((batch, heads, head_dim, places), source['value'].dtype),
            'value': jnp.zeros((batch, heads, places, head_dim), source['value'].dtype),
        }

    def over(self, q: jax.Array, past: KeysValues, bias: Bias, mask: Any) -> jax.Array:
        """The results of a step's queries [batch, heads, beams, head_dim], in the same shape."""
        return step_attention(q, past['key'], past['value'], bias, mask)


class CrossAttention(Attention):
    """Attention over a source; the query is apart, key and value are one fused kernel."""

    def setup(self):
        super().setup()
        self.query = self._inwards(self._query_scale)
        self.kv = self._inwards(stack=2)

    def __call__(
        self,
        x: jax.Array,  # [batch, length, embed]
        encoded: layers.Source,
        mask: jax.Array | MaskSpec | None = None,  # broadcasts to [batch, heads, length, inputs]
        train: bool = False,
    ) -> jax.Array:  # [batch, length, out_features]
        """Every position of x attends to all of the source that its mask leaves it."""
        return self.attend(self.queries(x), *self.keys_values(encoded), None, mask, train)

    def queries(self, x: jax.Array, length: str | None = 'length') -> jax.Array:
        """x [batch, length, embed] -> q [batch, heads, length, head_dim]."""
        return self._heads_of(self.query(x), length)

    def keys_values(self, encoded: jax.Array) -> tuple[jax.Array, jax.Array]:
        """encoded [batch, inputs, embed] -> k, v, each [batch, heads, inputs, head_dim]."""
        k, v = layers.unstack(self.kv(encoded))
        k, v = (_of_all_positions(y, self.config.num_heads, 'length') for y in (k, v))
        return k, v

    def step(
        self,
        x: jax.Array,  # [rows, 1, embed]
        source: KeysValues,
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
