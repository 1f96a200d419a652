"""A model zoo: one page on experiments, made from their workdirs by `python -m xlbench.zoo`.

  entries  from folders to experiments: what was run, what it took, what it scores
  page     experiments as a page of Markdown, which can be read again
"""
