"""Greedy texts end where they should; samples come as often, from the tokens that they may."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stand_ins
from scipy import stats

from xlbench import decoding
from xlbench.decoding import loop, sampling
from xlbench.decoding.rules import Rules

PAD, EOS, START = 0, 1, 2
# The next token after each; 2 -> 3 -> 4 -> 5 -> end, 6 -> 6 for ever.
NEXT = jnp.array([7, 7, 3, 4, 5, EOS, 6, 7])


def chain(cache, tokens):
    """Logits 2.0 for the successor and 0 for the rest; the cache counts the steps."""
    return 2.0 * jax.nn.one_hot(NEXT[tokens], 8), cache + 1


def chains(starts):
    """Rows that start at different places of the chain."""

    def step(cache, tokens):
        first, steps = cache
        tokens = jnp.where(steps == 0, first, tokens)
        return 2.0 * jax.nn.one_hot(NEXT[tokens], 8), (first, steps + 1)

    return step, (jnp.array(starts), 0)


STEP_LOG_PROBABILITY = 2.0 - np.log(np.exp(2.0) + 7)


def greedily(step, cache, batch_size, max_length):
    options = decoding.Options(max_length=max_length)
    starts, empty = jnp.full(batch_size, START), jnp.zeros(batch_size, bool)
    return sampling.one_by_one(
        loop.Batch(None, step, cache, Rules(options, EOS), starts, PAD, empty)
    )


@pytest.mark.parametrize('jit', [False, True])
def test_rows_end_at_their_own_time(jit):
    step, cache = chains([2, 5, 6])
    run = lambda cache: greedily(step, cache, batch_size=3, max_length=7)  # noqa: E731
    tokens, scores = (jax.jit(run) if jit else run)(cache)
    assert tokens[:, 0].tolist() == [
        [3, 4, 5, EOS, PAD, PAD, PAD],
        [EOS, PAD, PAD, PAD, PAD, PAD, PAD],
        [6, 6, 6, 6, 6, 6, 6],
    ]
    assert tokens.dtype == jnp.int32
    np.testing.assert_allclose(scores[:, 0], np.array([4, 1, 7]) * STEP_LOG_PROBABILITY, rtol=1e-5)


def test_stops_when_every_row_has_ended():
    steps = []

    def counted(cache, tokens):
        jax.debug.callback(lambda: steps.append(1))
        return chain(cache, tokens)

    tokens, _ = jax.block_until_ready(greedily(counted, 0, batch_size=2, max_length=100))
    jax.effects_barrier()
    assert tokens[0, 0, :5].tolist() == [3, 4, 5, EOS, PAD]
    assert len(steps) == 4


# ---------------------------------------------------------------------------------------- sampling

LOGITS = jnp.array([2.0, 1.0, 1.0, 0.5, 0.0, -1.0, -jnp.inf, -3.0])
DRAWS = 20_000


def draws(logits, seed=0):
    keys = sampling.row_keys(jax.random.key(seed), jnp.arange(DRAWS // 4), 4).reshape(-1)
    rows = jnp.broadcast_to(logits, (DRAWS, len(logits)))
    return jax.jit(sampling.draw)(keys, rows, jnp.array(3))


@pytest.mark.parametrize(
    'temperature, k, p, support',
    [
        (1.0, 0, 1.0, [0, 1, 2, 3, 4, 5, 7]),
        (0.5, 0, 1.0, [0, 1, 2, 3, 4, 5, 7]),
        (2.0, 0, 1.0, [0, 1, 2, 3, 4, 5, 7]),
        (1.0, 1, 1.0, [0]),
        (1.0, 2, 1.0, [0, 1, 2]),  # The third equals the second.
        (1.0, 4, 1.0, [0, 1, 2, 3]),
        # Probabilities 0.444, 0.163, 0.163, 0.099, 0.060, 0.022, 0, 0.003 (of their sum 0.954).
        (1.0, 0, 0.4, [0]),
        (1.0, 0, 0.8, [0, 1, 2]),
        (1.0, 0, 0.85, [0, 1, 2, 3]),
        (1.0, 4, 0.85, [0, 1, 2]),  # Of the four that are left, three have 0.886.
        (0.5, 3, 0.6, [0]),
    ],
)
def test_frequencies_and_supports(temperature, k, p, support):
    logits = sampling.distribution(LOGITS[None], temperature, k, p)[0]
    assert jnp.flatnonzero(logits > -jnp.inf).tolist() == support
    expected = np.zeros(8)
    expected[support] = np.exp(np.asarray(LOGITS, np.float64)[support] / temperature)
    expected *= DRAWS / expected.sum()
    counts = np.bincount(draws(logits), minlength=8)
    assert not counts[expected == 0].any()
    likely = expected > 0
    if len(support) > 1:
        assert stats.chisquare(counts[likely], expected[likely]).pvalue > 1e-3


def test_draws_are_independent_of_each_other_and_follow_the_seed():
    one, same, other = (np.asarray(draws(LOGITS, seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    for pair in ((one[1:], one[:-1]), (one, other)):
        table = stats.contingency.crosstab(*pair).count
        common = table[:5, :5]  # Rarer tokens are too few for the test.
        assert stats.chi2_contingency(common).pvalue > 1e-3


class Dice(stand_ins.Generator):
    """Stands in for a model: every token has the distribution of LOGITS; 7 ends the text."""

    def init_cache(self, encoded, segments, max_length, beams):
        return {'origin': jnp.zeros((len(encoded), beams, 1), jnp.int32)}

    def decode_step(self, cache, tokens):
        return jnp.broadcast_to(LOGITS, (len(tokens), 8)), cache


def test_texts_of_a_model():
    """Each sample of each example is a chain of independent draws, with its log-probability."""
    options = decoding.Options(method='sample', num_return=8, max_length=6, seed=3)
    batch = {'encoder_segment_ids': jnp.ones((500, 1), jnp.int32)}
    batch |= dict.fromkeys(('encoder_input_tokens', 'encoder_positions'), jnp.zeros((500, 1)))
    decode = functools.partial(decoding.decode, Dice(), None, start_id=6, eos_id=7, pad_id=6)
    found = jax.device_get(jax.jit(functools.partial(decode, options=options))(batch))
    assert found.tokens.shape == (500, 8, 6)
    probabilities = np.asarray(jax.nn.softmax(LOGITS), np.float64)
    for position in range(6):
        counts = np.bincount(found.tokens[:, :, position].ravel(), minlength=8)
        alive = counts.sum() - counts[6]  # 6 is never drawn: it is padding after the end.
        expected = np.delete(probabilities, 6)
        expected *= alive / expected.sum()
        assert stats.chisquare(np.delete(counts, 6), expected).pvalue > 1e-3
    each = np.where(found.tokens == 6, 0.0, np.log(np.maximum(probabilities, 1e-9))[found.tokens])
    np.testing.assert_allclose(found.log_probabilities, each.sum(-1), atol=1e-4)
    again = jax.jit(functools.partial(decode, options=options))(batch, rng=jax.random.key(3))
    np.testing.assert_array_equal(again.tokens, found.tokens)
