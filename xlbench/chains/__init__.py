"""Chains of models: each stage reads what the one before it has written.

  stages   a stage as a user names it; which language each stage of a chain reads and writes
  running  a chain at work, with a file for the output of each stage
  command  `xlbench translate chain`
"""
