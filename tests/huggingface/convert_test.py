"""Conversions both ways on tiny models with a real tokenizer's files."""

import json
import pathlib
import re
import shutil

import edits
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
import safetensors.numpy
import tokenizer_files
from flax import traverse_util
from nightly import nightly

from xlbench import config as config_lib, convert, models, runs
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint, tensors
from xlbench.models import lora
from xlbench.system import errors
from xlbench.training import checkpoints

SIZES = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32)
DISTILBERT = dict(variant='distilbert', type_vocab_size=0, has_pooler=False)
IDS = dict(pad_id=0, eos_id=1, bos_id=None, decoder_start_id=0)


def run(*argv):
    convert.main(['convert', *map(str, argv)])


def fresh(family, **fields):
    model = models.build(family, 'sample', **SIZES | fields)
    return model, references.random_params(model, 1.0)


@pytest.fixture(scope='module')
def pieces(tiny_root):
    return tokenizers.load('sample', str(tiny_root)).num_pieces


@pytest.fixture(scope='module')
def folder(tiny_root, tmp_path_factory, pieces):
    """An mT5 of transformers with more rows than its tokenizer has pieces."""
    where = tmp_path_factory.mktemp('hf')
    shutil.copy(tiny_root / 'sample.model', where / 'spiece.model')
    about = {'tokenizer_class': 'T5Tokenizer', 'extra_ids': 0}
    tensors.write_json(where / 'tokenizer_config.json', about)
    files = sorted(where.iterdir())
    model, params = fresh('mt5', vocab_size=pieces + 3)
    checkpoint.save(where / 'mt5', 'mt5', model.config, params, IDS, files)
    return where / 'mt5'


@pytest.fixture(scope='module')
def workdir(folder, tmp_path_factory):
    target = tmp_path_factory.mktemp('workdirs') / 'mt5'
    run(folder, target)
    return target


def transformers_ids(folder, text):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer(text, add_special_tokens=False).input_ids


def params_of(workdir, step=0):
    shapes = checkpoints.param_shapes(str(workdir), step)
    return checkpoints.read_params(str(workdir), step, list(shapes))


def params_in(folder):
    params = checkpoint.load_params(checkpoint.open(str(folder)))
    return traverse_util.flatten_dict(params, sep='/')


def assert_same(left, right):
    assert left.keys() == right.keys()
    jax.tree.map(np.testing.assert_array_equal, dict(left), dict(right))


def test_there_and_back_is_bit_exact(folder, workdir, tmp_path, capsys):
    run(workdir, tmp_path / 'back')
    assert edits.content(tmp_path / 'back') == edits.content(folder)
    said = capsys.readouterr().out
    assert 'step 0: mt5' in said and 'wrote' in said and 'model.safetensors' in said


@pytest.mark.parametrize(
    'family, fields',
    [
        ('marian', {}),
        ('encoder_decoder', {}),
        ('sequence_classifier', {'num_labels': 3}),
        ('token_classifier', {'num_labels': 3, **DISTILBERT}),
        ('dual_encoder', {'shared': False}),
        *nightly(
            ('bart', {}),
            ('bert', DISTILBERT),
            ('sequence_classifier', {'num_labels': 3, **DISTILBERT}),
        ),
    ],
)
def test_other_families_there_and_back(tmp_path, family, fields):
    """Without a tokenizer, of which config.json tells the little that is needed."""
    model, params = fresh(family, vocab_size=40, **fields)
    ids = IDS | dict(bos_id=2, forced_eos_id=1)
    checkpoint.save(tmp_path / 'one', family, model.config, params, ids, ())
    run(tmp_path / 'one', tmp_path / 'run')
    config = config_lib.read_config(str(tmp_path / 'run'))
    assert runs.build_model(config.model, 0).config == model.config
    assert_it_comes_back(tmp_path)


def assert_it_comes_back(tmp_path):
    run(tmp_path / 'run', tmp_path / 'two')
    one, two = (edits.content(tmp_path / name) for name in ('one', 'two'))
    assert one.items() <= two.items()


def test_a_roberta_stays_one(tmp_path):
    """With its vocabulary of bytes; an XLM-R would be given SentencePiece."""
    files = pathlib.Path(tokenizer_files.write(tmp_path / 'files', 'roberta'))
    (files / 'config.json').unlink()
    rows = tokenizers.load(str(files), '').vocab_size
    fields = dict(position_offset=2, type_vocab_size=1, norm_epsilon=1e-5, vocab_size=rows)
    model, params = fresh('bert', **fields)
    ids = dict(pad_id=1, eos_id=2, bos_id=0, decoder_start_id=0, model_type='roberta')
    checkpoint.save(tmp_path / 'one', 'bert', model.config, params, ids, sorted(files.iterdir()))
    run(tmp_path / 'one', tmp_path / 'run')
    assert_it_comes_back(tmp_path)
    about = json.loads((tmp_path / 'two' / 'config.json').read_text())
    assert (about['model_type'], about['architectures']) == ('roberta', ['RobertaModel'])
    text = tokenizer_files.SENTENCES['de']
    ours = tokenizers.load(str(tmp_path / 'two'), '')
    assert transformers_ids(tmp_path / 'two', text) == ours.encode(text).tolist()


