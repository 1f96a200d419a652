import dataclasses
import functools
import pathlib

import jax
import jax.numpy as jnp
import named_weights
import numpy as np
import pytest

from xlbench import models
from xlbench.decoding.greedy import one_by_one
from xlbench.huggingface import bert as bert_names
from xlbench.system import errors
from xlbench.training import losses

GOLDENS = pathlib.Path(__file__).parents[1] / 'goldens'
FIELDS = dict(
    vocab_size=61,
    emb_dim=24,
    num_heads=4,
    head_dim=6,
    mlp_dim=40,
    max_positions=40,
    has_pooler=True,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
)
# What sets the pairs of tools/goldens/make_bert.py apart, and their special ids.
PAIRS = {
    'bert2bert': ({}, dict(start_id=2, eos_id=3, pad_id=0)),
    'xlmr2xlmr': (
        dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5),
        dict(start_id=0, eos_id=2, pad_id=1),
    ),
}


class Golden:
    """What transformers makes of a tiny random pair of encoders; see tools/goldens/make_bert.py."""

    def __init__(self, name):
        stored = dict(np.load(GOLDENS / f'{name}.npz'))
        self.values = {k: v for k, v in stored.items() if '/' not in k}
        self.gradients = {k[10:]: v for k, v in stored.items() if k.startswith('gradients/')}
        self.weights = {
            k[8:]: v.astype(np.float32) for k, v in stored.items() if k.startswith('weights/')
        }
        more, self.ids = PAIRS[name]
        self.model = models.build('encoder_decoder', 'sample', **FIELDS, **more)
        self.names = bert_names.names('encoder_decoder', self.model.config)
        self.params = named_weights.to_params(self.names, self.weights)
        self.inputs, self.targets = self.values['inputs'], self.values['targets']
        self.segments = (self.inputs != self.ids['pad_id']).astype(np.int32)
        self.weight = (self.targets != self.ids['pad_id']).astype(np.int32)

    def shift_right(self, targets):
        start = self.ids['start_id']
        return np.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=start)

    def with_config(self, **fields):
        return self.model.clone(config=dataclasses.replace(self.model.config, **fields))

    def loss(self, params, model=None):
        model, variables = model or self.model, {'params': params}
        decoder_tokens = self.shift_right(self.targets)
        hidden = model.apply(variables, self.inputs, decoder_tokens, self.segments, method='hidden')
        out = losses.softmax_cross_entropy(
            hidden.reshape(-1, hidden.shape[-1]),
            model.apply(variables, method='output_embedding'),
            self.targets.reshape(-1),
            self.weight.reshape(-1),
            bias=model.apply(variables, method='output_bias'),
            chunk_size=50,
        )
        return out.loss / out.weight

    @functools.cached_property
    def loss_and_gradients(self):
        return jax.jit(jax.value_and_grad(self.loss))(self.params)

    @functools.cached_property
    def step(self):
        return jax.jit(functools.partial(self.model.apply, method='decode_step'))

    def logits(self, *args, **named):
        return jax.jit(self.model.apply)({'params': self.params}, *args, **named)


@functools.cache
def cached_golden(name):
    return Golden(name)


@pytest.fixture(params=PAIRS)
def golden(request):
    return cached_golden(request.param)


def test_logits_equal_transformers(golden):
    logits = golden.logits(golden.inputs, golden.shift_right(golden.targets), golden.segments)
    real = golden.weight[:, ::3, None]  # The reference hides padding from padding, too.
    expected = golden.values['logits'] * real
    np.testing.assert_allclose(logits[:, ::3] * real, expected, atol=1e-4, rtol=0)


def test_loss_and_gradients_equal_transformers(golden):
    loss, gradients = golden.loss_and_gradients
    np.testing.assert_allclose(loss, golden.values['loss'], rtol=1e-5)
    gradients = named_weights.from_params(golden.names, gradients)  # The same mapping names them.
    assert len(golden.gradients) >= 15
    for name, expected in golden.gradients.items():
        np.testing.assert_allclose(gradients[name], expected, atol=1e-4, rtol=1e-4, err_msg=name)


def test_rematerialisation_changes_no_gradient():
    golden = cached_golden('bert2bert')
    loss = functools.partial(golden.loss, model=golden.with_config(remat='full'))
    again = jax.jit(jax.grad(loss))(golden.params)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, atol=1e-5),
        golden.loss_and_gradients[1],
        again,
    )


@pytest.mark.parametrize('types', [('float32', 'bfloat16'), ('bfloat16', None)])
def test_bfloat16_is_near_float32(types):
    golden = cached_golden('xlmr2xlmr')
    model = golden.with_config(dtype=types[0], matmul_dtype=types[1])
    loss = jax.jit(functools.partial(golden.loss, model=model))(golden.params)
    exact = golden.values['loss']
    assert 1e-6 * exact < abs(loss - exact) < 0.03 * exact


def test_huggingface_names_survive_the_round_trip(golden):
    back = named_weights.from_params(golden.names, golden.params)
    assert back.keys() == golden.weights.keys()
    for name, value in back.items():
        np.testing.assert_array_equal(value, golden.weights[name])


