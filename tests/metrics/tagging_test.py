"""Scores of tags: by hand, as seqeval 0.0.12, and where a tag is predicted."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from xlbench import metrics
from xlbench.data import features
from xlbench.metrics import tagging

REL = 1e-9


def chunk_f1(gold, predicted):
    return tagging.ChunkF1()([gold], [predicted])['chunk_f1']


def test_golden(golden):
    for case in golden('seqeval_f1/'):
        sides = [[' '.join(tags) for tags in case['inputs'][side]] for side in ('gold', 'pred')]
        expected = case['expected']['seqeval_0.0.12']
        got = tagging.ChunkF1()(*sides)
        for name in ('f1', 'precision', 'recall'):
            assert got[f'chunk_{name}'] == pytest.approx(100 * expected[name], rel=REL), case
        swapped = tagging.ChunkF1()(*sides[::-1])
        assert swapped['chunk_f1'] == pytest.approx(100 * expected['f1_args_swapped'], rel=REL)


def test_by_hand():
    # Chunks: PER 0-1, LOC 3. Predicted: PER 0-1.
    got = tagging.ChunkF1()(['B-PER I-PER O B-LOC'], ['B-PER I-PER O O'])
    assert got == pytest.approx(
        {'chunk_f1': 200 / 3, 'chunk_precision': 100.0, 'chunk_recall': 50.0}, rel=REL
    )


@pytest.mark.parametrize(
    ('gold', 'predicted', 'score'),
    [
        ('B-PER I-PER O', 'B-PER O O', 0.0),  # A chunk with a wrong border,
        ('B-PER I-PER O', 'B-LOC I-LOC O', 0.0),  # or of a wrong type, is wrong.
        ('O I-PER I-PER', 'O B-PER I-PER', 100.0),  # I- may begin a chunk;
        ('B-PER B-PER', 'B-PER I-PER', 0.0),  # B- always does.
        ('O O', 'O O', 0.0),
        ('NOUN NOUN VERB', 'NOUN NOUN NOUN', 0.0),  # NOUN 0-1, VERB 2 against NOUN 0-2.
        ('NOUN NOUN VERB', 'NOUN NOUN VERB', 100.0),
        ('SCONJ', 'CCONJ', 0.0),  # A type without a dash has its first letter: 100 in seqeval 1.0.
        ('NOUN NFP NOUN', 'NOUN X NOUN', 100.0),  # NFP is left out on both sides: one run.
        ('NOUN VERB', 'NOUN <CUT>', 100.0),
    ],
)
def test_pairs(gold, predicted, score):
    assert chunk_f1(gold, predicted) == score


def test_a_tag_that_begins_with_s_begins_a_chunk_each_time():
    got = tagging.ChunkF1()(['SYM SYM NOUN NOUN'], ['SYM SYM X X'])  # Two of three.
    assert got['chunk_recall'] == pytest.approx(200 / 3, rel=REL)


def test_chunks_end_with_the_sentence():
    # NOUN | NOUN are two chunks, of which one is right.
    got = tagging.ChunkF1()(['NOUN', 'NOUN VERB'], ['NOUN', 'VERB VERB'])
    assert got['chunk_recall'] == pytest.approx(100 / 3, rel=REL)


def test_examples():
    metric = tagging.ChunkF1()
    targets, predictions = ['B-A O', 'B-A', ''], ['B-A O', 'O', '']
    corpus, examples = metrics.score(metric, targets, [[text] for text in predictions])
    assert corpus == metric(targets, predictions)
    assert corpus['chunk_f1'] == pytest.approx(200 / 3, rel=REL)
    assert [example['chunk_f1'] for example in examples] == [100.0, 0.0, 0.0]
    assert examples == metric.per_example(targets, predictions)


def test_words_that_do_not_count_are_left_out_on_both_sides():
    # A model may predict such a tag; that is a mistake like any other.
    assert chunk_f1('NOUN VERB', 'NOUN AFX') < 100.0
    accuracy = tagging.TagAccuracy()(['NOUN NFP VERB DET'], ['NOUN X VERB <CUT>'])
    assert accuracy['tag_accuracy'] == 100.0 and accuracy['tag_scored'] == 50.0


def test_accuracy():
    got = tagging.TagAccuracy()(['A B', 'A'], ['A A', 'B'])
    assert got == pytest.approx(
        {
            'tag_accuracy': 100 / 3, 'tag_scored': 100.0, 'tag_accuracy_A': 50.0,
            'tag_accuracy_B': 0.0,
        },
        rel=REL,
    )  # fmt: skip
    assert set(tagging.TagAccuracy(per_tag=False)(['A'], ['A'])) == {'tag_accuracy', 'tag_scored'}
    examples = tagging.TagAccuracy().per_example(['A B', ''], ['A A', ''])
    assert examples == [{'tag_accuracy': 50.0}, {'tag_accuracy': 0.0}]


def test_many_predictions_at_once():
    tags = ['B-A', 'I-A', 'B-B', 'O']
    chunks = tagging.Chunks(tags)
    rng = np.random.default_rng(0)
    gold = np.append(rng.integers(0, 4, 30), -1)
    gold[[7, 19]] = -1
    predicted = np.where(rng.random((3, 2, 31)) < 0.7, gold, rng.integers(0, 4, (3, 2, 31)))
    predicted[..., gold < 0] = -1
    correct, found, right = chunks.compare(gold, predicted)
    scores = tagging.f1(correct.sum(-1), found.sum(-1), right.sum(-1))
    for place in np.ndindex(3, 2):
        texts = [
            [
                ' '.join(tags[i] for i in sentence if i >= 0)
                for sentence in np.split(row, np.flatnonzero(gold < 0))
            ]
            for row in (gold, predicted[place])
        ]
        want = tagging.ChunkF1()(*texts)
        assert want['chunk_f1'] == pytest.approx(100 * scores[0][place], rel=REL)
        assert want['chunk_precision'] == pytest.approx(100 * scores[1][place], rel=REL)
        assert want['chunk_recall'] == pytest.approx(100 * scores[2][place], rel=REL)


def toy_pieces(word):
    """What the recorded cases cut words into: three characters, then ## and three more."""
    return [('##' if i else '') + word[i : i + 3] for i in range(0, len(word), 3)]


