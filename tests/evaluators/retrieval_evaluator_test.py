"""Ranks among candidates and in a response set, suggestions, and what is written of them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from edits import refused
from stand_ins import read_result, with_metrics

from xlbench import evaluators, metrics, models
from xlbench.benchmarks import task_files
from xlbench.data import prepared, tokenizers
from xlbench.evaluators import retrieval
from xlbench.metrics import mrs
from xlbench.parallel import partitioning
from xlbench.reporting import results
from xlbench.retrieval import text_encoder
from xlbench.retrieval.response_set import ResponseSet
from xlbench.system.errors import UserError
from xlbench.training import objectives, train_step


class Bags:
    """Stands in for a dual encoder: a text's vector counts its ids; whole numbers are exact."""

    def apply(self, variables, side, tokens, segment_ids, method):
        return jnp.sum(jax.nn.one_hot(tokens, 128) * (segment_ids > 0)[..., None], axis=1)


class Constant(Bags):
    """Tells no texts apart."""

    def apply(self, variables, side, tokens, segment_ids, method):
        return jnp.full((tokens.shape[0], 24), np.float32(0.1))


class Scale:
    """Stands in for an objective."""

    view = 'retrieval'

    def __init__(self, scale=0.25):
        self.scale = scale


@pytest.fixture(scope='module')
def tasks(tiny_root):
    """Three tasks of 33 examples, as the retrieval view."""
    names = (*tiny.QUESTIONS, tiny.TITLES[0])
    return [view(tiny_root, name, 'test') for name in names]


def view(root, name, split):
    task = prepared.open_task(str(root), 'sample', name, split)
    return prepared.Prepared(task.folder, task.manifest | {'view': 'retrieval'})


@pytest.fixture
def make(tiny_root, tasks):
    """Builds an evaluator on two devices."""

    def build(**options):
        options = dict(batch_size=6, lengths=tiny.LENGTHS, candidates=10) | options
        devices = jax.devices()[: options.pop('devices', 2)]
        return evaluators.find('retrieval')(
            options.pop('tasks', tasks),
            options.pop('model', Bags()),
            Scale(),
            partitioning.make_mesh(devices=devices),
            tokenizers.load('sample', str(tiny_root)),
            **options,
        )

    return build


def bags(rows, length):
    """[n, 128], as Bags makes them of cut rows."""
    cut = [row if len(row) <= length else [*row[: length - 1], 1] for row in rows]
    return np.stack([np.bincount(row, minlength=128) for row in cut]).astype(float)


def test_ranks_among_candidates(make, tasks, tmp_path):
    """Against the definition, example by example."""
    evaluator = make()
    scores = evaluator.run({}, 7, str(tmp_path), 'stage1')
    for task, inner in zip(tasks, evaluator.tasks, strict=True):
        result, rows = read_result(tmp_path, task)
        records = task.read(range(33))
        left = 0.25 * bags([r['inputs'] for r in records], 24)
        replies = list(inner.replies.values())
        texts = list(inner.replies)
        right = bags(replies, 8)
        losses, ranks = [], []
        for i, record in enumerate(records):
            pool = inner.pools[i]
            assert texts[pool[0]] == record['targets_pretokenized']
            own, *others = (float(left[i] @ right[j]) for j in pool)
            losses.append(np.log(np.sum(np.exp([own, *others]))) - own)
            ranks.append(1 + sum(other >= own for other in others))
        ranks = np.array(ranks)
        assert [row['scores']['rank'] for row in rows] == ranks.tolist()
        np.testing.assert_allclose([row['scores']['loss'] for row in rows], losses, rtol=1e-6)
        assert result['scores'] == pytest.approx(dict(
            loss=np.mean(losses), mrr=100 * np.mean(1 / ranks), p_at_1=100 * np.mean(ranks == 1),
            recall_10=100 * np.mean(ranks <= 10),
        ))  # fmt: skip
        assert len(set(ranks.tolist())) > 3
        assert scores[task.name] == result['scores']
        assert [row['id'] for row in rows] == list(range(33))
        assert [row['target'] for row in rows] == [r['targets_pretokenized'] for r in records]
        assert [row['input'] for row in rows] == [r['inputs_pretokenized'] for r in records]
        assert all(row['prediction'] in texts for row in rows)
        assert result['num_examples'] == 33
        assert result['candidates'] == 10
    means = {
        name: np.mean([scores[task.name][name] for task in tasks]) for name in scores[tasks[0].name]
    }
    assert scores['mean'] == pytest.approx(means)


