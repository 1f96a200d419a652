"""Fused attention on one TPU: the kernels, which are what its core does, and what surrounds them.

Heads are joined, [batch, length, heads * head_dim]. A kernel takes as many heads as fill the 128
lanes of a register, and picks one of them by setting the others' lanes to 0: a product over 128
lanes takes the matrix unit no longer than one over 64.

A bias of relative positions is one number for each head and difference, so that a tile of it is
made of diagonals: row r is the vector of differences, shifted right by r. The kernels hold LANES
rows of such shifts for a head (`_widen`). Tiles begin at multiples of LANES, and so each tile of
the bias is made of whole slices of them, and its gradient is added up in the same slices.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from xlbench.models.fused import choice, forms
from xlbench.models.fused.choice import LANES
from xlbench.models.fused.forms import padded
from xlbench.models.masks import ABSENT, MASKED

# Most queries and keys of a tile: its float32 numbers take 2 MiB of VMEM.
FORWARD_BLOCKS = (512, 1024)
BACKWARD_BLOCKS = (512, 512)
_VMEM = 64 << 20  # bytes; the least that a v5p or a newer chip has.
SUBLANES = 8

_NT = (((1,), (1,)), ((), ()))  # a b^T
_NN = (((1,), (0,)), ((), ()))  # a b


class Form(forms.Form):
    """The sizes of one call on one TPU, whose blocks are multiples of LANES."""

    @property
    def group(self) -> int:
        """Heads that one run of a kernel takes."""
        return max(1, LANES // self.head_dim)

    @property
    def lanes(self) -> int:
        """Features of a group."""
        return self.group * self.head_dim

    @property
    def groups(self) -> int:
        """Runs that there are for a row."""
        return self.heads // self.group

    @property
    def differences(self) -> int:
        """The length of the vectors of differences."""
        return self.padded_q + self.padded_k


def _only(head: int, x: jax.Array, form: Form) -> jax.Array:
    """x [rows, lanes] with 0 in the lanes of other heads than this one of the group."""
    if form.group == 1:
        return x
    lane = lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return jnp.where(lane // form.head_dim == head, x, jnp.zeros_like(x))


def _widen(rows_ref, wide_ref) -> None:
    """Writes LANES rows of shifts, of which the first SUBLANES are given, for each head."""
    for head in range(wide_ref.shape[0]):
        wide_ref[head, :SUBLANES] = rows_ref[0, head]
        size = SUBLANES
        while size < LANES:
            wide_ref[head, size : 2 * size] = pltpu.roll(wide_ref[head, :size], size, axis=1)
            size *= 2


def _narrow(wide_ref, rows_ref) -> None:
    """The transpose of `_widen`: adds LANES rows up into SUBLANES."""
    width = wide_ref.shape[-1]
    for head in range(wide_ref.shape[0]):
        x, size = wide_ref[head], LANES
        while size > SUBLANES:
            size //= 2
            x = x[:size] + pltpu.roll(x[size:], width - size, axis=1)
        rows_ref[0, head] = x


def _strips(rows: int, first: Any) -> list[tuple[int, jax.Array | int]]:
    """(row of the tile, column of the wide rows) where each LANES rows of a tile begin."""
    starts = range(0, rows, LANES)
    return [(start, pl.multiple_of(first - start, LANES)) for start in starts]


def _logits(
    a: jax.Array,  # [rows, lanes]
    b: jax.Array,  # [columns, lanes]
    wide_ref,  # the head's [LANES, differences], or None
    first: jax.Array | int,  # the column of the wide rows for the tile's corner
    equal: tuple[jax.Array, jax.Array] | None,  # segments [rows, 1] and [1, columns]
    ahead: tuple[jax.Array | int, int] | None,  # (of rows before columns, sign), see below
    absent: tuple[int, jax.Array | int] | None,  # (axis of keys, how many are there)
) -> jax.Array:  # [rows, columns]
    """The logits of a tile: products, bias and mask; rows are queries or keys.

    With `ahead` = (n, sign) a pair is seen where sign * (column - row) <= n.
    """
    s = lax.dot_general(a, b, _NT, preferred_element_type=jnp.float32)
    if wide_ref is not None:
        columns = s.shape[1]
        parts = [wide_ref[:, pl.ds(at, columns)] for _, at in _strips(s.shape[0], first)]
        s = s + (parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=0))
    if equal is not None:
        s = jnp.where(equal[0] == equal[1], s, MASKED)
    if ahead is not None:
        difference = lax.broadcasted_iota(jnp.int32, s.shape, 1)
        difference = difference - lax.broadcasted_iota(jnp.int32, s.shape, 0)
        s = jnp.where(ahead[1] * difference <= ahead[0], s, MASKED)
    if absent is not None:
        s = jnp.where(lax.broadcasted_iota(jnp.int32, s.shape, absent[0]) < absent[1], s, ABSENT)
    return s


def _loop(first, last, count: int, body: Callable, carry):
    """body(i, carry) for i from first to last; without a loop where there is one round."""
    return body(0, carry) if count == 1 else lax.fori_loop(first, last, body, carry)


def attention_forward(
    form: Form, q_ref, k_ref, v_ref, rows_ref, query_ids_ref, key_ids_ref,
    out_ref, largest_ref, total_ref, wide_ref=None,
) -> None:  # fmt: skip
    """One block of queries of a group of heads, over all keys."""
    row, i = pl.program_id(1), pl.program_id(2)
    block_q, block_k = form.block_q, form.block_k
    blocks = form.blocks_k
    if rows_ref is not None:
        pl.when((row == 0) & (i == 0))(functools.partial(_widen, rows_ref, wide_ref))
    last: jax.Array | int = blocks
    if form.causal:
        last = jnp.minimum(blocks, lax.div((i + 1) * block_q + block_k - 1, block_k))
    out = jnp.zeros((block_q, form.lanes), jnp.float32)
    for head in range(form.group):
        q = _only(head, q_ref[0], form)

        def add(j, carry, head=head, q=q):
            largest, total, out = carry
            keys = pl.ds(pl.multiple_of(j * block_k, LANES), block_k)
            s = _logits(
                q,
                k_ref[0, keys, :],
                None if wide_ref is None else wide_ref.at[head],
                form.padded_q + j * block_k - i * block_q,
                None if key_ids_ref is None else (query_ids_ref[0], key_ids_ref[0, :, keys]),
                (i * block_q - j * block_k, 1) if form.causal else None,
                (1, form.keys - j * block_k) if form.padded_k > form.keys else None,
            )
            larger = jnp.maximum(largest, jnp.max(s, axis=1, keepdims=True))
            weights = jnp.exp(s - larger)
            shrink = jnp.exp(largest - larger)
            total = total * shrink + jnp.sum(weights, axis=1, keepdims=True)
            v = v_ref[0, keys, :]
            added = lax.dot_general(
                weights.astype(v.dtype), v, _NN, preferred_element_type=jnp.float32
            )
            return larger, total, out * shrink + added

        none = (
            jnp.full((block_q, 1), ABSENT, jnp.float32),
            jnp.zeros((block_q, 1), jnp.float32),
            jnp.zeros((block_q, form.lanes), jnp.float32),
        )
        largest, total, of_head = _loop(0, last, blocks, add, none)
        out = out + _only(head, of_head / total, form)
        for ref, column in ((largest_ref, largest), (total_ref, total)):
            ref[0, 0, head : head + 1, :] = jnp.broadcast_to(column, (block_q, LANES)).T[:1]
    out_ref[0] = out.astype(out_ref.dtype)


def attention_backward(
    form: Form, q_ref, k_ref, v_ref, rows_ref, query_ids_ref, key_ids_ref, g_ref,
    largest_ref, mean_ref, dq_ref, dk_ref, dv_ref, *others,
) -> None:  # fmt: skip
    """One block of keys of a group of heads, over all queries. Rows of a tile are keys here.

    So what belongs to a query, its largest logit and its gradient's mean, lies along the lanes, and
    only one of the five products needs a transposed tile.
    """
    if rows_ref is None:
        others = (None, *others, None, None)
    d_rows_ref, sum_ref, wide_ref, d_wide_ref = others
    row, j = pl.program_id(1), pl.program_id(2)
    block_q, block_k = form.block_q, form.block_k
    blocks, last = form.blocks_q, form.blocks_k - 1

    @pl.when(j == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    if rows_ref is not None:

        @pl.when((row == 0) & (j == 0))
        def _():
            _widen(rows_ref, wide_ref)
            d_wide_ref[...] = jnp.zeros_like(d_wide_ref)

    first = lax.div(j * block_k, block_q) if form.causal else 0
    dk, dv = (jnp.zeros((block_k, form.lanes), jnp.float32) for _ in range(2))
    for head in range(form.group):
        k, v = (_only(head, ref[0], form) for ref in (k_ref, v_ref))

        def add(i, carry, head=head, k=k, v=v):
            dk, dv = carry
            queries = pl.ds(pl.multiple_of(i * block_q, LANES), block_q)
            q, g = q_ref[0, queries, :], g_ref[0, queries, :]
            corner = form.padded_k + i * block_q - j * block_k
            s = _logits(
                k,
                q,
                None if wide_ref is None else wide_ref.at[head],
                corner,
                None if key_ids_ref is None else (key_ids_ref[0], query_ids_ref[0, :, queries]),
                (i * block_q - j * block_k, -1) if form.causal else None,
                (0, form.keys - j * block_k) if form.padded_k > form.keys else None,
            )
            weights = jnp.exp(s - largest_ref[0, 0, head : head + 1, queries])
            d_weights = lax.dot_general(v, g, _NT, preferred_element_type=jnp.float32)
            ds = weights * (d_weights - mean_ref[0, 0, head : head + 1, queries])
            if d_wide_ref is not None:
                for start, at in _strips(block_k, corner):
                    d_wide_ref[head, :, pl.ds(at, block_q)] += ds[start : start + LANES]
            dot = functools.partial(lax.dot_general, preferred_element_type=jnp.float32)
            ds = ds.astype(q.dtype)
            sum_ref[queries, :] += dot(ds.T, k, _NN)
            return dk + dot(ds, q, _NN), dv + dot(weights.astype(g.dtype), g, _NN)

        none = (jnp.zeros((block_k, form.lanes), jnp.float32),) * 2
        dk_head, dv_head = _loop(first, blocks, blocks, add, none)
        dk, dv = dk + _only(head, dk_head, form), dv + _only(head, dv_head, form)
    dk_ref[0], dv_ref[0] = dk.astype(dk_ref.dtype), dv.astype(dv_ref.dtype)

    @pl.when(j == last)
    def _():
        dq_ref[0] = sum_ref[...].astype(dq_ref.dtype)

    if rows_ref is not None:
        pl.when((j == last) & (row == form.batch - 1))(
            functools.partial(_narrow, d_wide_ref, d_rows_ref)
        )


# ----------------------------------------------------------------------- what surrounds the kernels


def _block(length: int, most: int) -> int:
    """The size of equal blocks, multiples of LANES, that are few and leave little room empty."""
    count = -(-length // most)
    return -(-length // (count * LANES)) * LANES


def _shifted(x: jax.Array, form: Form) -> jax.Array:
    """[heads, differences] -> [groups, group, SUBLANES, differences], each row shifted by one."""
    rows = [jnp.pad(x, ((0, 0), (n, 0)))[:, : x.shape[1]] for n in range(SUBLANES)]
    return jnp.stack(rows, axis=1).reshape(form.groups, form.group, SUBLANES, -1)


def _diagonals(by_difference: jax.Array, form: Form) -> jax.Array:
    """[heads, queries + keys] -> entry n is for key minus query = n - padded_q."""
    before = form.padded_q - form.queries + 1
    after = form.differences - before - by_difference.shape[1]
    return jnp.pad(by_difference, ((0, 0), (before, max(0, after))))[:, : form.differences]


def _backward_rows(by_difference: jax.Array, form: Form) -> jax.Array:
    """The shifted rows for tiles whose rows are keys: entry n is for query minus key."""
    backwards = _diagonals(by_difference, form)[:, ::-1]
    return _shifted(jnp.pad(backwards, ((0, 0), (1, 0)))[:, :-1], form)


def _call(
    kernel: Callable,  # takes the form, then what is in `ins`, `outs` and `scratch`
    form: Form,
    blocks: int,  # of queries or keys
    ins,  # for each input: array or None, its block, and where that is, see `forms.spec`
    outs,  # the same with shapes
    scratch,  # shapes that the kernel keeps in VMEM
    products: int,  # for each tile
):
    """Runs a kernel over groups of heads, rows and blocks."""
    arrays = [array for array, *_ in ins]
    shapes = [shape for shape, *_ in outs]
    specs = [
        [None if array is None else forms.spec('grb', at, block) for array, block, at in side]
        for side in (ins, outs)
    ]
    return pl.pallas_call(
        functools.partial(kernel, form),
        grid=(form.groups, form.batch, blocks),
        in_specs=specs[0],
        out_specs=specs[1],
        out_shape=shapes,
        scratch_shapes=[pltpu.VMEM(shape, jnp.float32) for shape in scratch],
        cost_estimate=form.cost(products, (*arrays, *shapes)),
        compiler_params=pltpu.CompilerParams(
            # What is kept in VMEM is that of a group; groups are shared by a chip's cores.
            dimension_semantics=('parallel', 'arbitrary', 'arbitrary'),
            vmem_limit_bytes=_VMEM,
        ),
        interpret=choice.platform() != 'tpu',
        name=f'{kernel.__name__}_of_{form.head_dim}',  # As `choice.share_of_peak` reads it.
    )(*arrays)


def _rows_of_group(rows: jax.Array | None, form: Form):
    """The shifted rows [groups, group, SUBLANES, differences] as an entry of `_call`."""
    return rows, (1, form.group, SUBLANES, form.differences), 'g000'


def _ids(of_rows: Any, of_columns: Any, size: int):
    """Segments as two entries of `_call`: of a tile's rows, `size` at once, and of all columns."""
    if of_rows is None:
        return [(None, None, None)] * 2
    column = of_rows[:, :, None], (1, size, 1), 'rb0'
    return [column, (of_columns[:, None], (1, 1, of_columns.shape[1]), 'r00')]