def test_greedy_decoding_equals_transformers(golden):
    @jax.jit
    def greedy(params):
        apply = functools.partial(golden.model.apply, {'params': params})
        encoded = apply(golden.inputs, golden.segments, method='encode')
        return one_by_one(
            functools.partial(apply, method='decode_step'),
            apply(encoded, golden.segments, 24, method='init_cache'),
            batch_size=len(golden.inputs),
            max_length=24,
            **golden.ids,
        )

    tokens, scores = (np.asarray(x)[:, 0] for x in greedy(golden.params))
    expected = golden.values['greedy']
    assert (expected == golden.ids['eos_id']).any()  # Some rows end.
    np.testing.assert_array_equal(tokens[:, : expected.shape[1]], expected)
    # The score is the log-probability of the text under the uncached model.
    logits = golden.logits(golden.inputs, golden.shift_right(tokens), golden.segments)
    each = np.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)[..., 0]
    ended = np.cumsum(tokens == golden.ids['eos_id'], axis=1) - (tokens == golden.ids['eos_id'])
    np.testing.assert_allclose(scores, (each * (ended == 0)).sum(-1), rtol=1e-4)


def test_cached_decoding_with_beams_equals_the_full_pass(golden):
    variables = {'params': golden.params}
    beams, rng = 2, np.random.default_rng(0)
    rows = beams * len(golden.inputs)
    tokens = rng.integers(4, 61, (rows, 12)).astype(np.int32)
    repeated = np.repeat(golden.inputs, beams, 0), np.repeat(golden.segments, beams, 0)
    full = golden.logits(repeated[0], tokens, repeated[1])
    encoded = golden.model.apply(variables, golden.inputs, golden.segments, method='encode')
    cache = golden.model.apply(variables, encoded, golden.segments, 15, beams, method='init_cache')
    assert cache['cross'][0]['key'].shape[0] == len(golden.inputs)
    swap = np.arange(rows) ^ 1  # The two hypotheses of each example change places after step 5.
    for position in range(12):
        if position == 6:
            cache['origin'] = cache['origin'][:, ::-1]
            tokens, full = tokens[swap], full[swap]
        logits, cache = golden.step(variables, cache, tokens[:, position])
        assert logits.dtype == jnp.float32
        np.testing.assert_allclose(logits, full[:, position], atol=2e-5)


def test_packing_changes_no_logit():
    golden = cached_golden('xlmr2xlmr')
    decoder_tokens = golden.shift_right(golden.targets)
    alone = golden.logits(golden.inputs, decoder_tokens, golden.segments)
    lengths = golden.segments.sum(1), golden.weight.sum(1)
    join = lambda parts: np.pad(np.concatenate(parts), (0, 3))[None]  # noqa: E731
    packed = {}
    for side, tokens, of_side in zip(
        ('encoder', 'decoder'), (golden.inputs, decoder_tokens), lengths, strict=True
    ):
        rows = [row[:n] for row, n in zip(tokens, of_side, strict=True)]
        packed[f'{side}_input_tokens'] = join(rows)
        packed[f'{side}_segment_ids'] = join([np.full(n, i) for i, n in enumerate(of_side, 1)])
        packed[f'{side}_positions'] = join([np.arange(n) for n in of_side])
    logits = golden.logits(**packed)
    assert np.isfinite(logits).all()
    start = 0
    for row, length in enumerate(lengths[1]):
        np.testing.assert_allclose(
            logits[0, start : start + length], alone[row, :length], atol=2e-5
        )
        start += length


def test_dropout_draws_with_the_key_and_only_in_training():
    golden = cached_golden('bert2bert')
    model = golden.with_config(dropout_rate=0.3, attention_dropout_rate=0.3)
    tokens = golden.inputs, golden.shift_right(golden.targets), golden.segments
    apply = jax.jit(model.apply, static_argnames='train')
    draw = lambda n, train: apply(  # noqa: E731
        {'params': golden.params}, *tokens, train=train, rngs={'dropout': jax.random.key(n)}
    )
    np.testing.assert_allclose(draw(1, False), golden.logits(*tokens), atol=1e-5)
    one, same, other = (draw(n, True) for n in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


@pytest.mark.parametrize('name', PAIRS)
def test_halves_and_head_are_initialised_from_a_masked_language_model(name):
    # Its tensors: an encoder's, with the head beside it.
    golden = cached_golden(name)
    tensors = {bert_names.rename(k.removeprefix('decoder.')): v for k, v in golden.weights.items()}
    names = bert_names.names('bert', dataclasses.replace(golden.model.config, has_pooler=False))
    encoder = named_weights.to_params(names, tensors)
    head = named_weights.to_params(bert_names.lm_head_names(golden.model.config), tensors)
    jax.tree.map(np.testing.assert_array_equal, head, {'lm_head': golden.params['lm_head']})
    layers = {key: dict(value) for key, value in golden.params['decoder'].items()}
    fresh = [layers[f'layers_{i}'].pop('cross_attention') for i in range(2)]
    fresh += [layers[f'layers_{i}'].pop('cross_attention_norm') for i in range(2)]
    assert len(fresh) == 4  # All else in the decoder is the encoder's, under another prefix.
    jax.tree.map(np.testing.assert_array_equal, encoder, layers)


def test_decoding_further_than_positions_go_is_named():
    golden = cached_golden('bert2bert')
    encoded = jnp.zeros((1, 3, 24))
    with pytest.raises(errors.UserError, match='a sequence of 41 tokens does not fit'):
        golden.model.apply({'params': golden.params}, encoded, None, 41, method='init_cache')
