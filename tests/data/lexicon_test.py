"""Tests of the lexicon in xlbench/data/baselines.py and of the baseline that translates by it."""

import itertools

import numpy as np
import pytest

from xlbench.data import baselines
from xlbench.system import errors

PAIRS = [
    ('the house is big.', 'das Haus ist groß.'),
    ('the house is old!', 'das Haus ist alt!'),
    ('a child is big', 'ein Kind ist groß'),
    ('the child, the house', 'das Kind, das Haus'),
    ('The child', 'das Kind'),
    ('old. big!', 'alt. groß!'),
    ('Is it old? it is.', 'ist es alt? es ist.'),
]


def test_words_and_signs_are_taken_apart_and_put_together():
    cases = {
        'Das geht, oder?': ['Das', 'geht', ',', 'oder', '?'],
        "don't (yet)": ["don't", '(', 'yet', ')'],
        '我们走。': ['我们', '走', '。'],
        'ใช่ 3': ['ใ', 'ช', '่', '3'],
    }
    for text, words in cases.items():
        assert baselines.words_and_signs(text) == words
        if not text.startswith('ใ'):
            assert baselines.join_words(words) == text
    assert baselines.words_and_signs('') == [] and baselines.join_words([]) == ''


def test_a_lexicon_knows_what_each_word_becomes():
    learnt = baselines.learn_lexicon(PAIRS)
    assert learnt['house'] == 'Haus' and learnt['child'] == 'Kind' and learnt['big'] == 'groß'
    assert baselines.translate_words('Is the child old.', learnt) == 'ist das Kind alt.'
    assert baselines.translate_words('blue', learnt) == 'blue'
    assert baselines.learn_lexicon([]) == {}
    chinese = baselines.learn_lexicon([('tea', '茶'), ('good tea', '好茶'), ('good', '好')])
    assert baselines.translate_words('good tea', chinese) == '好茶'


def test_probabilities_are_those_of_model_1():
    """Expectation maximisation by loops over a dictionary, as the paper writes it."""
    texts = [
        (['', *baselines.words_and_signs(source.lower())], baselines.words_and_signs(target))
        for source, target in PAIRS
    ]
    table = {(s, t): 1.0 for source, target in texts for s in source for t in target}
    for _ in range(baselines.ROUNDS):
        counts = dict.fromkeys(table, 0.0)
        for source, target in texts:
            for word in target:
                total = sum(table[other, word] for other in source)
                for other in source:
                    counts[other, word] += table[other, word] / total
        sums = {s: sum(c for (x, _), c in counts.items() if x == s) for s, _ in counts}
        table = {(s, t): count / sums[s] for (s, t), count in counts.items()}
    learnt = baselines.learn_lexicon(PAIRS)
    for word, others in itertools.groupby(sorted(table), key=lambda pair: pair[0]):
        best = max(table[pair] for pair in others)
        assert word == '' or np.isclose(table[word, learnt[word]], best)


def test_the_baseline_learns_from_training_pairs_alone():
    out = baselines.predict('word_by_word', PAIRS, ['<de> The child is old.', ''], count=3)
    assert out == [['das Kind ist alt.'], ['']]
    with pytest.raises(errors.UserError, match="baseline 'word_by_word' needs training examples"):
        baselines.predict('word_by_word', [], ['a'])
