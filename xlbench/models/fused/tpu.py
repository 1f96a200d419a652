"""Fused attention on one TPU: what surrounds the kernels of kernels.py."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from xlbench.models.fused import choice
from xlbench.models.fused.choice import LANES
from xlbench.models.fused.forms import padded
from xlbench.models.fused.kernels import SUBLANES, Form, attention_backward, attention_forward
from xlbench.models.masks import ABSENT

# Most queries and keys of a tile: its float32 numbers take 2 MiB of VMEM.
FORWARD_BLOCKS = (512, 1024)
BACKWARD_BLOCKS = (512, 512)
_VMEM = 64 << 20  # bytes; the least that a v5p or a newer chip has.


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


def _forward_rows(by_difference: jax.Array, form: Form) -> jax.Array:
    """The shifted rows for tiles whose rows are queries."""
    return _shifted(_diagonals(by_difference, form), form)


def _backward_rows(by_difference: jax.Array, form: Form) -> jax.Array:
    """The shifted rows for tiles whose rows are keys: entry n is for query minus key."""
    backwards = _diagonals(by_difference, form)[:, ::-1]
    return _shifted(jnp.pad(backwards, ((0, 0), (1, 0)))[:, :-1], form)


def _segments(
    query_ids: jax.Array | None, key_ids: jax.Array | None, form: Form
) -> tuple[jax.Array, jax.Array] | tuple[None, None]:
    """Segments in whole blocks."""
    if query_ids is None:
        return None, None
    return padded(query_ids, form.padded_q), padded(key_ids, form.padded_k)


def _call(kernel: Callable, form: Form, blocks: int, ins, outs, scratch, products: int):
    """Runs a kernel over groups of heads, rows and blocks.

    Args:
      kernel: takes the form, then what is in `ins`, `outs` and `scratch`.
      form: of the call.
      blocks: of queries or keys.
      ins: (array or None, its block, where the block of (group, row, block) is) for each input.
      outs: the same with shapes.
      scratch: shapes that the kernel keeps in VMEM.
      products: for each tile.
    """
    arrays = [array for array, *_ in ins]
    shapes = [shape for shape, *_ in outs]
    specs = [
        [None if array is None else pl.BlockSpec(block, at) for array, block, at in side]
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


def _whole(group, row, block):
    """The place of an array [batch, length, features] that comes whole for each row."""
    del block
    return row, 0, group


def _part(group, row, block):
    """The place of an array [batch, length, features] that comes in blocks."""
    return row, block, group


def _rows_of_group(rows: jax.Array | None, form: Form):
    """The shifted rows [groups, group, SUBLANES, differences] as an entry of `_call`."""
    block = (1, form.group, SUBLANES, form.differences)
    return rows, block, lambda group, row, block: (group, 0, 0, 0)


def _ids(of_rows: jax.Array | None, of_columns: jax.Array | None, size: int):
    """Segments as two entries of `_call`: of a tile's rows, `size` at once, and of all columns."""
    if of_rows is None:
        return [(None, None, None)] * 2
    column = (of_rows[:, :, None], (1, size, 1), lambda group, row, block: (row, block, 0))
    length = of_columns.shape[1]
    return [
        column, (of_columns[:, None], (1, 1, length), lambda group, row, block: (row, 0, 0)),
    ]  # fmt: skip


def _form(q: jax.Array, k: jax.Array, head_dim: int, causal: bool, most: tuple[int, int]) -> Form:
    blocks = (_block(x.shape[1], length) for x, length in zip((q, k), most, strict=True))
    return Form.of(q, k, head_dim, causal, *blocks)


def forward(head_dim, causal, out_dtype, q, k, v, by_difference, query_ids, key_ids):
    """One device's result [batch, queries, features], and the statistics of its rows."""
    form = _form(q, k, head_dim, causal, FORWARD_BLOCKS)
    queries, keys, lanes = form.padded_q, form.padded_k, form.lanes
    rows = None if by_difference is None else _forward_rows(by_difference, form)
    query_ids, key_ids = _segments(query_ids, key_ids, form)
    statistics = (
        jax.ShapeDtypeStruct((form.batch, form.groups, form.group, queries), jnp.float32),
        (1, 1, form.group, form.block_q),
        lambda group, row, block: (row, group, 0, block),
    )
    out_shape = jax.ShapeDtypeStruct((form.batch, queries, q.shape[2]), out_dtype)
    out, largest, total = _call(
        attention_forward,
        form,
        form.blocks_q,
        [
            (padded(q, queries), (1, form.block_q, lanes), _part),
            (padded(k, keys), (1, keys, lanes), _whole),
            (padded(v, keys), (1, keys, lanes), _whole),
            _rows_of_group(rows, form),
            *_ids(query_ids, key_ids, form.block_q),
        ],
        [(out_shape, (1, form.block_q, lanes), _part), statistics, statistics],
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
    query_ids, key_ids = _segments(query_ids, key_ids, form)
    g, largest, mean = of_rows
    whole = ((1, queries, lanes), _whole)
    part = ((1, form.block_k, lanes), _part)
    statistics = ((1, 1, form.group, queries), lambda group, row, block: (row, group, 0, 0))
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
