"""An example's loss does not depend on what is packed beside it; retrieval, where it shall."""

import dataclasses
import functools

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest
import tiny
from nightly import nightly

from xlbench import models
from xlbench.data import features, packing, prepared
from xlbench.parallel import partitioning
from xlbench.system.errors import UserError
from xlbench.training import losses, objectives
from xlbench.training.objectives.classification import about_tokens

MODEL = tiny.tiny_model()
PACKED = {'inputs': 80, 'targets': 30}  # Batches of 8 rows, one program.


@pytest.fixture(scope='module')
def examples(tiny_root):
    """Three examples for a row each of the lists that are packed."""
    task = prepared.open_task(str(tiny_root), 'sample', tiny.QUESTIONS[1], 'train')
    return task, task.read(range(9))


def build(task, rows, lengths):
    conventions = features.Conventions.of(task.manifest)
    return features.generation(rows, features.Layout(lengths, conventions))


@pytest.fixture(scope='module')
def params():
    objective = objectives.build()
    init = jax.jit(MODEL.init)
    params = nn.unbox(init(jax.random.key(3), *objective.example_inputs())['params'])
    for stack in ('encoder', 'decoder'):  # At the scale of trained models: a wrong mask is seen.
        params[stack]['relpos_bias']['rel_embedding'] *= 5.0
    return params


@pytest.fixture(scope='module')
def compute(params):
    """A function from a batch to (sums, gradients, sums of each row)."""
    objective = objectives.build('generation', label_smoothing=0.0, z_loss=1e-2)

    @jax.jit
    def run(batch):
        def loss_fn(params):
            sums = objective.loss(MODEL, params, batch, None)
            return sums['loss'], sums

        gradients, sums = jax.grad(loss_fn, has_aux=True)(params)
        return sums, gradients, objective.row_losses(MODEL, params, batch)

    return lambda batch: jax.device_get(run(batch))


@pytest.fixture(scope='module')
def alone(examples, compute):
    task, records = examples
    return compute(build(task, [[record] for record in records], tiny.LENGTHS))


def assert_same_sums(one, other) -> None:
    for name in ('loss', 'z_loss', 'accuracy', 'weight', 'tokens', 'examples'):
        np.testing.assert_allclose(one[0][name], other[0][name], rtol=1e-5, err_msg=name)
    tiny.assert_close(one[1], other[1], 1e-4, 1e-5)


def test_a_packed_example_has_the_loss_that_it_has_alone(examples, compute, alone):
    task, records = examples
    rows = [records[0:3], records[3:6], records[6:9]]
    packed = build(task, rows + [[]] * 5, PACKED)
    assert packed['encoder_segment_ids'].max() == 3
    assert_same_sums(compute(packed), alone)
    expected = alone[2]['loss'].reshape(3, 3)
    for segment in (1, 2, 3):
        # The same rows, but only one example of each is counted.
        chosen = packed['decoder_segment_ids'] == segment
        sums = compute(packed | {'decoder_loss_weights': chosen.astype(np.float32)})[2]
        np.testing.assert_allclose(sums['loss'][:3], expected[:, segment - 1], rtol=1e-5)
        np.testing.assert_array_equal(sums['weight'], chosen.sum(1))
    assert len(np.unique(expected.round(3))) > 5