def responses_of(task, split='train', **fields):
    """Another split of a task as its response set."""
    root = task.folder.rsplit('/prepared/', 1)[0]
    found = view(root, task.name, split)
    return prepared.Prepared(found.folder, found.manifest | fields)


@pytest.fixture(scope='module')
def replies(tasks):
    """Of each task the preparation of its response set; two tasks share one."""
    english, german = (responses_of(task) for task in tasks[:2])
    return [english, german, english]


def test_suggestions_from_a_response_set(make, tasks, replies, tmp_path):
    """Against the definition: scores, order, clusters, metrics, ranks of the gold replies."""
    task = with_metrics(tasks[0], metrics.MrsRouge('en'), metrics.SacreBleu())
    options = dict(lm_weight=0.5, top_k=6, num_suggestions=3)
    evaluator = make(tasks=[task], responses=replies[:1], validation_rouge=True, **options)
    found = evaluator.run({}, 7, str(tmp_path), 'stage1')[task.name]
    result, rows = read_result(tmp_path, task)
    records = task.read(range(33))
    responses = ResponseSet.of_prepared(replies[0])
    scores = 0.25 * bags([r['inputs'] for r in records], 24) @ bags(responses.ids, 8).T
    scores += (np.float32(0.5) * responses.lm_scores).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind='stable')
    n_best = []
    for row, ids, values in zip(rows, order, scores, strict=True):
        chosen = responses.choose(ids[:6], 3)
        assert [suggestion['response'] for suggestion in row['suggestions']] == chosen
        np.testing.assert_allclose([s['score'] for s in row['suggestions']], values[chosen])
        n_best.append([responses.display[i] for i in chosen])
        assert [suggestion['text'] for suggestion in row['suggestions']] == n_best[-1]
        assert row['prediction'] == n_best[-1][0]
    targets = [record['targets_pretokenized'] for record in records]
    expected, _ = metrics.score(metrics.MrsRouge('en'), targets, n_best)
    for metric in (metrics.SacreBleu(), metrics.MrsValidationRouge()):
        expected |= metrics.score(metric, targets, n_best)[0]
    gold = mrs.gold_ids(responses.texts, targets)
    inside = np.flatnonzero(gold >= 0)
    assert 0 < len(inside) < 33
    ranks = np.sum(scores[inside] >= scores[inside, gold[inside]][:, None], axis=1)
    expected |= mrs.ranks_in_set(ranks, gold[inside])
    ids = [responses.choose(order[i][:6], 3) for i in inside]
    expected |= mrs.suggested_ranks(gold[inside], ids, len(responses))
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert {'mrr', 'loss', 'set_mrr', 'mrr_code', 'mrs_rouge', 'dist_1', 'bleu'} <= set(found)
    assert [row['scores'].get('set_rank') for row in rows] == [
        ranks[inside.tolist().index(i)] if i in inside else None for i in range(33)
    ]
    assert {'mrs_rouge', 'bleu', 'rank'} <= set(rows[0]['scores'])
    assert result['metrics'][:2] == task.manifest['metrics']
    assert [results.texts(row) for row in rows] == n_best
    facts = {'method': 'retrieval', 'responses': len(responses), 'consensus': 0.0}
    assert result['decoding'] == facts | options
    assert result['responses']['split'] == 'train'
    assert result['responses']['gold_inside'] == len(inside)
    assert result['responses']['trimmed'] == sum(len(row) > 8 for row in responses.ids)
    assert set(result['signatures']) == {'MrsRouge', 'SacreBleu', 'MrsValidationRouge'}


