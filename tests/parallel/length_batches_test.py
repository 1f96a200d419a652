"""Rows of different lengths go through programs in few shapes, and come back to their places."""

import jax
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


def test_every_row_is_in_one_batch_the_longest_first():
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    batches = LengthBatches(mesh, batch_size=2, max_length=16)
    cut = list(batches.cut({3: 5, 7: 40, 8: 16, 9: 5, 4: 9}))
    assert [batch.places for batch in cut] == [[7, 8], [4, 3], [9]]
    assert [(batch.rows, batch.width) for batch in cut] == [(2, 16), (2, 16), (1, 8)]
    assert list(batches.cut({})) == []
