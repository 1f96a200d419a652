"""Ranks of right replies: both readings, by hand and as the official code computes them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from xlbench.metrics import ranking, words
from xlbench.retrieval.response_set import ResponseSet

REL = 1e-9


def response_set(rows):
    texts = [row['text'] for row in rows]
    return ResponseSet(
        texts,
        np.array([row['lm_score'] for row in rows], np.float32),
        [row['cluster'] for row in rows],
        texts,
        [np.array([i]) for i in range(len(rows))],
    )


@pytest.mark.parametrize('name', ['basic', 'all_missed_floor_is_quarter'])
def test_official_ranking(golden, name):
    (case,) = golden(f'mrs_rank/{name}')
    inputs, expected = case['inputs'], case['expected']
    responses = response_set(inputs['response_set'])
    scores = np.array([example['scores'] for example in inputs['examples']])
    order = np.argsort(-scores, axis=1, kind='stable')
    chosen = [responses.choose(ids, 3) for ids in order[:, : inputs['top_k']].tolist()]
    assert chosen == expected['code_top3_ids']
    assert [[responses.display[i] for i in ids] for ids in chosen] == expected['code_top3_text']
    assert [words.generic(text) for text in responses.texts] == expected['tokenised_responses']

    gold = ranking.gold_ids(responses.texts, [e['reference'] for e in inputs['examples']])
    for found, ids, row in zip(gold, chosen, expected['code_per_example'], strict=True):
        assert (found >= 0) == row['counted']
        if row['counted']:
            assert found == row['gold_id']
            assert ranking.reciprocal_rank(found, ids, 3) == pytest.approx(
                (row['rr'], row['p_at_3']), rel=REL
            )

    inside = np.flatnonzero(gold >= 0)
    got = ranking.official(gold[inside], [chosen[i] for i in inside], len(responses.texts))
    names = {'mrr': 'mrr', 'macro_mrr': 'macro_mrr', 'mrr_f1': 'mrr_f1', 'p_at_k': 'p_at_3'}
    assert got == pytest.approx(
        {f'{names[key]}_code': 100 * value for key, value in expected['code_metrics'].items()},
        rel=REL,
    )

    full = expected['standard_full_ranking']
    ranks = 1 + np.argmax(order[inside] == gold[inside, None], axis=1)
    assert len(ranks) == full['n']
    assert ranking.textbook(ranks, gold[inside]) == pytest.approx(
        {
            'set_mrr': 100 * full['mrr'],
            'set_p_at_1': 100 * full['p_at_1'],
            'set_macro_mrr': 100 * full['macro_mrr_over_responses_seen'],
        },
        rel=REL,
    )


def test_official_reciprocal_rank(golden):
    for case in golden('mrs_rank/compute_metrics'):
        inputs, expected = case['inputs'], case['expected']
        assert ranking.reciprocal_rank(
            inputs['gold_id'], inputs['ranked_ids'], inputs['k']
        ) == pytest.approx((expected['rr'], expected['p_at_k']), rel=REL)


def test_gold_ids():
    responses = ['Yes 25', 'no', 'yes 1234', 'NO']
    assert ranking.gold_ids(responses, ['YES 3', 'No', 'maybe']).tolist() == [0, 1, -1]
    assert ranking.gold_ids([], ['a']).tolist() == [-1]


def test_textbook_by_hand():
    got = ranking.textbook([1, 4, 2], [7, 7, 3])
    assert got == pytest.approx(
        {
            'set_mrr': 100 * (1 + 1 / 4 + 1 / 2) / 3,
            'set_p_at_1': 100 / 3,
            'set_macro_mrr': 100 * ((1 + 1 / 4) / 2 + 1 / 2) / 2,
        }
    )


def test_official_leaves_out_examples_without_three_suggestions():
    got = ranking.official([5, 5, 6], [[5, 1, 2], [5, 1], [1, 6, 2]], 10)
    assert got['mrr_code'] == pytest.approx(75) and got['p_at_3_code'] == 100
    assert got['macro_mrr_code'] == pytest.approx(15)
    assert got['mrr_f1_code'] == pytest.approx(2 * 75 * 15 / 90)
    assert ranking.official([5], [[5]], 10) == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.permutations(range(6)).map(lambda ids: ids[:3])),
        min_size=1,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_examples_does_not_matter(rows, rng):
    def scores():
        gold, suggestions = zip(*rows, strict=True)
        ranks = [1 + g for g in gold]
        return ranking.official(gold, suggestions, 6) | ranking.textbook(ranks, gold)

    before = scores()
    assert all(0 <= value <= 100 for value in before.values())
    # A miss counts as rank 4, and over the whole set unseen responses count as 0.
    assert before['mrr_code'] >= 25 - 1e-9 and before['macro_mrr_code'] <= 100 + 1e-9
    rng.shuffle(rows)
    assert scores() == pytest.approx(before)
