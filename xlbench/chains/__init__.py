"""Chains of models: each stage reads what the one before it has written.

  stages   a stage as a user names it; which language each stage of a chain reads and writes
  running  a chain at work: outputs of stages are files, signed by what made them
  command  `xlbench translate chain`
"""
