"""The tables and figures of a paper, from finished runs.

  material  runs by setting and model, and ratings of texts
  scores    tables and figures of scores, and of two stages
  judged    what judges said of texts, as tables and figures, and sizes of data
  making    the tables and figures that are asked for, by their numbers, and their files
"""
