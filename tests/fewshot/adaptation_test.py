"""Many adaptations at once equal each alone, and each equals a plain loop."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util
from nightly import nightly

from xlbench import models
from xlbench.fewshot import adaptation, corpus as corpus_lib, settings
from xlbench.fewshot.frozen import EMBEDDING, FrozenEncoder
from xlbench.fewshot.lanes import Lanes, _higher
from xlbench.fewshot.results import Row
from xlbench.huggingface import checkpoint
from xlbench.metrics import tagging
from xlbench.models import heads
from xlbench.parallel import partitioning
from xlbench.system import errors, machine
from xlbench.training import objectives, train_step

VOCAB, CLS, SEP = 61, 1, 2
LABELS = {'classification': ['bad', 'fair', 'good'], 'tagging': ['B-PER', 'I-PER', 'O', 'NOUN']}
FAMILIES = {'classification': 'sequence_classifier', 'tagging': 'token_classifier'}
BUCKETS, ROWS, WIDTH = 5, 6, 12
# Some gradients are 0 but for rounding (a softmax's keys have a bias); this keeps them small.
ADAM = dict(b1=0.9, b2=0.999, eps=1e-3)


class Corpus:
    """Made-up texts: a word's label shows in its id, with some noise. As fewshot.corpus.Corpus."""

    def __init__(self, view, dev=True, seed=0):
        rng = np.random.default_rng(seed)
        self.view, self.of_words, self.labels = view, view == 'tagging', LABELS[view]
        self.token_ids = rng.permutation(np.arange(3, VOCAB))[:50].astype(np.int32)
        self.token_ids[:3] = 0, CLS, SEP
        self.num_shot_ids = 32
        self.sizes = np.array([6, 3, 5, 1, 4], np.int32)
        rows = [
            self.row(rng, self.num_shot_ids, WIDTH) if row < size else None
            for size in self.sizes
            for row in range(ROWS)
        ]
        self.arrays = {
            name: x.reshape(BUCKETS, ROWS, *x.shape[1:])
            for name, x in self.batch(rows, WIDTH).items()
        }
        widths = (8, WIDTH) if view == 'tagging' else (WIDTH,)
        self._dev = self.eval_set(rng, 43, widths) if dev else None
        self.test = self.eval_set(rng, 31, widths[-1:])

    def row(self, rng, ids, width):
        """Tokens, labels and weights of one text."""
        length = rng.integers(3, width + 1)
        tokens = rng.integers(3, ids, length)
        tokens[0], tokens[-1] = 1, 2
        noise = rng.integers(0, 2, length) * rng.integers(0, 2, length)
        labels = (tokens + noise) * len(self.labels) // VOCAB
        if self.view == 'classification':
            return tokens, labels[1], 1.0
        weights = rng.integers(0, 2, length)
        weights[0] = weights[-1] = 0
        weights[1] = 1
        return tokens, labels * weights, weights

    def batch(self, rows, width):
        shape = (len(rows), width)
        found = {
            'encoder_input_tokens': np.zeros(shape, np.int32),
            'encoder_segment_ids': np.zeros(shape, np.int32),
            'labels': np.zeros(shape if self.view == 'tagging' else shape[:1], np.int32),
        }
        weights = np.zeros(found['labels'].shape, np.float32)
        for i, row in enumerate(rows):
            if row is None:
                continue
            tokens, labels, weight = row
            found['encoder_input_tokens'][i, : len(tokens)] = tokens
            found['encoder_segment_ids'][i, : len(tokens)] = 1
            here = (i, slice(len(tokens))) if self.view == 'tagging' else i
            found['labels'][here], weights[here] = labels, weight
        if self.view == 'classification':  # Pairs of texts.
            second = np.arange(width) > width // 2
            found['encoder_type_ids'] = second * found['encoder_segment_ids']
        return found | {objectives.build(self.view).weights: weights}

    def eval_set(self, rng, size, widths):
        """Batches of as many shapes as `widths`; padded rows at the end."""
        gold, take, stacks, start = [], [], {}, 0
        for first in range(0, size, 8):
            width = widths[first * len(widths) // size]
            part = [self.row(rng, 50, width) for _ in range(min(8, size - first))]
            batch = self.batch(part + [None] * (8 - len(part)), width)
            stacks.setdefault(width, []).append(batch)
            for i, (_, labels, weights) in enumerate(part):
                if self.view == 'classification':
                    gold.append([labels])
                    take.append([start + i])
                else:
                    [places] = np.nonzero(weights)
                    gold.append([*labels[places], -1])
                    take.append([*(start + i * width + places), -1])
            start += batch['labels'].size
        gold, take = (np.concatenate(x).astype(np.int32) for x in (gold, take))
        batches = (jax.tree.map(lambda *x: np.stack(x), *alike) for alike in stacks.values())
        return corpus_lib.EvalSet(tuple(batches), gold, take)

    def ids_of(self, shots):
        return np.arange(len(self.token_ids)), self.num_shot_ids

    def num_examples(self, row):
        return int(self.sizes[row.bucket])

    def bucket_arrays(self, shots, packed=False):
        assert shots == 4
        arrays = corpus_lib.pack_rows(self.arrays) if packed else self.arrays
        return arrays | {'examples': self.sizes}

    def dev(self, shots):
        return self._dev


corpus = functools.cache(Corpus)


@functools.cache
def model_of(view, dropout=0.2, **overrides):
    fields = dict(
        vocab_size=VOCAB, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=24, num_layers=1,
        max_positions=WIDTH, num_labels=len(LABELS[view]), has_pooler=view == 'classification',
        dropout_rate=dropout, attention_dropout_rate=0.0, classifier_dropout_rate=dropout,
    )  # fmt: skip
    return models.build(FAMILIES[view], **{**fields, **overrides})


def mesh_of(devices=1):
    return partitioning.make_mesh(devices=jax.devices()[:devices])


@functools.cache
def params_of(view, **overrides):
    model, mesh = model_of(view, **overrides), mesh_of()
    params = train_step.init_params(model, objectives.build(view), mesh, jax.random.key(3))
    # Large enough that the encoder mixes what it reads.
    return jax.tree.map(lambda x: np.array(x) * 5 if x.ndim > 1 else np.array(x), params)


@functools.cache
def frozen_of(view, dev, devices, dropout=0.2, **overrides):
    model, params = model_of(view, dropout, **overrides), params_of(view, **overrides)
    return FrozenEncoder(model, objectives.build(view), params, corpus(view, dev), mesh_of(devices))


@functools.cache
def adapter(view, method, devices=1, dropout=0.2, dev=True, **options):
    options = dict(epochs=12, patience=3, adam=ADAM) | options
    return made(frozen_of(view, dev, devices, dropout), adapt(**options), method)


def made(frozen, adapt, method):
    return adaptation.Adapter(Lanes(frozen, adapt, method), 4)


def adapt(**options):
    return settings.Adapt(languages=(), shots=(), buckets=1, learning_rates=(), **options)


LANES = tuple(
    Row('udpos', 'de', 4, bucket, 'full', 'source', rate, seed, metric='chunk_f1')
    for bucket, rate, seed in [
        (0, 1e-2, 0), (1, 3e-2, 1), (2, 1e-3, 0), (3, 1e-2, 2), (4, 5e-2, 1), (0, 3e-2, 1),
        (2, 0.1, 5),
    ]
)  # fmt: skip


@functools.cache
def run(view, method, at_once=1, lanes=LANES, streams=1, **options):
    """The results of the lanes, in the order of LANES."""
    found = list(adapter(view, method, **options).run(lanes, at_once, lanes, streams))
    assert sorted(row.key for row in lanes) == sorted(row.key for row, *_ in found)
    keys = [row.key for row in LANES]
    return sorted(found, key=lambda result: keys.index(result.row.key))


def flat(tree):
    return traverse_util.flatten_dict(tree, sep='/')


def assert_same(left, right, tolerance=1e-4):
    for a, b in zip(left, right, strict=True):
        assert a.row == b.row
        np.testing.assert_array_equal(a.predicted, b.predicted)
        a, b = flat(a.params), flat(b.params)
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_allclose(a[name], b[name], atol=tolerance, rtol=0, err_msg=name)


def assert_equals_plain_loop(view, method, results, dev=True, frozen_dropout=False, dropout=0.2):
    """Results, against what one would write down: the whole model, the whole vocabulary.

    A frozen encoder drops nothing, unless `frozen_dropout`.
    """
    data, objective = corpus(view, dev), objectives.build(view)
    reads_tokens = method in ('full', 'lora') or frozen_dropout
    rates = {} if reads_tokens else dict(dropout_rate=0.0)
    if method == 'cos_pooler':
        rates['head'] = 'cosine'
    model, params = model_of(view, dropout, **rates), flat(params_of(view))
    parts = dict(full='', fc='classifier', lora='classifier')
    parts = parts.get(method, ('classifier', 'encoder/pooler'))
    own = {name: jnp.asarray(x) for name, x in params.items() if name.startswith(parts)}
    if method == 'cos_pooler':
        del own['classifier/bias'], params['classifier/bias']
    kernels = sorted(name for name in params if re.fullmatch('.*attention/.*kernel', name))
    if method == 'lora':
        for name in kernels:
            *stack, out, features = params[name].shape
            own[f'{name} a'] = jnp.zeros((*stack, 8, features))
            own[f'{name} b'] = jnp.zeros((*stack, out, 8))

    def whole(own):
        every = params | own
        for name in kernels if method == 'lora' else ():
            every[name] = every[name] + 16 / 8 * every.pop(f'{name} b') @ every.pop(f'{name} a')
        return traverse_util.unflatten_dict(every, sep='/')

    @jax.jit
    def step(own, state, batch, rng, learning_rate):
        def loss(own):
            sums = objective.loss(model, whole(own), batch, rng)
            return sums['loss'] / sums['weight']

        updates, state = optax.adam(learning_rate, **ADAM).update(jax.grad(loss)(own), state)
        return optax.apply_updates(own, updates), state

    predict = jax.jit(lambda own, batch: objective.row_losses(model, whole(own), batch))

    def ids(batch):
        tokens = data.token_ids[batch['encoder_input_tokens']]
        return batch | {'encoder_input_tokens': tokens}

    def predictions(own, found):
        rows = [np.ravel(predict(own, ids(batch))['predicted']) for batch in found.each()]
        return np.where(found.take >= 0, np.concatenate(rows)[found.take], -1)

    for result in results:
        lane, curve = result.row, []
        key, params_of_lane = jax.random.key(lane.seed), dict(own)
        if method in ('cos_pooler', 'fc_reset_pooler'):
            shape = own['classifier/kernel'].shape
            drawn = jax.random.normal(jax.random.fold_in(key, 0), shape)
            params_of_lane['classifier/kernel'] = 0.02 * drawn
        if method == 'fc_reset_pooler':
            params_of_lane['classifier/bias'] = jnp.zeros_like(own['classifier/bias'])
        for index, name in enumerate(kernels if method == 'lora' else ()):
            shape, fresh = own[f'{name} a'].shape, jax.random.fold_in(key, 0)
            drawn = jax.random.normal(jax.random.fold_in(fresh, index), shape)
            params_of_lane[f'{name} a'] = drawn * shape[-1] ** -0.5
        state = optax.adam(1.0).init(params_of_lane)
        arrays = data.bucket_arrays(4, packed=view == 'tagging' and reads_tokens)
        shots = ids({name: x[lane.bucket] for name, x in arrays.items() if name != 'examples'})
        for epoch in range(1, lane.epochs + 1):
            rng = jax.random.fold_in(jax.random.fold_in(key, epoch), 0)
            params_of_lane, state = step(params_of_lane, state, shots, rng, lane.learning_rate)
            if dev:
                curve.append(
                    score(view, data.dev(4).gold, predictions(params_of_lane, data.dev(4)))
                )
            if epoch == lane.best_epoch:
                best = params_of_lane
        np.testing.assert_allclose(lane.curve, curve, rtol=1e-9)
        expected = predictions(best, data.test)
        np.testing.assert_array_equal(result.predicted, expected)
        assert lane.score == pytest.approx(score(view, data.test.gold, expected), rel=1e-9)
        assert lane.examples == data.sizes[lane.bucket] and lane.status == 'done'
        found, expected = flat(result.params), flat(whole(best))
        assert found.keys() == expected.keys()
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-4, err_msg=name)


