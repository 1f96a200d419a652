"""BLEU, chrF, chrF++ and TER: hand-worked numbers, tokenizers, mistakes."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from xlbench.metrics import bleu

REL = 1e-9
FIVE = 'der Zug kommt heute an'


@pytest.mark.parametrize(
    ('metric', 'target', 'prediction', 'score'),
    [
        (bleu.SacreBleu(), FIVE, FIVE, 100.0),
        (bleu.ChrF(), FIVE, FIVE, 100.0),
        (bleu.SacreBleu(), 'ein Zug', 'ein Zug', 0.0),  # Too short, as sacrebleu has it.
        # 6 words against 7 with one wrong at the end: 5/6, 4/5, 3/4, 2/3 of n-grams match, and the
        # prediction is shorter: brevity penalty exp(1 - 7/6).
        (bleu.SacreBleu(), 'a b c d e f g', 'a b c d e x',
         100 * math.exp(1 - 7 / 6) * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25),
        # Chinese is cut into characters, of which 6 of 7 match.
        (bleu.SacreBleu.for_language('zh'), '我们去公园看花', '我们去公园看书',
         100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25),
        # One of two characters and one of two words, no pair of either: the order of characters
        # that both have is 2, so that four of precision and recall are 1/2, 0, 1/2, 0.
        (bleu.ChrFPlusPlus(), 'a c', 'a b', 25.0),
        (bleu.ChrF(word_order=2), 'a c', 'a b', 25.0),
        (bleu.Ter.for_language('zh'), '我们去公园', '我们去学校', 40.0),  # Of characters.
    ],
)  # fmt: skip
def test_by_hand(metric, target, prediction, score):
    assert [*metric([target], [prediction]).values()] == pytest.approx([score], rel=REL)


def test_signatures_and_what_is_far():
    assert '|nw:2|' in bleu.ChrFPlusPlus().signature
    assert '|norm:yes|' in bleu.Ter.for_language('zh').signature
    assert bleu.Ter.for_language('de') == bleu.Ter()
    assert bleu.SacreBleu()([FIVE], [FIVE.upper()])['bleu'] < 50
    assert bleu.SacreBleu()(['我们去公园看花'], ['我们去公园看书'])['bleu'] < 1.0
    [sentence] = bleu.SacreBleu().per_example(['ein Zug'], ['ein Zug'])
    assert sentence['bleu'] == pytest.approx(100.0, rel=REL)


def test_corpus_is_not_the_mean_of_sentences():
    targets, predictions = [FIVE, 'a b c d'], [FIVE, 'x y z w']
    metric = bleu.SacreBleu()
    sentences = [score['bleu'] for score in metric.per_example(targets, predictions)]
    assert sentences[0] == pytest.approx(100.0, rel=REL)
    # 5/9, 4/7, 3/5 and 2/3 of n-grams match in the whole corpus; the lengths are equal.
    expected = 100 * (5 / 9 * 4 / 7 * 3 / 5 * 2 / 3) ** 0.25
    assert metric(targets, predictions)['bleu'] == pytest.approx(expected, rel=REL)


def test_chrf_by_hand():
    # Against 'abcd', 'abc' has precision 1 for n = 1, 2, 3 and recall 3/4, 2/3, 1/2; longer n do
    # not occur in it. Means: P = 1, R = 23/36; F2 = 5PR / (4P + R).
    p, r = 1.0, (3 / 4 + 2 / 3 + 1 / 2) / 3
    expected = 100 * 5 * p * r / (4 * p + r)
    [sentence] = bleu.ChrF().per_example(['abcd'], ['abc'])
    assert sentence['chrf'] == pytest.approx(expected, rel=REL)


@pytest.mark.parametrize('lang, tokenize', [('de', '13a'), ('zh', 'zh'), ('ja', 'char')])
def test_tokenizer_of_a_language(lang, tokenize):
    assert bleu.SacreBleu.for_language(lang).tokenize == tokenize


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=['Cs']), max_size=20),
            st.text('ab 。!', max_size=9),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_bounds(texts):
    targets, predictions = map(list, zip(*texts, strict=True))
    for metric in (bleu.SacreBleu(), bleu.SacreBleu('zh'), bleu.ChrF()):
        rows = [metric(targets, predictions), *metric.per_example(targets, predictions)]
        assert all(0.0 <= value <= 100.0 + 1e-9 for row in rows for value in row.values())


def test_ter_by_hand():
    # A block that moves is one edit, of 4 words; a substitution one of 3.
    metric = bleu.Ter()
    targets, predictions = ['a b c d', 'x y z'], ['c d a b', 'X y w']
    assert [row['ter'] for row in metric.per_example(targets, predictions)] == pytest.approx(
        [100 / 4, 100 / 3], rel=REL
    )
    assert metric(targets, predictions)['ter'] == pytest.approx(100 * 2 / 7, rel=REL)
    assert bleu.Ter(case_sensitive=True)(targets, predictions)['ter'] == pytest.approx(100 * 3 / 7)
    assert metric([['a b', 'a b c d']], ['a b c'])['ter'] == pytest.approx(100 / 3, rel=REL)
    assert metric(['a'], ['b c d'])['ter'] == pytest.approx(300.0, rel=REL)
