"""The programs as functions: the same files, scores and messages, as pandas frames."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tiny
import tiny_replies

import xlbench
from xlbench.interactive import calling
from xlbench.system.errors import UserError

TASK = tiny.QUESTIONS[0]
CHANGES = {'stages.stage1.num_steps': 2, 'baselines': ['copy_input']}


@pytest.fixture(scope='module')
def config_file(tiny_root, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp('configs') / 'brief.py'
    return tiny.write_config(path, tiny.brief_config(tiny_root))


def test_importing_the_package_loads_nothing():
    """Nor do tasks need jax, or anything TensorFlow."""
    code = (
        'import sys, xlbench\n'
        'assert "Run" in dir(xlbench) and not {"jax", "pandas", "msgspec"} & set(sys.modules)\n'
        'assert len(xlbench.list_tasks("mtg")) == 48\n'
        'assert not {"jax", "seqio", "tensorflow"} & set(sys.modules)\n'
    )
    subprocess.run([sys.executable, '-c', code], check=True)


def test_tasks_are_listed():
    frame = xlbench.list_tasks('mtg')
    assert frame.loc['mtg_qg_en_de', ['about', 'source', 'target']].tolist() == [
        'question', 'en', 'de',
    ]  # fmt: skip
    assert 'train 5,000' in frame.loc['mtg_sg_en_en', 'splits']
    assert set(xlbench.list_tasks()['benchmark']) >= {'mtg', 'mrs', 'fewshot', 'clidsum'}
    with pytest.raises(UserError, match='nearest: mtg'):
        xlbench.list_tasks('mtgg')


def test_a_config_is_changed_as_flags_change_it(config_file):
    changes = {
        'seed': 3, 'stages.stage1': {'num_steps': 2, 'optimizer.learning_rate': 1e-3},
        'baselines': ['copy_input'], 'batches.packing': False, 'model.dropout_rate': 0,
        'init_from': '', 'data.vocabulary_type': 'bpe',
    }  # fmt: skip
    config = xlbench.load_config(config_file, changes)
    assert (config.seed, config.stages.stage1.num_steps) == (3, 2)
    assert config.stages.stage1.optimizer.learning_rate == 1e-3
    assert config.baselines == ('copy_input',) and config.batches.packing is False
    assert config.data.vocabulary_type == 'bpe'  # A key that the config leaves out.
    before = xlbench.load_config(config_file)
    assert before.seed == 0 and before.stages.stage1.num_steps == 6
    with pytest.raises(UserError, match='nearest: num_steps'):
        xlbench.load_config(config_file, {'stages.stage1.num_step': 2})
    with pytest.raises(UserError, match='learning_rate'):
        xlbench.load_config(config_file, {'stages.stage1.optimizer.learning_rate': 'fast'})


def test_examples_and_batches_are_read(config_file):
    config = xlbench.load_config(config_file)
    frame = xlbench.read_examples(config, TASK, 'test', count=3)
    source, target = tiny.examples(TASK, 'test')[2]
    assert frame.loc[2, ['inputs', 'targets']].tolist() == [source, target]
    assert 'task' not in frame  # There is one.
    tokens = frame.loc[2, 'targets_tokens']
    assert tokens[-1] == '</s>' and ''.join(tokens[:-1]).replace('▁', ' ').strip() == target
    mixed = xlbench.read_examples(config, tiny.MIXTURE, 'rough_train', count=2)
    assert mixed.task.tolist() == [task for task in sorted(tiny.QUESTIONS) for _ in '12']
    with pytest.raises(UserError, match="unknown task 'mtg_qg_en_xx'"):
        xlbench.read_examples(config, 'mtg_qg_en_xx')
    batch, again = xlbench.read_batch(config), xlbench.read_batch(config, 'stage1')
    assert batch['encoder_input_tokens'].shape == (8, tiny.LENGTHS['inputs'])
    assert batch['encoder_segment_ids'].max() > 1  # Rows are packed.
    name = 'decoder_target_tokens'
    np.testing.assert_array_equal(batch[name], again[name])
    with pytest.raises(UserError, match='unknown stage'):
        xlbench.read_batch(config, 'stage7')


@pytest.fixture(scope='module')
def run(config_file, tmp_path_factory) -> xlbench.Run:
    """A run of two steps, trained from Python."""
    run = xlbench.Run(tmp_path_factory.mktemp('runs') / 'run')
    with pytest.raises(UserError, match=r'has no config\.json'):
        run.train()
    run.train(xlbench.load_config(config_file, CHANGES))
    return run


def test_a_run_goes_on_with_its_own_config(run, config_file, capsys):
    run.train()
    assert f'is finished already; its table:\n\n{run.table()}' in capsys.readouterr().out
    assert run.config.to_dict() == xlbench.load_config(config_file, CHANGES).to_dict()
    other = xlbench.load_config(config_file, {'stages.stage1.num_steps': 3})
    with pytest.raises(UserError, match='num_steps'):
        run.train(other)


def test_scores_and_losses_are_those_of_the_files(run, tmp_path, capsys):
    history = run.history()
    losses = [values['loss'] for _, _, values in tiny.rows(run.workdir)]
    assert history[history.kind == 'train'].loss.tolist() == losses
    scores = run.scores()
    path = pathlib.Path(run.workdir, 'eval', '2', 'test', TASK, 'metrics.json')
    metrics = json.loads(path.read_text())
    assert scores.loc[('run', TASK), 'rouge_l'] == metrics['scores']['rouge_l']
    assert scores.loc[('run', TASK), 'examples'] == metrics['num_examples'] == 33
    assert len(run.predictions(TASK)) == 33
    assert ('copy_input', TASK) in scores.index
    assert scores.equals(run.scores(step='stage1'))
    xlbench.write_report([run], tmp_path / 'report', format='csv')
    assert list((tmp_path / 'report').glob('*.csv')) and 'wrote' in capsys.readouterr().out
    with pytest.raises(UserError, match='of runs or of sweeps'):
        xlbench.write_report([run, xlbench.Sweep('RUNS/pos')], tmp_path / 'report')


def test_evaluations_and_answers_are_those_of_the_programs(run):
    scored = run.evaluate(tasks=[TASK], split='validation', num_examples=5)
    assert scored.loc[('run', TASK), 'examples'] == 5
    answers = run.predictions(TASK, 'validation-first5')
    sources = [source for source, _ in tiny.examples(TASK, 'validation')]
    assert answers.input.tolist() == sources[:5]
    texts = [source.partition('> ')[2] for source in sources[:5]]
    predicted = run.predict(texts, target_lang='en')
    assert predicted.prediction.tolist() == answers.prediction.tolist()
    assert len(run.predict(texts[:1], target_lang='en', num_beams=2, num_return=2)) == 2
    with pytest.raises(UserError, match='unknown task'):
        run.predictions('mtg_qg_en_fr')


def test_a_retriever_suggests(retriever_run):
    messages = [message for message, _ in tiny_replies.pairs('mrs_retrieval_de_de', 'train')[:2]]
    frame = xlbench.Run(retriever_run).predict(messages, num_return=2, target_lang='de')
    assert len(frame) == 4 and frame.prediction.map(len).all() and frame.score.notna().all()


def test_failures_are_one_line(monkeypatch):
    with pytest.raises(UserError, match=r'no results\.jsonl'):
        xlbench.Sweep('RUNS/nowhere').results()
    assert UserError('no such task')._render_traceback_() == ['error: no such task']

    @calling.plainly
    def end(error: BaseException) -> None:
        raise error

    with pytest.raises(UserError, match='ended with code 2'):
        end(SystemExit(2))
    with pytest.raises(UserError, match='make room'):
        end(OSError(28, 'No space left on device'))
    with pytest.raises(KeyError):  # A mistake of ours keeps its traceback.
        end(KeyError('key'))
    monkeypatch.setitem(sys.modules, 'pandas', None)
    with pytest.raises(UserError, match='need the package pandas'):
        calling.frame([])


def test_arguments_become_flags():
    options = {'tasks': ['a', 'b'], 'mesh': {'data': 2, 'fsdp': 1}, 'scores': True, 'like': None}
    assert calling.flags(options) == ['--tasks=a,b', '--mesh=data=2,fsdp=1', '--scores']
    assert calling.overrides({'a': {'b': [1, (2,)]}, 'c.d': 'x'}) == [
        '--config.a.b=(1, (2,))', '--config.c.d=x',
    ]  # fmt: skip
