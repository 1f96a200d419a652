"""Every example is scored once, and what is written is what was predicted."""

import collections
import json
import re
import sys
import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from edits import refused
from stand_ins import Copier, read_result, with_metrics

from xlbench import config as config_lib, evaluators, metrics, runs
from xlbench.data import baselines as data_baselines, prepared, tokenizers
from xlbench.evaluators import base, baselines, generation
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.training import train_step


class Babbler(Copier):
    """Stands in for a model: it adds 3 to the last id, or else 4."""

    def init_cache(self, encoded, segments, max_length, beams=1):
        return {'origin': jnp.zeros((encoded.shape[0], beams, max_length), jnp.int32)}

    def decode_step(self, cache, tokens):
        return 9.0 * jax.nn.one_hot(tokens + 3, 128) + 8.0 * jax.nn.one_hot(tokens + 4, 128), cache


class IdsAsLoss:
    """Stands in for an objective: the loss of a row is the sum of its target ids."""

    view = 'generation'

    def row_losses(self, model, params, batch):
        ids = batch['decoder_target_tokens'] * batch['decoder_loss_weights']
        return {'loss': ids.sum(-1), 'weight': batch['decoder_loss_weights'].sum(-1)}


@pytest.fixture(scope='module')
def tasks(tiny_root):
    names = (*tiny.QUESTIONS, tiny.TITLES[0])
    return [prepared.open_task(str(tiny_root), 'sample', name, 'test') for name in names]


@pytest.fixture
def make(tiny_root, tasks):
    """Builds an evaluator on two devices."""

    def build(**options):
        options = dict(batch_size=6, lengths=tiny.LENGTHS) | options
        return evaluators.find(options.pop('kind', 'generation'))(
            options.pop('tasks', tasks),
            options.pop('model', Copier()),
            IdsAsLoss(),
            partitioning.make_mesh(devices=jax.devices()[:2]),
            tokenizers.load('sample', str(tiny_root)),
            **options,
        )

    return build


def test_every_example_is_scored_once_and_in_order(make, tasks, tmp_path):
    """33 examples in batches of 6: nothing divides anything."""
    evaluator = make()
    scores = evaluator.run({}, 7, str(tmp_path), 'stage1')
    assert len({s for task in evaluator.tasks for s in task.batches.shapes}) > 1
    tokenizer = evaluator._tokenizer
    for task in tasks:
        result, rows = read_result(tmp_path, task)
        records = task.read(range(len(task)))
        assert [row['id'] for row in rows] == list(range(33))
        assert [row['input'] for row in rows] == [r['inputs_pretokenized'] for r in records]
        targets = [record['targets_pretokenized'] for record in records]
        assert [row['target'] for row in rows] == targets
        # Longer inputs are cut to 24, and predictions to 8 tokens.
        copies = [record['inputs'][:8] for record in records]
        assert [row['prediction'] for row in rows] == tokenizer.decode_batch(copies)
        ids = [record['targets'][:8] for record in records]
        nats = [float(np.sum(row) / len(row)) for row in ids]
        np.testing.assert_allclose([row['scores']['loss'] for row in rows], nats, rtol=1e-6)
        expected = {'loss': np.concatenate(ids).sum() / sum(map(len, ids))}
        for spec in task.manifest['metrics']:
            expected |= metrics.from_spec(spec)(targets, [row['prediction'] for row in rows])
        expected['perplexity'] = np.exp(expected['loss'])
        assert result['scores'] == pytest.approx(expected, rel=1e-6)
        assert scores[task.name] == result['scores']
        assert result['num_examples'] == 33
        assert result['trimmed'] == {
            'inputs': sum(len(record['inputs']) > 24 for record in records),
            'targets': sum(len(record['targets']) > 8 for record in records),
        }
    means = {
        name: np.mean([scores[task.name][name] for task in tasks]) for name in scores[tasks[0].name]
    }
    assert scores['mean'] == pytest.approx(means)