def test_the_loss_of_rows_of_each_task_is_the_sum_of_the_tasks_losses(examples, compute):
    """Four tasks in one batch, two rows each, packed; one of the rows is empty."""
    task, records = examples
    rows = [[0, 1], [2], [3], [4], [5, 6], [7], [8], []]
    batch = build(task, [[records[i] for i in row] for row in rows], PACKED)
    sizes = np.array([[len(r['inputs']), len(r['targets'])] for r in records])
    planned = packing.PlannedBatch(packing.Shape(80, 30), rows)
    weighted = batch | {'task_weights': packing.task_weights(sizes, planned, 4)}
    whole = compute(weighted)
    alone = []
    for first in range(0, 8, 2):
        kept = batch['decoder_loss_weights'].copy()
        kept[[row for row in range(8) if row not in (first, first + 1)]] = 0
        alone.append(compute(batch | {'decoder_loss_weights': kept}))
    weight = whole[0]['weight']
    assert weight == sizes[:, 1].sum() and whole[0]['tokens'] == sizes.sum()
    for name in ('loss', 'z_loss'):
        by_hand = sum(sums[name] / sums['weight'] for sums, _, _ in alone)
        np.testing.assert_allclose(whole[0][name] / weight, by_hand, rtol=1e-5)
    accuracy = np.mean([sums['accuracy'] / sums['weight'] for sums, _, _ in alone])
    np.testing.assert_allclose(whole[0]['accuracy'] / weight, accuracy, rtol=1e-5)

    def summed(*parts):
        return sum(g / sums['weight'] for g, (sums, _, _) in zip(parts, alone, strict=True))

    by_hand = jax.tree.map(summed, *(gradients for _, gradients, _ in alone))
    tiny.assert_close(by_hand, jax.tree.map(lambda g: g / weight, whole[1]), 1e-4, 1e-5)
    # Two parts whose gradients are accumulated, each with one row of every task.
    parts = [compute({name: value[at::2] for name, value in weighted.items()}) for at in (0, 1)]
    tiny.assert_close(whole[1], jax.tree.map(np.add, parts[0][1], parts[1][1]), 1e-4, 1e-5)
    assert parts[0][0]['weight'] + parts[1][0]['weight'] == weight


def test_width_and_empty_rows_change_nothing(examples, compute, alone):
    task, records = examples
    rows = [[]] + [[record] for record in records] + [[], []]
    wide = compute(build(task, rows, {'inputs': 41, 'targets': 13}))
    assert_same_sums(wide, alone)
    np.testing.assert_allclose(wide[2]['loss'][1:10], alone[2]['loss'], rtol=1e-5)
    assert (wide[2]['loss'][[0, 10, 11]] == 0).all() and (wide[2]['weight'][[0, 10, 11]] == 0).all()


def test_the_sums_say_what_is_in_the_batch(examples, alone):
    _, records = examples
    sums, _, rows = alone
    targets = [len(record['targets']) for record in records]
    inputs = [len(record['inputs']) for record in records]
    assert sums['weight'] == sum(targets) and rows['weight'].tolist() == targets
    assert sums['tokens'] == sum(targets) + sum(inputs)
    assert sums['examples'] == 9
    assert sums['positions'] == 9 * (24 + 8)
    # Nothing is learnt yet: about as good as a guess among 128 ids, and never better than 0.
    assert 3 < (sums['loss'] - sums['z_loss']) / sums['weight'] < 12
    np.testing.assert_allclose(rows['loss'].sum(), sums['loss'] - sums['z_loss'], rtol=1e-5)


def test_a_reference_of_plain_log_softmax(examples, params, alone):
    task, records = examples
    batch = build(task, [[record] for record in records], tiny.LENGTHS)
    logits = jax.jit(MODEL.apply)(
        {'params': params}, batch['encoder_input_tokens'], batch['decoder_input_tokens'],
        batch['encoder_segment_ids'], batch['decoder_segment_ids'],
    )  # fmt: skip
    logits = np.asarray(logits, np.float64)
    nats = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
        logits, batch['decoder_target_tokens'][..., None], -1
    ).squeeze(-1)
    expected = (nats * batch['decoder_loss_weights']).sum(1)
    np.testing.assert_allclose(alone[2]['loss'], expected, rtol=1e-5)


def test_unknown_objective():
    with pytest.raises(UserError, match="unknown objective 'generate'; nearest: generation"):
        objectives.build('generate')


# ------------------------------------------------------------------------------------- retrieval

SIDES = ('left', 'right')
RETRIEVER = tiny.tiny_retriever(num_layers=1)
DROPPING = tiny.tiny_retriever(num_layers=1, dropout_rate=0.2)


@pytest.fixture(scope='module')
def retriever_params():
    inputs = objectives.build('retrieval').example_inputs()
    return nn.unbox(jax.jit(RETRIEVER.init)(jax.random.key(2), *inputs)['params'])


