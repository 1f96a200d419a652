"""Schedules at hand-computed steps; Adafactor against its paper's formulas; who is decayed."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util

from xlbench import models
from xlbench.models import lora
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.training import objectives, optimizers, train_step


@pytest.mark.parametrize(
    'options, steps, expected',
    [
        ('constant num_steps=10', [0, 5, 99], [8, 8, 8]),
        ('constant warmup_steps=4 num_steps=10', [0, 1, 3, 4, 9], [2, 4, 8, 8, 8]),
        ('constant warmup_steps=1 num_steps=10', [0, 1], [8, 8]),
        ('linear num_steps=8', [0, 1, 4, 7, 8], [8, 7, 4, 1, 0]),
        (
            'linear warmup_steps=2 num_steps=10 final_fraction=0.5',
            [0, 1, 2, 6, 10, 20], [4, 8, 8, 6, 4, 4],
        ),
        # Half a cosine: 8 * (1 + cos(pi * t)) / 2 at t = 0, 1/4, 1/2, 1.
        ('cosine num_steps=4', [0, 1, 2, 4], [8, 6.82843, 4, 0]),
        ('cosine warmup_steps=4 num_steps=8 final_fraction=0.25', [0, 3, 4, 6, 8], [2, 8, 8, 5, 2]),
        # 8 * sqrt(4 / step) after a warm-up of 4.
        ('inverse_sqrt warmup_steps=4 num_steps=9', [0, 3, 4, 16, 64], [2, 8, 8, 4, 2]),
        ('inverse_sqrt num_steps=9', [0, 3, 15], [8, 4, 2]),
        # A quarter every 2 steps, after a warm-up of 2: 8 / 2 at the first step after it.
        (
            'exponential warmup_steps=2 num_steps=9 decay_rate=0.25 decay_steps=2',
            [0, 1, 2, 3, 5], [4, 8, 4, 2, 0.5],
        ),
        # A warm-up that is a share of the stage, or as many steps.
        ('constant warmup_steps=0.1 num_steps=40', [0, 1, 3, 4], [2, 4, 8, 8]),
        ('constant warmup_steps=4.0 num_steps=40', [0, 1, 3, 4], [2, 4, 8, 8]),
        ('constant warmup_steps=40 num_steps=40', [0, 39], [0.2, 8]),
    ],
)  # fmt: skip
def test_schedules_by_hand(options, steps, expected):
    name, *words = options.split()
    given = {key: json.loads(value) for key, value in (word.split('=') for word in words)}
    _, schedule = optimizers.build('sgd', learning_rate=8.0, schedule=name, **given)
    assert [round(float(schedule(step)), 5) for step in steps] == expected


def test_the_schedule_of_mrs(golden):
    """Rates of the official code, which counts steps from 1."""
    for case in golden('mrs_lr'):
        given = case['inputs']
        _, schedule = optimizers.build(
            'sgd', schedule='exponential', learning_rate=given['base_lr'],
            warmup_steps=round(given['warmup'] * given['total_steps']),
            num_steps=given['total_steps'],
            decay_rate=given['decay_rate'], decay_steps=given['decay_steps'],
        )  # fmt: skip
        found = [float(schedule(step - 1)) for step in given['steps']]
        np.testing.assert_allclose(found, case['expected'], rtol=1e-6)


def test_schedules_work_inside_jit():
    _, schedule = optimizers.build('adamw', schedule='inverse_sqrt', warmup_steps=4, num_steps=9)
    values = jax.jit(jax.vmap(schedule))(jnp.arange(20))
    np.testing.assert_allclose(values, [float(schedule(i)) for i in range(20)], rtol=1e-6)


def constant(name, learning_rate, **options):
    """An optimizer whose rate stays."""
    options = dict(schedule='constant', num_steps=9) | options
    return optimizers.build(name, learning_rate=learning_rate, **options)[0]


def apply(tx, params, *gradients):
    """The parameters after a step with each of the gradients."""
    state = tx.init(params)
    for gradient in gradients:
        updates, state = tx.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
    return params


def test_clipping_is_by_the_norm_of_all_gradients_together():
    params = {'a': jnp.zeros(2), 'b': jnp.zeros(1)}
    gradients = {'a': jnp.array([3.0, 0.0]), 'b': jnp.array([4.0])}  # Of norm 5.
    clipped = constant('sgd', 1.0, clip_norm=2.5)
    assert apply(clipped, params, gradients)['a'].tolist() == [-1.5, 0]
    assert apply(clipped, params, gradients)['b'].tolist() == [-2]
    for norm in (0.0, 5.5):
        free = constant('sgd', 1.0, clip_norm=norm)
        assert apply(free, params, gradients)['a'].tolist() == [-3, 0]


def adafactor_by_hand(param, gradients, rate, factored):
    """Algorithms 4 and 5 of arXiv:1804.04235 with T5's settings, in float64."""
    param = param.astype(np.float64)
    rows = columns = second = 0.0
    for t, gradient in enumerate(gradients, start=1):
        gradient = gradient.astype(np.float64)
        beta = 1 - t**-0.8
        square = gradient**2 + 1e-30
        if factored:
            rows = beta * rows + (1 - beta) * square.sum(1)
            columns = beta * columns + (1 - beta) * square.sum(0)
            second = np.outer(rows, columns) / rows.sum()
        else:
            second = beta * second + (1 - beta) * square
        update = gradient / np.sqrt(second)
        update /= max(1.0, np.sqrt((update**2).mean()) / 1.0)
        scale = max(1e-3, np.sqrt((param**2).mean()))
        param = param - rate * scale * update
    return param


