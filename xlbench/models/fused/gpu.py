"""Fused attention on one GPU: Pallas kernels in the form of Triton's programs.

A program takes one block of queries or keys of one head of one row. No two programs write to one
place, so that results are the same in every run: that is why the gradients of queries, of keys and
values, and of the bias have kernels of their own, each of which makes the weights anew.

A bias of relative positions is one number for each head and difference, so that all tiles of a
diagonal of blocks add the same, which is written once. Its gradient is summed over those tiles, by
several programs for some rows each.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.typing import DTypeLike

from xlbench.models.fused import choice, forms
from xlbench.models.fused.forms import padded
from xlbench.models.masks import ABSENT, MASKED

# Queries and keys of a tile: powers of two, whose numbers fit the registers of a program. On an
# H100, tiles of 32 take twice as long, and those of 128 longer by a quarter.
BLOCK = 64
# Programs that keep a GPU busy: several for each of an H100's 132 multiprocessors.
MANY = 1024


class _Form(forms.Form):
    """The sizes of one call on one GPU."""

    @property
    def diagonals(self) -> int:
        """Diagonals of blocks; in number n keys are n - blocks_q + 1 blocks behind queries."""
        return self.blocks_q + self.blocks_k - 1

    @property
    def groups(self) -> int:
        """Groups of rows over which the gradient of the bias is summed by a program each."""
        wanted = MANY / (self.diagonals * self.heads)
        divisors = [n for n in range(1, self.batch + 1) if self.batch % n == 0]
        return next((n for n in divisors if n >= wanted), self.batch)


def _differences(by_difference: jax.Array, form: _Form) -> jax.Array:
    """[heads, queries + keys] -> entry n is for key minus query = n + 1 - padded_q."""
    before = form.padded_q - form.queries
    length = form.padded_q + form.padded_k
    return jnp.pad(by_difference, ((0, 0), (before, length)))[:, :length]


def _diagonals(by_difference: jax.Array, form: _Form) -> jax.Array:
    """[heads, queries + keys] -> the tile of each diagonal, [heads, diagonals, BLOCK, BLOCK]."""
    x, width = _differences(by_difference, form), form.diagonals * BLOCK
    rows = [x[:, BLOCK - 1 - row : BLOCK - 1 - row + width] for row in range(BLOCK)]
    tiles = jnp.stack(rows, axis=1).reshape(form.heads, BLOCK, form.diagonals, BLOCK)
    return jnp.swapaxes(tiles, 1, 2)


# ------------------------------------------------------------------------------------- the kernels


def _of(block: jax.Array | int) -> pl.Slice | slice:
    return pl.ds(block * BLOCK, BLOCK)


def _logits(form: _Form, i, j, q, k, bias_ref, query_ids, key_ids) -> jax.Array:
    """The logits of block i of queries and block j of keys, [BLOCK, BLOCK]."""
    s = triton.dot(q, k, trans_b=True)
    if bias_ref is not None:
        s = s + triton.load(bias_ref.at[j - i + (form.blocks_q - 1)])
    query = i * BLOCK + lax.broadcasted_iota(jnp.int32, s.shape, 0)
    key = j * BLOCK + lax.broadcasted_iota(jnp.int32, s.shape, 1)
    if key_ids is not None:
        s = jnp.where(query_ids[:, None] == key_ids[None, :], s, MASKED)
    if form.causal:
        s = jnp.where(query >= key, s, MASKED)
    if form.keys % BLOCK:
        s = jnp.where(key < form.keys, s, ABSENT)
    return s


def _ids(ref, *at) -> jax.Array | None:
    return None if ref is None else triton.load(ref.at[at])


def _forward_kernel(
    form: _Form, q_ref, k_ref, v_ref, bias_ref, query_ids_ref, key_ids_ref,
    out_ref, largest_ref, total_ref,
) -> None:  # fmt: skip
    """One block of queries over all keys that they may see."""
    i = pl.program_id(0)
    q, query_ids = q_ref[...], _ids(query_ids_ref, _of(i))

    def add(j, carry):
        largest, total, out = carry
        k, v = (triton.load(ref.at[_of(j), :]) for ref in (k_ref, v_ref))
        s = _logits(form, i, j, q, k, bias_ref, query_ids, _ids(key_ids_ref, _of(j)))
        larger = jnp.maximum(largest, jnp.max(s, axis=1))
        weights = jnp.exp(s - larger[:, None])
        shrink = jnp.exp(largest - larger)
        total = total * shrink + jnp.sum(weights, axis=1)
        return larger, total, out * shrink[:, None] + triton.dot(weights.astype(v.dtype), v)

    none = (
        jnp.full((BLOCK,), ABSENT, jnp.float32),
        jnp.zeros((BLOCK,), jnp.float32),
        jnp.zeros((BLOCK, form.head_dim), jnp.float32),
    )
    last = jnp.minimum(i + 1, form.blocks_k) if form.causal else form.blocks_k
    largest, total, out = lax.fori_loop(0, last, add, none)
    out_ref[...] = (out / total[:, None]).astype(out_ref.dtype)
    largest_ref[...], total_ref[...] = largest, total


def _d_logits(s: jax.Array, g, v, largest, mean) -> tuple[jax.Array, jax.Array]:
    """The weights of a tile, and the gradient of its logits."""
    weights = jnp.exp(s - largest[:, None])
    return weights, weights * (triton.dot(g, v, trans_b=True) - mean[:, None])


def _queries_kernel(
    form: _Form, q_ref, k_ref, v_ref, bias_ref, query_ids_ref, key_ids_ref, g_ref, largest_ref,
    mean_ref, dq_ref,
) -> None:  # fmt: skip
    """The gradient of one block of queries."""
    i = pl.program_id(0)
    q, g, query_ids = q_ref[...], g_ref[...], _ids(query_ids_ref, _of(i))
    largest, mean = largest_ref[...], mean_ref[...]

    def add(j, dq):
        k, v = (triton.load(ref.at[_of(j), :]) for ref in (k_ref, v_ref))
        s = _logits(form, i, j, q, k, bias_ref, query_ids, _ids(key_ids_ref, _of(j)))
        _, ds = _d_logits(s, g, v, largest, mean)
        return dq + triton.dot(ds.astype(k.dtype), k)

    last = jnp.minimum(i + 1, form.blocks_k) if form.causal else form.blocks_k
    none = jnp.zeros((BLOCK, form.head_dim), jnp.float32)
    dq_ref[...] = lax.fori_loop(0, last, add, none).astype(dq_ref.dtype)


def _keys_kernel(
    form: _Form, q_ref, k_ref, v_ref, bias_ref, query_ids_ref, key_ids_ref, g_ref, largest_ref,
    mean_ref, dk_ref, dv_ref,
) -> None:  # fmt: skip
    """The gradients of one block of keys and their values."""
    j = pl.program_id(0)
    k, v, key_ids = k_ref[...], v_ref[...], _ids(key_ids_ref, _of(j))

    def add(i, carry):
        dk, dv = carry
        q, g = (triton.load(ref.at[_of(i), :]) for ref in (q_ref, g_ref))
        largest, mean = (triton.load(ref.at[_of(i)]) for ref in (largest_ref, mean_ref))
        s = _logits(form, i, j, q, k, bias_ref, _ids(query_ids_ref, _of(i)), key_ids)
        weights, ds = _d_logits(s, g, v, largest, mean)
        dk = dk + triton.dot(ds.astype(q.dtype), q, trans_a=True)
        return dk, dv + triton.dot(weights.astype(g.dtype), g, trans_a=True)

    none = (jnp.zeros((BLOCK, form.head_dim), jnp.float32),) * 2
    first = jnp.minimum(j, form.blocks_q) if form.causal else 0
    dk, dv = lax.fori_loop(first, form.blocks_q, add, none)
    dk_ref[...], dv_ref[...] = dk.astype(dk_ref.dtype), dv.astype(dv_ref.dtype)


def _bias_kernel(
    form: _Form, q_ref, k_ref, v_ref, bias_ref, query_ids_ref, key_ids_ref, g_ref, largest_ref,
    mean_ref, sum_ref,
) -> None:  # fmt: skip
    """The gradients of all logits on one diagonal of blocks, summed over it and a group of rows."""
    ahead = pl.program_id(0) - (form.blocks_q - 1)
    first = jnp.maximum(0, -ahead)
    last = jnp.minimum(form.blocks_q, form.blocks_k - ahead)
    if form.causal:
        last = jnp.where(ahead > 0, first, last)

    def add_row(row, total):
        def add(i, total):
            j = i + ahead
            q, g = (triton.load(ref.at[row, _of(i), :]) for ref in (q_ref, g_ref))
            k, v = (triton.load(ref.at[row, _of(j), :]) for ref in (k_ref, v_ref))
            largest, mean = (triton.load(ref.at[row, _of(i)]) for ref in (largest_ref, mean_ref))
            ids = _ids(query_ids_ref, row, _of(i)), _ids(key_ids_ref, row, _of(j))
            s = _logits(form, i, j, q, k, bias_ref, *ids)
            return total + _d_logits(s, g, v, largest, mean)[1]

        return lax.fori_loop(first, last, add, total)

    none = jnp.zeros((BLOCK, BLOCK), jnp.float32)
    sum_ref[...] = lax.fori_loop(0, form.batch // form.groups, add_row, none)


# ---------------------------------------------------------------------------- what one GPU computes


def _spec(at: str, *sizes: int | None) -> pl.BlockSpec:
    """See `forms.spec`; programs are numbered by block, head and row."""
    return forms.spec('bhr', at, sizes)


def _small(rows: int | None, bias, *ids) -> list[pl.BlockSpec | None]:
    """All tiles of the head's bias, and segments of queries and of keys of so many rows."""
    return [
        None if bias is None else _spec('h000', None, *bias.shape[1:]),
        *(None if x is None else _spec('r0', rows, x.shape[1]) for x in ids),
    ]