@functools.cache
def compiled_retrieval(model, **options):
    objective = objectives.build('retrieval', **options)

    def loss_fn(params, batch, rng):
        sums = objective.loss(model, params, batch, rng)
        return sums['loss'], sums

    return jax.jit(jax.grad(loss_fn, has_aux=True))


def retrieve(params, batch, rng=None, model=RETRIEVER, **options):
    """(sums, gradients of the loss) on one device."""
    gradients, sums = compiled_retrieval(model, **options)(params, batch, rng)
    return jax.device_get((sums, gradients))


def assert_same_retrieval(one, other, tolerance) -> None:
    for name in one[0]:
        np.testing.assert_allclose(one[0][name], other[0][name], rtol=1e-6, err_msg=name)
    tiny.assert_close(one[1], other[1], tolerance)


def test_the_sums_of_a_retrieval_batch(retriever_params):
    (batch,) = tiny.pair_batches(1)
    sums, _ = retrieve(retriever_params, batch, scale=20.0, mask_duplicates=True)
    names = [f'{side}_encoder_{kind}' for kind in ('input_tokens', 'segment_ids') for side in SIDES]
    vectors = jax.jit(RETRIEVER.apply)({'params': retriever_params}, *(batch[n] for n in names))
    contrast = jax.jit(losses.contrastive, static_argnames=('kind', 'scale'))
    out = contrast(
        *vectors, kind='sym_paper', scale=20.0, weights=batch['row_weights'],
        keys=batch['reply_key'],
    )  # fmt: skip
    np.testing.assert_allclose(sums['loss'], out.loss.sum(), rtol=1e-5)
    assert sums['accuracy'] == out.correct.sum()
    assert sums['weight'] == sums['examples'] == 31
    assert sums['tokens'] == sum((batch[f'{s}_encoder_segment_ids'] > 0).sum() for s in SIDES)
    assert sums['positions'] == 32 * (24 + 8)
    unmasked, _ = retrieve(retriever_params, batch, scale=20.0)
    assert unmasked['loss'] > sums['loss'] + 1  # Equal replies cannot be told apart.


def test_caching_gradients_changes_nothing(retriever_params):
    (batch,) = tiny.pair_batches(1)
    plain = retrieve(retriever_params, batch, scale=20.0)
    assert max(np.abs(g).max() for g in jax.tree.leaves(plain[1])) > 0.1
    cached = retrieve(retriever_params, batch, scale=20.0, chunk_rows=8)
    assert_same_retrieval(cached, plain, 1e-5)


