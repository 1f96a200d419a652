"""The programs as functions that return pandas frames; docs/notebooks shows them at work.

Each does what the program of its name does, with the same files and messages. A mistake is a
UserError, which a notebook shows as one line. The names are attributes of `xlbench`, too, which
imports them when one of them is used first.

  calling   turns arguments into flags, failures into one line and rows into frames; loads configs
  data      lists tasks; reads examples and batches
  runs      a run, and a sweep of few-shot transfer
"""
