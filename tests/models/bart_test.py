"""BART and its relatives: names in transformers, mBART-25, Unicoder-xDAE, Marian's recurrence."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references

from xlbench import models
from xlbench.data import features
from xlbench.huggingface import generators, mapping
from xlbench.models import bart, masks
from xlbench.system import errors

FAMILIES = ('bart', 'mbart', 'pegasus', 'marian')
IDS = dict(pad_id=1, bos_id=0, eos_id=2, decoder_start_id=2, forced_bos_id=59, forced_eos_id=2)


def test_names_of_headless_checkpoints_get_their_first_word():
    rename = mapping.KINDS['bart'].rename
    assert rename('encoder.layers.0.fc1.weight') == 'model.encoder.layers.0.fc1.weight'
    assert rename('shared.weight') == 'model.shared.weight'
    for name in ('model.decoder.embed_tokens.weight', 'lm_head.weight', 'final_logits_bias'):
        assert rename(name) == name


@pytest.mark.parametrize('family', FAMILIES)
def test_config_survives_the_round_trip(family):
    for size in models.SIZES[family]:
        config = models.config(family, size)
        written = generators.to_config(family, config, IDS)
        assert written['model_type'] == family and written['forced_bos_token_id'] == 59
        back = generators.from_config(written)
        assert back.pop('family') == family
        assert models.config(family, **back) == config


@pytest.mark.parametrize(
    'change, message',
    [
        ({'decoder_attention_heads': 2}, 'decoder_attention_heads is 2; supported: 4, as encoder_'),
        ({'decoder_ffn_dim': 64}, 'decoder_ffn_dim is 64; supported: 256, as encoder_ffn_dim is'),
        ({'share_encoder_decoder_embeddings': False}, 'embeddings is False; supported: True'),
        ({'decoder_vocab_size': 7}, 'decoder_vocab_size is 7; supported: 58101, as vocab_size is'),
        ({'tie_word_embeddings': False}, 'tie_word_embeddings is False; supported: True'),
        ({'activation_function': 'mish'}, "is 'mish'; supported: relu, gelu, gelu_new, gelu_py"),
        ({'encoder_layerdrop': 0.1}, 'encoder_layerdrop is 0.1; supported: 0.0'),
        ({'d_model': 130}, 'd_model is 130; supported: multiples of encoder_attention_heads, 4'),
        ({'d_model': None}, "config.json lacks 'd_model', which models of type marian need"),
    ],
)
def test_unsupported_configs_are_named(change, message):
    config = generators.to_config('marian', models.config('marian', 'sample'), IDS)
    with pytest.raises(errors.UserError) as error:
        generators.from_config(config | change)
    assert message in str(error.value)


def test_what_old_configs_leave_out_is_filled_in():
    config = generators.to_config('bart', models.config('bart', 'base'), IDS)
    for key in ('scale_embedding', 'init_std', 'dropout', 'tie_word_embeddings'):
        del config[key]
    built = models.build(**generators.from_config(config | {'normalize_before': False}))
    assert built.config == models.config('bart', 'base')


def test_models_that_transformers_lacks_are_not_written():
    for field, value in {'pre_norm': True, 'head_dim': 16}.items():
        with pytest.raises(errors.UserError, match=f'a bart model with {field}={value} cannot be'):
            generators.to_config('bart', models.config('bart', 'sample', **{field: value}), IDS)


# ------------------------------- mBART-25, whose language stands behind the text, and Unicoder-xDAE

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
    ids = dict(start_id=start, eos_id=EOS, pad_id=PAD)
    decode = references.decoder(model, **ids, method=method, max_length=16, **more)
    batch = {name: array for name, array in batch.items() if name.startswith('encoder_')}
    decoded = decode(variables['params'], batch)
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


# ---------------------------------------- Marian's recurrence in place of attention within the text

TINY = dict(emb_dim=32, num_heads=4, head_dim=8, mlp_dim=40, vocab_size=61, dropout_rate=0.0)


def test_it_equals_the_formula_position_by_position():
    ssru = bart.Ssru(models.config('marian_ssru', 'sample', emb_dim=8))
    x = np.random.default_rng(0).normal(size=(2, 7, 8)).astype(np.float32)
    segments = np.array([[1, 1, 1, 2, 2, 2, 2], [1, 2, 2, 2, 2, 3, 3]])
    segments = jnp.asarray(segments)
    mask = masks.MaskSpec(segments, segments, causal=True).array(7)
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
    batch = references.as_batch(inputs, 0) | {'encoder_segment_ids': segments}
    options = dict(method='beam', num_beams=4, num_return=4, max_length=7, length_penalty=0.0)
    decode = references.decoder(model, start_id=0, eos_id=0, pad_id=0, **options)
    found = decode(variables['params'], batch)
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
