"""One optimizer step: against numpy on a linear model, and what must not move in a real one."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from xlbench.data import features
from xlbench.parallel import partitioning, programs
from xlbench.system import machine
from xlbench.training import loop, memory, messages, optimizers, train_step


class Linear(nn.Module):
    """x [rows, 3] -> [rows]; a matrix and an offset."""

    @nn.compact
    def __call__(self, x):
        kernel_init = nn.with_logical_partitioning(nn.initializers.ones, ('embed', None))
        kernel = self.param('kernel', kernel_init, (4, 1))
        offset = self.param('offset', nn.initializers.zeros, (1,))
        return (x @ kernel)[:, 0] + offset


@dataclasses.dataclass(eq=False)
class Squares:
    """The weighted sum of squared errors; notes which logical rules it was traced under."""

    rules: list = dataclasses.field(default_factory=list)

    def example_inputs(self):
        return (jnp.zeros((1, 4)),)

    def weight(self, batch):
        return jnp.sum(batch['weights'])

    def loss(self, model, params, batch, rng):
        self.rules.append(nn.get_logical_axis_rules())
        errors = model.apply({'params': params}, batch['x']) - batch['y']
        return {
            'loss': jnp.sum(batch['weights'] * errors**2),
            'weight': jnp.sum(batch['weights']),
            'noise': jax.random.uniform(rng),
        }


def batch(rows: int = 16, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = {
        'x': rng.normal(size=(rows, 4)),
        'y': rng.normal(size=rows),
        'weights': rng.integers(0, 3, rows),
    }
    return {name: value.astype(np.float32) for name, value in values.items()}


def make(trainable=('.*',), first_step=0, skip=False, accumulate=1, **options):
    """(state, step, objective, mesh) of the linear model on all devices."""
    mesh = partitioning.make_mesh(fsdp=2)
    model, objective = Linear(), Squares()
    shapes, _ = train_step.params_like(model, objective, mesh)
    mask = optimizers.trainable_mask(shapes, trainable)
    params = train_step.init_params(model, objective, mesh, jax.random.key(0))
    tx, schedule = optimizers.build('sgd', learning_rate=0.1, warmup_steps=4, num_steps=8)
    tx = optimizers.skip_nonfinite(tx) if skip else tx
    state = train_step.init_state(tx, params, mask, first_step)
    step = train_step.make_train_step(
        model, objective, tx, schedule, mask, first_step=first_step, accumulate=accumulate
    )
    step = train_step.TrainStep(step, jax.random.key(1), **options)
    return state, step, objective, mesh


def test_what_is_compiled_ahead_makes_the_same_parameters_and_the_same_step():
    state, step, objective, mesh = make()
    initialise = train_step.Initialiser(Linear(), objective, mesh, None)
    initialise.compile_ahead(jax.random.key(9))
    params = initialise(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, params, state.params)
    assert jax.tree.map(lambda x: x.sharding, params) == initialise.shardings
    data = partitioning.put_batch(batch(), mesh)
    later = make()
    like = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )
    later[1].lower(like, data)
    expected, others = step(state, data), later[1](later[0], data)
    jax.tree.map(np.testing.assert_array_equal, expected, others)
    assert len(later[1].compile_seconds) == 1


def by_hand(kernel, offset, data, rate):
    """(kernel, offset, gradient norm) after a step, in float64."""
    data = {name: value.astype(np.float64) for name, value in data.items()}
    errors = data['x'] @ kernel[:, 0] + offset - data['y']
    slope = 2 * data['weights'] * errors / data['weights'].sum()
    d_kernel, d_offset = (slope @ data['x'])[:, None], slope.sum()[None]
    norm = np.sqrt((d_kernel**2).sum() + (d_offset**2).sum())
    return kernel - rate * d_kernel, offset - rate * d_offset, norm


@pytest.mark.parametrize('accumulate', [1, 2])
def test_steps_are_gradient_descent_on_the_mean(accumulate):
    state, step, _, mesh = make(accumulate=accumulate, first_step=100)
    kernel, offset = np.ones((4, 1)), np.zeros(1)
    for index, rate in enumerate([0.025, 0.05, 0.075]):  # The schedule begins at the first step.
        data = batch(seed=index)
        state, metrics = step(state, partitioning.put_batch(data, mesh))
        kernel, offset, norm = by_hand(kernel, offset, data, rate)
        assert float(metrics['learning_rate']) == pytest.approx(rate)
        assert float(metrics['grad_norm']) == pytest.approx(norm, rel=1e-5)
        assert float(metrics['weight']) == data['weights'].sum()
    np.testing.assert_allclose(state.params['kernel'], kernel, rtol=1e-5)
    np.testing.assert_allclose(state.params['offset'], offset, rtol=1e-5)
    assert int(state.step) == 103


@pytest.mark.parametrize('poison', [{'y': np.nan}, {'weights': np.inf}, {'y': 1e30}])
def test_a_step_that_is_not_finite_moves_nothing(poison):
    """Of 1e30 the loss is finite in float64 alone."""
    state, step, _, mesh = make(skip=True)
    bad = batch() | {name: np.full(16, value, np.float32) for name, value in poison.items()}
    rates, finite = [], []
    for data in (batch(), bad, bad, batch(seed=1)):
        before = jax.device_get(state)
        state, metrics = step(state, partitioning.put_batch(data, mesh))
        rates.append(float(metrics['learning_rate']))
        finite.append(bool(metrics['finite']))
        after = jax.device_get(state)
        same = (after.params, after.opt_state.inner), (before.params, before.opt_state.inner)
        if not finite[-1]:
            jax.tree.map(np.testing.assert_array_equal, *same)
    assert finite == [True, False, False, True]
    assert rates[0] == pytest.approx(0.025) and rates[3] == pytest.approx(0.05)
    assert (int(state.step), int(state.opt_state.skipped)) == (4, 2)
    expected, step, _, _ = make()
    for data in (batch(), batch(seed=1)):
        expected, _ = step(expected, partitioning.put_batch(data, mesh))
    jax.tree.map(np.testing.assert_array_equal, state.params, expected.params)


def test_the_shapes_of_a_state_without_one():
    """What a checkpoint is restored like is what a run begins with."""
    state, _, objective, mesh = make(skip=True, first_step=3)
    tx, _ = optimizers.build('sgd', learning_rate=0.1, warmup_steps=4, num_steps=8)
    shapes, shardings = train_step.params_like(Linear(), objective, mesh)
    mask = optimizers.trainable_mask(shapes)
    like = train_step.state_like(optimizers.skip_nonfinite(tx), shapes, shardings, mask)
    jax.tree.map(
        lambda a, b: np.testing.assert_equal(
            (a.shape, a.dtype, a.sharding), (b.shape, b.dtype, b.sharding)
        ),
        like,
        state,
    )


@pytest.mark.parametrize('accumulate', [1, 2])
def test_dropout_s_key_is_of_the_step_and_not_of_the_process(accumulate):
    def noise(first_step, count):
        state, step, _, mesh = make(first_step=first_step, accumulate=accumulate)
        found = []
        for _ in range(count):
            state, metrics = step(state, partitioning.put_batch(batch(), mesh))
            found.append(float(metrics['noise']))
        return found

    everything = noise(0, 4)
    assert len(set(everything)) == 4
    assert noise(2, 2) == everything[2:]  # As after a restart.
    parts = accumulate * [jax.random.uniform(jax.random.fold_in(jax.random.key(1), 0))]
    if accumulate > 1:  # Each part has a key of its own.
        assert abs(everything[0] - float(sum(parts))) > 1e-3


def test_each_shape_is_compiled_once_under_the_rules_of_the_mesh():
    said = []
    state, step, objective, mesh = make(on_compile=said.append)
    for rows in (16, 16, 24, 16, 24):
        state, _ = step(state, partitioning.put_batch(batch(rows), mesh))
    assert len(step.compile_seconds) == 2 and said == [step, step]
    assert step.flops > 0 and step.memory.argument_size_in_bytes > 0
    assert len(objective.rules) == 2
    assert all(('embed', 'fsdp') in rules for rules in objective.rules)
    assert not nn.get_logical_axis_rules()  # Nothing leaks out of the step.
    assert state.params['kernel'].sharding.spec[0] == 'fsdp'


def test_frozen_parameters_stay_bit_for_bit_and_have_no_statistics(tiny_root):
    training = tiny.Training(
        partitioning.make_mesh(devices=jax.devices()[:1]),
        trainable=('decoder/.*', 'logits_dense/kernel'),
    )
    before = jax.device_get(training.state.params)
    training.run(tiny.packed_batches(tiny_root, 3))
    after = jax.device_get(training.state.params)
    moved, kept = train_step.split_params(after, training.mask)
    first_moved, first_kept = train_step.split_params(before, training.mask)
    assert sorted({name.split('/')[0] for name in kept}) == ['encoder', 'token_embedder']
    for name, value in kept.items():
        assert value.tobytes() == first_kept[name].tobytes(), name
    for name, value in moved.items():
        assert not np.array_equal(value, first_moved[name]), name
    assert training.gradients.keys() == moved.keys()
    sizes = sum(value.size for value in moved.values())
    statistics = [leaf.size for leaf in jax.tree.leaves(training.state.opt_state) if leaf.ndim]
    assert sum(statistics) == 3 * sizes  # Adam's two, and the gradients that the test keeps.


def test_split_and_merge_are_inverse():
    params = {'a': {'x': 1, 'y': 2}, 'b': 3}
    mask = {'a': {'x': True, 'y': False}, 'b': True}
    trainable, frozen = train_step.split_params(params, mask)
    assert (trainable, frozen) == ({'a/x': 1, 'b': 3}, {'a/y': 2})
    assert train_step.merge_params(trainable, frozen) == params


def test_a_batch_of_padding_alone_changes_nothing(tiny_root):
    training = tiny.Training(partitioning.make_mesh(devices=jax.devices()[:1]))
    real = tiny.packed_batches(tiny_root, 1)
    conventions = features.Conventions(pad_id=0, eos_id=1, decoder_start_id=0, vocab_size=128)
    empty = features.generation([[]] * 8, features.Layout(tiny.LENGTHS, conventions))
    assert {name: value.shape for name, value in empty.items()} == {
        name: value.shape for name, value in real[0].items()
    }
    before = jax.device_get(training.state.params)
    training.run([empty])
    assert training.metrics[0]['loss'] == training.metrics[0]['grad_norm'] == 0
    jax.tree.map(np.testing.assert_array_equal, before, jax.device_get(training.state.params))
    training.run([*real, empty])
    leaves = jax.tree.leaves(jax.device_get((training.state, training.metrics)))
    assert all(np.isfinite(leaf).all() for leaf in leaves)
    row = train_step.window_metrics(training.metrics)
    assert row['examples'] > 8 and 0 < row['real_token_share'] < 1 / 3


def test_a_window_divides_its_sums_once():
    def metrics(loss, weight, rate):
        return {
            'loss': np.float32(loss), 'accuracy': np.float32(1), 'weight': np.float32(weight),
            'tokens': np.float32(2 * weight), 'examples': np.float32(2),
            'positions': np.float32(100), 'grad_norm': np.float32(rate * 10),
            'learning_rate': np.float32(rate), 'finite': np.True_,
        }  # fmt: skip

    row = train_step.window_metrics([metrics(10, 10, 0.5), metrics(90, 30, 0.25)])
    assert row == {
        'loss': 2.5, 'accuracy': 0.05, 'grad_norm': 2.5, 'learning_rate': 0.25, 'tokens': 80.0,
        'examples': 4.0, 'real_token_share': 0.4,
    }  # fmt: skip
    assert train_step.window_metrics([metrics(0, 0, 1.0)])['loss'] == 0.0


def test_first_steps_return_memory_that_later_ones_keep(monkeypatch):
    done = []
    calls = []
    monkeypatch.setattr(train_step, '_RETURNING_AGAIN', 10)
    monkeypatch.setattr(train_step.machine, 'return_freed_memory', lambda: calls.append(len(done)))

    def keep(step):
        step.keeps_memory = True

    state, step, _, mesh = make(on_compile=keep)
    data = partitioning.put_batch(batch(), mesh)
    while len(done) < 20:
        state, metrics = step(state, data)
        done.append(metrics)
    # Steps before the one that has just ended; at first the step has just been compiled.
    assert calls == [0, *range(6), 9, 19]
    step.keeps_memory = False
    while len(done) < 30:
        state, metrics = step(state, data)
        done.append(metrics)
    assert len(calls) == 9


def test_memory_is_kept_by_inline_steps_with_room_for_what_they_free_twice(monkeypatch):
    class Stats:
        argument_size_in_bytes = output_size_in_bytes = alias_size_in_bytes = 10
        temp_size_in_bytes = 20

    monkeypatch.setattr(machine, 'keep_freed_memory', lambda: True)
    monkeypatch.setattr(machine, 'memory', lambda: 50)
    mesh = partitioning.make_mesh(devices=jax.devices()[:1])
    monkeypatch.setattr(programs, 'inline', False)
    assert not memory.keep_freed(Stats, mesh)
    monkeypatch.setattr(programs, 'inline', True)
    assert memory.keep_freed(Stats, mesh)
    assert not memory.keep_freed(None, mesh)
    monkeypatch.setattr(machine, 'memory', lambda: 49)
    assert not memory.keep_freed(Stats, mesh)


def test_the_clock_leaves_out_evaluation_and_counts_waiting(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(loop.time, 'monotonic', lambda: now[0])

    def sleep(seconds):
        now[0] += seconds

    clock = loop.Clock()
    sleep(6)
    with clock.spent('input'):
        sleep(2)
    with clock.spent('evaluation'):
        sleep(50)
    assert clock.window() == (8.0, 0.25)
    sleep(5)
    assert clock.window() == (5.0, 0.0)
    assert clock.window()[0] > 0  # Nobody divides by zero.


def test_the_progress_line():
    values = {
        'loss': 3.14159, 'learning_rate': 1e-3, 'tokens_per_second': 45_678.0,
        'examples_per_second': 123.4, 'input_wait': 0.0123,
    }  # fmt: skip
    assert messages.step_line(50, 900, 'stage1', values, 125) == (
        'stage1 50/900 | loss 3.1416 | lr 1.00e-03 | 45.7k tokens/s | 123.4 examples/s | '
        'input wait 1.2% | 2m05s left'
    )
    assert '| MFU 41.5% |' in messages.step_line(50, 900, 'stage1', values | {'mfu': 0.415}, 1)
