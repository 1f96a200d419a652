"""Whether the paper's findings hold, on made-up scores whose answers are known."""

import numpy as np
import pytest
import tiny_sweep
from tiny_sweep import group, row, zero_shot

from xlbench.fewshot.analysis import findings, systems
from xlbench.fewshot.analysis.findings import FAILS, HOLDS, OPEN, Estimate
from xlbench.fewshot.analysis.sweeps import Sweep


def around(mean, spread, count=20):
    """Scores with this mean, and about this deviation."""
    return (mean + spread * np.linspace(-1.6, 1.6, count)).tolist()


def answers(tmp_path, rows, name='sweep'):
    """{the beginning of a claim: (outcome, figures)}"""
    (system,) = systems.systems([Sweep.read(tiny_sweep.write(tmp_path / name, rows))])
    rows_of = findings.table(system).rows
    return {one.name.partition(' (')[0]: tuple(map(str, one.cells)) for one in rows_of}


def test_a_finding_holds_two_errors_above_0():
    assert findings.outcome([]) == OPEN
    assert findings.outcome([Estimate('', 2.1, 1.0)]) == HOLDS
    assert findings.outcome([Estimate('', 1.9, 1.0)]) == OPEN
    assert findings.outcome([Estimate('', -1.9, 1.0), Estimate('', 5.0, 1.0)]) == OPEN
    assert findings.outcome([Estimate('', -2.1, 1.0), Estimate('', 5.0, 1.0)]) == FAILS
    assert findings.outcome([Estimate('', 0.0, 0.0)]) == OPEN
    assert str(Estimate('K=1', 1.234, 0.5)) == 'K=1 +1.23 ±0.50'


def test_scores_as_the_papers_have_its_findings(tmp_path):
    rows = []
    for lang, start, more in (('de', 60, 0), ('ta', 40, 6), ('zh', 45, 5), ('mr', 42, 6)):
        rows += [zero_shot(lang, start), zero_shot(lang, start - 20, 'none')]
        for k, gain, spread in ((1, 6, 3.0), (2, 8, 2.0), (4, 9, 1.0)):
            mean = start + gain + more
            rows += group(lang, k, around(mean, spread))
            rows += group(lang, k, around(mean - 2, spread), method='fc')
            rows += group(lang, k, around(mean - 9, spread), start='none')
    rows += [row('de', 1, 0, 60.0, dev, seed=seed) for seed, dev in enumerate((49.9, 50.0, 50.1))]
    found = answers(tmp_path, rows)
    assert found['few shots improve on zero-shot transfer'] == (
        HOLDS,
        'K=1 +10.25 ±0.33; K=2 +12.25 ±0.22; K=4 +13.25 ±0.11',
    )
    for claim in (
        'the first shot brings the largest improvement',
        'scores grow with K',
        'with diminishing returns',
        'the spread over buckets shrinks as K grows',
        'some adaptations to the fewest shots are best after one epoch',
        'languages in non-Latin scripts gain more',
        'without source training scores are lower',
    ):
        assert found[claim][0] == HOLDS, claim
    ranks = found['methods rank as full, FC+Pooler, FC, FC(reset)+Pooler, COS+Pooler']
    assert ranks == (HOLDS, 'full over fc, K=4 +2.00 ±0.16')
    # The dev scores of all buckets are 50, so that nothing is known of them.
    assert found['buckets move scores more than seeds do'][0] == OPEN
    outcome, figures = found['languages that are more like English gain less']
    assert outcome in (HOLDS, OPEN) and 'of 4 languages' in figures
    outcome, figures = found['improved words are those of the same bucket']
    assert outcome == OPEN and 'there are no predictions' in figures


def test_scores_against_the_papers_findings(tmp_path):
    rows = []
    for lang in ('de', 'es'):
        rows.append(zero_shot(lang, 60.0, task='xnli'))
        for k, mean, spread in ((1, 57, 1.0), (2, 54, 2.0), (4, 48, 4.0)):
            rows += group(lang, k, around(mean, spread), task='xnli')
            rows += group(lang, k, around(mean + 5, spread), task='xnli', method='fc')
    found = answers(tmp_path, rows)
    for claim in (
        'few shots improve on zero-shot transfer',
        'scores grow with K',
        'the spread over buckets shrinks as K grows',
        'methods rank as full, FC+Pooler, FC, FC(reset)+Pooler, COS+Pooler',
    ):
        assert found[claim][0] == FAILS, claim
    # Of words and of languages, as the paper's are.
    assert not any('Latin' in claim or 'same bucket' in claim for claim in found)


@pytest.mark.parametrize('most', [1, 2])
def test_what_is_missing_shows_nothing(tmp_path, most):
    found = answers(tmp_path, [zero_shot('de', 40.0), *group('de', 1, [50.0, 60.0][:most])])
    outcomes = {claim: outcome for claim, (outcome, _) in found.items()}
    assert outcomes.pop('few shots improve on zero-shot transfer') == (OPEN if most == 1 else HOLDS)
    early = outcomes.pop('some adaptations to the fewest shots are best after one epoch')
    assert early in (HOLDS, OPEN)
    assert {*outcomes.values()} == {OPEN} and all(figures for _, figures in found.values())
    assert not answers(tmp_path, group('de', 1, [50.0], method='fc'), 'fc')  # Nothing is full.
