"""Scores of labels, by hand."""


import numpy as np
import pytest
from hypothesis import given, strategies as st

from xlbench.metrics import classification
from xlbench.system import errors

REL = 1e-9


def test_by_hand():
    got = classification.Classification()(['1', '1', '2', '3'], ['1', '2', '2', '1'])
    # F1: of 1: 2 * 1 / (2 + 2); of 2: 2 * 1 / (1 + 2); of 3: 0.
    assert got == pytest.approx(
        {'accuracy': 50.0, 'macro_f1': 100 * (1 / 2 + 2 / 3 + 0) / 3}, rel=REL
    )


def test_labels_decide_what_is_averaged():
    targets, predictions = ['a', 'a'], ['a', 'b']
    score = {
        labels: classification.Classification(labels)(targets, predictions)['macro_f1']
        for labels in ((), ('a',), ('a', 'b', 'c'))
    }
    assert score[()] == pytest.approx(100 * (2 / 3) / 2, rel=REL)
    assert score['a',] == pytest.approx(100 * 2 / 3, rel=REL)
    assert score['a', 'b', 'c'] == pytest.approx(100 * (2 / 3) / 3, rel=REL)


def test_examples():
    metric = classification.Classification()
    assert metric.per_example(['a', 'b'], ['a', 'a']) == [{'accuracy': 100.0}, {'accuracy': 0.0}]


def test_confusion():
    table = classification.confusion(['2', '1', '2', '2'], ['1', '1', '2', '3'], ['1', '2', '3'])
    assert table.tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    with pytest.raises(errors.UserError, match="unknown label '4'"):
        classification.confusion(['4'], ['1'], ['1', '2'])


@given(st.lists(st.tuples(st.sampled_from('abc'), st.sampled_from('abc')), min_size=1, max_size=20))
def test_accuracy_is_the_mean_of_examples_and_the_diagonal(examples):
    targets, predictions = map(list, zip(*examples, strict=True))
    metric = classification.Classification()
    got = metric(targets, predictions)
    rows = metric.per_example(targets, predictions)
    assert got['accuracy'] == pytest.approx(np.mean([row['accuracy'] for row in rows]), rel=REL)
    table = classification.confusion(targets, predictions, 'abc')
    assert table.sum() == len(examples)
    assert got['accuracy'] == pytest.approx(100 * np.trace(table) / table.sum(), rel=REL)
    assert 0.0 <= got['macro_f1'] <= 100.0
