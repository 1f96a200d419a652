"""Agreement of judges equals the reference packages."""

import math

import pytest

from xlbench.judgement import scores


def same(value: float, expected: float | None) -> bool:
    return math.isnan(value) if expected is None else value == pytest.approx(expected, rel=1e-9)


def test_fleiss_equals_the_reference(golden):
    for case in golden('agreement/fleiss'):
        kappa = scores.fleiss_kappa(case['inputs']['counts_items_by_categories'])
        assert same(kappa, case['expected']['fleiss_kappa']), case['name']
        kappa = scores.randolph_kappa(case['inputs']['counts_items_by_categories'])
        assert same(kappa, case['expected']['randolph_free_marginal_kappa']), case['name']


def test_krippendorff_equals_the_reference(golden):
    for case in golden('agreement/krippendorff'):
        inputs = case['inputs']
        alpha = scores.krippendorff_alpha(inputs['raters_by_items'], inputs['level'])
        assert same(alpha, case['expected']['alpha']), case['name']


def test_best_worst_equals_the_reference(golden):
    for case in golden('best_worst/'):
        inputs = case['inputs']
        counts = scores.best_worst(
            (a['shown'], a['best'], a['worst']) for a in inputs['annotations']
        )
        for system, expected in case['expected'].items():
            assert counts[system].score == pytest.approx(expected.pop('score'))
            assert counts[system]._asdict() == expected


def test_agreement_by_hand():
    """Two judges, two units: one agreement, one difference."""
    # P = 1/2; the categories have 3/4 and 1/4 of the votes, so Pe = 10/16.
    assert scores.randolph_kappa([[2, 0], [1, 1]]) == pytest.approx((1 / 2 - 1 / 2) / (1 / 2))
    assert scores.randolph_kappa([[2, 0], [1, 1]], 5) == pytest.approx((1 / 2 - 1 / 5) / (4 / 5))
    assert scores.fleiss_kappa([[2, 0], [1, 1]]) == pytest.approx((1 / 2 - 5 / 8) / (3 / 8))
    assert math.isnan(scores.krippendorff_alpha([[3, 3], [3, None]], 'ordinal'))
    assert math.isnan(scores.krippendorff_alpha([[3, None], [None, 4]], 'ordinal'))
    with pytest.raises(ValueError, match='same number of judges'):
        scores.fleiss_kappa([[2, 0], [1, 0]])
