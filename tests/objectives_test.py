"""The loss of an example does not depend on what else is in the batch."""

import jax
import numpy as np
import pytest
import tiny

from xlbench import features, objectives, prepared
from xlbench.errors import UserError

MODEL = tiny.tiny_model()


@pytest.fixture(scope='module')
def examples(tiny_root):
    """Three examples for a row each of the lists that are packed."""
    task = prepared.open_task(str(tiny_root), 'sample', tiny.QUESTIONS[1], 'train')
    return task, task.read(range(9))


def build(task, rows, lengths):
    conventions = features.Conventions.of(task.manifest)
    return features.generation(rows, lengths=lengths, conventions=conventions)


@pytest.fixture(scope='module')
def params():
    objective = objectives.build()
    init = jax.jit(MODEL.init)
    boxed = init(jax.random.key(3), *objective.example_inputs())['params']
    params = jax.tree.map(lambda leaf: leaf.value, boxed, is_leaf=lambda x: hasattr(x, 'value'))
    for stack in ('encoder', 'decoder'):  # At the scale of trained models: a wrong mask is seen.
        params[stack]['relpos_bias']['rel_embedding'] *= 5.0
    return params


@pytest.fixture(scope='module')
def compute(params):
    """A function from a batch to (sums, gradients, sums of each row)."""
    objective = objectives.build('generation', label_smoothing=0.0, z_loss=1e-2)

    @jax.jit
    def run(batch):
        def loss_fn(params):
            sums = objective.loss(MODEL, params, batch, None)
            return sums['loss'], sums

        gradients, sums = jax.grad(loss_fn, has_aux=True)(params)
        return sums, gradients, objective.row_losses(MODEL, params, batch)

    return lambda batch: jax.device_get(run(batch))


@pytest.fixture(scope='module')
def alone(examples, compute):
    task, records = examples
    return compute(build(task, [[record] for record in records], tiny.LENGTHS))


def assert_same_sums(one, other) -> None:
    for name in ('loss', 'z_loss', 'accuracy', 'weight', 'tokens', 'examples'):
        np.testing.assert_allclose(one[0][name], other[0][name], rtol=1e-5, err_msg=name)

    def assert_close(left, right):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5 * np.abs(left).max())

    jax.tree.map(assert_close, one[1], other[1])


def test_a_packed_example_has_the_loss_that_it_has_alone(examples, compute, alone):
    task, records = examples
    rows = [records[0:3], records[3:6], records[6:9]]
    packed = build(task, rows, {'inputs': 80, 'targets': 30})
    assert packed['encoder_segment_ids'].max() == 3
    assert_same_sums(compute(packed), alone)
    expected = alone[2]['loss'].reshape(3, 3)
    for segment in (1, 2, 3):
        # The same rows, but only one example of each is counted.
        chosen = packed['decoder_segment_ids'] == segment
        sums = compute(packed | {'decoder_loss_weights': chosen.astype(np.float32)})[2]
        np.testing.assert_allclose(sums['loss'], expected[:, segment - 1], rtol=1e-5)
        np.testing.assert_array_equal(sums['weight'], chosen.sum(1))
    assert len(np.unique(expected.round(3))) > 5


def test_width_and_empty_rows_change_nothing(examples, compute, alone):
    task, records = examples
    rows = [[]] + [[record] for record in records] + [[], []]
    wide = compute(build(task, rows, {'inputs': 41, 'targets': 13}))
    assert_same_sums(wide, alone)
    np.testing.assert_allclose(wide[2]['loss'][1:10], alone[2]['loss'], rtol=1e-5)
    assert (wide[2]['loss'][[0, 10, 11]] == 0).all() and (wide[2]['weight'][[0, 10, 11]] == 0).all()


def test_the_sums_say_what_is_in_the_batch(examples, alone):
    _, records = examples
    sums, _, rows = alone
    targets = [len(record['targets']) for record in records]
    inputs = [len(record['inputs']) for record in records]
    assert sums['weight'] == sum(targets) and rows['weight'].tolist() == targets
    assert sums['tokens'] == sum(targets) + sum(inputs)
    assert sums['examples'] == 9
    assert sums['positions'] == 9 * (24 + 8)
    # Nothing is learnt yet: about as good as a guess among 128 ids, and never better than 0.
    assert 3 < (sums['loss'] - sums['z_loss']) / sums['weight'] < 12
    np.testing.assert_allclose(rows['loss'].sum(), sums['loss'] - sums['z_loss'], rtol=1e-5)


def test_a_reference_of_plain_log_softmax(examples, params, alone):
    task, records = examples
    batch = build(task, [[record] for record in records], tiny.LENGTHS)
    logits = jax.jit(MODEL.apply)(
        {'params': params}, batch['encoder_input_tokens'], batch['decoder_input_tokens'],
        batch['encoder_segment_ids'], batch['decoder_segment_ids'],
    )  # fmt: skip
    logits = np.asarray(logits, np.float64)
    nats = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
        logits, batch['decoder_target_tokens'][..., None], -1
    ).squeeze(-1)
    expected = (nats * batch['decoder_loss_weights']).sum(1)
    np.testing.assert_allclose(alone[2]['loss'], expected, rtol=1e-5)


def test_unknown_objective():
    with pytest.raises(UserError, match="unknown objective 'generate'; nearest: generation"):
        objectives.build('generate')
