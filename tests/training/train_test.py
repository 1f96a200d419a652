"""Whole runs: killed and resumed, repeated, stopped early; and mistakes refused beforehand."""

import json
import os
import pathlib
import shutil
import signal

import children
import harm
import jax
import numpy as np
import pytest
import tiny
from ml_collections import ConfigDict
from nightly import nightly

from xlbench import train
from xlbench.reporting import layout
from xlbench.system import errors, sessions
from xlbench.training import checkpoints, loop

PROJECT = pathlib.Path(__file__).parents[2]
NUM_STEPS = 13  # 7 of stage 1, then 6 of stage 2.


def killed(tmp_path: pathlib.Path, place: str, config: ConfigDict) -> None:
    """Trains into tmp_path/run in another process, which is killed at a place; see children.py."""
    arguments = children.flags(tmp_path, config)
    with children.start(arguments, devices=8, signal_at=f'0:{place}:KILL') as run:
        assert run.wait() == [-signal.SIGKILL], run.output(0)


def assert_same_run(left: pathlib.Path, right: pathlib.Path, root: pathlib.Path) -> None:
    """The same losses and scores at every step, the same predictions, the same parameters."""
    children.same_run(left, right)
    assert checkpoints.steps(left) == checkpoints.steps(right)
    one, other = (final_params(workdir, root) for workdir in (left, right))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def final_params(workdir: pathlib.Path, root: pathlib.Path) -> dict:
    parts = train.runs.build(tiny.tiny_config(root))
    return jax.device_get(
        checkpoints.load_params(workdir, NUM_STEPS, parts.shapes, parts.shardings)
    )


# ------------------------------------------------------------------------- interruption, repetition


def test_the_uninterrupted_run_is_whole(tiny_run):
    steps = [step for step, _, _ in tiny.rows(tiny_run)]
    assert steps == list(range(1, NUM_STEPS + 1))
    stages = [name for _, name, _ in tiny.rows(tiny_run)]
    assert stages == ['stage1'] * 7 + ['stage2'] * 6
    losses = [values['loss'] for _, _, values in tiny.rows(tiny_run)]
    assert losses[-1] < losses[0] - 1  # It learns, so that equality below means something.
    assert {step for step, _, _ in tiny.rows(tiny_run, 'eval')} == {4, 7, 8, 12, 13}
    assert (tiny_run / 'DONE').read_text() == '13\n'
    config = json.loads((tiny_run / 'config.json').read_text())
    assert config['data'] == 'sample' and config['seed'] == 0
    assert len(config['manifests']) == len(config['examples']) == 8
    for task in tiny.QUESTIONS:
        folder = tiny_run / 'eval' / '13' / 'test' / task
        lines = (folder / 'predictions.jsonl').read_text().splitlines()
        assert [json.loads(line)['id'] for line in lines] == list(range(tiny.SIZES['test']))
        baselines = {path.parent.parent.parent.name for path in tiny_run.glob(f'eval/*/*/*/{task}')}
        assert baselines <= {'baselines'}
        for name in ('copy_input', 'best_constant', 'nearest_input'):
            path = tiny_run / 'eval' / 'baselines' / name / 'test' / task / 'metrics.json'
            assert json.loads(path.read_text())['num_examples'] == tiny.SIZES['test']


PLACES = {
    'train:2': None,  # Before there is any checkpoint.
    'commit:6': 4,  # While training goes on and a checkpoint is being written.
    'train:11': ...,  # In the middle of stage 2, where a checkpoint may be being written, too.
    f'eval:test/{tiny.QUESTIONS[0]}': NUM_STEPS,  # In the evaluation at the end.
}


@pytest.mark.parametrize('places', [[*PLACES][:2], *nightly([*PLACES])], ids=len)
def test_killed_at_every_awkward_place(tiny_root, tiny_run, tmp_path, places):
    workdir, config = tmp_path / 'run', tiny.tiny_config(tiny_root)
    for place in places:
        killed(tmp_path, place, config)
        newest = max(checkpoints.steps(workdir), default=None)
        assert PLACES[place] in (newest, ...)
        if place == 'commit:6':
            assert list((workdir / 'checkpoints').glob('6.*')), 'nothing is half-written'
    train.train(config, str(workdir))
    assert_same_run(workdir, tiny_run, tiny_root)


def test_another_seed_is_another_run(tiny_root, tiny_run, tmp_path):
    tiny.train_until(5, tiny.tiny_config(tiny_root, seed=1), tmp_path / 'run')
    one, other = ([v['loss'] for _, _, v in tiny.rows(w)] for w in (tmp_path / 'run', tiny_run))
    assert len(one) == 5 and all(left != right for left, right in zip(one, other, strict=False))


