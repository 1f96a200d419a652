"""Checkpoints of a run, which it resumes from and which other commands read.

  manager        saves them while a run trains, and restores the newest
  orbax_manager  the part of it that Orbax does
  record         the progress of the run, and checksums of all that is in a checkpoint
  folders        which ones a workdir has, whether they are whole, and their parameters
"""

from xlbench.settings.workdirs import steps
from xlbench.training.checkpoints.folders import (
    DamagedCheckpoint,
    find_step,
    load_params,
    param_shapes,
    read_params,
    read_progress,
    save_params,
)
from xlbench.training.checkpoints.manager import Checkpoints
from xlbench.training.checkpoints.record import Best, Position, Progress, damage
