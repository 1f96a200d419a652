"""Texts cut in parts along their length, on several replicas: what one device computes."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
import tiny
from nightly import nightly

from xlbench import decoding, models
from xlbench.parallel import partitioning
from xlbench.plan import hlo
from xlbench.training import objectives, train_step
from xlbench.training.objectives import generation


def test_of_other_positions_a_device_holds_keys_and_values_only():
    """Eight devices, each with 6 of 48 positions in the encoder, and 2 of 16 in the decoder."""
    fields = dict(emb_dim=80, num_heads=4, head_dim=20, mlp_dim=112)
    training = tiny.Training(partitioning.make_mesh(data=1, sequence=8), model=fields)
    names = [f'{side}_{kind}' for side, kinds in (
        ('encoder', ('input_tokens', 'segment_ids', 'positions')),
        ('decoder', ('input_tokens', 'segment_ids', 'positions', 'target_tokens', 'loss_weights')),
    ) for kind in kinds]  # fmt: skip
    batch = {
        name: np.ones((2, 48 if name.startswith('encoder') else 16), np.int32) for name in names
    }
    training.run([batch])
    (program,) = training.step._compiled.values()
    shapes = set(re.findall(r'\b[a-z]+\d+\[([\d,]+)\]', program.as_text()))
    assert {'2,6,80', '2,6,112', '2,4,6,48', '2,2,80', '2,4,2,48', '2,4,48,20'} <= shapes
    # Rows x positions x features, weights for all queries, biases for all queries.
    whole = {'2,48,80', '2,48,112', '2,4,48,48', '1,4,48,48', '4,48,48', '2,16,80', '1,32,128'}
    assert not whole & shapes


SIZES = dict(vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32)
DRY = dict(dropout_rate=0.0, attention_dropout_rate=0.0)
FAMILIES = {
    'mbart': ('generation', dict(num_encoder_layers=1, num_decoder_layers=1, max_positions=32)),
    'encoder_decoder': ('generation', dict(num_layers=1, max_positions=32)),
    'token_classifier': ('tagging', dict(num_layers=1, max_positions=32, num_labels=3)),
    'dual_encoder': ('retrieval', dict(num_layers=1, max_positions=32)),
}


@pytest.mark.parametrize(
    'family', ['mbart', 'dual_encoder', *nightly('encoder_decoder', 'token_classifier')]
)
def test_every_family_computes_the_same_with_texts_cut_in_parts(family, tiny_root):
    """Losses and gradients; for one of them also the texts of a beam search."""
    name, fields = FAMILIES[family]
    model = models.build(family, 'sample', **SIZES | fields | DRY)
    (batch,) = tiny.packed_batches(tiny_root, 1)
    if name == 'retrieval':
        (batch,) = tiny.pair_batches(1)
    if name == 'tagging':
        drawn = np.random.default_rng(0).integers(0, 3, batch['encoder_segment_ids'].shape)
        batch = {key: x for key, x in batch.items() if key.startswith('encoder')}
        weights = (batch['encoder_segment_ids'] > 0).astype(np.float32)
        batch |= dict(labels=drawn.astype(np.int32), label_weights=weights)
    meshes = [
        partitioning.make_mesh(devices=jax.devices()[:1]),
        partitioning.make_mesh(replica=2, data=1, sequence=2, tensor=2),
    ]
    if family == 'mbart':  # Where fsdp cuts the table, too, whose gradient is exchanged in parts.
        meshes.append(partitioning.make_mesh(data=2, fsdp=2, sequence=2))
    found, objective = [], objectives.build(name)
    for mesh in meshes:
        texts = family == 'mbart' and len(found) < 2
        shapes, shardings = train_step.params_like(model, objective, mesh)

        def outputs(params, batch, texts=texts):
            def loss(params):
                return objective.loss(model, params, batch, None)['loss']

            losses_and_gradients = jax.value_and_grad(loss)(params)
            if not texts:
                return losses_and_gradients
            ids = dict(start_id=0, eos_id=1, pad_id=0)
            options = decoding.Options(method='beam', num_beams=2, max_length=4)
            decoded = decoding.decode(model, params, batch, options, **ids)
            return *losses_and_gradients, decoded.tokens

        with partitioning.activate(mesh):
            placed = jax.device_put(references.like(shapes), shardings)
            result = jax.jit(outputs)(placed, partitioning.put_batch(batch, mesh))
        found.append(jax.device_get(result))
    one, *others = found
    for other in others:
        np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
        tiny.assert_close(one[1], other[1])
        np.testing.assert_array_equal(one[2 : len(other)], other[2:])


def test_tokens_of_a_device_stay_there_when_rows_and_positions_become_one_axis():
    mesh = partitioning.make_mesh(data=2, fsdp=2, sequence=2)
    x = jnp.arange(8 * 4, dtype=jnp.float32).reshape(8, 4)

    def flat(x):
        blocks = generation.Blocks(data=2, sequence=2, fsdp=2)
        tokens = generation.tokens_of(x, blocks)
        tokens = nn.with_logical_constraint(tokens, ('tokens',))
        return tokens, generation.rows_of(tokens, x.shape, blocks)

    with partitioning.activate(mesh):
        placed = jax.device_put(x, partitioning.batch_sharding(mesh, x.shape))
        compiled = jax.jit(flat).lower(placed).compile()
        tokens, rows = compiled(placed)
    assert hlo.parse(compiled.as_text(), 8).collectives == ()
    np.testing.assert_array_equal(rows, x)
    held = {s.device: set(np.ravel(s.data)) for s in placed.addressable_shards}
    assert all(set(np.ravel(s.data)) == held[s.device] for s in tokens.addressable_shards)
