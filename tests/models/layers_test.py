"""The parts that layers are made of, by hand and against plain forms."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench.models import attention as attention_lib, cpu_kernels, layers, masks, positions
from xlbench.models.fused import choice
from xlbench.system import work


def config(**sizes):
    ones = dict.fromkeys(('vocab_size', 'emb_dim', 'num_heads', 'head_dim', 'mlp_dim'), 1)
    return layers.TransformerConfig(**ones | sizes)


# ------------------------------------------------------------------------------------------- norms


def test_rms_norm_by_hand():
    x = np.array([[3.0, 4.0]], np.float32)
    params = {'scale': np.array([1.0, 2.0], np.float32)}
    out = jax.jit(layers.RMSNorm(epsilon=0.0).apply)({'params': params}, x)
    np.testing.assert_allclose(out, [[3 / 12.5**0.5, 8 / 12.5**0.5]], rtol=1e-6)


def test_rms_norm_of_bfloat16_is_computed_in_float32():
    x = np.full((1, 4), 300.0, jnp.bfloat16)  # The squares' sum is not a bfloat16 number.
    out = jax.jit(layers.RMSNorm().apply)({'params': {'scale': np.ones(4, np.float32)}}, x)
    assert out.dtype == jnp.bfloat16 and out.tolist() == [[1.0] * 4]


def test_layer_norm_by_hand():
    x = np.array([[1.0, 2.0, 6.0]], np.float32)  # Mean 3, variance 14 / 3.
    params = {'scale': np.array([1, 2, 1], np.float32), 'bias': np.array([0, 0, 5], np.float32)}
    out = jax.jit(layers.LayerNorm(epsilon=1 / 3).apply)({'params': params}, x)
    np.testing.assert_allclose(out, [[-2 / 5**0.5, -2 / 5**0.5, 3 / 5**0.5 + 5]], rtol=1e-6)


# ------------------------------------------------------------------------------------------ tables


def test_look_up_adds_gradients_of_repeated_rows():
    table = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    ids = np.array([[2, 0], [2, 2]])
    weights = np.arange(1.0, 13.0, dtype=np.float32).reshape(2, 2, 3)

    @jax.jit
    def rows_and_gradient(table):
        def loss(table):
            rows = layers.look_up(table, ids)
            return jnp.sum(rows * weights), rows

        gradient, rows = jax.grad(loss, has_aux=True)(table)
        return rows, gradient

    rows, gradient = rows_and_gradient(table)
    np.testing.assert_array_equal(rows, table[ids])
    expected = np.zeros_like(table)
    np.add.at(expected, ids, weights)
    np.testing.assert_array_equal(gradient, expected)
    assert gradient[0].tolist() == [4.0, 5.0, 6.0] and not np.any(gradient[1])


# --------------------------------------------------------------------------------------- positions


@pytest.mark.parametrize('bidirectional', [True, False])
@pytest.mark.parametrize('queries, keys', [(1, 1), (4, 9), (9, 4), (200, 200)])
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


def test_a_table_for_each_row_has_the_same_gradient_by_a_product(monkeypatch):
    table, weights = jnp.arange(12.0).reshape(3, 4), jnp.sin(jnp.arange(24.0)).reshape(2, 3, 4)

    def loss(table):
        return jnp.sum(weights * positions.for_each_row(table, 2, 'float32'))

    added = jax.grad(loss)(table)
    taken = []
    gpu = lambda x, cuda, default: taken.append(cuda) or cuda(x)  # noqa: E731
    monkeypatch.setattr(positions.lax, 'platform_dependent', gpu)
    np.testing.assert_allclose(jax.grad(loss)(table), added, rtol=1e-6)
    np.testing.assert_allclose(added, weights.sum(0), rtol=1e-6)
    assert taken


def test_sinusoids_are_sines_then_cosines():
    table = positions.sinusoids(40, 6)
    assert table.shape == (40, 6) and table.dtype == np.float32
    angle = 7 / 10000 ** (2 / 6)
    np.testing.assert_allclose(table[7, [1, 4]], [np.sin(angle), np.cos(angle)], rtol=1e-6)
    np.testing.assert_array_equal(table[0], [0, 0, 0, 1, 1, 1])


# ---------------------------------------------------------------------------------------- products


def test_stacked_kernels_start_with_their_own_scales():
    init = layers.fan_in_normal((0.1, 1.0))
    kernel = np.asarray(jax.jit(init, static_argnums=1)(jax.random.key(0), (2, 64, 100)))
    np.testing.assert_allclose(kernel.std((1, 2)), [0.01, 0.1], rtol=0.05)


@pytest.mark.parametrize('gated', [False, True])
def test_accelerators_recompute_norms_and_activations(monkeypatch, gated):
    """TPUs in loops, GPUs anywhere, with the gradients of CPUs, which keep what is between."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)), jnp.float32)
    mlp = layers.Mlp(config(mlp_dim=6), 'gelu_tanh', gated)
    model = nn.Sequential([layers.RMSNorm(), mlp, layers.LayerNorm()])
    params = nn.unbox(jax.jit(model.init)(jax.random.key(0), x))

    def loss(in_loop, params, x):
        with work.setting(layers.IN_LOOP, in_loop):
            return jnp.sum(jnp.sin(model.apply(params, x)))

    results, sizes = [], []
    for platform, in_loop in (('cpu', True), ('tpu', True), ('gpu', False)):
        monkeypatch.setattr(choice, 'platform', lambda name=platform: name)
        here = functools.partial(loss, in_loop)
        results.append(jax.jit(jax.grad(here, (0, 1)))(params, x))
        _, pull = jax.eval_shape(functools.partial(jax.vjp, here), params, x)
        sizes.append(sum(leaf.size for leaf in jax.tree.leaves(pull)))
    close = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-7)
    for other in results[1:]:
        jax.tree.map(close, results[0], other)
    assert max(sizes[1:]) < 0.8 * sizes[0]


