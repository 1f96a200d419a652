"""Many texts -> their vectors, by one side of a dual encoder, on all devices."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh

from xlbench.data import features
from xlbench.parallel import partitioning, programs
from xlbench.parallel.programs import QUARTERS, LengthBatch, LengthBatches
from xlbench.system.errors import UserError, check_known
from xlbench.system.progress import Progress
from xlbench.system.trees import Params
from xlbench.system.work import in_flight

SIDES = {'left': 'messages', 'right': 'replies'}
# Batches in flight: enough to keep the devices busy while results come back.
BATCHES_AHEAD = 8


class TextEncoder:
    """Encodes the texts of one side; every shape of a batch is compiled once.

    Attributes:
      max_length: tokens of a text, the end included; longer ones are cut.
    """

    def __init__(
        self,
        model: nn.Module,  # a dual encoder
        mesh: Mesh,  # whose devices share the rows of a batch
        side: str,  # 'left' (messages) or 'right' (replies)
        *,
        batch_size: int,  # rows over all processes
        max_length: int,
        conventions: features.Conventions,
    ):
        check_known('side of a dual encoder', side, SIDES)
        partitioning.check_batch_size(batch_size, mesh)
        self._mesh, self._side, self._conventions = mesh, side, conventions
        self.max_length = max_length
        self._batches = LengthBatches(
            mesh, batch_size=batch_size, max_length=max_length, widths=QUARTERS
        )
        # Every process has all results, and no other program has to gather them.
        whole = partitioning.replicated(mesh)
        self._encode = programs.shared(_encode, model, side, out_shardings=whole)

    def __call__(
        self,
        params: Params,  # on the mesh
        rows: Sequence[np.ndarray],  # [length] int32 each, the end included; alike in all processes
        check: Callable[[], None] = lambda: None,  # called after each batch; may raise
    ) -> np.ndarray:
        """Ids of texts -> their vectors [len(rows), dim] float32, in the order of the rows.

        Raises:
          UserError: a vector is not finite.
        """
        eos_id = self._conventions.eos_id
        rows = [features.trim(np.asarray(row), self.max_length, eos_id) for row in rows]
        if not rows:
            raise ValueError(f'there are no {SIDES[self._side]} to encode')

        def encode(batch: LengthBatch) -> jax.Array:
            return self._batches.run(self._encode, params, self._arrays(rows, batch))

        vectors: np.ndarray | None = None
        batches = self._batches.cut({i: len(row) for i, row in enumerate(rows)})
        first = jax.process_index() == 0
        with Progress('encoded', len(rows), SIDES[self._side], active=first) as progress:
            for (places, *_), encoded in in_flight(batches, encode, BATCHES_AHEAD):
                values = np.asarray(encoded)[: len(places)]
                if vectors is None:
                    vectors = np.empty((len(rows), values.shape[1]), np.float32)
                vectors[places] = values
                progress.add(len(places))
                check()
        assert vectors is not None  # There are rows.
        check_finite(vectors, f'the vectors of {SIDES[self._side]}')
        return vectors

    def _arrays(self, rows: Sequence[np.ndarray], batch: LengthBatch) -> dict[str, np.ndarray]:
        """This process's share of a batch: tokens and segment ids [rows, width] int32."""
        shape = (batch.rows, batch.width)
        tokens = np.full(shape, self._conventions.pad_id, np.int32)
        segment_ids = np.zeros(shape, np.int32)
        for i, place in enumerate(batch.places):
            tokens[i, : len(rows[place])] = rows[place]
            segment_ids[i, : len(rows[place])] = 1
        if tokens.max() >= self._conventions.vocab_size:
            raise UserError(
                f'a text has the token id {tokens.max()}, but the vocabulary has '
                f'{self._conventions.vocab_size} ids; prepare the data again with --force'
            )
        share, shares = partitioning.row_share(self._mesh)
        part = slice(share * shape[0] // shares, (share + 1) * shape[0] // shares)
        return {'tokens': tokens[part], 'segment_ids': segment_ids[part]}


def check_finite(values: np.ndarray, what: str) -> None:
    """Raises UserError for values that are not finite: the training of the model has diverged."""
    if not np.isfinite(values).all():
        raise UserError(
            f'{what} are not finite: the training that made this model has diverged. Try a lower '
            'learning_rate, or clip_norm=1.0'
        )


def _encode(
    model: nn.Module, side: str, params: Params, batch: Mapping[str, jax.Array]
) -> jax.Array:
    apply: Callable[..., Any] = model.apply
    return apply({'params': params}, side, **batch, method='encode')
