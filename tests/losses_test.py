import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from xlbench import losses


def plain(hidden, embedding, targets, weights, bias=0.0, label_smoothing=0.0, z_loss=0.0):
    """The definition, with all logits and target probabilities written out."""
    logits = hidden @ embedding.T + bias
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


@pytest.mark.parametrize('chunk_size', [1, 8, 37, 64, None])
@pytest.mark.parametrize('options', [{}, {'label_smoothing': 0.1, 'z_loss': 0.01}])
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


def test_tokens_that_do_not_divide_into_groups_are_refused():
    with pytest.raises(ValueError, match='37 tokens'):
        losses.softmax_cross_entropy(*example(), groups=4)
