"""Meshes, and runs of several processes.

  partitioning    the mesh, and which array is cut along which of its axes
  length_batches  rows of different lengths through compiled programs
  cluster         how the processes of a run find each other, and with which code they end
  peers           how the loss of a process is noticed and named
  watchdog        notices a run that hangs
  preemption      a run that is told to end saves first
"""

__all__ = [
    'cluster',
    'length_batches',
    'partitioning',
    'peers',
    'preemption',
    'watchdog',
]
