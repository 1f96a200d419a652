import flax.linen as nn
import jax
import jax.numpy as jnp

from xlbench.models import attention, dense, transformer


def computed(layer_type, remat, *names):
    """How many of each operation the forward and the backward pass of a layer have together."""
    layer = transformer.checkpointed(layer_type, remat, train_argument=2)()
    x = jax.ShapeDtypeStruct((2, 4, 8), jnp.float32)
    params = jax.eval_shape(lambda key, x: layer.init(key, x, False), jax.random.key(0), x)
    gradient = jax.grad(lambda params, x: layer.apply(params, x, False).sum())
    program = str(jax.make_jaxpr(gradient)(params, x))
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
        return attention.SelfAttention(num_heads=2, head_dim=4, out_features=8)(x, train=train)


class Stretched(nn.Module):
    """Two products with something between them."""

    @nn.compact
    def __call__(self, x, train):
        x = jnp.tanh(dense.Dense(8, ('features', 'embed'))(x))
        return jnp.tanh(dense.Dense(8, ('features', 'embed'))(x))
