import functools
import math
import re
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P
from nightly import nightly

from xlbench.training import losses
from xlbench.training.objectives import retrieval

KINDS = get_args(retrieval.Options.__annotations__['loss'])


def plain(
    hidden, embedding, targets, weights, bias=0.0, label_smoothing=0.0, z_loss=0.0, softcap=0.0
):
    """The definition, with all logits and target probabilities written out."""
    logits = hidden @ embedding.T
    logits = (softcap * jnp.tanh(logits / softcap) if softcap else logits) + bias
    vocab = embedding.shape[0]
    log_z = jax.nn.logsumexp(logits, axis=-1)
    low = label_smoothing / (vocab - 1)
    hot = jax.nn.one_hot(targets, vocab)
    probability = hot * (1.0 - label_smoothing) + (1.0 - hot) * low
    loss = -jnp.sum(probability * (logits - log_z[:, None]), axis=-1)
    entropy = -jnp.sum(probability * jnp.log(probability + 1e-20), axis=-1)
    loss = loss - jnp.where(label_smoothing > 0, entropy, 0.0)
    z = z_loss * log_z**2
    correct = jnp.argmax(logits, -1) == targets
    return losses.LossSum(
        jnp.sum(weights * (loss + z)),
        jnp.sum(weights * z),
        jnp.sum(weights),
        jnp.sum(weights * correct),
    )


def example(tokens=37, emb_dim=16, vocab=53, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(tokens, emb_dim)).astype(np.float32)
    embedding = rng.normal(size=(vocab, emb_dim)).astype(np.float32) * 0.5
    targets = rng.integers(0, vocab, tokens).astype(np.int32)
    weights = (rng.random(tokens) * (rng.random(tokens) > 0.3)).astype(np.float32)
    return hidden, embedding, targets, weights


def relative_error(actual, expected):
    return float(jnp.max(jnp.abs(actual - expected)) / (jnp.max(jnp.abs(expected)) + 1e-30))


@pytest.mark.parametrize('chunk_size', [8, None, *nightly(1, 37, 64)])
@pytest.mark.parametrize(
    'options', [{}, {'label_smoothing': 0.1, 'z_loss': 0.01}, {'softcap': 3.0}]
)
@pytest.mark.parametrize('with_bias', [False, True])
def test_value_and_gradients_equal_the_definition(chunk_size, options, with_bias):
    hidden, embedding, *targets_and_weights = example()
    learnt = [hidden, embedding]
    if with_bias:
        learnt.append(np.linspace(-2.0, 2.0, len(embedding), dtype=np.float32))

    def ours(hidden, embedding, bias=None):
        out = losses.softmax_cross_entropy(
            hidden, embedding, *targets_and_weights, bias=bias, chunk_size=chunk_size, **options
        )
        return out.loss / out.weight, out

    def definition(hidden, embedding, bias=0.0):
        out = plain(hidden, embedding, *targets_and_weights, bias, **options)
        return out.loss / out.weight, out

    arguments = tuple(range(len(learnt)))
    (_, out), gradients = jax.value_and_grad(ours, arguments, has_aux=True)(*learnt)
    (_, expected), slopes = jax.value_and_grad(definition, arguments, has_aux=True)(*learnt)
    for ours_sums in (out, ours(*learnt)[1]):
        np.testing.assert_allclose(ours_sums, expected, rtol=1e-5)
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert relative_error(gradient, slope) < 1e-5
    if not options:
        nats = losses.token_losses(
            hidden, embedding, targets_and_weights[0], bias=learnt[2] if with_bias else None,
            chunk_size=chunk_size,
        )  # fmt: skip
        np.testing.assert_allclose(nats @ targets_and_weights[1], out.loss, rtol=1e-5)


def test_hand_worked_numbers():
    # Two tokens over three words; logits (ln 2, 0, 0) and (0, 0, ln 2), by an identity table.
    hidden = jnp.log(jnp.array([[2.0, 1.0, 1.0], [1.0, 1.0, 2.0]]))
    out = losses.softmax_cross_entropy(hidden, jnp.eye(3), jnp.array([0, 1]), jnp.array([1.0, 3.0]))
    np.testing.assert_allclose(out.loss, np.log(2) + 3 * np.log(4), rtol=1e-6)
    np.testing.assert_allclose((out.z_loss, out.weight, out.correct), (0.0, 4.0, 1.0))
    out = losses.softmax_cross_entropy(
        hidden[:1], jnp.eye(3), jnp.array([0]), jnp.ones(1), z_loss=0.5
    )
    np.testing.assert_allclose(out.z_loss, 0.5 * np.log(4) ** 2, rtol=1e-6)
    np.testing.assert_allclose(out.loss, np.log(2) + 0.5 * np.log(4) ** 2, rtol=1e-6)


