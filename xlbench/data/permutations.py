"""Permutations that are the same in every release of numpy, whole or the part that is needed."""

from collections.abc import Iterator

import numpy as np

_CHUNK = 2**20  # Random numbers that are in memory at once.
_BLOCK = 2**20  # About so many places of a permutation are worked out together.


def _generator(seeds: tuple[int, ...]) -> np.random.PCG64:
    """Seeds random bits: numpy promises these to stay the same, but not its own `permutation`."""
    return np.random.PCG64(np.random.SeedSequence(seeds))


def permutation(count: int, *seeds: int) -> np.ndarray:
    """[count] int32: 0 to count - 1, sorted by random bits."""
    bits = _generator(seeds).random_raw(count)
    return np.argsort(bits, kind='stable').astype(np.int32)


class Permutation:
    """`permutation`, of which only the parts in use are worked out.

    A block of it is all numbers whose random bits begin alike. So memory does not grow with the
    count, nor does the time until the first numbers are there, but for drawing the bits: about two
    nanoseconds a number.

    Args:
      count: how many numbers are permuted.
      *seeds: of the random bits.
      block: about how many places make a block.
    """

    def __init__(self, count: int, *seeds: int, block: int = _BLOCK):
        self._count, self._seeds = count, seeds
        self._prefix_bits = max(0, (max(count, 1) // block).bit_length())
        sizes = np.zeros(2**self._prefix_bits, np.int64)
        if self._prefix_bits:
            for _, bits in self._random_bits():
                sizes += np.bincount(self._prefixes(bits), minlength=len(sizes))
        else:
            sizes[0] = count
        self._ends = np.cumsum(sizes)
        self._blocks: dict[int, np.ndarray] = {}

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """[n] int32: the numbers at these places."""
        numbers = np.empty(len(places), np.int32)
        blocks = np.searchsorted(self._ends, places, side='right')
        used: dict[int, np.ndarray] = {}
        for block in np.unique(blocks).tolist():
            used[block] = self._blocks[block] if block in self._blocks else self._block(block)
            where = np.flatnonzero(blocks == block)
            start = self._ends[block - 1] if block else 0
            numbers[where] = used[block][places[where] - start]
        self._blocks = used  # Whoever goes on from here goes on in these.
        return numbers

    def _random_bits(self) -> Iterator[tuple[int, np.ndarray]]:
        """(the first number, random bits [up to _CHUNK]) of all numbers, in order."""
        generator = _generator(self._seeds)
        for start in range(0, self._count, _CHUNK):
            yield start, generator.random_raw(min(_CHUNK, self._count - start))

    def _prefixes(self, bits: np.ndarray) -> np.ndarray:
        """The block of each number, from its bits."""
        return (bits >> np.uint64(64 - self._prefix_bits)).astype(np.int64)

    def _block(self, block: int) -> np.ndarray:
        """[block] int32: the numbers of one block in their order."""
        if not self._prefix_bits:
            return permutation(self._count, *self._seeds)
        numbers, keys = [], []
        for start, bits in self._random_bits():
            here = np.flatnonzero(self._prefixes(bits) == block)
            numbers.append((here + start).astype(np.int32))
            keys.append(bits[here])
        # Ascending numbers before, so that equal bits are ordered as in `permutation`.
        return np.concatenate(numbers)[np.argsort(np.concatenate(keys), kind='stable')]
