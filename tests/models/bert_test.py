import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import named_weights
import numpy as np
import pytest
import references
import safetensors.numpy
from nightly import by_day

from xlbench import models
from xlbench.huggingface import bert as bert_names, checkpoint
from xlbench.system import errors

ENCODERS = ('bert', 'roberta', 'xlm_roberta')
HEADS = {'sequence': 'sequence_classifier', 'token': 'token_classifier'}
HEADED = [(name, head) for head in HEADS for name in ENCODERS]
ROBERTA = dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5)
IDS = dict(pad_id=0, bos_id=2, eos_id=3, decoder_start_id=2)


@functools.cache
def tiny(name, family='bert', **overrides):
    """The models of tools/goldens/make_bert.py."""
    fields = dict(vocab_size=61, emb_dim=24, num_heads=4, head_dim=6, mlp_dim=40, max_positions=40)
    fields |= {} if name == 'bert' else ROBERTA
    rates = dict(dropout_rate=0.0, attention_dropout_rate=0.0)
    return models.build(family, 'sample', **{**fields, **rates, **overrides})


class Golden:
    """What transformers makes of a tiny random encoder; see tools/goldens/make_bert.py."""

    def __init__(self, name):
        self.name = name
        self.stored, self.weights, self.gradients = references.stored(name)
        self.inputs = self.stored['inputs']
        self.pad = 0 if name == 'bert' else 1
        self.segments = (self.inputs != self.pad).astype(np.int32)

    def part(self, prefix):
        return {
            key.removeprefix(prefix): value.astype(np.float32)
            for key, value in self.stored.items()
            if key.startswith(prefix)
        }

    def head(self, head):
        """Model, names and parameters of the encoder with a head."""
        prefix = 'roberta.' if self.pad else 'bert.'
        pooled = head == 'sequence' and not self.pad
        model = tiny(self.name, HEADS[head], num_labels=3, has_pooler=pooled)
        weights = {prefix + key: value for key, value in self.weights.items()}
        names = checkpoint.names(HEADS[head], model.config)
        return model, names, named_weights.to_params(names, weights | self.part(f'{head}/'))

    def head_loss(self, model, head, params):
        """Mean cross-entropy, and the logits."""
        logits = model.apply(
            {'params': params}, self.inputs, self.segments, None, self.stored['types']
        )
        labels = self.stored[f'{head}_labels']
        each = jnp.take_along_axis(
            jax.nn.log_softmax(logits), np.maximum(labels, 0)[..., None], axis=-1
        )
        return -jnp.sum(each[..., 0] * (labels >= 0)) / (labels >= 0).sum(), logits


@functools.cache
def golden(name):
    return Golden(name)


@pytest.mark.parametrize('name', ENCODERS)
def test_states_and_pooled_output_equal_transformers(name):
    g, model = golden(name), tiny(name)
    params = named_weights.to_params(checkpoint.names('bert', model.config), g.weights)
    states = jax.jit(model.apply)({'params': params}, g.inputs, g.segments, None, g.stored['types'])
    real = g.segments[:, ::3, None]
    np.testing.assert_allclose(states[:, ::3] * real, g.stored['states'] * real, atol=1e-4, rtol=0)
    pooled = model.apply({'params': params}, states, method='pool')
    np.testing.assert_allclose(pooled, g.stored['pooled'], atol=1e-4, rtol=0)


