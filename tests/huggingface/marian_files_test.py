"""Translators in Marian's own form: made-up files, and Mozilla's own where they are."""

import functools
import json
import struct

import jax
import model_folders
import numpy as np
import pytest
from nightly import nightly

from xlbench import config as config_lib, models, predict
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint as hf_checkpoint, marian_files
from xlbench.inference import conversion
from xlbench.system.errors import UserError


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    """A folder, and the parameters in it."""
    folder = tmp_path_factory.mktemp('marian') / 'xxyy'
    return folder, model_folders.write_marian(folder)


@pytest.fixture(scope='module')
def folder(written):
    return written[0]


def test_what_is_written_is_read(written):
    folder, params = written
    assert sorted(file.name for file in folder.iterdir()) == ['model.bin', 'vocab.spm']
    opened = hf_checkpoint.open(str(folder))
    expected = dict(model_folders.MARIAN, family='marian_ssru', ssru=True, norm_epsilon=1e-9)
    assert expected.items() <= opened.model.items()
    jax.tree.map(np.testing.assert_array_equal, hf_checkpoint.load_params(opened), params)


def as_intgemm8(source, target):
    """The same model with int8 for its kernels and its table; returns the rounded tensors."""
    heads, start = marian_files._read_heads(source)
    data, written, rounded = source.read_bytes(), [], {}
    for head in heads:
        content, kind = data[start : start + head.size], head.kind
        start += head.size
        if head.kind == 0x404 and head.shape[0] > 1:
            value = np.frombuffer(content, '<f4').reshape(head.shape)
            by = np.float32(127 / np.abs(value).max())
            numbers = np.rint(value * by).astype(np.int8)
            rounded[head.name] = numbers / by
            turned = numbers if head.name == 'Wemb' else numbers.T
            content, kind = turned.tobytes() + struct.pack('<f', by) + bytes(60), 0x4101
        written.append((head.name, kind, head.shape, content))
    multiplier = ('encoder_l1_ffn_W1_QuantMultA', 0x404, (1, 1), struct.pack('<f', 9.0))
    write(target, [*written, multiplier])
    return rounded


def write(target, tensors, version=1, gap=40):
    """A file in the form of marian-dev's src/common/binary.cpp, item by item."""
    out = struct.pack('<QQ', version, len(tensors))
    for name, kind, shape, content in tensors:
        out += struct.pack('<QQQQ', len(name) + 1, kind, len(shape), len(content))
    out += b''.join(name.encode() + b'\0' for name, *_ in tensors)
    out += b''.join(struct.pack(f'<{len(shape)}i', *shape) for _, _, shape, _ in tensors)
    out += struct.pack('<Q', gap) + bytes(gap)
    target.write_bytes(out + b''.join(content for *_, content in tensors))


def test_integers_are_divided_by_their_multiplier(folder, tmp_path):
    place = tmp_path / 'rounded'
    place.mkdir()
    (place / 'vocab.xxyy.spm').write_bytes((folder / 'vocab.spm').read_bytes())
    rounded = as_intgemm8(folder / 'model.bin', place / 'model.xxyy.intgemm.alphas.bin')
    params = hf_checkpoint.load_params(hf_checkpoint.open(str(place)))
    assert len(rounded) == 1 + 2 * 6 + 8
    close = dict(rtol=1e-6)
    np.testing.assert_allclose(params['token_embedder']['embedding'], rounded['Wemb'], **close)
    layer = params['encoder']['layers_1']['attention']['qkv']['kernel']
    for index, letter in enumerate('qkv'):
        np.testing.assert_allclose(layer[index].T, rounded[f'encoder_l2_self_W{letter}'], **close)
    gate = params['decoder']['layers_0']['self_attention']['forget']['kernel']
    np.testing.assert_allclose(gate.T, rounded['decoder_l1_rnn_Wf'], **close)


def test_a_folder_becomes_a_workdir_and_a_folder_again(folder, tmp_path):
    texts = ['das Haus Nummer 7 ist neu', 'alt', 'das ist groß']
    expected = predict.load(str(folder)).generate(texts, max_length=12)
    said = conversion.to_workdir(str(folder), tmp_path / 'run')
    assert said[0].endswith('marian_ssru, 34.6k parameters'), said
    assert predict.load(str(tmp_path / 'run')).generate(texts, max_length=12) == expected
    conversion.to_folder(str(tmp_path / 'run'), tmp_path / 'out', 0)
    for name in ('model.bin', 'vocab.spm'):
        assert (tmp_path / 'out' / name).read_bytes() == (folder / name).read_bytes()
    with pytest.raises(UserError, match='takes no extra tokens'):
        conversion.to_workdir(str(folder), tmp_path / 'more', ['[summarize]'])
    tokenizer = tokenizers.load(str(folder), '')
    assert (tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id) == (0, 0, 1)
    assert tokenizer.tags == 'own'
    tokenizers.copy_files(str(folder), '', tmp_path / 'trained')
    about = {'config': {'data': {'vocabulary': str(folder), 'root': ''}}}
    again = tokenizers.of_workdir(tmp_path / 'trained', about)
    assert (again.tags, again.sha256) == (tokenizer.tags, tokenizer.sha256)


