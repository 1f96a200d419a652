"""Checks that the names in a config or a command line exist, before anything costs time.

  keys      keys of a config; families, sizes, objectives, evaluators and optimizers
  defaults  the values of the keys that a config leaves out
  brought   config.model.from, a model that a user brings
  places    tasks and mixtures, vocabularies, checkpoints: what lies on disk, or on the hub
  texts     the prepared task whose texts are read or scored
  workdirs  whether a workdir is that of a config

What is checked here needs neither jax nor TensorFlow, whose imports take seconds: the programs do
it before they import what they work with.
"""

from xlbench.names.brought import resolve
from xlbench.names.keys import (
    CONFIG_KEYS,
    EVAL_KEYS,
    EVAL_OPTIONS,
    FAMILIES,
    about_objective,
    check_config,
    check_evaluations,
    check_sweep,
    fields,
    is_sweep,
    objectives,
    taken,
    trainers,
)
from xlbench.names.places import (
    check_places,
    check_run,
    check_source,
    check_splits,
    check_sweep_places,
    check_task,
    declared_labels,
    needed,
    new_vocabulary_size,
    optional,
)
from xlbench.names.texts import open_task
from xlbench.names.workdirs import begun_with, check_workdir, claim_workdir

__all__ = [
    'CONFIG_KEYS',
    'EVAL_KEYS',
    'EVAL_OPTIONS',
    'FAMILIES',
    'about_objective',
    'begun_with',
    'check_config',
    'check_evaluations',
    'check_places',
    'check_run',
    'check_source',
    'check_splits',
    'check_sweep',
    'check_sweep_places',
    'check_task',
    'check_workdir',
    'claim_workdir',
    'declared_labels',
    'fields',
    'is_sweep',
    'needed',
    'new_vocabulary_size',
    'objectives',
    'open_task',
    'optional',
    'resolve',
    'taken',
    'trainers',
]
