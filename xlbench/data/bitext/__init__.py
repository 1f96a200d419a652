"""Parallel texts: normalises them and drops pairs that are no translations.

  texts     one text: its characters, its letters alone, its length
  rules     which pairs are dropped
  cleaning  from files to one file, with the pairs that were there before left out

`python -m xlbench.data clean` is the command.
"""

from xlbench.data.bitext.cleaning import Input, Report, clean
from xlbench.data.bitext.rules import RULES, Rules
from xlbench.data.bitext.texts import letters, normalized

__all__ = ['RULES', 'Input', 'Report', 'Rules', 'clean', 'letters', 'normalized']