def test_adafactor_is_the_paper_s():
    rng = np.random.default_rng(0)
    params = {
        'matrix': rng.normal(size=(4, 6)),
        'vector': 1e-5 * rng.normal(size=5),  # Below the least scale of a step.
        'thin': rng.normal(size=(3, 6)),  # Too thin to be factored.
    }
    params = {name: value.astype(np.float32) for name, value in params.items()}
    gradients = [
        {name: rng.normal(size=p.shape).astype(np.float32) * 10**i for name, p in params.items()}
        for i in range(3)
    ]
    tx = constant('adafactor', 0.01, min_dim_size_to_factor=4)
    found = apply(tx, params, *gradients)
    for name, param in params.items():
        expected = adafactor_by_hand(param, [g[name] for g in gradients], 0.01, name == 'matrix')
        np.testing.assert_allclose(found[name], expected, rtol=2e-5, err_msg=name)
        assert not np.allclose(found[name], param, rtol=1e-3)
    statistics = sorted(leaf.shape for leaf in jax.tree.leaves(tx.init(params)) if leaf.size > 1)
    assert statistics == [(3, 6), (4,), (5,), (6,)]


def test_adafactor_factors_each_part_of_a_fused_kernel_alone():
    """Second moments of q, k and v in one array are those of three arrays."""
    rng = np.random.default_rng(1)
    fused = {'qkv': jnp.asarray(rng.normal(size=(3, 8, 8)), jnp.float32)}
    gradient = {'qkv': jnp.asarray(rng.normal(size=(3, 8, 8)) * [[[1]], [[5]], [[25]]])}
    options = dict(min_dim_size_to_factor=4, multiply_by_parameter_scale=False)
    tx = constant('adafactor', 1.0, clipping_threshold=None, **options)
    found = apply(tx, fused, gradient)['qkv']
    for i in range(3):
        single = apply(tx, {'x': fused['qkv'][i]}, {'x': gradient['qkv'][i]})['x']
        np.testing.assert_allclose(found[i], single, rtol=1e-5)


def test_decay_leaves_biases_and_norms_alone():
    params = {
        'kernel': jnp.full((2, 2), 3.0), 'scale': jnp.full(2, 3.0), 'stack': jnp.ones((2, 2, 2)),
        'qkv': {'kernel': jnp.full((3, 2, 2), 2.0), 'bias': jnp.full((3, 2), 2.0)},
    }  # fmt: skip
    zeros = jax.tree.map(jnp.zeros_like, params)
    for tx, share in (
        (constant('adamw', 0.1, weight_decay=0.5), 1 - 0.1 * 0.5),
        (constant('adafactor', 0.1, weight_decay_rate=0.5), 1 - 0.5),
    ):
        found = apply(tx, params, zeros)
        np.testing.assert_allclose(found['kernel'], 3.0 * share)
        np.testing.assert_allclose(found['stack'], share)
        np.testing.assert_allclose(found['qkv']['kernel'], 2.0 * share)
        assert (found['scale'] == 3.0).all() and (found['qkv']['bias'] == 2.0).all()


