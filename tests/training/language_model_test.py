"""A decoder alone is trained, scored, exported and asked as the other families are."""

import json
import pathlib

import jax
import numpy as np
import pytest
import tiny
from nightly import nightly

from xlbench import config as config_lib, convert, predict, train
from xlbench.parallel import partitioning
from xlbench.system import errors

GPT2 = dict(
    family='gpt2', size='sample', vocab_size=0, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
    num_layers=1, max_positions=64, dropout_rate=0.1, dtype='float32',
)  # fmt: skip


LLAMA = {key: value for key, value in GPT2.items() if key != 'num_layers'} | dict(
    family='gemma2', num_layers=2, num_kv_heads=1, window=8, scaled_embeddings=True
)


@pytest.mark.parametrize('family', ['gemma2', *nightly('gpt2', 'llama')])
def test_losses_and_gradients_are_the_same_on_many_devices(tiny_root, family):
    batches = tiny.packed_batches(tiny_root, 1, view='language_model')
    assert batches[0]['decoder_segment_ids'].max() > 1
    fields = dict(objective=dict(name='language_model', loss_on='everything'))
    fields['model'] = dict(family=family) | ({} if family == 'gpt2' else dict(num_kv_heads=1))
    one = tiny.Training(partitioning.make_mesh(devices=jax.devices()[:1]), **fields)
    mesh = partitioning.make_mesh(data=1, fsdp=2, sequence=2, tensor=2)
    many = tiny.Training(mesh, **fields).run(batches)
    one.run(batches)
    tiny.assert_same_training(one, many)
    weights = [batches[0][f'{side}_loss_weights'].sum() for side in ('decoder', 'prompt')]
    assert one.metrics[0]['weight'] == sum(weights)


def test_a_folder_of_a_decoder_is_fine_tuned(tmp_path):
    """The family is the folder's, of those that the objective trains."""
    golden = dict(np.load(pathlib.Path(__file__).parents[1] / 'goldens' / 'family_gemma3.npz'))
    about = json.loads(str(golden['config'])) | {'max_position_embeddings': 512}
    (tmp_path / 'config.json').write_text(json.dumps(about))
    (tmp_path / 'tokenizer.json').write_text('{}')
    config = 'configs/finetune.py:pretrained,mixture=news_title_en'
    argv = ['train', f'--config.model.from={tmp_path}']
    read, *_ = config_lib.parse_command([*argv, f'--config={config},objective=language_model'])
    assert (read.model.family, read.model.window, read.init_from) == ('gemma3', 4, str(tmp_path))
    config_lib.check_names(read)
    with pytest.raises(errors.UserError, match='language_model trains a gpt2 or llama'):
        config_lib.check_names(config_lib.parse_command([*argv, f'--config={config}'])[0])


@pytest.mark.parametrize('model', [LLAMA, *nightly(GPT2)], ids=lambda model: model['family'])
def test_a_run_is_scored_and_its_folder_gives_the_same_answers(tiny_root, tmp_path, model):
    config = tiny.brief_config(tiny_root, lora__rank=2, stages__stage1__num_steps=2)
    config.model = model
    config.objective = dict(name='language_model', loss_on='everything')
    del config.evals['dev']
    config.best.score = ''
    file = tiny.write_config(tmp_path / 'config.py', config)
    train.main(['train', f'--config={file}', f'--workdir={tmp_path}/run'])
    (metrics,) = (tmp_path / 'run' / 'eval').rglob(f'{tiny.QUESTIONS[0]}/metrics.json')
    scores = json.loads(metrics.read_text())['scores']
    assert scores['perplexity'] == pytest.approx(np.exp(scores['loss']))
    assert {'rouge_1', 'rouge_l'} <= set(scores)
    convert.main(['convert', f'{tmp_path}/run', f'{tmp_path}/exported'])
    assert 'AutoModelForCausalLM' in (tmp_path / 'exported' / 'README.md').read_text()
    run, exported = (predict.load(f'{tmp_path}/{name}') for name in ('run', 'exported'))
    texts, asked = ['old bridge', 'the river'], dict(target_lang='de', num_beams=2, max_length=6)
    assert run.generate(texts, **asked) == exported.generate(texts, **asked)
    answers = ['alte', 'der Fluss']
    of_both = (model.token_losses(texts, answers, target_lang='de') for model in (run, exported))
    for ours, theirs in zip(*of_both, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    config.objective = dict(name='generation')
    file = tiny.write_config(tmp_path / 'config.py', config)
    with pytest.raises(errors.UserError, match='language_model trains a gpt2'):
        train.main(['train', f'--config={file}', f'--workdir={tmp_path}/other'])