def test_a_smoothed_target_matched_exactly_costs_nothing():
    smoothing, vocab = 0.2, 5
    best = jnp.log(jnp.where(jnp.arange(vocab) == 2, 1 - smoothing, smoothing / (vocab - 1)))
    out = losses.softmax_cross_entropy(
        best[None], jnp.eye(vocab), jnp.array([2]), jnp.ones(1), label_smoothing=smoothing
    )
    np.testing.assert_allclose(out.loss, 0.0, atol=1e-6)


def test_padding_changes_nothing():
    hidden, embedding, targets, weights = example()
    more = (np.full((9, hidden.shape[1]), 7.0, np.float32), np.ones(9, np.int32), np.zeros(9))
    padded = [np.concatenate([a, b]) for a, b in zip((hidden, targets, weights), more, strict=True)]

    def loss(hidden, targets, weights):
        return losses.softmax_cross_entropy(hidden, embedding, targets, weights, chunk_size=8).loss

    value, gradient = jax.value_and_grad(loss)(hidden, targets, weights)
    padded_value, padded_gradient = jax.value_and_grad(loss)(*padded)
    np.testing.assert_allclose(padded_value, value, rtol=1e-6)
    np.testing.assert_allclose(padded_gradient[: len(hidden)], gradient, atol=1e-6)
    assert not padded_gradient[len(hidden) :].any()


def test_large_logits_stay_finite():
    hidden, embedding, targets, weights = example()
    value, gradient = jax.value_and_grad(
        lambda h: losses.softmax_cross_entropy(h, embedding, targets, weights).loss
    )(hidden * 1e3)
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_bfloat16_operands_are_near():
    arrays = example()

    def loss(hidden, embedding, matmul_dtype):
        return losses.softmax_cross_entropy(
            hidden, embedding, *arrays[2:], matmul_dtype=matmul_dtype, chunk_size=8
        ).loss

    value, gradients = jax.value_and_grad(loss, (0, 1))(*arrays[:2], 'bfloat16')
    expected, slopes = jax.value_and_grad(loss, (0, 1))(*arrays[:2], 'float32')
    assert 0 < abs(value - expected) / expected < 1e-2
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert gradient.dtype == jnp.float32
        assert relative_error(gradient, slope) < 2e-2


def largest(hlo: str, vocab: int) -> int:
    """The most rows that any float array with `vocab` columns has in a compiled program."""
    shapes = re.findall(rf'f32\[([\d,]*),{vocab}\]', hlo)
    return max((math.prod(int(n) for n in shape.split(',')) for shape in shapes), default=0)


def test_the_logits_of_all_tokens_never_exist():
    tokens, vocab = 64, 1009
    arrays = example(tokens=tokens, vocab=vocab)

    def loss(hidden, embedding):
        return losses.softmax_cross_entropy(hidden, embedding, *arrays[2:], chunk_size=16).loss

    compiled = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(*arrays[:2]).compile()
    assert 0 < largest(compiled.as_text(), vocab) <= 16


@pytest.mark.parametrize('groups', [1, 4])
@pytest.mark.parametrize('table_spec', [P('tensor'), P('tensor', 'fsdp')])
def test_eight_devices_equal_one(groups, table_spec):
    hidden, embedding, targets, weights = example(tokens=64, vocab=64)

    def loss(hidden, embedding, targets, weights):
        out = losses.softmax_cross_entropy(
            hidden, embedding, targets, weights, chunk_size=16, groups=groups, z_loss=0.01
        )
        return out.loss / out.weight, out

    step = jax.value_and_grad(loss, (0, 1), has_aux=True)
    (_, expected), slopes = jax.jit(step)(hidden, embedding, targets, weights)
    axes = ('data', 'fsdp', 'tensor')
    mesh = jax.make_mesh((2, 2, 2), axes, axis_types=(jax.sharding.AxisType.Auto,) * 3)
    rows = NamedSharding(mesh, P(('data', 'fsdp')))
    placed = jax.device_put(
        (hidden, embedding, targets, weights),
        (rows, NamedSharding(mesh, table_spec), rows, rows),
    )
    compiled = jax.jit(step).lower(*placed).compile()
    (_, out), gradients = compiled(*placed)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    for gradient, slope in zip(gradients, slopes, strict=True):
        assert relative_error(gradient, slope) < 1e-5
    # Each device holds its half of the vocabulary for its quarter of a chunk, never more.
    hlo = compiled.as_text()
    assert largest(hlo, 64) == 0
    assert largest(hlo, 32) == 4
    # With groups, the table's gradient crosses devices once, not after every chunk.
    crossing = re.findall(r'^.*32,16\].* all-reduce\(.*while/body.*$', hlo, re.MULTILINE)
    assert bool(crossing) == (groups == 1)


