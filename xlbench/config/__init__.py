"""Reads `--config=FILE[:variant] --config.key=value`, and checks its names and ranges.

A config file is plain Python with one function, `get_config(variant='')`, that returns an
ml_collections.ConfigDict. What is checked here needs neither jax nor TensorFlow, whose imports take
seconds: the programs do it before they import what they work with.

The checks of its keys and values stand in xlbench/settings. Modules of their own:

  flags       the command line: a file, a variant, overrides
  pretrained  config.model.from, a checkpoint that the model is made of
  places      tasks, vocabularies, checkpoints: what lies on disk, or on the hub
  presets     blocks that many configs share
"""

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
from xlbench.settings.blocks import (
    EVALUATION_KEYS,
    batches_of,
    defaults,
    for_hash,
    leaves,
    stage_pairs,
    to_dict,
)
from xlbench.settings.checks import (
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
from xlbench.settings.workdirs import (
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

# For config files and notebooks; the programs use the other names, too.
__all__ = ['defaults', 'parse_command', 'read_config', 'trained_families', 'trainers', 'variant']
