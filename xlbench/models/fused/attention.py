"""Attention without an array [queries, keys], forward and backward, over all devices.

The arithmetic is that of `attention.dot_product_attention`: logits and sums in float32, products of
operands in `matmul_dtype`, the division by the softmax's sum on the result (tile by tile, as in
arXiv:2205.14135). What is kept for the backward pass is the result, and of each row of logits its
largest and the softmax's sum; the backward pass makes the weights anew.
"""

import functools
import types
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xlbench.models.fused import choice, cpu, gpu, tpu
from xlbench.models.layers import keep_for_backward
from xlbench.models.masks import MaskSpec

_FEATURES = ('batch', None, 'joined_kv')
_STATISTICS = ('batch', 'heads', None, None)
_INPUTS = (_FEATURES, _FEATURES, _FEATURES, ('heads', None), ('batch', None), ('batch', None))


def _one_device() -> types.ModuleType:
    """The module that has `forward` and `backward` of one device."""
    return {'cpu': cpu, 'gpu': gpu, 'tpu': tpu}[choice.kernels()]


def _on_each_device(f: Callable, ins: tuple, outs: tuple) -> Callable:
    """f of what a device holds of its inputs, by their logical axes; itself where there is one."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return f
    ins, outs = (tuple(nn.logical_to_mesh_axes(axes) for axes in side) for side in (ins, outs))
    # What the kernels write is not annotated with the axes along which it differs.
    return jax.shard_map(f, in_specs=ins, out_specs=outs, check_vma=False)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def fused_attention(
    q: jax.Array,  # [batch, queries, heads * head_dim]
    k: jax.Array,  # [batch, keys, heads * head_dim]
    v: jax.Array,  # [batch, keys, heads * head_dim]
    by_difference: jax.Array | None,  # [heads, queries + keys], see RelativePositions
    seen: MaskSpec,
    head_dim: int,
    matmul_dtype: DTypeLike,
) -> jax.Array:  # [batch, queries, heads * head_dim]
    """Computes `attention.dot_product_attention` with heads joined; see the module's docstring.

    Rows lie on the mesh as 'batch' does, heads as 'heads' do, and positions are whole.
    """
    return _fused_fwd(q, k, v, by_difference, seen, head_dim, matmul_dtype)[0]


def _fused_fwd(q, k, v, by_difference, seen, head_dim, matmul_dtype):
    like = jnp.zeros((0,), q.dtype)
    segments = seen.segments(q.shape[1])
    inputs = (*(x.astype(matmul_dtype) for x in (q, k, v)), by_difference, *segments)
    local = functools.partial(_one_device().forward, head_dim, seen.causal, like.dtype)
    outs = (_FEATURES, _STATISTICS, _STATISTICS)
    out, largest, total = map(keep_for_backward, _on_each_device(local, _INPUTS, outs)(*inputs))
    return out, (inputs, seen, out, largest, total, like)


def _fused_bwd(head_dim, matmul_dtype, saved, g):
    inputs, seen, out, largest, total, like = saved
    batch, queries, features = out.shape
    by_head = (batch, queries, features // head_dim, head_dim)
    sums = jnp.swapaxes(total.reshape(batch, -1, queries), 1, 2)[..., None]
    g = g.astype(jnp.float32).reshape(by_head) / sums
    mean = jnp.swapaxes(jnp.sum(g * out.reshape(by_head), axis=-1), 1, 2).reshape(total.shape)
    g = g.reshape(out.shape).astype(matmul_dtype)
    local = functools.partial(_one_device().backward, head_dim, seen.causal, like.dtype)
    ins = (*_INPUTS, _FEATURES, _STATISTICS, _STATISTICS)
    outs = (_FEATURES, _FEATURES, _FEATURES, ('batch', 'heads', None))
    *d, d_bias = _on_each_device(local, ins, outs)(*inputs, g, largest, mean)
    return *d, None if d_bias is None else jnp.sum(d_bias, axis=0), None


fused_attention.defvjp(_fused_fwd, _fused_bwd)
