"""Suggestions chosen together: against exhaustive search, and against the metric they aim at."""

import itertools
import random

import numpy as np
import pytest

from xlbench.metrics.mrs import MrsRouge
from xlbench.retrieval.mbr import Consensus

TEXTS = [
    'see you at the station',
    'see you at the old station',
    'see you there',
    'i have no idea',
    'i have no time today',
    'what a pity',
    'no',
]


def expected_best(chosen, texts, p, metric):
    """The mean mrs_rouge of the best of the chosen, if text j is the reply with probability p_j."""
    values = [
        metric.choose([text], [[texts[i] for i in chosen]])[0].rouge['rouge-weighted'].f
        for text in texts
    ]
    return float(np.dot(p, values))


@pytest.mark.parametrize('seed', range(5))
def test_the_choice_is_nearly_the_best_of_all_sets(seed):
    generator = random.Random(seed)
    scores = [generator.gauss(0, 2) for _ in TEXTS]
    temperature = 1.5
    p = np.exp(np.array(scores) / temperature)
    p /= p.sum()
    metric = MrsRouge('en')
    chosen = Consensus(TEXTS, 'en', temperature).choose(range(len(TEXTS)), scores, 3)
    sets = itertools.combinations(range(len(TEXTS)), 3)
    best = max(expected_best(s, TEXTS, p, metric) for s in sets)
    assert len(set(chosen)) == 3
    assert expected_best(chosen, TEXTS, p, metric) >= (1 - 1 / np.e) * best


def test_a_low_temperature_puts_the_highest_score_first():
    chosen = Consensus(TEXTS, 'en', 0.01).choose([6, 3, 0], [1.0, 3.0, 2.0], 2)
    assert chosen[0] == 3


def test_wordings_of_one_thing_are_not_repeated():
    chosen = Consensus(TEXTS, 'en', 1.0).choose([0, 1, 5, 6], [5.0, 4.9, 4.8, 1.0], 2)
    assert chosen[0] in (0, 1) and chosen[1] == 5


def test_only_candidates_are_chosen_and_no_more_than_there_are():
    assert sorted(Consensus(TEXTS, 'en', 1.0).choose([4, 5], [0.0, 1.0], 3)) == [4, 5]


def test_texts_without_words_are_no_error():
    assert Consensus(['...', 'yes', ''], 'en', 1.0).choose([0, 1, 2], [0.0, 0.0, 0.0], 1) == [1]
