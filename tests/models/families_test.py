"""Families beside those with files of their own: equal to transformers, see make_families.py."""

import json

import jax
import named_weights
import numpy as np
import pytest
import references
import safetensors.numpy
from nightly import by_day, nightly

from xlbench import models
from xlbench.data import features
from xlbench.huggingface import checkpoint

NAMES = [path.stem.removeprefix('family_') for path in references.GOLDENS.glob('family_*.npz')]
QUICK = ('gemma3', 'llama', 'm2m_100', 'umt5')  # One of each kind of layers.
FORCED = {'m2m_100': 57}


def golden(name):
    return references.stored(f'family_{name}')[0]


def weights(name):
    return references.stored(f'family_{name}')[1]


@pytest.fixture(scope='module', params=sorted(NAMES))
def opened(request, tmp_path_factory):
    """(name, the checkpoint as transformers writes it, the model, its parameters)."""
    folder = tmp_path_factory.mktemp('families')
    (folder / 'config.json').write_text(str(golden(request.param)['config']))
    safetensors.numpy.save_file(weights(request.param), folder / 'model.safetensors')
    found = checkpoint.open(str(folder))
    off = {f: 0.0 for f in ('dropout_rate', 'attention_dropout_rate') if f in found.model}
    return request.param, found, models.build(**found.model | off), load(found)


def load(found):
    return jax.tree.map(np.asarray, checkpoint.load_params(found))


def batch(name, model):
    """The inputs as decoders take them."""
    pad = json.loads(str(golden(name)['config']))['pad_token_id']
    inputs = golden(name)['inputs'].astype(np.int32)
    if not model.decoder_only:
        return references.as_batch(inputs, pad)
    conventions = features.Conventions(pad, 1, pad, 61)
    rows = [[{'inputs': row[row != pad], 'targets': np.array([1], np.int32)}] for row in inputs]
    sizes = {'inputs': inputs.shape[1], 'targets': 12}
    return features.language_model(rows, features.Layout(sizes, conventions))


def test_logits_equal_transformers(opened):
    name, _, model, params = opened
    expected = golden(name)['logits']
    inputs = golden(name)['inputs'][: len(expected)].astype(np.int32)
    segments = (inputs != json.loads(str(golden(name)['config']))['pad_token_id']).astype(np.int32)
    if 'greedy' not in golden(name):  # A head over an encoder.
        found = jax.jit(lambda p: model.apply({'params': p}, inputs, segments))(params)
    elif model.decoder_only:
        both = lambda m, *x: m.logits(m.states(*x))  # noqa: E731
        found = jax.jit(lambda p: model.apply({'params': p}, inputs, segments, method=both))(params)
        found = np.where(segments[..., None] > 0, found, 0)
    else:
        targets = golden(name)['targets'].astype(np.int32)
        found = jax.jit(lambda p: model.apply({'params': p}, inputs, targets, segments))(params)
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    print(f'{name}: {difference:.1e}')
    assert difference < 1e-5


@pytest.mark.parametrize('case', ['beam5', *nightly('greedy')])
@pytest.mark.parametrize('opened', by_day(QUICK, sorted(NAMES)), indirect=True)
def test_texts_equal_transformers(opened, case):
    name, _, model, params = opened
    if case not in golden(name):
        pytest.skip('writes no texts')
    config = json.loads(str(golden(name)['config']))
    pad, end = config['pad_token_id'], config['eos_token_id']
    method = dict(method='greedy') if case == 'greedy' else dict(method='beam', num_beams=5)
    forced = np.full(20, FORCED[name], np.int32) if name in FORCED else None
    start = config.get('decoder_start_token_id') or pad
    ids = dict(start_id=start, eos_id=end, pad_id=pad, forced_first=forced)
    decode = references.decoder(model, **ids, **method, max_length=12)
    behind = batch(name, model)
    for each in (behind, references.padded_left(behind))[: 1 + model.decoder_only]:
        found = decode(params, each)
        np.testing.assert_array_equal(found.tokens[:, 0], golden(name)[case])
        if case == 'beam5':
            np.testing.assert_allclose(found.scores[:, 0], golden(name)['scores'], atol=1e-4)


def test_round_trip_is_bit_exact(opened, tmp_path):
    name, found, _, params = opened
    before = json.loads(str(golden(name)['config']))
    ids = {ours: before.get(f'{key}_token_id', 0) for ours, key in (
        ('pad_id', 'pad'), ('eos_id', 'eos'), ('bos_id', 'bos'),
        ('decoder_start_id', 'decoder_start'),
    )}  # fmt: skip
    config = models.config(**found.model)
    checkpoint.save(tmp_path / 'two', found.family, config, params, ids, ())
    after = safetensors.numpy.load_file(tmp_path / 'two' / 'model.safetensors')
    entries = checkpoint.names(found.family, config)
    stored = named_weights.from_params(entries, named_weights.to_params(entries, weights(name)))
    assert after.keys() == stored.keys() and not weights(name).keys() - {
        *stored, *(tied for entry in entries.values() for tied in entry.tied)
    }  # fmt: skip
    for key, value in after.items():
        np.testing.assert_array_equal(value, weights(name)[key])
    written = json.loads((tmp_path / 'two' / 'config.json').read_text())
    assert models.config(**checkpoint.open(str(tmp_path / 'two')).model) == config
    assert {k: v for k, v in written.items() if k in before and v is not None} == {
        k: v for k, v in before.items() if k in written and written[k] is not None
    }