def test_golden_places_of_tags(golden):
    """A tag stands at the last piece of its word, if that fits and the tag is scored."""
    for case in golden('fsxlt_tagging/'):
        length = case['inputs']['max_seq_len']
        for words, expected in zip(case['inputs']['sentences'], case['expected'], strict=True):
            pieces = [toy_pieces(word) for word, _ in words]
            flat = [*itertools.chain.from_iterable(pieces)]
            counts = list(map(len, pieces))
            record = {'inputs': ['[CLS]', *flat, '[SEP]'], 'piece_counts': counts}
            kept = ['[CLS]', *flat[: length - 2], '[SEP]']
            assert kept == expected['pieces']
            places = features.tag_places(record, length).tolist()
            tags = (tag for _, tag in words[: len(places)])
            by_place = {
                place: tag
                for place, tag in zip(places, tags, strict=True)
                if tag not in tagging.UNSCORED
            }
            assert [int(i in by_place) for i in range(len(kept))] == expected['is_target']
            assert [by_place.get(i, '<PAD>') for i in range(len(kept))] == expected['tags']
            assert len(by_place) == expected['n_targets']


SENTENCES = st.lists(
    st.lists(st.sampled_from(['B-A', 'I-A', 'B-B', 'O', 'SYM', 'X']), min_size=1, max_size=5),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(SENTENCES)
def test_the_right_tags_are_perfect_unless_nothing_is_inside(sentences):
    texts = [' '.join(tags) for tags in sentences]
    found = tagging.ChunkF1()(texts, texts)['chunk_f1']
    assert found == (0.0 if set(itertools.chain.from_iterable(sentences)) == {'O'} else 100.0)


@settings(deadline=None)
@given(SENTENCES, st.data())
def test_sentences_add_up(sentences, data):
    targets = [' '.join(tags) for tags in sentences]
    predictions = [
        ' '.join(data.draw(st.sampled_from(['B-A', 'I-A', 'O', tag])) for tag in tags)
        for tags in sentences
    ]
    got = tagging.ChunkF1()(targets, predictions)
    assert tagging.ChunkF1()(targets * 2, predictions * 2) == pytest.approx(got, rel=REL)
    swapped = tagging.ChunkF1()(predictions, targets)
    assert swapped['chunk_f1'] == pytest.approx(got['chunk_f1'], rel=REL)
    assert swapped['chunk_recall'] == pytest.approx(got['chunk_precision'], rel=REL)
