"""Runs whose stage has a curriculum."""

import shutil

import ml_collections
import pytest
import tiny

from xlbench import dry_run, names, train
from xlbench.system.errors import UserError

PARTS = tiny.QUESTIONS[::-1]


def config_of(root, curriculum=PARTS) -> ml_collections.ConfigDict:
    """Two tasks of 53 examples each, unpacked: epochs of 7 + 7 steps."""
    config = tiny.brief_config(
        root, batches__packing=False, checkpoints__every=1, checkpoints__keep=20,
        evals__dev__every=100,
    )  # fmt: skip
    del config.evals['test']
    config.stages.stage1 = config.stages.stage1.to_dict() | dict(
        num_steps=16, curriculum=curriculum
    )
    return config


def test_a_run_that_is_killed_inside_a_part_ends_alike(tiny_root, tmp_path):
    """Stopped in the second part, and between two epochs."""
    whole, workdir = tmp_path / 'whole', tmp_path / 'run'
    train.train(config_of(tiny_root), str(whole))
    log = (whole / 'log.txt').read_text()
    assert f'an epoch, of about 14 steps, has {PARTS[0]}, then {PARTS[1]}' in log
    for epochs in ('1.29', '1.00'):  # Two steps of the second epoch's first part.
        assert f'53 examples, rate 0.500, {epochs} epochs' in log
    for stopped in (10, 14):
        shutil.copytree(whole, workdir)
        for step in range(stopped + 1, 17):
            shutil.rmtree(workdir / 'checkpoints' / str(step))
        (workdir / 'DONE').unlink()
        train.train(config_of(tiny_root), str(workdir))
        assert f'resumed at step {stopped}' in (workdir / 'log.txt').read_text()
        pairs = zip(tiny.rows(workdir), tiny.rows(whole), strict=True)
        for (step, _, again), (_, _, before) in pairs:
            assert again['loss'] == pytest.approx(before['loss'], rel=1e-6), step
        shutil.rmtree(workdir)


def test_what_a_curriculum_cannot_be_is_said_before_the_run(tiny_root, tmp_path):
    for curriculum, message in [
        (tiny.QUESTIONS[:1], 'the curriculum lacks mtg_qg_de_de of the mixture'),
        ((*PARTS, tiny.TITLES[0]), 'has mtg_tg_en_en, which is not in the mixture'),
        ((tiny.MIXTURE, PARTS[0]), 'has mtg_qg_de_de in two parts'),
        (3, 'config.stages.stage1.curriculum is 3'),
    ]:
        with pytest.raises(UserError, match=message) as caught:
            train.train(config_of(tiny_root, curriculum), str(tmp_path / 'run'))
        assert '\n' not in str(caught.value)
    with pytest.raises(UserError, match=r"stage1.curriculum 'mtg_qg_de_dd'; nearest: mtg_qg_de_de"):
        names.check_places(config_of(tiny_root, ('mtg_qg_de_dd',)))
    lines = list(dry_run.of_run(config_of(tiny_root, (tiny.MIXTURE,)), str(tmp_path / 'run')))
    assert '  an epoch, of about 14 steps, has mtg_multi_qg' in lines
