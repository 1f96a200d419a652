"""A tiny retriever through the real trainer: it learns, resumes exactly, and refuses mistakes."""

import json
import re

import children
import ml_collections
import numpy as np
import pytest
import tiny
import tiny_replies
from nightly import nightly

from xlbench import train
from xlbench.evaluators import retrieval as evaluator
from xlbench.retrieval.response_set import chooser
from xlbench.system.errors import UserError
from xlbench.training import messages


@pytest.fixture(scope='module')
def run(replies_root, tmp_path_factory):
    """The workdir of a whole run."""
    workdir = tmp_path_factory.mktemp('run') / 'run'
    train.train(tiny_replies.tiny_config(replies_root), str(workdir))
    return workdir


def test_it_learns_and_is_scored(run):
    steps = [values for _, _, values in tiny.rows(run)]
    assert len(steps) == 40
    first, last = (np.mean([values['loss'] for values in part]) for part in (steps[:5], steps[-5:]))
    assert last < first / 2 and steps[-1]['accuracy'] > 0.5
    assert 0.2 < steps[0]['real_token_share'] < 1
    for task in tiny_replies.TASKS:
        result = json.loads((run / 'eval' / '40' / 'test' / task / 'metrics.json').read_text())
        scores = result['scores']
        # By chance: 5, 50, and about 18.
        assert scores['p_at_1'] > 40 and scores['recall_10'] > 90 and scores['mrr'] > 50
        assert {'mrs_rouge', 'dist_1', 'set_mrr', 'loss'} <= scores.keys()
        assert scores['mrs_rouge'] > 40
    # The other evaluation has no set to suggest from.
    scores = tiny.rows(run, 'eval')[0][2]
    assert 'p_at_1' in scores and 'mrs_rouge' not in scores


def test_it_goes_on_exactly_where_it_was(replies_root, run, tmp_path):
    tiny.train_until(13, tiny_replies.tiny_config(replies_root), tmp_path / 'run')
    train.train(tiny_replies.tiny_config(replies_root), str(tmp_path / 'run'))
    assert 'resumed at step 8' in (tmp_path / 'run' / 'log.txt').read_text()
    children.same_run(tmp_path / 'run', run)


@pytest.mark.parametrize(
    'parts', [dict(batches__widths=2), *nightly(dict(objective__chunk_rows=8))]
)
def test_chunks_and_widths_train_the_same(replies_root, tmp_path, parts):
    losses, shares = [], []
    for name, changes in (('whole', {}), ('parts', parts)):
        config = tiny_replies.tiny_config(
            replies_root, stages__stage1__num_steps=4, best__score='', baselines=(),
            stages__stage1__optimizer__warmup_steps=4.0,
            batches__lengths=dict(inputs=32, targets=32), **changes,
        )  # fmt: skip
        config.evals = ml_collections.ConfigDict()
        train.train(config, str(tmp_path / name))
        steps = [values for _, _, values in tiny.rows(tmp_path / name)]
        losses.append([values['loss'] for values in steps])
        shares.append(steps[0]['real_token_share'])
    np.testing.assert_allclose(*losses, rtol=1e-3)
    assert shares[1] > 1.2 * shares[0] if 'batches__widths' in parts else shares[0] == shares[1]


def test_an_evaluation_is_one_line_and_splits_a_set_into_words_once(
    replies_root, tmp_path, monkeypatch
):
    made = []
    monkeypatch.setattr(evaluator, 'chooser', lambda *args: made.append(1) or chooser(*args))
    config = tiny_replies.tiny_config(
        replies_root, stages__stage1__num_steps=4, evals__dev__every=2,
        evals__dev__responses='responses', evals__dev__consensus=1.0,
    )  # fmt: skip
    del config.evals.test
    train.train(config, str(tmp_path / 'run'))
    assert len(made) == len(tiny_replies.TASKS)
    lines = (tmp_path / 'run' / 'log.txt').read_text().splitlines()
    (line,) = (line for line in lines if line.startswith('dev at step 4'))
    shown = r'loss \d+\.\d{3} p_at_1 \S+ mrs_rouge \S+ dist_1 \S+ dist_2 \S+ \(\S+s\)'
    assert re.fullmatch(f'dev at step 4, mean of 2 tasks: {shown}', line)
    kept = tiny.rows(tmp_path / 'run', 'eval')[-1][2]
    assert {'mrr', 'set_mrr', 'recall_10'} <= kept.keys()


def test_what_a_line_shows_of_an_evaluation():
    mean = {'loss': 0.5, 'recall_10': 50.0, 'mrr': 40.0, 'p_at_1': 30.0, 'set_size': 1.0}
    scores = {'mrs_retrieval_en_en': mean, 'mean': mean}
    assert (
        messages.headline(scores, '') == 'loss 0.500 recall_10 50.000 mrr 40.000 p_at_1 30.000'
    )
    mean = {'loss': 0.5, 'chunk_f1': 70.0, 'tag_accuracy': 80.0, 'tag_accuracy_X': 9.0}
    scores = {'fewshot_udpos_en_en': mean, 'mean': mean}
    assert messages.headline(scores, 'dev/mean/chunk_f1') == 'loss 0.500 chunk_f1 70.000'
    shown = messages.headline(scores, 'dev/fewshot_udpos_en_en/tag_accuracy_X')
    assert shown == 'loss 0.500 tag_accuracy_X 9.000 chunk_f1 70.000'
    scores = {'my_own_task': {'loss': 1.0, 'wins': 2.0}, 'mean': {'loss': 1.0, 'wins': 2.0}}
    assert messages.headline(scores, '') == 'loss 1.000 wins 2.000'


@pytest.mark.parametrize(
    ('overrides', 'message'),
    [
        ({'accumulate': 2}, 'set it to 1, and config.objective.chunk_rows'),
        ({'batches__packing': True}, 'packing=False'),
        ({'model__family': 'bert'}, "is 'bert' and .* 'retrieval'; .*retrieval trains a dual"),
        ({'batches__view': 'generation'}, "unknown key in config.batches 'view'"),
        ({'objective__lose': 'softmax'}, "unknown key in config.objective 'lose'; nearest: loss"),
        ({'objective__loss': 'softmx'}, "'softmx'; nearest: softmax"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(
    replies_root, tmp_path, overrides, message
):
    with pytest.raises(UserError, match=message):
        train.train(tiny_replies.tiny_config(replies_root, **overrides), str(tmp_path / 'run'))
    assert not (tmp_path / 'run').exists()