def test_the_workdir_is_a_workdir(folder, workdir):
    config = config_lib.read_config(str(workdir))
    model = runs.build_model(config.model, 0)
    expected = params_in(folder)
    boxes = checkpoint.boxed_params(model)
    shapes = traverse_util.unflatten_dict({n: box.value for n, box in boxes.items()}, sep='/')
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    loaded = checkpoints.load_params(
        str(workdir), 0, shapes, jax.tree.map(lambda leaf: place, shapes)
    )
    assert_same(traverse_util.flatten_dict(loaded, sep='/'), expected)
    assert checkpoints.find_step(str(workdir), 'best') == 0
    tokenizer = tokenizers.load(config.data.vocabulary, config.data.root)
    assert tokenizer.vocab_size == model.config.vocab_size
    about = json.loads((workdir / 'config.json').read_text())
    assert about['versions']['jax'] == jax.__version__
    assert pathlib.Path(config.data.vocabulary) == workdir / 'tokenizer'


@pytest.mark.parametrize('dtype', ['bfloat16', 'float16'])
def test_types_of_the_weights(workdir, tmp_path, dtype):
    run(workdir, tmp_path / 'half', f'--dtype={dtype}')
    assert checkpoint.open(str(tmp_path / 'half')).config['dtype'] == dtype
    widened = params_in(tmp_path / 'half')
    for name, value in params_of(workdir).items():
        rounded = jnp.asarray(value).astype(dtype).astype(jnp.float32)
        np.testing.assert_array_equal(widened[name], rounded)


def test_extra_tokens(folder, workdir, tmp_path, pieces, capsys):
    """The first take the rows that the table has too many; further ones make it longer."""
    run(folder, tmp_path / 'more', '--extra_tokens=[summarize] <x1> <x2> <x3> <x4>')
    assert f'ids {pieces} to {pieces + 4}' in capsys.readouterr().out
    before, after = params_of(workdir), params_of(tmp_path / 'more')
    for name in ('token_embedder/embedding', 'logits_dense/kernel'):
        assert after[name].shape == (pieces + 5, SIZES['emb_dim'])
        np.testing.assert_array_equal(after[name][:pieces], before[name][:pieces])
        mean = before[name][:pieces].mean(axis=0, dtype=np.float64)
        np.testing.assert_allclose(after[name][pieces:], np.tile(mean, (5, 1)), rtol=1e-6)
    for name in before.keys() - {'token_embedder/embedding', 'logits_dense/kernel'}:
        np.testing.assert_array_equal(after[name], before[name])
    config = config_lib.read_config(str(tmp_path / 'more'))
    assert config.model.vocab_size == pieces + 5
    tokenizer = tokenizers.load(config.data.vocabulary, '')
    assert (tokenizer.num_pieces, tokenizer.vocab_size) == (pieces + 5, pieces + 5)
    assert tokenizer.encode('<x2>').tolist() == [pieces + 2]
    plain = tokenizers.load(str(folder), '').encode('the old bridge').tolist()
    assert tokenizer.encode('[summarize] the old bridge').tolist() == [pieces, *plain]
    # And they leave with the model.
    run(tmp_path / 'more', tmp_path / 'out')
    out = tokenizers.load(str(tmp_path / 'out'), '')
    assert out.encode('<x4>').tolist() == [pieces + 4]
    text = '[summarize] wer als<x1>die'
    assert transformers_ids(tmp_path / 'out', text) == out.encode(text).tolist()
    assert checkpoint.open(str(tmp_path / 'out')).model['vocab_size'] == pieces + 5


def test_a_run_with_the_sample_vocabulary(tiny_root, tmp_path, pieces):
    """vocab_size 0 in a config; the vocabulary is a SentencePiece model alone."""
    _, params = fresh('mt5', vocab_size=128)
    block = {'family': 'mt5', 'size': 'sample', **SIZES, 'vocab_size': 0}
    data = {'root': str(tiny_root), 'vocabulary': 'sample', 'sample': False}
    write_run(tmp_path / 'run', block, params, data)
    run(tmp_path / 'run', tmp_path / 'out')
    found = checkpoint.open(str(tmp_path / 'out'))
    assert found.model['vocab_size'] == 128
    assert_same(params_in(tmp_path / 'out'), traverse_util.flatten_dict(params, sep='/'))
    text = 'wer als die alte Brücke'
    ours = tokenizers.load('sample', str(tiny_root)).encode(text)
    theirs = tokenizers.load(str(tmp_path / 'out'), '').encode(text)
    np.testing.assert_array_equal(ours, theirs)
    assert transformers_ids(tmp_path / 'out', text) == ours.tolist()
    for key, value in (('pad_token_id', 0), ('eos_token_id', 1), ('decoder_start_token_id', 0)):
        assert found.config[key] == value
        assert tensors.read_json(tmp_path / 'out' / 'generation_config.json')[key] == value


