"""A paper's table with one command; `python -m xlbench.reproduce`.

  steps      from a table to the command lines that it needs
  running    child processes, one after another, and what is done
  launching  SLURM arrays and JobSets
  added      a system of the user's: its commands and experiments
  beside     its rows beside the paper's, differences, cards, costs
  bundles    files of results for others: written, unpacked
  checking   what agrees in a bundle, and a page of bundles
  outcome    the tables of what was run, as text and files
"""
