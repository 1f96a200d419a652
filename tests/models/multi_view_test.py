import functools

import jax
import jax.numpy as jnp
import named_weights
import numpy as np
import pytest
import references
from flax import traverse_util
from jax.sharding import NamedSharding

from xlbench import models
from xlbench.huggingface import checkpoint
from xlbench.huggingface.mapping import Entry
from xlbench.models import multi_view
from xlbench.parallel import partitioning
from xlbench.system import errors
from xlbench.training import losses

PAD, EOS = 1, 2


def tiny(**overrides):
    return models.build('mvbart', 'sample', **references.BART | {'vocab_size': 61} | overrides)


def names(config):
    """Our parameters and those of the reference; BART's have BART's names."""
    gates = 'section.{}_l0'
    return checkpoint.names('bart', config) | {
        'view_weights/dense/kernel': Entry(('w_proj.weight',)),
        'view_weights/dense/bias': Entry(('w_proj.bias',)),
        'view_weights/norm/scale': Entry(('w_proj_layer_norm.weight',)),
        'view_weights/norm/bias': Entry(('w_proj_layer_norm.bias',)),
        'view_weights/score/kernel': Entry(('w_context_vector.weight',)),
        'view_weights/lstm/inputs/kernel': Entry((gates.format('weight_ih'),)),
        'view_weights/lstm/step/recurrent/kernel': Entry((gates.format('weight_hh'),)),
        'view_weights/lstm/step/recurrent/bias': Entry((gates.format('bias'),)),
    }


class Golden:
    """What the reference makes of a tiny random model; see tools/goldens/make_mvbart.py."""

    def __init__(self):
        self.values, weights, self.gradients = references.stored('mvbart')
        weights = dict(weights)
        # The two biases of the reference only occur as a sum.
        weights['section.bias_l0'] = weights['section.bias_ih_l0'] + weights['section.bias_hh_l0']
        for name in ('weight_ih', 'weight_hh', 'bias'):
            weights[f'section.{name}_l0'] = _stacked(weights[f'section.{name}_l0'])
        weights['final_logits_bias'] = np.zeros((1, 61), np.float32)
        self.model = tiny()
        self.names = names(self.model.config)
        self.params = named_weights.to_params(self.names, weights)
        self.run = jax.jit(self.model.apply, static_argnames=('method', 'max_length', 'beams'))
        self.targets = self.values['targets']
        self.lengths = (self.targets != PAD).sum(1)
        self.decoder_inputs = np.roll(self.targets, 1, axis=1)
        self.decoder_inputs[:, 0] = EOS
        self.batch = joined(self.values['views_1'], self.values['views_2'], self.values['marks'])

    def loss(self, params):
        variables = {'params': params}
        hidden = self.model.apply(
            variables, decoder_input_tokens=self.decoder_inputs, **self.batch, method='hidden'
        )
        out = losses.softmax_cross_entropy(
            hidden.reshape(-1, hidden.shape[-1]),
            self.model.apply(variables, method='output_embedding'),
            self.targets.reshape(-1),
            (self.targets != PAD).reshape(-1),
        )
        return out.loss / out.weight


def _stacked(gates):
    return gates.reshape(4, -1, *gates.shape[1:])


def joined(first, second, marks, width=40):
    """Two arrays of ids as rows of both views, with what the encoder reads beside them."""
    tokens = np.full((len(first), width), PAD, np.int32)
    segments, positions = np.zeros_like(tokens), np.zeros_like(tokens)
    for row, views in enumerate(zip(first, second, strict=True)):
        start = 0
        for number, view in enumerate(views, 1):
            view = view[view != PAD]
            place = slice(start, start + len(view))
            tokens[row, place], segments[row, place] = view, number
            positions[row, place] = np.arange(len(view))
            start += len(view)
    return {
        'encoder_input_tokens': tokens,
        'encoder_segment_ids': segments,
        'encoder_positions': positions,
        'encoder_marks': np.isin(tokens, marks).astype(np.int32),
    }


@pytest.fixture(scope='module')
def golden():
    return Golden()


def test_logits_and_weights_equal_the_reference(golden):
    variables = {'params': golden.params}
    logits = golden.run(variables, decoder_input_tokens=golden.decoder_inputs, **golden.batch)
    for ours, expected, length in zip(logits, golden.values['logits'], golden.lengths, strict=True):
        np.testing.assert_allclose(ours[:length], expected[:length], atol=1e-4)
    encoded = golden.run(variables, **golden.batch, method='encode')
    np.testing.assert_allclose(encoded.weights, golden.values['view_weights'], atol=1e-4)


def test_loss_and_gradients_equal_the_reference(golden):
    loss, gradients = jax.jit(jax.value_and_grad(golden.loss))(golden.params)
    np.testing.assert_allclose(loss, golden.values['loss'], rtol=1e-5)
    gradients = named_weights.from_params(golden.names, jax.tree.map(np.array, gradients))
    gradients['section.bias_ih_l0'] = gradients['section.bias_l0']
    assert len(golden.gradients) == 12
    for name, expected in golden.gradients.items():
        ours = gradients[name].reshape(expected.shape)
        np.testing.assert_allclose(ours, expected, atol=3e-5, err_msg=name)