def test_a_finished_run_prints_its_table_and_changes_nothing(tiny_root, tiny_run, tmp_path, capsys):
    before = children.contents(tiny_run)
    path = tiny.write_config(tmp_path / 'tiny_run.py', tiny.tiny_config(tiny_root))
    argv = ['train', f'--config={path}', f'--workdir={tiny_run}']
    assert errors.run_main(train.main, argv) == 0
    screen = capsys.readouterr().out
    assert 'finished already' in screen
    assert 'SAMPLE DATA' in screen and 'nearest_input' in screen
    assert children.contents(tiny_run) == before


# ------------------------------------------------------------------------------ the best checkpoint


def test_patience_ends_a_stage_and_its_best_checkpoint_is_used(tiny_root, tmp_path):
    """The falling loss is made the score to raise, so that the first evaluation stays the best.

    That of stage 1 is better than all of stage 2, which is scored and reported by its own.
    """
    config = tiny.tiny_config(
        tiny_root, best__mode='max', best__patience=2, evals__dev__every=1, checkpoints__every=100
    )
    workdir = tmp_path / 'run'
    # The best checkpoint is found again, too.
    tiny.train_until(9, config, workdir)
    train.train(config, str(workdir))
    assert len(sessions.read(workdir)) == 2
    assert [step for step, _, _ in tiny.rows(workdir)] == [1, 2, 3, 8, 9, 10]
    log = (workdir / 'log.txt').read_text()
    assert 'stage stage1 ends before step 4: the score no longer improves' in log
    assert 'stage stage2 ends before step 11: the score no longer improves' in log
    assert 'stage stage2 starts from the best checkpoint of stage stage1, step 1' in log
    for stage, step in (('stage1', 1), ('stage2', 8)):
        assert f'stage {stage} ends: it is evaluated at its best checkpoint, step {step}' in log
        for task in tiny.QUESTIONS:
            path = workdir / 'eval' / str(step) / 'test' / task / 'metrics.json'
            assert json.loads(path.read_text())['stage'] == stage
    evals = [(step, name) for step, name, _ in tiny.rows(workdir, 'eval') if 'test/mean' in name]
    assert evals == [(1, 'test/mean'), (8, 'test/mean')]
    # The best of each stage, and the newest one.
    assert checkpoints.steps(workdir) == [1, 8, 10]
    assert checkpoints.find_step(str(workdir), 'best') == 8
    assert (workdir / 'DONE').read_text() == '8\n'
    assert 'test split, step 8 (stage2)' in log
    assert 'Scores are those after stage2; --step=stage1 shows those after stage1.' in log
    table = layout.screen(str(workdir), 'stage1')
    assert 'test split, step 1 (stage1)' in table and '--step=stage2 shows' in table
    assert layout.screen(str(workdir), 'best') != table  # Though stage 1 has the better score.
    with pytest.raises(errors.UserError, match='allowed: best, last, stage1, stage2, 1, 8'):
        layout.screen(str(workdir), 'stage3')
    # Stage 2 did start there: its first loss is that of the best parameters, not of step 3's.
    first = next(values for step, _, values in tiny.rows(workdir) if step == 8)
    second = next(values for step, _, values in tiny.rows(workdir) if step == 2)
    third = next(values for step, _, values in tiny.rows(workdir) if step == 3)
    assert abs(first['loss'] - second['loss']) < abs(first['loss'] - third['loss'])


def test_a_run_of_an_earlier_version_goes_on(tiny_root, tmp_path, monkeypatch):
    """It kept one best checkpoint for all stages, here one of stage 1, and none `chosen`."""
    config = tiny.tiny_config(tiny_root, baselines=(), checkpoints__keep=9)
    workdir = tmp_path / 'run'
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, 'train_stage', stop_in_stage_2(loop.Trainer.train_stage))
        with pytest.raises(KeyError, match='stopped'):
            train.train(config, str(workdir))
    [newest] = checkpoints.steps(workdir)[-1:]
    assert newest == 9
    path = harm.as_earlier(workdir, newest)
    progress = json.loads(path.read_text())
    assert progress.pop('chosen') == {'stage1': 7}
    path.write_text(json.dumps(progress | {'best': {'step': 7, 'score': 0.001}}))
    made = loop._step_function.cache_info().misses
    train.train(config, str(workdir))
    assert loop._step_function.cache_info().misses == made  # A second run is not traced again.
    log = (workdir / 'log.txt').read_text()
    assert 'the best checkpoint so far, step 7, is of stage stage1: an earlier version' in log
    assert (workdir / 'DONE').read_text() == '13\n' and '13 (stage2)' in log
    harm.edit_progress(workdir, NUM_STEPS, stage='stage3')
    (workdir / 'DONE').unlink()
    with pytest.raises(
        errors.UserError, match=r"is from stage 'stage3', but the config has stage1"
    ):
        train.train(config, str(workdir))


