"""Two public encoders compute what PyTorch computes; goldens/make_public_encoders.py wrote it."""

import os
import pathlib

import jax
import numpy as np
import pytest

from xlbench import models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint, sentence_files

GOLDEN = pathlib.Path(__file__).parents[1] / 'goldens' / 'public_encoders.npz'


@pytest.fixture(params=['all-minilm-l6-v2', 'multilingual-e5-small-q4'])
def folder(request):
    folder = pathlib.Path(os.environ.get('XLBENCH_DEV_MODELS', ''), request.param)
    if 'XLBENCH_DEV_MODELS' not in os.environ or not folder.is_dir():
        pytest.skip(f'XLBENCH_DEV_MODELS names no folder with {request.param}')
    return folder


def split(golden, name):
    ends = np.cumsum(golden[f'{name}_lengths'])
    return [part.tolist() for part in np.split(golden[name], ends[:-1])]


def test_ids_states_and_vectors_equal_pytorch(folder):
    stored = np.load(GOLDEN)
    sentences, pairs = stored['sentences'].tolist(), stored['pairs'].tolist()
    golden = {
        key.partition('/')[2]: stored[key] for key in stored if key.startswith(folder.name)
    }
    tokenizer = tokenizers.load(str(folder), '')
    ids = [row.tolist() for row in tokenizer.encode_inputs(sentences)]
    assert ids == split(golden, 'ids')
    joined = [tokenizer.join_texts(tokenizer.encode_batch(pair)).tolist() for pair in pairs]
    assert joined == split(golden, 'pair_ids')
    opened = checkpoint.open(str(folder))
    model, params = models.build(**opened.model), checkpoint.load_params(opened)
    tokens = np.full((len(ids), max(map(len, ids))), tokenizer.pad_id, np.int32)
    for row, values in zip(tokens, ids, strict=True):
        row[: len(values)] = values
    lengths = golden['ids_lengths']
    segments = (np.arange(tokens.shape[1]) < lengths[:, None]).astype(np.int32)
    states = jax.jit(model.apply)({'params': params}, tokens, segments)
    means = (states * segments[..., None]).sum(1) / lengths[:, None]
    np.testing.assert_allclose(means, golden['means'], atol=1e-4, rtol=0)
    lasts = states[np.arange(len(ids)), lengths - 1]
    np.testing.assert_allclose(lasts, golden['lasts'], atol=1e-4, rtol=0)
    assert opened.model['has_pooler'] == ('pooled' in golden)
    if 'pooled' in golden:
        pooled = model.apply({'params': params}, states, method='pool')
        np.testing.assert_allclose(pooled, golden['pooled'], atol=1e-4, rtol=0)
    sentences = sentence_files.read(folder)
    assert (sentences.pooling, sentences.normalize) == ('mean', True)
