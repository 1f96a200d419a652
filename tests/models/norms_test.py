import jax
import jax.numpy as jnp
import numpy as np

from xlbench.models import norms


def test_rms_norm_by_hand():
    x = np.array([[3.0, 4.0]], np.float32)
    params = {'scale': np.array([1.0, 2.0], np.float32)}
    out = jax.jit(norms.RMSNorm(epsilon=0.0).apply)({'params': params}, x)
    np.testing.assert_allclose(out, [[3 / 12.5**0.5, 8 / 12.5**0.5]], rtol=1e-6)


def test_rms_norm_of_bfloat16_is_computed_in_float32():
    x = np.full((1, 4), 300.0, jnp.bfloat16)  # The squares' sum is not a bfloat16 number.
    out = jax.jit(norms.RMSNorm().apply)({'params': {'scale': np.ones(4, np.float32)}}, x)
    assert out.dtype == jnp.bfloat16 and out.tolist() == [[1.0] * 4]


def test_layer_norm_by_hand():
    x = np.array([[1.0, 2.0, 6.0]], np.float32)  # Mean 3, variance 14 / 3.
    params = {'scale': np.array([1, 2, 1], np.float32), 'bias': np.array([0, 0, 5], np.float32)}
    out = jax.jit(norms.LayerNorm(epsilon=1 / 3).apply)({'params': params}, x)
    np.testing.assert_allclose(out, [[-2 / 5**0.5, -2 / 5**0.5, 3 / 5**0.5 + 5]], rtol=1e-6)
