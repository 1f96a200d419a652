"""Attention of many heads: masks, the product of queries, keys and values, and the layer."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from xlbench.models import cpu_kernels
from xlbench.models.dense import Dense, Dropout, Initializer, fan_in_normal, kept, unstack
from xlbench.models.placement import constrain

# Added to the logits of what a query may not see. Finite, so that a row that sees nothing (padding)
# gives some average and not NaN; far above any real logit in float32.
MASKED = -1e9


def mask_bias(mask: jax.Array) -> jax.Array:
    """True where a key may be seen -> 0 there and MASKED elsewhere, float32."""
    return jnp.where(mask, 0.0, MASKED)


def same_segment(query_segments: jax.Array, key_segments: jax.Array) -> jax.Array:
    """Segments [batch, queries] and [batch, keys] -> mask [batch, 1, queries, keys]."""
    same = query_segments[:, None, :, None] == key_segments[:, None, None, :]
    return constrain(same, 'batch', None, 'length', None)


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


def _attention_fwd(q, k, v, bias, mask, matmul_dtype):
    like = jnp.zeros((0,), q.dtype)
    q, k, v = (cpu_kernels.plain(x.astype(matmul_dtype)) for x in (q, k, v))
    logits = cpu_kernels.dot_heads(q, k, (3, 3))
    for addend in (bias, mask):
        logits = logits if addend is None else logits + addend
    # With these three kept, remat 'dots' makes the weights anew in one product and one pass.
    largest = kept(jnp.max(logits, axis=-1, keepdims=True))
    weights = jnp.exp(logits - largest)
    total = kept(jnp.sum(weights, axis=-1, keepdims=True))
    weights = weights.astype(matmul_dtype)
    out = kept((cpu_kernels.dot_heads(weights, v, (3, 2)) / total).astype(like.dtype))
    return out, (q, k, v, bias, mask, weights, total, out, like)


def _attention_bwd(matmul_dtype, saved, g):
    q, k, v, bias, mask, weights, total, out, like = saved
    g = g.astype(jnp.float32) / total
    # The softmax's own gradient takes the mean of d_weights off: sum_k weights d_weights = g . out.
    mean = jnp.sum(g * out, axis=-1, keepdims=True)
    g = cpu_kernels.plain(g.astype(matmul_dtype))
    d_v = cpu_kernels.dot_heads(cpu_kernels.written_transpose(weights), g, (3, 2))
    d_logits = weights * (cpu_kernels.dot_heads(g, v, (3, 3)) - mean)
    d_bias = None
    if bias is not None:
        d_bias = d_logits if bias.shape[0] == q.shape[0] else cpu_kernels.sum_of_rows(d_logits)
    d_logits = d_logits.astype(matmul_dtype)
    d_q = cpu_kernels.dot_heads(d_logits, k, (3, 2))
    d_k = cpu_kernels.dot_heads(cpu_kernels.written_transpose(d_logits), q, (3, 2))
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
    logits = cpu_kernels.dot_heads(q, k, (3, 2))
    for addend in (bias, mask):
        logits = logits if addend is None else logits + addend
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    out = cpu_kernels.dot_heads(weights.astype(v.dtype), v, (3, 2))
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
    matmul_dtype: DTypeLike = jnp.float32
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
