"""The tables and figures of a paper, from finished runs.

  board    runs by the setting that they follow and the model that they begin from
  ratings  what judges said of texts, and the rating that a regressor predicts
  scores   tables of scores: pairs, averages, stages
  judged   tables and figures of ratings, and of sizes of data
  plots    figures of scores
  replies  generation and retrieval of replies side by side
  output   them as a part of a report, and as files
  making   the tables and figures that are asked for, by their numbers
"""

__all__ = ['board', 'judged', 'making', 'output', 'plots', 'ratings', 'replies', 'scores']