def test_the_best_of_several_weights_of_log_likelihoods(make, tasks, replies, tmp_path):
    task = with_metrics(tasks[0], metrics.MrsRouge('en'))
    options = dict(responses=replies[:1], top_k=6, validation_rouge=True)

    def run(name, **weights):
        evaluator = make(tasks=[task], **options, **weights)
        scores = evaluator.run({}, 7, str(tmp_path / name), 'stage1')[task.name]
        return scores, read_result(tmp_path / name, task)

    weights = (0.0, 0.5, 50.0)
    alone = {weight: run(str(weight), lm_weight=weight) for weight in weights}
    rouges = {str(w): scores['mrs_validation_rouge'] for w, (scores, _) in alone.items()}
    assert len(set(rouges.values())) == 3
    best = max(weights, key=lambda weight: rouges[str(weight)])
    scores, (result, rows) = run('swept', lm_weights=weights)
    expected, (of_best, its_rows) = alone[best]
    assert scores == expected and rows == its_rows
    assert result['decoding'] == of_best['decoding'] | {'lm_weights': rouges}


def test_a_metric_of_the_users_gets_the_suggestions(make, tasks, replies, tmp_path, monkeypatch):
    """One text of each example, or as many as it asks for."""
    text = (
        'def first(targets, predictions):\n'
        '    return {"mine": sum(map(len, predictions)), "mrr_of_mine": 1}\n\n'
        'def all_three(targets, predictions):\n'
        '    return {"texts": sum(map(len, predictions)), "mrr": 2}\n\n'
        'all_three.num_predictions = 3\n'
    )
    (tmp_path / 'scores.py').write_text(text)
    monkeypatch.setenv('XLBENCH_TASKS', str(tmp_path))
    module = task_files.load(tmp_path / 'scores.py')
    task = with_metrics(tasks[0], module.first)
    options = dict(responses=replies[:1], top_k=6, num_suggestions=3)
    found = make(tasks=[task], **options).run({}, 7, str(tmp_path), 'stage1')[task.name]
    _, rows = read_result(tmp_path, task)
    assert found['mine'] == sum(len(row['suggestions'][0]['text']) for row in rows)
    # A name that the evaluation has itself is refused before it; without a set nothing is called.
    with pytest.raises(UserError, match=r"all_three of task .* gives the score 'mrr'"):
        make(tasks=[with_metrics(tasks[0], module.all_three)], **options)
    make(tasks=[with_metrics(tasks[0], module.all_three)])
    suite = metrics.Suite('a', [metrics.to_spec(module.all_three)])
    scores, _ = suite.score(['x'], [['a', 'b', 'c', 'd']], ['mrr'])
    assert scores == {'texts': 3, 'mrr_all_three': 2}


def test_a_shared_set_and_a_shared_text_are_encoded_once(
    make, tasks, replies, tmp_path, monkeypatch
):
    evaluator = make(responses=replies)
    seen = {'left': [], 'right': []}
    encode = text_encoder.TextEncoder.__call__

    def count(self, params, rows, *rest):
        side = 'left' if self is evaluator._left else 'right'
        seen[side].append([row.tobytes() for row in rows])
        return encode(self, params, rows, *rest)

    monkeypatch.setattr(text_encoder.TextEncoder, '__call__', count)
    evaluator.run({}, 7, str(tmp_path), 'stage1')
    assert [len(calls) for calls in seen.values()] == [1, 1]
    assert all(len(set(calls[0])) == len(calls[0]) for calls in seen.values())
    wanted = {
        record['targets'].tobytes() for task in replies for record in task.read(range(len(task)))
    }
    assert wanted < set(seen['right'][0])


