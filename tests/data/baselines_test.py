"""The baselines, on texts that are small enough to work out by hand."""

import functools
import itertools
import random
import time
import timeit

import numpy as np
import pytest

from xlbench.data import baselines
from xlbench.system import errors

PAIRS = [
    ('The old train stopped in Bonn.', 'train stops'),
    ('A red bird sings in the garden.', 'bird sings'),
    ('Der Hund schläft.', 'Hund schläft'),
    ('Another train left Bonn.', 'train stops'),
    ('老师在学校看书', '老师看书'),
    ('孩子在公园唱歌', '孩子唱歌'),
]


def test_copy_input_is_the_text_on_one_line_without_our_markers():
    texts = {
        'Ein  Satz.\nNoch einer. ': 'Ein Satz. Noch einer.', '': '',
        '<de> Rome is old. <answer> Rome': 'Rome is old. Rome',
        'a <b>bold</b> <Word> <3 x': 'a <b>bold</b> <Word> <3 x',
    }  # fmt: skip
    assert baselines.predict('copy_input', [], list(texts)) == [[x] for x in texts.values()]


def test_most_frequent_and_its_ties():
    assert baselines.predict('most_frequent', PAIRS, ['x', 'y']) == [['train stops']] * 2
    assert baselines.predict('most_frequent', PAIRS[1:4], ['x']) == [['bird sings']]


def test_best_constant_is_chosen_by_the_score_among_central_and_frequent_targets():
    """The text nearest to all others is found though it stands once, and nothing equals it."""
    people = ['Anna', 'Ben', 'Chris', 'Dora', 'Eva'] * 12
    targets = [f'What did {name} buy in shop {i}?' for i, name in enumerate(people)]
    targets += ['Who?', 'Who?', 'What did he buy in shop?']
    assert {'What did he buy in shop?', 'Who?'} <= set(baselines.constants(targets))
    pairs = [('x', target) for target in targets]

    def shared(text):
        return sum(len({*text.split()} & {*target.split()}) for target in targets)

    found = baselines.predict('best_constant', pairs, ['y', 'z'], 2, shared)
    assert found[0] == found[1] and len(found[0]) == 2
    assert shared(found[0][0]) >= max(map(shared, baselines.constants(targets)))
    assert found[0][0] != baselines.predict('most_frequent', pairs, ['y'])[0][0] == 'Who?'


def test_several_predictions_are_different():
    assert baselines.predict('copy_input', PAIRS, ['a  b'], 3) == [['a b']]
    found = baselines.predict('most_frequent', PAIRS, ['x', 'y'], 3)
    assert found == [['train stops', 'bird sings', 'Hund schläft']] * 2
    # Both trains have the same target; of what shares nothing, the first come first.
    found = baselines.predict('nearest_input', PAIRS, ['A train in the garden'], 3)
    assert found == [['bird sings', 'train stops', 'Hund schläft']]
    found = baselines.predict('nearest_input', PAIRS, ['nothing', 'Hund'], 99)
    assert found[0] == ['train stops', 'bird sings', 'Hund schläft', '老师看书', '孩子唱歌']
    assert found[1][:2] == ['Hund schläft', 'train stops']
    assert len(found[1]) == 5


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('the train, in BONN', 'train stops'),
        ('die Katze und der hund', 'Hund schläft'),
        ('a BIRD!', 'bird sings'),
        ('学生在学校看书', '老师看书'),
        ('小孩唱歌', '孩子唱歌'),
        ('entirely unrelated', 'train stops'),  # Nothing in common: the first pair.
        ('', 'train stops'),
    ],
)
def test_nearest_input(text, expected):
    assert baselines.predict('nearest_input', PAIRS, [text]) == [[expected]]


def test_nearest_input_finds_every_training_input_itself():
    targets = baselines.predict('nearest_input', PAIRS, [source for source, _ in PAIRS])
    assert targets == [[target] for _, target in PAIRS]


def test_rare_words_count_more_than_frequent_ones():
    pairs = [(f'the man saw the {name}', name) for name in ('dog', 'cat', 'owl')]
    pairs += [('an owl is near', 'near')]
    # The rare word decides, not the three frequent ones.
    assert baselines.predict('nearest_input', pairs, ['the man saw the owl']) == [['owl']]
    assert baselines.predict('nearest_input', pairs, ['an owl, the']) == [['near']]


def _dense_reference(sources, inputs):
    """TF-IDF cosine written out with dense matrices."""
    vocabulary = sorted({word for text in sources for word in baselines.words(text)})

    def counts(texts):
        return np.array([[baselines.words(t).count(w) for w in vocabulary] for t in texts], float)

    train, test = counts(sources), counts(inputs)
    idf = np.log((1 + len(sources)) / (1 + (train > 0).sum(0))) + 1
    train, test = train * idf, test * idf
    train /= np.linalg.norm(train, axis=1, keepdims=True)
    return test @ train.T  # [inputs, sources]; unscaled on the side of the inputs


