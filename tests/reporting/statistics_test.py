"""Tests of significance equal scipy and sacreBLEU; what they are made of is checked by hand."""

import itertools
import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from xlbench.reporting import statistics

METRICS = {'BLEU': BLEU, 'chrF2': CHRF, 'chrF2++': lambda: CHRF(word_order=2), 'TER': TER}
TESTS = {'bs': 'bootstrap', 'ar': 'randomization'}


def same(value: float, expected: float | None) -> bool:
    return not math.isfinite(value) if expected is None else value == pytest.approx(expected)


def test_paired_t_test_equals_scipy(golden):
    for case in golden('significance/ttest_rel'):
        inputs, expected = case['inputs'], case['expected']
        if inputs['alternative'] == 'two-sided':
            x, y = (dict(enumerate(inputs[side])) for side in 'xy')
            test = statistics.t_test(x, y)
            assert same(test.p_value, expected['p_value']), case['name']
            assert test.value == pytest.approx(np.mean(np.subtract(inputs['x'], inputs['y'])))
            if test.half is not None:
                low, high = expected['ci95_of_mean_difference']
                assert test.half == pytest.approx((high - low) / 2), case['name']
    assert statistics.t_test({0: 1.0}, {0: 3.0}) is None


def counts_of(metric, inputs) -> statistics.Scorer:
    """Scores resamples of a golden case by sacreBLEU's counts."""
    texts = (inputs['baseline'], inputs['system'])
    counts = [metric._extract_corpus_statistics(side, [inputs['references']]) for side in texts]
    counts = np.array(counts, float)
    return lambda which, index: np.array([
        metric._compute_score_from_stats(counts[w, i].sum(0)).score
        for w, i in zip(np.broadcast_to(which, index.shape).astype(int), index, strict=True)
    ])  # fmt: skip


def test_resampling_equals_sacrebleu(golden):
    """p-values that ten resamples or more decide are sacreBLEU's; smaller ones are no larger."""
    decided = []
    for case in golden('significance/paired_'):
        inputs = case['inputs']
        count, samples = len(inputs['system']), inputs['n_samples']
        for name in inputs['metrics']:
            scorer, test = counts_of(METRICS[name](), inputs), TESTS[inputs['test']]
            drawn = statistics.resamples(scorer, count, test, samples, 1000)
            expected = case['expected'][name]
            real = expected['system']['score'] - expected['baseline']['score']
            p, is_tail = statistics.p_value(real, drawn, test)
            theirs = expected['system']['p_value']
            decided.append(not is_tail)
            assert p == theirs if decided[-1] else theirs <= 10 / (samples + 1), case['name']
            if expected['system']['mean'] is None:
                continue
            for side in ('baseline', 'system'):
                mean, half = statistics.interval(getattr(drawn, side))
                rough = {'rel': inputs['tolerance_rel_of_mean_and_ci']}
                assert mean == pytest.approx(expected[side]['mean'], **rough)
                assert half == pytest.approx(expected[side]['ci'], **rough)
    assert sum(decided) >= 4


@pytest.mark.parametrize('test, sides', [('bootstrap', 1), ('randomization', 2)])
def test_tails_by_hand(test, sides):
    """Where no resample is beyond the difference: all sizes are 1 away from their middle."""
    sizes = np.tile([0.0, 2.0] if test == 'bootstrap' else [-1.0, 1.0], 50)
    drawn = statistics.Resamples(np.zeros(100), sizes, sizes, sizes)
    p, is_tail = statistics.p_value(3.0, drawn, test)
    assert is_tail and p == pytest.approx(sides * math.erfc(3 / math.sqrt(2)) / 2)


def test_the_interval_of_randomization_equals_sacrebleu(golden, monkeypatch):
    monkeypatch.setenv('SACREBLEU_SEED', '12345')
    (inputs,) = [case['inputs'] for case in golden('significance/paired_ar_close_systems')]
    for name in inputs['metrics']:
        theirs = PairedTest(
            [('baseline', inputs['baseline']), ('system', inputs['system'])],
            {name: METRICS[name]()}, [inputs['references']], 'ar', 500, n_ar_confidence=300,
        )()[1][name]  # fmt: skip
        scorer = counts_of(METRICS[name](), inputs)
        drawn = statistics.resamples(scorer, len(inputs['system']), 'randomization', 500, 300)
        expected = theirs[1].mean, theirs[1].ci  # Of the baseline sacreBLEU draws others.
        assert statistics.interval(drawn.system_spread) == pytest.approx(expected, rel=1e-5)