def stop_in_stage_2(train_stage):
    """`Trainer.train_stage` that fails in stage 2 when the checkpoint of step 9 is on disk."""

    def stopped(trainer, name):
        if name == 'stage2':
            save = trainer.checkpoints.save

            def save_then_stop(step, *args):
                save(step, *args)
                if step == 9:
                    trainer.checkpoints.wait()
                    raise KeyError('stopped')

            trainer.checkpoints.save = save_then_stop
        train_stage(trainer, name)

    return stopped


# ----------------------------------------------------------------------- losses that are not finite


@pytest.fixture
def poison(monkeypatch):
    """Makes the loss of steps that are named not finite; notes the steps that were dispatched."""
    step_after = loop.train_step_lib.TrainStep.__call__
    bad: dict[int, float] = {}
    dispatched: list[int] = []

    def step_with_poison(train_step, state, batch):
        dispatched.append(int(state.step) + 1)
        weights = batch['decoder_loss_weights']
        factor = np.float32(bad.get(dispatched[-1], 1.0))
        return step_after(train_step, state, {**batch, 'decoder_loss_weights': weights * factor})

    monkeypatch.setattr(loop.train_step_lib.TrainStep, '__call__', step_with_poison)
    return bad, dispatched


def test_a_loss_that_is_not_finite_stops_the_run(tiny_root, tiny_run, tmp_path, poison):
    """It is named with its examples, reaches no file, and the newest checkpoint is intact."""
    bad, _ = poison
    bad[6] = np.nan
    workdir = tmp_path / 'run'
    message = (
        r'step 6: the loss is nan and the norm of the gradients nan, and nonfinite.skip is 0; its '
        r'examples are in .*step-6.json, and the newest checkpoint is of step 4. Try a lower'
    )
    with pytest.raises(errors.UserError, match=message) as error:
        train.train(tiny.tiny_config(tiny_root), str(workdir))
    assert error.value.exit_code == 2 and '\n' not in str(error.value)
    assert [step for step, _, _ in tiny.rows(workdir)] == [1, 2, 3, 4, 5]
    assert checkpoints.steps(workdir) == [4]
    facts = json.loads((workdir / 'nonfinite' / 'step-6.json').read_text())
    assert (facts['step'], facts['loss'], facts['grad_norm']) == (6, 'nan', 'nan')
    assert len(facts['examples']) >= 8  # Rows, each with an example or more.
    for example in facts['examples']:
        assert example['task'] in tiny.QUESTIONS and example['split'] == 'rough_train'
        pair = tiny.examples(example['task'], 'rough_train')[example['number']]
        assert (example['input'], example['target']) == pair
    bad.clear()
    train.train(tiny.tiny_config(tiny_root), str(workdir))
    assert_same_run(workdir, tiny_run, tiny_root)


def test_it_is_found_soon_where_nothing_else_waits(tiny_root, tmp_path, poison):
    bad, dispatched = poison
    bad[3] = np.inf
    config = tiny.tiny_config(tiny_root, log_every=100, checkpoints__every=100)
    config.evals.dev.every = 100
    with pytest.raises(errors.UserError, match=r'step 3: .*, and the newest checkpoint is none'):
        train.train(config, str(tmp_path / 'run'))
    assert dispatched == [1, 2, 3, 4, 5]  # STEPS_AHEAD.


