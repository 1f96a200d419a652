"""Language identifiers and toxicity scorers: of a library, of a file, or the user's own functions.

  identify(texts) -> [(language, confidence)]   confidence from 0 to 1
  score(texts, lang) -> [score]                 toxicity from 0 to 1

A function is named as module:function and is imported once in each process. A folder is a
classifier that xlbench.train has trained, or one in the form of Hugging Face; of the latter kind,
one on the hub may be named, whose weights are taken as safetensors alone.
"""

import array
import collections
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from xlbench.data import readers
from xlbench.huggingface import hub, tensors
from xlbench.system import errors
from xlbench.system.errors import UserError

if TYPE_CHECKING:
    from xlbench.inference.labeller import Classifier

Identify = Callable[[Sequence[str]], Sequence[tuple[str, float]]]
Score = Callable[[Sequence[str], Sequence[str], str], Sequence[float]]
Answer = TypeVar('Answer', float, tuple[str, float])  # To one text.

BATCH = 1024  # Texts for one call of a plug-in.
_FUNCTION = re.compile(r'[A-Za-z_][\w.]*:[A-Za-z_]\w*')


def is_function(spec: str) -> bool:
    """Returns whether it has the form module:function; anything else is a file."""
    return bool(_FUNCTION.fullmatch(spec)) and not os.path.exists(spec)


def _function(spec: str) -> Callable[..., Iterable[Answer]]:
    module, name = spec.split(':')
    try:
        return getattr(importlib.import_module(module), name)
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
        raise UserError(
            f'{spec} is not a model of fastText that names languages: {error}'
        ) from None

    def predict(texts: Sequence[str]) -> list[tuple[str, float]]:
        identified = []
        for text in texts:
            labels, scores = model.predict(text)
            label = labels[0].removeprefix('__label__') if labels else ''
            # float32 sums of the softmax reach 1.00005.
            identified.append((label, min(float(scores[0]), 1.0) if labels else 0.0))
        return identified

    return predict


# ---------------------------------------------------------------------------------------------
# Toxicity.


def is_model(spec: str) -> bool:
    """Returns whether it is a classifier's folder or hub name, not scores of `index_scores`."""
    if os.path.isdir(spec):
        return not os.path.exists(os.path.join(spec, 'keys.npy'))
    return is_hub_name(spec)


def is_hub_name(spec: str) -> bool:
    """Returns whether it can only be a name on the Hugging Face hub: no file, and in no folder."""
    is_here = os.path.exists(spec) or os.path.isdir(os.path.dirname(spec))
    return not is_here and hub.is_name(spec)


def model_digest(spec: str) -> str:
    """A hash of a classifier's parameters and vocabulary."""
    return _classifier(spec).digest


@functools.cache
def _classifier(spec: str) -> 'Classifier':
    from xlbench.inference import labeller, loading  # They load jax, which nothing else here needs.

    is_hosted = is_hub_name(spec)
    model = loading.load(str(hub.local_folder(spec, [tensors.SAFETENSORS])) if is_hosted else spec)
    if not isinstance(model, labeller.Classifier):
        raise UserError(
            f'{spec} is not a classifier of texts; toxicity is the probability of a label'
        )
    return model


@functools.cache
def scorer(spec: str, label: str) -> Score:
    """The scorer of `spec`: module:function, a classifier, or a folder that `index_scores` made.

    Args:
      spec: of the scorer.
      label: whose probability a classifier gives.

    Returns:
      (keys, texts, lang) -> scores; NaN for what a file of scores does not hold.
    """
    if is_model(spec):
        model = _classifier(spec)
        if label not in model.labels:
            raise errors.unknown(f'label in --toxic_label of {spec}', label, model.labels)

        def probability(keys: Sequence[str], texts: Sequence[str], lang: str) -> list[float]:
            del keys, lang
            return [answer.probabilities[label] for answer in model.classify(texts)]

        return probability
    if not is_function(spec):
        return _indexed(spec)
    function = _function(spec)

    def score(keys: Sequence[str], texts: Sequence[str], lang: str) -> list[float]:
        del keys
        return [_share(spec, value) for value in _call(spec, function, texts, lang)]

    return score


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), 'little')