def test_the_sum_over_devices_is_the_last_of_the_tables_gradient():
    """So that it can leave a loop that accumulates gradients; a factor after it would stay."""
    hidden, embedding, targets, weights = example(tokens=64, vocab=64)

    def loss(embedding):
        out = losses.softmax_cross_entropy(hidden, embedding, targets, weights, groups=4)
        return out.loss / out.weight

    program = jax.make_jaxpr(jax.grad(loss))(embedding).jaxpr
    (last,) = (eqn for eqn in program.eqns if program.outvars[0] in eqn.outvars)
    assert last.primitive.name == 'reduce_sum' and last.invars[0].aval.shape[0] == 4


def test_tokens_that_do_not_divide_into_groups_are_refused():
    with pytest.raises(ValueError, match='37 tokens'):
        losses.softmax_cross_entropy(*example(), groups=4)


# ------------------------------------------------------------------------------------ contrastive

GOLDEN_LOSSES = {
    'sym_paper': 'paper_eq4_neg_log_per_example',
    'sym_code': 'SymSMLoss_code_per_example',
    'softmax': 'SMLoss_code_per_example',
}


@functools.partial(jax.jit, static_argnames=('kind', 'chunk_size'))
def contrastive(left, right, weights, keys, kind, scale=1.0, chunk_size=None):
    """(d sum(loss) / d (left, right), Contrast)"""

    def loss(left, right):
        out = losses.contrastive(
            left, right, kind=kind, scale=scale, weights=weights, keys=keys, chunk_size=chunk_size
        )
        return jnp.sum(out.loss), out

    return jax.grad(loss, (0, 1), has_aux=True)(left, right)


@pytest.mark.parametrize('chunk_size', [None, 2])
def test_contrastive_losses_of_mrs(golden, chunk_size):
    for case in golden('mrs_loss'):
        expected, (rows, dim) = case['expected'], np.shape(case['inputs']['msg_enc'])
        vectors = np.zeros((2, 5, 8), np.float32)  # All cases in one shape, to compile once.
        for side, name in zip(vectors, ('msg_enc', 'rsp_enc'), strict=True):
            side[:rows, :dim] = case['inputs'][name]
        real = np.arange(5) < rows
        for kind, name in GOLDEN_LOSSES.items():
            out = contrastive(*vectors, real, np.arange(5), kind, chunk_size=chunk_size)[1]
            np.testing.assert_allclose(out.loss[:rows], expected[name], rtol=0, atol=1e-6)
            precision = float(out.correct[:rows].mean())
            assert precision == pytest.approx(expected['in_batch_precision_at_1'], abs=1e-6)


def pairs(rows=37, dim=8, seed=0):
    """Vectors, weights and keys; some rows are padding, some replies equal."""
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(2, rows, dim)).astype(np.float32)
    weights = (rng.random(rows) > 0.2).astype(np.float32)
    # A reply is a little like its message.
    return left, 0.4 * left + right, weights, rng.integers(0, 9, rows).astype(np.int32)


def contrastive_by_hand(left, right, weights, keys, kind, scale):
    """The definition, pair by pair in float64: (losses, correct)."""
    real = [i for i in range(len(left)) if weights[i]]
    scores = scale * left.astype(np.float64) @ right.astype(np.float64).T
    nats, correct = np.zeros((2, len(left)))
    for i in real:
        negatives = [j for j in real if keys[j] != keys[i]]
        replies = [scores[i, j] for j in negatives]
        messages = [scores[j, i] for j in negatives]
        own = scores[i, i]
        terms = {
            'softmax': [[own, *replies]],
            'sym_paper': [[own, *replies, *messages]],
            'sym_code': [[own, own, *replies, *messages]],
            'bidirectional': [[own, *replies], [own, *messages]],
        }[kind]
        nats[i] = sum(np.log(np.exp(sums).sum()) - own for sums in terms)
        correct[i] = all(own > reply for reply in replies)
    return nats, correct


