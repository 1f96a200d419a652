"""Every key of every block with values that no run has: one line, or what can be meant."""

import collections
import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import ml_collections
import pytest
from edits import refused
from msgspec import Meta

from configs import fewshot, fewshot_source, mrs_retriever, mtg_mbart, mtg_mt5
from xlbench import config as config_lib, runs
from xlbench.fewshot import sweep
from xlbench.parallel import partitioning
from xlbench.settings.blocks import Run
from xlbench.system import ranges
from xlbench.system.errors import UserError

VALUES = {
    '-1': -1, '0': 0, 'nan': math.nan, 'inf': math.inf, '-inf': -math.inf, '10**12': 10**12,
    'text': 'x', 'nested': [[1]], 'none': None,
}  # fmt: skip


@pytest.mark.parametrize(
    'meta, words',
    [
        (Meta(gt=0), 'above 0'),
        (Meta(ge=0), '0 or more'),
        (Meta(ge=-1), '-1 or more'),
        (Meta(ge=1, le=2**20), '1 to 2**20'),
        (Meta(gt=0, le=1), 'above 0, up to 1'),
        (Meta(ge=0, lt=2**32), '0 or more, below 2**32'),
    ],
)
def test_ranges_are_words(meta, words):
    assert ranges.limits(Annotated[int, meta]) == words


@pytest.mark.parametrize(
    'kind, value, message',
    [
        (int, 3, ''),
        (int, 3.0, 'it must be a whole number'),
        (int, True, 'it must be a whole number'),
        (float, 3, ''),
        (float, 'x', 'it must be a number'),
        (float, math.nan, 'it must be finite'),
        (Annotated[float, Meta(ge=0)], math.inf, 'it must be finite'),
        (Annotated[float, Meta(ge=0, lt=1)], 1, 'it must be 0 or more, below 1'),
        (Annotated[float, Meta(gt=0)], 0, 'it must be above 0'),
        (bool, 1, 'it must be True or False'),
        (str | None, None, ''),
        (str, None, 'it must be a text'),
        (str, ml_collections.ConfigDict({'a': 1}), '^key is a: 1; it must be a text'),
        (Annotated[int, Meta(ge=1)] | None, None, ''),
        (Annotated[int, Meta(ge=1)] | None, 0, 'it must be 1 or more'),
        (Literal['a', 'b'] | None, None, ''),
        (Literal['never'] | bool, True, ''),
        (Literal['linear', 'cosine'], 'liner', "unknown key 'liner'; nearest: linear"),
        (Sequence[str], 'x', 'it must be a tuple'),
        (Sequence[str], ('x', 1), r'key\[1\] is 1; it must be a text'),
        (Mapping[str, Annotated[int, Meta(ge=1)]], {'a': 0}, 'key.a is 0; it must be 1 or more'),
        (Mapping[str, int], 3, 'it must be a block of keys'),
        (Mapping, ml_collections.ConfigDict({'a': object()}), ''),
        (Any, object(), ''),
    ],
)
def test_types(kind, value, message):
    with refused(message) if message else contextlib.nullcontext():
        ranges.check(kind, value, 'key')


# --------------------------------------------------------------------------------- whole configs


def blocks(config) -> dict[tuple[str, ...], list[str]]:
    """{the keys of a block: the keys that it may hold, those with a default included}."""
    stage = next(iter(config.stages))
    found = {(): [field.name for field in dataclasses.fields(Run)]}
    for path in (
        *((key,) for key in ('data', 'best', 'model', 'objective', 'mesh', 'batches')),
        ('checkpoints',), ('nonfinite',), ('lora',), ('stages', stage),
        ('stages', stage, 'optimizer'), ('evals', 'test'), ('evals', 'test', 'decoding'),
    ):  # fmt: skip
        if path[-1] != 'decoding' or 'decoding' in config.evals.test:
            found[path] = list(config_lib.block_fields(config, *path))
    return found


@contextlib.contextmanager
def changed(config, path, key, value):
    """The block of a config with another value inside, and as it was outside."""
    block = config
    for name in path:
        block = block[name]
    missing = object()
    before = block.get(key, missing)
    with block.unlocked(), block.ignore_type():
        block[key] = value
        try:
            yield
        finally:
            del block[key]
            if before is not missing:
                block[key] = before


def accepted(config, check, paths) -> dict[str, set[str]]:
    """{value: the keys for which the check takes it}; all others it refuses in one line."""
    found = collections.defaultdict(set)
    for path, keys in paths.items():
        for key in keys:
            for name, value in VALUES.items():
                with changed(config, path, key, value):
                    try:
                        check(config)
                        found[name].add('.'.join([*path[:1], *path[2:], key]))
                    except UserError as error:
                        assert '\n' not in str(error) and len(str(error)) < 1000
    return found


