import functools
import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import prepared_files
import pytest
import safetensors.numpy
import tiny
from flax import traverse_util
from nightly import nightly

from xlbench import convert, predict, runs, train
from xlbench.models import lora
from xlbench.parallel import partitioning
from xlbench.parallel.partitioning import make_mesh
from xlbench.system import errors
from xlbench.training import checkpoints, init_from, objectives, optimizers, train_step
from xlbench.training.experiment import stage_batches

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


def test_default_targets_are_the_kernels_of_attention():
    _, _, drawn, _ = adapted()
    leaves = traverse_util.flatten_dict(drawn, sep='/')
    names = {f'{stack}/layers_0/{name}' for stack, name in (
        ('encoder', 'attention/qkv'), ('encoder', 'attention/out'),
        ('decoder', 'self_attention/qkv'), ('decoder', 'self_attention/out'),
        ('decoder', 'encoder_decoder_attention/query'), ('decoder', 'encoder_decoder_attention/kv'),
        ('decoder', 'encoder_decoder_attention/out'),
    )}  # fmt: skip
    for leaf in lora.LEAVES:
        assert {name.rpartition('/')[0] for name in leaves if name.endswith(leaf)} == names


def test_only_the_matrices_and_what_is_named_are_trained():
    _, params, _, _ = adapted()
    everything = jax.tree.map(lambda _: True, params)
    chosen = lora.Lora(4, also_train=('logits_dense/kernel',))
    flat = traverse_util.flatten_dict(chosen.restrict(everything), sep='/')
    trained = {name.rpartition('/')[2] for name, value in flat.items() if value}
    assert trained == {'lora_a', 'lora_b', 'kernel'}
    assert [n for n, v in flat.items() if v and n.endswith('kernel')] == ['logits_dense/kernel']
    assert lora.Lora().restrict(everything) is everything


# ------------------------------------------------------------------- an adapter for each language


def stepped(config, *batches):
    """For each batch the parameters of a config's run after one step, and its metrics."""
    parts = runs.build(config)
    tx, schedule = optimizers.build(**config.stages.stage1.optimizer, num_steps=9)
    step = train_step.make_train_step(
        parts.model, parts.objective, tx, schedule, parts.mask, lora=parts.lora,
        adapters=parts.adapters(config.stages.stage1),
    )  # fmt: skip
    params = parts.initialise(jax.random.key(0))
    first, step = train_step.init_state(tx, params, parts.mask), jax.jit(step)
    for batch in batches:
        with partitioning.activate(parts.mesh):
            batch = partitioning.put_batch(batch, parts.mesh)
            after, metrics = step(first, batch, jax.random.key(1))
        yield traverse_util.flatten_dict(jax.device_get(after.params), sep='/'), metrics


@pytest.mark.parametrize('mesh', [tiny.ALL_AXES, *nightly({})])
def test_adapters_of_languages_move_as_if_each_were_trained_alone(tiny_root, mesh):
    """The same rows of two languages in one step, and in a run for each language."""
    options = dict(
        batches__packing=False, batches__each_task=True, batches__batch_size=16,
        model__dropout_rate=0.0, lora__rank=2,
    )  # fmt: skip
    config = tiny.brief_config(tiny_root, **options, lora__languages=('en', 'de'))
    for stage in config.stages.values():
        stage.optimizer.clip_norm = 0.0  # It would be of both.
    config.mesh.update(mesh)
    parts = runs.build(config)
    assert parts.adapters(config.stages.stage1) == [1, 0]  # The mixture has German first.
    with stage_batches(config, 'stage1', parts.data, parts.mesh, 'generation') as feed:
        batch = next(feed)
    [(together, metrics)] = stepped(config, batch)
    changes = {'batches__each_task': False, 'batches__batch_size': 8}
    one = tiny.brief_config(tiny_root, **options | changes)
    one.mesh.update(mesh)
    one.stages.stage1.optimizer.clip_norm = 0.0
    one.stages.stage1.mixture = tiny.QUESTIONS[0]
    del batch['task_weights']
    halves = [{name: x[rows] for name, x in batch.items()} for rows in (slice(8), slice(8, 16))]
    (german, of_german), (english, of_english) = stepped(one, *halves)
    alone = {'de': german, 'en': english}
    losses = [found['loss'] / found['weight'] for found in (of_german, of_english)]
    np.testing.assert_allclose(metrics['loss'] / metrics['weight'], sum(losses), rtol=1e-5)
    for name, value in together.items():
        for place, lang in enumerate(config.lora.languages):
            adapter = value[place] if name.endswith(('lora_a', 'lora_b')) else value
            np.testing.assert_allclose(adapter, alone[lang][name], atol=2e-6, err_msg=name)
    moved = [name for name in together if name.endswith('lora_b')]
    assert all(np.abs(together[name][0] - together[name][1]).max() > 1e-4 for name in moved)


@pytest.fixture(scope='module')
def several(tiny_root, tmp_path_factory):
    """A run with an adapter for each of two languages, and its config."""
    config = tiny.brief_config(
        tiny_root, batches__packing=False, batches__each_task=True, model__dropout_rate=0.0,
        lora__rank=2, lora__languages=('de', 'en'), lora__targets=('.*(attention|mlp)/.*kernel',),
    )  # fmt: skip
    config.stages.stage1.optimizer.learning_rate = 0.3
    folder = tmp_path_factory.mktemp('several') / 'run'
    train.train(config, str(folder))
    return folder, config