def test_steps_that_are_not_finite_are_left_out(tiny_root, tiny_run, tmp_path, poison):
    """As often as allowed in the whole run; until the first one, it is the same run."""
    bad, _ = poison
    bad |= {6: np.nan, 9: np.inf}
    config = tiny.tiny_config(tiny_root, nonfinite__skip=2, baselines=())
    del config.evals['test']
    workdir = tmp_path / 'run'
    train.train(config, str(workdir))
    assert [step for step, _, _ in tiny.rows(workdir)] == [*range(1, 6), 7, 8, *range(10, 14)]
    for kind in ('train', 'eval'):
        before = ([x for x in tiny.rows(w, kind) if x[0] < 6] for w in (workdir, tiny_run))
        for ours, theirs in zip(*before, strict=True):
            # It is another program, whose fusions XLA may round in another way.
            assert ours[:2] == theirs[:2] and ours[2] == pytest.approx(theirs[2], rel=1e-4)
    log = (workdir / 'log.txt').read_text()
    assert 'step 6: the loss is nan and the norm of the gradients nan; skipped, 1 of 2' in log
    assert 'skipped, 2 of 2; its examples are in' in log
    assert sorted(path.name for path in workdir.glob('nonfinite/*')) == [
        'step-6.json', 'step-9.json',
    ]  # fmt: skip
    assert all(np.isfinite(values['loss']) for _, _, values in tiny.rows(workdir, 'eval'))
    assert checkpoints.read_progress(workdir, NUM_STEPS).skipped == 2
    # The learning rate goes on where it was, as the optimizer's own does.
    rates = {step: values['learning_rate'] for step, _, values in tiny.rows(workdir)}
    found = [rates[step] for step in (1, 3, 4, 5, 7)]
    assert found == pytest.approx([0.005, 0.01, 0.008, 0.006, 0.004])


@pytest.mark.nightly
def test_steps_that_are_not_finite_are_counted_over_restarts(tiny_root, tmp_path, poison):
    bad, _ = poison
    bad |= {2: np.nan, 9: np.inf}
    config = tiny.tiny_config(tiny_root, nonfinite__skip=1)
    workdir = tmp_path / 'stopped'
    for _ in range(2):  # Started again, it has the first one behind it.
        with pytest.raises(errors.UserError, match=r'step 9: .*, and nonfinite.skip is 1'):
            train.train(config, str(workdir))
    assert checkpoints.steps(workdir)[-1] == 8


# ------------------------------------------------------------------------------------ user mistakes


@pytest.fixture
def refuse(tiny_root, tmp_path, capfd):
    """Runs a command that must fail with one line and leave no trace; returns the line."""

    def run(*extra, config=None, workdir=None):
        target = workdir or tmp_path / 'run'
        path = tiny.write_config(tmp_path / 'tiny_run.py', config or tiny.tiny_config(tiny_root))
        before = children.contents(tiny_root), children.contents(target)
        existed = target.exists()
        capfd.readouterr()
        assert run_to_its_end(['train', f'--config={path}', f'--workdir={target}', *extra]) == 2
        screen = capfd.readouterr()
        assert screen.err.startswith('error: ') and screen.err.count('\n') == 1, screen.err
        assert (children.contents(tiny_root), children.contents(target)) == before
        assert target.exists() == existed
        return screen.err

    return run


def run_to_its_end(argv: list[str]) -> int:
    """The exit code of the command, as the shell would see it."""
    try:
        return errors.run_main(train.main, argv)
    except SystemExit as end:
        return end.code


ALONE = {'best__score': ''}


