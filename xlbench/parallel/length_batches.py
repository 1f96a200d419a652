"""Rows of different lengths through compiled programs, in batches of few shapes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from jax.sharding import Mesh

from xlbench.parallel import partitioning, programs
from xlbench.system.trees import Params

Result = TypeVar('Result')
# Widths of batches as parts of the largest one: texts vary much, or little.
HALVES = (1 / 8, 1 / 4, 1 / 2, 1)
QUARTERS = (1 / 4, 1 / 2, 3 / 4, 1)


class LengthBatch(NamedTuple):
    """Rows that go through a program together."""

    places: list[int]  # The longest first.
    rows: int  # Of the arrays, padding included.
    width: int  # Of the arrays, in tokens.


class LengthBatches:
    """Cuts rows into batches of few shapes, so that each program is compiled a few times only.

    A whole batch has `batch_size` rows; for what is left there are as few as the devices can share.
    The widths are parts of the largest one, `max_length` tokens, and become multiples of 8.
    """

    def __init__(
        self, mesh: Mesh, *, batch_size: int, max_length: int, widths: Sequence[float] = HALVES
    ):
        self._mesh, self._max_length = mesh, max_length
        multiples = (8 * math.ceil(max_length * part / 8) for part in widths)
        self._widths = sorted({min(width, max_length) for width in multiples})
        self._rows = sorted({partitioning.batch_shards(mesh), batch_size})

    def cut(self, lengths: Mapping[int, int]) -> Iterator[LengthBatch]:
        """Batches of rows, the longest first, from {place of a row: its length}."""
        places = sorted(lengths, key=lambda place: -lengths[place])
        for start in range(0, len(places), self._rows[-1]):
            batch = places[start : start + self._rows[-1]]
            longest = min(lengths[batch[0]], self._max_length)
            yield LengthBatch(
                batch,
                next(rows for rows in self._rows if rows >= len(batch)),
                next(width for width in self._widths if width >= longest),
            )

    def run(
        self,
        program: Callable[..., Result],
        params: Params,
        arrays: Mapping[str, np.ndarray],
        *more: object,
    ) -> Result:
        """Dispatches a program of parameters, this process's rows of a batch, and `more`."""
        programs.keep_freed_by_peak(self._mesh)
        with partitioning.activate(self._mesh):
            return program(params, partitioning.put_batch(arrays, self._mesh), *more)