def _form(q: jax.Array, k: jax.Array, head_dim: int, causal: bool, most: tuple[int, int]) -> Form:
    blocks = (_block(x.shape[1], length) for x, length in zip((q, k), most, strict=True))
    return Form.of(q, k, head_dim, causal, *blocks)


def forward(head_dim, causal, out_dtype, q, k, v, by_difference, query_ids, key_ids):
    """One device's result [batch, queries, features], and the statistics of its rows."""
    form = _form(q, k, head_dim, causal, FORWARD_BLOCKS)
    queries, keys, lanes = form.padded_q, form.padded_k, form.lanes
    rows = None if by_difference is None else _shifted(_diagonals(by_difference, form), form)
    query_ids, key_ids = padded(query_ids, queries), padded(key_ids, keys)
    statistics = (
        jax.ShapeDtypeStruct((form.batch, form.groups, form.group, queries), jnp.float32),
        (1, 1, form.group, form.block_q),
        'rg0b',
    )
    out_shape = jax.ShapeDtypeStruct((form.batch, queries, q.shape[2]), out_dtype)
    out, largest, total = _call(
        attention_forward,
        form,
        form.blocks_q,
        [
            (padded(q, queries), (1, form.block_q, lanes), 'rbg'),
            (padded(k, keys), (1, keys, lanes), 'r0g'),
            (padded(v, keys), (1, keys, lanes), 'r0g'),
            _rows_of_group(rows, form),
            *_ids(query_ids, key_ids, form.block_q),
        ],
        [(out_shape, (1, form.block_q, lanes), 'rbg'), statistics, statistics],
        [] if rows is None else [(form.group, LANES, form.differences)],
        products=2,
    )
    return out[:, : form.queries], largest[..., : form.queries], total[..., : form.queries]


