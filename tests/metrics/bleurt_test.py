"""BLEURT: numbers of the same model in transformers, its files in both forms, broken files."""

import json
import pathlib
import zlib

import numpy as np
import pytest
import safetensors.numpy

from xlbench.metrics import suite as suite_lib
from xlbench.metrics.learned import Bleurt, regressor, tf_variables
from xlbench.system import errors

PAIRS = [
    ('A cat sat there.', 'The cat sat here.'),
    ('', 'What is this?'),
    ('a b c ' * 30, 'c b'),
    ('the end', ''),
]
# PyTorch and transformers' BertForSequenceClassification with gelu_pytorch_tanh and these weights.
OF_TRANSFORMERS = [-0.6813617, -0.6635914, -0.6853350, -0.6943659]


def weights(pieces, narrow=16, hidden=16, wide=24, layers=2, positions=48):
    """Of the published names, from the names themselves."""
    shapes = {
        'bert/embeddings/word_embeddings': (pieces, narrow),
        'bert/embeddings/position_embeddings': (positions, narrow),
        'bert/embeddings/token_type_embeddings': (2, narrow),
        'bert/pooler/dense/kernel': (hidden, hidden),
        'dense/kernel': (hidden, 1),
    }
    norms = {'bert/embeddings': narrow}
    if narrow != hidden:
        shapes['bert/encoder/embedding_hidden_mapping_in/kernel'] = (narrow, hidden)
    for i in range(layers):
        layer = f'bert/encoder/layer_{i}'
        for part in ('query', 'key', 'value'):
            shapes[f'{layer}/attention/self/{part}/kernel'] = (hidden, hidden)
        shapes[f'{layer}/attention/output/dense/kernel'] = (hidden, hidden)
        shapes[f'{layer}/intermediate/dense/kernel'] = (hidden, wide)
        shapes[f'{layer}/output/dense/kernel'] = (wide, hidden)
        norms |= {f'{layer}/attention/output': hidden, f'{layer}/output': hidden}
    for name, shape in list(shapes.items()):
        if name.endswith('/kernel'):
            shapes[name.replace('kernel', 'bias')] = shape[1:]
    for name, size in norms.items():
        shapes |= {f'{name}/LayerNorm/gamma': (size,), f'{name}/LayerNorm/beta': (size,)}
    drawn = {
        name: np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape) / 2
        for name, shape in shapes.items()
    }
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def to_port(params, prefix='bert.'):
    """As transformers names and turns them."""
    ported = {}
    for name, value in params.items():
        name = name.replace('LayerNorm/gamma', 'LayerNorm/weight').replace('/beta', '/bias')
        if name.startswith('dense/'):
            name = name.replace('dense/', 'classifier/')
        name = name.replace('layer_', 'layer.').replace('_embeddings', '_embeddings/weight')
        value = value.T if name.endswith('/kernel') else value
        name = name.replace('/kernel', '/weight').replace('/', '.')
        ported[name.replace('bert.', prefix, 1)] = np.ascontiguousarray(value)
    return ported


def write_vocabulary(folder):
    letters = 'abcdefghijklmnopqrstuvwxyz.,?!'
    words = ['the', 'cat', 'sat', 'end', 'what', '##ere', '##ing']
    pieces = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *letters, *words]
    pieces += [f'##{letter}' for letter in letters]
    folder.mkdir(exist_ok=True)
    (folder / 'vocab.txt').write_text('\n'.join(pieces) + '\n')
    settings = dict(tokenizer_class='BertTokenizer', do_lower_case=True)
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings))
    return len(pieces)


@pytest.fixture(scope='module')
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp('bleurt') / 'port'
    params = weights(write_vocabulary(folder))
    safetensors.numpy.save_file(to_port(params), folder / 'model.safetensors')
    config = dict(model_type='bert', num_attention_heads=2)
    (folder / 'config.json').write_text(json.dumps(config))
    return folder


def scores(folder, pairs=PAIRS):
    rows = Bleurt(str(folder)).per_example([r for r, _ in pairs], [c for _, c in pairs])
    return [row['bleurt'] for row in rows]