def test_the_written_facts(make, tasks, tmp_path):
    evaluator = make(tasks=tasks[:1])
    first = evaluator.run({}, 7, str(tmp_path), 'stage1')
    result, rows = read_result(tmp_path, tasks[0])
    assert (result['task'], result['split']) == (tasks[0].name, 'test')
    assert (result['step'], result['stage'], result['data']) == (7, 'stage1', 'sample')
    assert result['manifest'] == tasks[0].sha256
    assert result['decoding'] == {'method': 'greedy', 'max_length': 8}
    assert set(result['signatures']) == {'MultilingualRouge', 'Distinct'}
    assert result['seconds'] >= 0
    assert {'loss', 'log_probability', 'rouge_l'} <= set(rows[0]['scores'])
    # The logit of the copied token is 5, of the 127 others 0, at each of its steps.
    step = -np.log1p(127 * np.exp(-5))
    lengths = [min(8, len(record['inputs'])) for record in tasks[0].read(range(33))]
    found = [row['scores']['log_probability'] for row in rows]
    np.testing.assert_allclose(found, step * np.array(lengths), rtol=1e-5)
    assert not list(tmp_path.rglob('*.tmp'))
    # The same evaluator runs again.
    assert evaluator.run({}, 8, str(tmp_path), 'stage1') == first
    assert read_result(tmp_path, tasks[0], 8)[1] == rows


def test_several_texts_an_example(make, tasks, tmp_path):
    """A metric of several predictions gets them, and the others go on with the first."""
    task = with_metrics(tasks[0], *tasks[0].manifest['metrics'], metrics.MrsRouge('en'))
    decoding = dict(method='beam', num_beams=4, num_return=3, max_length=3, length_penalty=0.0)
    evaluator = make(tasks=[task], model=Babbler(), decoding=decoding, num_examples=5)
    scores = evaluator.run({}, 7, str(tmp_path), 'stage1')[task.name]
    result, rows = read_result(tmp_path, task)
    assert result['decoding'] == decoding
    likely, less = (x - np.log(126 + np.exp(9) + np.exp(8)) for x in (9, 8))
    texts = evaluator._tokenizer.decode_batch([[3, 6, 9], [3, 6, 10], [3, 7, 10]])
    for row in rows:
        assert [found['prediction'] for found in row['n_best']] == texts
        assert row['prediction'] == texts[0]
        found = [[one[key] for one in row['n_best']] for key in ('score', 'log_probability')]
        expected = [3 * likely, 2 * likely + less, 2 * likely + less]
        np.testing.assert_allclose(found, [expected] * 2, rtol=1e-5)
    targets = [row['target'] for row in rows]
    for spec in task.manifest['metrics']:
        metric = metrics.from_spec(spec)
        several = isinstance(metric, metrics.MrsRouge)
        expected = metric(targets, [texts if several else texts[0]] * 5)
        assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert 'mrs_rouge' in rows[0]['scores']
    assert set(result['signatures']) == {'MultilingualRouge', 'Distinct', 'MrsRouge'}


@pytest.mark.parametrize(
    'batches, widths',
    [
        ({24: 1}, {24: 24}),
        ({56: 3, 80: 7, 104: 2, 144: 1, 256: 2}, {56: 80, 80: 80, 104: 144, 144: 144, 256: 256}),
        ({56: 8, 80: 7, 104: 99, 144: 1}, {56: 56, 80: 104, 104: 104, 144: 144}),
    ],
)
def test_inputs_of_few_batches_are_as_wide_as_others_for_decoding(batches, widths):
    assert generation.few_widths(batches) == widths


def test_texts_are_the_same_at_any_width_for_decoding(make, tasks, tmp_path, monkeypatch):
    model, ids = tiny.tiny_model(), jnp.ones((1, 4), jnp.int32)
    params = nn.unbox(model.init(jax.random.key(0), ids, ids))['params']
    found, programs = {}, []
    for name, ratio in {'own': 0.0, 'one': 99.0}.items():
        monkeypatch.setattr(generation, 'WIDER', ratio)
        evaluator = make(model=model, tasks=tasks[:1])
        evaluator.run(params, 7, str(tmp_path / name), 'stage1')
        found[name] = read_result(tmp_path / name, tasks[0])[1]
        programs.append(evaluator._decode_batch._cache_size())
        assert len(set(evaluator._widths.values())) == (1 if ratio else len(evaluator._widths)) != 0
    assert len(evaluator._widths) > 1
    assert programs[0] == programs[1] >= len(evaluator._widths)  # The widest is compiled already.
    assert [x['prediction'] for x in found['own']] == [x['prediction'] for x in found['one']]
    scores = [[x['scores']['log_probability'] for x in rows] for rows in found.values()]
    np.testing.assert_allclose(*scores, rtol=1e-5)


