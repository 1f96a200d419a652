"""xlbench: cross-lingual models in JAX, trained and evaluated on published benchmarks.

What a user's own files import:

  pipeline    registers tasks and mixtures: register_text_task, ...
  metrics     scores for them
  languages   adds a language that the table lacks
  predict     opens a trained model: predict.load
  config      for config files: config.variant
  benchmarks  tasks, scenarios and published scores of the benchmarks

The programs are run with `python -m`: xlbench.train, evaluate, predict, prepare, convert, report,
score, translate, chain, annotate, buckets, data, fewshot, plan and doctor.
"""

import importlib
import os
import types

__version__ = '0.1.0'

# The wheel holds the task files and the configs as xlbench/tasks and xlbench/configs. In a checkout
# they are folders beside the package; with this they have the same names there.
_package = os.path.dirname(os.path.abspath(__file__))
if not os.path.isdir(os.path.join(_package, 'tasks')):
    __path__.append(os.path.dirname(_package))


def __getattr__(name: str) -> types.ModuleType:
    """What was a module here once, imported when somebody asks for it."""
    if name == 'languages':
        return importlib.import_module('xlbench.benchmarks.languages')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
