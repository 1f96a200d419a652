"""Meshes, and runs of several processes.

  partitioning    the mesh, which array is cut along which of its axes, and figures of its chips
  programs        compiled programs: shared by equal models, rows of different lengths, memory
  cluster         finds and joins the processes of a run, and ends them with the right code
  watchdog        notices a run that hangs
  preemption      a run that is told to end saves first
"""
