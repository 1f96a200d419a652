"""Decoding over any model with a cache: pure functions of a step and arrays."""

from xlbench.decoding.decode import Decoded, decode
from xlbench.decoding.greedy import greedy
from xlbench.decoding.options import Options

__all__ = ['Decoded', 'Options', 'decode', 'greedy']
