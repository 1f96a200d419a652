import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from flax import traverse_util

from xlbench import models, runs, train
from xlbench.models import lora
from xlbench.parallel.partitioning import make_mesh
from xlbench.system import errors
from xlbench.training import checkpoints, objectives, train_step

INPUTS = np.array([[5, 9, 11, 3, 1, 0], [7, 1, 0, 0, 0, 0]], np.int32)
TARGETS = np.array([[0, 8, 12, 1], [0, 30, 31, 40]], np.int32)


@functools.cache
def adapted(rank=4, alpha=8.0, **options):
    """A model, its adapted parameters with every B drawn at random, and those of the base."""
    model = tiny.tiny_model()
    chosen = lora.Lora(rank, alpha, **options)
    mesh = make_mesh(devices=jax.devices()[:1])
    objective = objectives.build('generation')
    params = train_step.init_params(model, objective, mesh, jax.random.key(0), chosen)
    base = train_step.init_params(model, objective, mesh, jax.random.key(0))
    flat = traverse_util.flatten_dict(params, sep='/')
    rng = np.random.default_rng(1)
    drawn = {
        name: rng.normal(size=value.shape).astype(np.float32) * 0.1
        if name.endswith('lora_b')
        else value
        for name, value in flat.items()
    }
    return model, params, traverse_util.unflatten_dict(drawn, sep='/'), base


def logits(model, params):
    segments = (INPUTS > 0).astype(np.int32)
    return jax.jit(model.apply)({'params': params}, INPUTS, TARGETS, segments)


def test_a_fresh_adapter_changes_nothing():
    model, params, _, base = adapted()
    assert lora.is_adapted(params) and not lora.is_adapted(base)
    np.testing.assert_array_equal(logits(model, params), logits(model, base))


def test_merged_equals_adapted_and_differs_from_the_base():
    model, _, drawn, base = adapted()
    merged = lora.merge(drawn)
    assert jax.tree.map(jnp.shape, merged) == jax.tree.map(jnp.shape, base)
    out = logits(model, drawn)
    np.testing.assert_allclose(out, logits(model, merged), atol=1e-5)
    assert np.abs(out - logits(model, base)).max() > 1e-2


def test_each_part_of_a_fused_kernel_has_its_own_product():
    _, _, drawn, base = adapted()
    layer = drawn['encoder']['layers_0']['attention']['qkv']
    assert layer['lora_a'].shape == (3, 4, 16) and layer['lora_b'].shape == (3, 16, 4)
    merged = lora.merge(drawn)['encoder']['layers_0']['attention']['qkv']['kernel']
    kernel = base['encoder']['layers_0']['attention']['qkv']['kernel']
    for part in range(3):  # alpha / rank = 2.
        expected = kernel[part] + 2.0 * layer['lora_b'][part] @ layer['lora_a'][part]
        np.testing.assert_allclose(merged[part], expected, atol=1e-6)


def test_split_gives_back_the_base_and_the_matrices():
    _, _, drawn, base = adapted()
    rest, adapters = lora.split(drawn)
    jax.tree.map(np.testing.assert_array_equal, rest, base)
    names = {f'{stack}/layers_0/{name}' for stack, name in (
        ('encoder', 'attention/qkv/kernel'), ('encoder', 'attention/out/kernel'),
        ('decoder', 'self_attention/qkv/kernel'), ('decoder', 'self_attention/out/kernel'),
        ('decoder', 'encoder_decoder_attention/query/kernel'),
        ('decoder', 'encoder_decoder_attention/kv/kernel'),
        ('decoder', 'encoder_decoder_attention/out/kernel'),
    )}  # fmt: skip
    assert set(adapters) == names
    assert all(set(leaves) == set(lora.LEAVES) for leaves in adapters.values())


def test_only_the_matrices_and_what_is_named_are_trained():
    _, params, _, _ = adapted()
    everything = jax.tree.map(lambda _: True, params)
    chosen = lora.Lora(4, also_train=('logits_dense/kernel',))
    flat = traverse_util.flatten_dict(chosen.restrict(everything), sep='/')
    trained = {name.rpartition('/')[2] for name, value in flat.items() if value}
    assert trained == {'lora_a', 'lora_b', 'kernel'}
    assert [n for n, v in flat.items() if v and n.endswith('kernel')] == ['logits_dense/kernel']
    assert lora.Lora().restrict(everything) is everything


@pytest.mark.parametrize('family', sorted(models.FAMILIES))
def test_every_family_can_be_adapted(family):
    model = models.build(family, 'sample', **(dict(num_labels=3) if 'classif' in family else {}))
    inputs = (jnp.zeros((1, 8), jnp.int32), jnp.zeros((1, 8), jnp.int32))
    single = family in ('bert', 'sequence_classifier', 'token_classifier')
    boxed = jax.eval_shape(
        lambda: lora.Lora(2).add(
            model.init(jax.random.key(0), *inputs[: 1 if single else 2])['params'],
            jax.random.key(1),
        )
    )
    flat = traverse_util.flatten_dict(boxed, sep='/')
    adapted_kernels = [name for name in flat if name.endswith('lora_a')]
    assert len(adapted_kernels) >= 4
    for leaf in flat.values():
        assert isinstance(leaf, nn.LogicallyPartitioned)


def test_a_run_moves_nothing_else_and_can_be_evaluated(tiny_root, tmp_path):
    config = tiny.tiny_config(tiny_root, lora__rank=2, lora__targets=('.*attention/.*kernel',))
    config.stages = dict(stage1=config.stages.stage1)
    config.best.score = ''
    train.train(config, str(tmp_path / 'run'))
    losses = [values['loss'] for _, _, values in tiny.rows(tmp_path / 'run')]
    assert len(losses) == 7 and losses[-1] < losses[0]
    parts = runs.build(config)
    fresh = train_step.init_params(
        parts.model, parts.objective, parts.mesh,
        jax.random.fold_in(jax.random.key(config.seed), 2**31 - 1), parts.lora,
    )  # fmt: skip
    trained = checkpoints.load_params(str(tmp_path / 'run'), 7, parts.shapes, parts.shardings)
    before, after = (traverse_util.flatten_dict(tree, sep='/') for tree in (fresh, trained))
    for name, value in after.items():
        same = bool(np.array_equal(value, before[name]))
        assert same != name.endswith(('lora_a', 'lora_b')), name
    assert parts.num_trainable < 0.3 * parts.num_parameters


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(rank=-1), 'config.lora.rank is -1; it must be 0 to 2**16'),
        (dict(rank=2, targets=('(',)), 'config.lora: '),
        (
            dict(rank=2, targets=('encodr/.*',)),
            "kernel pattern in config.lora.targets 'enc",
        ),
    ],
)
def test_slips_give_one_line(options, message):
    boxed = {'encoder': {'kernel': nn.LogicallyPartitioned(jnp.zeros((2, 2)), ('mlp', 'embed'))}}
    with pytest.raises(errors.UserError) as error:
        lora.Lora(**options).add(boxed, jax.random.key(0))
    assert message in str(error.value)
