"""Every config, size and scenario that a file documents can be built, as far as shapes go."""

import importlib
import pathlib
import re

import jax
import pytest

from xlbench import (
    benchmarks,
    config as config_lib,
    models,
    objectives,
    optimizers,
    partitioning,
    runs,
    train_step,
)

FOLDER = pathlib.Path(__file__).parent.parent / 'configs'
FILES = sorted(path.stem for path in FOLDER.glob('*.py') if path.name != '__init__.py')
# What a scenario cannot do without.
NEEDS = {
    'mono': 'task=qg,source=de', 'mono_multitask': 'source=de', 'multi': 'task=qg',
    'multi_multitask': '', 'cross': 'task=qg', 'zero_shot': 'task=qg',
}  # fmt: skip


def documented(name: str, key: str) -> list[str]:
    """The values of a key as the file's docstring lists them: `size (sample, small)`."""
    doc = importlib.import_module(f'configs.{name}').__doc__
    found = re.search(rf'\b{key} \(([^)]*)\)', doc)
    return re.split(r',\s*', found[1]) if found else []


def variants() -> list[tuple[str, str]]:
    """(file, what follows the colon) for each size, scenario and rate."""
    found = []
    for name in FILES:
        found += [(name, size) for size in documented(name, 'size')]
        for scenario in documented(name, 'scenario'):
            paper_size = documented(name, 'size')[-1]
            words = [paper_size, f'scenario={scenario}', *NEEDS[scenario].split(',')]
            if not documented(name, 'task'):
                words = [word for word in words if not word.startswith('task=')]
            found.append((name, ','.join(filter(None, words))))
        found += [(name, f'rate={rate}') for rate in documented(name, 'rate')]
    return found


def load(name: str, variant: str, *extra: str):
    """The config as the command line gives it."""
    argv = ['train', f'--config={FOLDER / name}.py:{variant}', *extra]
    return config_lib.parse_flags(argv, doc='')[0]


def test_the_documentation_was_read():
    assert 'mtg_mt5' in FILES
    assert documented('mtg_mt5', 'size') == ['sample', 'small', 'base', 'large', 'xl', 'xxl']
    assert documented('mtg_mt5', 'scenario') == list(benchmarks.SCENARIOS)
    assert documented('mtg_mt5', 'rate') == list(benchmarks.RATES)
    assert len(variants()) > 20


@pytest.mark.parametrize('name, variant', variants())
def test_variants_are_accepted_and_fit_eight_devices(name, variant):
    config = load(name, variant, '--config.seed=1')
    runs.check_config(config)
    mesh = partitioning.make_mesh(**config.mesh)
    partitioning.check_batch_size(config.batches.batch_size, mesh, config.accumulate)
    if config.batches.length_buckets > 1 and not config.batches.get('equal_rows'):
        # The rows of the other shapes are multiples of this.
        partitioning.check_batch_size(config.batches.row_multiple, mesh, config.accumulate)
    for block in config.evals.values():
        partitioning.check_batch_size(block.batch_size, mesh)
        for task in block.tasks:
            benchmarks.parse_task(task)
    models.config(**config.model)
    assert sum(stage.num_steps for stage in config.stages.values()) >= 100
    assert any(block.every for block in config.evals.values())


@pytest.mark.parametrize('name', FILES)
def test_a_file_without_variant_is_its_first_size(name):
    size = documented(name, 'size')[0]
    assert config_lib.to_dict(load(name, '')) == config_lib.to_dict(load(name, size))


@pytest.mark.parametrize(
    'name, size', [(name, size) for name in FILES for size in documented(name, 'size')]
)
def test_models_have_shapes_shardings_and_optimizers(name, size):
    """Nothing is computed, so that xxl needs no memory either."""
    config = load(name, size)
    mesh = partitioning.make_mesh(data=2, fsdp=2, tensor=2)
    model = runs.build_model(config.model, 250_100 if size != 'sample' else 4_000)
    objective = objectives.build(**config.objective)
    shapes, shardings = train_step.params_like(model, objective, mesh)
    assert model.config.vocab_size % 128 == 0
    mask = optimizers.trainable_mask(shapes, tuple(config.trainable))
    trainable, _ = train_step.split_params(shapes, mask)
    assert trainable
    for stage in config.stages.values():
        tx, schedule = optimizers.build(**stage.optimizer, num_steps=stage.num_steps)
        assert jax.tree.leaves(jax.eval_shape(tx.init, trainable))
        assert 0 < float(schedule(stage.num_steps // 2)) <= stage.optimizer.learning_rate
    for shape, sharding in zip(jax.tree.leaves(shapes), jax.tree.leaves(shardings), strict=True):
        # Every parameter is cut somehow, but for a few short vectors.
        assert any(sharding.spec) or len(shape.shape) == 1
