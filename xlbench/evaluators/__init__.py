"""Evaluators, which score models: one file for each type; base.py has their contract.

A block of config.evals names its type, `type='retrieval'`; without one it is the evaluator of the
config's objective. A new type is a new file: `calls.py` with the class `CallsEvaluator` and the
dataclass `Options`, which has the keys of its block. A user's own evaluator is in their folder
tasks/, with `type='tasks/calls.py:CallsEvaluator'`.
"""

from xlbench.evaluators.base import Evaluator
from xlbench.metrics import specs

__all__ = ['Evaluator', 'find']


def find(kind: str) -> type[Evaluator]:
    """The class of a type of evaluator; UserError if there is none, or it may not be imported.

    It is the name of a file of this package, or 'tasks/FILE.py:NAME' or 'module:NAME' of the
    user's own, by the rules of metrics (see metrics/specs.py).
    """
    return specs.subclass(kind, Evaluator, __name__, 'type of evaluator')