def test_no_gold_reply_in_the_set(make, tasks, replies, tmp_path):
    """English replies to German messages."""
    found = make(tasks=tasks[1:2], responses=replies[:1]).run({}, 7, str(tmp_path), 'stage1')
    result, rows = read_result(tmp_path, tasks[1])
    assert result['responses']['gold_inside'] == 0
    assert not [name for name in found['mean'] if name.startswith('set_')]
    assert all(len(row['suggestions']) == 3 for row in rows)


def test_a_set_smaller_than_top_k_and_fewer_replies_than_candidates(make, tasks, replies, tmp_path):
    """All different ones are candidates, each once, and their number is written down."""
    options = dict(responses=replies[:1], top_k=500, num_suggestions=400, candidates=500)
    evaluator = make(tasks=tasks[:1], **options)
    evaluator.run({}, 7, str(tmp_path), 'stage1')
    result, rows = read_result(tmp_path, tasks[0])
    responses = ResponseSet.of_prepared(replies[0]).texts
    assert all(len(row['suggestions']) == len(responses) for row in rows)
    different = {record['targets_pretokenized'] for record in tasks[0].read(range(33))}
    assert result['candidates'] == len(different) < 33
    pools = evaluator.tasks[0].pools
    assert all(sorted(pool) == list(range(len(different))) for pool in pools.tolist())


def test_batches_and_devices_change_nothing(make, tasks, replies, tmp_path):
    found = []
    for options in ({}, dict(batch_size=16, devices=8), dict(batch_size=33, devices=1)):
        folder = tmp_path / str(len(found))
        evaluator = make(tasks=tasks[:1], responses=replies[:1], **options)
        scores = evaluator.run({}, 7, str(folder), 'stage1')
        found.append((scores, read_result(folder, tasks[0])[1]))
    assert found[0] == found[1] == found[2]


def test_a_real_model_on_several_devices(tiny_root, tasks, replies, tmp_path):
    """One device and eight agree to rounding; scores come from the model that was given."""
    model = models.build(
        'dual_encoder', vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
        num_layers=1, max_positions=32, dropout_rate=0.0,
    )  # fmt: skip
    objective = objectives.build('retrieval', scale=20.0)
    found = []
    for devices, axes in ((1, {}), (8, dict(fsdp=2, tensor=2))):
        mesh = partitioning.make_mesh(**axes, devices=jax.devices()[:devices])
        params = train_step.init_params(model, objective, mesh, jax.random.key(0))
        evaluator = evaluators.find('retrieval')(
            tasks[:1], model, objective, mesh, None, batch_size=16,
            lengths=tiny.LENGTHS, candidates=10, responses=replies[:1],
        )  # fmt: skip
        evaluator.run(params, 7, str(tmp_path / str(devices)), 'stage1')
        found.append(read_result(tmp_path / str(devices), tasks[0])[1])
    for one, other in zip(*found, strict=True):
        assert one['scores']['loss'] == pytest.approx(other['scores']['loss'], rel=1e-4)
        first, second = (
            [suggestion['score'] for suggestion in row['suggestions']] for row in (one, other)
        )
        np.testing.assert_allclose(first, second, rtol=1e-4)
    assert len({row['scores']['loss'] for row in found[0]}) > 20


@pytest.mark.parametrize('candidates', [2, 10, 99])
def test_a_constant_encoder_is_not_above_chance(make, tasks, replies, tmp_path, candidates):
    """One rule for ties: among candidates and in the response set."""
    options = dict(tasks=tasks[:1], responses=replies[:1], candidates=candidates)
    evaluator = make(model=Constant(), **options)
    scores = evaluator.run({}, 7, str(tmp_path), 'stage1')['mean']
    number = evaluator.tasks[0].pools.shape[1]
    assert scores['p_at_1'] == scores['set_p_at_1'] == 0
    assert scores['mrr'] == pytest.approx(100 / number)
    assert scores['recall_10'] == (100 if number <= 10 else 0)
    assert scores['loss'] == pytest.approx(np.log(number), rel=1e-5)
    size = len(ResponseSet.of_prepared(replies[0]))
    assert [scores['set_mrr'], scores['set_macro_mrr']] == pytest.approx([100 / size] * 2)


