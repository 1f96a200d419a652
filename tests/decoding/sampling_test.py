"""Samples come as often as they should, from exactly the tokens they may come from."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stand_ins
from scipy import stats

from xlbench import decoding
from xlbench.decoding import sampling

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