@pytest.mark.parametrize('has_pooler', [True, False])
def test_a_folder_of_roberta_gives_the_states_of_transformers(tmp_path, has_pooler):
    """As its classes write it, with and without the pooler, of which config.json says nothing."""
    g = golden('roberta')
    weights = {n: value for n, value in g.weights.items() if has_pooler or 'pooler' not in n}
    safetensors.numpy.save_file(weights, tmp_path / 'model.safetensors')
    content = published(
        vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=40, max_position_embeddings=42, type_vocab_size=1, layer_norm_eps=1e-5,
        pad_token_id=1, model_type='roberta',
        architectures=['RobertaModel' if has_pooler else 'RobertaForMaskedLM'],
    )  # fmt: skip
    (tmp_path / 'config.json').write_text(json.dumps(content))
    found = checkpoint.open(str(tmp_path))
    assert (found.family, found.model['has_pooler']) == ('bert', has_pooler)
    model, params = models.build(**found.model), checkpoint.load_params(found)
    states = model.apply({'params': params}, g.inputs, g.segments, None, g.stored['types'])
    real = g.segments[:, ::3, None]
    np.testing.assert_allclose(states[:, ::3] * real, g.stored['states'] * real, atol=1e-4, rtol=0)
    # Written again under its own name, by which transformers chooses a vocabulary of bytes.
    for ids, kind in ((IDS | {'model_type': 'roberta'}, 'Roberta'), (IDS, 'XLMRoberta')):
        again = bert_names.to_config('bert', model.config, ids)
        assert again['architectures'] == [f'{kind}Model']
        assert again['model_type'] == {'Roberta': 'roberta'}.get(kind, 'xlm-roberta')
        again = bert_names.from_config(again) | {'has_pooler': has_pooler}
        assert again == found.model | {'dropout_rate': 0.1, 'attention_dropout_rate': 0.1}


@pytest.mark.parametrize('name, head', by_day(HEADED[:4], HEADED))
def test_heads_equal_transformers(name, head):
    g = golden(name)
    model, names, params = g.head(head)
    loss = functools.partial(g.head_loss, model, head)
    (value, logits), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    assert logits.dtype == jnp.float32
    real = 1 if head == 'sequence' else g.segments[..., None]
    expected = g.stored[f'{head}_logits']
    np.testing.assert_allclose(logits * real, expected * real, atol=1e-4, rtol=0)
    np.testing.assert_allclose(value, g.stored[f'{head}_loss'], rtol=1e-4)
    expected = {
        key.removeprefix(f'{head}/'): value
        for key, value in g.gradients.items()
        if key.startswith(f'{head}/')
    }
    assert len(expected) >= 9
    gradients = named_weights.from_params(names, gradients)
    for key, value in expected.items():
        np.testing.assert_allclose(gradients[key], value, atol=1e-4, rtol=1e-4, err_msg=key)


@pytest.mark.parametrize(
    'head, rates',
    [
        ('sequence', {'dropout_rate': 0.5}),
        ('sequence', {'classifier_dropout_rate': 0.5}),
        ('token', {'attention_dropout_rate': 0.5, 'shared_dropout': False}),
    ],
)
def test_dropout_draws_with_the_key_and_only_in_training(head, rates):
    g = golden('bert')
    model, _, params = g.head(head)
    model = model.clone(config=dataclasses.replace(model.config, num_layers=1))
    config = dataclasses.replace(model.config, **{'classifier_dropout_rate': 0.0, **rates})
    apply = jax.jit(model.clone(config=config).apply, static_argnames='train')
    draw = lambda n, train: apply(  # noqa: E731
        {'params': params}, g.inputs, train=train, rngs={'dropout': jax.random.key(n)}
    )
    exact = jax.jit(model.apply)({'params': params}, g.inputs)
    np.testing.assert_allclose(draw(1, False), exact, atol=1e-5)
    one, same, other = (draw(n, True) for n in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other) and not np.allclose(one, exact)


# ------------------------------------------------------------------------------------ dual encoders


@functools.cache
def dual(**fields):
    """A model and random parameters, biases and norms among them."""
    model = tiny('bert', 'dual_encoder', **fields)
    tokens = jnp.ones((1, 3), jnp.int32)
    return model, references.drawn(model, tokens, tokens)


