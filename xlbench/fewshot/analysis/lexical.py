"""Closeness of a language's few shots to the source language: words, and order of words.

  overlap    of the vocabulary V of all buckets of a language L and number of shots with that of the
             source language's training examples, in percent (arXiv:2012.15682, section 5.2):
             |V_L and V_EN| / |V_EN| * 100
  features   of word order that L shares with it (languages.WALS; table 9 of the paper)

A vocabulary has words, separated by spaces, or wordpieces without the special ones. The paper does
not say which. Only wordpieces fit its table 14, because some of its overlaps are larger than all
words of the published buckets could give.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from xlbench.benchmarks import topics
from xlbench.data import prepared
from xlbench.data.features import Example
from xlbench.system import errors

UNITS = ('wordpiece', 'word')
MIN_LANGUAGES = 3  # Two points always lie on a line.
_CHUNK = 10_000  # Examples that are read at once.


def units(examples: Iterable[Example], unit: str) -> set[str | int]:
    """Returns the different words (str), or wordpieces (ids), of prepared examples.

    Example, 'word': inputs_pretokenized 'Es regnet .\\tEs ist nass .' -> Es, regnet, ., ist, nass
    """
    different: set[str | int] = set()
    for example in examples:
        if unit == 'word':
            different.update(example['inputs_pretokenized'].replace('\t', ' ').split(' '))
        else:
            different.update(_pieces(example))
    return different - {''}


def overlap(target: Set, source: Set) -> float:
    """Returns the share of the source language's vocabulary in the target's, 0 to 100."""
    return 100.0 * len(target & source) / len(source) if source else 0.0


def jaccard(a: Set, b: Set) -> float:
    """Returns size of the intersection by that of the union, 0 to 1; 0 where both are empty."""
    return len(a & b) / max(len(a | b), 1)


def overlaps(
    open_prepared: Callable[[str, str], prepared.Prepared],
    task: str,
    source: str,
    languages: Sequence[str],
    shots: Sequence[int],
) -> dict[tuple[str, str, int], float]:
    """Returns (unit, language, K) -> the overlap with the source language's training examples.

    Args:
      open_prepared: from the name of a SeqIO task and a split to its prepared examples.
      task: of the benchmark.
      source: ISO code of the language of source training.
      languages: ISO codes.
      shots: values of K.

    Raises:
      prepared.NotPrepared: some of it is not there.
    """

    def vocabularies(lang: str, split: str) -> dict[str, frozenset]:
        examples = open_prepared(topics.task_name(task, lang), split)
        if examples.content not in _kept:
            _kept[examples.content] = _vocabularies(examples)
        return _kept[examples.content]

    of_source = vocabularies(source, 'train')
    percent = {}
    for lang in languages:
        for k in shots:
            target = vocabularies(lang, f'shots_{k}')
            percent |= {(unit, lang, k): overlap(target[unit], of_source[unit]) for unit in UNITS}
    return percent


class Correlation(NamedTuple):
    """The correlation of a factor with the gains, over languages: from -1 to 1.

    Attributes:
      spearman: of ranks.
      pearson: of values.
      languages: how many were taken.
    """

    spearman: float
    pearson: float
    languages: int


def correlate(gains: Mapping[str, float], factor: Mapping[str, float | None]) -> Correlation:
    """Returns correlations over the languages that have both; None as a factor is unknown.

    Raises:
      UserError: there are too few languages, or one side is the same for all of them.
    """
    known = [lang for lang in sorted(gains) if factor.get(lang) is not None]
    if len(known) < MIN_LANGUAGES:
        raise errors.UserError(
            f'it needs {MIN_LANGUAGES} languages whose factor is known, and there are '
            + (f'{len(known)} ({", ".join(known)})' if known else 'none')
        )
    from scipy import stats  # Most of the time that this module's import would take.

    x, y = [factor[lang] for lang in known], [gains[lang] for lang in known]
    if len(set(x)) == 1 or len(set(y)) == 1:
        raise errors.UserError(
            f'{", ".join(known)} have the same {"factor" if len(set(x)) == 1 else "gain"}, so '
            'there is no correlation'
        )
    return Correlation(
        float(stats.spearmanr(x, y).statistic), float(stats.pearsonr(x, y).statistic), len(known)
    )


def _pieces(example: Example) -> set[int]:
    """Returns an example's own pieces: the last id is an end, the first may be a start."""
    ids, counts = example['inputs'].tolist(), example['piece_counts']
    is_pair = '\t' in example['inputs_pretokenized']  # Between texts there is an end, too.
    specials = len(ids) - int(counts.sum())
    special = {ids[-1], ids[0]} if specials > (2 if is_pair else 1) else {ids[-1]}
    return set(ids) - special


# By `Prepared.content`: sweeps of several languages or source models share much of it.
_kept: dict[str, dict[str, frozenset]] = {}


def _vocabularies(examples: prepared.Prepared) -> dict[str, frozenset]:
    """Returns {unit: the different units} of all examples."""
    different: dict[str, set[str | int]] = {unit: set() for unit in UNITS}
    for start in range(0, len(examples), _CHUNK):
        chunk = examples.read(range(start, min(start + _CHUNK, len(examples))))
        for unit, seen in different.items():
            seen |= units(chunk, unit)
    return {unit: frozenset(seen) for unit, seen in different.items()}
