"""A model zoo: one page on experiments, made from their workdirs by `python -m xlbench.zoo`.

  experiments  an experiment: what was run, what it took, what it scores
  sweeps       experiments of few-shot sweeps
  entries      from folders to experiments, of runs and of scored systems
  page         experiments as a page of Markdown
"""

__all__ = ['entries', 'experiments', 'page', 'sweeps']