@pytest.mark.parametrize('count', [2, *nightly(1)])
def test_rows_with_widths_of_their_own_change_nothing(retriever_params, count):
    """Also where several processes have sorted their own rows."""
    (batch,) = tiny.pair_batches(1)
    plain = retrieve(retriever_params, batch, scale=20.0, mask_duplicates=True)
    shares = [{name: x[i * 32 // count :][: 32 // count] for name, x in batch.items()}
              for i in range(count)]  # fmt: skip
    parts = {}
    for side, most in (('left', 24), ('right', 8)):
        lengths = [np.sort((x[f'{side}_encoder_segment_ids'] > 0).sum(1)) for x in shares]
        narrow = [max(int(x[-1 - n // count]) for x in lengths) for n in (8, 16)]
        assert 0 < narrow[1] <= narrow[0] <= most and narrow[1] < most
        sizes = zip((8, 8, 16), (most, *narrow), strict=True)
        parts[side] = tuple(packing.Part(*size) for size in sizes)
    cut = [packing.cut_to_parts(share, parts, i, count) for i, share in enumerate(shares)]
    assert 'left_encoder_input_tokens' not in cut[0]
    joined = {name: np.concatenate([x[name] for x in cut]) for name in cut[0]}
    found = retrieve(retriever_params, joined, scale=20.0, mask_duplicates=True)
    positions = found[0].pop('positions'), plain[0].pop('positions')
    assert positions[0] == sum(a * b for side in parts.values() for a, b in side) < positions[1]
    assert_same_retrieval(found, plain, 1e-5)
    lengths = np.stack([(batch[f'{s}_encoder_segment_ids'] > 0).sum(1) for s in SIDES], axis=1)
    assert packing.fits_parts(lengths, parts, count)
    # One process's row that is too long decides for all.
    last = np.argsort(lengths[-32 // count :, 1])[0] - 32 // count
    lengths[last] = 25, parts['right'][2].width
    assert not packing.fits_parts(lengths, {**parts, 'left': (packing.Part(32, 24),)}, count)


def test_nearly_all_batches_fit_into_the_widths_of_their_rows():
    rng = np.random.default_rng(1)
    samples = [np.minimum(rng.geometric(1 / mean, (5000, 2)), 64) for mean in (8, 16)]
    found = packing.choose_parts(samples, 64, (64, 64), 4, 2)
    for side, of in enumerate(found.values()):
        assert [part.rows for part in of] == [8, 8, 16, 32]
        assert of[0].width == 64 > of[1].width > of[2].width > of[3].width
        drawn = -np.sort(-samples[1][rng.integers(5000, size=(500, 64)), side])
        for start, part in zip((8, 16, 32), of[1:], strict=True):
            assert (drawn[:, start] <= part.width).mean() > 0.9
    # Each device needs equally many rows of a part; texts of one length have one width.
    parts = packing.choose_parts(samples, 48, (64, 64), 4, 12)['left']
    assert [part.rows for part in parts] == [12, 12, 24]
    same = [np.full((100, 2), 9)]
    assert packing.choose_parts(same, 16, (9, 9), 4, 1) == {}


@pytest.mark.parametrize(
    ('rows', 'chunk_rows', 'shards', 'parts'),
    [
        (32, 0, 1, 1), (32, 32, 1, 1), (32, 100, 8, 1), (32, 31, 1, 2), (32, 8, 8, 4),
        (32, 5, 1, 8), (48, 20, 8, 3), (32, 1, 8, 4), (24, 7, 2, 4), (14, 4, 2, 7),
    ],
)  # fmt: skip
def test_chunks_have_at_most_so_many_rows_and_every_device_its_share(
    rows, chunk_rows, shards, parts
):
    objective = objectives.build('retrieval', chunk_rows=chunk_rows)
    with partitioning.activate(partitioning.make_mesh(devices=jax.devices()[:shards])):
        assert objective._num_parts(rows) == parts
    assert (rows // shards) % parts == 0


def test_dropout_with_cached_gradients(retriever_params):
    """Other masks than without chunks, but the same in both passes and every time."""
    (batch,) = tiny.pair_batches(1)
    options = dict(model=DROPPING, scale=5.0, loss='softmax', chunk_rows=8)
    key = jax.random.key(5)
    one = retrieve(retriever_params, batch, key, **options)
    assert_same_retrieval(retrieve(retriever_params, batch, key, **options), one, 0)
    other, _ = retrieve(retriever_params, batch, jax.random.key(6), **options)
    assert abs(one[0]['loss'] - other['loss']) > 0.1
    # The gradient is that of the very loss that the forward pass gave: both drop the same.
    rng = np.random.default_rng(0)
    towards = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), retriever_params)

    def moved(step):
        params = jax.tree.map(lambda x, t: x + step * t, retriever_params, towards)
        return float(retrieve(params, batch, key, **options)[0]['loss'])

    slope = sum(jax.tree.leaves(jax.tree.map(lambda g, t: (g * t).sum(), one[1], towards)))
    assert abs(slope) > 1
    np.testing.assert_allclose((moved(2e-4) - moved(-2e-4)) / 4e-4, slope, rtol=2e-2)


def test_memory_with_cached_gradients_does_not_grow_with_the_batch():
    objective = {n: objectives.build('retrieval', chunk_rows=n) for n in (0, 16)}
    shapes = jax.eval_shape(RETRIEVER.init, jax.random.key(0), *objective[0].example_inputs())
    params = nn.unbox(shapes['params'])

    def temporary_bytes(rows: int, chunk_rows: int) -> int:
        batch = {
            f'{side}_encoder_{name}': jax.ShapeDtypeStruct((rows, 32), np.int32)
            for side in SIDES for name in ('input_tokens', 'segment_ids')
        } | {'row_weights': jax.ShapeDtypeStruct((rows,), np.float32)}  # fmt: skip

        def loss(params, batch):
            batch = batch | {'reply_key': None}
            return objective[chunk_rows].loss(RETRIEVER, params, batch, None)['loss']

        compiled = jax.jit(jax.grad(loss)).lower(params, batch).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    small, large = (temporary_bytes(rows, 16) for rows in (64, 256))
    whole = temporary_bytes(256, 0)
    # Tokens, vectors and scores grow; the states of all layers do not.
    assert large < 1.5 * small and large < whole / 5


# ------------------------------------------------------------------------------ labels and tags

LABELLERS = {
    view: models.build(
        family, 'sample', vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
        num_layers=1, max_positions=32, num_labels=3, dropout_rate=0.0, attention_dropout_rate=0.0,
        classifier_dropout_rate=0.0,
    )
    for view, family in (
        ('classification', 'sequence_classifier'), ('tagging', 'token_classifier'),
    )
}  # fmt: skip


def label_rows(view: str) -> list[dict]:
    rng = np.random.default_rng(0)
    rows = []
    for words in (3, 1, 6, 4, 2, 5, 7):
        counts = rng.integers(1, 3, words)
        inputs = [2, *rng.integers(3, 90, counts.sum()), 1]
        labels = rng.integers(0, 3, words if view == 'tagging' else 1)
        counts = counts if view == 'tagging' else counts.sum(keepdims=True)
        rows.append({'inputs': inputs, 'targets': labels, 'piece_counts': counts})
        rows[-1] = {name: np.array(value, np.int32) for name, value in rows[-1].items()}
    return rows


def label_batch(view: str, rows, width: int) -> dict[str, np.ndarray]:
    conventions = features.Conventions(0, 1, 0, 128)
    return features.VIEWS[view](rows, features.Layout({'inputs': width}, conventions))


@functools.cache
def label_parts(view: str, smoothing: float = 0.0):
    """(objective, params, gradient of the mean loss with the sums)."""
    objective, model = objectives.build(view, label_smoothing=smoothing), LABELLERS[view]
    params = nn.unbox(jax.jit(model.init)(jax.random.key(2), *objective.example_inputs())['params'])

    def mean_loss(params, batch):
        sums = objective.loss(model, params, batch, None)
        return sums['loss'] / objective.weight(batch), sums

    return objective, params, jax.jit(jax.grad(mean_loss, has_aux=True))


@pytest.mark.parametrize('view', ['tagging', *nightly('classification')])
def test_padding_of_labelled_rows_changes_nothing(view):
    """More columns, more rows, and over eight devices: the same sums and gradients."""
    _, params, gradient = label_parts(view)
    rows = label_rows(view)
    expected, sums = jax.device_get(gradient(params, label_batch(view, rows, 16)))
    batch = label_batch(view, [*rows[:3], [], *rows[3:], *[[]] * 8], 24)
    mesh = partitioning.make_mesh()
    with partitioning.activate(mesh):
        found = jax.device_get(gradient(params, partitioning.put_batch(batch, mesh)))
    for name in sums:
        if name != 'positions':
            np.testing.assert_allclose(found[1][name], sums[name], rtol=1e-5, err_msg=name)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found[0], expected
    )
    assert sums['examples'] == 7 and sums['weight'] == sum(len(row['targets']) for row in rows)
    assert sums['tokens'] == sum(len(row['inputs']) for row in rows)


@pytest.mark.parametrize('view', ['classification', 'tagging'])
def test_losses_of_labels_by_hand(view):
    objective, params, _ = label_parts(view)
    smooth = label_parts(view, 0.3)[0]
    model, batch = LABELLERS[view], label_batch(view, [*label_rows(view), []], 16)

    @jax.jit
    def everything(params, batch):
        tokens = batch['encoder_input_tokens'], batch['encoder_segment_ids']
        return (
            model.apply({'params': params}, *tokens),
            objective.row_losses(model, params, batch),
            smooth.loss(model, params, batch, None)['loss'],
        )

    logits, rows, smoothed = jax.device_get(everything(params, batch))
    nats = -np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))
    weights = batch['row_weights' if view == 'classification' else 'label_weights']
    own = np.take_along_axis(nats, batch['labels'][..., None], -1)[..., 0]
    expected = (own * weights).reshape(8, -1).sum(1)
    np.testing.assert_allclose(rows['loss'], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(rows['weight'], weights.reshape(8, -1).sum(1))
    np.testing.assert_array_equal(rows['predicted'], logits.argmax(-1))
    spread = ((0.7 * own + 0.3 * nats.mean(-1)) * weights).sum()
    np.testing.assert_allclose(smoothed, spread, rtol=1e-5)


@pytest.mark.parametrize('piece', ['mean', *nightly('first')])
def test_the_state_of_a_word_by_hand(piece):
    """Its tag is what the head makes of the state of its first piece, or of the mean of all."""
    _, params, _ = label_parts('tagging')
    objective, model = objectives.build('tagging', word_piece=piece), LABELLERS['tagging']
    rows = label_rows('tagging')
    batch = label_batch(objective.view, [*rows, []], 16)
    plain = label_batch('tagging', [*rows, []], 16)
    apply = jax.jit(model.apply, static_argnames='method')
    states, logits = jax.device_get((
        apply(
            {'params': params}, plain['encoder_input_tokens'], plain['encoder_segment_ids'],
            method='hidden',
        ),
        jax.jit(functools.partial(objective.logits, model))(params, batch),
    ))  # fmt: skip
    expected, found = [], []
    for row, state, made in zip(rows, states, logits, strict=False):
        ends = 1 + np.cumsum(row['piece_counts'])  # Behind [CLS].
        for end, count in zip(ends, row['piece_counts'], strict=True):
            pieces = state[end - count : end]
            expected.append(pieces[0] if piece == 'first' else pieces.mean(0))
            found.append(made[end - 1])
    labels = apply({'params': params}, np.stack(expected), method='label')
    np.testing.assert_allclose(np.stack(found), labels, rtol=1e-5, atol=1e-6)
    row_losses = jax.jit(functools.partial(objective.row_losses, model))
    wide = label_batch(objective.view, [[], *rows], 24)
    np.testing.assert_allclose(
        row_losses(params, wide)['loss'][1:], row_losses(params, batch)['loss'][:-1],
        rtol=1e-5, atol=1e-6,
    )  # fmt: skip


def test_a_classifier_learns_what_only_the_types_of_a_pair_say():
    """Rows of the same tokens, of which the second text begins here or there."""
    _, params, gradient = label_parts('classification')
    inputs = np.array([2, 5, 1, 6, 1, 7, 1], np.int32)
    rows = [
        {'inputs': inputs, 'targets': np.array([label]), 'piece_counts': np.array(counts)}
        for label, counts in enumerate([(1, 3), (3, 1)])
    ]
    batch = label_batch('classification', rows, 8)
    assert (batch['encoder_input_tokens'][0] == batch['encoder_input_tokens'][1]).all()
    adam = optax.adam(1e-2)
    state = adam.init(params)

    @jax.jit
    def step(params, state):
        slopes, sums = gradient(params, batch)
        updates, state = adam.update(slopes, state)
        return optax.apply_updates(params, updates), state, sums

    for _ in range(60):
        params, state, sums = step(params, state)
    assert sums['accuracy'] == 2 and sums['loss'] < 0.2
    # The second row of types learns nothing from single texts, whose tokens are all of the first.
    types = ('encoder', 'type_embedder', 'embedding')
    slopes, _ = gradient(params, label_batch('classification', label_rows('classification'), 16))
    moved = functools.reduce(lambda tree, name: tree[name], types, jax.device_get(slopes))
    assert moved[0].any() and not moved[1].any()


def test_a_model_of_one_type_is_told_none():
    model = LABELLERS['classification']
    rows = [{'inputs': np.array([2, 5, 1, 6, 1]), 'targets': [0], 'piece_counts': [1, 1]}]
    batch = label_batch('classification', rows, 8)
    assert about_tokens(model, batch) == {'type_ids': batch['encoder_type_ids']}
    assert about_tokens(model, label_batch('tagging', label_rows('tagging'), 16)) == {}
    roberta = model.clone(config=dataclasses.replace(model.config, type_vocab_size=1))
    assert about_tokens(roberta, batch) == {}
