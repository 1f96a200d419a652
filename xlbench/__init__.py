"""xlbench: cross-lingual models in JAX, trained and evaluated on published benchmarks.

What a user's own files import:

  pipeline    registers tasks and mixtures: register_text_task, ...
  metrics     scores for them
  languages   adds a language that the table lacks
  predict     opens a trained model: predict.load
  config      for config files: config.variant
  benchmarks  tasks, scenarios and published scores of the benchmarks

What notebooks and scripts call, see xlbench/interactive:

  list_tasks     the tasks of the benchmarks
  load_config    a config, with some of its keys changed
  read_examples  examples as texts and as tokens
  read_batch     the arrays that a model is trained on
  Run            trains, evaluates, answers; gives scores as pandas frames
  Sweep          a sweep of few-shot transfer
  write_report   the report of runs or sweeps

The programs are run with `python -m`: xlbench.train, evaluate, predict, prepare, convert, report,
score, translate, annotate, data, fewshot, prompt, reproduce, zoo, plan, list and doctor.
"""

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec

__version__ = '0.1.0'

# The wheel holds the task files and the configs as xlbench/tasks and xlbench/configs. In a checkout
# they are folders beside the package; with this they have the same names there.
_package = os.path.dirname(os.path.abspath(__file__))
if not os.path.isdir(os.path.join(_package, 'tasks')):
    __path__.append(os.path.dirname(_package))


class FormerPrograms:
    """Finds a module for `python -m xlbench.segment` and others that are no programs any more."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Finds what starts the program of today; asked only where there is no such module."""
        if not name.startswith('xlbench.'):
            return None
        from xlbench.system import command_line

        if name.removeprefix('xlbench.').removesuffix('.__main__') not in command_line.FORMER:
            return None
        return importlib.util.spec_from_file_location(name, command_line.__file__)


sys.meta_path.append(FormerPrograms)

# Imported when somebody asks for them: `import xlbench` alone costs nothing.
_INTERACTIVE = {
    'list_tasks': 'data',
    'read_batch': 'data',
    'read_examples': 'data',
    'load_config': 'calling',
    'Run': 'runs',
    'Sweep': 'runs',
    'write_report': 'runs',
}


def __dir__() -> list[str]:
    """The names that completion offers."""
    return sorted([*globals(), *_INTERACTIVE])


def __getattr__(name: str) -> object:
    """Imports the names of notebooks, and what was a module here once."""
    if name == 'languages':
        return importlib.import_module('xlbench.benchmarks.languages')
    if name in _INTERACTIVE:
        module = importlib.import_module(f'xlbench.interactive.{_INTERACTIVE[name]}')
        return getattr(module, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