def _call(
    kernel: Callable,
    form: _Form,
    grid: Sequence[int],
    specs: Sequence[pl.BlockSpec | None],
    outs: Sequence[tuple[jax.ShapeDtypeStruct, pl.BlockSpec]],
    arrays: Sequence[jax.Array | None],
    products: int,
) -> list[jax.Array]:
    """Runs a kernel of some products for each tile; what it writes is in `outs`."""
    return pl.pallas_call(
        functools.partial(kernel, form),
        grid=tuple(grid),
        in_specs=list(specs),
        out_specs=[spec for _, spec in outs],
        out_shape=[shape for shape, _ in outs],
        # As timed on an H100; three stages of wider heads do not pay.
        compiler_params=triton.CompilerParams(
            num_warps=4, num_stages=3 if form.head_dim < choice.POWERS[-1] else 2
        ),
        cost_estimate=form.cost(products, (*arrays, *(shape for shape, _ in outs))),
        interpret=choice.platform() != 'gpu',
        name=kernel.__name__.strip('_'),
    )(*arrays)


def _prepared(head_dim: int, causal: bool, q, k, v, by_difference, query_ids, key_ids):
    """The sizes, and all inputs in whole blocks."""
    form = _Form.of(q, k, head_dim, causal, BLOCK, BLOCK)
    bias = None if by_difference is None else _diagonals(by_difference, form)
    queries, keys = form.padded_q, form.padded_k
    q, k, v = padded(q, queries), padded(k, keys), padded(v, keys)
    return form, (q, k, v, bias, padded(query_ids, queries), padded(key_ids, keys))