# Whole numbers whose sum or size nothing needs, and factors of any size.
HUGE = {
    'best.patience', 'checkpoints.every', 'checkpoints.keep', 'evals.consensus',
    'evals.decoding.length_penalty', 'evals.decoding.no_repeat_ngram',
    'evals.decoding.repetition_penalty', 'evals.every', 'evals.lm_weight', 'evals.num_examples',
    'log_every', 'lora.alpha', 'mesh.data', 'mesh.fsdp', 'mesh.replica', 'mesh.sequence',
    'mesh.tensor', 'model.init_std', 'model.scale', 'nonfinite.skip', 'objective.scale',
    'objective.z_loss', 'stages.optimizer.clip_norm', 'stages.optimizer.clipping_threshold',
    'stages.optimizer.decay_steps', 'stages.optimizer.eps', 'stages.optimizer.faster_by',
    'stages.optimizer.learning_rate',
    'stages.optimizer.min_dim_size_to_factor', 'stages.optimizer.weight_decay',
}  # fmt: skip
BELOW_ZERO = {
    'evals.decoding.length_penalty', 'evals.lm_weight', 'mesh.data',
    'mesh.fsdp', 'mesh.replica', 'mesh.sequence', 'mesh.tensor',
}  # fmt: skip
TEXTS = {
    'baseline_split', 'data.root', 'data.vocabulary', 'evals.responses',
    'evals.split', 'init_from', 'stages.mixture', 'stages.split',
}  # fmt: skip
NOTHING = {
    'batches.row_multiple', 'batches.window', 'evals.decoding', 'model.matmul_dtype',
    'objective.chunk_size', 'stages.optimizer.clipping_threshold', 'stages.optimizer.momentum',
    'stages.optimizer.weight_decay_rate',
}  # fmt: skip
# Where 0 is not off, or none, or all.
NEVER_ZERO = {
    'batches.batch_size', 'batches.length_buckets', 'checkpoints.every', 'checkpoints.keep',
    'log_every', 'accumulate', 'lora.alpha', 'model.emb_dim', 'model.num_heads',
    'model.num_encoder_layers', 'stages.num_steps',
    'evals.batch_size', 'evals.top_k', 'evals.candidates', 'objective.scale',
}  # fmt: skip


def test_no_value_makes_a_trace_or_a_run_that_nobody_means():
    taken = collections.defaultdict(set)
    for make, optimizers in (
        (mtg_mt5, ('adamw', 'adam', 'adafactor', 'sgd')),
        (mtg_mbart, ('adamw',)),
        (mrs_retriever, ('adamw',)),
        (fewshot_source, ('adamw',)),
    ):
        config = make.get_config()
        config.unlock()
        stage = next(iter(config.stages))
        if make is mtg_mt5:
            config.evals.test.decoding = dict(method='beam', num_beams=2)
        for number, optimizer in enumerate(optimizers):
            config.stages[stage].optimizer = ml_collections.ConfigDict({'name': optimizer})
            paths = blocks(config)
            if number:  # The other blocks are what they were.
                paths = {path: keys for path, keys in paths.items() if path[-1:] == ('optimizer',)}
            for name, keys in accepted(config, runs.check_config, paths).items():
                taken[name] |= keys
    assert not any(taken[name] for name in ('nan', 'inf', '-inf'))
    assert taken['-1'] == BELOW_ZERO
    assert taken['10**12'] == HUGE
    assert taken['text'] == TEXTS
    assert taken['none'] == NOTHING
    assert taken['nested'] <= {'evals.decoding.banned'}
    assert len(taken['0']) > 30 and not taken['0'] & NEVER_ZERO


@pytest.mark.parametrize('size', [0, 10**12, -2])
def test_meshes_of_impossible_sizes(size):
    with pytest.raises(UserError, match='mesh'):
        partitioning.make_mesh(data=1, tensor=size)


def test_the_same_of_sweeps():
    config = fewshot.get_config()
    config.unlock()
    paths = {('adapt',): list(config_lib.block_fields(config, 'adapt'))}
    taken = accepted(config, sweep.checked_adapt, paths)
    assert not any(taken[name] for name in ('nan', 'inf', '-inf', '-1', 'text', 'none', 'nested'))
    assert taken['0'] == {
        f'adapt.{key}'
        for key in ('batch_size', 'dev_examples', 'test_examples', 'at_once', 'keep_params')
    }


@pytest.mark.parametrize(
    'path, value, message',
    [
        ('stages.stage1.optimizer.learning_rate', -0.01, 'is -0.01; it must be 0 or more'),
        ('stages.stage1.optimizer.clip_norm', -1, 'is -1; it must be 0 or more'),
        ('stages.stage1.optimizer.warmup_steps', -3, 'it must be 0 or more'),
        ('trainable', (), 'is empty, and nothing would be trained'),
        ('model.num_encoder_layers', -1, 'is -1; it must be 1 to'),
        ('best.patience', -1, 'is -1; it must be 0 or more'),
        ('best.score', 'dev/nothing/loss', "unknown task in config.best.score 'nothing'"),
        ('best.score', 'nothing/mean/loss', 'with EVAL one of dev'),
        ('evals.test.tasks', ('mtg_sg_de_de',) * 2, 'has mtg_sg_de_de twice; name each task once'),
    ],
)
def test_what_ran_to_its_end_and_meant_nothing(path, value, message):
    """A score that the evaluation does not make is told when it is built: see train_test.py."""
    config = mtg_mt5.get_config()
    *outer, key = path.split('.')
    with changed(config, outer, key, value), pytest.raises(UserError, match=message) as raised:
        runs.check_config(config)
    assert f'config.{".".join(outer)}' in str(raised.value)