def test_candidates_are_different_and_of_the_example_alone(make, tasks):
    """Neither the number of examples nor the batch size changes them."""
    few, many = (
        make(tasks=tasks[:1], num_examples=number, batch_size=size, candidates=6).tasks[0]
        for number, size in ((5, 2), (12, 8))
    )
    texts = [[[list(task.replies)[i] for i in pool] for pool in task.pools] for task in (few, many)]
    assert texts[0] == texts[1][:5]
    assert len(texts[1]) == 12
    assert all(len(set(row)) == 6 for row in texts[1])
    assert len({tuple(row[1:]) for row in texts[1]}) > 6


def test_draws_are_spread_evenly():
    drawn = retrieval._draw(np.arange(4000), np.arange(4000) % 50, 40, 9)
    assert drawn.shape == (4000, 9)
    assert all(len(set(row)) == 9 for row in drawn[:100].tolist())
    assert not (drawn == (np.arange(4000) % 50)[:, None]).any()
    counts = np.bincount(drawn.ravel(), minlength=40)
    assert np.abs(counts - 900).max() < 5 * 30  # Binomial: the standard deviation is below 30.
    # More replies to draw from: about as many are new as there are more.
    more = retrieval._draw(np.arange(4000), np.arange(4000) % 50, 44, 9)
    kept = np.mean([np.isin(a, b).mean() for a, b in zip(drawn, more, strict=True)])
    assert 0.88 < kept < 0.94


def test_the_official_filter(make, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(retrieval, 'OFFICIAL_BATCH', 4)
    lengths = {'inputs': 9, 'targets': 8}
    make(tasks=tasks[:1], lengths=lengths, official_filter=True).run({}, 7, str(tmp_path), '')
    short = np.flatnonzero((tasks[0].lengths() <= [9, 8]).all(axis=1))
    assert 4 < len(short) < 33
    kept = short[: len(short) // 4 * 4].tolist()
    result, rows = read_result(tmp_path, tasks[0])
    assert [row['id'] for row in rows] == kept
    assert result['num_examples'] == len(kept)
    assert result['dropped'] == 33 - len(kept)


@pytest.mark.parametrize(
    'options, message',
    [
        (dict(candidates=1), 'candidates is 1; it must be 2 to 2**20'),
        (dict(num_suggestions=3, top_k=2), 'num_suggestions is 3 and top_k 2'),
        (dict(consensus=-1.0), 'consensus is -1.0; it must be 0 or more'),
        (dict(official_filter=True), 'official_filter leaves none of 33 examples of mtg_qg_en_en'),
        (dict(in_set=True, num_suggestions=2, validation_rouge=True), 'num_suggestions is 2; set'),
        (dict(validation_rouge=True), 'from a response set, but there is none'),
        (dict(in_set=True, lm_weights=(0.0, 0.5)), 'set validation_rouge to True'),
    ],
)
def test_mistakes(make, replies, options, message):
    if options.get('in_set'):
        options = dict(responses=replies) | {k: v for k, v in options.items() if k != 'in_set'}
    with refused(re.escape(message)):
        make(**options)


def test_suggestions_chosen_together(make, tasks, tmp_path):
    """At a low temperature the best comes first; three different ones either way."""
    options = dict(tasks=tasks[:1], responses=[tasks[0]], top_k=8)
    lists = {}
    for consensus in (0.0, 1e-6, 50.0):
        folder = tmp_path / str(consensus)
        make(consensus=consensus, **options).run({}, 7, str(folder), 'stage1')
        result, rows = read_result(folder, tasks[0])
        assert result['decoding']['consensus'] == consensus
        lists[consensus] = [[s['response'] for s in row['suggestions']] for row in rows]
        assert all(len(set(row)) == 3 for row in lists[consensus])
    assert [row[0] for row in lists[0.0]] == [row[0] for row in lists[1e-6]]
    assert lists[50.0] != lists[0.0]
