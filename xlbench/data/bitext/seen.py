"""Finds pairs that were there before, by 8 bytes of each."""

import hashlib
from collections.abc import Sequence

import numpy as np

from xlbench.data.bitext import texts


def hashes(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """A number for each pair, [pairs] uint64; pairs that differ in case and signs have the same."""
    digests = b''.join(
        hashlib.blake2b('\t'.join(map(texts.letters, pair)).encode(), digest_size=8).digest()
        for pair in pairs
    )
    return np.frombuffer(digests, '<u8')


class Seen:
    """Numbers, in sorted arrays of which each is at least twice as large as the next.

    So a number is merged only as often as the logarithm of their count, and 45 million of them take
    360 MB.
    """

    def __init__(self):
        self._arrays: list[np.ndarray] = []

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Adds numbers [n] uint64; says which are new, [n] bool, of equal ones the first."""
        distinct, first = np.unique(numbers, return_index=True)
        known = np.zeros(len(distinct), bool)
        for array in self._arrays:
            places = np.minimum(np.searchsorted(array, distinct), len(array) - 1)
            known |= array[places] == distinct
        is_new = np.zeros(len(numbers), bool)
        is_new[first[~known]] = True
        merged = distinct[~known]
        while self._arrays and len(self._arrays[-1]) < 2 * len(merged):
            merged = np.sort(np.concatenate([self._arrays.pop(), merged]))
        if len(merged):
            self._arrays.append(merged)
        return is_new