def score(view, gold, predicted):
    """As the metrics count it."""
    if view == 'classification':
        return 100 * np.mean(gold == predicted)
    ends = np.flatnonzero(gold < 0)
    sentences = [
        [' '.join(LABELS[view][i] for i in part if i >= 0) for part in np.split(x, ends)]
        for x in (gold, predicted)
    ]
    return tagging.ChunkF1()(*sentences)['chunk_f1']


def test_examples_that_share_a_row_are_apart():
    data = corpus('tagging')
    rows = data.bucket_arrays(4, packed=True)['labels'].shape[1]
    assert rows < max(data.sizes)
    # Steps of at most so many examples have each in a row of its own.
    options = dict(dropout=0.0, batch_size=int(max(data.sizes)))
    apart = run('tagging', 'full', 3, (LANES[0], *LANES[4:6]), **options)
    assert_equals_plain_loop('tagging', 'full', apart, dropout=0.0)


@pytest.mark.parametrize(
    'view, method', [('tagging', 'fc'), *nightly(('classification', 'fc_pooler'))]
)
def test_lanes_side_by_side_equal_each_alone(view, method):
    alone = run(view, method)
    assert_same(alone, run(view, method, 3))
    # Some end early, and each best epoch is the first of its score.
    assert len({row.epochs for row, *_ in alone}) > 1
    for row, *_ in alone:
        assert row.curve.index(row.dev_score) + 1 == row.best_epoch
        assert row.dev_score == max(row.curve) and len(row.curve) == row.epochs


