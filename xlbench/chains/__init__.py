"""Chains of models: each stage reads what the one before it has written.

  running  the stages as a user names them, and a chain at work
  command  `xlbench translate chain`
"""
