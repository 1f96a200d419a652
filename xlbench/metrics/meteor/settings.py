"""Settings of METEOR 1.5 for each language, and the score that they make of counts."""

import collections
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xlbench.metrics.meteor.alignment import Alignment
from xlbench.metrics.meteor.tables import FUNCTION_WORDS

MODULES = ('exact', 'stem', 'synonym', 'paraphrase')
# METEOR's names of languages that are not ISO codes.
NAMES = {'cs': 'cz', 'sv': 'se'}
STEMMERS = {
    'da': 'danish', 'de': 'german', 'en': 'english', 'es': 'spanish', 'fi': 'finnish',
    'fr': 'french', 'hu': 'hungarian', 'it': 'italian', 'nl': 'dutch', 'no': 'norwegian',
    'pt': 'portuguese', 'ro': 'romanian', 'ru': 'russian', 'se': 'swedish',
}  # fmt: skip
LANGUAGES = tuple(sorted({*STEMMERS, 'cz', 'tr', 'other'}))
_PHRASES = ('exact', 'stem', 'paraphrase')


class Setting(NamedTuple):
    """Parameters of a language: alpha, beta, gamma, delta; weights by a module's place."""

    parameters: tuple[float, float, float, float]
    modules: tuple[str, ...]
    weights: tuple[float, ...]


# edu.cmu.meteor.util.Constants of the jar: the task `rank` of the languages that have it.
_SETTINGS = {
    'en': Setting((0.85, 0.20, 0.60, 0.75), MODULES, (1.0, 0.6, 0.8, 0.6)),
    'cz': Setting((0.95, 0.20, 0.60, 0.80), ('exact', 'paraphrase'), (1.0, 0.4)),
    'fr': Setting((0.90, 1.40, 0.60, 0.65), _PHRASES, (1.0, 0.2, 0.4)),
    'es': Setting((0.65, 1.30, 0.50, 0.80), _PHRASES, (1.0, 0.8, 0.6)),
    'de': Setting((0.95, 1.00, 0.55, 0.55), _PHRASES, (1.0, 0.8, 0.2)),
    'ru': Setting((0.75, 1.40, 0.70, 0.50), _PHRASES, (1.0, 0.5, 0.5)),
}


def setting_of(lang: str) -> Setting:
    """Returns the tool's parameters for a language; they are those of the task `li` for others."""
    modules = ('exact',) if lang == 'other' else ('exact', 'stem')
    others = Setting((0.75, 1.40, 0.70, 0.50), modules, (1.0, 0.5, 0.5, 0.5))
    return _SETTINGS.get(lang, others)


class Statistics(NamedTuple):
    """Sufficient statistics of a score, of one text or of many.

    The lengths and the modules' counts have four numbers in a row: content words of the hypothesis
    and of the reference, function words of the hypothesis and of the reference.

    Attributes:
      lengths: of the texts.
      modules: of the words that each module has matched.
      matched: words of both sides.
      chunks: runs of matches; none of a text that matches as a whole.
    """

    lengths: tuple[int, ...]
    modules: tuple[tuple[int, ...], ...]
    matched: tuple[int, int]
    chunks: int

    def plus(self, other: 'Statistics') -> 'Statistics':
        """Adds the statistics of two sets of texts."""
        rows = zip((self.lengths, *self.modules), (other.lengths, *other.modules), strict=True)
        lengths, *modules = (tuple(map(sum, zip(*row, strict=True))) for row in rows)
        matched = self.matched[0] + other.matched[0], self.matched[1] + other.matched[1]
        return Statistics(lengths, tuple(modules), matched, self.chunks + other.chunks)

    def score(self, setting: Setting) -> float:
        """The score, 0 to 1, by equations 1 to 5 of W14-3348, as the tool computes them."""
        alpha, beta, gamma, delta = setting.parameters
        sides = []
        for side in (0, 1):
            length = delta * self.lengths[side] + (1 - delta) * self.lengths[side + 2]
            matched = sum(
                weight * (delta * module[side] + (1 - delta) * module[side + 2])
                for weight, module in zip(setting.weights, self.modules, strict=False)
            )
            sides.append(matched / length if length else math.nan)
        precision, recall = sides
        mean = math.nan
        if precision > 0 and recall > 0:
            mean = 1 / ((1 - alpha) / precision + alpha / recall)
        words = sum(self.matched) / 2
        fragments = self.chunks / words if words else math.nan
        score = max(0.0, mean * (1 - gamma * fragments**beta))
        return 0.0 if math.isnan(score) else score


def count(hypothesis: Sequence[str], reference: Sequence[str], aligned: Alignment) -> Statistics:
    """The statistics of one text."""

    def measured(words: Iterable[str]) -> tuple[int, int]:
        """(content, function)"""
        sizes = collections.Counter(word.lower() in FUNCTION_WORDS for word in words)
        return sizes[False], sizes[True]

    def row(words: Iterable[str], others: Iterable[str]) -> tuple[int, ...]:
        (content, function), (other_content, other_function) = measured(words), measured(others)
        return content, other_content, function, other_function

    of_module: list[tuple[list[str], list[str]]] = [([], []) for _ in MODULES]
    for match in aligned.matches:
        words, others = of_module[match.module]
        words += hypothesis[match.other : match.other + match.other_length]
        others += reference[match.start : match.start + match.length]
    matched = (sum(len(words) for words, _ in of_module), sum(len(o) for _, o in of_module))
    whole = matched == (len(hypothesis), len(reference)) and aligned.chunks == 1
    modules = tuple(row(*sides) for sides in of_module)
    return Statistics(row(hypothesis, reference), modules, matched, 0 if whole else aligned.chunks)
