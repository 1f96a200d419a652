"""Checkpoints of a run, which it resumes from and which other commands read.

  manager        saves them while a run trains, and restores the newest
  orbax_manager  the part of it that Orbax does
  record         what each says of itself
  sums           checksums of its arrays
  folders        which ones a workdir has, and whether they are whole
  params         parameters alone, of any workdir
"""

from xlbench.training.checkpoints.folders import (
    DamagedCheckpoint,
    damage,
    find_step,
    read_progress,
    steps,
)
from xlbench.training.checkpoints.manager import Checkpoints
from xlbench.training.checkpoints.params import (
    load_params,
    param_shapes,
    read_params,
    save_params,
)
from xlbench.training.checkpoints.record import Best, Position, Progress, stages_begun
