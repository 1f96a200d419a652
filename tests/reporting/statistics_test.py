"""Tests of significance equal scipy and sacreBLEU; what they are made of is checked by hand."""

import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric, Score, Signature

from xlbench.errors import UserError
from xlbench.reporting import statistics

METRICS = {'BLEU': BLEU, 'chrF2': CHRF, 'chrF2++': lambda: CHRF(word_order=2), 'TER': TER}
TESTS = {'bs': 'bootstrap', 'ar': 'randomization'}


def same(value: float, expected: float | None) -> bool:
    return not math.isfinite(value) if expected is None else value == pytest.approx(expected)


def test_paired_t_test_equals_scipy(golden):
    for case in golden('significance/ttest_rel'):
        test = statistics.paired_t_test(**{k: case['inputs'][k] for k in ('x', 'y', 'alternative')})
        expected = case['expected']
        assert same(test.statistic, expected['statistic']), case['name']
        assert same(test.p_value, expected['p_value']), case['name']
        assert test.df == expected['df']
        if 'ci95_of_mean_difference' in expected:
            assert test.interval == pytest.approx(expected['ci95_of_mean_difference'])


def test_resampling_equals_sacrebleu(golden):
    for case in golden('significance/paired_'):
        inputs = case['inputs']
        scores = statistics.paired_resampling(
            inputs['baseline'],
            inputs['system'],
            [inputs['references']],
            {name: METRICS[name]() for name in inputs['metrics']},
            TESTS[inputs['test']],
            inputs['n_samples'],
        )
        for metric in inputs['metrics']:
            for result, side in zip(scores[metric], ('baseline', 'system'), strict=True):
                expected = case['expected'][metric][side]
                assert result.score == pytest.approx(expected['score'], rel=1e-9)
                assert result.p_value == expected.get('p_value')
                if expected['mean'] is None:
                    assert result.mean is None
                    continue
                rough = {'rel': inputs['tolerance_rel_of_mean_and_ci']}
                assert result.mean == pytest.approx(expected['mean'], **rough)
                assert result.half_width == pytest.approx(expected['ci'], **rough)


class Mean(Metric):
    """The mean of numbers, as sacreBLEU resamples it."""

    _SIGNATURE_TYPE = Signature

    def __init__(self):
        super().__init__()
        self.num_refs = 1

    def _extract_corpus_statistics(self, hypotheses, references):
        return [[value, 1.0] for value in hypotheses]

    def _compute_score_from_stats(self, stats):
        return Score('mean', float(stats[0] / stats[1]))

    def _aggregate_and_compute(self, stats):
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    _preprocess_segment = _extract_reference_info = _compute_segment_statistics = None


@pytest.mark.parametrize('test', statistics.SAMPLES)
def test_resampling_of_means_equals_sacrebleu(test, monkeypatch):
    rng = np.random.default_rng(3)
    for distance in (0.0, 1.5, 4.0):
        x, y = rng.normal(50, 5, 40), rng.normal(50 + distance, 5, 40)
        _, system = statistics.paired_resampling(x, y, [], {'mean': Mean()}, test)['mean']
        assert statistics.resampled_p_value(x, y, test) == pytest.approx(system.p_value, abs=1e-3)
    # 1 of 4 examples differs: every swap gives the same difference, and none is larger.
    assert statistics.resampled_p_value([1, 1, 1, 0.1], [1, 1, 1, 0.3], 'randomization') < 1e-3
    for seed in ('0', 'none', 'x'):
        monkeypatch.setenv('SACREBLEU_SEED', seed)
        with pytest.raises(UserError, match='does not fix'):
            statistics.resampled_p_value(x, y, test)


def test_holm():
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    corrected = statistics.holm([0.5, math.nan, 0.9])  # Of two comparisons.
    assert corrected[0] == corrected[2] == 1.0 and math.isnan(corrected[1])
    assert statistics.holm([]) == []


def test_half_width():
    """Two values: t of one degree of freedom is 12.706, the standard error half the distance."""
    assert statistics.half_width([1.0, 3.0]) == pytest.approx(12.7062, rel=1e-5)
    assert statistics.half_width([1.0]) is None


def test_correlations_equal_scipy(golden):
    for case in golden('correlation/'):
        values = statistics.correlation(case['inputs']['x'], case['inputs']['y'])
        names = ('pearson', 'spearman', 'kendall_tau_b')
        for value, name in zip(values, names, strict=True):
            assert same(value, case['expected'][name]['r']), (case['name'], name)
