"""Meshes, and runs of several processes.

  partitioning    the mesh, and which array is cut along which of its axes
  programs        compiled programs that equal models share
  length_batches  rows of different lengths through compiled programs
  freed_memory    whether programs of a CPU find it again
  cluster         finds and joins the processes of a run, and ends them with the right code
  watchdog        notices a run that hangs
  preemption      a run that is told to end saves first
"""
