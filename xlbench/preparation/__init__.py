"""Prepares tasks for training: in this process, in worker processes or with Beam.

  command     python -m xlbench.prepare
  mixtures    every task of some mixtures, and a new vocabulary from their texts
  jobs        one task and split -> a folder
  examples    its examples
  encoding    how their texts become ids, also in processes of their own
  workers     jobs in fresh processes
  beam        the same jobs as an Apache Beam program
  cards       the dataset card of a prepared task
  measuring   the lengths of a task's texts

All start without TensorFlow, which those tasks alone need that are read by SeqIO's own pipeline.
"""

__all__ = [
    'beam',
    'cards',
    'command',
    'encoding',
    'examples',
    'jobs',
    'measuring',
    'mixtures',
    'workers',
]
