"""The parts of a training run.

  objectives   what is learned: batches in, loss and predictions out
  losses       sums of losses over arrays
  train_step   one optimizer step, compiled once
  rows         of a token table, the rows that a step trains
  occurring    which rows those are in a run
  optimizers   optimizers, schedules, and which parameters move
  checkpoints  what a run saves and resumes from
  initialiser  fresh parameters
  init_from    parameters from other runs and public checkpoints
  memory       refuses sizes that cannot fit
  messages     what a run prints
  experiment   what a run is made of
  evaluation   evaluations while it trains, and the best score
  later        what waits for the first step
  stage_steps  the step of a stage: its state, optimizer, compilation
  loop         stages of steps, evaluations and checkpoints
  nonfinite    what is written down of steps that are not finite
"""

__all__ = [
    'checkpoints',
    'evaluation',
    'experiment',
    'init_from',
    'initialiser',
    'later',
    'loop',
    'losses',
    'memory',
    'messages',
    'nonfinite',
    'objectives',
    'occurring',
    'optimizers',
    'rows',
    'stage_steps',
    'train_step',
]
