import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench.models import dense, norms
from xlbench.models.fused import choice
from xlbench.system import work


def test_stacked_kernels_start_with_their_own_scales():
    init = dense.fan_in_normal((0.1, 1.0))
    kernel = np.asarray(jax.jit(init, static_argnums=1)(jax.random.key(0), (2, 64, 100)))
    np.testing.assert_allclose(kernel.std((1, 2)), [0.01, 0.1], rtol=0.05)


@pytest.mark.parametrize('gated', [False, True])
def test_loops_on_accelerators_recompute_norms_and_activations(monkeypatch, gated):
    """With the gradients that CPUs have, which keep what is between."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)), jnp.float32)
    model = nn.Sequential([norms.RMSNorm(), dense.Mlp(6, 'gelu_tanh', gated), norms.LayerNorm()])
    params = nn.unbox(model.init(jax.random.key(0), x))

    def loss(params, x):
        with work.setting(dense.IN_LOOP, True):
            return jnp.sum(jnp.sin(model.apply(params, x)))

    results, sizes = [], []
    for platform in ('cpu', 'tpu'):
        monkeypatch.setattr(choice, 'platform', lambda name=platform: name)
        results.append(jax.grad(loss, (0, 1))(params, x))
        _, pull = jax.vjp(loss, params, x)
        sizes.append(sum(leaf.size for leaf in jax.tree.leaves(pull)))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-7), *results)
    assert sizes[1] < 0.8 * sizes[0]
