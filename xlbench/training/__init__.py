"""The parts of a training run.

  objectives   what is learned: batches in, loss and predictions out
  losses       sums of losses over arrays
  train_step   fresh parameters, and one optimizer step, compiled once
  rows         the rows of a token table that a step trains
  optimizers   optimizers, schedules, and which parameters move
  checkpoints  saves and restores a run
  init_from    parameters from other runs and public checkpoints
  memory       refuses sizes that cannot fit a device
  messages     the lines that a run prints
  experiment   the objects that a config builds
  evaluation   evaluations while it trains, and the best score
  loop         stages of steps, evaluations and checkpoints
  tracking     the log of a run, and where its numbers and sample answers go beside it
"""
