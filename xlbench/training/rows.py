"""Trains only those rows of a token table that occur in the data; the others never move.

A vocabulary of 250,000 is most of a small multilingual encoder, and few of its rows occur in the
data of one task. config.embedding_rows='occurring' trains only these: the step takes them out of
the table, computes gradients and the optimizer's statistics for them alone, and puts them back. For
optimizers that move a parameter only by its gradients, the training is the same, except for the
order of sums. Weight decay is the exception: it shrinks only the rows that are trained.

The parameters of the state stay whole, so evaluations, checkpoints and exports need not know about
this. A row that does not occur keeps its initial value, to the bit.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xlbench.models.layers import PLACES

_MULTIPLE = 128  # Rows are taken in multiples of it, so that a mesh may cut them.


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The rows of some tables that are trained."""

    # {name of a table: [rows] int32, ascending; behind them its size, which is no row of it, until
    # they are a multiple of 128}
    ids: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    # {name of a table: its rows in all}
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, ids: np.ndarray, sizes: Mapping[str, int]) -> 'Rows':
        """The same rows of several tables, all rows of one that they fill.

        `ids` are [ids] int32, ascending, each once.
        """
        padded = -(-len(ids) // _MULTIPLE) * _MULTIPLE
        smaller = {name: size for name, size in sizes.items() if padded < size}
        filled = {
            name: np.concatenate([ids, np.full(padded - len(ids), size)]).astype(np.int32)
            for name, size in smaller.items()
        }
        return cls(filled, smaller)

    def count(self, name: str) -> int:
        """The number of rows of a table that are trained."""
        return int((self.ids[name] < self.sizes[name]).sum())

    def taken(self, trainable: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Parameters by name, with the rows [rows, emb_dim] in place of whole tables."""
        return dict(trainable) | {
            name: trainable[name].at[ids].get(mode='fill', fill_value=0)
            for name, ids in self.ids.items()
        }

    def put_back(
        self, whole: Mapping[str, jax.Array], rows: Mapping[str, jax.Array]
    ) -> dict[str, jax.Array]:
        """Parameters by name, with whole tables in which the rows have their new values."""
        return dict(rows) | {
            name: whole[name].at[ids].set(rows[name], mode='drop', indices_are_sorted=True)
            for name, ids in self.ids.items()
        }

    def places(self) -> dict[str, Any]:
        """The parameters by which an Embedding finds ids among the rows; see models/layers.py.

        An id that is none of the rows stands behind them, and looks up no number.
        """
        places = {}
        for name, ids in self.ids.items():
            index = np.full(self.sizes[name], len(ids), np.int32)
            real = ids[ids < self.sizes[name]]
            index[real] = np.arange(len(real))
            places[f'{name.rpartition("/")[0]}/{PLACES}'] = index
        return places

    def like(
        self, trainable: Mapping[str, jax.Array | jax.ShapeDtypeStruct]
    ) -> dict[str, jax.Array | jax.ShapeDtypeStruct]:
        """`taken` of shapes that say where their arrays lie."""
        tables = {name: (len(ids), trainable[name]) for name, ids in self.ids.items()}
        return dict(trainable) | {
            name: jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype, sharding=x.sharding)
            for name, (n, x) in tables.items()
        }


ALL_ROWS = Rows()  # Of tables that are trained as a whole.