@pytest.mark.parametrize('method', ['greedy', pytest.param('beam', marks=pytest.mark.nightly)])
def test_cached_decoding_equals_the_reference(golden, method):
    options = dict(method='greedy') if method == 'greedy' else dict(method='beam', num_beams=3)
    ids = dict(start_id=EOS, eos_id=EOS, pad_id=PAD)
    decode = references.decoder(golden.model, **ids, **options, max_length=12)
    found = decode(golden.params, golden.batch)
    if method == 'greedy':
        np.testing.assert_array_equal(found.tokens[:, 0], golden.values['greedy'])
        return
    # The best text has the probability that the whole pass gives it.
    tokens = np.asarray(found.tokens[:, 0])
    inputs = np.roll(tokens, 1, axis=1)
    inputs[:, 0] = EOS
    logits = golden.run({'params': golden.params}, decoder_input_tokens=inputs, **golden.batch)
    logs = np.take_along_axis(np.asarray(jax.nn.log_softmax(logits)), tokens[..., None], -1)[..., 0]
    expected = (logs * (tokens != PAD)).sum(1)
    np.testing.assert_allclose(found.log_probabilities[:, 0], expected, atol=1e-3)


def test_a_wider_batch_and_other_neighbours_change_nothing(golden):
    variables = {'params': golden.params}
    run = functools.partial(golden.run, variables)
    alone = joined(golden.values['views_1'][1:2], golden.values['views_2'][1:2], (7, 8), width=16)
    logits = run(decoder_input_tokens=golden.decoder_inputs[1:2], **alone)
    expected = golden.values['logits'][1, : golden.lengths[1]]
    np.testing.assert_allclose(logits[0, : golden.lengths[1]], expected, atol=1e-4)
    # Positions that are not given are counted in each view.
    del alone['encoder_positions']
    again = run(decoder_input_tokens=golden.decoder_inputs[1:2], **alone)
    np.testing.assert_allclose(again, logits, atol=1e-5)


def test_one_view_has_all_the_weight(golden):
    batch = joined(golden.values['views_1'], np.full((3, 1), PAD), (7, 8))
    encoded = golden.run({'params': golden.params}, **batch, method='encode')
    np.testing.assert_array_equal(encoded.weights, [[1, 0]] * 3)


def test_segments_beyond_the_limit_weigh_nothing(golden):
    """As if the marks behind the first were none."""
    variables, views = {'params': golden.params}, golden.values
    model = tiny(max_segments=1)
    few = jax.jit(lambda batch: model.apply(variables, **batch, method='encode'))(golden.batch)
    marks = golden.batch['encoder_marks'].copy()
    for row, segments in zip(marks, golden.batch['encoder_segment_ids'], strict=True):
        for view in (1, 2):
            row[np.flatnonzero((row > 0) & (segments == view))[1:]] = 0
    first = golden.batch | {'encoder_marks': marks}
    expected = golden.run(variables, **first, method='encode')
    np.testing.assert_allclose(few.weights, expected.weights, atol=1e-6)
    assert np.abs(few.weights - views['view_weights']).max() > 0.01


def test_every_parameter_has_a_name():
    assert references.boxed('mvbart').keys() == names(tiny().config).keys()


def test_four_devices_equal_one(golden):
    fields = {'vocab_size': 64, 'num_encoder_layers': 1, 'num_decoder_layers': 1}
    boxed = references.boxed('mvbart', **references.BART | fields)
    boxed, model = traverse_util.unflatten_dict(boxed, sep='/'), tiny(**fields)
    params = references.drawn(model, *[np.ones((1, 4), np.int32)] * 2, scale=0.2)
    batch = {k: np.concatenate([v, v[:1]]) for k, v in golden.batch.items()}
    batch['decoder_input_tokens'] = golden.decoder_inputs[[0, 1, 2, 0]]

    def loss(params, batch):
        logits = model.apply({'params': params}, **batch)
        return jnp.mean(jax.nn.logsumexp(logits, -1) - logits[..., 5])

    expected, slopes = jax.jit(jax.value_and_grad(loss))(params, batch)
    mesh = partitioning.make_mesh(fsdp=2, tensor=2, devices=jax.devices()[:4])
    shardings = partitioning.param_shardings(boxed, mesh)
    rows = NamedSharding(mesh, partitioning.BATCH_SPEC)
    with partitioning.activate(mesh):
        step = jax.jit(jax.value_and_grad(loss), out_shardings=(None, shardings))
        value, gradients = step(jax.device_put(params, shardings), jax.device_put(batch, rows))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), gradients, slopes)


def test_rows_beyond_the_positions_of_both_views_are_one_plain_error():
    tokens, few = (jax.ShapeDtypeStruct((1, n), jnp.int32) for n in (81, 4))
    with pytest.raises(errors.UserError, match=r'81 tokens does not fit .* 40 positions for each'):
        jax.eval_shape(tiny().init, jax.random.key(0), tokens, few)


def test_positions_are_counted_in_each_view():
    segments = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 0, 0, 0, 0]])
    places = np.asarray(multi_view.view_positions(segments))
    assert places[0, :5].tolist() == [0, 1, 2, 0, 1] and places[1, :2].tolist() == [0, 1]