ALL = [('classification', name) for name in settings.METHODS]
ALL += [('tagging', name) for name in settings.TAGGING_METHODS]
AT_NIGHT = [('classification', 'full'), ('tagging', 'lora')]
BY_DAY = [case for case in ALL if case not in AT_NIGHT]


@pytest.mark.parametrize('view, method', [*BY_DAY, *nightly(*AT_NIGHT)])
def test_lanes_side_by_side_equal_a_plain_loop_over_the_whole_model(view, method):
    results = run(view, method, 3)
    # The first one, one with a single example, and one that waited for a slot.
    assert_equals_plain_loop(view, method, [results[0], results[3], results[5]])


@pytest.mark.parametrize(
    'view, method', [('tagging', 'fc'), *nightly(('classification', 'cos_pooler'))]
)
def test_a_frozen_encoder_may_drop_out_at_every_step(view, method):
    options = dict(frozen_dropout=True, epochs=4)
    results = run(view, method, **options)
    assert_equals_plain_loop(view, method, [results[0], results[5]], frozen_dropout=True)
    without = run(view, method, epochs=4)
    name = 'classifier/kernel'
    differences = [
        np.abs(flat(a.params)[name] - flat(b.params)[name]).max()
        for a, b in zip(results, without, strict=True)
    ]
    assert max(differences) > 1e-3
    found = adapter(view, method, **options)
    cached = adapter(view, method)
    assert found.lanes_at_once(1000) == 1 < cached.lanes_at_once(1000)


