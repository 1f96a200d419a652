"""A paper's table with one command; `python -m xlbench.reproduce`.

  steps      from a table to the command lines that it needs
  state      what is done
  running    child processes, one after another
  launching  SLURM arrays and JobSets
  costs      hours and minutes
  listing    tables and steps as lines of text
  columns    scores that a table shows and runs lack
  showing    tables of what was run
"""

__all__ = ['columns', 'costs', 'launching', 'listing', 'running', 'showing', 'state', 'steps']
