"""Attention on a CPU by blocks of queries, each over all keys of its head.

What a block holds is small enough for the processor's cache, and memory grows with the length of a
text, not with its square (arXiv:2112.05682, section 2; over all keys of a head at once, no sum has
to be scaled again). Heads come one after the other, so that the gradients of a head's keys and
values, to which each block adds, stay in the cache, too.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from xlbench.models.fused import forms
from xlbench.models.fused.forms import padded
from xlbench.models.masks import ABSENT, MASKED
from xlbench.models.positions import skew

BLOCK = 256  # Queries.

Head = tuple[Any, ...]  # Arrays or Nones of one head, of one block of it, or of all heads.


def _heads(x: jax.Array, form: forms.Form) -> jax.Array:
    """[batch, length, heads * head_dim] -> [batch * heads, length, head_dim]."""
    x = jnp.swapaxes(x.reshape(*x.shape[:2], form.heads, form.head_dim), 1, 2)
    return x.reshape(-1, *x.shape[2:])


def _joined(x: jax.Array, form: forms.Form) -> jax.Array:
    """The inverse of `_heads`."""
    x = jnp.swapaxes(x.reshape(form.batch, form.heads, *x.shape[1:]), 1, 2)
    return x.reshape(*x.shape[:2], -1)


def _blocks(x: jax.Array | None, form: forms.Form) -> jax.Array | None:
    """[batch * heads, queries, ...] -> [batch * heads, blocks, BLOCK, ...]."""
    if x is None:
        return None
    return padded(x, form.padded_q).reshape(len(x), form.blocks_q, form.block_q, *x.shape[2:])


def _of_heads(form: forms.Form, q, k, v, by_difference, query_ids, key_ids) -> tuple[Head, Head]:
    """Arrays of each head: keys, values, bias, segments; and by blocks: queries, segments."""
    bias = None
    if by_difference is not None:  # Entry n is for key minus query = n + 1 - padded_q.
        bias = jnp.pad(by_difference, ((0, 0), (form.padded_q - form.queries, 0)))
        bias = jnp.tile(bias, (form.batch, 1))
    if query_ids is not None:
        query_ids, key_ids = (jnp.repeat(x, form.heads, axis=0) for x in (query_ids, key_ids))
    whole = (_heads(k, form), _heads(v, form), bias, key_ids)
    return whole, (_blocks(_heads(q, form), form), _blocks(query_ids, form))


def _tile(form: forms.Form, bias: jax.Array, block: jax.Array) -> jax.Array:
    """The bias of a block of queries, [BLOCK, keys]."""
    start = form.padded_q - (block + 1) * form.block_q
    here = lax.dynamic_slice_in_dim(bias, start, form.block_q + form.keys)
    return skew(here[None], form.block_q, form.keys)[0]


def _logits(form: forms.Form, block, q, query_ids, k, bias, key_ids) -> jax.Array:
    """The logits of a block of queries, [BLOCK, keys]."""
    s = jnp.einsum('qd,kd->qk', q, k, preferred_element_type=jnp.float32)
    if bias is not None:
        s = s + _tile(form, bias, block)
    if key_ids is not None:
        s = jnp.where(query_ids[:, None] == key_ids[None], s, MASKED)
    if form.causal:
        query = block * form.block_q + lax.broadcasted_iota(jnp.int32, s.shape, 0)
        s = jnp.where(query >= lax.broadcasted_iota(jnp.int32, s.shape, 1), s, MASKED)
    return s


def forward(
    head_dim: int, causal: bool, out_dtype: DTypeLike, *inputs: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One device's result and the statistics of its rows; see gpu.forward."""
    form = forms.Form.of(inputs[0], inputs[1], head_dim, causal, BLOCK, 1)

    def of_block(whole: Head, part: Head):
        block, (q, query_ids) = part
        k, v, bias, key_ids = whole
        s = _logits(form, block, q, query_ids, k, bias, key_ids)
        largest = jnp.max(s, axis=1, keepdims=True)
        weights = jnp.exp(s - largest).astype(v.dtype)
        total = jnp.sum(weights, axis=1, keepdims=True, dtype=jnp.float32)
        out = jnp.einsum('qk,kd->qd', weights, v, preferred_element_type=jnp.float32) / total
        return out.astype(out_dtype), largest, total

    def of_head(arrays: tuple[Head, Head]):
        whole, parts = arrays
        numbered = jnp.arange(form.blocks_q), parts
        return lax.map(functools.partial(of_block, whole), numbered)

    made = lax.map(of_head, _of_heads(form, *inputs))
    out, largest, total = (x.reshape(len(x), form.padded_q, -1)[:, : form.queries] for x in made)
    rows = (form.batch, form.heads, 1, form.queries)
    return _joined(out, form), largest.reshape(rows), total.reshape(rows)


def backward(
    head_dim: int, causal: bool, out_dtype: DTypeLike, *inputs: Any
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """One device's gradients of q, k, v, and of the bias; see gpu.backward."""
    *given, g, largest, mean = inputs
    q, k, _, by_difference, *_ = given
    form = forms.Form.of(q, k, head_dim, causal, BLOCK, 1)
    product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    largest, mean = (x.reshape(-1, form.queries, 1) for x in (largest, mean))
    # Queries that only fill a block give no key any weight.
    largest = padded(largest, form.padded_q, value=-ABSENT)
    outer = _blocks(_heads(g, form), form), _blocks(largest, form), _blocks(mean, form)

    def of_block(whole: Head, sums: Head, part: Head):
        (k, v, bias, key_ids), (d_k, d_v, d_bias) = whole, sums
        block, (q, query_ids), (g, largest, mean) = part
        s = _logits(form, block, q, query_ids, k, bias, key_ids)
        weights = jnp.exp(s - largest)
        d_logits = weights * (product('qd,kd->qk', g, v) - mean)
        d_v = d_v + product('qk,qd->kd', weights.astype(v.dtype), g)
        if bias is not None:
            _, pull = jax.vjp(lambda bias: _tile(form, bias, block), bias)
            d_bias = d_bias + pull(d_logits)[0]
        d_logits = d_logits.astype(k.dtype)
        d_k = d_k + product('qk,qd->kd', d_logits, q)
        return (d_k, d_v, d_bias), product('qk,kd->qd', d_logits, k).astype(out_dtype)

    def of_head(arrays: tuple[Head, Head, Head]):
        whole, parts, outer = arrays
        k, v, bias, _ = whole
        none = (
            jnp.zeros(k.shape, jnp.float32),
            jnp.zeros(v.shape, jnp.float32),
            None if bias is None else jnp.zeros_like(bias),
        )
        numbered = jnp.arange(form.blocks_q), parts, outer
        return lax.scan(functools.partial(of_block, whole), none, numbered)

    (d_k, d_v, d_bias), d_q = lax.map(of_head, (*_of_heads(form, *given), outer))
    d_q = _joined(d_q.reshape(len(d_q), form.padded_q, -1)[:, : form.queries], form)
    d_k, d_v = (_joined(x, form).astype(out_dtype) for x in (d_k, d_v))
    if by_difference is not None:
        d_bias = d_bias[:, form.padded_q - form.queries :]
        d_bias = d_bias.reshape(form.batch, form.heads, -1)
    return d_q, d_k, d_v, d_bias
