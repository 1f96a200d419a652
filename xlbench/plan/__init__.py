"""The cost of a run on machines that are not here; `python -m xlbench.plan`.

  programs  the programs that a plan compiles
  study     what a compiled program costs
  hlo       reads compiled programs
  devices   kinds of devices and slices of them
  figures   what a plan holds, by name and type, and in words
"""
