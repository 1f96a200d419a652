"""MRS's ROUGE, distinct-n and ranks: by hand, as its code has them, and what always holds."""

import concurrent.futures
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from xlbench import metrics
from xlbench.benchmarks import MRS
from xlbench.metrics import mrs, rouge, words
from xlbench.retrieval.response_set import ResponseSet

REL = 1e-9
WORDS = ['a', 'b', 'a.m.', '.', '...', 'so?', '"', "it's", '«', '»', 'Mr.', '3.5', '\n', '']
TEXTS = st.lists(st.sampled_from(WORDS)).map(' '.join)
REFERENCES = TEXTS.map('see {}'.format)


def score(targets, predictions, **kwargs):
    return mrs.MrsRouge('en', **kwargs)(targets, predictions)


# ---- The official script ----


def golden_metric(case, ngrams):
    flags = [flag for flag in case['inputs']['flags'] if flag != '--ja']
    kwargs = {name[2:]: int(value) for name, value in zip(flags[::2], flags[1::2], strict=True)}
    return mrs.MrsRouge(case['inputs']['lang'], ngrams=ngrams, **kwargs)


@pytest.mark.parametrize(
    ('ngrams', 'key'),
    [('set', 'expected'), ('multiset', 'expected_with_rouge_1.0.0_multiset')],
)
def test_official_script(golden, ngrams, key):
    cases = golden('mrs_eval/')
    assert len(cases) == 16
    for case in cases:
        metric, rows = golden_metric(case, ngrams), case['inputs']['rows']
        expected = dict(case[key])
        best_hyps = expected.pop('best_hyps')
        expected = expected.get('scores', expected)
        best = metric.choose([r['reference'] for r in rows], [r['predictions'] for r in rows])
        assert [row.prediction for row in best if row] == best_hyps, case['name']
        got = metric.summarise(best)
        for name, value in expected.items():
            assert got[name] == pytest.approx(value, rel=REL, abs=1e-12), (case['name'], name)
        if key == 'expected':
            references = [row.reference for row in best if row]
            assert references == case[key]['refs_tokenised'], case['name']


def test_validation_rouge(golden):
    for case in golden('mrs_val_rouge'):
        rows, expected = case['inputs']['rows'], case['expected']
        targets, replies = [r['reference'] for r in rows], [r['replies'] for r in rows]
        metric = metrics.MrsValidationRouge()
        names = ['mrs_validation_rouge_uniform', 'mrs_validation_rouge']
        assert [
            [100.0 * value for value in pair] for pair in expected['per_example_uniform_weight']
        ] == [
            pytest.approx([row[name] for name in names], rel=REL)
            for row in metric.per_example(targets, replies)
        ]
        scores = metric(targets, replies)
        for name, kind in zip(names, ('uniform', 'weight'), strict=True):
            assert scores[name] == pytest.approx(
                100.0 * expected[f'Sentence_ROUGE_{kind}_f'], rel=REL
            )


# ---- By hand ----


def test_by_hand():
    got = score(['a b c d'], [['x', 'a b d']])
    # P = 3/3, 1/2, 0/1; R = 3/4, 1/3, 0/2; the longest common subsequence is a b d.
    f1, f2 = 2 * 0.75 / (1.75 + 1e-8), 2 * (0.5 / 3) / (0.5 + 1 / 3 + 1e-8)
    assert got == pytest.approx(
        {
            'mrs_rouge': 100 * (f1 / 6 + f2 / 3), 'mrs_rouge_1': 100 * f1, 'mrs_rouge_2': 100 * f2,
            'mrs_rouge_3': 0.0, 'mrs_rouge_l': 100 * f1, 'dist_1': 100.0, 'dist_2': 100 * 2 / 3,
        },
        rel=REL,
    )  # fmt: skip


def test_the_sum_decides_and_not_rouge_1():
    best = mrs.MrsRouge('en').choose(['a b c d'], [['d c b a', 'a b c']])
    assert best[0].prediction == 'a b c'


def test_equal_texts():
    # Short texts have no trigrams, and score at most 1/6 and 1/2.
    assert score(['one'], [['one']])['mrs_rouge'] == pytest.approx(100 / 6, rel=1e-7)
    assert score(['one two'], [['one two']])['mrs_rouge'] == pytest.approx(50, rel=1e-7)
    assert 99.999999 < score(['one two three'], [['one two three']])['mrs_rouge'] < 100


def test_sets_and_multisets():
    targets, predictions = ['ha ha ha ha'], [['ha']]
    assert score(targets, predictions)['mrs_rouge_1'] == pytest.approx(100, rel=1e-7)
    counted = score(targets, predictions, ngrams='multiset')
    assert counted['mrs_rouge_1'] == pytest.approx(100 * 2 / 5, rel=1e-7)
    assert counted['mrs_rouge_l'] == pytest.approx(100, rel=1e-7)


