import jax
import jax.numpy as jnp
import numpy as np

from xlbench.models import attention as attention_lib, masks
from xlbench.models.fused import choice


def test_attention_by_the_formula():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 6)).astype(np.float32)
    bias = rng.normal(size=(1, 2, 5, 5)).astype(np.float32)
    attention = attention_lib.SelfAttention(num_heads=2, head_dim=3, out_features=6)
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
    out = jax.jit(attention.apply)({'params': params}, x, bias=bias)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)


def test_a_query_that_may_see_nothing_gives_numbers():
    attention = attention_lib.SelfAttention(num_heads=1, head_dim=2, out_features=2)
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
            results.append(attention_lib.step_attention(q, k, v, bias, mask))
        assert results[0].shape == q.shape
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)
