"""The sizes of one call of fused attention on one device, and arrays in whole blocks."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


@dataclasses.dataclass(frozen=True)
class Form:
    """The sizes of one call on one device."""

    batch: int
    heads: int
    head_dim: int
    queries: int  # The length without what fills blocks; so is that of keys.
    keys: int
    block_q: int  # Of a tile.
    block_k: int
    causal: bool  # Whether a query sees no later key.
    blocks_q: int
    blocks_k: int
    padded_q: int  # The length in whole blocks.
    padded_k: int

    @classmethod
    def of(
        cls, q: jax.Array, k: jax.Array, head_dim: int, causal: bool, block_q: int, block_k: int
    ) -> Self:
        """The form of q [batch, queries, heads * head_dim] and k [batch, keys, the same]."""
        (batch, queries, features), keys = q.shape, k.shape[1]
        sizes = (batch, features // head_dim, head_dim, queries, keys, block_q, block_k, causal)
        blocks = -(-queries // block_q), -(-keys // block_k)
        return cls(*sizes, *blocks, blocks[0] * block_q, blocks[1] * block_k)

    def cost(self, products: int, arrays: Iterable[jax.Array | jax.ShapeDtypeStruct | None]):
        """Builds the compiler's cost estimate of a kernel from its products for each tile."""
        pairs = self.batch * self.heads * self.padded_q * self.padded_k
        seen = pairs * (1 + self.causal * (self.block_q / self.padded_q - 1) / 2)
        return pl.CostEstimate(
            flops=int(2 * products * seen * self.head_dim),
            transcendentals=int(seen),
            bytes_accessed=sum(x.size * x.dtype.itemsize for x in arrays if x is not None),
        )


def spec(grid: str, at: str, sizes: Sequence[int | None]) -> pl.BlockSpec:
    """The block of an array that a program of a kernel reads or writes.

    Args:
      grid: a letter for each number that a program has.
      at: for each axis of the array, the letter of the number that says which block it is; 0: the
        first.
      sizes: of the block.
    """

    def place(*numbers: jax.Array) -> tuple[jax.Array | int, ...]:
        by_letter = dict(zip(grid, numbers, strict=True)) | {'0': 0}
        return tuple(by_letter[letter] for letter in at)

    return pl.BlockSpec(sizes, place)


def padded(x: jax.Array | None, length: int, axis: int = 1, value: float = 0.0) -> Any:
    """x with an axis filled up to a length; None stays."""
    if x is None:
        return None
    pads = [(0, length - size if place == axis else 0) for place, size in enumerate(x.shape)]
    return jnp.pad(x, pads, constant_values=value) if length > x.shape[axis] else x