@pytest.mark.parametrize('view, method', [('classification', 'fc_pooler'), ('tagging', 'full')])
def test_the_order_of_lanes_changes_no_bit(view, method):
    assert_same(run(view, method, 3), run(view, method, 3, LANES[::-1]), tolerance=0)


def test_lanes_cut_over_devices_equal_those_of_one():
    assert_same(run('tagging', 'fc', 3), run('tagging', 'fc', 4, devices=4))


def test_without_a_development_set_all_epochs_are_run():
    results = run('tagging', 'fc', at_once=2, dev=False)
    for row, *_ in results:
        assert (row.dev_score, row.curve) == (None, ())
        assert (row.epochs, row.best_epoch) == (12, 12)
    assert_equals_plain_loop('tagging', 'fc', results[1:2], dev=False)


def test_batches_of_some_examples():
    """A bucket in steps of n, in an order drawn from the seed."""
    options = dict(dropout=0.0, dev=False, patience=1, epochs=2)
    whole = run('tagging', 'fc', lanes=LANES[:4], **options)
    assert_same(whole, run('tagging', 'fc', lanes=LANES[:4], batch_size=ROWS, **options))
    ones = run('tagging', 'fc', lanes=LANES[:4], batch_size=1, **options)
    # One example is one step, and the padding behind it is none; several are as many.
    assert_same(whole[3:], ones[3:])
    name = 'classifier/kernel'
    moved = [
        np.abs(flat(result.params)[name] - params_of('tagging')['classifier']['kernel']).max()
        for result in (whole[0], ones[0])
    ]
    assert moved[1] > 2 * moved[0]
    # Without dropout the seed decides nothing but the order.
    lanes = [dataclasses.replace(LANES[0], seed=seed) for seed in (0, 1)]
    for size, same in (({}, True), ({'batch_size': 1}, False)):
        found = adapter('tagging', 'fc', **size, **options).run(lanes, 1, lanes)
        first, second = (flat(result.params)[name] for result in found)
        assert np.array_equal(first, second) == same


