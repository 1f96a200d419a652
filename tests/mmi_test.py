import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import tiny

from xlbench.decoding import mmi
from xlbench.training import objectives


def test_bidirectional():
    forward = jnp.array([[-1.0, -2.0, -4.0]])
    backward = jnp.array([[-9.0, -5.0, -4.0]])
    lengths = jnp.array([[2, 3, 6]])
    scores = mmi.bidirectional(forward, backward, lengths, weight=0.5, length_weight=0.1)
    np.testing.assert_allclose(scores, [[-5.3, -4.2, -5.4]], rtol=1e-6)


def test_anti_language_model():
    forward = jnp.array([[-3.0, -3.0]])
    # Of the second text the last place is padding.
    tokens = jnp.array([[[-1.0, -2.0, -4.0], [-0.5, -0.5, -7.0]]])
    lengths = jnp.array([[3, 2]])
    scores = mmi.anti_language_model(forward, tokens, lengths, weight=0.5)
    np.testing.assert_allclose(scores, [[0.5, -2.5]])
    scores = mmi.anti_language_model(
        forward, tokens, lengths, weight=1.0, length_weight=0.25, first=1
    )
    np.testing.assert_allclose(scores, [[-1.25, -2.0]])


def test_lengths_count_the_end():
    tokens = jnp.array([[[5, 6, 1, 0], [1, 0, 0, 0], [5, 6, 7, 8], [5, 1, 1, 1]]])
    assert mmi.lengths_of(tokens, eos_id=1).tolist() == [[3, 1, 4, 2]]


def test_rerank_sorts_each_list_and_keeps_the_order_of_equals():
    lists = {'tokens': jnp.arange(12).reshape(2, 3, 2), 'scores': jnp.arange(6).reshape(2, 3)}
    sorted_lists, scores = mmi.rerank(lists, jnp.array([[1.0, 3.0, 2.0], [5.0, 5.0, 7.0]]))
    assert scores.tolist() == [[3, 2, 1], [7, 5, 5]]
    assert sorted_lists['scores'].tolist() == [[1, 2, 0], [5, 3, 4]]
    assert sorted_lists['tokens'][0].tolist() == [[2, 3], [4, 5], [0, 1]]


def test_a_second_model_tells_how_well_the_source_follows():
    """Texts as inputs, their source as the targets of each; one row is checked by hand."""
    model, objective = tiny.tiny_model(), objectives.build('generation')
    ones = jnp.ones((1, 4), jnp.int32)
    params = jax.jit(lambda key: nn.unbox(model.init(key, ones, ones))['params'])(jax.random.key(0))
    rng = np.random.default_rng(0)
    texts, sources = rng.integers(2, 128, (2, 3, 5)), rng.integers(2, 128, (2, 4))
    targets = np.repeat(sources, 3, axis=0)
    full = lambda x: np.ones_like(x)  # noqa: E731
    places = lambda x: np.broadcast_to(np.arange(x.shape[1]), x.shape)  # noqa: E731
    inputs = texts.reshape(6, 5)
    batch = {
        'encoder_input_tokens': inputs,
        'encoder_segment_ids': full(inputs),
        'encoder_positions': places(inputs),
        'decoder_input_tokens': np.pad(targets[:, :-1], ((0, 0), (1, 0))),
        'decoder_target_tokens': targets,
        'decoder_segment_ids': full(targets),
        'decoder_positions': places(targets),
        'decoder_loss_weights': full(targets).astype(np.float32),
    }
    row_losses = jax.jit(lambda params, batch: objective.row_losses(model, params, batch))
    found = mmi.score(row_losses, params, batch, n=3)
    assert found.shape == (2, 3)
    logits = model.apply({'params': params}, inputs[4:5], batch['decoder_input_tokens'][4:5])
    each = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[4:5, :, None], -1)
    np.testing.assert_allclose(found[1, 1], each.sum(), rtol=1e-4)
    assert len(np.unique(found)) == 6