def backward(head_dim, causal, out_dtype, q, k, v, by_difference, query_ids, key_ids, *of_rows):
    """One device's gradients of q, k, v, and of the bias, [1, heads, queries + keys].

    `of_rows` are the result's gradient over `total`, [batch, queries, features], and the largest
    logits and the means of the gradients, [batch, groups, group, queries].
    """
    form = _form(q, k, head_dim, causal, BACKWARD_BLOCKS)
    queries, keys, lanes = form.padded_q, form.padded_k, form.lanes
    rows = None if by_difference is None else _backward_rows(by_difference, form)
    query_ids, key_ids = padded(query_ids, queries), padded(key_ids, keys)
    g, largest, mean = of_rows
    whole, part = ((1, queries, lanes), 'r0g'), ((1, form.block_k, lanes), 'rbg')
    statistics = ((1, 1, form.group, queries), 'rg00')
    shapes = [
        jax.ShapeDtypeStruct((form.batch, length, q.shape[2]), out_dtype)
        for length in (queries, keys)
    ]
    wide = (form.group, LANES, form.differences)
    key_column, query_row = _ids(key_ids, query_ids, form.block_k)
    dq, dk, dv, *d_rows = _call(
        attention_backward,
        form,
        form.blocks_k,
        [
            (padded(q, queries), *whole),
            (padded(k, keys), *part),
            (padded(v, keys), *part),
            _rows_of_group(rows, form),
            query_row,
            key_column,
            (padded(g, queries), *whole),
            # Queries that only fill a block give no key any weight.
            (padded(largest, queries, 3, -ABSENT), *statistics),
            (padded(mean, queries, 3), *statistics),
        ],
        [
            (shapes[0], *whole),
            (shapes[1], *part),
            (shapes[1], *part),
            *([] if rows is None else [_rows_of_group(rows, form)]),
        ],
        [(queries, lanes), *([] if rows is None else [wide, wide])],
        products=5,
    )
    d_bias = None
    if rows is not None:
        like = jax.ShapeDtypeStruct(by_difference.shape, jnp.float32)
        (d_bias,) = jax.linear_transpose(lambda x: _backward_rows(x, form), like)(d_rows[0])
        d_bias = d_bias[None]
    return dq[:, : form.queries], dk[:, : form.keys], dv[:, : form.keys], d_bias
