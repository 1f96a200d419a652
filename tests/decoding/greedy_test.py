import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xlbench.decoding.greedy import one_by_one

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


IDS = dict(start_id=START, eos_id=EOS, pad_id=PAD)
STEP_LOG_PROBABILITY = 2.0 - np.log(np.exp(2.0) + 7)


@pytest.mark.parametrize('jit', [False, True])
def test_rows_end_at_their_own_time(jit):
    step, cache = chains([2, 5, 6])
    run = lambda cache: one_by_one(step, cache, batch_size=3, max_length=7, **IDS)  # noqa: E731
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

    tokens, _ = jax.block_until_ready(
        one_by_one(counted, 0, batch_size=2, max_length=100, **IDS)
    )
    jax.effects_barrier()
    assert tokens[0, 0, :5].tolist() == [3, 4, 5, EOS, PAD]
    assert len(steps) == 4


def test_other_choices_fit_in():
    # The least likely of all: what a sampler would plug in.
    tokens, scores = one_by_one(
        chain,
        0,
        lambda logits, tokens, position, examples: (
            jnp.argmin(logits, -1).astype(jnp.int32) + 6 + 0 * position
        ),
        batch_size=1,
        max_length=3,
        **IDS,
    )
    assert tokens.tolist() == [[[6, 6, 6]]]
    np.testing.assert_allclose(scores, [[3 * STEP_LOG_PROBABILITY - 2]], rtol=1e-5)