def test_only_rows_of_the_embedding_table_that_occur_move():
    result, data = run('tagging', 'full', 3)[0], corpus('tagging')
    table, before = flat(result.params)[EMBEDDING], flat(params_of('tagging'))[EMBEDDING]
    moved = np.flatnonzero((table != before).any(1))
    tokens = data.arrays['encoder_input_tokens'][0][: data.sizes[0]]
    # Padding is looked up too, but nothing looks at it.
    assert set(moved) == {*data.token_ids[np.unique(tokens[tokens > 0])]}


@pytest.mark.parametrize('method, devices', [('fc', 1), *nightly(('full', 2))])
def test_what_is_compiled_ahead_is_not_compiled_again(caplog, method, devices):
    def compiled(call):
        caplog.clear()
        with jax.log_compiles():
            call()
        found = re.findall(r'Finished XLA compilation of jit\((\w+)\)', caplog.text)
        return sorted(name for name in found if name.endswith('_lanes'))

    adapted = adapter('tagging', method, devices=devices)
    programs = [f'_{name}_lanes' for name in ('advance', 'begin', 'predict', 'refill')]
    assert compiled(lambda: adapted.compile(2)) == programs
    assert compiled(lambda: list(adapted.run(LANES, 2))) == []
    assert compiled(lambda: list(adapted.run(LANES, 4))) == programs


def test_streams_change_nothing():
    assert_same(run('tagging', 'fc', 3), run('tagging', 'fc', 3, streams=3), tolerance=0)


def test_as_many_streams_as_cores_and_memory_hold(monkeypatch):
    adapted = adapter('tagging', 'fc')
    monkeypatch.setattr(machine, 'cores', lambda: 4)
    assert [adapted.streams(lanes, 2) for lanes in (1, 2, 3, 7, 100)] == [1, 1, 2, 4, 4]
    assert adapted.may_compile_beside(2, 2) and not adapted.may_compile_beside(2, 1)
    monkeypatch.setattr(machine, 'keep_freed_memory', lambda: True)
    monkeypatch.setattr(machine, 'one_heap', False)  # Whatever ran before in this process.
    assert not adapted.keep_freed(2, 2)
    monkeypatch.setattr(machine, 'one_heap', True)
    assert adapted.keep_freed(2, 2)
    monkeypatch.setattr(machine, 'memory', lambda: 7 * adapted.state_bytes(2))
    assert adapted.streams(100, 2) == 2  # Of 5.6 such states, each with as much again.
    assert not adapted.may_compile_beside(2, 2) and not adapted.keep_freed(2, 2)
    monkeypatch.setattr(machine, 'memory', lambda: None)
    assert adapted.streams(100, 2) == 1
    assert adapter('tagging', 'fc', devices=4).streams(100, 4) == 1
    assert adapter('tagging', 'full').streams(100, 1) == 1  # It keeps all cores busy.
    monkeypatch.setattr(machine, 'memory', lambda: 2**30)
    assert adapted.streams(100, 2) > 1 and adapted.keep_freed(2, 1)
    monkeypatch.setattr(partitioning, 'is_one_cpu', lambda mesh: False)
    assert adapted.streams(100, 2) == 1 and not adapted.keep_freed(2, 1)


