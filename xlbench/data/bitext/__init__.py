"""Parallel texts: written in one way, and without what is no translation.

  texts   one text: its characters, its letters alone
"""

from xlbench.data.bitext.texts import letters

__all__ = ['letters']
