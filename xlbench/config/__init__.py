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
  workdirs    config.json, which says what a run is, and the config that it belongs to
  presets     blocks that many configs share
"""

from xlbench.config.checks import (
    CONFIG_KEYS,
    about_objective,
    block_fields,
    check_blocks,
    check_evaluations,
    check_names,
    check_run_names,
    check_sweep_names,
    is_sweep,
    objectives,
    trained_families,
    trainers,
)
from xlbench.config.flags import Command, config_files, parse_command, variant
from xlbench.config.places import (
    check_checkpoint,
    check_places,
    check_source,
    check_splits,
    check_task,
    declared_labels,
    needed_splits,
    new_vocabulary_size,
    open_task,
    optional_splits,
)
from xlbench.config.workdirs import (
    RUN_KEYS,
    RunEval,
    RunTask,
    begun_with,
    check_workdir,
    claim_workdir,
    data_root,
    facts,
    read_about,
    read_config,
    read_run,
    refuse_sweep,
    split_step,
)
from xlbench.settings.blocks import (
    EVALUATION_KEYS,
    batches_of,
    defaults,
    for_hash,
    leaves,
    stage_pairs,
    to_dict,
)

# For config files and notebooks; the programs use the other names, too.
__all__ = ['defaults', 'parse_command', 'read_config', 'trained_families', 'trainers', 'variant']