def forward(
    head_dim: int, causal: bool, out_dtype: DTypeLike, *inputs: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One device's result [batch, queries, features], and the statistics of its rows.

    The statistics, [batch, heads, 1, queries], are the largest logit and the softmax's sum.
    """
    form, arrays = _prepared(head_dim, causal, *inputs)
    q, _, _, *small = arrays
    of_row = jax.ShapeDtypeStruct((form.batch, form.heads, q.shape[1]), jnp.float32)
    part = _spec('rbh', None, BLOCK, form.head_dim)
    whole = _spec('r0h', None, form.padded_k, form.head_dim)
    out, *statistics = _call(
        _forward_kernel,
        form,
        (form.blocks_q, form.heads, form.batch),
        [part, whole, whole, *_small(None, *small)],
        [
            (jax.ShapeDtypeStruct(q.shape, out_dtype), part),
            *[(of_row, _spec('rhb', None, None, BLOCK))] * 2,
        ],
        arrays,
        products=2,
    )
    largest, total = (x[:, :, None, : form.queries] for x in statistics)
    return out[:, : form.queries], largest, total


def backward(
    head_dim: int, causal: bool, out_dtype: DTypeLike, *inputs: Any
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """One device's gradients of q, k, v, and of the bias, [1, heads, queries + keys].

    The last three inputs are the result's gradient over the softmax's sum, [batch, queries,
    features], the largest logits and the means of the gradients, [batch, heads, 1, queries].
    """
    *given, g, largest, mean = inputs
    by_difference = given[3]
    form, arrays = _prepared(head_dim, causal, *given)
    q, k, *_ = arrays
    # Queries that only fill a block give no key any weight.
    largest = padded(largest[:, :, 0], form.padded_q, 2, -ABSENT)
    mean = padded(mean[:, :, 0], form.padded_q, 2)
    arrays = (*arrays, padded(g, form.padded_q), largest, mean)
    part = _spec('rbh', None, BLOCK, form.head_dim)
    d_q, d_k = (jax.ShapeDtypeStruct(x.shape, out_dtype) for x in (q, k))

    def run(kernel, grid, rows, texts_q, texts_k, statistic, outs, products) -> list[jax.Array]:
        """Runs a kernel that reads these parts of texts and of statistics."""
        small = _small(rows, *arrays[3:6])
        specs = [texts_q, texts_k, texts_k, *small, texts_q, statistic, statistic]
        return _call(kernel, form, grid, specs, outs, arrays, products)

    def texts(rows: int | None, length: int) -> pl.BlockSpec:
        return _spec('r0h', rows, length, form.head_dim)

    grid, outs = (form.blocks_q, form.heads, form.batch), [(d_q, part)]
    own = _spec('rhb', None, None, BLOCK)
    (dq,) = run(_queries_kernel, grid, None, part, texts(None, form.padded_k), own, outs, 3)
    grid = (form.blocks_k, form.heads, form.batch)
    all_q = _spec('rh0', None, None, form.padded_q)
    outs = [(d_k, part)] * 2
    dk, dv = run(_keys_kernel, grid, None, texts(None, form.padded_q), part, all_q, outs, 4)
    d_bias = None
    if by_difference is not None:
        # Programs have a diagonal for a block, and a group for a row.
        grid, rows = (form.diagonals, form.heads, form.groups), form.batch // form.groups
        shape = (form.groups, form.heads, form.diagonals, BLOCK, BLOCK)
        block = _spec('rhb00', None, None, None, BLOCK, BLOCK)
        outs = [(jax.ShapeDtypeStruct(shape, jnp.float32), block)]
        both = texts(rows, form.padded_q), texts(rows, form.padded_k)
        all_q = _spec('rh0', rows, None, form.padded_q)
        (sums,) = run(_bias_kernel, grid, rows, *both, all_q, outs, 2)
        like = jax.ShapeDtypeStruct(by_difference.shape, jnp.float32)
        transposed = jax.linear_transpose(lambda x: _diagonals(x, form), like)
        d_bias = transposed(jnp.sum(sums, axis=0))[0][None]
    return dq[:, : form.queries], dk[:, : form.keys], dv[:, : form.keys], d_bias
