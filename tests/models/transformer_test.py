import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import references

from xlbench import models
from xlbench.models import attention, layers, transformer
from xlbench.models.lora import Lora

SIZES = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, vocab_size=40, dropout_rate=0.0)
TOKENS = np.array([[5, 9, 11, 3, 1, 0], [7, 1, 0, 0, 0, 0]], np.int32)
STACKS = {
    'mt5': dict(num_encoder_layers=2, num_decoder_layers=3),
    'dual_encoder': dict(num_layers=5, attention_dropout_rate=0.0),
}


def model_of(family, **fields):
    return models.build(family, 'sample', **SIZES, **STACKS[family], **fields)


@functools.cache
def params_of(family, adapted):
    """Fresh parameters; LoRA adapts the first two layers."""
    boxed = jax.eval_shape(model_of(family).init, jax.random.key(0), TOKENS, TOKENS)['params']
    lora = Lora(4, targets=('.*layers_[01]/.*attention/.*kernel',)) if adapted else Lora()
    shapes = jax.eval_shape(lambda params: lora.add(params, jax.random.key(0)), boxed)
    return references.like(shapes, 0.1)


def train_loss(family, params, **fields):
    """A loss in training."""
    segments = {} if family == 'dual_encoder' else {'encoder_segment_ids': TOKENS > 0}
    model = model_of(family, **fields)
    out = model.apply({'params': params}, TOKENS, TOKENS, **segments, train=True)
    return sum(jnp.mean(jnp.sin(3 * x)) for x in jax.tree.leaves(out))


def assert_same(program, family, adapted=False, **fields):
    """That a program of the loss gives the same with and without loops, of which one is shorter."""
    params = params_of(family, adapted)
    results, products = [], []
    for one in ({}, fields):
        traced = jax.jit(program(functools.partial(train_loss, family, **one))).trace(params)
        products.append(str(traced.jaxpr).count(' dot_general['))
        results.append(traced.lower().compile()(params))
    assert products[0] > products[1]
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), *results)


def test_a_loop_has_the_losses_and_gradients_of_its_layers():
    """Of which LoRA has adapted all of the encoder, and two of the decoder."""
    assert_same(jax.value_and_grad, 'mt5', adapted=True, scan_layers=1, remat='dots')


def test_rounds_of_two_layers_and_one_left_over_in_a_stack_that_runs_twice():
    assert_same(lambda loss: loss, 'dual_encoder', scan_layers=2)


class Twice(nn.Module):
    """A loop over two layers of dropout, run twice."""

    @nn.compact
    def __call__(self, x):
        dropped = [layers.Dropout(0.5, name=name) for name in 'ab']
        return [transformer.run_layers(dropped, 1, x, (True,)) for _ in range(2)]


def test_each_layer_and_each_run_of_a_loop_has_dropout_of_its_own():
    params = {name: {'unread': jnp.zeros(())} for name in 'ab'}
    rngs = {'dropout': jax.random.key(2)}
    one, other = Twice().apply({'params': params}, jnp.ones(4000), rngs=rngs)
    kept = [np.mean(x > 0) for x in (one, other, one * other)]
    np.testing.assert_allclose(kept, [1 / 4, 1 / 4, 1 / 16], atol=0.03)


def test_a_loop_without_training_needs_no_key():
    encoded = [
        jax.jit(functools.partial(model_of('mt5', scan_layers=layers).apply, method='encode'))(
            {'params': params_of('mt5', False)}, TOKENS
        )
        for layers in (0, 1)
    ]
    np.testing.assert_allclose(*encoded, rtol=1e-5, atol=1e-6)


def test_a_loop_changes_no_name_of_a_parameter():
    plain, looped = model_of('mt5'), model_of('mt5', scan_layers=2)
    one, other = (
        jax.eval_shape(functools.partial(model.init, jax.random.key(0)), TOKENS, TOKENS)
        for model in (plain, looped)
    )
    assert one == other


def computed(layer_type, remat, *names):
    """How many of each operation the forward and the backward pass of a layer have together."""
    layer = transformer.checkpointed(layer_type, remat)()
    x, others = jax.ShapeDtypeStruct((2, 4, 8), jnp.float32), (None, None, None, None, False)
    params = jax.eval_shape(lambda key, x: layer.init(key, x, *others), jax.random.key(0), x)
    gradient = jax.grad(lambda params, x: layer.apply(params, x, *others).sum())
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
    def __call__(self, x, *others):
        cfg = layers.TransformerConfig(vocab_size=1, emb_dim=8, num_heads=2, head_dim=4, mlp_dim=1)
        return attention.SelfAttention(cfg)(x)


class Stretched(nn.Module):
    """Two products with something between them."""

    @nn.compact
    def __call__(self, x, *others):
        x = jnp.tanh(layers.Dense(8, ('features', 'embed'))(x))
        return jnp.tanh(layers.Dense(8, ('features', 'embed'))(x))
