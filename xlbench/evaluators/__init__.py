"""Evaluators: what scores a model. A file a type; base.py says what an evaluator is.

A block of config.evals names its type, `type='retrieval'`; without one it is the evaluator of the
config's objective. A new type is a file: `calls.py` with the class `CallsEvaluator`, and with the
dataclass `Options` that says what its block holds. A user's own evaluator stands in their tasks/
folder, `type='tasks/calls.py:CallsEvaluator'`.
"""

from xlbench.evaluators.base import Evaluator
from xlbench.metrics import specs

__all__ = ['Evaluator', 'find']


def find(kind: str) -> type[Evaluator]:
    """The class of a type of evaluator.

    Args:
      kind: the name of a file of this package, or 'tasks/FILE.py:NAME' or 'module:NAME' of the
        user's own, by the rules of metrics (see metrics/specs.py).

    Raises:
      UserError: there is none, or it may not be imported.
    """
    return specs.subclass(kind, Evaluator, __name__, 'type of evaluator')