def test_the_first_token_is_the_language(make, tasks, tmp_path, monkeypatch):
    evaluator = make(tasks=tasks[:2], decoding=dict(max_length=4), num_examples=5)
    languages = {'en': 40, 'de': 41}
    monkeypatch.setattr(type(evaluator._tokenizer), 'forced_first', lambda _, lang: languages[lang])
    evaluator.run({}, 7, str(tmp_path), 'stage1')
    for task, first in zip(tasks, languages.values(), strict=False):
        copies = [[first, *record['inputs'][1:4]] for record in task.read(range(5))]
        _, rows = read_result(tmp_path, task)
        found = [row['prediction'] for row in rows]
        assert found == evaluator._tokenizer.decode_batch(copies)


def test_a_score_that_only_some_tasks_have_is_averaged_over_those(make, tasks, tmp_path):
    poor = with_metrics(tasks[1])
    evaluator = make(tasks=[tasks[0], poor], num_examples=7)
    scores = evaluator.run({}, 7, str(tmp_path), 'stage1')
    assert 'rouge_l' not in scores[poor.name]
    assert scores['mean']['rouge_l'] == scores[tasks[0].name]['rouge_l']
    losses = [scores[task.name]['loss'] for task in (tasks[0], poor)]
    assert scores['mean']['loss'] == pytest.approx(np.mean(losses))


@pytest.mark.parametrize('number, expected', [(1, 1), (7, 7), (33, 33), (99, 33)])
def test_the_first_examples_alone(make, tasks, tmp_path, number, expected):
    scores = make(tasks=tasks[:1], num_examples=number).run({}, 7, str(tmp_path), 'stage1')
    result, rows = read_result(tmp_path, tasks[0])
    assert result['num_examples'] == len(rows) == expected
    ids = np.concatenate([r['targets'][:8] for r in tasks[0].read(range(expected))])
    assert scores[tasks[0].name]['loss'] == pytest.approx(ids.mean())


def test_the_loss_alone(make, tasks, tmp_path):
    scores = make(decode=False).run({}, 7, str(tmp_path), 'stage1')
    assert all(set(values) == {'loss', 'perplexity'} for values in scores.values())
    folder = tmp_path / 'eval' / '7' / 'test' / tasks[0].name
    assert [path.name for path in folder.iterdir()] == ['metrics.json']
    assert json.loads((folder / 'metrics.json').read_text())['decoding'] == {}


def test_it_asks_after_every_batch_whether_to_go_on(make, tasks, tmp_path):
    """33 examples in batches of 6 make 6 of them; what was complete stays."""
    asked = []

    def check():
        asked.append(len(list(tmp_path.glob('eval/7/test/*'))))
        if len(asked) == 8:
            raise KeyError('enough')

    with pytest.raises(KeyError, match='enough'):
        make().run({}, 7, str(tmp_path), 'stage1', check=check)
    assert asked == [0] * 6 + [1] * 2
    assert [path.name for path in tmp_path.glob('eval/7/test/*')] == [tasks[0].name]


def test_it_asks_at_the_pace_of_the_device(make, tasks, tmp_path, monkeypatch):
    """A batch is awaited before the third one after it is dispatched."""
    events, asked = [], []

    def note(where, name, event, original):
        monkeypatch.setattr(where, name, lambda *args: (events.append(event), original(*args))[1])

    note(base.partitioning, 'put_batch', 'put', partitioning.put_batch)
    note(base.jax, 'block_until_ready', 'wait', jax.block_until_ready)
    evaluator = make(tasks=tasks[:1])
    evaluator.run({}, 7, str(tmp_path), 'stage1', check=lambda: asked.append(1))
    assert len(asked) == 6
    assert events == ['put'] * 3 + ['wait', 'put'] * 3 + ['wait'] * 3


