"""Blocks of a config: frozen, checked, each field with its line; options of an optimizer."""

import dataclasses
import importlib
import inspect
import re

import pytest
from edits import refused

from xlbench.settings import blocks, optimizer, source
from xlbench.settings.decoding import Options
from xlbench.system.ranges import fields_of

ONE_KIND = (
    blocks.Run, blocks.Data, blocks.Mesh, blocks.Batches, blocks.Checkpoints, blocks.Nonfinite,
    blocks.Best, blocks.Stage, blocks.Evaluation, Options,
)  # fmt: skip


def of_many_kinds() -> list[type]:
    packages = {'xlbench.training.objectives': '', 'xlbench.evaluators': 'Evaluator'}
    modules = [
        importlib.import_module(f'{package}.{file}')
        for package, ending in packages.items()
        for file in source.catalog(package, ending)
    ]
    return [*optimizer.OPTIMIZERS.values(), *{module.Options: None for module in modules}]


def test_every_field_of_a_block_has_its_line_and_a_type():
    for block in (*ONE_KIND, *of_many_kinds()):
        described = '\n'.join(inspect.getdoc(base) or '' for base in block.__mro__)
        assert dataclasses.is_dataclass(block) and block.__dataclass_params__.frozen
        for field in dataclasses.fields(block):
            assert re.search(rf'^  {field.name}: \S', described, re.M), (block, field.name)
            assert fields_of(block)[field.name].type


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: blocks.Mesh(data=-2), 'config.mesh.data is -2; it must be -1 or more'),
        (lambda: blocks.Checkpoints(keep=0), 'config.checkpoints.keep is 0; it must be 1 or more'),
        (lambda: blocks.Run(trainable='.*'), 'config.trainable is .*; it must be a tuple'),
        (
            lambda: blocks.Best(score='', mode='least', patience=0),
            "unknown mode in config.best.mode 'least'; allowed: max, min",
        ),
        (lambda: optimizer.make('sgd', momentum=1), 'momentum is 1; it must be 0 or more, below 1'),
    ],
)
def test_a_value_that_cannot_be_is_one_line(make, message):
    with refused(message):
        make()


def test_defaults_are_those_of_the_blocks():
    config = blocks.defaults()
    assert config.mesh.to_dict() == dataclasses.asdict(blocks.Mesh())
    assert config.checkpoints.to_dict() == {'every': 1000, 'keep': 2}
    run = dataclasses.asdict(blocks.Run())
    assert {key: config[key] for key in run} == run
