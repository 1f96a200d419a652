"""Exact top-k and ranks, in blocks and on devices, against numpy."""

import jax
import numpy as np
import pytest

from xlbench.parallel import partitioning
from xlbench.retrieval import exact_search


def integers(rows, dim, seed, high=4):
    """Whole numbers: their products are exact, and many are equal."""
    return np.random.default_rng(seed).integers(-high, high, (rows, dim)).astype(np.float32)


def reference(queries, responses, bias=0.0):
    scores = queries.astype(np.float64) @ responses.T.astype(np.float64) + bias
    return scores, np.argsort(-scores, axis=1, kind='stable')


def last_of_equals(scores, gold):
    """Ranks: whatever scores as high as the gold response comes before it."""
    return np.sum(scores >= np.take_along_axis(scores, gold[:, None], 1), axis=1)


MESHES = {'none': None, '1': 1, '8': 8, '3': 3}


def make_mesh(count):
    return count and partitioning.make_mesh(
        data=-1, fsdp=2 if count == 8 else 1, devices=jax.devices()[:count]
    )


@pytest.fixture
def in_blocks(monkeypatch):
    """A function: from then on, at most `block` responses are scored at once for some queries."""

    def cut(block, queries):
        rows = -(-len(queries) // 8) * 8  # As chunks are padded.
        monkeypatch.setattr(exact_search, 'BLOCK_BYTES', 4 * rows * block)
        clear()

    def clear():
        exact_search._top_k_program.cache_clear()
        exact_search._ranks_program.cache_clear()

    yield cut
    clear()


@pytest.mark.parametrize('devices', MESHES.values(), ids=MESHES)
@pytest.mark.parametrize('block', [None, 300, 7])
def test_many_ties(block, devices, in_blocks):
    """1,003 responses: no block and no number of devices divides them."""
    queries, responses = integers(37, 5, 0), integers(1003, 5, 1)
    bias = integers(1003, 1, 2)[:, 0]
    scores, order = reference(queries, responses, bias)
    index = exact_search.index(responses, bias, make_mesh(devices))
    if block:
        in_blocks(block, queries)
    found = exact_search.top_k(queries, index, 15)
    np.testing.assert_array_equal(found.ids, order[:, :15])
    np.testing.assert_array_equal(found.values, np.take_along_axis(scores, order[:, :15], 1))
    gold = np.random.default_rng(3).integers(0, 1003, 37)
    gold[:2] = 0, 1002
    ranks = exact_search.ranks(queries, index, gold)
    np.testing.assert_array_equal(ranks, last_of_equals(scores, gold))
    assert (ranks > 1 + np.argmax(order == gold[:, None], axis=1)).any()


def test_large_blocks_are_searched_by_their_maxima(in_blocks):
    queries, responses = integers(3, 4, 0, 9), integers(20_000, 4, 1, 9)
    _, order = reference(queries, responses)
    index = exact_search.index(responses)
    for block in (20_000, 8_000):
        in_blocks(block, queries)
        found = exact_search.top_k(queries, index, 15)
        np.testing.assert_array_equal(found.ids, order[:, :15])


@pytest.mark.parametrize('k', [1, 5, 11])
@pytest.mark.parametrize('devices', [None, 8])
def test_few_responses(k, devices):
    """Fewer than k on a device, devices with padding alone."""
    queries, responses = integers(4, 3, 0), integers(11, 3, 1)
    _, order = reference(queries, responses)
    found = exact_search.top_k(queries, exact_search.index(responses, mesh=make_mesh(devices)), k)
    np.testing.assert_array_equal(found.ids, order[:, :k])
    assert np.isfinite(found.values).all()


@pytest.mark.parametrize('count', [0, 1, 9, 70])
def test_more_queries_than_one_chunk(monkeypatch, count):
    monkeypatch.setattr(exact_search, 'QUERIES', 32)
    queries, responses = integers(count, 3, 0), integers(50, 3, 1)
    scores, order = reference(queries, responses)
    index = exact_search.index(responses)
    np.testing.assert_array_equal(exact_search.top_k(queries, index, 4).ids, order[:, :4])
    gold = np.arange(count) % 50
    expected = last_of_equals(scores, gold)
    np.testing.assert_array_equal(exact_search.ranks(queries, index, gold), expected)


def test_bias_decides_and_real_numbers_agree(in_blocks):
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((20, 64), np.float32)
    responses = rng.standard_normal((900, 64), np.float32)
    scores, order = reference(queries, responses)
    index = exact_search.index(responses)
    in_blocks(256, queries)
    found = exact_search.top_k(queries, index, 9)
    np.testing.assert_allclose(found.values, np.take_along_axis(scores, found.ids, 1), rtol=2e-5)
    np.testing.assert_array_equal(found.ids, order[:, :9])
    ranks = exact_search.ranks(queries, index, found.ids[:, 4])
    np.testing.assert_array_equal(ranks, np.full(20, 5))
    bias = np.zeros(900)
    bias[[7, 3]] = 1e3
    ids = exact_search.top_k(queries, exact_search.with_bias(index, bias), 2).ids
    assert {*map(tuple, ids.tolist())} <= {(7, 3), (3, 7)}


def test_an_encoder_that_tells_nothing_apart_ranks_last(in_blocks):
    """Real numbers whose products are rounded: equal vectors have equal scores nevertheless.

    What is found among them is ordered by id.
    """
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((5, 96), np.float32)
    responses = np.repeat(rng.standard_normal((1, 96), np.float32), 640, axis=0)
    in_blocks(80, queries)
    for index in (exact_search.index(responses), exact_search.index(responses, mesh=make_mesh(8))):
        found = exact_search.top_k(queries, index, 15)
        np.testing.assert_array_equal(found.ids, np.tile(np.arange(15), (5, 1)))
        ranks = exact_search.ranks(queries, index, np.full(5, 400))
        np.testing.assert_array_equal(ranks, np.full(5, 640))


@pytest.mark.parametrize('k', [0, 12])
def test_impossible_k(k):
    with pytest.raises(ValueError, match=f'k is {k}, but there are 11 responses'):
        exact_search.top_k(integers(2, 3, 0), exact_search.index(integers(11, 3, 1)), k)
