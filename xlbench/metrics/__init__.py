"""Scores of generated text, every one between 0 and 100.

A metric is a frozen dataclass that is called with `(targets, predictions)`, two lists of strings,
and returns a score per name. It fits SeqIO's `metric_fns`, and `signature` says what decided the
number. One with `num_predictions` above 1 takes lists of strings as predictions, best first;
`score` gives every metric what it takes. Manifests keep metrics as plain JSON:

  to_spec(MultilingualRouge('de'))
    -> {'metric': 'xlbench.metrics.rouge:MultilingualRouge', 'kwargs': {'lang': 'de', ...}}
"""

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

from xlbench import errors
from xlbench.metrics.bleu import ChrF, SacreBleu
from xlbench.metrics.classification import Classification
from xlbench.metrics.distinct import Distinct
from xlbench.metrics.mrs import MrsRouge, MrsValidationRouge
from xlbench.metrics.rouge import MultilingualRouge
from xlbench.metrics.tagging import ChunkF1, TagAccuracy

_METRICS = (
    ChrF,
    ChunkF1,
    Classification,
    Distinct,
    MrsRouge,
    MrsValidationRouge,
    MultilingualRouge,
    SacreBleu,
    TagAccuracy,
)
__all__ = [*(cls.__name__ for cls in _METRICS), 'from_spec', 'score', 'to_spec']


def score(
    metric: Any, targets: Sequence[str], n_best: Sequence[Sequence[str]]
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """The scores of a corpus, and of each example.

    Args:
        metric: Any metric of this package.
        targets: References.
        n_best: For each target the predictions, best first. A metric of one prediction gets the
            first, or an empty text where there is none.
    """
    count = getattr(metric, 'num_predictions', 1)
    if count > 1:
        predictions = [list(texts[:count]) for texts in n_best]
    else:
        predictions = [texts[0] if texts else '' for texts in n_best]
    if hasattr(metric, 'with_examples'):
        return metric.with_examples(targets, predictions)
    return metric(targets, predictions), metric.per_example(targets, predictions)


def to_spec(metric: Any) -> dict[str, Any]:
    """The class of a metric and its arguments, as plain JSON values."""
    if not dataclasses.is_dataclass(metric) or isinstance(metric, type):
        raise errors.UserError(
            f'{metric!r} is not a metric that can be written down; '
            'a metric is an instance of a dataclass, such as MultilingualRouge("de")'
        )
    cls = type(metric)
    kwargs = {field.name: getattr(metric, field.name) for field in dataclasses.fields(metric)}
    return {'metric': f'{cls.__module__}:{cls.__qualname__}', 'kwargs': kwargs}


def from_spec(spec: dict[str, Any], allow: Sequence[str] = ()) -> Any:
    """The metric that `to_spec` wrote down.

    A spec is read from a file, so it must not be able to import or call just anything.

    Args:
        spec: {'metric': 'module:Class', 'kwargs': {...}}.
        allow: Names of modules outside xlbench.metrics whose dataclasses may be built too.

    Returns:
        An instance of the class.
    """
    if not isinstance(spec, dict) or not isinstance(spec.get('metric'), str):
        raise errors.UserError(
            f'{spec!r} is not a metric; a metric is written as {{"metric": "module:Class", '
            '"kwargs": {...}}'
        )
    path = spec['metric']
    module_name, _, class_name = path.partition(':')
    own = module_name.startswith(f'{__name__}.') or module_name == __name__
    if not own and module_name not in allow:
        permitted = ', '.join([f'{__name__}.*', *allow])
        raise errors.UserError(
            f'metric {path!r} is in a module that may not be loaded; allowed: {permitted}'
        )
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise errors.UserError(
            f'metric {path!r} does not exist; metrics of xlbench: {", ".join(_names())}'
        ) from error
    if not _is_metric(cls, module_name):
        raise errors.UserError(f'{path!r} is not a metric; metrics: {", ".join(_names())}')
    try:
        return cls(**spec.get('kwargs', {}))
    except TypeError as error:
        raise errors.UserError(f'metric {path!r} does not take these arguments: {error}') from error


def _is_metric(cls: Any, module_name: str) -> bool:
    # A class that the module merely imported is not one of its metrics: it may do anything.
    return (
        isinstance(cls, type)
        and dataclasses.is_dataclass(cls)
        and any('__call__' in vars(base) for base in cls.__mro__)
        and (cls.__module__ == module_name or cls.__module__.startswith(f'{__name__}.'))
    )


def _names() -> list[str]:
    return [f'{cls.__module__}:{cls.__name__}' for cls in _METRICS]
