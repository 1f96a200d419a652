import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench.models import layers


def relative_error(actual, expected):
    return float(jnp.max(jnp.abs(actual - expected)) / jnp.max(jnp.abs(expected)))


@pytest.mark.parametrize('out', [(5,), (3, 5)])
@pytest.mark.parametrize('matmul_dtype, tolerance', [('float32', 1e-5), ('bfloat16', 2e-2)])
def test_product_and_its_gradients(out, matmul_dtype, tolerance):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 7, 11)).astype(np.float32)
    kernel = rng.normal(size=(*out, 11)).astype(np.float32)
    weights = rng.normal(size=(2, 7, *out)).astype(np.float32)

    def ours(x, kernel):
        return jnp.sum(jnp.sin(layers.product(x, kernel, matmul_dtype)) * weights)

    def plain(x, kernel):
        return jnp.sum(jnp.sin(jnp.tensordot(x, kernel, (-1, -1))) * weights)

    value = layers.product(x, kernel, matmul_dtype)
    assert value.shape == (2, 7, *out)
    assert relative_error(value, jnp.tensordot(x, kernel, (-1, -1))) < tolerance
    for gradient, expected in zip(
        jax.grad(ours, (0, 1))(x, kernel), jax.grad(plain, (0, 1))(x, kernel), strict=True
    ):
        assert gradient.dtype == jnp.float32
        assert relative_error(gradient, expected) < 4 * tolerance


def test_every_product_of_a_mixed_layer_multiplies_bfloat16():
    x, kernel = jnp.ones((4, 8)), jnp.ones((6, 8))

    def loss(x, kernel):
        return jnp.sum(layers.product(x, kernel, 'bfloat16') ** 2)

    jaxpr = str(jax.make_jaxpr(jax.grad(loss, (0, 1)))(x, kernel))
    assert jaxpr.count('dot_general') == 3
    assert jaxpr.count('preferred_element_type=float32') == 3


@pytest.mark.parametrize('bidirectional', [True, False])
@pytest.mark.parametrize('queries, keys', [(1, 1), (6, 6), (4, 9), (9, 4), (200, 200)])
def test_relative_bias_equals_looking_up_every_pair(bidirectional, queries, keys):
    module = layers.RelativePositions(3, 32, 128, bidirectional)
    table = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=(3, queries, keys)).astype(np.float32)

    def ours(table):
        return module.apply({'params': {'rel_embedding': table}}, queries, keys)[0]

    def pairs(table):
        relative = jnp.arange(keys)[None, :] - jnp.arange(queries)[:, None]
        bucket = layers.relative_position_bucket(
            relative, bidirectional=bidirectional, num_buckets=32, max_distance=128
        )
        return table[:, bucket]

    np.testing.assert_allclose(ours(table), pairs(table), rtol=1e-6)
    gradient = jax.grad(lambda t: jnp.sum(ours(t) * weights))(table)
    expected = jax.grad(lambda t: jnp.sum(pairs(t) * weights))(table)
    assert relative_error(gradient, expected) < 1e-5
    program = str(jax.make_jaxpr(jax.grad(lambda t: jnp.sum(ours(t) * weights)))(table))
    assert 'scatter' not in program


def test_relative_position_buckets_by_hand():
    # Keys after the query use the upper half; 8 buckets are exact, the rest logarithmic to 128.
    relative = jnp.array([-1000, -128, -8, -7, -1, 0, 1, 7, 8, 1000])
    bucket = layers.relative_position_bucket(
        relative, bidirectional=True, num_buckets=32, max_distance=128
    )
    assert bucket.tolist() == [15, 15, 8, 7, 1, 0, 17, 23, 24, 31]
    bucket = layers.relative_position_bucket(
        relative, bidirectional=False, num_buckets=32, max_distance=128
    )
    assert bucket.tolist() == [31, 31, 8, 7, 1, 0, 0, 0, 0, 0]


def test_look_up_adds_gradients_of_repeated_rows():
    table = jnp.arange(12.0).reshape(4, 3)
    ids = jnp.array([[2, 0], [2, 2]])
    np.testing.assert_array_equal(layers.look_up(table, ids), table[ids])
    weights = jnp.arange(1.0, 13.0).reshape(2, 2, 3)
    gradient = jax.grad(lambda t: jnp.sum(layers.look_up(t, ids) * weights))(table)
    expected = jnp.zeros((4, 3)).at[ids].add(weights)
    np.testing.assert_array_equal(gradient, expected)
    assert gradient[0].tolist() == [4.0, 5.0, 6.0] and not gradient[1].any()


