"""Distinct-n: both readings of the paper, by hand."""

import pytest
from hypothesis import given, strategies as st

from xlbench.metrics import distinct

REL = 1e-9


def score(*predictions, tokenize='words'):
    return distinct.Distinct(tokenize)([''] * len(predictions), list(predictions))


def test_by_hand():
    # 'a a b': 2 of 3 words, (a a)(a b): 2 of 2. 'a b c d': 4 of 4, 3 of 3.
    # Together: a b c d of 7 words; aa ab bc cd of 5 bigrams.
    assert score('a a b', 'a b c d') == pytest.approx(
        {
            'distinct_1': 100 * (2 / 3 + 1) / 2, 'distinct_2': 100.0,
            'distinct_1_corpus': 100 * 4 / 7, 'distinct_2_corpus': 100 * 4 / 5,
            'distinct_texts': 100.0,
        },
        rel=REL,
    )  # fmt: skip


@pytest.mark.parametrize(
    ('predictions', 'name', 'value'),
    [
        (['a', 'b'], 'distinct_2_corpus', 0.0),  # Bigrams do not cross hypotheses.
        (['a b', ''], 'distinct_1', 50.0),  # One without n-grams counts as 0.
        (['a b', ''], 'distinct_1_corpus', 100.0),
        (['a'], 'distinct_1', 100.0),
        (['a'], 'distinct_2', 0.0),
        (['What is it?'] * 4, 'distinct_1', 100.0),  # One text for all does not pass as varied.
        (['What is it?'] * 4, 'distinct_texts', 25.0),
        (['Der der der.'], 'distinct_1', 100.0),  # Case and punctuation count.
    ],
)
def test_one_number(predictions, name, value):
    assert score(*predictions)[name] == value


@pytest.mark.parametrize(
    ('texts', 'targets', 'words'),
    [
        (['a'] * 30, 30, 'only one text for 30 inputs, whose targets have 30'),
        (['a', 'b', 'c'] * 10, 30, 'only 3 different texts for 30 inputs'),
        (['a', 'b', 'c', 'd'] * 10, 40, 'only 4 different texts for 40 inputs'),
        (['a', 'b', 'c', 'd'] * 10, 39, ''),
        (['a'] * 19, 19, ''),
        (['a'] * 30, 2, 'only one text'),  # Labels: one for all.
        (['a', 'b'] * 15, 3, ''),
        (['a'] * 30, 1, ''),
    ],
)
def test_predictions_that_collapse(texts, targets, words):
    right = [str(i % targets) for i in range(len(texts))]
    note = distinct.collapse('a_task', right, texts)
    assert (words in note and note.startswith('a_task: ')) if words else note == ''


def test_characters():
    assert {v for name, v in score('', ' ').items() if name != 'distinct_texts'} == {0.0}
    assert score('看看 花', tokenize='characters')['distinct_1'] == pytest.approx(200 / 3, rel=REL)
    assert distinct.Distinct.for_language('zh').tokenize == 'characters'
    assert distinct.Distinct.for_language('de').tokenize == 'words'


def test_per_example():
    assert distinct.Distinct().per_example(['', ''], ['a a', 'b']) == [
        {'distinct_1': 50.0, 'distinct_2': 100.0},
        {'distinct_1': 100.0, 'distinct_2': 0.0},
    ]


@given(st.lists(st.text('ab ', max_size=12), min_size=1, max_size=4))
def test_bounds_and_copies(predictions):
    once, twice = score(*predictions), score(*predictions, *predictions)
    assert all(0.0 <= value <= 100.0 for value in once.values())
    assert once['distinct_1'] == pytest.approx(
        twice['distinct_1'], rel=REL
    )  # Copies do not show ...
    assert once['distinct_1_corpus'] == pytest.approx(2 * twice['distinct_1_corpus'], rel=REL)


def test_golden(golden):
    for case in golden('mtg_distinct'):
        got = score(*case['inputs']['hypotheses'])
        for n in (1, 2):
            expected = case['expected'][f'distinct{n}']
            mean, corpus = expected['mean_of_per_hypothesis'], expected['corpus_over_ngrams']
            assert got[f'distinct_{n}'] == pytest.approx(100 * mean, rel=REL)
            assert got[f'distinct_{n}_corpus'] == pytest.approx(100 * corpus, rel=REL)