# --------------------------------------------------------------------------------------- attention


def test_a_query_that_may_see_nothing_gives_numbers():
    attention = attention_lib.SelfAttention(config(head_dim=2, emb_dim=2))
    x = np.ones((1, 3, 2), np.float32)

    @jax.jit
    @jax.value_and_grad
    def run(params):
        bias = masks.mask_bias(np.zeros((1, 1, 3, 3), bool))
        return attention.apply(params, x, bias=bias).sum()

    params = jax.jit(attention.init)(jax.random.key(0), x)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run(params)))


def test_a_step_on_a_tpu_gives_what_it_gives_elsewhere(monkeypatch):
    """One query, whose heads are paired where they can be, or several."""
    rng = np.random.default_rng(0)
    mask = masks.mask_bias(jnp.arange(7) < jnp.array([[7], [4]]))[:, None, None]
    for heads, queries in ((3, 1), (4, 1), (4, 3)):
        shapes = (2, heads, queries, 8), (2, heads, 8, 7), (2, heads, 7, 8), (1, heads, 1, 7)
        q, k, v, bias = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes)
        results = []
        for platform in ('cpu', 'tpu'):
            monkeypatch.setattr(choice, 'platform', lambda name=platform: name)
            step = jax.jit(lambda *arrays: attention_lib.step_attention(*arrays))
            results.append(step(q, k, v, bias, mask))
        assert results[0].shape == q.shape
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


# -------------------------------------------------------------------------------- kernels of a CPU


def relative_error(actual, expected):
    return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize('out', [(5,), (3, 5)])
# Texts, a decoding step, and what a head reads of some.
@pytest.mark.parametrize('rows', [(2, 7), (2, 2), (2,)])
@pytest.mark.parametrize('matmul_dtype, tolerance', [('float32', 1e-5), ('bfloat16', 2e-2)])
def test_product_and_its_gradients(out, rows, matmul_dtype, tolerance):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(*rows, 11)).astype(np.float32)
    kernel = rng.normal(size=(*out, 11)).astype(np.float32)
    weights = rng.normal(size=(*rows, *out)).astype(np.float32)

    @functools.partial(jax.jit, static_argnums=0)
    def value_and_gradients(product, x, kernel):
        def loss(x, kernel):
            value = product(x, kernel)
            return jnp.sum(jnp.sin(value) * weights), value

        gradients, value = jax.grad(loss, (0, 1), has_aux=True)(x, kernel)
        return value, *gradients

    ours = functools.partial(cpu_kernels.product, matmul_dtype=matmul_dtype)
    plain = functools.partial(jnp.tensordot, axes=(-1, -1))
    value, *gradients = value_and_gradients(ours, x, kernel)
    expected, *slopes = value_and_gradients(plain, x, kernel)
    assert value.shape == (*rows, *out)
    assert relative_error(value, expected) < tolerance
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert gradient.dtype == jnp.float32
        assert relative_error(gradient, slope) < 4 * tolerance


def test_every_product_of_a_mixed_layer_multiplies_bfloat16():
    x, kernel = np.ones((4, 8), np.float32), np.ones((6, 8), np.float32)

    def loss(x, kernel):
        return jnp.sum(cpu_kernels.product(x, kernel, 'bfloat16') ** 2)

    jaxpr = str(jax.make_jaxpr(jax.grad(loss, (0, 1)))(x, kernel))
    assert jaxpr.count('dot_general') == 3
    assert jaxpr.count('preferred_element_type=float32') == 3


def test_a_sum_of_rows_is_float32():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(19, 3, 4)), jnp.bfloat16)
    total = jax.jit(cpu_kernels.sum_of_rows)(x)
    assert total.shape == (1, 3, 4) and total.dtype == jnp.float32
    expected = np.sum(np.asarray(x, np.float64), axis=0, keepdims=True)
    np.testing.assert_allclose(total, expected, atol=1e-6)