def test_parameters_are_returned_where_asked_for():
    lanes = LANES[:2]
    found = adapter('tagging', 'fc').run(lanes, 1, lanes[1:])
    assert [result.params is None for result in found] == [True, False]


def test_a_head_over_an_encoder_without_a_pooler_has_a_layer_of_its_own():
    view, before = 'classification', params_of('classification', has_pooler=False)
    frozen = frozen_of(view, False, 1, has_pooler=False)
    [result] = made(frozen, adapt(epochs=2), 'fc_pooler').run(LANES[:1], 1, LANES[:1])
    before, after = flat(before), flat(result.params)
    moved = [name for name in before if not np.array_equal(before[name], after[name])]
    names = ('kernel', 'bias')
    assert sorted(moved) == sorted(f'{part}/{n}' for part in ('classifier', 'dense') for n in names)


def test_zero_shot_predictions():
    view, data, model = 'tagging', corpus('tagging'), model_of('tagging')
    batches = [
        b | {'encoder_input_tokens': data.token_ids[b['encoder_input_tokens']]}
        for b in data.test.each()
    ]
    apply = jax.jit(model.apply)
    logits = [
        apply({'params': params_of(view)}, b['encoder_input_tokens'], b['encoder_segment_ids'])
        for b in batches
    ]
    expected = np.concatenate([np.argmax(x, -1).ravel() for x in logits])[data.test.take]
    expected[data.test.take < 0] = -1
    np.testing.assert_array_equal(frozen_of(view, True, 1).predict(data.test), expected)


def test_a_frozen_encoder_reads_texts_once(monkeypatch):
    frozen = frozen_of('classification', True, 1, 0.2)
    run('classification', 'fc_pooler', 3)
    monkeypatch.setattr(frozen, '_states', None)  # Nothing is encoded again.
    data = Corpus('classification')
    for method in ('fc', 'cos_pooler'):
        found = Lanes(frozen, adapt(), method)
        assert found.data(4).dev.gold.shape == data.dev(4).gold.shape
        assert found.test(4).take.shape == data.test.take.shape


def test_as_many_lanes_as_memory_holds(monkeypatch):
    adapted, of_four = (adapter('tagging', 'fc', devices=count) for count in (1, 4))
    assert adapted.lanes_at_once(1000) > 1  # They fit a cache.
    assert adapted.lanes_at_once(3) == 3
    one, two = (adapted.step_bytes(slots) for slots in (1, 2))
    assert two > one
    limit = (one + 4.5 * (two - one)) / adaptation.MEMORY_SHARE
    monkeypatch.setattr(partitioning, 'memory_limit', lambda mesh: limit)
    assert adapted.lanes_at_once(1000) == 5
    assert adapted.lanes_at_once(2) == 2
    monkeypatch.setattr(partitioning, 'memory_limit', lambda mesh: 1)
    assert adapted.lanes_at_once(1000) == 1
    monkeypatch.undo()
    assert of_four.lanes_at_once(6) == 8
    monkeypatch.setattr(adaptation, 'CPU_CACHE', 1)
    assert of_four.lanes_at_once(6) == 4


def test_chunks_on_a_device():
    rng = np.random.default_rng(0)
    tags = ['B-PER', 'I-PER', 'E-LOC', 'S-LOC', 'O', 'SCONJ', 'CCONJ', 'X', '_', 'NOUN']
    chunks = tagging.Chunks(tags)
    compare = jax.jit(lambda *both: chunks.compare(*both, jnp, jax.lax.cummax))
    for _ in range(40):
        gold, predicted = rng.integers(-1, len(tags), (2, 40))
        predicted = np.where((rng.random(40) < 0.6) | (gold < 0), gold, abs(predicted))
        expected = chunks.compare(gold, predicted)
        for found, right in zip(compare(gold, predicted), expected, strict=True):
            np.testing.assert_array_equal(found, right)


