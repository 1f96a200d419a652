import jax.numpy as jnp
import numpy as np

from xlbench.decoding import mmi


def test_bidirectional():
    forward = jnp.array([[-1.0, -2.0, -4.0]])
    backward = jnp.array([[-9.0, -5.0, -4.0]])
    lengths = jnp.array([[2, 3, 6]])
    scores = mmi.bidirectional(forward, backward, lengths, weight=0.5, length_weight=0.1)
    np.testing.assert_allclose(scores, [[-5.3, -4.2, -5.4]], rtol=1e-6)


def test_lengths_count_the_end():
    tokens = jnp.array([[[5, 6, 1, 0], [1, 0, 0, 0], [5, 6, 7, 8], [5, 1, 1, 1]]])
    assert mmi.lengths_of(tokens, eos_id=1).tolist() == [[3, 1, 4, 2]]