def test_words_part_at_every_dot():
    # The dots within '10 a.m.' and '3.5' too; the n-grams run on from one piece to the next.
    assert mrs._sentences("it 's 3.5 . at") == [['it', "'s", '3'], ['5'], ['at']]
    assert mrs._sentences('. . \n') == [[''], ['']]
    assert mrs._sentences('...') == mrs._sentences('') == []
    assert score(['a. b'], [['a b']])['mrs_rouge_2'] == pytest.approx(100, rel=1e-7)


@pytest.mark.parametrize('space', ['\u3000', '\xa0'])
def test_japanese_spaces_are_tokens_as_mecab_has_them(space):
    """Outputs of mecab-python3 1.0.12 with unidic-lite 1.0.8 and -Owakati."""
    split = words.load('ja')
    assert split(f'{space}雨です。') == f'{space} 雨 です 。 \n'
    assert split(f'雨{space}です {space}') == f'雨 {space} です {space} \n'
    assert split(space) == f'{space} \n' and split(' 雨です') == '雨 です \n'
    assert rouge.Tokenizer('japanese').tokenize(f'{space}雨です。') == ['雨', 'です']
    # What stands before the first dot is a sentence of one empty word then, and not nothing.
    assert mrs._sentences(split(f'{space}.a')) == [[''], ['a']]
    texts = [f'{space}. 雨です'], [['.雨です']]
    got = mrs.MrsRouge('ja')(*texts)
    assert got['mrs_rouge_1'] == pytest.approx(80, rel=1e-6)  # Of 3 words 2.


def test_rouge_l_joins_the_words_of_all_sentences():
    # (a b) and (b c) have b in common, (c d) and (b c) c: 2 of the 4 different words a b c d.
    assert mrs._rouge_l([['b', 'c']], [['a', 'b'], ['c', 'd']])[1:] == (1.0, 0.5)


def test_references_that_are_left_out():
    metric = mrs.MrsRouge('en', min_tgt_len=2, max_tgt_len=3)
    targets = ['', '...', '. . .', 'a', 'a b', 'a b c d']
    rows = metric.per_example(targets, [['a b']] * 6)
    assert [bool(row) for row in rows] == [False, False, True, False, True, False]
    assert metric(targets, [['a b']] * 6)['mrs_rouge_1'] == pytest.approx(50, rel=1e-7)


def test_empty_predictions():
    def best(*predictions):
        return mrs.MrsRouge('en').choose(['a b'], [list(predictions)])[0].prediction

    assert best() == best('') == best('', ' ') == best('...', 'x') == '<empty>'
    assert best('', 'a') == 'a'
    assert score(['a b'], [[]])['mrs_rouge'] == 0.0
    assert score(['a b'], ['a b']) == score(['a b'], [['a b']])  # A text is a list of one.


def test_cut_predictions():
    metric = mrs.MrsRouge('en', max_hyp_len=1)
    assert metric.choose(['a b'], [['a b']])[0].prediction == 'a'
    assert metric.choose(['a b'], [['... a b']])[0].rouge['rouge-l'] == (0.0, 0.0, 0.0)


def test_distinct():
    targets, predictions = ['a b', 'c'], [['a b a b'], ['a']]
    assert score(targets, predictions)['dist_1'] == pytest.approx(100 * 2 / 5)
    assert score(targets, predictions)['dist_2'] == pytest.approx(100 * 2 / 5)
    of_bigrams = score(targets, predictions, dist2_denominator='bigrams')
    assert of_bigrams['dist_2'] == pytest.approx(100 * 2 / 3)


def test_validation_rouge_counts_examples_with_three_predictions():
    metric = metrics.MrsValidationRouge()
    assert metric.per_example(['a 12', 'a'], [['x', 'A 3', ''], ['a']]) == [
        pytest.approx({'mrs_validation_rouge': 50, 'mrs_validation_rouge_uniform': 200 / 3}, 1e-5),
        {},
    ]
    assert metric(['.', ''], [['.', '', 'x'], ['', '.', 'x']])['mrs_validation_rouge'] > 0


# ---- Words ----


@pytest.mark.parametrize('lang', MRS.languages)
def test_words_of_every_language_offline(lang):
    tokenize = words.load(lang)
    assert tokenize('abc') in ('abc', 'abc \n')
    assert 'tok:' in words.signature(lang)


def test_english_words():
    tokenize = words.load('sv')
    assert tokenize('i cannot say "no". gonna go') == "i can not say `` no '' . gon na go"
    assert tokenize("c'est « bien » !") == "c'est « bien » !"
    # 'mr.' is an abbreviation; the dot after 'home' ends a sentence though no capital follows.
    assert tokenize('ask mr. x at home. it is 10 a.m. now') == (
        'ask mr. x at home . it is 10 a.m. now'
    )


