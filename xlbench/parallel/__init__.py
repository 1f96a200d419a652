"""Meshes, and runs of several processes.

  partitioning    the mesh, and which array is cut along which of its axes
  length_batches  rows of different lengths through compiled programs
  freed_memory    whether programs of a CPU find it again
  environment     which process of a run this is, from variables and metadata
  cluster         joins the processes of a run, and ends them with the right code
  peers           who came, how each ended, which one was lost, where each is
  roll_call       who comes at the start of a run, and who does not
  relay           a connection to jax's service that hides when process 0 has gone
  watchdog        notices a run that hangs
  preemption      a run that is told to end saves first
"""

__all__ = [
    'cluster',
    'environment',
    'freed_memory',
    'length_batches',
    'partitioning',
    'peers',
    'preemption',
    'relay',
    'roll_call',
    'watchdog',
]