@pytest.mark.parametrize(
    'fields',
    [
        dict(shared=True, pooling='mean', normalize=False),
        dict(shared=False, pooling='pooler', normalize=True),
        dict(shared=False, pooling='first', projection_dim=7, normalize=True),
        dict(shared=True, pooling='mean', projection_dim=7, normalize=False, has_pooler=False),
    ],
)
def test_vectors_of_a_dual_encoder(fields):
    model, params = dual(**fields, num_layers=1)
    g, pooling = golden('bert'), fields['pooling']
    sides = ('left', 'left' if fields['shared'] else 'right')
    assert {name.split('_')[0] for name in params} == set(sides)
    vectors = jax.jit(model.apply)({'params': params}, g.inputs, g.inputs, g.segments, g.segments)
    encoder = tiny('bert', has_pooler=fields.get('has_pooler', True), num_layers=1)
    run = jax.jit(encoder.apply)
    for side, vector in zip(sides, vectors, strict=True):
        assert vector.dtype == jnp.float32
        states = run({'params': params[side]}, g.inputs, g.segments)
        if pooling == 'pooler':
            dense = params[side]['pooler']
            expected = np.tanh(states[:, 0] @ dense['kernel'].T + dense['bias'])
        elif pooling == 'first':
            expected = states[:, 0]
        else:
            lengths = g.segments.sum(1)
            expected = np.stack([x[:n].mean(0) for x, n in zip(states, lengths, strict=True)])
        if 'projection_dim' in fields:
            expected = expected @ params[f'{side}_projection']['kernel'].T
        if fields['normalize']:
            expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert fields['shared'] == np.array_equal(*vectors)


@pytest.mark.parametrize('pooling', ['mean', 'first', 'pooler'])
def test_padding_changes_no_vector(pooling):
    model, params = dual(shared=True, pooling=pooling, num_layers=1)
    encode = jax.jit(functools.partial(model.apply, {'params': params}, 'left', method='encode'))
    g = golden('bert')
    wide = np.pad(g.inputs, ((0, 2), (0, 6)), constant_values=9)
    segments = np.pad(g.segments, ((0, 2), (0, 6)))
    padded = encode(wide, segments)
    assert np.isfinite(padded).all()  # Rows of padding only, too.
    row, length = 2, g.segments[2].sum()
    alone = encode(g.inputs[row : row + 1, :length])
    np.testing.assert_allclose(padded[row], alone[0], atol=1e-5)


def test_a_dual_encoder_is_written_as_encoders():
    model, params = dual(shared=False, pooling='pooler', normalize=True)
    assert bert_names.folders(model.config) == {'left': 'left', 'right': 'right'}
    names = checkpoint.names('bert', model.config)
    for part in bert_names.folders(model.config):
        back = named_weights.to_params(names, named_weights.from_params(names, params[part]))
        jax.tree.map(np.testing.assert_array_equal, back, params[part])
    fields = bert_names.from_config(bert_names.to_config('bert', model.config, IDS))
    assert models.build(**fields).config == tiny('bert').config
    assert bert_names.folders(tiny('bert', 'dual_encoder').config) == {'left': ''}
    with pytest.raises(errors.UserError, match='projection_dim=7 cannot be written'):
        bert_names.folders(tiny('bert', 'dual_encoder', projection_dim=7).config)


# ---------------------------------------------------------------------- names, configs, parameters


@pytest.mark.parametrize('name', ENCODERS)
def test_huggingface_names_survive_the_round_trip(name):
    g = golden(name)
    names = checkpoint.names('bert', tiny(name).config)
    back = named_weights.from_params(names, named_weights.to_params(names, g.weights))
    assert back.keys() == g.weights.keys()
    for head in HEADS:
        _, names, params = g.head(head)
        back |= named_weights.from_params(names, params)
    base = 'roberta.' if g.pad else 'bert.'
    expected = g.weights | {base + key: value for key, value in g.weights.items()}
    for key, value in (expected | g.part('sequence/') | g.part('token/')).items():
        if key.startswith('roberta.pooler'):  # Only in the bare encoder.
            assert key not in back
        elif key in g.part('token/') and key in g.part('sequence/'):
            np.testing.assert_array_equal(back[key], g.part('token/')[key])
        else:
            np.testing.assert_array_equal(back[key], value)


@pytest.mark.parametrize('name', ['bert2bert', 'xlmr2xlmr'])
def test_halves_and_head_are_initialised_from_a_masked_language_model(name):
    # Its tensors: an encoder's, with the head beside it.
    known = references.of(name)
    config, params = known.model.config, known.params
    tensors = {bert_names.rename(k.removeprefix('decoder.')): v for k, v in known.weights.items()}
    names = checkpoint.names('bert', dataclasses.replace(config, has_pooler=False))
    encoder = named_weights.to_params(names, tensors)
    head = named_weights.to_params(bert_names.lm_head_names(config), tensors)
    jax.tree.map(np.testing.assert_array_equal, head, {'lm_head': params['lm_head']})
    layers = {key: dict(value) for key, value in params['decoder'].items()}
    fresh = [layers[f'layers_{i}'].pop('cross_attention') for i in range(2)]
    fresh += [layers[f'layers_{i}'].pop('cross_attention_norm') for i in range(2)]
    assert len(fresh) == 4  # All else in the decoder is the encoder's, under another prefix.
    jax.tree.map(np.testing.assert_array_equal, encoder, layers)


