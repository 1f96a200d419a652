"""XLM: an encoder of BERT's kind under other names, with a table of languages."""

import json

import jax
import numpy as np
import pytest
import references
import safetensors.numpy

from xlbench import models
from xlbench.data import features, prepared
from xlbench.huggingface import bert as bert_names, checkpoint
from xlbench.system import errors
from xlbench.training.objectives import classification

CONFIG = dict(
    model_type='xlm', n_words=61, emb_dim=24, n_layers=2, n_heads=4, n_langs=3,
    max_position_embeddings=40, dropout=0.0, attention_dropout=0.0,
)  # fmt: skip
IDS = dict(pad_id=2, bos_id=0, eos_id=1, decoder_start_id=0)


VALUES, WEIGHTS, _ = references.stored('xlm')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A checkpoint as the public ones are: of a masked-language model."""
    folder = tmp_path_factory.mktemp('xlm')
    weights = {f'transformer.{name}': value for name, value in WEIGHTS.items()}
    weights['pred_layer.proj.bias'] = np.zeros(61, np.float32)
    safetensors.numpy.save_file(weights, folder / 'model.safetensors')
    (folder / 'config.json').write_text(json.dumps(CONFIG))
    return folder


def test_states_equal_transformers_with_languages_and_without(folder):
    opened = checkpoint.open(str(folder))
    model, params = models.build(**opened.model), checkpoint.load_params(opened)
    assert (opened.family, model.config.num_languages, model.config.type_vocab_size) == (
        'bert', 3, 0
    )  # fmt: skip
    segments = (VALUES['inputs'] != 2).astype(np.int32)
    real = segments[:, ::3, None]
    run = jax.jit(model.apply)
    for languages, expected in (
        (None, VALUES['states']),
        (VALUES['languages'], VALUES['states_of_languages']),
    ):
        states = run({'params': params}, VALUES['inputs'], segments, languages=languages)
        np.testing.assert_allclose(states[:, ::3] * real, expected * real, atol=1e-4, rtol=0)


def test_the_folder_is_written_as_it_was_read(folder, tmp_path):
    opened = checkpoint.open(str(folder))
    model, params = models.build(**opened.model), checkpoint.load_params(opened)
    checkpoint.save(tmp_path / 'again', 'bert', model.config, params, IDS, ())
    again = checkpoint.open(str(tmp_path / 'again'))
    assert again.model == opened.model
    assert (again.config['model_type'], again.config['pad_token_id']) == ('xlm', 2)
    tensors = safetensors.numpy.load_file(tmp_path / 'again' / 'model.safetensors')
    assert tensors.keys() == WEIGHTS.keys()
    for name, value in WEIGHTS.items():
        np.testing.assert_array_equal(tensors[name], value)


def test_batches_say_the_languages_of_an_xlm():
    known = features.Conventions(
        pad_id=2, eos_id=1, decoder_start_id=0, vocab_size=61, has_languages=True
    )
    rows = [{'inputs': np.array([0, 5, 1]), 'targets': np.array([7, 1])} for _ in range(3)]
    places = [prepared.language_places({'en': 4, 'de': 0}, 'en', lang) for lang in ('de', 'fr')]
    for row, languages in zip(rows, places, strict=False):
        row['languages'] = languages
    layout = features.Layout({'inputs': 7, 'targets': 4}, known)
    assert [row.tolist() for row in places] == [[5, 1], [5, 0]]
    batch = features.generation([rows[:2], rows[2:]], layout)
    assert batch['encoder_language_ids'].tolist() == [[5] * 6 + [0], [0] * 7]
    assert batch['decoder_language_ids'].tolist() == [[1, 1, 0, 0], [0] * 4]
    labelled = [rows[0] | {'targets': [1], 'piece_counts': np.array([1], np.int32)}]
    batch = features.classification(labelled, layout)
    assert batch['encoder_language_ids'].tolist() == [[5] * 3 + [0] * 4]
    model = models.build('sequence_classifier', 'sample', num_labels=2, num_languages=5)
    told = classification.about_tokens(model, batch)
    assert told['languages'].tolist() == [[4] * 3 + [-1] * 4]


def test_decoding_step_by_step_keeps_the_language():
    sizes = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, vocab_size=61, num_layers=1)
    model = models.build(
        'encoder_decoder', 'sample', **sizes, type_vocab_size=0, num_languages=3, dropout_rate=0.0
    )
    rng = np.random.default_rng(0)
    tokens, targets = rng.integers(3, 61, (2, 5)), rng.integers(3, 61, (2, 4))
    params = {'params': references.drawn(model, tokens, targets, scale=1.0)}
    run = jax.jit(model.apply, static_argnames=('max_length', 'beams', 'method'))
    source, languages = np.full((2, 5), 2), np.array([[1] * 4, [3] * 4])

    def full(**told):
        return np.asarray(run(params, tokens, targets, **told))

    logits = full(encoder_language_ids=source, decoder_language_ids=languages)
    for other in ({}, {'encoder_language_ids': source}, {'decoder_language_ids': languages}):
        assert np.abs(full(**other) - logits).max() > 1e-3
    none = np.zeros_like(source), np.zeros_like(languages)  # Languages that are not known.
    told = dict(zip(('encoder_language_ids', 'decoder_language_ids'), none, strict=True))
    np.testing.assert_allclose(full(**told), full(), atol=1e-6)
    encoded = run(params, tokens, encoder_language_ids=source, method='encode')
    known = dict(max_length=4, beams=2, decoder_language_ids=languages[:, :1])
    cache = run(params, encoded, None, **known, method='init_cache')
    for place in range(4):
        step = np.repeat(targets[:, place], 2)  # Two beams.
        out, cache = run(params, cache, step, method='decode_step')
        np.testing.assert_allclose(out, np.repeat(logits[:, place], 2, 0), atol=1e-5)


@pytest.mark.parametrize(
    'change, message',
    [
        ({'gelu_activation': False}, 'gelu_activation is False; supported: True'),
        ({'causal': True}, 'causal is True; supported: False'),
        ({'emb_dim': None}, "lacks 'emb_dim', which models of type xlm need"),
        ({'n_heads': 5}, 'emb_dim is 24; supported: multiples of n_heads, 5'),
    ],
)
def test_other_forms_are_named(change, message):
    with pytest.raises(errors.UserError, match=message):
        bert_names.from_config(CONFIG | change)


def test_models_without_a_table_of_languages():
    assert bert_names.from_config(CONFIG | {'use_lang_emb': False})['num_languages'] == 0
    assert bert_names.from_config(CONFIG | {'n_langs': 1})['num_languages'] == 0
    config = models.config('bert', 'xlm_100')
    assert (config.num_languages, config.emb_dim, config.num_layers) == (0, 1280, 16)