def test_a_lost_batch_stops_the_run(make, tasks, tmp_path, monkeypatch):
    evaluator = make(tasks=tasks[:1])
    reader = base.batches_lib.EvalBatches
    lost = reader.build

    def lose(self, index):
        batch = lost(self, index)
        where = batch['example_index']
        return batch | {'example_index': np.where(where == 4, -1, where)}

    monkeypatch.setattr(reader, 'build', lose)
    with pytest.raises(RuntimeError, match='32 rows were scored, not each of 33 examples once'):
        evaluator.run({}, 7, str(tmp_path), 'stage1')
    assert not (tmp_path / 'eval').exists()


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(batch_size=5), 'a batch of 5 rows cannot be split over data x fsdp = 2 devices'),
        (dict(lengths={'inputs': 24}), 'it needs inputs and targets'),
        (dict(num_examples=-1), 'num_examples is -1'),
        (dict(decoding={'num_beam': 3}), "unknown key in decoding 'num_beam'; nearest: num_beams"),
        (dict(decoding={'method': 'beams'}), "in decoding.method 'beams'; nearest: beam"),
        (dict(decoding={'num_beams': 3}), 'num_beams is for beam and diverse_beam, and the method'),
        (dict(kind='generatoin'), "unknown type of evaluator 'generatoin'; nearest: gener"),
    ],
)
def test_mistakes(make, options, message):
    with refused(re.escape(message)):
        make(**options)


@pytest.fixture
def score_baseline(tiny_root, tmp_path):
    """Scores a baseline on the test split: metrics.json, the test targets and the training ones."""

    def score(name, task):
        train = prepared.open_task(str(tiny_root), 'sample', task.name, 'train')
        baselines.score(str(tmp_path), (name,), task, train)
        folder = tmp_path / 'eval' / 'baselines' / name / 'test' / task.name
        result = json.loads((folder / 'metrics.json').read_text())
        texts = (
            [record['targets_pretokenized'] for record in split.read(range(len(split)))]
            for split in (task, train)
        )
        return result, *texts

    return score


@pytest.mark.parametrize('name', ['copy_input', 'most_frequent'])
def test_baselines_are_scored_like_a_model(score_baseline, tasks, name):
    """The tag of the target language is no part of what copying says."""
    task = tasks[1]
    result, targets, seen = score_baseline(name, task)
    texts = [max(seen, key=seen.count)] * 33
    if name == 'copy_input':
        texts = [r['inputs_pretokenized'].removeprefix('<de> ') for r in task.read(range(33))]
        assert not texts[0].startswith('<')
    expected = {}
    for spec in task.manifest['metrics']:
        expected |= metrics.from_spec(spec)(targets, texts)
    assert result['scores'] == pytest.approx(expected)
    assert (result['step'], result['num_examples'], result['data']) == (None, 33, 'sample')
    assert result['manifest'] == task.sha256


