"""Overlap and correlations: numbers by hand, scipy's own, and those of the paper's tables."""

import csv
import functools
import pathlib

import numpy as np
import pytest
import tiny_labels
from scipy import stats

from xlbench import benchmarks
from xlbench.data import prepared
from xlbench.fewshot.analysis import factors
from xlbench.system import errors

PAPER = pathlib.Path(benchmarks.__file__).with_name('paper_scores')


def example(text, pieces, before=(2,), between=(1,)):
    """A prepared record of one text or two, [CLS] 2 and [SEP] 1."""
    ids = list(before)
    for side in pieces:
        ids += [*side, *between]
    ids = [*ids[: len(ids) - len(between)], 1]
    return {
        'inputs': np.array(ids, np.int32),
        'piece_counts': np.array([len(side) for side in pieces], np.int32),
        'inputs_pretokenized': text,
    }


def test_pieces_are_without_special_ones():
    tagged = example('Hunde bellen laut', [[7, 8, 9, 7]])
    pair = example('Es regnet .\tEs ist nass .', [[3, 4], [3, 5]])
    roberta = example('a\tb', [[3], [4]], between=(1, 1))
    no_start = example('a b', [[3, 4]], before=())
    assert factors.pieces([tagged]) == {7, 8, 9}
    assert factors.pieces([pair]) == {3, 4, 5}
    assert factors.pieces([roberta]) == {3, 4}
    assert factors.pieces([no_start]) == {3, 4}


def test_overlap_is_in_percent_of_the_source_languages_vocabulary():
    assert factors.overlap({'a', 'b', 'x', 'y', 'z'}, {'a', 'b', 'c', 'd'}) == 50.0
    assert factors.overlap({'x'}, {'a'}) == factors.overlap({'x'}, set()) == 0.0


def test_overlaps_are_of_all_buckets_with_the_english_training_examples(tmp_path):
    """A word of tiny_labels is written as its pieces: 3, or 10-11."""

    def write(task, split, *sentences):
        rows = [tiny_labels.record('tagging', words, [0] * len(words)) for words in sentences]
        rows = [row | {'bucket': str(i)} for i, row in enumerate(rows)]
        tiny_labels.write_task(tmp_path, 'tagging', task, split, rows)

    english, german = tiny_labels.TASKS['tagging']
    write(english, 'train', [[3], [4], [10, 11]], [[3], [12]])
    write(german, 'shots_1', [[3], [10]], [[4, 12], [20], [20]])
    opened = functools.partial(prepared.open_task, str(tmp_path), 'sample')
    found = factors.overlaps(opened, 'udpos', 'en', ['de'], [1])
    # Pieces 3 4 10 11 12 and 3 10 4 12 20.
    assert found == {('de', 1): 80.0}
    with pytest.raises(prepared.NotPrepared, match='shots_2 is not prepared'):
        factors.overlaps(opened, 'udpos', 'en', ['de'], [1, 2])


def test_correlations_are_those_of_scipy_over_what_is_known():
    gains = {'de': 1.0, 'fr': 3.5, 'es': 2.0, 'ja': 20.0, 'af': 99.0}
    factor = {'de': 9.0, 'fr': 4.0, 'es': 4.0, 'ja': 1.0, 'af': None, 'ur': 3.0}
    found, number = factors.correlate(gains, factor)
    x, y = [9.0, 4.0, 4.0, 1.0], [1.0, 3.5, 2.0, 20.0]
    assert number == 4
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic)
    # By hand, of ranks with a tie: 4, 2.5, 2.5, 1 and 1, 3, 2, 4.
    assert found.spearman == pytest.approx(-4.5 / (4.5 * 5) ** 0.5)


@pytest.mark.parametrize(
    ('gains', 'factor', 'words'),
    [
        ({'de': 1.0, 'fr': 2.0}, {'de': 1.0, 'fr': 2.0}, r'there are 2 \(de, fr\)'),
        ({'de': 1.0}, {}, 'there are none'),
        ({'a': 1.0, 'b': 2.0, 'c': 3.0}, {'a': 4, 'b': 4, 'c': 4}, 'the same factor'),
        ({'a': 1.0, 'b': 1.0, 'c': 1.0}, {'a': 4, 'b': 5, 'c': 6}, 'the same gain'),
    ],
)
def test_what_has_no_correlation_is_refused_in_a_line(gains, factor, words):
    with pytest.raises(errors.UserError, match=words):
        factors.correlate(gains, factor)


def test_the_papers_own_numbers_give_its_correlations_with_overlap():
    """Table 3 from tables 12 and 14: of parts of speech with K=1, up to what is rounded."""

    def read(name, value):
        with (PAPER / f'fewshot_{name}.csv').open(encoding='utf-8') as file:
            return {
                (row['language'], row['shots']): float(row[value])
                for row in csv.DictReader(file)
                if row['task'] == 'udpos' and row.get('start', 'source') == 'source'
            }

    scores, overlap = read('scores', 'mean'), read('overlap', 'overlap')
    langs = {lang for lang, _ in scores} - {'en'}
    gains = {lang: scores[lang, '1'] - scores[lang, '0'] for lang in langs}
    found, number = factors.correlate(gains, {lang: overlap.get((lang, '1')) for lang in langs})
    assert number == 27  # Table 14 has no row for the overlap of bg.
    assert found.spearman == pytest.approx(-0.63, abs=0.005)
    assert found.pearson == pytest.approx(-0.50, abs=0.02)