def test_rms_norm_by_hand():
    x = jnp.array([[3.0, 4.0]])
    out = layers.RMSNorm(epsilon=0.0).apply({'params': {'scale': jnp.array([1.0, 2.0])}}, x)
    np.testing.assert_allclose(out, [[3 / 12.5**0.5, 8 / 12.5**0.5]], rtol=1e-6)


def test_rms_norm_of_bfloat16_is_computed_in_float32():
    x = jnp.full((1, 4), 300.0, jnp.bfloat16)  # The squares' sum is not a bfloat16 number.
    out = layers.RMSNorm().apply({'params': {'scale': jnp.ones(4)}}, x)
    assert out.dtype == jnp.bfloat16 and out.tolist() == [[1.0] * 4]


def test_attention_by_the_formula():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 6)).astype(np.float32)
    bias = rng.normal(size=(1, 2, 5, 5)).astype(np.float32)
    attention = layers.Attention(num_heads=2, head_dim=3, out_features=6)
    params = {
        'qkv': {'kernel': rng.normal(size=(3, 6, 6)).astype(np.float32)},
        'out': {'kernel': rng.normal(size=(6, 6)).astype(np.float32)},
    }
    expected = np.zeros_like(x)
    q, k, v = (x @ kernel.T for kernel in params['qkv']['kernel'])
    for row in range(2):
        heads = []
        for head in range(2):
            part = slice(3 * head, 3 * head + 3)
            logits = q[row][:, part] @ k[row][:, part].T + bias[0, head]
            weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            heads.append(weights @ v[row][:, part])
        expected[row] = np.concatenate(heads, -1) @ params['out']['kernel'].T
    out = attention.apply({'params': params}, x, bias=bias)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)


def test_a_query_that_may_see_nothing_gives_numbers():
    attention = layers.Attention(num_heads=1, head_dim=2, out_features=2)
    x = jnp.ones((1, 3, 2))
    params = attention.init(jax.random.key(0), x)
    bias = layers.mask_bias(jnp.zeros((1, 1, 3, 3), bool))
    out, gradient = jax.value_and_grad(lambda p: attention.apply(p, x, bias=bias).sum())(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((out, gradient)))


def test_stacked_kernels_start_with_their_own_scales():
    init = layers.fan_in_normal((0.1, 1.0))
    kernel = init(jax.random.key(0), (2, 64, 100))
    np.testing.assert_allclose(kernel.std((1, 2)), [0.01, 0.1], rtol=0.05)


def computed(layer_type, remat, *names):
    """How many of each operation the forward and the backward pass of a layer have together."""
    layer = layers.checkpointed(layer_type, remat, train_argument=2)()
    x = jnp.ones((2, 4, 8))
    params = layer.init(jax.random.key(0), x, False)
    gradient = jax.grad(lambda params: layer.apply(params, x, False).sum())
    program = str(jax.make_jaxpr(gradient)(params))
    return [program.count(f' {name}[') for name in names]


def test_what_remat_computes_again():
    """'dots' keeps the products of a layer, which have a gradient of their own; 'full' does not."""
    none, dots, full = (computed(Stretched, r, 'dot_general')[0] for r in ('none', 'dots', 'full'))
    assert dots == none < full


def test_what_remat_computes_again_of_attention():
    """'dots' makes the weights anew: one product, and neither largest logit nor sum."""
    names = ('dot_general', 'reduce_max', 'reduce_sum')
    none, dots, full = (computed(Attending, remat, *names) for remat in ('none', 'dots', 'full'))
    assert dots == [none[0] + 1, *none[1:]]
    assert all(more > fewer for more, fewer in zip(full, dots, strict=True))


class Attending(nn.Module):
    """Attention of two heads."""

    @nn.compact
    def __call__(self, x, train):
        return layers.Attention(num_heads=2, head_dim=4, out_features=8)(x, train=train)


class Stretched(nn.Module):
    """Two products with something between them."""

    @nn.compact
    def __call__(self, x, train):
        x = jnp.tanh(layers.Dense(8, ('features', 'embed'))(x))
        return jnp.tanh(layers.Dense(8, ('features', 'embed'))(x))