def test_the_best_constant_is_the_training_target_with_the_highest_main_score(
    score_baseline, tasks
):
    result, targets, seen = score_baseline('best_constant', tasks[1])
    judged = seen[:: -(-len(seen) // 100)]
    metric = metrics.from_spec(tasks[1].manifest['metrics'][0])

    def judge(text):
        return metric(judged, [text] * len(judged))['rouge_l']

    best = max(data_baselines.constants(seen), key=judge)
    expected = metric(targets, [best] * 33)['rouge_l']
    assert result['scores']['rouge_l'] == pytest.approx(expected)


def test_predictions_that_collapse_are_said(tasks, make, tmp_path, monkeypatch):
    """A model without training writes next to nothing, in the file of its scores."""
    one = make()
    name = one.tasks[0].prepared.name
    lines = [{'target': str(i), 'prediction': 'a'} for i in range(33)]
    monkeypatch.setattr(one, 'rows', lambda *_: {})
    monkeypatch.setattr(one, 'begin', lambda *_: None)
    monkeypatch.setattr(one, 'summarise', lambda *_: ({'scores': {'loss': 1.0}}, lines))
    one.run({}, 5, str(tmp_path), 'stage1')
    said = f'{name}: only one text for 33 inputs, whose targets have 33.'
    assert said in one.collapsed
    path = tmp_path / 'eval' / '5' / one.tasks[0].prepared.split / name / 'metrics.json'
    assert json.loads(path.read_text())['note'] == said


def test_baselines_give_as_many_predictions_as_a_metric_takes(score_baseline, tasks):
    task = with_metrics(tasks[0], metrics.MrsRouge('en'))
    result, targets, seen = score_baseline('most_frequent', task)
    three = [text for text, _ in collections.Counter(seen).most_common(3)]
    expected, one = (metrics.MrsRouge('en')(targets, [texts] * 33) for texts in (three, three[:1]))
    assert result['scores'] == pytest.approx(expected)
    assert result['scores']['mrs_rouge'] > one['mrs_rouge']


def test_a_baseline_without_training_data(tasks, tmp_path):
    baselines.score(str(tmp_path), ('copy_input',), tasks[0], None)
    assert (tmp_path / 'eval' / 'baselines' / 'copy_input').is_dir()


def test_the_headline_of_a_task_is_named_or_the_first_score_of_its_metrics():
    evaluator = base.Evaluator.__new__(base.Evaluator)
    named = types.SimpleNamespace(name='a', manifest={'headline': 'bleu'})
    silent = types.SimpleNamespace(name='b', manifest={})
    evaluator.tasks = [types.SimpleNamespace(prepared=task) for task in (named, silent)]
    scores = {
        'a': {'loss': 1.0, 'accuracy': 2.0, 'bleu': 30.0},
        'b': {'loss': 1.0, 'zeta': 50.0, 'alpha': 2.0},
        'mean': {},
    }
    assert [evaluator.headline(scores, task) for task in ('a', 'b', 'mean')] == [30.0, 50.0, 40.0]
    with pytest.raises(UserError, match="unknown headline score of a 'bleu'"):
        evaluator.headline(scores | {'a': {'loss': 1.0}}, 'a')


OWN = """
from xlbench.evaluators.generation import GenerationEvaluator


class Shouting(GenerationEvaluator):
    '''Counts what is written in capitals, too.'''

    def __init__(self, *args, mark='!', **options):
        super().__init__(*args, **options)
        self.mark = mark

    def summarise(self, task, rows):
        result, lines = super().summarise(task, rows)
        shouted = [line['prediction'].endswith(self.mark) for line in lines]
        result['scores']['shouted'] = 100.0 * sum(shouted) / len(shouted)
        return result, lines


def no_class():
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / 'tasks').mkdir()
    (tmp_path / 'tasks' / 'shouts.py').write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield 'tasks/shouts.py:Shouting'
    sys.modules.pop('xlbench_user_tasks.shouts', None)


def test_an_evaluator_of_the_user_scores_a_run(own, tiny_root, tmp_path):
    """A subclass in tasks/, with an option and a score of its own, chosen by its type."""
    config = tiny.tiny_config(tiny_root)
    name = next(iter(config.evals))
    with config.unlocked():
        config.evals[name].update(type=own, mark=' ', decode=True, num_examples=5)
    config_lib.check_names(config)
    parts = runs.build(config)
    evaluator, _ = parts.evals[name]
    assert (type(evaluator).__name__, evaluator.mark) == ('Shouting', ' ')
    params = train_step.init_params(parts.model, parts.objective, parts.mesh, jax.random.key(0))
    scores = evaluator.run(params, 1, str(tmp_path / 'run'), 'stage1')
    assert 0.0 <= scores['mean']['shouted'] <= 100.0
    with config.unlocked():
        config.evals[name].volume = 11
    with refused(rf"config.evals.{name}: {own} cannot be made: TypeError: .* 'volume' \("):
        runs.build(config)


@pytest.mark.parametrize(
    'kind, message',
    [
        ('shouts', "unknown type of evaluator in config.evals.{} 'shouts'; allowed: "),
        ('labels', "which scores classification and tagging, and config.objective.name is 'gene"),
        ('tasks/shouts.py:no_class', 'is not a subclass of xlbench.evaluators.Evaluator'),
        ('tasks/shouts.py:Nothing', 'does not exist; see '),
        ('tasks/nowhere.py:Shouting', 'is in a task file that is not here'),
        ('os.path:join', 'is in a module that may not be loaded'),
    ],
)
def test_a_type_that_cannot_score_is_refused(own, tiny_root, kind, message):
    config = tiny.tiny_config(tiny_root)
    name = next(iter(config.evals))
    with config.unlocked():
        config.evals[name].type = kind
    with refused(re.escape(message.format(f'{name}.type'))):
        config_lib.check_names(config)
        runs.build(config)
