import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench.models import cpu_kernels


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
