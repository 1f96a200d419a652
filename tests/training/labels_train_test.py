"""A tiny classifier and a tiny tagger through the real trainer: they learn, and refuse mistakes."""

import json
import shutil

import numpy as np
import pytest
import tiny
import tiny_labels
from nightly import nightly

from xlbench import convert, evaluate, runs, train
from xlbench.data import prepared
from xlbench.huggingface import checkpoint as hf_checkpoint
from xlbench.inference import loading
from xlbench.parallel import partitioning
from xlbench.plan import dry_run
from xlbench.system.errors import UserError

MAIN = {'classification': 'accuracy', 'tagging': 'tag_accuracy'}


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp('labels')
    tiny_labels.write_root(root)
    return root


@pytest.fixture(scope='module', params=['tagging', *nightly('classification')])
def run(request, root, tmp_path_factory):
    """(view, workdir) of a whole run."""
    workdir = tmp_path_factory.mktemp('run') / request.param
    train.train(tiny_labels.tiny_config(root, request.param), str(workdir))
    return request.param, workdir


def test_it_learns_and_is_scored(run):
    view, workdir = run
    steps = [values for _, _, values in tiny.rows(workdir)]
    assert len(steps) == 60
    first, last = (np.mean([values['loss'] for values in part]) for part in (steps[:5], steps[-5:]))
    assert last < first / 2 and steps[-1]['accuracy'] > 0.7
    assert 0.2 < steps[0]['real_token_share'] < 1
    about = json.loads((workdir / 'config.json').read_text())
    assert about['labels'] == tiny_labels.LABELS[view]
    for task in tiny_labels.TASKS[view]:
        folder = next((workdir / 'eval').glob(f'*/test/{task}'))
        scores = json.loads((folder / 'metrics.json').read_text())['scores']
        assert scores[MAIN[view]] > 70 and scores['loss'] < 1  # By chance 33 and 1.1.
        assert len((folder / 'predictions.jsonl').read_text().splitlines()) == 45


def written(workdir) -> dict[str, object]:
    """Predictions and scores by file; not the stage, which is another when evaluated again."""
    return {
        name: json.loads(text)['scores'] if name.endswith('metrics.json') else text
        for name, text in tiny.results(workdir).items()
    }


def test_it_opens_and_is_exported_with_its_labels(run, tmp_path):
    view, workdir = run
    found = loading.open_model(str(workdir), partitioning.make_mesh(), {})
    assert (found.objective.view, list(found.labels)) == (view, tiny_labels.LABELS[view])
    texts = {task.get('texts') for task in found.tasks.values()}
    assert texts == {1 if view == 'classification' else None}
    folder = tmp_path / 'exported'
    convert.main(['convert', str(workdir), str(folder)])
    about = json.loads((folder / 'config.json').read_text())
    labels = tiny_labels.LABELS[view]
    assert about['id2label'] == {str(i): label for i, label in enumerate(labels)}
    assert hf_checkpoint.open(str(folder)).model['num_labels'] == len(labels)


@pytest.mark.parametrize(
    ('view', 'overrides', 'message'),
    [
        ('tagging', {'batches__packing': True}, 'a model for tagging reads one; set packing=False'),
        ('tagging', {'model__num_labels': 2}, 'the data has 3 labels; set it to 0 or to 3'),
        ('tagging', {'model__family': 'sequence_classifier'}, r"'tagging'; .*a token_classifier"),
        ('classification', {'model__family': 'bert'}, "is 'bert' and .* a sequence_classifier"),
        ('tagging', {'baselines': ('most_frequent',)}, 'a tag for each word; set it to'),
        (
            'classification', {'stages__source__mixture': 'fewshot_zero_shot_udpos'},
            'has the labels NOUN|prepared for tagging',
        ),
    ],
)  # fmt: skip
def test_mistakes_are_refused_before_anything_is_written(root, tmp_path, view, overrides, message):
    with pytest.raises(UserError, match=message):
        train.train(tiny_labels.tiny_config(root, view, **overrides), str(tmp_path / 'run'))
    assert not (tmp_path / 'run').exists()


def with_other_labels(root, other, view, labels):
    """A copy of a root whose German test set has its labels in another order, or further ones."""
    shutil.copytree(root, other)
    task, place = tiny_labels.TASKS[view][1], {label: i for i, label in enumerate(labels)}
    rows = tiny_labels.records(view, task, 'test')
    for row in rows:
        ids = [place[tiny_labels.LABELS[view][label]] for label in row['targets']]
        row['targets'] = np.array(ids, np.int32)
    vocabulary = prepared.open_task(str(root), 'sample', task, 'test').manifest['vocabulary']
    shutil.rmtree(prepared.folder(str(other), 'sample', task, 'test'))
    tiny_labels.write_task(other, view, task, 'test', rows, vocabulary, labels=labels)
    return other


def test_tasks_of_unequal_labels_share_the_union_of_them(run, root, tmp_path, capsys):
    """In the order of the first task; ids of others are translated, so that scores are equal."""
    view, workdir = run
    own = tiny_labels.LABELS[view]
    other = with_other_labels(root, tmp_path / 'other', view, own[::-1])
    before = written(workdir)
    evaluate.main(['evaluate', f'--workdir={workdir}', '--split=test', f'--root={other}'])
    assert 'on 2 tasks, test' in capsys.readouterr().out
    assert before and before.items() <= written(workdir).items()
    more = with_other_labels(root, tmp_path / 'more', view, ['new', *own[::-1]])
    config = tiny_labels.tiny_config(more, view)
    said = list(dry_run.of_run(config, str(tmp_path / 'new')))
    assert f'{tiny_labels.TASKS[view][0]} has no examples of the label new' in said
    assert runs.build(config).model.config.num_labels == 4
    assert runs.facts(config, runs.build(config))['labels'] == [*own, 'new']
    with pytest.raises(UserError, match='was trained with the labels'):
        evaluate.main(['evaluate', f'--workdir={workdir}', '--split=test', f'--root={more}'])


def test_other_labels_and_tasks_of_another_kind_are_not_evaluated(run, monkeypatch):
    view, workdir = run
    other = {'classification': 'tagging', 'tagging': 'classification'}[view]
    task = tiny_labels.TASKS[other][0]
    with pytest.raises(UserError, match=f'{task} is prepared for {other}, and the objective is'):
        evaluate.main(['evaluate', f'--workdir={workdir}', f'--tasks={task}', '--split=test'])
    about = json.loads((workdir / 'config.json').read_text())
    others = about | {'labels': about['labels'][::-1]}
    monkeypatch.setattr(evaluate, 'read_run', lambda *_: others)
    with pytest.raises(UserError, match='was trained with the labels'):
        evaluate.main(['evaluate', f'--workdir={workdir}', '--split=test'])