def test_a_run_moves_nothing_else(several):
    folder, config = several
    parts = runs.build(config)
    fresh = parts.initialise(jax.random.fold_in(jax.random.key(config.seed), 2**31 - 1))
    trained = checkpoints.load_params(str(folder), 6, parts.shapes, parts.shardings)
    before, after = (traverse_util.flatten_dict(tree, sep='/') for tree in (fresh, trained))
    for name, value in after.items():
        same = bool(np.array_equal(value, before[name]))
        assert same != name.endswith(('lora_a', 'lora_b')), name
    assert parts.num_trainable == sum(
        value.size for name, value in after.items() if name.endswith(('lora_a', 'lora_b'))
    )


def test_each_language_is_scored_and_answered_with_its_adapter(several, tmp_path):
    folder, _ = several
    (step,) = {path.name for path in (folder / 'eval').iterdir() if (path / 'test').is_dir()}
    models_of = {lang: predict.load(f'{folder}@{step}:{lang}') for lang in ('de', 'en')}
    for task in tiny.QUESTIONS:
        path = folder / 'eval' / step / 'test' / task / 'predictions.jsonl'
        lines = list(map(json.loads, path.read_text('utf-8').splitlines()))
        texts = [line['input'].partition('> ')[2] for line in lines]
        lang = task[-2:]
        answers = {own: model.generate(texts, target_lang=lang) for own, model in models_of.items()}
        assert answers[lang] == [line['prediction'] for line in lines]
        assert answers['de'] != answers['en']
    exported = tmp_path / lang
    convert.main(['convert', str(folder), str(exported), f'--step={step}:{lang}'])
    assert predict.load(str(exported)).generate(texts, target_lang=lang) == answers[lang]
    alone = [str(tmp_path / f'{lang}-alone'), f'--step=best:{lang}', '--lora=separate']
    convert.main(['convert', str(folder), *alone])
    leaves = safetensors.numpy.load_file(f'{alone[0]}/adapter_model.safetensors')
    assert all(leaf.ndim == 2 and min(leaf.shape) == 2 for leaf in leaves.values())


def test_a_run_goes_on_from_one_of_several_adapters_or_from_all(several, tiny_root):
    folder, config = several
    of = init_from.open_workdir(str(folder))
    one = init_from.open_workdir(str(folder), 'best:en')
    name = 'decoder/layers_0/self_attention/out/lora_b'
    assert of.shapes[name] == (2, *one.shapes[name])
    np.testing.assert_array_equal(of.read(name)[1], one.read(name))
    shapes = {
        languages: train_step.params_like(
            runs.build(config).model, objectives.build('generation'),
            make_mesh(devices=jax.devices()[:1]), lora.Lora(2, languages=languages),
        )[0]
        for languages in ((), ('de', 'en'))
    }  # fmt: skip
    model = runs.build(config).model
    for spec, languages in ((f'{folder}', ('de', 'en')), (f'{folder}@best:de', ())):
        plan = init_from.Plan(spec, 'mt5', model, shapes[languages])
        assert not any('newly initialised' in line for line in plan.lines)
    plain, _ = train_step.params_like(
        model, objectives.build('generation'), make_mesh(devices=jax.devices()[:1])
    )
    assert 'LoRA merged' in init_from.Plan(f'{folder}@best:de', 'mt5', model, plain).lines[0]
    with pytest.raises(errors.UserError, match='an adapter for each of de, en; name one as'):
        init_from.Plan(str(folder), 'mt5', model, plain)


def test_an_adapter_that_is_not_there_is_refused(several, tiny_run, tmp_path):
    folder, config = several
    for spec, message in (
        (f'{folder}', f'name one as {folder}@best:de'),
        (f'{folder}@best:fr', "'fr'.*de, en"),
        (f'{tiny_run}@best:de', 'has no adapters of single languages; leave out :de'),
    ):
        with pytest.raises(errors.UserError, match=message):
            predict.load(spec)
    with pytest.raises(errors.UserError, match='name one as'):
        convert.main(['convert', str(folder), str(tmp_path / 'exported')])
    for changes, message in (
        (dict(lora__languages=('de',)), "config.lora.languages 'en'"),
        (dict(lora__languages=('de', 'en', 'fr')), 'stage1 has targets in fr; leave'),
        (dict(batches__each_task=False), 'set config.batches.each_task=True'),
        (dict(accumulate=2), 'config.accumulate=1'),
        (dict(lora__rank=0), 'set config.lora.rank'),
        (dict(lora__languages=('de', 'de')), 'names one twice'),
    ):
        wrong = prepared_files.changed(config.copy_and_resolve_references(), changes)
        with pytest.raises(errors.UserError, match=message):
            runs.check_config(wrong)
            runs.build(wrong)


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(rank=-1), 'config.lora.rank is -1; it must be 0 to 2**16'),
        (dict(rank=2, targets=('(',)), 'config.lora: '),
        (dict(rank=2, targets=('encodr/.*',)), "kernel pattern in config.lora.targets 'enc"),
        # The loss multiplies by the output layer's kernel itself, and would see no adapter of it.
        (dict(rank=2, targets=('logits.*',)), "kernel pattern in config.lora.targets 'log"),
    ],
)
def test_slips_give_one_line(options, message):
    kernel = {'kernel': nn.LogicallyPartitioned(jnp.zeros((2, 2)), ('mlp', 'embed'))}
    boxed = {'encoder': kernel, 'logits_dense': kernel}
    with pytest.raises(errors.UserError) as error:
        lora.Lora(**options).add(boxed, jax.random.key(0))
    assert message in str(error.value)
