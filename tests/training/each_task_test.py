"""Runs whose first stage has rows of each task in every batch, and whose second one has others."""

import shutil

import numpy as np
import pytest
import tiny

from xlbench import config as config_lib, train
from xlbench.data import batches, prepared
from xlbench.system.errors import UserError


def config_of(root, **overrides):
    """Each task in stage 1, unpacked; stage 2 is packed and mixed."""
    config = tiny.brief_config(
        root, batches__each_task=True, batches__packing=False, evals__dev__every=100,
        checkpoints__every=1, checkpoints__keep=9, **overrides,
    )  # fmt: skip
    del config.evals['test']
    config.stages.stage1.num_steps = 3
    block = config.stages.stage1.to_dict() | {'batches': dict(each_task=False, packing=True)}
    config.stages.stage2 = block
    return config


@pytest.fixture(scope='module')
def run(tiny_root, tmp_path_factory):
    workdir = tmp_path_factory.mktemp('each') / 'run'
    train.train(config_of(tiny_root), str(workdir))
    return workdir


def test_stages_have_batches_of_their_own(run):
    log = (run / 'log.txt').read_text()
    first, second = (part.split('compiled')[0] for part in log.split('stage2: ')[0:2])
    assert '1.0 examples a row, 8.0 a batch' in first
    assert '1.0 examples a row' not in second and 'examples a row' in second
    rows = {step: values for step, _, values in tiny.rows(run)}
    # Of two tasks: their sum, and then their mean.
    assert 1.5 < rows[1]['loss'] / rows[4]['loss'] < 2.5


def test_a_run_that_is_killed_in_the_first_stage_ends_alike(tiny_root, run, tmp_path):
    workdir = tmp_path / 'run'
    shutil.copytree(run, workdir)
    for step in range(3, 7):
        shutil.rmtree(workdir / 'checkpoints' / str(step))
    (workdir / 'DONE').unlink()
    train.train(config_of(tiny_root), str(workdir))
    assert 'resumed at step 2, in stage stage1' in (workdir / 'log.txt').read_text()
    for (step, name, again), (_, _, before) in zip(tiny.rows(workdir), tiny.rows(run), strict=True):
        assert again['loss'] == pytest.approx(
            before['loss'], rel=1e-6
        ), (step, name)


def test_what_a_stage_cannot_have_is_said_before_the_run(tiny_root):
    config = config_of(tiny_root)
    config.stages.stage2.batches = dict(packign=True)
    with pytest.raises(UserError, match=r"config.stages.stage2.batches 'packign'; nearest: packin"):
        train.train(config, 'nowhere')
    config.stages.stage2.batches = dict(each_task=True, batch_size=7)
    with pytest.raises(UserError, match='batch_size 7 cannot be shared by 2 tasks'):
        train.train(config, 'nowhere')


def test_the_rows_of_a_step_are_half_of_each_task(tiny_root):
    config = config_of(tiny_root)
    tasks, rates = prepared.open_mixture(
        str(tiny_root), 'sample', tiny.MIXTURE, config.stages.stage1.split
    )
    block = config_lib.batches_of(config, 'stage1')
    with batches.TrainBatches(tasks, rates, **block, seed=0) as feed:
        names = [name for name, _, _ in feed.examples()]
        weights = next(feed)['task_weights']
    assert names == [tasks[0].name] * 4 + [tasks[1].name] * 4
    assert (np.count_nonzero(weights, axis=1) == 1).all()
