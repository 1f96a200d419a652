"""The parts of decoding: exact largest entries, rules, options."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench import decoding
from xlbench.decoding import top
from xlbench.decoding.rules import Rules
from xlbench.system.errors import UserError

EOS = 1


@pytest.mark.parametrize('vocab', [40, 128, 1280, 1283, 5001])
@pytest.mark.parametrize('k', [1, 4, 10])
def test_top_k_is_exact_and_equal_entries_keep_their_order(vocab, k):
    rng = np.random.default_rng(vocab + k)
    # Few different values, so that many are equal; and in one row all.
    logits = rng.integers(0, 30, (6, vocab)).astype(np.float32)
    logits[3] = 5.0
    logits[4, :-2] = -np.inf
    found = jax.jit(top.top_k, static_argnums=1)(logits, k)
    order = np.argsort(-logits, axis=1, kind='stable')[:, :k]
    np.testing.assert_array_equal(found.ids, order)
    np.testing.assert_array_equal(found.values, np.take_along_axis(logits, order, 1))


def test_top_k_of_values_made_on_the_way():
    logits = np.random.default_rng(0).normal(size=(5, 1283)).astype(np.float32)
    banned = np.argsort(-logits[0])[::2][:40]
    value = lambda x, ids: jnp.where(jnp.isin(ids, banned), -jnp.inf, 2 * x)  # noqa: E731
    found = top.top_k(logits, 6, value)
    changed = 2 * logits
    changed[:, banned] = -np.inf
    np.testing.assert_array_equal(found.ids, np.argsort(-changed, axis=1)[:, :6])


def test_what_a_tpu_takes_in_one_pass_is_the_same():
    logits = np.random.default_rng(0).integers(0, 30, (6, 1283)).astype(np.float32)
    value = lambda x, ids: jnp.where(ids % 3 == 0, -jnp.inf, 2 * x)  # noqa: E731
    jax.tree.map(
        np.testing.assert_array_equal, top._largest(logits, value), top.top_k(logits, 1, value)
    )


@pytest.mark.parametrize('vocab', [40, 1280, 1283])
def test_logsumexp(vocab):
    logits = 30 * np.random.default_rng(0).normal(size=(5, vocab)).astype(np.float32)
    expected = jax.nn.logsumexp(logits, axis=1)
    np.testing.assert_allclose(top.logsumexp(logits), expected, rtol=1e-6)


def banned(tokens, **options):
    """Ids that may not follow the tokens, the start token first, in a vocabulary of 10."""
    length = len(tokens) + 3
    rules = Rules(decoding.Options(max_length=length - 1, **options), EOS)
    row = jnp.array([tokens + [9] * 3])  # What is not there yet must not count.
    position = jnp.array(len(tokens) - 1)
    zero = jnp.zeros(1)
    logits = rules.by_history(jnp.zeros((1, 10)), zero, row, position)
    logits = rules.by_id(zero, position)(logits, jnp.arange(10))
    return jnp.flatnonzero(logits[0] == -jnp.inf).tolist()


@pytest.mark.parametrize(
    'n, tokens, expected',
    [
        (1, [0, 5, 6], [0, 5, 6]), (2, [0, 5, 6, 5], [6]), (2, [0, 5, 6, 7], []),
        (2, [0, 5, 0], [5]),  # The start token counts.
        (2, [0, 5, 5, 5], [5]), (3, [0, 5, 6, 7, 5, 6], [7]), (3, [0, 5, 6, 7, 5], []),
        (3, [0, 5, 6, 7, 5, 6, 8, 5, 6], [7, 8]), (3, [0], []), (5, [0, 0], []),
        (50, [0, 5, 6], []),
    ],
)  # fmt: skip
def test_no_repeated_ngrams(n, tokens, expected):
    assert banned(tokens, no_repeat_ngram=n) == expected


@pytest.mark.parametrize(
    'tokens, expected',
    [
        ([0], [7]), ([0, 3], [4, 7]), ([0, 5], [7]), ([0, 5, 6], [7, 8]),
        ([5, 6], [7]),  # The start token does not count.
        ([0, 3, 5, 6], [7, 8]),
    ],
)  # fmt: skip
def test_banned_tokens_and_sequences(tokens, expected):
    assert banned(tokens, banned=[7, [3, 4], (5, 6, 8)]) == expected


def test_least_length():
    assert banned([0], min_length=2) == banned([0, 5], min_length=2) == [EOS]
    assert banned([0, 5, 5], min_length=2) == []
    assert decoding.Options(max_length=2, min_length=2).min_length == 2  # As long as a text may be.


def test_forced_tokens():
    rules = Rules(decoding.Options(max_length=3, forced_last=True), EOS, jnp.array([4, 7]))
    zero = jnp.array([2.0, 3.0])
    for position, expected in ((0, [4, 7]), (2, [EOS, EOS])):
        logits = rules.by_id(zero, jnp.array(position))(jnp.ones((2, 10)), jnp.arange(10))
        assert jnp.argmax(logits, axis=1).tolist() == expected
        np.testing.assert_array_equal(jnp.sum(logits > -jnp.inf, axis=1), 1)
        np.testing.assert_array_equal(jnp.max(logits, axis=1), zero)
    free = rules.by_id(zero, jnp.array(1))(jnp.ones((2, 10)), jnp.arange(10))
    np.testing.assert_array_equal(free, 1.0)


def test_repetition_penalty():
    rules = Rules(decoding.Options(repetition_penalty=2.0, max_length=5), EOS)
    logits = jnp.array([[3.0, -1.0, 4.0, 5.0, -6.0, 7.0]])
    tokens = jnp.array([[0, 4, 2, 4, 5, 5]])  # The 5s are not there yet.
    found = rules.by_history(logits, jnp.zeros(1), tokens, jnp.array(3))
    np.testing.assert_allclose(found, [[1.5, -1.0, 2.0, 5.0, -12.0, 7.0]])
    # In beams it counts below the largest possible logit.
    found = rules.by_history(logits, jnp.array([7.0]), tokens, jnp.array(3))
    np.testing.assert_allclose(found, [[-1.0, -1.0, 1.0, 5.0, -19.0, 7.0]])


def test_rules_that_are_off_change_nothing():
    rules, logits = Rules(decoding.Options(), EOS), jnp.zeros((2, 5))
    assert rules.by_history(logits, None, None, None) is logits
    assert rules.by_id(None, None)(logits, None) is logits


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(method='beams'), "unknown method in decoding.method 'beams'; nearest: beam"),
        (dict(max_length=0), 'max_length is 0; it must be 1 to 2'),
        (dict(max_length=4, min_length=5), 'min_length=5; allowed: 0 to 4'),
        (dict(method='beam', num_beams=0), 'num_beams is 0; it must be 1 to 2'),
        (dict(method='beam', num_beams=2, early_stopping='x'), "it must be 'never' or True"),
        (dict(method='sample', temperature=0.0), 'temperature is 0.0; it must be above 0'),
        (dict(method='sample', top_k=-1), 'top_k is -1; it must be 0 or more'),
        (dict(method='sample', top_p=1.5), 'top_p is 1.5; it must be above 0, up to 1'),
        (dict(no_repeat_ngram=-1), 'no_repeat_ngram is -1; it must be 0 or more'),
        (dict(repetition_penalty=0.0), 'repetition_penalty is 0.0; it must be above 0'),
        (dict(banned=[[]]), 'banned=((),); allowed: ids'),
        (
            dict(method='diverse_beam', num_beams=4, num_groups=3),
            'num_groups=3; allowed: a divisor of num_beams=4',
        ),
        (dict(method='diverse_beam', num_beams=4), 'diverse_beam needs num_groups of 2 or more'),
        (dict(method='beam', num_beams=2, num_return=3), 'num_return=3; beam gives 1 to 2 texts'),
        (dict(num_return=2), 'num_return=2; greedy gives 1 to 1 texts'),
        (dict(temperature=0.5), 'temperature is for sample, and the method is greedy'),
        (dict(method='sample', num_beams=2), 'num_beams is for beam and diverse_beam'),
    ],
)
def test_mistakes_are_named(fields, message):
    with pytest.raises(UserError) as error:
        decoding.Options(**fields)
    assert message in str(error.value)


def test_the_end_cannot_be_banned():
    with pytest.raises(UserError, match='banned has 1, which ends texts; set min_length'):
        options = decoding.Options(banned=[EOS])
        decoding.decode(None, None, {}, options, start_id=0, eos_id=EOS, pad_id=0)


def test_options_are_static_arguments():
    options = decoding.Options(banned=[3, [4, 5]])
    assert options == decoding.Options(banned=((3,), (4, 5)))
    assert hash(options) == hash(dataclasses.replace(options))


def test_lengths_count_the_end():
    tokens = jnp.array([[[5, 6, 1, 0], [1, 0, 0, 0], [5, 6, 7, 8], [5, 1, 1, 1]]])
    assert decoding.lengths_of(tokens, eos_id=1).tolist() == [[3, 1, 4, 2]]