def index_scores(path: str, folder: str) -> None:
    """A file of scores -> sorted arrays that processes share, 12 bytes a line.

    Args:
      path: lines of key TAB score. The key of a pair is the name of its reply as in the third
        column of our files, t1_ID; that of a response is its text.
      folder: becomes a folder with the arrays.

    Raises:
      UserError: the first line that is wrong.
    """
    keys, scores = array.array('Q'), array.array('f')
    for number, (key, score) in columns(path):
        keys.append(_hash(key))
        scores.append(_share(f'{path}:{number}', score))
    hashes = np.frombuffer(keys, np.uint64)
    order = np.argsort(hashes, kind='stable')
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, 'keys.npy'), hashes[order])
    np.save(os.path.join(folder, 'scores.npy'), np.frombuffer(scores, np.float32)[order])


def _indexed(folder: str) -> Score:
    hashes, scores = (
        np.load(os.path.join(folder, f'{name}.npy'), mmap_mode='r') for name in ('keys', 'scores')
    )

    def score(keys: Sequence[str], texts: Sequence[str], lang: str) -> list[float]:
        del texts, lang
        hashed = np.array([_hash(key) for key in keys], np.uint64)
        # The last of equal keys: a later line of the file is the newer one.
        places = np.searchsorted(hashes, hashed, side='right') - 1
        if not len(hashes):
            return [math.nan] * len(keys)
        is_there = (places >= 0) & (hashes[places] == hashed)
        return np.where(is_there, scores[places], np.nan).tolist()

    return score


@dataclasses.dataclass(frozen=True)
class Filter:
    """The filter of what is too toxic (arXiv:2106.02017, section 2.2).

    Attributes:
      spec: of `scorer`; '' drops nothing.
      max_score: what scores higher is dropped.
      strict_spec: likewise for what English is evaluated on: its valid and test pairs and its
        responses.
      strict_max_score: likewise.
      label: whose probability is the score, where a scorer is a classifier.
    """

    spec: str
    max_score: float
    strict_spec: str
    strict_max_score: float
    label: str = 'toxic'

    def allowed(
        self,
        keys: Sequence[str],
        texts: Sequence[str],
        lang: str,
        strict: Sequence[bool],
        counts: collections.Counter[str],
    ) -> list[bool]:
        """Says which texts are kept.

        Args:
          keys: of the texts, in a file of scores.
          texts: of one language.
          lang: that language.
          strict: which of them the second scorer judges too.
          counts: get `toxic`, and `unscored`: texts that a file of scores does not hold, which are
            kept.
        """
        kept = [True] * len(texts)
        for spec, max_score, chosen in (
            (self.spec, self.max_score, range(len(texts))),
            (self.strict_spec, self.strict_max_score, [i for i, s in enumerate(strict) if s]),
        ):
            chosen = [i for i in chosen if kept[i]]
            for start in range(0, len(chosen) if spec else 0, BATCH):
                batch = chosen[start : start + BATCH]
                score = scorer(spec, self.label)
                scores = score([keys[i] for i in batch], [texts[i] for i in batch], lang)
                for i, value in zip(batch, scores, strict=True):
                    kept[i] = not value > max_score
                    counts['unscored'] += math.isnan(value)
        counts['toxic'] += kept.count(False)
        return kept


def columns(path: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """The lines of a file of the user's, two columns with a TAB between: (number, columns).

    Raises:
      UserError: the first line that is wrong.
    """
    for number, line in enumerate(readers.lines(path), 1):
        if isinstance(line, readers.BadRecord):
            raise UserError(str(line))
        parts = line.split('\t')
        if len(parts) != 2:
            raise UserError(f'{path}:{number}: {len(parts)} columns, not 2')
        yield number, (parts[0], parts[1])
