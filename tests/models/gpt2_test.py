import functools

import jax
import jax.numpy as jnp
import named_weights
import numpy as np
import pytest
import references

from xlbench import models
from xlbench.data import features
from xlbench.decoding import loop
from xlbench.huggingface import checkpoint, generators
from xlbench.models import gpt2
from xlbench.system import errors
from xlbench.training import objectives

EOS = 60
TINY = dict(
    emb_dim=32, num_heads=4, head_dim=8, mlp_dim=40, num_layers=2, vocab_size=61, max_positions=48,
    dropout_rate=0.0, attention_dropout_rate=0.0,
)  # fmt: skip
MODEL = models.build('gpt2', 'sample', **TINY)
CONVENTIONS = features.Conventions(EOS, EOS, EOS, 61)
# The cases of tools/goldens/make_gpt2.py in our words.
CASES = {
    'greedy': dict(method='greedy'),
    'beams': dict(method='beam', num_beams=3, num_return=3),
    'eager': dict(
        method='beam', num_beams=4, num_return=2, early_stopping=True, length_penalty=0.6
    ),
}


VALUES, WEIGHTS, GRADIENTS = references.stored('gpt2')


@pytest.fixture(scope='module')
def params():
    return named_weights.to_params(checkpoint.names('gpt2', MODEL.config), WEIGHTS)


def examples():
    texts = zip((VALUES[f'text{row}'] for row in range(3)), VALUES['lengths'], strict=True)
    return [{'inputs': text[:prompt], 'targets': text[prompt:]} for text, (prompt, _) in texts]


def batch_of(rows, inputs=20, targets=14):
    lengths = {'inputs': inputs, 'targets': targets}
    return features.language_model(rows, features.Layout(lengths, CONVENTIONS))


def states_and_logits(params, tokens, segments):
    return MODEL.apply(
        {'params': params}, tokens, segments, method=lambda m, *x: m.logits(m.states(*x))
    )


def test_logits_equal_transformers_whatever_the_padding(params):
    run = jax.jit(states_and_logits)
    for row in range(3):
        text, expected = VALUES[f'text{row}'], VALUES[f'logits{row}']
        for before, after in ((0, 30 - len(text)), (30 - len(text), 0)):
            tokens = np.pad(text, (before, after), constant_values=7)[None]
            segments = np.pad(np.ones_like(text), (before, after))[None]
            logits = run(params, tokens, segments)[0, before : before + len(text)]
            np.testing.assert_allclose(logits, expected, atol=1e-4, rtol=0)
    logits = run(params, VALUES['text0'][None], None)
    np.testing.assert_allclose(logits[0], VALUES['logits0'], atol=1e-4, rtol=0)


def test_token_losses_and_gradients_equal_transformers_alone_and_packed(params):
    objective = objectives.build('language_model', loss_on='everything')
    alone, shorter = examples(), objectives.build('language_model')

    def total(params, batch):
        losses = [each.loss(MODEL, params, batch, None)['loss'] for each in (objective, shorter)]
        return losses[0], losses[1]

    run = jax.jit(jax.value_and_grad(total, has_aux=True))
    expected = sum(VALUES[f'losses{row}'].sum() for row in range(3))
    entries = checkpoint.names('gpt2', MODEL.config)
    for batch in (
        batch_of([[example] for example in alone]),
        # Two examples share a row.
        batch_of([[alone[1], alone[2]], [alone[0]], []], inputs=16, targets=18),
    ):
        (loss, other), gradients = run(params, batch)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
        gradients = named_weights.from_params(entries, jax.tree.map(np.array, gradients))
        for name, value in GRADIENTS.items():
            np.testing.assert_allclose(gradients[name], value, atol=1e-3, rtol=1e-4)
        assert objective.weight(batch) == sum(len(VALUES[f'losses{row}']) for row in range(3))
        targets = sum(VALUES[f'losses{row}'][n - 1 :].sum() for row, (n, _) in lengths())
        np.testing.assert_allclose(other, targets, rtol=1e-5)
    batch = references.padded_left(batch_of([[example] for example in alone]))
    nats = jax.jit(functools.partial(shorter.token_losses, MODEL))(params, batch)
    for row, (prompt, continuation) in lengths():
        expected = VALUES[f'losses{row}'][prompt - 1 :]
        np.testing.assert_allclose(nats[row, :continuation], expected, atol=1e-4)


def lengths():
    return list(enumerate(VALUES['lengths'].tolist()))


