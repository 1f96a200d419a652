"""A model zoo: one page on experiments, made from their workdirs by `python -m xlbench.zoo`.

  costs        how long workdirs were worked in, and on which hardware
  experiments  an experiment: what was run, what it took, what it scores
  runs         experiments of runs
  sweeps       experiments of few-shot sweeps
  entries      from folders to experiments
  page         experiments as a page of Markdown
"""

__all__ = ['costs', 'entries', 'experiments', 'page', 'runs', 'sweeps']
