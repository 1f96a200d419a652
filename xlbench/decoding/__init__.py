"""Decoding over any model with a cache: pure functions of a step and arrays."""

from xlbench.decoding.greedy import greedy

__all__ = ['greedy']
