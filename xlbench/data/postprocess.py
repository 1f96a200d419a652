"""Postprocessors of SeqIO tasks, from texts to the values that metrics compare.

Like SeqIO's Evaluator, `Postprocess` calls `postprocess_fn(text, example=..., is_target=...)` on
each target and prediction before the metrics. A manifest only says that there is a postprocessor;
the function comes from the user's task file.
"""

import functools
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlbench.data.prepared import Prepared
from xlbench.system import errors, files

Postprocessor = Callable[..., Any]

REFERENCES = 'references'  # The field of a record with all references of an example, as JSON.


def all_references(text: str, example: Mapping[str, Any], is_target: bool) -> str | list[str]:
    """Gives metrics all references of an example instead of the one for training.

    Example: 'Hi.', {'references': '["Hi.", "Hello."]'} -> ['Hi.', 'Hello.']
    """
    return json.loads(example[REFERENCES]) if is_target else text


def entry(postprocessor: Postprocessor | None) -> bool | str:
    """Describes a task's postprocessor for a manifest: False, True or 'all_references'."""
    if postprocessor is all_references:
        return all_references.__name__
    return postprocessor is not None


def references(prepared: Prepared, records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Returns the reference of each record, or all references in a task with `all_references`."""
    if prepared.manifest.get('postprocessor') != all_references.__name__:
        return [[record['targets_pretokenized']] for record in records]
    place = f'{REFERENCES} of a record of {prepared.name}/{prepared.split}'
    listed = [files.parse_json(record.get(REFERENCES, ''), list[str], place) for record in records]
    if not all(listed):
        raise errors.UserError(f'{place} are empty; prepare the task again with --force')
    return listed


@functools.lru_cache(maxsize=64)
def _of_task(name: str) -> Postprocessor:
    pipeline = importlib.import_module('xlbench.pipeline')
    try:
        task = pipeline.get(name)
    except errors.UserError as error:
        raise errors.UserError(
            f'task {name} has a postprocessor, and its task file is needed to score it: {error}'
        ) from error
    if task.postprocessor is None:
        raise errors.UserError(
            f'task {name} was prepared with a postprocessor and has none now; prepare it again'
        )
    return task.postprocess_fn


class Postprocess:
    """The postprocessing of a prepared task's texts before they are scored."""

    def __init__(self, prepared: Prepared):
        self._name = prepared.name
        has_one = prepared.manifest.get('postprocessor')
        self._function = _of_task(prepared.name) if has_one is True else None
        if has_one == all_references.__name__:
            self._function = all_references

    def __bool__(self) -> bool:
        return self._function is not None

    def __call__(
        self, records: Sequence[Mapping[str, Any]], n_best: Sequence[Sequence[str]]
    ) -> tuple[list[Any], list[list[Any]]]:
        """Returns targets, and predictions of each, for the task's metrics.

        `n_best` has the predicted texts of each record, best first. An error of the postprocessor
        is a UserError.
        """
        targets = [record['targets_pretokenized'] for record in records]
        if (function := self._function) is None:
            return targets, [list(texts) for texts in n_best]
        examples = [example(record) for record in records]

        def run(text: str, example: Mapping[str, Any], is_target: bool) -> Any:
            try:
                return function(text, example=example, is_target=is_target)
            except Exception as error:  # The user's own code: of any kind.
                side = 'target' if is_target else 'prediction'
                raise errors.UserError(
                    f'the postprocessor of task {self._name} ended on the {side} {text[:60]!r} '
                    f'with {errors.located(error)}; SeqIO calls it with '
                    '(text, example=..., is_target=...)'
                ) from error

        return (
            [run(text, e, True) for text, e in zip(targets, examples, strict=True)],
            [
                [run(text, e, False) for text in texts]
                for texts, e in zip(n_best, examples, strict=True)
            ],
        )


def example(record: Mapping[str, Any]) -> dict[str, Any]:
    """Restores the example of a record as in SeqIO: texts are bytes, numbers arrays."""
    plain = {name: value for name, value in record.items() if name != 'example'}
    texts = {n: v.encode() if isinstance(v, str) else v for n, v in plain.items()}
    try:
        known = json.loads(record.get('example', '{}'))
        return texts | {name: _value(value) for name, value in known.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise errors.UserError(
            f'an example that was prepared for a postprocessor is broken '
            f'({type(error).__name__}); prepare its task again with --force'
        ) from error


def _value(written: Mapping[str, Any]) -> Any:
    if 'fields' in written:
        return {name: _value(inner) for name, inner in written['fields'].items()}
    if 'text' in written:
        return written['text'].encode()
    if written['dtype'] == 'ragged':
        return written['values']
    if written['dtype'] == 'object':
        encode = np.frompyfunc(lambda v: v.encode() if isinstance(v, str) else v, 1, 1)
        return np.asarray(encode(np.array(written['values'], object)), object)
    dtype = np.dtype(written['dtype'])
    if dtype.kind not in 'biuf':
        raise ValueError(f'no numbers: {dtype}')
    return np.array(written['values'], dtype)[()]