def write_run(workdir, block, params, data, step=7):
    workdir.mkdir()
    config = {'model': block, 'data': data, 'init_from': 'google/mt5-small'}
    tensors.write_json(workdir / 'config.json', {'config': config})
    checkpoints.save_params(str(workdir), step, params)


@pytest.fixture(scope='module')
def adapted(tiny_root, tmp_path_factory):
    """(a run with LoRA, its parameters)."""
    _, params = fresh('mt5', vocab_size=128)
    flat = traverse_util.flatten_dict(params, sep='/')
    rng = np.random.default_rng(0)
    for name in [name for name in flat if re.search('(attention|mlp)/.*kernel$', name)]:
        *stack, out, into = flat[name].shape
        scope = name.removesuffix('/kernel')
        flat[f'{scope}/lora_a'] = rng.normal(size=(*stack, 4, into)).astype('f4')
        flat[f'{scope}/lora_b'] = rng.normal(size=(*stack, out, 4)).astype('f4')
        flat[f'{scope}/lora_scale'] = np.float32(0.5) * np.ones((), np.float32)
    params = traverse_util.unflatten_dict(flat, sep='/')
    workdir = tmp_path_factory.mktemp('adapted') / 'run'
    block = {'family': 'mt5', 'size': 'sample', **SIZES, 'vocab_size': 128}
    data = {'root': str(tiny_root), 'vocabulary': 'sample', 'sample': False}
    write_run(workdir, block, params, data)
    return workdir, params


def test_lora_is_merged(adapted, tmp_path, capsys):
    workdir, params = adapted
    run(workdir, tmp_path / 'out', '--step=7')
    assert 'LoRA is merged' in capsys.readouterr().out
    merged = traverse_util.flatten_dict(lora.merge(params), sep='/')
    assert_same(params_in(tmp_path / 'out'), merged)


def test_lora_is_separate(adapted, tmp_path):
    workdir, params = adapted
    run(workdir, tmp_path / 'out', '--lora=separate')
    assert sorted(path.name for path in (tmp_path / 'out').iterdir()) == [
        'adapter_config.json',
        'adapter_model.safetensors',
    ]
    config = tensors.read_json(tmp_path / 'out' / 'adapter_config.json')
    assert config['base_model_name_or_path'] == 'google/mt5-small'
    assert (config['r'], config['lora_alpha']) == (4, 2.0)
    arrays = safetensors.numpy.load_file(str(tmp_path / 'out' / 'adapter_model.safetensors'))
    assert sorted(arrays) == sorted(
        f'base_model.model.{module}.lora_{side}.weight'
        for module in config['target_modules']
        for side in 'AB'
    )
    # Every part of a fused kernel is an adapter of its own.
    qkv = params['encoder']['layers_0']['attention']['qkv']['lora_a']
    for part, letter in enumerate('qkv'):
        name = f'base_model.model.encoder.block.0.layer.0.SelfAttention.{letter}.lora_A.weight'
        np.testing.assert_array_equal(arrays[name], qkv[part])
    name = 'base_model.model.decoder.block.1.layer.2.DenseReluDense.wo.lora_B.weight'
    mlp = params['decoder']['layers_1']['mlp']['wo']
    np.testing.assert_array_equal(arrays[name], mlp['lora_b'])
    entries = checkpoint.names('mt5', fresh('mt5', vocab_size=128)[0].config)
    with pytest.raises(errors.UserError, match='has none for head/kernel; leave the flag out'):
        checkpoint.save_adapter(tmp_path / 'x', entries, {'head/lora_a': np.ones((2, 3))}, 'x')


@pytest.mark.parametrize(
    'which, options, message',
    [
        ('workdir', ['--step=5'], "has no checkpoint '5'; it has best, last, 0"),
        ('workdir', ['--extra_tokens=x'], '--extra_tokens has no meaning for .* is a workdir'),
        ('workdir', ['--lora=merged'], 'was trained without LoRA'),
        ('workdir', ['--dtype=int8'], 'invalid choice'),
        ('folder', ['--step=0'], '--step has no meaning for .* is a Hugging Face checkpoint'),
        ('folder', ['--dtype=bfloat16'], '--dtype has no meaning'),
        ('folder', ['--extra_tokens=</s>'], '</s>'),
        ('nothing', [], 'is neither a folder nor a hub name'),
    ],
)
def test_mistakes_leave_nothing(workdir, folder, tmp_path, which, options, message):
    source = {'workdir': workdir, 'folder': folder, 'nothing': 'no/such/thing'}[which]
    with pytest.raises(errors.UserError, match=message):
        run(source, tmp_path / 'out', *options)
    assert not list(tmp_path.iterdir())


def test_an_existing_target_stays(folder, workdir, tmp_path):
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'mine').touch()
    for source in (folder, workdir):
        with pytest.raises(errors.UserError, match='exists already'):
            run(source, tmp_path / 'out')
    assert [*tmp_path.rglob('*')] == [tmp_path / 'out', tmp_path / 'out' / 'mine']