def test_tokenizing_leaves_the_tables_as_they_are():
    table = words._Zeros(a=1)
    assert table['b'] == 0 and table == {'a': 1}


def test_japanese_words_end_in_a_line_break():
    tokenize = words.load('ja')
    assert tokenize('明日は雨です。') == '明日 は 雨 です 。 \n'
    assert tokenize('') == '\n' and tokenize('...') == '. . . \n'
    # So no Japanese reference is left out, and the piece after a dot is a token.
    assert mrs.MrsRouge('ja')(['...'], [['...']])['mrs_rouge_1'] == pytest.approx(100, rel=1e-7)


def test_chinese_words():
    assert words.load('zh')('今天天气好 我们。') == '今天天气 好 我们 。'
    assert mrs.MrsRouge('zh')(['今天天气好'], [['今天天气好']])['mrs_rouge_2'] > 99


def test_generic_words():
    assert words.generic('Où es-tu ?') == 'ou es - tu ?'
    assert words.generic(' Yes,\u00a0I am  1234\x00\n') == 'yes , i am 0'
    assert words.generic('ΌΣΟΣ 👩\u200d🚀 ¿$1٣?') == 'οσος 👩\u200d🚀 ¿ $ 0 ?'
    assert words.generic('...') == '. . .' and words.generic(' \t') == ''


def test_threads_agree():
    texts = [f"it's {i}. mr. {i} said no..." for i in range(50)]
    for lang in ('en', 'ja'):
        words.load.cache_clear()
        alone = [words.load(lang)(text) for text in texts]
        words.load.cache_clear()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda text, lang=lang: words.load(lang)(text), texts)) == alone


# ---- What always holds ----


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(REFERENCES, st.lists(TEXTS, max_size=4)), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    st.sampled_from(mrs.NGRAMS),
)
def test_the_order_of_examples_does_not_matter(rows, rng, ngrams):
    scores = score(*zip(*rows, strict=True), ngrams=ngrams)
    assert all(0 <= value <= 100 for value in scores.values())
    rng.shuffle(rows)
    assert score(*zip(*rows, strict=True), ngrams=ngrams) == pytest.approx(scores)


@settings(deadline=None, max_examples=60)
@given(REFERENCES, st.lists(TEXTS, min_size=1, max_size=3), TEXTS, st.sampled_from(mrs.NGRAMS))
def test_one_more_prediction_never_lowers_the_score(target, predictions, one_more, ngrams):
    def of(texts):
        return score([target], [texts], nbest=4, ngrams=ngrams)['mrs_rouge']

    given_texts = list(predictions)
    assert of([*predictions, one_more]) >= of(predictions) == of([*predictions, '', ' '])
    assert of(predictions) == max(of([text]) for text in predictions)
    assert predictions == given_texts
    # What stands behind nbest is not looked at.
    assert score([target], [[*predictions, target]], nbest=len(predictions)) == score(
        [target], [predictions]
    )


@given(st.permutations(range(7)))
def test_common_subsequence_of_different_words_is_a_longest(order):
    ends = []  # ends[i]: of increasing subsequences that end at place i, the length of the longest.
    for i, value in enumerate(order):
        ends.append(1 + max((ends[j] for j in range(i) if order[j] < value), default=0))
    found = mrs._common_subsequence(list(range(7)), order)
    assert len(found) == max(ends)
    assert [x for x in order if x in found] == sorted(found)


# ---- As a metric ----


def test_score_gives_each_metric_what_it_takes():
    targets, n_best = ['a b', 'c d'], [['x', 'a b'], []]
    for metric in (metrics.MrsRouge('en'), metrics.MrsRouge('en', nbest=1), metrics.ChrF()):
        scores, rows = metrics.score(metric, targets, n_best)
        assert len(rows) == 2 and all(math.isfinite(value) for value in scores.values())
    scores, rows = metrics.score(metrics.MrsRouge('en'), targets, n_best)
    assert rows[0]['mrs_rouge'] == pytest.approx(50, rel=1e-7) and rows[1]['mrs_rouge'] == 0.0
    assert scores == metrics.MrsRouge('en')(targets, n_best)
    assert rows == metrics.MrsRouge('en').per_example(targets, n_best)
    assert metrics.score(metrics.MrsRouge('en', nbest=1), targets, n_best)[0]['mrs_rouge'] == 0
    exact = metrics.score(metrics.ChrF(), targets, [['a b', 'x'], ['c d']])[0]
    assert set(exact.values()) == {100.0}


# ---- Ranks ----


