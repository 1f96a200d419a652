"""Runs whose stage mixes several mixtures, each with a split and a rate of its own."""

import shutil

import ml_collections
import pytest
import tiny

from xlbench import names, train
from xlbench.config import stage_pairs
from xlbench.system.errors import UserError

# In the tiny configs the stage's own split is rough_train.
ADDED = dict(de=dict(mixture=tiny.QUESTIONS[1], split='train', rate=2.0))


def config_of(root, added=ADDED, **overrides) -> ml_collections.ConfigDict:
    config = tiny.brief_config(
        root, batches__packing=False, checkpoints__every=1, checkpoints__keep=20,
        evals__dev__every=100, **overrides,
    )  # fmt: skip
    del config.evals['test']
    config.stages.stage1 = config.stages.stage1.to_dict() | dict(num_steps=9, added=added)
    return config


def test_organic_and_other_examples_are_mixed_at_the_rates_and_resumed(tiny_root, tmp_path):
    whole, workdir = tmp_path / 'whole', tmp_path / 'run'
    config = config_of(tiny_root)
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
    shutil.copytree(whole, workdir)
    for step in range(5, 10):
        shutil.rmtree(workdir / 'checkpoints' / str(step))
    (workdir / 'DONE').unlink()
    train.train(config, str(workdir))
    assert 'resumed at step 4' in (workdir / 'log.txt').read_text()
    pairs = zip(tiny.rows(workdir), tiny.rows(whole), strict=True)
    for (step, _, again), (_, _, before) in pairs:
        assert again['loss'] == pytest.approx(before['loss'], rel=1e-6), step
    with pytest.raises(UserError, match=r'another config: stages\.stage1\.added'):
        train.train(config_of(tiny_root, {}), str(workdir))


def test_what_cannot_be_mixed_is_said_in_a_line(tiny_root):
    for added, message in [
        (dict(de=dict(mixture='mtg_qg_de_de')), "stage1.added.de lacks 'split'"),
        (dict(de=ADDED['de'] | dict(rate=0.0)), r'stage1.added.de.rate is 0.0.*above 0'),
        (dict(de=ADDED['de'], fr=ADDED['de']), 'stage1 names a mixture and split twice'),
        (dict(de=ADDED['de'] | dict(rates=1.0)), "unknown key in config.stages.stage1.added.de"),
        (dict(de=3), 'config.stages.stage1.added.de is 3'),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            names.check_config(config_of(tiny_root, added))
        assert '\n' not in str(caught.value)
    both = config_of(tiny_root)
    with both.unlocked():
        both.stages.stage1.curriculum = tiny.QUESTIONS
    with pytest.raises(UserError, match='leave out one of them'):
        names.check_config(both)
    wrong = config_of(tiny_root, dict(de=ADDED['de'] | dict(mixture='mtg_qg_de_dd')))
    with pytest.raises(UserError, match=r"added.de 'mtg_qg_de_dd'; nearest: mtg_qg_de_de"):
        names.check_places(wrong)