@pytest.mark.parametrize(('chunk_pairs', 'count'), [(1, 1), (100, 3), (1 << 20, 3)])
def test_nearest_equal_a_dense_reference(monkeypatch, chunk_pairs, count):
    """Of several pairs with one target the nearest counts."""
    monkeypatch.setattr(baselines, '_CHUNK_PAIRS', chunk_pairs)
    rng = random.Random(0)

    def text():
        return ' '.join(rng.choices('abcdefghijklmno', range(1, 16), k=rng.randint(1, 12)))

    pairs = [(text(), str(rng.randint(0, 19))) for _ in range(60)]
    inputs = [text() for _ in range(30)]
    similarity = _dense_reference([source for source, _ in pairs], inputs)
    answers = baselines.predict('nearest_input', pairs, inputs, count)
    for row, found in zip(similarity, answers, strict=True):
        best = {}
        for value, (_, target) in zip(row, pairs, strict=True):
            best[target] = max(value, best.get(target, -1.0))
        expected = sorted(best.values(), reverse=True)[:count]
        np.testing.assert_allclose([best[target] for target in found], expected, rtol=1e-5)


def test_a_full_sample_task_is_fast():
    rng = random.Random(0)
    vocabulary = [f'word{i}' for i in range(3000)]
    weights = [1 / (i + 1) for i in range(3000)]
    texts = [' '.join(rng.choices(vocabulary, weights, k=60)) for _ in range(2750)]
    pairs = [(text, str(i)) for i, text in enumerate(texts[:2500])]
    predict = functools.partial(baselines.predict, 'nearest_input', pairs, texts[2500:])
    seconds = timeit.repeat(predict, timer=time.process_time, number=1, repeat=3)
    # About 0.2 s of a core; the best of three, with room for a slower one.
    assert min(seconds) < 1.0


def test_words():
    assert baselines.words('Der Zug, 1. Klasse') == ['der', 'zug', '1', 'klasse']
    assert baselines.words('新しいcarです') == ['新', 'し', 'い', 'car', 'で', 'す']
    assert baselines.words('हिन्दी भाषा') == ['हिन्दी', 'भाषा']  # Vowel signs stay in their word.
    assert baselines.words(' _-! ') == []


TALK = '<de> Anna: Hi! We plan a walk.\r\nBen: It is late, and rains: again.\r\nAnna: See you.'


@pytest.mark.parametrize(
    ('name', 'text', 'expected'),
    [
        ('first_sentences', TALK, 'Anna: Hi! We plan a walk. Ben: It is late, and rains: again.'),
        ('first_sentences', 'One line. Of 3.5 m?', 'One line. Of 3.5 m?'),
        ('first_sentences', '今天下雨。明天不下。后天也不。好', '今天下雨。明天不下。后天也不。'),
        ('first_sentences', 'a\n\n b\nc\nd', 'a b c'),
        ('first_sentences', ' ', ''),
        ('longest_utterance', TALK, 'It is late, and rains: again.'),
        ('longest_utterance', 'ANNA SMITH, HOST: Hello.\nBEN: Yes.', 'Hello.'),
        ('longest_utterance', '安娜：今天下雨。\n本：好。', '今天下雨。'),
        ('longest_utterance', 'No speaker. Here: one', 'No speaker. Here: one'),
        ('longest_utterance', 'a b\nc d', 'a b'),
        ('longest_utterance', '', ''),
    ],
)
def test_parts_of_the_input(name, text, expected):
    assert baselines.predict(name, [], [text], 3) == [[expected]]


def test_mistakes():
    with pytest.raises(errors.UserError, match="unknown baseline 'nearest'; nearest: nearest_i"):
        baselines.predict('nearest', PAIRS, ['x'])
    for name in ('most_frequent', 'nearest_input'):
        with pytest.raises(errors.UserError, match='needs training examples'):
            baselines.predict(name, [], ['x'])
        assert baselines.predict(name, PAIRS, []) == []


def test_training_inputs_without_words_do_no_harm():
    pairs = [('...', 'dots'), ('a b', 'letters')]
    assert baselines.predict('nearest_input', pairs, ['b', '?']) == [['letters'], ['dots']]
    assert baselines.predict('nearest_input', [('', 'empty')], ['b']) == [['empty']]


TRANSLATIONS = [
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
    learnt = baselines.learn_lexicon(TRANSLATIONS)
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
        for source, target in TRANSLATIONS
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
    learnt = baselines.learn_lexicon(TRANSLATIONS)
    for word, others in itertools.groupby(sorted(table), key=lambda pair: pair[0]):
        best = max(table[pair] for pair in others)
        assert word == '' or np.isclose(table[word, learnt[word]], best)


def test_the_baseline_learns_from_training_pairs_alone():
    out = baselines.predict('word_by_word', TRANSLATIONS, ['<de> The child is old.', ''], count=3)
    assert out == [['das Kind ist alt.'], ['']]
    with pytest.raises(errors.UserError, match="baseline 'word_by_word' needs training examples"):
        baselines.predict('word_by_word', [], ['a'])
