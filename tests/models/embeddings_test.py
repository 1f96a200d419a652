import jax
import jax.numpy as jnp
import numpy as np

from xlbench.models import embeddings


def test_look_up_adds_gradients_of_repeated_rows():
    table = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    ids = np.array([[2, 0], [2, 2]])
    weights = np.arange(1.0, 13.0, dtype=np.float32).reshape(2, 2, 3)

    @jax.jit
    def rows_and_gradient(table):
        def loss(table):
            rows = embeddings.look_up(table, ids)
            return jnp.sum(rows * weights), rows

        gradient, rows = jax.grad(loss, has_aux=True)(table)
        return rows, gradient

    rows, gradient = rows_and_gradient(table)
    np.testing.assert_array_equal(rows, table[ids])
    expected = np.zeros_like(table)
    np.add.at(expected, ids, weights)
    np.testing.assert_array_equal(gradient, expected)
    assert gradient[0].tolist() == [4.0, 5.0, 6.0] and not np.any(gradient[1])
