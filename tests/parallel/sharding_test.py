"""Eight devices, two along each mesh axis, compute what one device computes."""

import copy
import logging
import re
from unittest import mock

import jax
import numpy as np
import pytest
import tiny

from xlbench import decoding
from xlbench.data import features, prepared
from xlbench.parallel import partitioning
from xlbench.training import losses, train_step

# One optimizer and loss with everything switched on, beside the plain one.
RICH = dict(
    optimizer=dict(name='adafactor', min_dim_size_to_factor=8, clip_norm=1.0),
    objective=dict(label_smoothing=0.1, z_loss=1e-3),
    model=dict(dropout_rate=0.1),
)


def one_device():
    return partitioning.make_mesh(devices=jax.devices()[:1])


def eight_devices():
    return partitioning.make_mesh(data=2, fsdp=2, tensor=2)


def long_texts():
    """Eight devices in place of `eight_devices`, with texts cut along their length."""
    return partitioning.make_mesh(data=1, fsdp=2, sequence=2, tensor=2)


@pytest.fixture(scope='module')
def packed(tiny_root):
    batches = tiny.packed_batches(tiny_root, 3)
    assert all(batch['decoder_segment_ids'].max() > 1 for batch in batches)
    return batches


@pytest.fixture(scope='module')
def single(packed):
    return tiny.Training(one_device(), fresh=True).run(packed)


@pytest.fixture(scope='module')
def sharded(packed):
    return tiny.Training(eight_devices(), fresh=True).run(packed)


def test_losses_and_gradients_equal_those_of_one_device(single, sharded):
    tiny.assert_same_training(single, sharded)
    assert single.losses()[0] != single.losses()[-1]


def test_adafactor_smoothing_z_loss_dropout_and_chunks_too(packed, monkeypatch):
    monkeypatch.setattr(losses, 'LOGITS_AT_ONCE', 128 * 24)  # 64 target tokens are 3 chunks.
    one = tiny.Training(one_device(), **RICH).run(packed)
    tiny.assert_same_training(one, tiny.Training(long_texts(), **RICH).run(packed))
    assert all(float(m['z_loss']) > 0 for m in one.metrics)


def test_accumulation_and_recomputation_change_nothing(packed, sharded):
    other = tiny.Training(eight_devices(), fresh=True, accumulate=2, model=dict(remat='full'))
    tiny.assert_same_training(other.run(packed), sharded)


def test_parameters_and_their_statistics_are_really_cut(sharded):
    shapes = {
        'token_embedder/embedding': ((128, 16), (64, 8)),
        'encoder/layers_0/mlp/wi/kernel': ((2, 32, 16), (2, 16, 8)),
        'decoder/layers_0/self_attention/out/kernel': ((16, 16), (8, 8)),
        'decoder/layers_0/pre_mlp_layer_norm/scale': ((16,), (8,)),
    }
    trainable, _ = tiny.train_step.split_params(sharded.state.params, sharded.mask)
    adam = next(
        state for state in jax.tree.leaves(sharded.state.opt_state, is_leaf=is_adam)
        if is_adam(state)
    )  # fmt: skip
    for name, (whole, part) in shapes.items():
        for leaf in (trainable[name], adam.mu[name], adam.nu[name]):
            assert leaf.shape == whole, name
            assert {shard.data.shape for shard in leaf.addressable_shards} == {part}, name
    kept = {shard.device for shard in sharded.state.step.addressable_shards}
    assert len(kept) == 8


def is_adam(state) -> bool:
    return hasattr(state, 'mu') and hasattr(state, 'nu')


def test_one_compilation_and_the_old_state_is_consumed(packed, sharded, caplog):
    training = copy.copy(sharded)
    training.metrics = []
    training.state = jax.tree.map(
        lambda leaf: jax.device_put(np.array(leaf), leaf.sharding), sharded.state
    )
    first = owned(training)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        training.run(packed)
        second = owned(training)
        training.run(packed)
    finished = [r.getMessage() for r in caplog.records if 'Finished XLA' in r.getMessage()]
    assert not any('train_step' in line for line in finished), finished
    assert len(training.step.compile_seconds) == 1
    assert len(first) > 60 and all(leaf.is_deleted() for leaf in (*first, *second))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(training.state))
    assert int(training.state.step) == 9


def owned(training: tiny.Training) -> list[jax.Array]:
    """All that a step reads of the state; it does not read the gradients kept for the tests."""
    state = training.state
    return jax.tree.leaves((state.step, state.params, state.opt_state[1]))


