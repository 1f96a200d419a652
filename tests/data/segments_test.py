"""Topics and stages of dialogues: the official cases, and what they are told apart by."""

import collections

import numpy as np
import pytest

from xlbench.data import segments
from xlbench.system import errors


def vectors_of(document):
    """Vectors as they are; of texts, counts of words."""
    if not isinstance(document[0], str):
        return np.array(document)
    counts = [collections.Counter(text.lower().split()) for text in document]
    words = sorted(set().union(*counts))
    return np.array([[count[word] for word in words] for count in counts], float)


def test_topics_equal_the_golden_cases(golden):
    for case in golden('c99/'):
        given = case['inputs']
        window = given['window']
        for document, wanted in zip(given['documents'], case['expected']['documents'], strict=True):
            vectors = vectors_of(document)
            if given['one_object_for_all_documents']:  # It keeps the smallest window.
                window = wanted['window_after']
            labels = segments.topic_segments(vectors, window, given['std_coeff'])
            assert labels == wanted['labels'], case['name']
            if 'rank_matrix' in wanted:
                ranks = segments.rank_matrix(vectors, window)
                np.testing.assert_allclose(ranks, wanted['rank_matrix'], atol=1e-12)
        if given['one_object_for_all_documents']:
            vectors = map(vectors_of, given['documents'])
            labels = segments.official_topic_segments(vectors, given['window'], given['std_coeff'])
            assert list(labels) == [d['labels'] for d in case['expected']['documents']]


def test_topics_begin_where_the_words_change():
    keys, trains = 'old key,old old key,key', 'late train,train,late late train,train late'
    texts = f'{keys},{trains}'.split(',')
    assert segments.topic_segments(vectors_of(texts)) == [1, 1, 1, 2, 2, 2, 2]
    assert segments.topic_segments(np.ones((2, 5))) == [1, 1]
    assert segments.topic_segments(np.zeros((0, 5))) == []
    silent = segments.rank_matrix(np.zeros((4, 3)))  # A vector of zeros is like no other.
    np.testing.assert_array_equal(silent, np.zeros((4, 4)))


def test_the_official_window_shrinks_within_a_split():
    rng = np.random.default_rng(1)
    long = [rng.normal(size=(14, 3)) for _ in range(4)]
    splits = [[rng.normal(size=(3, 3)), *long], [*long, np.zeros((0, 3))]]
    narrow = [segments.topic_segments(vectors, window=3) for vectors in long]
    whole = [segments.topic_segments(vectors) for vectors in long]
    assert narrow != whole
    for official, first in ((False, whole), (True, narrow)):
        views = segments.views_of(splits, official_window=official)
        assert [one.topics for one in views[0][1:]] == first
        assert [one.topics for one in views[1]] == [*whole, []]
        assert views[1][-1].stages == [] and views[1][0].stages[0] == 0


def model_of(given, prefix='', **limits):
    normal = given[f'{prefix}means'], given[f'{prefix}diagonal_covariances']
    steps = {'start': given['startprob'], 'transitions': given['transmat']}
    return segments.stage_model(*normal, **steps, **limits)


def test_stages_equal_the_golden_cases(golden):
    (case,) = golden('stage_hmm/viterbi')
    model = model_of(case['inputs'])
    documents = case['inputs']['documents'], case['expected']['documents']
    for document, wanted in zip(*documents, strict=True):
        assert segments.stages(model, np.array(document)) == wanted['labels']
    (case,) = golden('stage_hmm/baum_welch')
    given, expected = case['inputs'], case['expected']
    documents = [np.array(document) for document in given['documents']]
    model = model_of(given, 'initial_', iterations=given['n_iter'], tolerance=given['tol'])
    model.fit(np.concatenate(documents), [len(document) for document in documents])
    close = {'rtol': given['tolerance_rel'], 'atol': 1e-9}
    np.testing.assert_allclose(model.monitor_.history, expected['log_likelihoods'], **close)
    wanted = model_of(expected)
    for name in ('startprob_', 'transmat_', 'means_', '_covars_'):
        np.testing.assert_allclose(getattr(model, name), getattr(wanted, name), **close)
    assert [segments.stages(model, document) for document in documents] == expected['labels']


def test_views_equal_the_golden_case(golden):
    (case,) = golden('mvbart/view_strings')
    given, expected = case['inputs'], case['expected']
    utterances = given['utterances']
    assert segments.with_segments(utterances, given['stage_labels']) == expected['stage_view']
    # The released topic views begin with one more space.
    assert ' ' + segments.with_segments(utterances, given['topic_labels']) == expected['topic_view']
    assert segments.with_segments(utterances, [0, 0, 0]) == expected['none_view']
    assert segments.with_segments(utterances, [0, 1, 2]) == expected['all_view']


def test_stages_in_high_dimensions_are_found_in_order():
    """With far-off densities, whose probabilities no float holds."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 200)) * 3
    paths = [np.sort(rng.integers(0, 4, 12)) for _ in range(20)]
    for path in paths:
        path[0] = 0
    steps = [[int(p) for p in np.minimum.accumulate(path[::-1])[::-1]] for path in paths]
    dialogues = [centres[path] + rng.normal(size=(12, 200)) for path in steps]
    model = segments.fit_stages(dialogues)
    found = [segments.stages(model, dialogue) for dialogue in dialogues]
    right = np.mean(np.array(found) == np.array(steps))
    assert right > 0.9 and all(path == sorted(path) for path in found)
    assert model.transmat_[0, 3] == 0


def test_mistakes():
    with pytest.raises(errors.UserError, match=r'shape \(3,\), not utterances x numbers'):
        segments.topic_segments(np.zeros(3))
    with pytest.raises(errors.UserError, match='no dialogue has 4 utterances'):
        segments.fit_stages([np.zeros((2, 3))])
    with pytest.raises(errors.UserError, match='1 labels of 2 utterances'):
        segments.with_segments(['a', 'b'], [1])