def test_every_family_s_biases_and_norms_keep_their_size():
    """The biases of q, k and v are one array of rank 2, and no matrix."""
    objective_of = dict(
        dual_encoder='retrieval', sequence_classifier='classification', token_classifier='tagging'
    )
    ranks, mesh = set(), partitioning.make_mesh()
    for family in models.FAMILIES:
        if family == 'bert':  # An encoder alone is not an objective's; it is in four of the others.
            continue
        fields = {key: 1 for key in models.SIZES[family]['sample'] if key.endswith('_layers')}
        fields |= {'num_labels': 3} if family.endswith('classifier') else {}
        model = models.build(family, 'sample', vocab_size=128, **fields)
        objective = objectives.build(objective_of.get(family, 'generation'))
        shapes, _ = train_step.params_like(model, objective, mesh, lora.Lora(rank=2))
        flat = traverse_util.flatten_dict(shapes, sep='/')  # As the train step has it.
        mask = optimizers.decayed(flat)
        for name, decay in mask.items():
            leaf = name.rpartition('/')[2]
            kept = leaf in ('bias', 'final_logits_bias', 'scale', 'lora_scale')
            matrix = leaf in ('kernel', 'embedding', 'rel_embedding', 'lora_a', 'lora_b')
            assert kept != matrix, f'a new kind of parameter: {name}'
            assert decay == matrix, f'{family} {name}'
            if leaf == 'bias':
                ranks.add(len(flat[name].shape))
        nested = optimizers.decayed(shapes)
        assert traverse_util.flatten_dict(nested, sep='/') == mask
    assert {1, 2} <= ranks


def test_adam_s_first_step_is_the_rate_and_sgd_remembers():
    params, gradient = {'x': jnp.array([1.0, 1.0])}, {'x': jnp.array([4.0, -0.01])}
    for name in ('adam', 'adamw'):
        found = apply(constant(name, 0.1), params, gradient)['x']
        np.testing.assert_allclose(found, [0.9, 1.1], rtol=1e-5)
    found = apply(constant('sgd', 0.1, momentum=0.5), params, gradient, gradient)['x']
    np.testing.assert_allclose(found, [0.0, 1.0025], atol=1e-6)  # 0.1 * (g + 1.5 g) is taken off.


WITH_MOMENTUM = dict(momentum=0.9, min_dim_size_to_factor=64, multiply_by_parameter_scale=False)


@pytest.mark.parametrize(
    'name, options, kept',
    [
        # Bytes for each of 64 x 64 parameters: first and second moment.
        ('adam', {}, 8),
        ('adam', dict(moments_dtype='bfloat16'), 6),
        ('adamw', dict(moments_dtype='bfloat16'), 6),
        ('adafactor', WITH_MOMENTUM, 4),
        ('adafactor', WITH_MOMENTUM | dict(moments_dtype='bfloat16'), 2),
    ],
)
def test_moments_in_bfloat16_take_half_and_still_learn(name, options, kept):
    """A regression whose features differ by factors of 30: a matrix is found to a few percent."""
    rng = np.random.default_rng(0)
    scales = np.geomspace(0.2, 6.0, 64)
    inputs = jnp.asarray(rng.normal(size=(256, 64)) * scales, jnp.float32)
    outputs = inputs @ jnp.asarray(rng.normal(size=(64, 64)) / scales[:, None], jnp.float32)
    tx, _ = optimizers.build(
        name, learning_rate=0.1, schedule='linear', warmup_steps=5, num_steps=200, **options
    )
    params = {'x': jnp.zeros((64, 64))}
    state = tx.init(params)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(state)) // 64**2 == kept
    types = jax.tree.map(lambda x: (x.shape, x.dtype), state)

    def loss(params):
        return jnp.mean((inputs @ params['x'] - outputs) ** 2)

    @jax.jit
    def step(params, state):
        updates, state = tx.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    start = float(loss(params))
    for _ in range(200):
        params, state = step(params, state)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), state) == types
    assert float(loss(params)) < 0.05 * start