def response_set(rows):
    texts = [row['text'] for row in rows]
    return ResponseSet(
        texts,
        np.array([row['lm_score'] for row in rows], np.float32),
        [row['cluster'] for row in rows],
        texts,
        [np.array([i]) for i in range(len(rows))],
    )


@pytest.mark.parametrize('name', ['basic', 'all_missed_floor_is_quarter'])
def test_official_ranking(golden, name):
    (case,) = golden(f'mrs_rank/{name}')
    inputs, expected = case['inputs'], case['expected']
    responses = response_set(inputs['response_set'])
    scores = np.array([example['scores'] for example in inputs['examples']])
    order = np.argsort(-scores, axis=1, kind='stable')
    chosen = [responses.choose(ids, 3) for ids in order[:, : inputs['top_k']].tolist()]
    assert chosen == expected['code_top3_ids']
    assert [[responses.display[i] for i in ids] for ids in chosen] == expected['code_top3_text']
    assert [words.generic(text) for text in responses.texts] == expected['tokenised_responses']

    gold = mrs.gold_ids(responses.texts, [e['reference'] for e in inputs['examples']])
    for found, ids, row in zip(gold, chosen, expected['code_per_example'], strict=True):
        assert (found >= 0) == row['counted']
        if row['counted']:
            assert found == row['gold_id']
            assert mrs.reciprocal_rank(found, ids, 3) == pytest.approx(
                (row['rr'], row['p_at_3']), rel=REL
            )

    inside = np.flatnonzero(gold >= 0)
    got = mrs.suggested_ranks(gold[inside], [chosen[i] for i in inside], len(responses.texts))
    names = {'mrr': 'mrr', 'macro_mrr': 'macro_mrr', 'mrr_f1': 'mrr_f1', 'p_at_k': 'p_at_3'}
    assert got == pytest.approx(
        {f'{names[key]}_code': 100 * value for key, value in expected['code_metrics'].items()},
        rel=REL,
    )

    full = expected['standard_full_ranking']
    ranks = 1 + np.argmax(order[inside] == gold[inside, None], axis=1)
    assert len(ranks) == full['n']
    assert mrs.ranks_in_set(ranks, gold[inside]) == pytest.approx(
        {'set_mrr': 100 * full['mrr'], 'set_p_at_1': 100 * full['p_at_1'],
         'set_macro_mrr': 100 * full['macro_mrr_over_responses_seen']},
        rel=REL,
    )  # fmt: skip


def test_official_reciprocal_rank(golden):
    for case in golden('mrs_rank/compute_metrics'):
        inputs, expected = case['inputs'], case['expected']
        assert mrs.reciprocal_rank(
            inputs['gold_id'], inputs['ranked_ids'], inputs['k']
        ) == pytest.approx((expected['rr'], expected['p_at_k']), rel=REL)


def test_gold_ids():
    responses = ['Yes 25', 'no', 'yes 1234', 'NO']
    assert mrs.gold_ids(responses, ['YES 3', 'No', 'maybe']).tolist() == [0, 1, -1]
    assert mrs.gold_ids([], ['a']).tolist() == [-1]


def test_textbook_by_hand():
    got = mrs.ranks_in_set([1, 4, 2], [7, 7, 3])
    assert got == pytest.approx(
        {'set_mrr': 100 * (1 + 1 / 4 + 1 / 2) / 3, 'set_p_at_1': 100 / 3,
         'set_macro_mrr': 100 * ((1 + 1 / 4) / 2 + 1 / 2) / 2}
    )  # fmt: skip


def test_official_leaves_out_examples_without_three_suggestions():
    got = mrs.suggested_ranks([5, 5, 6], [[5, 1, 2], [5, 1], [1, 6, 2]], 10)
    assert got['mrr_code'] == pytest.approx(75) and got['p_at_3_code'] == 100
    assert got['macro_mrr_code'] == pytest.approx(15)
    assert got['mrr_f1_code'] == pytest.approx(2 * 75 * 15 / 90)
    assert mrs.suggested_ranks([5], [[5]], 10) == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.permutations(range(6)).map(lambda ids: ids[:3])),
        min_size=1,
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_ranked_examples_does_not_matter(rows, rng):
    def scores():
        gold, suggestions = zip(*rows, strict=True)
        ranks = [1 + g for g in gold]
        return mrs.suggested_ranks(gold, suggestions, 6) | mrs.ranks_in_set(ranks, gold)

    before = scores()
    assert all(0 <= value <= 100 for value in before.values())
    # A miss counts as rank 4, and over the whole set unseen responses count as 0.
    assert before['mrr_code'] >= 25 - 1e-9 and before['macro_mrr_code'] <= 100 + 1e-9
    rng.shuffle(rows)
    assert scores() == pytest.approx(before)
