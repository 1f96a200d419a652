"""Decoding over any model with a cache: pure functions of a step and arrays."""

from xlbench.decoding.decode import Copies, Decoded, copies, decode, encode, lengths_of
from xlbench.decoding.layout import Layout, layout_of
from xlbench.settings.decoding import Options

__all__ = [
    'Copies', 'Decoded', 'Layout', 'Options', 'copies', 'decode', 'encode', 'layout_of',
    'lengths_of',
]  # fmt: skip