@pytest.mark.parametrize('kind', KINDS)
def test_contrastive_equals_the_definition(kind):
    left, right, weights, keys = pairs()
    for own_keys in (keys, np.arange(37, dtype=np.int32)):
        nats, correct = contrastive_by_hand(left, right, weights, own_keys, kind, 2.0)
        for chunk_size in (None, 5):
            out = contrastive(left, right, weights, own_keys, kind, 2.0, chunk_size)[1]
            np.testing.assert_allclose(out.loss, nats, rtol=2e-5, atol=1e-5)
            np.testing.assert_array_equal(out.correct, correct)
        assert 3 < correct.sum() < len(correct)


@pytest.mark.parametrize('kind', KINDS)
def test_gradients_of_contrastive_losses(kind):
    """Against differences of the definition in float64; the same in chunks; none for padding."""
    left, right, weights, keys = pairs()
    gradients = contrastive(left, right, weights, keys, kind, 2.0, 5)[0]
    plain = contrastive(left, right, weights, keys, kind, 2.0)[0]
    rng = np.random.default_rng(5)
    for side in (0, 1):
        assert relative_error(gradients[side], plain[side]) < 1e-6
        assert not gradients[side][weights == 0].any()
        towards = rng.normal(size=left.shape)

        def moved(step, side=side, towards=towards):
            sides = [left.astype(np.float64), right.astype(np.float64)]
            sides[side] = sides[side] + step * towards
            return contrastive_by_hand(*sides, weights, keys, kind, 2.0)[0].sum()

        slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
        np.testing.assert_allclose(np.sum(gradients[side] * towards), slope, rtol=1e-4)


@pytest.mark.parametrize('kind', KINDS)
def test_contrastive_losses_at_their_limits(kind):
    left, right, weights, keys = pairs()

    def run(weights, keys, scale=1.0):
        gradients, out = contrastive(
            left, right, weights.astype(np.float32), keys, kind, scale, chunk_size=5
        )
        assert all(np.isfinite(gradient).all() for gradient in gradients)
        return out

    # No row; one row, whose reply is the only candidate; no negatives, as all replies are equal.
    assert not run(np.zeros(37), keys).loss.any()
    alone = math.log(2) if kind == 'sym_code' else 0.0
    for chosen, own_keys in ((np.arange(37) == 20, keys), (weights > 0, np.ones(37, np.int32))):
        out = run(chosen, own_keys)
        np.testing.assert_allclose(out.loss, np.where(chosen, alone, 0.0), atol=1e-5)
        np.testing.assert_array_equal(out.correct, chosen)
    assert np.isfinite(run(weights, keys, scale=1e4).loss).all()


def test_the_scores_of_all_pairs_never_exist():
    left, right, weights, keys = pairs(rows=1000)
    hlo = contrastive.lower(left, right, weights, keys, 'sym_paper', chunk_size=50).compile()
    # What each chunk keeps for the backward pass is its sums of columns: [chunks, rows].
    assert 0 < largest(hlo.as_text(), 1000) <= 50


def test_devices_exchange_vectors_and_no_scores():
    rows, dim = 64, 8
    mesh = jax.make_mesh((8,), ('data',), axis_types=(jax.sharding.AxisType.Auto,))
    by_row, whole = (NamedSharding(mesh, P(*axes)) for axes in (('data',), ()))
    arrays = pairs(rows, dim)

    def loss(left, right, weights, keys):
        right = jax.lax.with_sharding_constraint(right, whole)
        out = losses.contrastive(
            left, right, kind='sym_paper', weights=weights, keys=keys, groups=8, chunk_size=32
        )
        return jnp.sum(out.loss)

    placed = jax.device_put(arrays, by_row)
    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(*placed).compile()
    expected = contrastive(*arrays, 'sym_paper')[0]
    for gradient, slope in zip(compiled(*placed), expected, strict=True):
        assert relative_error(gradient, slope) < 1e-5
    hlo = compiled.as_text()
    assert largest(hlo, rows) == 4  # A device's half of its 8 rows.
    exchanged = re.findall(r'= \w+\[([\d,]*)\]\S* (?:all-|reduce-s|collective)[\w-]+\(', hlo)
    assert f'{rows},{dim}' in exchanged and set(exchanged) <= {f'{rows}', f'{rows},{dim}', ''}
