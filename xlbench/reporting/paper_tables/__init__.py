"""The tables and figures of a paper, from finished runs.

  board    runs by the setting that they follow and the model that they begin from
  ratings  what judges said of texts, and the rating that a regressor predicts
  scores   tables of scores, and of two stages
  judged   tables and figures of ratings, and of sizes of data
  plots    figures of scores
  making   the tables and figures that are asked for, by their numbers, and their files
"""
