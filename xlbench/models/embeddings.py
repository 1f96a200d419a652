"""The tables of tokens: those that are looked up, and that of the logits."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xlbench.models import placement
from xlbench.models.dense import Initializer, fan_in_normal


@jax.custom_vjp
def look_up(table: jax.Array, ids: jax.Array) -> jax.Array:
    """Rows of table [vocab, emb_dim] at ids [batch, length] -> [batch, length, emb_dim]."""
    return _as_the_table(jnp.take(table, ids, axis=0))


def _as_the_table(x: jax.Array) -> jax.Array:
    """x [batch, length, emb_dim], its features cut as those of a table.

    So a device looks up, and sums up for the gradient, its own columns for the rows of all that
    share the table; no table, and nothing of a table's size, is sent for it.
    """
    return placement.constrain(x, 'looked_up', 'length', 'embed')


def _look_up_fwd(table, ids):
    return look_up(table, ids), (ids, jnp.zeros((table.shape[0], 0), table.dtype))


def _look_up_bwd(saved, g):
    ids, like = saved
    table = jnp.zeros((like.shape[0], g.shape[-1]), like.dtype)
    return table.at[ids].add(_as_the_table(g.astype(like.dtype))), None


look_up.defvjp(_look_up_fwd, _look_up_bwd)


# The leaf beside a table that has only some of its rows: [size] int32, id -> its row there. A step
# of training puts it into the tree of parameters; see training/rows.py.
PLACES = 'places'


class Embedding(nn.Module):
    """A table of `size` rows; called with ids it looks them up."""

    size: int
    features: int
    dtype: DTypeLike = jnp.float32
    embedding_init: Initializer = nn.initializers.normal(1.0)
    rows: str = 'vocab'  # logical axis of the rows

    def setup(self):
        init = nn.with_logical_partitioning(self.embedding_init, (self.rows, 'embed'))
        if self.has_variable('params', PLACES):
            self.places = self.get_variable('params', PLACES)
            self.embedding = self.get_variable('params', 'embedding')
        else:
            self.places = None
            self.embedding = self.param('embedding', init, (self.size, self.features), jnp.float32)

    def __call__(self, ids: jax.Array) -> jax.Array:
        """ids [batch, length] -> [batch, length, features]."""
        ids = ids if self.places is None else jnp.take(self.places, ids)
        return placement.place(look_up(self.embedding, ids).astype(self.dtype))


class OutputEmbedding(nn.Module):
    """An output table, [vocab, embed] like the input table."""

    size: int
    features: int

    def setup(self):
        init = nn.with_logical_partitioning(fan_in_normal(), ('vocab', 'embed'))
        self.kernel = self.param('kernel', init, (self.size, self.features), jnp.float32)

    def __call__(self) -> jax.Array:
        """The table [vocab, embed]."""
        return self.kernel
