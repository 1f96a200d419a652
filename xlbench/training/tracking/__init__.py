"""The log of a run, and trackers: where its numbers and sample answers go beside the workdir.

  contract     a tracker: three methods
  following    the log, and the trackers that config.trackers names, each in a thread of its own
  tensorboard  event files in the workdir
  wandb        Weights & Biases
  mlflow       MLflow

A new one is a file: `comet.py` with the class `CometTracker`. A user's own tracker stands in their
tasks/ folder, `trackers=('tasks/comet.py:CometTracker',)`.
"""

from xlbench.training.tracking.contract import Run, Sample, Tracked, Tracker
from xlbench.training.tracking.following import Log, check, find, open_log

__all__ = ['Log', 'Run', 'Sample', 'Tracked', 'Tracker', 'check', 'find', 'open_log']
