"""Meshes, and runs of several processes.

  partitioning    the mesh, and which array is cut along which of its axes
  chips           speeds and memory of chips, as their makers give them
  programs        compiled programs: shared by equal models, rows of different lengths, memory
  cluster         finds and joins the processes of a run, and ends them with the right code
  watchdog        notices a run that hangs
  preemption      a run that is told to end saves first
"""