def test_a_config_takes_it_as_it_is(folder):
    argv = ['train', '--config=finetune:pretrained,mixture=news_x', f'--config.model.from={folder}']
    config, *_ = config_lib.parse_command(argv)
    config_lib.check_names(config)
    assert config.init_from == config.data.vocabulary == str(folder)
    assert config.objective.name == 'generation' and config.model.dropout_rate == 0.0
    assert models.config(**config.model).ssru


@pytest.mark.parametrize(
    'change, message',
    [
        (lambda data: data[:-1], 'cut short'),
        (lambda data: data[:500], 'cut short'),
        (lambda data: b'\2' + data[1:], 'begins with version 2'),
        (lambda data: data[:8] + b'\xff' * 8 + data[16:], 'begins with version 1 and 184467'),
        (lambda data: data[:16] + b'\xff' * 8 + data[24:], 'names and shapes are too long'),
        ((b'dec-cell: ssru', b'dec-cell: gru2'), 'dec-cell is .gru2.; supported: .ssru.'),
        ((b'dim-emb: 32', b'dim-emb: -2'), r'dim-emb'),
        ((b'dim-emb: 32', b'dim-emb: 33'), 'multiple of transformer-heads, 4'),
        ((b'dec-depth: 1', b'dec-depth: 2'), 'lacks tensors that marian_ssru models have'),
        ((b'dim-emb: 32', b'dim-emb: 64'), 'has shape'),
        ((b'enc-depth: 2', b'enc-depth: ['), 'does not describe a model'),
        ((b'special:model.yml', b'special:model.ymm'), 'has no special:model.yml'),
    ],
)
def test_damage_is_one_line(folder, tmp_path, change, message):
    (tmp_path / 'vocab.xxyy.spm').write_bytes((folder / 'vocab.spm').read_bytes())
    data = (folder / 'model.bin').read_bytes()
    assert callable(change) or change[0] in data
    changed = change(data) if callable(change) else data.replace(*change, 1)
    (tmp_path / 'model.bin').write_bytes(changed)
    with pytest.raises(UserError, match=message) as caught:
        hf_checkpoint.load_params(hf_checkpoint.open(str(tmp_path)))
    assert '\n' not in str(caught.value) and len(str(caught.value)) < 600


def test_a_folder_has_one_model_and_one_vocabulary(folder, tmp_path):
    (tmp_path / 'model.bin').touch()
    with pytest.raises(UserError, match='has no vocabulary; a translator of Marian'):
        tokenizers.load(str(tmp_path), '')
    (tmp_path / 'model.a.bin').touch()
    with pytest.raises(UserError, match=r"has 'model.a.bin', 'model.bin'; .* one model.\*.bin"):
        hf_checkpoint.open(str(tmp_path))
    assert marian_files.find(tmp_path / 'nowhere') is None


# ------------------------------------------------------------------------------ Mozilla's own files


@pytest.fixture(scope='module', params=['firefox-en-pt', *nightly('firefox-pt-en')])
def public(request, dev_model):
    return dev_model(request.param)


def test_translations_equal_those_of_another_reader(public, dev_data):
    goldens = dev_data.parent / 'specs' / 'marian_golden.json'
    if not goldens.is_file():
        pytest.skip(f'needs golden translations beside the data: {goldens.name}')
    cases = json.loads(goldens.read_text())[public.name]
    model, tokenizer = predict.load(str(public)), tokenizers.load(str(public), '')
    texts = [case['source'] for case in cases]
    assert model.generate(texts) == [case['target'] for case in cases]
    encode = jax.jit(functools.partial(model._model.apply, method='encode'))
    for text, case in list(zip(texts, cases, strict=True))[:4]:
        ids = [*tokenizer.encode(text), tokenizer.eos_id]
        assert ids == case['source_ids']
        states = np.array(encode({'params': model._params}, np.array([ids], np.int32)))[0]
        np.testing.assert_allclose(states[0, :8], case['encoded_first'], atol=2e-5)
        np.testing.assert_allclose(states.mean(), case['encoded_mean'], atol=1e-5)
        np.testing.assert_allclose(np.abs(states).max(), case['encoded_abs_max'], atol=2e-5)


def test_the_names_are_those_of_the_file(public):
    source = hf_checkpoint.open(str(public))
    source.check()
    assert tokenizers.load(str(public), '').vocab_size == source.model['vocab_size'] == 32000
    assert source.shapes['final_logits_bias'] == (32000,)
    _, found = marian_files.read(marian_files.find(public))
    entries = hf_checkpoint.names('marian_ssru', models.config(**source.model)).values()
    placed = {name for entry in entries for name in entry.tensors}
    assert all(name.endswith('_QuantMultA') for name in found.keys() - placed)
