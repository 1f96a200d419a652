"""Runs whose stages mix mixtures, have a curriculum, or have rows of each task in every batch."""

import shutil
import types

import ml_collections
import numpy as np
import pytest
import tiny
from edits import refused

from xlbench import config as config_lib, train
from xlbench.config import stage_pairs
from xlbench.data import batches, prepared
from xlbench.plan import dry_run
from xlbench.system.errors import UserError
from xlbench.training import checkpoints

# In the tiny configs the stage's own split is rough_train.
ADDED = dict(de=dict(mixture=tiny.QUESTIONS[1], split='train', rate=2.0))
PARTS = tiny.QUESTIONS[::-1]


def config_of(root, stage, **overrides) -> ml_collections.ConfigDict:
    """Two tasks of 53 examples each, unpacked; `stage` is what stage 1 has of its own."""
    config = tiny.brief_config(
        root, batches__packing=False, checkpoints__every=2, checkpoints__keep=20,
        evals__dev__every=100, **overrides,
    )  # fmt: skip
    del config.evals['test']
    config.stages.stage1 = config.stages.stage1.to_dict() | stage
    return config


def mixed(root, added=ADDED):
    return config_of(root, dict(num_steps=6, added=added))


def taught(root, curriculum=PARTS):
    """Epochs of 7 + 7 steps."""
    return config_of(root, dict(num_steps=16, curriculum=curriculum))


def both(root, curriculum):
    """A stage with a mixture added and a curriculum, of which it can have one."""
    return config_of(root, dict(num_steps=6, added=ADDED, curriculum=curriculum))


def each_task(root, second=types.MappingProxyType(dict(each_task=False, packing=True))):
    """Each task in stage 1; stage 2 is packed and mixed."""
    config = config_of(root, dict(num_steps=3), batches__each_task=True)
    config.stages.stage2 = config.stages.stage1.to_dict() | {'batches': dict(second)}
    return config


def check_resumed(config, whole, workdir, step, of=''):
    """A run that was stopped behind a step ends as the one that was not, and says the step."""
    shutil.copytree(whole, workdir)
    for later in checkpoints.steps(workdir):
        if later > step:
            shutil.rmtree(workdir / 'checkpoints' / str(later))
    (workdir / 'DONE').unlink()
    train.train(config, str(workdir))
    assert f'resumed at step {step}{of}' in (workdir / 'log.txt').read_text()
    pairs = zip(tiny.rows(workdir), tiny.rows(whole), strict=True)
    for (number, name, again), (_, _, before) in pairs:
        assert again['loss'] == pytest.approx(before['loss'], rel=1e-6), (number, name)


def test_organic_and_other_examples_are_mixed_at_the_rates_and_resumed(tiny_root, tmp_path):
    whole, workdir = tmp_path / 'whole', tmp_path / 'run'
    config = mixed(tiny_root)
    assert stage_pairs(config.stages.stage1) == [
        (tiny.MIXTURE, 'rough_train'), (tiny.QUESTIONS[1], 'train'),
    ]  # fmt: skip
    train.train(config, str(whole))
    log = (whole / 'log.txt').read_text()
    assert f'mixed with {tiny.QUESTIONS[1]}, split train' in log
    # Two tasks share 1 of 3, and the added one has 2 of 3.
    assert f'{tiny.QUESTIONS[0]}                    53 examples, rate 0.167' in log
    assert f'{tiny.QUESTIONS[1]}/rough_train        53 examples, rate 0.167' in log
    assert f'{tiny.QUESTIONS[1]}/train              41 examples, rate 0.667' in log
    check_resumed(config, whole, workdir, 4)
    with pytest.raises(UserError, match=r'another config: stages\.stage1\.added'):
        train.train(mixed(tiny_root, {}), str(workdir))


def test_mistakes_in_names_of_tasks_are_found_with_the_places(tiny_root):
    wrong = mixed(tiny_root, dict(de=ADDED['de'] | dict(mixture='mtg_qg_de_dd')))
    with refused(r"added.de 'mtg_qg_de_dd'; nearest: mtg_qg_de_de"):
        config_lib.check_places(wrong)
    with refused(r"stage1.curriculum 'mtg_qg_de_dd'; nearest: mtg_qg_de_de"):
        config_lib.check_places(taught(tiny_root, ('mtg_qg_de_dd',)))


