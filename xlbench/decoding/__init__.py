"""Decoding over any model with a cache: pure functions of a step and arrays."""

from xlbench import decoding_flags as flags
from xlbench.decoding.decode import Decoded, decode
from xlbench.decoding.greedy import greedy
from xlbench.decoding_options import Options

__all__ = ['Decoded', 'Options', 'decode', 'flags', 'greedy']
