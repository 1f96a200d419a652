"""Plans: every example once, no row too full, little padding."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from xlbench.data import orders, packing
from xlbench.data.packing import Shape
from xlbench.settings.blocks import Batches


def make_lengths(count: int, seed: int = 0, inputs: float = 150, targets: float = 25):
    """[count, 2]: lengths as of dialogues, limits 512 and 128."""
    rng = np.random.default_rng(seed)
    a = rng.lognormal(np.log(inputs), 0.6, count)
    b = rng.lognormal(np.log(targets), 0.5, count)
    return np.stack([np.clip(a, 2, 512), np.clip(b, 2, 128)], 1).astype(np.int32)


def permutation(count: int, purpose: int) -> np.ndarray:
    return orders.permutation(count, 7, purpose)


def layout_of(lengths, limits, sample=slice(None), **kwargs) -> packing.Layout:
    options = Batches(**{'batch_size': 8, 'lengths': {}, 'row_multiple': 2} | kwargs)
    largest = Shape(*lengths.max(0).tolist())
    return packing.choose_layout(lengths[sample], largest, limits, options)


@st.composite
def problems(draw):
    """Lengths, and a chain of shapes of which the last holds all of them."""
    limits = draw(st.tuples(st.integers(1, 300), st.integers(1, 90)))
    pairs = st.tuples(st.integers(1, limits[0]), st.integers(1, limits[1]))
    lengths = np.array(draw(st.lists(pairs, min_size=1, max_size=60)), np.int32)
    smaller = sorted(draw(st.lists(pairs, max_size=3)))
    targets = sorted(pair[1] for pair in smaller)
    shapes = [Shape(pair[0], t) for pair, t in zip(smaller, targets, strict=True)]
    return lengths, [*shapes, Shape(*limits)]


def assert_valid_rows(rows, lengths, limits):
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(rows)
    assert (packing.row_lengths(lengths, rows) <= np.array(limits)).all()


@hypothesis.given(problems())
@hypothesis.settings(max_examples=300, deadline=None)
def test_packed_rows_hold_every_example_once_within_limits(problem):
    lengths, shapes = problem
    rows = packing.pack(lengths, shapes)
    assert_valid_rows(rows, lengths, shapes[-1])
    # A row is within the shape that its first, largest example asked for.
    opened = packing.smallest(lengths[[row[0] for row in rows]], shapes)
    assert (packing.row_lengths(lengths, rows) <= np.array(shapes)[opened]).all()


@hypothesis.given(
    problems(), st.booleans(), st.integers(1, 5), st.sampled_from([1, 2, 4]), st.booleans()
)
@hypothesis.settings(max_examples=80, deadline=None)
def test_plans_hold_every_example_once_within_shapes(problem, packed, buckets, multiple, equal):
    lengths, shapes = problem
    options = {'packing': packed, 'length_buckets': buckets, 'row_multiple': multiple}
    options |= {'equal_rows': equal}
    # It need not hold the largest example.
    layout = layout_of(lengths, shapes[-1], slice(None, None, 2), **options)
    assert len(layout.shapes) <= buckets
    batches = packing.plan(lengths, layout, permutation)
    rows = [row for batch in batches for row in batch.rows]
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    sizes = dict(zip(layout.shapes, layout.rows, strict=True))
    for batch in batches:
        assert len(batch.rows) == sizes[batch.shape]
        assert any(batch.rows)
        for row in batch.rows:
            assert (lengths[row].sum(0) <= np.array(batch.shape)).all()
            assert packed or len(row) <= 1


@pytest.mark.parametrize('sides', [slice(None), slice(None, None, -1)])
def test_a_tight_fit_is_found(sides):
    """Of targets, too, where they fill a row first."""
    lengths = np.array([[6, 1], [5, 1], [4, 1], [3, 1], [2, 1]], np.int32)
    rows = packing.pack(lengths[:, sides], [Shape(10, 10)])
    assert sorted(sorted(row) for row in rows) == [[0, 2], [1, 3, 4]]


def test_best_chain_is_the_best():
    """Against trying every chain of two on a small grid."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, [33, 17], (50, 2)).astype(np.int32)
    largest = Shape(32, 16)
    chain, cost = packing.best_chain(lengths, largest, 2)
    costs = []
    for inputs in range(1, 33):
        for targets in range(1, 17):
            shapes = [Shape(inputs, targets), largest]
            taken = np.array(shapes)[packing.smallest(lengths, shapes)]
            costs.append(packing._cost(taken[:, 0], taken[:, 1]).sum())
    assert cost == min(costs)
    taken = np.array(chain)[packing.smallest(lengths, chain)]
    assert packing._cost(taken[:, 0], taken[:, 1]).sum() == cost


def test_shapes_ascend_and_batches_have_about_equal_positions():
    lengths = make_lengths(2000)
    for packed in (True, False):
        options = {'batch_size': 64, 'packing': packed, 'length_buckets': 6, 'row_multiple': 8}
        layout = layout_of(lengths, Shape(512, 128), **options)
        assert 1 < len(layout.shapes) <= 6
        widths = np.array(layout.shapes)
        assert (np.diff(widths, axis=0) >= 0).all()
        positions = widths.sum(1) * layout.rows
        assert positions.max() == positions[-1]
        assert positions.min() > 0.8 * positions.max()
        assert all(rows % 8 == 0 for rows in layout.rows)
        assert layout.rows[-1] == 64


def test_one_bucket_is_exactly_what_was_asked_for():
    lengths = make_lengths(100) // 4 + 1
    layout = layout_of(lengths, Shape(512, 128), packing=False)
    assert (layout.shapes, layout.rows) == ((Shape(512, 128),), (8,))


@pytest.mark.parametrize(
    ('buckets', 'packed', 'least'), [(1, True, 0.89), (4, True, 0.92), (4, False, 0.62)]
)
def test_the_share_of_real_tokens(buckets, packed, least):
    """Fixed lengths have 0.33 on such data, the longest of each 16 has 0.43."""
    lengths = make_lengths(12_000)
    options = {'batch_size': 64, 'packing': packed, 'length_buckets': buckets, 'row_multiple': 8}
    layout = layout_of(lengths, Shape(512, 128), slice(None, None, 4), **options)
    batches = packing.plan(lengths, layout, permutation)
    assert packing.real_share(lengths, batches) > least


def test_empty_rows_are_spread_evenly():
    lengths = np.full((8 * 10 + 3, 2), 4, np.int32)
    layout = layout_of(lengths, Shape(4, 4))
    batches = packing.plan(lengths, layout, permutation)
    filled = [sum(map(bool, batch.rows)) for batch in batches]
    assert len(batches) == 11 and sum(filled) == 83
    assert set(filled) == {7, 8}


def test_rows_that_do_not_fill_a_batch_move_up():
    lengths = np.array([[4, 4]] * 9 + [[8, 8]] * 7, np.int32)
    layout = packing.Layout((Shape(4, 4), Shape(8, 8)), (8, 8))
    batches = packing.plan(lengths, layout, permutation)
    assert sorted(batch.shape for batch in batches) == [Shape(4, 4), Shape(8, 8)]
    assert all(all(batch.rows) for batch in batches)
