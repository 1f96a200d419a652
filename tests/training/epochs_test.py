"""Steps that a config gives as epochs."""

import pytest
import tiny

from xlbench import config as config_lib, runs
from xlbench.configs import finetune
from xlbench.data import prepared
from xlbench.parallel import partitioning
from xlbench.plan import dry_run
from xlbench.settings import epochs
from xlbench.system.errors import UserError
from xlbench.training import experiment, messages, objectives

# rough_train has 53 examples of each of two tasks.
GIVEN = {
    'stages.stage1.num_steps': '3epochs',
    'stages.stage1.optimizer.warmup_steps': '0.5 epochs',
    'evals.dev.every': '1epoch',
    'checkpoints.every': '1epoch',
}


@pytest.fixture
def config(tiny_root):
    made = tiny.brief_config(tiny_root, init_from='')
    for key, text in GIVEN.items():
        epochs.put(made, key, text)
    return made


@pytest.fixture
def resolved(config):
    """(the config with steps, its data, mesh and view)"""
    of = config.data
    pairs = config_lib.needed_splits(config)
    data = {p: prepared.open_mixture(of.root, of.vocabulary, *p) for p in pairs}
    mesh, view = partitioning.make_mesh(), objectives.build(**config.objective).view

    def resolve(**evaluation):
        now = config.copy_and_resolve_references()
        with now.unlocked():
            now.evals.dev.update(evaluation)
        assert runs.resolve_epochs(now, data, mesh, view) == GIVEN
        return now, data, mesh, view

    return resolve


def test_an_epoch_has_the_examples_of_the_stage(config, resolved):
    runs.check_config(config)
    now, data, mesh, view = resolved()
    steps = now.stages.stage1.num_steps
    with experiment.stage_batches(now, 'stage1', data, mesh, view, prefetch=0) as feed:
        passes = [share.epochs for share in feed.describe(steps)]
        assert passes == pytest.approx([3, 3], abs=feed.examples_per_step / 106)
        lines = [*messages.data_table('stage1', now.stages.stage1, feed, ())]
        assert not any('by heart' in line for line in lines)
        now.stages.stage1.num_steps = 10 * steps
        lines = [*messages.data_table('stage1', now.stages.stage1, feed, ())]
        assert any('30 epochs are many' in line for line in lines)
    assert now.stages.stage1.optimizer.warmup_steps == round(steps / 6)
    assert now.evals.dev.every == now.checkpoints.every == round(steps / 3)


def test_evaluations_take_a_bounded_share_of_the_work(resolved):
    """40 scored examples cost 13.3 trained ones: a share of 0.05 takes 253 between two."""
    of_epoch = resolved()[0].evals.dev.every
    for share, passes in ((0.2, 1), (0.1, 2), (0.05, 3), (0.001, 3)):  # There are 3 in all.
        every = resolved(max_share=share)[0].evals.dev.every
        assert every == pytest.approx(passes * of_epoch, abs=1)


def test_a_run_goes_on_with_the_steps_that_it_was_begun_with(config, resolved, tmp_path):
    now, *_ = resolved()
    config_lib.claim_workdir(str(tmp_path), now, {'given': GIVEN})
    assert config_lib.check_workdir(str(tmp_path), config)
    begun = config_lib.read_about(str(tmp_path))
    later = config.copy_and_resolve_references()
    epochs.restore(later, begun)
    assert later == now and config_lib.check_workdir(str(tmp_path), now)
    epochs.put(config, 'stages.stage1.num_steps', '4epochs')
    with pytest.raises(UserError, match=r"num_steps was \d+, now '4epochs'"):
        config_lib.check_workdir(str(tmp_path), config)


def test_a_dry_run_says_steps_where_the_data_is_there(config, resolved, tmp_path):
    steps = resolved()[0].stages.stage1.num_steps
    lines = [*dry_run.of_run(config, str(tmp_path / 'run'))]
    assert f'stage1: {tiny.MIXTURE}, split rough_train, {steps} steps' in lines
    config.data.root = str(tmp_path)
    config.data.sample = True
    lines = [*dry_run.of_run(config, str(tmp_path / 'run'))]
    assert f'stage1: {tiny.MIXTURE}, split rough_train, 3 epochs' in lines


def test_flags_replace_steps_by_epochs_and_back():
    def parsed(config, *flags):
        return config_lib.parse_command(['train', f'--config={config}', *flags]).config

    stage = '--config.stages.stage1.'
    flags = f'{stage}num_steps=2epochs', f'{stage}optimizer.warmup_steps', '0.1epochs'
    stage1 = parsed('mtg_mt5', *flags).stages.stage1
    assert (stage1.num_steps, stage1.optimizer.warmup_steps) == ('2epochs', '0.1epochs')
    own = 'finetune:tiny,objective=tagging,mixture=x'
    assert parsed(own, '--config.stages.train.num_steps=7').stages.train.num_steps == 7
    with pytest.raises(UserError, match="num_steps is '3moons'; it must be a whole number"):
        parsed('mtg_mt5', f'{stage}num_steps=3moons')
    two = parsed('mtg_mt5', '--config.evals.dev.every=1epochs')
    with pytest.raises(UserError, match='the run has 2 stages, each with epochs of its own'):
        config_lib.check_names(two)
    epochs.put(two, 'stages.stage1.num_steps', 'some epochs')
    with pytest.raises(UserError, match="is 'some epochs'; give steps, or epochs such as 3epochs"):
        config_lib.check_names(two)


def test_finetune_follows_the_size_of_the_data():
    for variant, steps, every, share in (
        ('tiny,objective=tagging,mixture=x', '20epochs', '2epochs', 0.2),
        ('mt5_base,mixture=x,steps=3epochs', '3epochs', '0.3epochs', 0.2),
        ('mt5_base,mixture=x,steps=300', 300, 30, None),
    ):
        config = finetune.get_config(variant)
        assert (config.stages.train.num_steps, config.checkpoints.every) == (steps, every)
        assert (config.evals.dev.every, config.evals.dev.get('max_share')) == (every, share)