@pytest.mark.parametrize(
    'old, new',
    [
        ('bert.embeddings.LayerNorm.gamma', 'embeddings.LayerNorm.weight'),
        ('roberta.encoder.layer.1.output.LayerNorm.beta', 'encoder.layer.1.output.LayerNorm.bias'),
        ('encoder.layer.0.intermediate.dense.bias', 'encoder.layer.0.intermediate.dense.bias'),
        ('decoder.bert.embeddings.LayerNorm.weight', 'decoder.bert.embeddings.LayerNorm.weight'),
        ('cls.predictions.transform.LayerNorm.beta', 'cls.predictions.transform.LayerNorm.bias'),
    ],
)
def test_old_spellings_of_names(old, new):
    assert bert_names.rename(old) == new == bert_names.rename(new)


@pytest.mark.parametrize('name', ENCODERS)
@pytest.mark.parametrize('family', ['bert', *HEADS.values(), 'encoder_decoder'])
def test_configs_survive_the_round_trip(name, family):
    more = {'has_pooler': True} if family == 'encoder_decoder' else {}
    if family in HEADS.values():
        pooled = family == 'sequence_classifier' and name == 'bert'
        more = dict(num_labels=5, classifier_dropout_rate=0.25, has_pooler=pooled)
    config = tiny(name, family, **more).config
    content = bert_names.to_config(family, config, IDS)
    assert content['model_type'] in models.MODEL_TYPES
    fields = bert_names.from_config(content)
    assert fields['family'] == family
    assert models.build(**fields).config == config


def published(**changes):
    """The config.json of bert-base-uncased, as it has been since 2018 (the keys that count)."""
    return dict(
        architectures=['BertForPreTraining'], model_type='bert', attention_probs_dropout_prob=0.1,
        hidden_act='gelu', hidden_dropout_prob=0.1, hidden_size=768, intermediate_size=3072,
        max_position_embeddings=512, num_attention_heads=12, num_hidden_layers=12,
        type_vocab_size=2, vocab_size=30522,
    ) | changes  # fmt: skip


def halves(decoder):
    return {'model_type': 'encoder-decoder', 'encoder': published(), 'decoder': decoder}


def test_published_configs_are_our_sizes():
    fields = bert_names.from_config(published())
    assert models.build(**fields).config == models.config('bert', 'base')
    xlmr = dict(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1)
    xlmr |= dict(model_type='xlm-roberta', layer_norm_eps=1e-5, pad_token_id=1)
    roberta = xlmr | dict(model_type='roberta', vocab_size=50265)
    for content, kind, size in ((xlmr, 'XLMRoberta', 'xlmr'), (roberta, 'Roberta', 'roberta')):
        fields = bert_names.from_config(published(**content, architectures=[f'{kind}ForMaskedLM']))
        assert fields['has_pooler'] is False  # Until the tensors say otherwise.
        config = models.config('bert', f'{size}_base', has_pooler=False)
        assert models.build(**fields).config == config


@pytest.mark.parametrize(
    'content, message',
    [
        (published(hidden_act='relu'), "hidden_act is 'relu'; supported: 'gelu'"),
        (published(is_decoder=True), 'is_decoder is True; supported: False'),
        (published(hidden_size=None), "lacks 'hidden_size', which models of type bert need"),
        (halves({}), 'decoder.model_type is None; supported: bert, roberta, xlm-roberta'),
        (
            halves(published(num_hidden_layers=6)),
            'num_hidden_layers is 12 in the encoder and 6 in the decoder; supported: the same',
        ),
        (
            halves(published(tie_word_embeddings=False)),
            'decoder.tie_word_embeddings is False; supported: True',
        ),
    ],
)
def test_configs_that_are_not_supported(content, message):
    with pytest.raises(errors.UserError) as error:
        bert_names.from_config(content)
    assert message in str(error.value)