def test_scores_are_compared_exactly():
    rng = np.random.default_rng(0)
    for top in (4, 1000, 2**20):
        of = rng.integers(1, top, (2, 500))
        scores = np.stack([rng.integers(0, of + 1), of], -1)
        scores[0, :100] = scores[1, :100] * (scores[1, :100].max(-1, keepdims=True) < top // 2) * 2
        scores[..., 1] = np.maximum(scores[..., 1], 1)
        found = _higher(*jnp.asarray(scores, jnp.int32))
        (a, b), (c, d) = scores[0].T, scores[1].T
        np.testing.assert_array_equal(found, a * d > c * b)
    assert _higher(jnp.array([0, 7]), jnp.array([-1, 1]))  # The first epoch is best.


@functools.cache
def stopped_by(scores, epochs, patience):
    """The row of an adaptation whose development scores are these, in hundredths."""

    class Scored(Lanes):
        def _train(self, shared, params, moments, moves, seed, learning_rate, epoch, rows):
            return jax.tree.map(lambda x: jnp.full_like(x, epoch), params), moments

        def _score(self, params, data, dev):
            epoch = params['classifier']['bias'][0].astype(int)
            return jnp.stack([jnp.array(scores)[epoch - 1], 100])

    lanes = Scored(frozen_of('tagging', True, 1), adapt(epochs=epochs, patience=patience), 'fc')
    [(row, _, params)] = adaptation.Adapter(lanes, 4).run(LANES[:1], 1, LANES[:1])
    assert (params['classifier']['bias'] == row.best_epoch).all() and len(row.curve) == row.epochs
    return row.epochs, row.best_epoch, row.dev_score


def test_early_stopping(golden):
    for case in golden('fsxlt_early_stop/'):
        inputs, expected = case['inputs'], case['expected']
        scores = tuple(round(100 * x) for x in inputs['dev_scores'])
        np.testing.assert_allclose(scores, 100 * np.array(inputs['dev_scores']))
        epochs, best_epoch, best = stopped_by(scores, inputs['max_epochs'], inputs['patience'])
        assert (epochs, best_epoch) == (expected['epochs_run'], expected['best_epoch_1based'])
        assert best == pytest.approx(100 * expected['best']), case['name']
    # By hand.
    assert stopped_by((1, 2, 2, 1, 9), 5, 2) == (4, 2, 2.0)
    assert stopped_by((0, 0), 2, 2) == (2, 1, 0.0)


def test_head_of_cosines(golden):
    for case in golden('fsxlt_cos_head/'):
        inputs, expected = case['inputs'], case['expected']
        cosine = heads.Cosine(len(inputs['w_rows_per_class']), inputs['scale'])
        kernel = jnp.array(inputs['w_rows_per_class'])
        logits = cosine.apply({'params': {'kernel': kernel}}, jnp.array(inputs['x']))
        np.testing.assert_allclose(logits, expected['logits'], rtol=1e-6)
        # Two logits may be equal but for rounding.
        assert np.max(logits, -1) == pytest.approx(
            np.take_along_axis(np.array(logits), np.array(expected['argmax'])[:, None], -1)[:, 0]
        )


def test_models_with_a_head_of_cosines():
    params = flat(params_of('classification', head='cosine'))
    assert {name for name in params if name.startswith('classifier')} == {'classifier/kernel'}
    model = model_of('classification', head='cosine')
    tokens = np.ones((2, 3), np.int32)
    variables = {'params': params_of('classification', head='cosine')}
    logits = jax.jit(model.apply)(variables, tokens)
    assert np.abs(logits).max() <= 10.0
    for call, words in (
        (lambda: model_of('classification', head='round'), 'allowed: cosine, linear'),
        (lambda: model_of('classification', head='cosine', scale=0), 'scale is 0'),
        (lambda: checkpoint.names('sequence_classifier', model.config), 'cannot be written for tr'),
    ):
        with pytest.raises(errors.UserError, match=words):
            call()