PARAMS = {'encoder': {'kernel': 1, 'scale': 2}, 'decoder': {'kernel': 3}, 'table': 4}


@pytest.mark.parametrize(
    'patterns, expected',
    [
        (('.*',), [True, True, True, True]),
        (('decoder/.*',), [True, False, False, False]),
        (('.*/kernel',), [True, True, False, False]),
        (('table', 'encoder/scale'), [False, False, True, True]),
        (('(?!decoder).*',), [False, True, True, True]),
    ],
)
def test_trainable_patterns(patterns, expected):
    """The order of the leaves: decoder/kernel, encoder/kernel, encoder/scale, table."""
    assert jax.tree.leaves(optimizers.trainable_mask(PARAMS, patterns)) == expected


@pytest.mark.parametrize(
    'patterns, message',
    [
        (('decoder',), "unknown parameter pattern .*'decoder'"),
        (('.*', 'tabel'), "unknown parameter pattern .*'tabel'; nearest: table"),
        (('kernel',), "unknown parameter pattern .*'kernel'"),
        (('(decoder',), r'config.trainable: .*unterminated'),
    ],
)
def test_a_pattern_must_be_one_that_matches_something(patterns, message):
    with pytest.raises(UserError, match=message):
        optimizers.trainable_mask(PARAMS, patterns)


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(name='adamm'), "unknown optimizer 'adamm'; nearest: adam, adamw"),
        (dict(schedule='liner'), "unknown schedule 'liner'; nearest: linear"),
        (dict(name='adam', weight_decay=0.1), "unknown key in optimizer 'adam' 'weight_decay'"),
        (dict(warmup=3), "unknown key in optimizer 'adamw' 'warmup'; nearest: warmup_steps"),
        (dict(learn_rate=3), "key in optimizer 'adamw' 'learn_rate'; nearest: learning_rate"),
        (dict(moments_dtype='bfloat'), "unknown moments_dtype 'bfloat'; nearest: bfloat16"),
        (dict(name='adafactor', moments_dtype='bfloat16'), 'this adafactor has none'),
        (dict(name='sgd', moments_dtype='bfloat16'), "key in optimizer 'sgd' 'moments_dtype'"),
        (dict(decay_rate=1.5), 'decay_rate is 1.5; it must be '),
        (dict(decay_rate=0), 'decay_rate is 0; it must be '),
        (dict(decay_steps=0), 'decay_steps is 0; it must be '),
        (dict(warmup_steps=41), 'warmup_steps is 41, but the stage has 40 steps and would end dur'),
        (dict(warmup_steps=1.5), 'warmup_steps is 1.5; give a whole number of steps'),
        (dict(warmup_steps=-3), 'warmup_steps is -3; it must be 0 or more'),
        (dict(warmup_steps=float('nan')), 'warmup_steps is nan; it must be finite'),
    ],
)
def test_what_no_optimizer_has(options, message):
    with pytest.raises(UserError) as error:
        optimizers.build(**options, num_steps=40)
    assert message in str(error.value)


def test_some_parameters_learn_faster():
    params = {'a': {'kernel': jnp.ones((2, 3))}, 'b': {'kernel': jnp.full((2, 3), 0.5)}}
    gradients = jax.tree.map(lambda x: 0.1 * x, params)

    def updates(**options):
        tx, _ = optimizers.build('adamw', num_steps=10, learning_rate=1e-2, **options)
        return tx.update(gradients, tx.init(params), params)[0]

    plain, faster = updates(), updates(faster=('b/.*',), faster_by=1000.0)
    np.testing.assert_array_equal(faster['a']['kernel'], plain['a']['kernel'])
    np.testing.assert_allclose(faster['b']['kernel'], 1000 * plain['b']['kernel'], rtol=1e-6)
    with pytest.raises(UserError, match=r"optimizer\.faster 'c/\.\*'"):
        updates(faster=('c/.*',))
