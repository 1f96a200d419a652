"""The SSRU, and the decoder that has it in place of attention within the text."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from xlbench import decoding, models
from xlbench.models import masks, recurrence

TINY = dict(emb_dim=32, num_heads=4, head_dim=8, mlp_dim=40, vocab_size=61, dropout_rate=0.0)


def test_it_equals_the_formula_position_by_position():
    ssru = recurrence.Ssru(8, jnp.float32, nn.initializers.normal(1.0))
    x = np.random.default_rng(0).normal(size=(2, 7, 8)).astype(np.float32)
    segments = np.array([[1, 1, 1, 2, 2, 2, 2], [1, 2, 2, 2, 2, 3, 3]])
    mask = masks.causal_mask(7, jnp.asarray(segments))
    params = references.drawn(ssru, x, None, mask, scale=1.0)
    found = jax.jit(ssru.apply)({'params': params}, x, None, mask)
    kernels = {name: np.array(params[name]['kernel'], np.float64).T for name in params}
    bias = np.array(params['forget']['bias'], np.float64)
    for row in range(2):
        state = np.zeros(8)
        for t in range(7):
            if t and segments[row, t] != segments[row, t - 1]:
                state = np.zeros(8)
            keep = 1 / (1 + np.exp(-(x[row, t] @ kernels['forget'] + bias)))
            state = keep * state + (1 - keep) * (x[row, t] @ kernels['inwards'])
            np.testing.assert_allclose(found[row, t], np.maximum(state, 0), atol=1e-5)


@pytest.fixture(scope='module')
def known():
    """A model with parameters far from zero, and a batch whose second row has padding."""
    model = models.build('marian_ssru', 'sample', **TINY, num_encoder_layers=1)
    rng = np.random.default_rng(1)
    inputs, targets = (rng.integers(2, 61, (2, n)).astype(np.int32) for n in (9, 8))
    segments = np.ones_like(inputs)
    segments[1, 6:] = 0
    params = references.drawn(model, inputs, targets)
    return model, {'params': params}, inputs, targets, segments


def test_steps_equal_the_whole_text_and_the_first_input_is_zero(known):
    model, variables, inputs, targets, segments = known
    run = jax.jit(
        functools.partial(model.apply, variables), static_argnames=('method', 'max_length', 'beams')
    )
    full = run(inputs, targets, segments)
    targets[:, 0] = 5
    np.testing.assert_array_equal(run(inputs, targets, segments), full)
    targets[:, 1] = 5
    assert np.abs(run(inputs, targets, segments) - full)[:, 1].max() > 1e-3
    full = run(inputs, targets, segments)
    encoded = run(inputs, segments, method='encode')
    cache = run(encoded, segments, max_length=8, beams=3, method='init_cache')
    for position in range(8):
        tokens = np.repeat(targets[:, position], 3)
        logits, cache = run(cache, tokens, method='decode_step')
        np.testing.assert_allclose(logits, np.repeat(full[:, position], 3, axis=0), atol=3e-5)


def test_packing_changes_no_logits(known):
    model, variables, inputs, targets, _ = known
    alone = jax.jit(model.apply)(variables, inputs, targets)
    packed = {
        f'{side}_{name}': np.concatenate(values)[None]
        for side, tokens in (('encoder', inputs), ('decoder', targets))
        for name, values in (
            ('input_tokens', tokens),
            ('segment_ids', [np.full_like(tokens[0], n) for n in (1, 2)]),
            ('positions', [np.arange(tokens.shape[1], dtype=np.int32)] * 2),
        )
    }
    logits = jax.jit(model.apply)(variables, **packed)
    np.testing.assert_allclose(logits[0], np.concatenate(alone), atol=3e-5)


def test_hypotheses_of_a_beam_carry_their_own_states(known):
    """The score of each text that a beam finds is the one that the whole pass gives it."""
    model, variables, inputs, _, segments = known
    batch = dict(encoder_input_tokens=inputs, encoder_segment_ids=segments)
    batch['encoder_positions'] = np.broadcast_to(np.arange(9, dtype=np.int32), (2, 9))
    options = decoding.Options(
        method='beam', num_beams=4, num_return=4, max_length=7, length_penalty=0.0
    )
    decode = functools.partial(
        decoding.decode, model, options=options, start_id=0, eos_id=0, pad_id=0
    )
    found = jax.jit(decode)(variables['params'], batch)
    tokens = np.array(found.tokens)
    assert len({tuple(text) for text in tokens[0]}) == 4
    texts = tokens.reshape(8, -1)
    fed = np.pad(texts[:, :-1], ((0, 0), (1, 0)))
    logits = jax.jit(model.apply)(
        variables, np.repeat(inputs, 4, 0), fed, np.repeat(segments, 4, 0)
    )
    for text, logs, score in zip(
        texts, np.array(jax.nn.log_softmax(logits)), np.array(found.scores).ravel(), strict=True
    ):
        each = logs[np.arange(len(text)), text]
        length = list(text).index(0) + 1 if 0 in text else len(text)
        np.testing.assert_allclose(each[:length].sum(), score, atol=1e-4)


def test_its_bias_is_trained(known):
    model, variables, inputs, targets, _ = known

    def loss(params):
        return model.apply({'params': params}, inputs, targets)[..., 3].sum()

    slopes = jax.jit(jax.grad(loss))(variables['params'])
    assert slopes['final_logits_bias'][3] == targets.size and not slopes['final_logits_bias'][4]
    assert all(np.abs(slope).max() > 0 for slope in jax.tree.leaves(slopes['decoder']))
