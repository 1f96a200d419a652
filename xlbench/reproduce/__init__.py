"""A paper's table with one command; `python -m xlbench.reproduce`.

  steps      from a table to the command lines that it needs
  state      what is done
  running    child processes, one after another
  launching  SLURM arrays and JobSets
  listing    tables and steps as lines of text, with hours and minutes
  showing    tables of what was run
"""

__all__ = ['launching', 'listing', 'running', 'showing', 'state', 'steps']
