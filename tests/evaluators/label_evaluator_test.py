"""Labels and tags, evaluated: what is written, and that batches and devices change nothing."""

import jax
import numpy as np
import pytest
import tiny_labels
from stand_ins import read_result

from xlbench import evaluators, metrics, models
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.training import objectives, train_step

FAMILIES = {'classification': 'sequence_classifier', 'tagging': 'token_classifier'}
VIEWS = tuple(FAMILIES)


class Setup:
    """One prepared task of 45 examples with an untrained model."""

    def __init__(self, view: str, root):
        self.view = view
        self.rows = tiny_labels.records(view, tiny_labels.TASKS[view][0], 'test')
        name = tiny_labels.TASKS[view][0]
        self.task = tiny_labels.write_task(root, view, name, 'test', self.rows)
        self.model = models.build(
            FAMILIES[view], 'sample', vocab_size=128, emb_dim=16, num_heads=2, head_dim=8,
            mlp_dim=32, num_layers=1, max_positions=32, num_labels=3,
        )  # fmt: skip
        self.objective = objectives.build(view)
        mesh = partitioning.make_mesh(devices=jax.devices()[:1])
        params = train_step.init_params(self.model, self.objective, mesh, jax.random.key(3))
        self.params = jax.device_get(params)

    def evaluator(self, tasks=(), devices: int = 1, **options):
        mesh = partitioning.make_mesh(devices=jax.devices()[:devices])
        return evaluators.find('labels')(
            tasks or [self.task], self.model, self.objective, mesh, None,
            **{'batch_size': 45, 'lengths': tiny_labels.LENGTHS} | options,
        )  # fmt: skip

    def run(self, workdir, devices: int, batch_size: int, **options):
        """(scores, lines of predictions.jsonl, metrics.json)"""
        evaluator = self.evaluator((), devices, batch_size=batch_size, **options)
        params = jax.device_put(self.params, partitioning.replicated(evaluator._mesh))
        scores = evaluator.run(params, 7, str(workdir), 'stage')
        result, lines = read_result(workdir, self.task)
        return scores, lines, result


@pytest.fixture(scope='module', params=VIEWS)
def setup(request, tmp_path_factory):
    return Setup(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope='module')
def whole(setup, tmp_path_factory):
    """On one device, all examples in one batch."""
    return setup.run(tmp_path_factory.mktemp('one'), 1, 45)


def test_every_example_once_with_its_own_prediction(setup, whole):
    scores, lines, result = whole
    assert [line['id'] for line in lines] == list(range(45)) and result['num_examples'] == 45
    assert [line['target'] for line in lines] == [r['targets_pretokenized'] for r in setup.rows]
    labels = tiny_labels.LABELS[setup.view]
    nats, count = 0.0, 0
    apply = jax.jit(setup.model.apply)
    for row, line in zip(setup.rows, lines, strict=True):
        # By hand: one text a batch, with columns to spare.
        ids = row['inputs'][:20].copy()
        ids[-1] = tiny_labels.END
        tokens, segments = np.zeros((2, 1, 24), np.int32)
        tokens[0, : len(ids)], segments[0, : len(ids)] = ids, 1
        logits = np.asarray(apply({'params': setup.params}, tokens, segments), np.float64)
        if setup.view == 'tagging':
            places = np.cumsum(row['piece_counts'])
            logits = logits[0, places[places < 19]]
        own = np.take_along_axis(logits, row['targets'][: len(logits), None], 1)[:, 0]
        nats += (np.log(np.exp(logits).sum(1)) - own).sum()
        count += len(logits)
        words = [labels[i] for i in logits.argmax(1)]
        assert line['prediction'].split() == words + ['<CUT>'] * (len(row['targets']) - len(words))
    np.testing.assert_allclose(scores['mean']['loss'], nats / count, rtol=1e-5)
    cut = sum('<CUT>' in line['prediction'] for line in lines)
    assert bool(cut) == (setup.view == 'tagging') and result['trimmed']['inputs'] > 0


def test_scores_are_those_of_the_metrics(setup, whole):
    scores, lines, result = whole
    targets, predictions = ([line[name] for line in lines] for name in ('target', 'prediction'))
    for spec in setup.task.manifest['metrics']:
        metric = metrics.from_spec(spec)
        expected = metric(targets, predictions)
        assert expected.items() <= scores[setup.task.name].items()
        assert result['signatures'][type(metric).__name__] == metric.signature
        assert metric.per_example(targets[:1], predictions[:1])[0].items() <= (
            lines[0]['scores'].items()
        )


def test_batch_size_and_devices_change_nothing(setup, whole, tmp_path):
    for devices, batch_size in ((8, 8), (2, 26)):
        scores, lines, _ = setup.run(tmp_path / str(devices), devices, batch_size)
        assert [line['prediction'] for line in lines] == [line['prediction'] for line in whole[1]]
        for name, value in whole[0]['mean'].items():
            np.testing.assert_allclose(scores['mean'][name], value, rtol=1e-6, err_msg=name)


def test_a_test_set_without_real_labels_is_not_scored_without_a_word(setup, tmp_path):
    """Hidden test sets have one label in place of all."""
    assert setup.evaluator().notes == {}
    row, name = setup.rows[0], setup.task.name
    label, *_ = row['targets_pretokenized'].split()
    number = tiny_labels.LABELS[setup.view].index(label)
    row = row | {'targets_pretokenized': ' '.join([label] * len(row['targets']))}
    row['targets'] = np.full_like(row['targets'], number)
    alike = tiny_labels.write_task(tmp_path, setup.view, name, 'test', [row] * 300)
    evaluator = setup.evaluator([alike])
    note = f"{name}/test: all 300 examples have the target '{label}'; it may stand for labels that"
    assert evaluator.notes[name].startswith(note)
    params = jax.device_put(setup.params, partitioning.replicated(evaluator._mesh))
    evaluator.run(params, 7, str(tmp_path / 'run'), 'stage')
    assert read_result(tmp_path / 'run', alike)[0]['note'] == evaluator.notes[name]


def test_data_of_another_kind_is_refused(setup, tmp_path):
    other = next(view for view in VIEWS if view != setup.view)
    with pytest.raises(UserError, match=f'is prepared for {setup.view}, and the objective is'):
        evaluators.find('labels')(
            [setup.task], setup.model, objectives.build(other), partitioning.make_mesh(),
            None, batch_size=8, lengths=tiny_labels.LENGTHS,
        )  # fmt: skip
