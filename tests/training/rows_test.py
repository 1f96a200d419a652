"""config.embedding_rows='occurring' trains what training all rows trains, and nothing else."""

import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import tiny_labels
from flax import traverse_util

from xlbench import config as config_lib, models, train
from xlbench.models.layers import PLACES, Embedding
from xlbench.parallel import partitioning
from xlbench.plan import dry_run
from xlbench.system.errors import UserError
from xlbench.training import checkpoints, objectives, optimizers, train_step
from xlbench.training.rows import Rows

TABLE = 'encoder/token_embedder/embedding'
SIZES = dict(
    vocab_size=640, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=16, num_layers=1, max_positions=8
)
IDS = np.array([0, 3, 7, 100, 639])


def batch(seed):
    rng = np.random.default_rng(seed)
    tokens = rng.choice(IDS, (8, 6)).astype(np.int32)
    return {
        'encoder_input_tokens': tokens,
        'encoder_segment_ids': np.ones_like(tokens),
        'labels': rng.integers(0, 2, 8).astype(np.int32),
        'row_weights': np.ones(8, np.float32),
    }


def trained(rows):
    """Parameters before and after four steps of AdamW with its decay, by name."""
    mesh = partitioning.make_mesh()
    model = models.build('sequence_classifier', **SIZES, dropout_rate=0.0)
    objective = objectives.build('classification')
    params = train_step.init_params(model, objective, mesh, jax.random.key(0))
    before = traverse_util.flatten_dict(jax.device_get(params), sep='/')
    mask = optimizers.trainable_mask(params)
    options = dict(learning_rate=0.01, warmup_steps=0, weight_decay=0.5, clip_norm=1.0)
    tx, schedule = optimizers.build('adamw', num_steps=4, **options)
    state = train_step.init_state(tx, params, mask, rows=rows)
    like = train_step.state_like(tx, *train_step.params_like(model, objective, mesh), mask, rows)
    assert jax.tree.map(jnp.shape, state) == jax.tree.map(lambda x: x.shape, like)
    step = train_step.make_train_step(model, objective, tx, schedule, mask, rows=rows)
    step = train_step.TrainStep(step, jax.random.key(1))
    for seed in range(4):
        state, _ = step(state, partitioning.put_batch(batch(seed), mesh))
    size = sum(x.size for x in jax.tree.leaves(state.opt_state))
    return before, traverse_util.flatten_dict(jax.device_get(state.params), sep='/'), size


def test_it_is_the_same_training_and_rows_that_do_not_occur_stay_to_the_bit():
    rows = Rows.of(IDS, {TABLE: 640})
    before, whole, all_moments = trained(Rows())
    _, part, moments = trained(rows)
    assert whole.keys() == part.keys() and moments == all_moments - 2 * 16 * (640 - 128)
    for name, value in whole.items():
        if not name.endswith('qkv/bias'):  # Keys' have no gradient but noise, which Adam scales.
            occur = IDS if name == TABLE else slice(None)  # Decay shrinks what is trained.
            np.testing.assert_allclose(part[name][occur], value[occur], atol=2e-6, err_msg=name)
    assert np.abs(part[TABLE][IDS] - before[TABLE][IDS]).max() > 0.01
    assert (before[TABLE] != part[TABLE]).any(axis=1).nonzero()[0].tolist() == IDS.tolist()


def test_a_run_says_it_and_goes_on(tmp_path):
    tiny_labels.write_root(tmp_path)
    options = dict(model__vocab_size=640, stages__source__num_steps=4, checkpoints__every=2)
    options |= dict(evals__dev__every=2, embedding_rows='occurring')
    config, workdir = tiny_labels.tiny_config(tmp_path, 'tagging', **options), tmp_path / 'run'
    config_lib.check_names(config)
    planned = [*dry_run.of_run(config, str(workdir))]
    train.train(config, str(workdir))
    log = (workdir / 'log.txt').read_text().splitlines()
    for part in (' of 640 rows occur in the training data', ' of them trained'):
        [said] = [line for line in log if part in line]
        [expected] = [line for line in planned if part in line]
        assert said.endswith(expected)
    total, moved = re.search(r'([\d.]+)k parameters .*, ([\d.]+)k of them', expected).groups()
    count = int(re.search(r'(\d+) of 640 rows', '\n'.join(planned))[1])
    width = checkpoints.read_params(str(workdir), 4, [TABLE])[TABLE].shape[1]
    assert float(total) - float(moved) == pytest.approx((640 - count) * width / 1000, abs=0.2)
    first = checkpoints.read_params(str(workdir), 2, [TABLE])[TABLE]
    last = checkpoints.read_params(str(workdir), 4, [TABLE])[TABLE]
    assert (first != last).any() and (first[50:] == last[50:]).all()
    (workdir / 'DONE').unlink()
    shutil.rmtree(workdir / 'checkpoints' / '4')
    train.train(config, str(workdir))
    again = checkpoints.read_params(str(workdir), 4, [TABLE])[TABLE]
    np.testing.assert_array_equal(again, last)


def test_a_family_whose_table_gives_logits(tiny_root):
    mt5 = tiny.brief_config(tiny_root)
    with mt5.unlocked():
        mt5.embedding_rows = 'occurring'
    with pytest.raises(UserError, match='every step moves all rows of a mt5 model'):
        config_lib.check_names(mt5)


def test_rows_are_found_by_their_ids():
    table, ids = np.arange(1200.0).reshape(400, 3), np.array([2, 5, 399])
    rows = Rows.of(ids, {'e/embedding': 400, 'small/embedding': 120})
    assert rows.sizes == {'e/embedding': 400} and rows.count('e/embedding') == 3
    taken = rows.taken({'e/embedding': jnp.asarray(table)})
    assert taken['e/embedding'].shape == (128, 3)
    leaves = {'embedding': taken['e/embedding'], PLACES: rows.places()[f'e/{PLACES}']}
    looked_up = Embedding(400, 3).apply({'params': leaves}, jnp.array([[399, 2, 7]]))[0]
    np.testing.assert_array_equal(looked_up[:2], table[[399, 2]])
    assert np.isnan(looked_up[2]).all()  # So that a row that is missing is noticed.
    moved = {'e/embedding': -leaves['embedding']}
    whole = rows.put_back({'e/embedding': jnp.asarray(table)}, moved)['e/embedding']
    table[ids] *= -1
    np.testing.assert_array_equal(whole, table)