def test_equals_transformers(port):
    assert scores(port) == pytest.approx(OF_TRANSFORMERS, abs=1e-5)
    assert Bleurt(str(port))(['a'], ['b'])['bleurt'] == pytest.approx(scores(port, [('a', 'b')])[0])
    best = Bleurt(str(port)).per_example([['A cat sat there.', 'the end']], ['The cat sat here.'])
    both = scores(port, [('A cat sat there.', PAIRS[0][1]), ('the end', PAIRS[0][1])])
    assert best[0]['bleurt'] == pytest.approx(max(both), abs=1e-5)
    assert Bleurt(str(port)).signature.startswith('bleurt:port|equals:google-research/bleurt@')


def test_too_long_texts_lose_tokens_of_the_longer_one(port):
    model = regressor.Regressor(port)
    row, first = model._row(np.arange(100, 140), np.arange(200, 230))
    assert len(row) == 48 and first == 2 + 23 and row[-2] == 200 + 21


def test_published_checkpoints_are_read_without_tensorflow(port, tmp_path):
    tf = pytest.importorskip('tensorflow')
    folder = tmp_path / 'published'
    (folder / 'variables').mkdir(parents=True)
    params = weights(write_vocabulary(folder))
    stored = params | {'global_step': np.int64(7)}
    names = sorted(stored)
    prefix = str(folder / 'variables/variables')
    values = [tf.constant(stored[name]) for name in names]
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=[''] * len(names), tensors=values
    )
    (folder / 'tokenizer_config.json').unlink()
    (folder / 'bert_config.json').write_text(json.dumps(dict(num_attention_heads=2)))
    (folder / 'bleurt_config.json').write_text(json.dumps(dict(max_seq_length=48)))
    assert scores(folder) == pytest.approx(scores(port), abs=1e-6)

    index = pathlib.Path(f'{prefix}.index')
    whole = index.read_bytes()
    for place in range(0, len(whole), max(len(whole) // 60, 1)):
        for broken in (whole[:place], whole[:place] + b'\xff' + whole[place + 1 :]):
            index.write_bytes(broken)
            try:
                read = tf_variables.read(pathlib.Path(prefix))
            except errors.UserError as error:
                assert 'no whole TensorFlow checkpoint' in str(error)
            else:  # A checksum, a name or an unused field.
                assert len(read) >= len(params) - 2
    index.write_bytes(whole)
    next(index.parent.glob('*.data-*')).write_bytes(b'short')
    with pytest.raises(errors.UserError, match='no whole TensorFlow checkpoint'):
        regressor.Regressor(folder)


def test_narrow_embeddings_are_mapped(port, tmp_path):
    """Those of RemBERT, as a port to transformers has them."""
    params = weights(write_vocabulary(tmp_path), narrow=8)
    mapping = 'bert/encoder/embedding_hidden_mapping_in'
    params[f'{mapping}/kernel'] = np.eye(8, 16, dtype=np.float32)
    params[f'{mapping}/bias'] = np.zeros(16, np.float32)
    safetensors.numpy.save_file(to_port(params, 'bleurt.'), tmp_path / 'model.safetensors')
    config = dict(model_type='bleurt', num_attention_heads=4)
    (tmp_path / 'config.json').write_text(json.dumps(config))
    values = scores(tmp_path)
    assert np.isfinite(values).all() and len(set(values)) == len(values)


@pytest.mark.parametrize('harm', ['missing', 'shape', 'more', 'heads'])
def test_other_models_are_refused(tmp_path, harm):
    params = to_port(weights(write_vocabulary(tmp_path)))
    if harm == 'missing':
        del params['bert.encoder.layer.1.output.dense.weight']
    elif harm == 'shape':
        params['bert.pooler.dense.weight'] = np.zeros((3, 3), np.float32)
    elif harm == 'more':
        params['bert.encoder.layer.0.crossattention.self.key.weight'] = np.zeros((2, 2), np.float32)
    safetensors.numpy.save_file(params, tmp_path / 'model.safetensors')
    config = dict(model_type='bert', num_attention_heads=3 if harm == 'heads' else 2)
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(errors.UserError, match=r'not a checkpoint of BLEURT|3 heads cannot'):
        Bleurt(str(tmp_path))(['a'], ['b'])


def test_what_is_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    [line] = Bleurt(**suite_lib.named('bleurt', None)['kwargs']).missing()
    assert 'curl -LO https://storage.googleapis.com/bleurt-oss-21/BLEURT-20.zip && unzip' in line
    with pytest.raises(errors.UserError, match='BLEURT needs the checkpoint'):
        Bleurt('BLEURT-20')(['a'], ['b'])
