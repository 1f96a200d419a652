"""mBART-25, whose language stands behind the text, and Unicoder-xDAE, a BART of scaled tokens."""

import functools

import jax
import numpy as np
import pytest
import references

from xlbench import decoding
from xlbench.data import features

PAD, EOS = 1, 2
MBART_25 = features.Conventions(
    pad_id=PAD, eos_id=EOS, decoder_start_id=EOS, vocab_size=61, language_last=True
)


def golden(name):
    stored = np.load(references.GOLDENS / 'bart_variants.npz')
    return {k.removeprefix(f'{name}/'): stored[k] for k in stored if k.startswith(f'{name}/')}


def records(expected):
    """The examples as they are prepared: the language first."""
    return [
        {
            name: np.roll(row[row != PAD], 1).astype(np.int32)
            for name, row in (('inputs', inputs), ('targets', targets))
        }
        for inputs, targets in zip(expected['inputs'], expected['targets'], strict=True)
    ]


@pytest.fixture(scope='module')
def mbart_25():
    known = references.of('mbart')
    return golden('mbart25'), known.model, {'params': known.params}


def test_mbart_25_equals_transformers(mbart_25):
    expected, model, variables = mbart_25
    layout = features.Layout({'inputs': 40, 'targets': 20}, MBART_25)
    batch = features.generation(records(expected), layout)
    np.testing.assert_array_equal(batch['encoder_input_tokens'], expected['inputs'])
    np.testing.assert_array_equal(batch['decoder_target_tokens'], expected['targets'])
    arguments = [
        batch[name]
        for name in ('encoder_input_tokens', 'decoder_input_tokens', 'encoder_segment_ids')
    ]
    logits = jax.jit(model.apply)(variables, *arguments)
    weights = batch['decoder_loss_weights']
    shown = weights[:, ::3] > 0  # What is fed behind a text differs, and counts in neither.
    ours = np.asarray(logits)[:, ::3][shown]
    np.testing.assert_allclose(ours, expected['logits'][shown], atol=1e-4, rtol=0)
    log_probs = jax.nn.log_softmax(logits)
    picked = np.take_along_axis(log_probs, batch['decoder_target_tokens'][..., None], -1)[..., 0]
    np.testing.assert_allclose(
        -(picked * weights).sum() / weights.sum(), expected['loss'], rtol=1e-5
    )


def test_packing_keeps_the_languages_of_mbart_25(mbart_25):
    rows = records(mbart_25[0])
    layout = features.Layout({'inputs': 70, 'targets': 40}, MBART_25)
    batch = features.generation([rows[1:], rows[:1]], layout)
    fed, written = batch['decoder_input_tokens'][0], batch['decoder_target_tokens'][0]
    first, second = (row['targets'] for row in rows[1:])
    assert fed[: len(first) + len(second)].tolist() == [*first, *second]
    assert written[: len(first)].tolist() == [*first[1:], first[0]]


@pytest.mark.parametrize('method', ['greedy', 'beam'])
def test_mbart_25_decodes_from_the_language_as_transformers(mbart_25, method):
    expected, model, variables = mbart_25
    batch = features.generation(
        records(expected), features.Layout({'inputs': 40, 'targets': 20}, MBART_25)
    )
    start, first = MBART_25.begin(np.array([57, 58, 59], np.int32), 'generation')
    assert first is None
    more = {'num_beams': 3} if method == 'beam' else {}
    decode = functools.partial(
        decoding.decode, model, options=decoding.Options(method=method, max_length=16, **more),
        start_id=start, eos_id=EOS, pad_id=PAD,
    )  # fmt: skip
    batch = {name: array for name, array in batch.items() if name.startswith('encoder_')}
    decoded = jax.jit(decode)(variables['params'], batch)
    length = expected[method].shape[1]
    np.testing.assert_array_equal(decoded.tokens[:, 0, :length], expected[method])
    assert (decoded.tokens[:, 0, length:] == PAD).all()


def test_unicoder_equals_a_bart_of_scaled_tokens_in_transformers():
    known = references.of('bart')
    model = known.like(scaled_embeddings=True)
    logits = jax.jit(model.apply)(
        {'params': known.params}, known.inputs, known.decoder_inputs, known.segments
    )
    np.testing.assert_allclose(logits[:, ::3], golden('unicoder')['logits'], atol=1e-4, rtol=0)
