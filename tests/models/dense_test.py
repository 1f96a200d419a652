import jax
import numpy as np

from xlbench.models import dense


def test_stacked_kernels_start_with_their_own_scales():
    init = dense.fan_in_normal((0.1, 1.0))
    kernel = np.asarray(jax.jit(init, static_argnums=1)(jax.random.key(0), (2, 64, 100)))
    np.testing.assert_allclose(kernel.std((1, 2)), [0.01, 0.1], rtol=0.05)