@pytest.mark.parametrize('case', CASES)
def test_decoding_equals_transformers(params, case, monkeypatch):
    batch = batch_of([[example] for example in examples()])
    if case == 'beams':  # The cache grows between tokens; that of the prompt is before it.
        monkeypatch.setattr(loop, 'WORTH_A_CACHE', 0)
    ids = dict(start_id=0, eos_id=EOS, pad_id=EOS)
    decode = references.decoder(MODEL, **ids, **CASES[case], max_length=20)
    expected = np.stack([VALUES[f'{case}{row}'] for row in range(3)])
    assert (expected == EOS).any()  # Some texts end.
    for each in (batch, references.padded_left(batch)):
        decoded = decode(params, each)
        np.testing.assert_array_equal(decoded.tokens, expected)
        if case != 'greedy':
            scores = np.stack([VALUES[f'{case}{row}/scores'] for row in range(3)])
            np.testing.assert_allclose(decoded.scores, scores, atol=1e-4)


def test_a_prompt_of_one_token_and_samples(params):
    """One token is no padding; a sample of an example is the same in any batch."""
    prompts = [{'inputs': np.array(ids), 'targets': np.array([EOS])} for ids in ([5], [5, 9, 4])]
    ids = dict(start_id=0, eos_id=EOS, pad_id=EOS)
    decode = references.decoder(MODEL, **ids, method='sample', num_return=2, max_length=6)
    together = decode(params, batch_of([[p] for p in prompts]) | {'example_index': np.arange(2)})
    alone = decode(params, batch_of([[prompts[0]]], inputs=2) | {'example_index': np.arange(1)})
    assert (together.tokens[0] != EOS).any()
    np.testing.assert_array_equal(together.tokens[:1], alone.tokens)


def test_features_of_texts_that_go_on():
    rows = [[{'inputs': [5, 6, 1], 'targets': [8, 1]}, {'inputs': [], 'targets': [9, 1]}], []]
    rows = [[{k: np.array(v, np.int32) for k, v in e.items()} for e in row] for row in rows]
    layout = features.Layout({'inputs': 3, 'targets': 4}, features.Conventions(0, 1, 2, 10))
    batch = features.language_model(rows, layout)
    assert batch['encoder_input_tokens'].tolist() == [[5, 6, 0], [0, 0, 0]]
    assert batch['prompt_target_tokens'].tolist() == [[6, 1, 0], [0, 0, 0]]
    assert batch['prompt_loss_weights'].tolist() == [[1, 1, 0], [0, 0, 0]]
    assert batch['decoder_input_tokens'].tolist() == [[1, 8, 2, 9], [0, 0, 0, 0]]
    assert batch['decoder_target_tokens'].tolist() == [[8, 1, 9, 1], [0, 0, 0, 0]]
    assert batch['decoder_segment_ids'].tolist() == [[1, 1, 2, 2], [0, 0, 0, 0]]


def test_fresh_residual_kernels_are_smaller():
    tokens = jnp.zeros((1, 4), jnp.int32)
    params = jax.jit(MODEL.init)(jax.random.key(0), tokens, tokens)['params']
    layer = jax.device_get(params['decoder']['layers_0'])
    for inner, outer in (('qkv', 'out'), ('wi', 'wo')):
        part = layer['attention' if inner == 'qkv' else 'mlp']
        ratio = part[outer]['kernel'].value.std() / part[inner]['kernel'].value.std()
        assert 0.4 < ratio < 0.6  # 1 / sqrt(2 * 2 layers)


def test_texts_beyond_the_positions_are_refused(params):
    tokens = np.zeros((1, 30), np.int32)
    with pytest.raises(errors.UserError, match='60 tokens does not fit a model with 48'):
        MODEL.apply({'params': params}, tokens, tokens)


def test_config_json_both_ways():
    ids = dict(pad_id=EOS, eos_id=EOS, bos_id=None)
    content = generators.to_config('gpt2', MODEL.config, ids)
    fields = generators.from_config(content)
    assert fields.pop('family') == 'gpt2'
    assert gpt2.Gpt2Config(**fields) == MODEL.config
    for change, message in (
        ({'scale_attn_by_inverse_layer_idx': True}, 'supported: False'),
        ({'embd_pdrop': 0.2}, 'supported: 0.2, as resid_pdrop|embd_pdrop is 0.2; supported: 0.0'),
        ({'n_head': 5}, 'n_embd is 32; supported: multiples of n_head, 5'),
        ({'activation_function': 'mish'}, 'activation_function is .*mish.*; supported: relu, gelu'),
        ({'n_layer': None}, "config.json lacks 'n_layer'"),
    ):
        with pytest.raises(errors.UserError, match=message):
            generators.from_config(content | change)
