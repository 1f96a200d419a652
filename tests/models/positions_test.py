import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench.models import positions


@pytest.mark.parametrize('bidirectional', [True, False])
@pytest.mark.parametrize('queries, keys', [(1, 1), (6, 6), (4, 9), (9, 4), (200, 200)])
def test_relative_bias_equals_looking_up_every_pair(bidirectional, queries, keys):
    module = positions.RelativePositions(3, 32, 128, bidirectional)
    table = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=(3, queries, keys)).astype(np.float32)

    def ours(table):
        return module.apply({'params': {'rel_embedding': table}}, queries, keys)[0]

    def pairs(table):
        relative = jnp.arange(keys)[None, :] - jnp.arange(queries)[:, None]
        bucket = positions.relative_position_bucket(
            relative, bidirectional=bidirectional, num_buckets=32, max_distance=128
        )
        return table[:, bucket]

    def gradient(bias):
        return jax.grad(lambda table: jnp.sum(bias(table) * weights))

    run = jax.jit(lambda table: [(b(table), gradient(b)(table)) for b in (ours, pairs)])
    (bias, slopes), (expected_bias, expected) = run(table)
    np.testing.assert_allclose(bias, expected_bias, rtol=1e-6)
    error = np.max(np.abs(slopes - expected)) / np.max(np.abs(expected))
    assert error < 1e-5
    assert 'scatter' not in str(jax.make_jaxpr(gradient(ours))(table))


def test_relative_position_buckets_by_hand():
    # Keys after the query use the upper half; 8 buckets are exact, the rest logarithmic to 128.
    relative = np.array([-1000, -128, -8, -7, -1, 0, 1, 7, 8, 1000])

    @jax.jit
    def buckets(relative):
        return [
            positions.relative_position_bucket(
                relative, bidirectional=bidirectional, num_buckets=32, max_distance=128
            )
            for bidirectional in (True, False)
        ]

    both, earlier = buckets(relative)
    assert both.tolist() == [15, 15, 8, 7, 1, 0, 17, 23, 24, 31]
    assert earlier.tolist() == [31, 31, 8, 7, 1, 0, 0, 0, 0, 0]