def test_predictions_and_row_losses_equal_those_of_one_device(tiny_root, sharded):
    task = prepared.open_task(str(tiny_root), 'sample', tiny.QUESTIONS[0], 'test')
    rows = [[record] for record in task.read(range(13))] + [[], [], []]
    conventions = features.Conventions.of(task.manifest)
    batch = features.generation(rows, features.Layout(tiny.LENGTHS, conventions))
    params = jax.device_get(sharded.state.params)
    options = decoding.Options(max_length=8)
    found = []
    model, objective = sharded.model, sharded.objective
    for mesh in (one_device(), long_texts()):

        @jax.jit
        def both(params, batch):
            ids = dict(start_id=0, eos_id=1, pad_id=0)
            result = decoding.decode(model, params, batch, options, **ids)
            return result, objective.row_losses(model, params, batch)

        _, shardings = train_step.params_like(model, objective, mesh)
        placed = jax.device_put(params, shardings)
        with partitioning.activate(mesh):
            result, sums = both(placed, partitioning.put_batch(batch, mesh))
        result = result.tokens[:, 0], result.scores[:, 0]
        found.append(jax.device_get((*result, sums['loss'], sums['weight'])))
    (tokens, scores, nats, weights), others = found
    np.testing.assert_array_equal(tokens, others[0])
    assert len(np.unique(tokens[:13], axis=0)) > 1  # The inputs matter to what is predicted.
    np.testing.assert_allclose(scores[:13], others[1][:13], rtol=1e-5)
    np.testing.assert_allclose(nats, others[2], rtol=1e-5)
    np.testing.assert_array_equal(weights, others[3])
    assert (weights[:13] > 0).all() and (nats[13:] == 0).all()


# ------------------------------------------------------------------------ what devices exchange


@pytest.fixture(scope='module')
def in_columns(packed):
    """The program of a step with the parameters cut along 'embed'."""
    with mock.patch.object(losses, 'LOGITS_AT_ONCE', 128 * 8):
        training = tiny.Training(partitioning.make_mesh(data=2, fsdp=4)).run(packed[:1])
    (program,) = training.step._compiled.values()
    return program.as_text()


def test_activations_are_cut_along_the_batch(in_columns):
    """A layer's sums stay on the device of their row."""
    # [rows, length, embed] of more rows would be an activation that several devices hold.
    assert 'f32[1,24,16]' in in_columns
    assert not re.search(r'f32\[[248],24,16\]', in_columns)


def test_the_gradient_of_a_table_is_exchanged_in_parts(in_columns):
    """Every device gets its columns of the sum; the table is gathered once, not in every chunk."""
    text = in_columns
    reduced = re.findall(r'= (\S+|\(.*?\)) (?:all-reduce|reduce-scatter)\(', text)
    assert any('f32[128,4]' in shape for shape in reduced)  # [vocab, emb_dim / 4]
    assert not any('f32[128,16]' in shape for shape in reduced)
    gathered = [line for line in text.splitlines() if re.search(r' all-gather\(', line)]
    (table,) = (line for line in gathered if 'f32[128,16]' in line)
    assert 'while' not in table
    # Nor is a looked-up text held by those that share the table.
    assert not any(re.search(r'\[8,(24|8|32),16\]', line) for line in gathered)


# ------------------------------------------------------------------------------------- retrieval

RETRIEVAL = dict(name='retrieval', scale=20.0, mask_duplicates=True)


def train_retriever(mesh, batches, **objective) -> tiny.Training:
    return tiny.Training(
        mesh, objective=RETRIEVAL | objective, optimizer=dict(name='sgd'), model=dict(num_layers=1)
    ).run(batches)


@pytest.fixture(scope='module')
def pair_batches():
    return tiny.pair_batches(2, num_rows=40)


@pytest.fixture(scope='module')
def retriever(pair_batches):
    return train_retriever(one_device(), pair_batches)


def test_negatives_come_from_all_devices(pair_batches, retriever):
    eight = train_retriever(partitioning.make_mesh(data=8), pair_batches)
    tiny.assert_same_training(retriever, eight, rtol=1e-5)
    assert retriever.losses()[0] != retriever.losses()[1]
    (program,) = eight.step._compiled.values()
    hlo = program.as_text()
    # Scores [rows of a device, rows] stay where they are; vectors [rows, dim] are gathered.
    assert 'f32[5,40]' in hlo and 'f32[40,40]' not in hlo
    assert re.search(r'f32\[40,16\]\S* all-gather\(', hlo)


def test_cached_gradients_on_eight_devices_equal_plain_ones_on_one(pair_batches, retriever):
    eight = train_retriever(eight_devices(), pair_batches, chunk_rows=20)
    tiny.assert_same_training(retriever, eight, rtol=1e-5)
    (program,) = eight.step._compiled.values()
    # Every quarter of the devices encodes 5 of its 10 rows at a time, and never another's.
    hlo = program.as_text()
    assert 'f32[5,24,16]' in hlo and not re.search(r'f32\[(10|20|40),24,16\]', hlo)