@pytest.mark.parametrize(
    'slip, message',
    [
        # On the command line.
        ('stages.stage1.optimizer.learning_rat=1', "optimizer 'learning_rat'; nearest: learning"),
        ('stages.stage3.num_steps=1', "unknown key in config.stages 'stage3'; nearest: "),
        ('log_every=0', 'config.log_every is 0; it must be 1 or more'),
        ('best.score=dev/mean/headline', 'has the loss alone; set config.evals.dev.deco'),
        ('best.score=test/mean/loss', 'such as dev/mean/loss, with EVAL one of dev'),
        ('stages.stage2.start_from=bset', "'bset'; nearest: best"),
        ('batches.lengths.inputs=1', 'each 2 tokens or more'),
        ('mesh.tensor=3', 'x tensor=3 needs a multiple of 3 devices; this run has 8'),
        ('mesh.data=4', 'mesh data=4 x fsdp=1 x tensor=1 needs 4 devices; this run has 8'),
        ('batches.batch_size=12', 'a batch of 12 rows cannot be split over'),
        ('accumulate=3', 'a batch of 8 rows cannot be split over'),
        ('evals.dev.batch_size=20', 'a batch of 20 rows cannot be split over'),
        ('model.vocab_size=8', 'config.model.vocab_size 8 is smaller than the vocabulary'),
        # In a config file.
        ({'optimizer_': {}}, "unknown key in config 'optimizer_'; "),
        ({'stages__stage2__optimizer__wieght_decay': 0.1}, "'wieght_decay'; nearest: weight_decay"),
        ({'stages__stage2__optimizer__name': 'adamx'}, "'adamx'; nearest: adam"),
        ({'stages__stage1__optimizer__schedule': 'cosin'}, "optimizer.schedule 'cosin'; nearest: "),
        ({'stages__stage1__steps': 3}, "unknown key in config.stages.stage1 'steps'; nearest: num"),
        ({'batches__batchsize': 8}, "unknown key in config.batches 'batchsize'; nearest: batch_si"),
        ({'evals__dev__num_exampels': 8}, "unknown key in config.evals.dev 'num_exampels'; near"),
        ({'model__droput_rate': 0.1}, "unknown key in config.model 'droput_rate'; nearest: dro"),
        ({'model__size': 'smal'}, "unknown size of mt5 'smal'; nearest: small"),
        ({'objective__name': 'generatoin'}, "'generatoin'; nearest: generation"),
        ({'objective__zloss': 1e-4}, "unknown key in config.objective 'zloss'; nearest: z_loss"),
        ({'mesh__model': 2}, "unknown key in config.mesh 'model'"),
        ({'checkpoints__evry': 2}, "unknown key in config.checkpoints 'evry'; nearest: every"),
        ({'best__patienc': 2}, "unknown key in config.best 'patienc'; nearest: patience"),
        ({'baselines': ('copy_inptu',)}, "'copy_inptu'; nearest: copy_input"),
        ({'trainable': ('decoder/attn.*',)}, "unknown parameter pattern in config.trainable 'de"),
        ({'evals__dev__lengths': {'inputs': 24}}, 'it needs inputs and targets'),
        ({'evals__dev__tasks': ()}, 'config.evals.dev.tasks is empty'),
        ({'best__score': 'dev/mtg_qg_de_fr/loss'}, "'mtg_qg_de_fr'; nearest: mtg_qg_"),
        ({'stages': {}}, 'config.stages is empty'),
        ({'stages__stage2__optimizer__warmup_steps': 7.0}, '7, but the stage has 6 steps'),
        ({'best__score': 'dev/mean/rouge_l'}, "score in config.best.score 'rouge_l'; allowed: lo"),
        ({'best__score': 'dev/mtg_qg_en_en/lss'}, "in config.best.score 'lss'; nearest: loss"),
        # Both are found by the child process that prepares, the only one that starts TensorFlow.
        (ALONE | {'evals__dev__tasks': ('mtg_qg_en_dd',)}, "'mtg_qg_en_dd'; nearest: mtg_qg_en_de"),
        (ALONE | {'evals__dev__tasks': ('mtg_qg_fr_fr',)}, '/mtg/qg/fr'),
    ],
)
def test_mistakes(refuse, tiny_root, slip, message):
    if isinstance(slip, str):
        assert message in refuse(f'--config.{slip}')
    else:
        assert message in refuse(config=tiny.tiny_config(tiny_root, **slip))


@pytest.mark.parametrize(
    'variant, message',
    [
        ('base,scenario=cross,task=qgg', "unknown mtg task 'qgg'; nearest: qg"),
        ('scenario=mono,task=qg', "scenario 'mono' trains one language; give source"),
        ('scenario=multi,task=qg,rate=equl', "unknown mixing rate 'equl'; nearest: equal"),
    ],
)
def test_mistakes_after_the_colon(tmp_path, capfd, variant, message):
    workdir = tmp_path / 'run'
    path = PROJECT / 'configs' / 'mtg_mt5.py'
    assert run_to_its_end(['train', f'--config={path}:{variant}', f'--workdir={workdir}']) == 2
    said = capfd.readouterr().err
    assert said.count('\n') == 1 and said.startswith('error: ') and message in said
    assert not workdir.exists()


def test_a_vocabulary_that_is_not_the_data_s(tiny_root, tmp_path, refuse):
    other = tmp_path / 'root'
    shutil.copytree(tiny_root, other)
    texts = [str(number) for number in range(1000)]
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(other / 'sample'), vocab_size=20,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    line = refuse(config=tiny.tiny_config(other))
    assert 'prepared with another vocabulary' in line and '--force' in line


def test_a_workdir_of_another_config_or_of_somebody_else(tiny_run, tmp_path, refuse):
    line = refuse('--config.stages.stage1.optimizer.learning_rate=0.5', workdir=tiny_run)
    assert 'stages.stage1.optimizer.learning_rate was 0.01, now 0.5' in line
    line = refuse('--config.seed=3', '--config.log_every=7', workdir=tiny_run)
    assert 'log_every was 1, now 7; seed was 0, now 3' in line
    foreign = tmp_path / 'foreign'
    foreign.mkdir()
    (foreign / 'thesis.tex').write_text('mine')
    assert 'is not empty and holds no run of ours' in refuse(workdir=foreign)


def test_the_environment_of_the_kill_tests():
    assert os.environ['JAX_PLATFORMS'] == 'cpu' and len(jax.devices()) == 8
