"""The numbers of the figures of few-shot transfer, from the results of sweeps and prepared data."""

import collections
import dataclasses
import functools
from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np

from xlbench.data import features
from xlbench.fewshot.analysis.sweeps import Adaptations
from xlbench.fewshot.analysis.systems import System
from xlbench.fewshot.results import SEPARATOR
from xlbench.metrics import tagging
from xlbench.system.errors import UserError

FIRST = 10  # Buckets of figure 3.
HALVES = 'it needs dev scores of two seeds on one bucket, and of two buckets'  # For figure 1.


class Drawn(NamedTuple):
    """A figure with its caption."""

    # Name of the SVG in the output folder, with .png and .csv beside it; '' for one left out.
    file: str
    caption: str
    note: str = ''  # Why it is left out, or what else a reader has to know.


def predictions(group: Adaptations) -> np.ndarray:
    """Returns [buckets, W] uint8, of the test set."""
    return np.stack([group.sweep.predicted(row) for row in group.by_bucket])


def fewest_shots(system: System) -> list[Adaptations]:
    """Returns the groups with the smallest K, one for each language."""
    fewest = min(shots for _, shots in system.adapted)
    return [group for (_, shots), group in system.adapted.items() if shots == fewest]


def distributions(groups: Sequence[Adaptations]) -> tuple[Adaptations, Adaptations] | None:
    """Chooses the sweep with most seeds on one bucket, and that with most buckets.

    The groups are of one language and K. Without two of both, with dev scores, the result is None.
    """
    scored = [group for group in groups if None not in {row.dev_score for row in group.rows}]
    if not scored:
        return None
    seeds = max(scored, key=lambda group: len(group.by_seed))
    buckets = max(scored, key=lambda group: len(group.by_bucket))
    return (seeds, buckets) if min(len(seeds.by_seed), len(buckets.by_bucket)) > 1 else None


def improved(gold: np.ndarray, zero_shot: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Finds where the zero-shot model is wrong and an adapted one right: [buckets, words].

    `gold` and `zero_shot` are [words], with SEPARATOR between sentences, and `predicted` is
    [buckets, words].
    """
    return (gold != SEPARATOR) & (zero_shot != gold) & (predicted == gold)


def jaccard(a: Set, b: Set) -> float:
    """Returns size of the intersection by that of the union, 0 to 1; 0 where both are empty."""
    return len(a & b) / max(len(a | b), 1)


@dataclasses.dataclass(frozen=True)
class Words:
    """The words of a group of adapted taggers."""

    words: np.ndarray  # [words] of the test set as predictions are stored, '' between sentences.
    better: np.ndarray  # Booleans [buckets, words]; see `improved`.
    buckets: Sequence[Set[str]]  # [buckets], the words of each.

    def overlaps(self, most: int | None = None) -> np.ndarray:
        """Compares the words of buckets with those that a model adapted to a bucket improves.

        The Jaccard indices are [words of bucket, improved by bucket], of the first `most` buckets.
        """
        columns = [set(self.words[where]) for where in self.better[:most]]
        rows = self.buckets[:most]
        return np.array([[jaccard(row, column) for column in columns] for row in rows])

    def seen(self) -> np.ndarray:
        """Counts improved words, with repetitions: [buckets, 2], in the bucket and not in it."""
        pairs = zip(self.better, self.buckets, strict=True)
        inside = [sum(word in bucket for word in self.words[where]) for where, bucket in pairs]
        return np.stack([inside, self.better.sum(1) - inside], 1)


@functools.lru_cache(64)
def read_words(group: Adaptations) -> Words:
    """Reads the words of a group from predictions and prepared data.

    Raises:
      UserError: data is not prepared, or the test set is not the one that was predicted.
    """
    sweep, language = group.sweep, group.language
    gold, words, tags = sweep.gold(language), [], []
    test = sweep.open_prepared(language, 'test')
    for record in test.read(sweep.test_numbers(len(test))):
        # The first words of a sentence are those that fit; see corpus.EvalSet.
        fit = len(features.tag_places(record, sweep.max_tokens))
        texts = (record[f'{side}_pretokenized'].split(' ') for side in ('inputs', 'targets'))
        for word, tag, number in list(zip(*texts, record['targets'].tolist(), strict=True))[:fit]:
            if tag not in tagging.UNSCORED:
                words.append(word)
                tags.append(number)
        words.append('')
        tags.append(SEPARATOR)
    if not np.array_equal(gold, tags):
        raise UserError(
            f'the prepared test set of {sweep.task} in {language} is not the one that was scored'
        )
    there: dict[int | None, set[str]] = collections.defaultdict(set)
    shots = sweep.open_prepared(language, f'shots_{group.shots}')
    for record in shots.read(range(len(shots))):
        there[int(record['bucket'])].update(record['inputs_pretokenized'].split(' '))
    return Words(
        np.array(words, object),
        improved(gold, sweep.zero_shot(language), predictions(group)),
        [there[row.bucket] for row in group.by_bucket],
    )


def with_words(system: System) -> tuple[dict[Adaptations, Words], str]:
    """Returns the groups whose words are at hand, and why others are left out."""
    readable, missing = {}, {}
    for group in fewest_shots(system):
        try:
            readable[group] = read_words(group)
        except UserError as error:
            missing[group.language] = str(error)
    if not readable:
        raise UserError(next(iter(missing.values())))
    if not missing:
        return readable, ''
    return readable, f'Without {", ".join(missing)}: {next(iter(missing.values()))}.'


def confusion(gold: np.ndarray, predicted: np.ndarray, num_labels: int) -> np.ndarray:
    """Counts the predicted labels of each true label: [true, predicted], the mean over buckets.

    `gold` is [examples], and `predicted` is [buckets, examples].
    """
    pairs = gold.astype(int) * num_labels + predicted
    counts = np.bincount(pairs.ravel(), minlength=num_labels**2)
    return counts.reshape(num_labels, num_labels) / len(predicted)


def mean_curve(curves: Sequence[Sequence[float]]) -> np.ndarray:
    """Returns the mean by epoch of curves [buckets][epochs], as far as the shortest goes.

    Behind that the buckets that still rise would be left among themselves.
    """
    epochs = min(map(len, curves), default=0)
    return np.mean([curve[:epochs] for curve in curves], 0) if curves else np.zeros(0)
