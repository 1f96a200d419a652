"""A table that a mesh cannot cut gets rows of padding, which change no state, loss or export."""

import functools
import json
import shutil

import encoder_folders
import jax
import numpy as np
import pytest
import safetensors.numpy
from flax import traverse_util
from ml_collections import ConfigDict
from scipy import special

from xlbench import models
from xlbench.config import pretrained
from xlbench.inference import conversion
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.system.trees import Params
from xlbench.training import checkpoints, init_from, objectives, optimizers, train_step

ROWS = 781  # More than the vocabulary has pieces; no mesh can cut it in two.


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp('padding') / 'encoder'
    return encoder_folders.write(place, vocab_size=ROWS, num_layers=1)


def resolved(folder, given=(), **mesh):
    """The block config.model of a run with that mesh."""
    run = ConfigDict(
        dict(
            model={'family': 'encoder_decoder', 'from': folder},
            objective=dict(name='generation'),
            data=dict(vocabulary=''),
            lora=dict(rank=0),
            mesh=mesh,
            stages={},
        )
    )
    with run.model.unlocked():
        for key in given:
            run.model[key.removeprefix('model.')] = given[key]
    pretrained.resolve(run, list(given))
    return run.model.to_dict()


def batch():
    """Texts of the vocabulary, its last row among them."""
    rng = np.random.default_rng(0)
    tokens = {side: rng.integers(4, ROWS, (8, 6)).astype(np.int32) for side in ('en', 'de')}
    tokens['de'][:, 0] = ROWS - 1
    ones = np.ones((8, 6), np.int32)
    places = np.broadcast_to(np.arange(6, dtype=np.int32), (8, 6))
    return {
        'encoder_input_tokens': tokens['en'],
        'decoder_input_tokens': tokens['de'],
        'decoder_target_tokens': tokens['de'],
        'decoder_loss_weights': ones.astype(np.float32),
        **{f'{side}_segment_ids': ones for side in ('encoder', 'decoder')},
        **{f'{side}_positions': places for side in ('encoder', 'decoder')},
    }


def trained(folder: str, **mesh) -> tuple[list[float], Params, dict]:
    """Losses of three steps, the parameters after them, and the block of the model."""
    block = resolved(folder, **mesh) | dict(dropout_rate=0.0, attention_dropout_rate=0.0)
    mesh = partitioning.make_mesh(**mesh, devices=jax.devices()[: mesh.get('tensor', 1)])
    model = models.build(**block)
    objective = objectives.build('generation', z_loss=1e-4)
    params = train_step.init_params(model, objective, mesh, jax.random.key(0))
    params = init_from.Plan(folder, 'encoder_decoder', model, params).load(params)
    mask = optimizers.trainable_mask(params)
    options = dict(learning_rate=0.01, warmup_steps=0, weight_decay=0.01, clip_norm=1.0)
    tx, schedule = optimizers.build('adamw', num_steps=3, **options)
    state = train_step.init_state(tx, params, mask)
    step = train_step.make_train_step(model, objective, tx, schedule, mask)
    step = train_step.TrainStep(step, jax.random.key(1))
    losses = []
    for _ in range(3):
        state, metrics = step(state, partitioning.put_batch(batch(), mesh))
        losses.append(float(metrics['loss']) / float(metrics['weight']))
    return losses, jax.device_get(state.params), block


def exported(folder: str, block: dict, params: Params, place) -> dict[str, np.ndarray]:
    """The tensors of a workdir's export, whose config.json says the same number of rows."""
    workdir, target = place / 'run', place / 'folder'
    conversion.to_workdir(folder, workdir)
    about = json.loads((workdir / 'config.json').read_text())
    about['config']['model'] = block
    (workdir / 'config.json').write_text(json.dumps(about))
    shutil.rmtree(workdir / 'checkpoints')
    checkpoints.save_params(str(workdir), 0, params)
    conversion.to_folder(str(workdir), target, 0)
    config = json.loads((target / 'config.json').read_text())
    assert {config[half]['vocab_size'] for half in ('encoder', 'decoder')} == {ROWS}
    return safetensors.numpy.load_file(target / 'model.safetensors')


def test_padding_changes_no_loss_no_parameter_and_no_export(folder, tmp_path):
    losses, whole, block = trained(folder)
    assert 'vocab_padding' not in block and block['vocab_size'] == ROWS
    same, padded, padded_block = trained(folder, tensor=2)
    assert padded_block['vocab_size'] == ROWS + padded_block['vocab_padding']
    assert padded_block['vocab_size'] % 128 == 0
    np.testing.assert_allclose(same, losses, rtol=2e-6)
    assert losses[0] > losses[2] + 0.1
    flat, other = (traverse_util.flatten_dict(x, sep='/') for x in (whole, padded))
    for name, value in flat.items():
        ours = other[name][: len(value)] if value.shape != other[name].shape else other[name]
        if not name.endswith(('qkv/bias', 'kv/bias')):  # Keys' have no gradient but noise.
            np.testing.assert_allclose(ours, value, atol=2e-5, err_msg=name)
    assert other['lm_head/bias'].shape == (padded_block['vocab_size'],)
    first = exported(folder, block, whole, tmp_path / 'whole')
    second = exported(folder, padded_block, padded, tmp_path / 'padded')
    assert {n: t.shape for n, t in first.items()} == {n: t.shape for n, t in second.items()}
    table = 'encoder.embeddings.word_embeddings.weight'
    np.testing.assert_allclose(first[table], second[table], atol=2e-5)
    np.testing.assert_array_equal(second[table], other['encoder/token_embedder/embedding'][:ROWS])


def test_rows_of_padding_get_no_probability(folder):
    block = resolved(folder, tensor=2)
    model = models.build(**block)
    inputs = np.ones((1, 3), np.int32)
    mt5 = models.build('mt5', 'sample', vocab_size=128, vocab_padding=5)
    for made, rows in ((model, ROWS), (mt5, 123)):
        params = jax.jit(made.init)(jax.random.key(0), inputs, inputs)
        probabilities = special.softmax(jax.jit(made.apply)(params, inputs, inputs), axis=-1)
        assert (probabilities[..., rows:] == 0).all() and (probabilities[..., 0] > 0).all()
    objective = objectives.build('generation', label_smoothing=0.1)
    with pytest.raises(UserError, match='label_smoothing covers all rows'):
        jax.eval_shape(
            functools.partial(objective.loss, model), params['params'], batch(), None
        )


def test_where_a_table_is_padded(folder):
    assert resolved(folder, data=-1)['vocab_size'] == ROWS
    assert resolved(folder, tensor=-1)['vocab_size'] % 128 == 0
    # What no mesh can be is refused later, in words.
    assert resolved(folder, tensor=0)['vocab_size'] == ROWS
    # A run that was begun with such a mesh goes on with another.
    again = resolved(folder, {'model.vocab_padding': 7})
    assert (again['vocab_size'], again['vocab_padding']) == (ROWS + 7, 7)
    assert resolved(folder, {'model.vocab_padding': 0}, tensor=2)['vocab_size'] == ROWS