@pytest.mark.parametrize(
    'make, given, words',
    [
        (mixed, dict(de=dict(mixture='mtg_qg_de_de')), "stage1.added.de lacks 'split'"),
        (mixed, dict(de=ADDED['de'] | dict(rate=0.0)), r'stage1.added.de.rate is 0.0.*above 0'),
        (mixed, dict(de=ADDED['de'], fr=ADDED['de']), 'stage1 names a mixture and split twice'),
        (mixed, dict(de=ADDED['de'] | dict(rates=1.0)), 'unknown key in .*stages.stage1.added.de'),
        (mixed, dict(de=3), 'config.stages.stage1.added.de is 3'),
        (both, tiny.QUESTIONS, 'leave out one of them'),
        (taught, tiny.QUESTIONS[:1], 'the curriculum lacks mtg_qg_de_de of the mixture'),
        (taught, (*PARTS, tiny.TITLES[0]), 'has mtg_tg_en_en, which is not in the mixture'),
        (taught, (tiny.MIXTURE, PARTS[0]), 'has mtg_qg_de_de in two parts'),
        (taught, 3, 'config.stages.stage1.curriculum is 3'),
        (each_task, dict(packign=True), r"config.stages.stage2.batches 'packign'; nearest: packin"),
        (each_task, dict(each_task=True, batch_size=7), 'batch_size 7 cannot be shared by 2 tasks'),
    ],
)
def test_what_a_stage_cannot_have_is_said_before_the_run(tiny_root, tmp_path, make, given, words):
    with refused(words):
        train.train(make(tiny_root, given), str(tmp_path / 'run'))
    assert not (tmp_path / 'run' / 'config.json').exists()


@pytest.mark.nightly
def test_a_run_that_is_killed_inside_a_part_ends_alike(tiny_root, tmp_path):
    """Stopped in the second part, and between two epochs."""
    whole = tmp_path / 'whole'
    train.train(taught(tiny_root), str(whole))
    log = (whole / 'log.txt').read_text()
    assert f'an epoch, of about 14 steps, has {PARTS[0]}, then {PARTS[1]}' in log
    for epochs in ('1.29', '1.00'):  # Two steps of the second epoch's first part.
        assert f'53 examples, rate 0.500, {epochs} epochs' in log
    for stopped in (10, 14):
        check_resumed(taught(tiny_root), whole, tmp_path / f'{stopped}', stopped)


def test_a_dry_run_says_what_an_epoch_has(tiny_root, tmp_path):
    lines = list(dry_run.of_run(taught(tiny_root, (tiny.MIXTURE,)), str(tmp_path / 'run')))
    assert '  an epoch, of about 14 steps, has mtg_multi_qg' in lines


@pytest.fixture(scope='module')
def run(tiny_root, tmp_path_factory):
    workdir = tmp_path_factory.mktemp('each') / 'run'
    train.train(each_task(tiny_root), str(workdir))
    return workdir


def test_stages_have_batches_of_their_own(run):
    log = (run / 'log.txt').read_text()
    first, second = (part.split('compiled')[0] for part in log.split('stage2: ')[0:2])
    assert '1.0 examples a row, 8.0 a batch' in first
    assert '1.0 examples a row' not in second and 'examples a row' in second
    rows = {step: values for step, _, values in tiny.rows(run)}
    # Of two tasks: their sum, and then their mean.
    assert 1.5 < rows[1]['loss'] / rows[4]['loss'] < 2.5


@pytest.mark.nightly
def test_a_run_that_is_killed_in_the_first_stage_ends_alike(tiny_root, run, tmp_path):
    check_resumed(each_task(tiny_root), run, tmp_path / 'run', 2, ', in stage stage1')


def test_the_rows_of_a_step_are_half_of_each_task(tiny_root):
    config = each_task(tiny_root)
    tasks, rates = prepared.open_mixture(
        str(tiny_root), 'sample', tiny.MIXTURE, config.stages.stage1.split
    )
    block = config_lib.batches_of(config, 'stage1')
    with batches.TrainBatches(tasks, rates, **block, seed=0) as feed:
        order = [name for name, _, _ in feed.examples()]
        weights = next(feed)['task_weights']
    assert order == [tasks[0].name] * 4 + [tasks[1].name] * 4
    assert (np.count_nonzero(weights, axis=1) == 1).all()
