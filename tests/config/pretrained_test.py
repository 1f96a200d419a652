"""config.model.from: the model that a user brings, in every place that takes a size."""

import functools
import json
import pathlib
import shutil

import encoder_folders
import jax
import numpy as np
import pytest
import tokenizer_files
from edits import refused

from xlbench import config as config_lib, models
from xlbench.data import tokenizers
from xlbench.huggingface import checkpoint, described
from xlbench.system.errors import UserError

CONFIGS = {
    'fewshot_source:sample,task=xnli': 'sequence_classifier',
    'fewshot_source:sample,task=udpos': 'token_classifier',
    'finetune:tiny,objective=tagging,mixture=fewshot_udpos_en_en': 'token_classifier',
    'finetune:mt5_base,mixture=xquad_multi_qg': 'encoder_decoder',
    'mrs_retriever': 'dual_encoder',
    'mtg_bert2bert': 'encoder_decoder',
    'fewshot_source:mbert,task=panx': 'token_classifier',
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return encoder_folders.write(tmp_path_factory.mktemp('brought') / 'encoder')


@pytest.fixture
def copy(folder, tmp_path):
    return str(shutil.copytree(folder, tmp_path / 'copy'))


def parse(*argv):
    command = config_lib.parse_command(['train', *argv])
    return command.config


def test_lengths_beyond_the_positions_are_refused_at_once(folder):
    most = encoder_folders.SIZES['max_positions']
    flags = f'--config.model.from={folder}', f'--config.evals.test.lengths.inputs={most + 1}'
    config = parse(f'--config=finetune:encoder,objective=tagging,mixture=x,inputs={most}', *flags)
    with refused(rf'evals.test.lengths.inputs is {most + 1}, .* for {most}'):
        config_lib.check_names(config)
    relative = parse('--config=mtg_mt5', '--config.batches.lengths.inputs=100000')
    config_lib.check_names(relative)
    large = '--config=clidsum_mbart:large,scenario=mono'
    with refused('lengths.inputs is 2000'):
        config_lib.check_names(parse(large, '--config.batches.lengths.inputs=2000'))


def test_dropout_is_the_configs_unless_the_model_has_none(copy):
    name, source = '--config=xquad_mt5', f'--config.model.from={copy}'
    file = pathlib.Path(copy) / 'config.json'
    about = json.loads(file.read_text())
    for theirs, ours in ((0.3, 0.1), (0.0, 0.0)):
        file.write_text(json.dumps(about | {'hidden_dropout_prob': theirs}))
        assert parse(name, source).model.dropout_rate == ours
    assert parse(name, source, '--config.model.dropout_rate=0.2').model.dropout_rate == 0.2


@pytest.mark.parametrize('name', CONFIGS)
def test_one_line_says_it_in_every_config(folder, name):
    config = parse(f'--config={name}', f'--config.model.from={folder}')
    config_lib.check_names(config)
    family, model = CONFIGS[name], config.model.to_dict()
    assert model['family'] == family and 'size' not in model and 'from' not in model
    assert config.init_from == config.data.vocabulary == folder
    built = models.config(**model | ({'num_labels': 2} if 'num_labels' in model else {}))
    whole = checkpoint.open(folder).model
    for key in (*encoder_folders.SIZES, 'vocab_size', 'position_offset', 'norm_epsilon'):
        assert getattr(built, key) == whole[key], key
    # A classifier of BERT has a pooler, be it a fresh one, as transformers' has.
    assert built.has_pooler == (family == 'sequence_classifier')


def test_what_the_command_line_says_goes_first(folder):
    config = parse(
        '--config=mtg_bert2bert', '--config.model.from', folder, '--config.model.num_layers=1',
        '--config.init_from=', '--config.model.dropout_rate=0.25',
    )  # fmt: skip
    assert config.model.num_layers == 1 and config.init_from == ''
    assert config.model.dropout_rate == 0.25 and config.data.vocabulary == folder


def test_a_sweep_and_a_file_of_ones_own(folder, tmp_path):
    config = parse('--config=fewshot', f'--config.source.model.from={folder}')
    assert config.source.model.emb_dim == 16 and config.source.init_from == folder
    config_lib.check_sweep_names(config)
    path = tmp_path / 'mine.py'
    path.write_text(
        'from xlbench.configs import fewshot_source\n\n\n'
        'def get_config():\n'
        '    c = fewshot_source.get_config()\n'
        f"    c.model = dict({{'from': {folder!r}}}, classifier_dropout_rate=0.3)\n"
        '    return c\n'
    )
    config = parse(f'--config={path}')
    config_lib.check_names(config)
    assert config.model.family == 'token_classifier' and config.model.num_layers == 2
    assert config.model.classifier_dropout_rate == 0.3


def test_prompts_become_ids(copy):
    encoder_folders.make_sentences(copy)
    config = parse('--config=mrs_retriever', f'--config.model.from={copy}')
    config_lib.check_names(config)
    assert (config.model.left_prompt, config.model.right_prompt) == ('query: ', 'passage: ')
    assert config.model.pooling == 'mean' and config.model.normalize is True
    tokenizer = tokenizers.load(copy, '')
    model = models.build(**config.model.to_dict())
    whole = tokenizer.encode_inputs(['query: Der Zug ist da.'])[0]
    short = tokenizer.encode_inputs(['Der Zug ist da.'])[0]
    assert whole.tolist() == [short[0], *model.config.left_prefix, *short[1:]]
    without = dict(left_prompt='', right_prompt='', left_prefix=(), right_prefix=())
    plain = models.build(**config.model.to_dict() | without)
    params = jax.jit(model.init)(jax.random.key(0), whole[None], whole[None])
    rows = np.zeros((2, 24), np.int32)
    rows[:, : len(short)] = short
    segments = (np.arange(24) < len(short)).astype(np.int32) * np.array([[1], [0]], np.int32)
    padded, expected = (
        jax.jit(functools.partial(of.apply, method='encode'), static_argnums=1)(params, 'left', *x)
        for of, x in ((model, (rows, segments)), (plain, (whole[None],)))
    )
    np.testing.assert_allclose(padded[0], expected[0], atol=1e-6)
    config = parse(
        '--config=mrs_retriever', f'--config.model.from={copy}', '--config.model.left_prompt=',
        '--config.model.right_prompt=text: ',
    )  # fmt: skip
    assert not config.model.left_prefix
    assert list(config.model.right_prefix) == tokenizer.prompt_ids('text: ')


def test_the_first_token_without_prompts(copy):
    """As version 6 of sentence-transformers writes it."""
    encoder_folders.make_sentences(copy, prompts={}, steps=('Pooling',), pooling_mode='cls')
    model = parse('--config=mrs_retriever', f'--config.model.from={copy}').model
    assert (model.pooling, model.normalize) == ('first', False)
    assert 'left_prefix' not in model


def broken(folder, keys=(), modules=()):
    """A folder with one thing that is not supported."""
    encoder_folders.change(folder, **dict(keys))
    return encoder_folders.make_sentences(folder, **dict(modules)) if modules else folder


@pytest.mark.parametrize(
    ('keys', 'modules', 'message'),
    [
        ({'auto_map': {'AutoModel': 'code.Bert'}}, {}, 'auto_map names code of its own'),
        ({'position_embedding_type': 'alibi'}, {}, 'position_embedding_type is .*alibi'),
        ({'hidden_act': 'silu'}, {}, "hidden_act is .*silu.*; supported: 'gelu'"),
        ({'model_type': 'mamba'}, {}, "model_type in config.json 'mamba'"),
        ({}, {'steps': ('Pooling', 'LSTM')}, "has the steps 'Transformer, Pooling, LSTM'"),
        ({}, {'steps': ('Pooling', 'Dense')}, 'names the layer .*Dense.*, which is not there'),
        ({}, {'pooling_mode': 'max'}, "pools by 'max'; supported: one of cls, mean"),
        ({}, {'pooling_mode_max_tokens': True}, "pools by 'pooling_mode_max_tokens'"),
        ({}, {'pooling_mode': 'mean', 'include_prompt': False}, 'leaves prompts out of the mean'),
    ],
)
def test_what_is_not_supported_is_one_line(copy, keys, modules, message):
    with refused(message):
        parse('--config=mrs_retriever', f'--config.model.from={broken(copy, keys, modules)}')


def test_what_is_no_model_is_one_line(folder, tmp_path):
    t5 = tokenizer_files.write(tmp_path / 't5', 't5')
    sizes = dict(d_model=8, d_kv=4, d_ff=8, num_heads=2, num_layers=1, vocab_size=400)
    encoder_folders.change(t5, feed_forward_proj='relu', **sizes)
    (tmp_path / 'run' / 'checkpoints').mkdir(parents=True)
    for spec, message in {
        '': "config.model.from is ''; name a folder",
        str(tmp_path / 'encoders'): 'there is no folder .*encoders',
        str(tmp_path): 'is a folder without config.json',
        t5: 'is a t5 model, and config.objective.name=tagging trains a token_classifier',
    }.items():
        with pytest.raises(UserError, match=message):
            parse('--config=fewshot_source', f'--config.model.from={spec}')
    (tmp_path / 'run' / 'config.json').write_text(json.dumps({'config': {}}))
    (tmp_path / 'run' / 'checkpoints' / '3').mkdir()
    with pytest.raises(UserError, match=r'is a workdir; start from it with config\.init_from'):
        parse('--config=fewshot_source', f'--config.model.from={tmp_path / "run"}')
    with pytest.raises(UserError, match="unknown key in config 'modle'; nearest: model"):
        parse('--config=fewshot_source', f'--config.modle.from={folder}')
    with pytest.raises(UserError, match="unknown key in config 'model'"):
        parse('--config=fewshot', f'--config.model.from={folder}')


def test_an_encoder_in_a_subfolder(copy, tmp_path):
    """As versions of sentence-transformers before 2 wrote it."""
    outer = tmp_path / 'old'
    shutil.copytree(copy, outer / '0_Transformer')
    encoder_folders.make_sentences(str(outer), prompts={})
    path = outer / 'modules.json'
    modules = json.loads(path.read_text())
    modules[0]['path'] = '0_Transformer'
    path.write_text(json.dumps(modules))
    about = described.describe(str(outer))
    assert about.start == str(pathlib.Path(outer, '0_Transformer'))
    modules[0]['path'] = '../copy'
    path.write_text(json.dumps(modules))
    with pytest.raises(UserError, match='outside of'):
        described.describe(str(outer))
