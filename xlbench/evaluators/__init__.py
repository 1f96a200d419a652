"""Evaluators: one file per kind of prediction. `build` makes the one of a config block."""

from typing import Any

from xlbench.errors import unknown
from xlbench.evaluators.generation import GenerationEvaluator
from xlbench.evaluators.labels import LabelEvaluator
from xlbench.evaluators.retrieval import RetrievalEvaluator

EVALUATORS = {
    'generation': GenerationEvaluator,
    'retrieval': RetrievalEvaluator,
    'classification': LabelEvaluator,
    'tagging': LabelEvaluator,
}


def build(name: str, *args: Any, **options: Any) -> Any:
    """The evaluator of an objective's name."""
    if name not in EVALUATORS:
        raise unknown('evaluator', name, EVALUATORS)
    return EVALUATORS[name](*args, **options)
