"""ClidSum's summarisers go on from checkpoints of Hugging Face with the paper's settings."""

import functools

import jax
import numpy as np
import pytest
from flax import traverse_util
from nightly import nightly

from xlbench import models, runs
from xlbench.configs import clidsum_summariser
from xlbench.data import features
from xlbench.huggingface import checkpoint
from xlbench.models.lora import Lora
from xlbench.parallel import partitioning
from xlbench.training import init_from, objectives, optimizers, train_step

SIZES = dict(emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, vocab_size=128)
SIZES |= dict(num_encoder_layers=1, num_decoder_layers=1)
IDS = dict(pad_id=1, eos_id=2, bos_id=0, decoder_start_id=2)
CONVENTIONS = features.Conventions(1, 2, 2, 128, segment_marks=(7,))


def public_folder(folder, family):
    """A small checkpoint of that family with random parameters, as transformers would have it."""
    fields = SIZES if family == 't5' else SIZES | dict(max_positions=1024)
    model, rng = models.build(family, 'sample', **fields), np.random.default_rng(0)
    flat = {
        name: rng.normal(size=box.value.shape, scale=0.2).astype(np.float32)
        + name.endswith('scale')
        for name, box in checkpoint.boxed_params(model).items()
    }
    params = traverse_util.unflatten_dict(flat, sep='/')
    checkpoint.save(folder, family, model.config, params, IDS, ())
    return flat


@pytest.mark.parametrize(
    'name', ['mvbart', *nightly('t5', 'pegasus', 'bart', 'bart_d_all', 'mbart')]
)
def test_a_summariser_is_fine_tuned_from_a_public_folder(tmp_path, name):
    config, folder = clidsum_summariser.get_config(f'large,model={name}'), tmp_path / 'public'
    family = 'bart' if name == 'mvbart' else config.model.family
    weights = public_folder(folder, family)
    config.init_from = str(folder)
    fields = SIZES if family == 't5' else SIZES | dict(max_positions=1024)
    config.model.update(size='sample', **fields)
    runs.check_config(config)
    mesh = partitioning.make_mesh(data=1, devices=jax.devices()[:1])
    model, objective = runs.build_model(config.model, 128), objectives.build(**config.objective)
    shapes, _ = train_step.params_like(model, objective, mesh)
    plan = init_from.Plan(config.init_from, config.model.family, model, shapes)
    fresh = plan.facts['initialised_fresh']
    assert all(path.startswith('view_weights/') for path in fresh)
    assert bool(fresh) == (name == 'mvbart')
    params = plan.load(train_step.init_params(model, objective, mesh, jax.random.key(0), Lora()))
    flat = traverse_util.flatten_dict(params, sep='/')
    for path, value in weights.items():
        np.testing.assert_array_equal(flat[path], value, err_msg=path)

    stage = config.stages.train
    tx, schedule = optimizers.build(**stage.optimizer, num_steps=stage.num_steps)
    mask = optimizers.trainable_mask(shapes, tuple(config.trainable))
    step = jax.jit(train_step.make_train_step(model, objective, tx, schedule, mask))
    state, rng = train_step.init_state(tx, params, mask), np.random.default_rng(1)
    views = [0, 7, 9, 11, 2], [0, 7, 9, 7, 11, 2]
    inputs = np.array([*views[0], *views[1]] if name == 'mvbart' else views[0], np.int32)
    rows = [{'inputs': inputs, 'targets': np.append(rng.integers(9, 99, 5), 2)} for _ in range(4)]
    batch = features.VIEWS[objective.view](
        rows, features.Layout(dict(inputs=12, targets=8), CONVENTIONS)
    )
    losses = jax.jit(functools.partial(objective.row_losses, model))  # Without dropout.
    before = losses(state.params, batch)['loss'].sum()
    for _ in range(20):
        state, _ = step(state, batch, jax.random.key(2))
    assert losses(state.params, batch)['loss'].sum() < before - 0.01
