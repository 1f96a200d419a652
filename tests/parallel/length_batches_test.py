"""Rows of different lengths go through programs in few shapes, and come back to their places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench.parallel import partitioning
from xlbench.parallel.length_batches import HALVES, QUARTERS, LengthBatches


@pytest.mark.parametrize(
    ('max_length', 'widths', 'expected'),
    [
        (64, HALVES, [8, 16, 32, 64]),
        (64, QUARTERS, [16, 32, 48, 64]),
        (30, HALVES, [8, 16, 30]),  # Multiples of 8, but for the largest.
        (5, QUARTERS, [5]),
    ],
)
def test_shapes_are_few(max_length, widths, expected):
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    batches = LengthBatches(mesh, batch_size=4, max_length=max_length, widths=widths)
    found = {(b.rows, b.width) for length in range(1, 99) for b in batches.cut({0: length})}
    assert found == {(1, width) for width in expected}
    assert batches.max_programs == 2 * len(expected)  # One row, or four.


def test_every_row_is_in_one_batch_the_longest_first():
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    batches = LengthBatches(mesh, batch_size=2, max_length=16)
    cut = list(batches.cut({3: 5, 7: 40, 8: 16, 9: 5, 4: 9}))
    assert [batch.places for batch in cut] == [[7, 8], [4, 3], [9]]
    assert [(batch.rows, batch.width) for batch in cut] == [(2, 16), (2, 16), (1, 8)]
    assert list(batches.cut({})) == []


def test_programs_are_counted_by_kind_and_shape():
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    batches = LengthBatches(mesh, batch_size=2, max_length=16)
    total = jax.jit(lambda params, batch, more: params['a'] * jnp.sum(batch['x']) + more)
    params = {'a': jnp.float32(2.0)}
    for rows, kind in ((2, 'a'), (2, 'a'), (1, 'a'), (1, 'b')):
        x = np.ones((rows, 8), np.float32)
        assert batches.run(total, params, {'x': x}, 1.0, kind=kind) == 16 * rows + 1
    assert batches.num_programs == 3
