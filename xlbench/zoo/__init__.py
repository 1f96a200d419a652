"""A model zoo: one page on experiments, made from their workdirs by `python -m xlbench.zoo`.

  experiments  an experiment: what was run, what it took, what it scores
  runs         experiments of runs
  sweeps       experiments of few-shot sweeps
  entries      from folders to experiments
  page         experiments as a page of Markdown
"""

__all__ = ['entries', 'experiments', 'page', 'runs', 'sweeps']
