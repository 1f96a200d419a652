"""Reads `--config=FILE[:variant] --config.key=value`, and checks its names and ranges.

A config file is plain Python with one function, `get_config(variant='')`, that returns an
ml_collections.ConfigDict. What is checked here needs neither jax nor TensorFlow, whose imports take
seconds: the programs do it before they import what they work with.

Modules of their own:

  flags       the command line: a file, a variant, overrides
  epochs      steps that a config gives as epochs
  checks      keys of a config; families, sizes, objectives, evaluators and optimizers
  pretrained  config.model.from, a checkpoint that the model is made of
  places      tasks, vocabularies, checkpoints: what lies on disk, or on the hub
  record      config.json, which says what a run is
  workdirs    whether a workdir is that of a config
  recipes     blocks that many configs share
"""

from xlbench.config.checks import (
    CONFIG_KEYS,
    about_objective,
    block_fields,
    check_blocks,
    check_config,
    check_evaluations,
    check_sweep,
    is_sweep,
    objectives,
    trained_families,
    trainers,
)
from xlbench.config.flags import Command, config_files, parse_command, variant
from xlbench.config.places import (
    check_places,
    check_run,
    check_source,
    check_splits,
    check_sweep_places,
    check_task,
    declared_labels,
    needed_splits,
    new_vocabulary_size,
    open_task,
    optional_splits,
)
from xlbench.config.record import (
    RUN_KEYS,
    RunEval,
    RunTask,
    data_root,
    facts,
    read_about,
    read_config,
    read_run,
    refuse_sweep,
    split_step,
    upgrade,
)
from xlbench.config.workdirs import begun_with, check_workdir, claim_workdir
from xlbench.settings.blocks import (
    EVALUATION_KEYS,
    batches_of,
    defaults,
    for_hash,
    leaves,
    stage_pairs,
    to_dict,
)

__all__ = [
    'CONFIG_KEYS', 'EVALUATION_KEYS', 'RUN_KEYS', 'Command', 'RunEval', 'RunTask',
    'about_objective', 'batches_of', 'begun_with', 'block_fields', 'check_blocks', 'check_config',
    'check_evaluations', 'check_places', 'check_run', 'check_source', 'check_splits',
    'check_sweep', 'check_sweep_places', 'check_task', 'check_workdir', 'claim_workdir',
    'config_files', 'data_root', 'declared_labels', 'defaults', 'facts', 'for_hash', 'is_sweep',
    'leaves', 'needed_splits', 'new_vocabulary_size', 'objectives', 'open_task',
    'optional_splits', 'parse_command', 'read_about', 'read_config', 'read_run', 'refuse_sweep',
    'split_step', 'stage_pairs', 'to_dict', 'trained_families', 'trainers', 'upgrade', 'variant',
]  # fmt: skip
