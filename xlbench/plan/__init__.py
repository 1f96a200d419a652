"""The cost of a run on machines that are not here; `python -m xlbench.plan`.

  study     the programs of a config, compiled, and what they cost
  hlo       reads compiled programs
  devices   kinds of devices and slices of them
  figures   what a plan holds, by name and type, and in words
  dry_run   what a run would read, make and need, said before it begins
"""