def pmf_of_sum(values: np.ndarray, times: int) -> np.ndarray:
    """Probabilities of each sum of `times` draws of whole numbers, from the smallest sum on."""
    once = np.bincount(values - values.min()) / len(values)
    pmf = np.ones(1)
    for _ in range(times):
        pmf = np.convolve(pmf, once)
    return pmf


def exact_p(differences: np.ndarray, test: str) -> float:
    """The exact probability that `resamples` estimates, of differences that are whole numbers."""
    real, count = differences.sum(), len(differences)
    if test == 'bootstrap':
        pmf = pmf_of_sum(differences, count)
        sizes = np.abs(np.arange(len(pmf)) + count * differences.min())
        return float(pmf[sizes - (pmf @ sizes) > abs(real) + 1e-9].sum())
    pmf = np.ones(1)
    for size in np.abs(differences):
        pmf = np.convolve(pmf, [0.5, *[0.0] * (2 * size - 1), 0.5] if size else [1.0])
    sizes = np.abs(np.arange(len(pmf)) - np.abs(differences).sum())
    return float(pmf[sizes > abs(real)].sum())


@pytest.mark.parametrize('test', ['bootstrap', 'randomization'])
@pytest.mark.parametrize('systems', [4, pytest.param(8, marks=pytest.mark.nightly)])
def test_a_report_finds_what_exact_tests_find(test, systems):
    """Every pair of systems on five tasks of 200 examples: with more systems a p-value has to be
    smaller, in the end far below one in all resamples."""
    rng = np.random.default_rng(systems)
    quality = rng.uniform(40, 49, (systems, 5, 1))
    scores = np.rint(rng.normal(quality, 15, (systems, 5, 200))).astype(int)
    ours, exact = [], []
    for first, second in itertools.combinations(range(systems), 2):
        for x, y in zip(scores[first], scores[second], strict=True):
            drawn = statistics.resamples(statistics.of_means(x, y), len(x), test, 10_000, 1000)
            ours.append(statistics.p_value(np.mean(y) - np.mean(x), drawn, test)[0])
            exact.append(exact_p(y - x, test))
    significant = [np.array(statistics.holm(p)) < statistics.LEVEL for p in (ours, exact)]
    assert significant[1].any() and not significant[1].all()
    # The answers may differ where a corrected p-value is close to the level.
    near = np.abs(np.log(np.array(statistics.holm(exact)) / statistics.LEVEL)) < 0.4
    assert (significant[0] == significant[1])[~near].all() and near.sum() <= len(ours) / 10
    for p, expected in zip(ours, exact, strict=True):
        # Four standard errors of a share; in the tail, what an estimated width leaves unknown.
        share = 4 * math.sqrt(expected / 10_000) + 2e-4
        tail = 0.5 + 0.1 * abs(math.log(max(expected, 1e-15)))
        assert abs(p - expected) <= share
        assert expected < 1e-12 or abs(math.log(p / expected)) <= tail
    if systems == 8:  # With 1,000 resamples, and no tail, no p-value survives the correction.
        assert min(statistics.holm(np.maximum(ours, 1 / 1001))) > statistics.LEVEL
        assert significant[0].sum() > 15


@pytest.mark.parametrize(('test', 'samples'), [('bootstrap', 1000), ('randomization', 10_000)])
def test_resampling_of_means(test, samples):
    # 1 of 4 examples differs: every swap gives the same difference, which says nothing.
    baseline, system = [1, 1, 1, 0.1], [1, 1, 1, 0.3]
    drawn = statistics.resamples(statistics.of_means(baseline, system), 4, test, samples, 1000)
    assert statistics.p_value(0.05, drawn, test)[0] > 0.05


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
        expected = [case['expected'][name][part] for name in names for part in ('r', 'p_value')]
        assert all(map(same, values, expected)), case['name']


def test_exchanged_texts_have_their_means():
    score = statistics.of_means([1.0, 2.0, 6.0], [3.0, 0.0, 3.0])
    which = np.array([[False] * 3, [True] * 3, [True, False, False]])
    found = score(which, np.broadcast_to(np.arange(3), which.shape))
    np.testing.assert_allclose(found, [3, 2, 11 / 3])
