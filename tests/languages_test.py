"""The table of languages: complete for the benchmarks, and right where others rely on it."""

import pytest

from xlbench import benchmarks, errors, languages


def test_every_benchmark_language_has_a_row():
    for benchmark in benchmarks.BENCHMARKS.values():
        for code in benchmark.languages:
            assert languages.get(code).code == code


@pytest.mark.parametrize(
    ('code', 'name', 'mbart', 'direction', 'spaces'),
    [
        ('de', 'german', 'de_DE', 'ltr', True),
        ('en', 'english', 'en_XX', 'ltr', True),
        ('zh', 'chinese', 'zh_CN', 'ltr', False),
        ('ja', 'japanese', 'ja_XX', 'ltr', False),
        ('th', 'thai', 'th_TH', 'ltr', False),
        ('ko', 'korean', 'ko_KR', 'ltr', True),
        ('ar', 'arabic', 'ar_AR', 'rtl', True),
        ('ur', 'urdu', 'ur_PK', 'rtl', True),
        ('he', 'hebrew', 'he_IL', 'rtl', True),
        ('el', 'greek', None, 'ltr', True),
    ],
)
def test_rows(code, name, mbart, direction, spaces):
    language = languages.LANGUAGES[code]
    assert (language.name, language.mbart) == (name, mbart)
    assert (language.direction, language.spaces) == (direction, spaces)


def test_codes_and_names_are_unique():
    rows = languages.LANGUAGES.values()
    assert len({row.name for row in rows}) == len(languages.LANGUAGES) == 61
    # mBART-50 has 52 language tokens, one each; all are here.
    assert len({row.mbart for row in rows} - {None}) == 52


def test_iso_639_3_codes():
    known = {'de': 'deu', 'zh': 'zho', 'fa': 'fas', 'nl': 'nld', 'el': 'ell', 'ja': 'jpn'}
    assert {code: languages.get(code).alpha3 for code in known} == known
    assert len({row.alpha3 for row in languages.LANGUAGES.values()}) == len(languages.LANGUAGES)


def test_new_languages_go_to_the_end():
    """A language's place is its [unusedN] in multilingual BERT, of checkpoints that are there."""
    codes = list(languages.LANGUAGES)
    assert (codes[0], codes[7], codes[15], codes[60]) == ('af', 'de', 'fr', 'zh')
    assert codes[:61] == sorted(codes[:61])


def test_stemmer_names_are_known():
    # NLTK's Snowball stemmers and the scorer's own, which are chosen by these names.
    stemmed = 'arabic danish dutch english finnish french german hungarian italian norwegian'
    stemmed += ' portuguese romanian russian spanish swedish hindi bengali turkish'
    assert set(stemmed.split()) <= {row.name for row in languages.LANGUAGES.values()}


def test_an_unknown_code_is_a_user_error():
    with pytest.raises(errors.UserError, match=r"unknown language 'german'.*code"):
        languages.get('german')


def test_features_of_word_order_are_the_forty_of_the_few_shot_paper():
    assert set(languages.WALS) == set(benchmarks.FEWSHOT.languages)
    assert {len(features) for features in languages.WALS.values()} == {6}
    assert languages.WALS['de'] == ('none', 'prep', 'noun-gen', 'adj-noun', 'dem-noun', 'num-noun')
    assert languages.WALS['my'][3:] == ('noun-adj', 'dem-noun', 'noun-num')
    unknown = [code for code, features in languages.WALS.items() if '-' in features]
    assert unknown == ['af', 'bn', 'jv', 'kk', 'ml', 'ms', 'pt', 'tl']


@pytest.mark.parametrize(
    ('code', 'count'),
    [
        ('en', 6),
        ('bg', 6),  # The same in all, no dominant order of genitive and noun included.
        ('ru', 5),
        ('de', 4),
        ('ja', 3),  # Only the order of adjective, demonstrative and numeral.
        ('eu', 1),
        ('pt', 3),  # Of five: one is unknown.
        ('bn', 0),  # Of one.
        ('af', None),  # Of none.
        ('cs', None),  # No language of the paper.
    ],
)
def test_features_shared_with_english(code, count):
    assert languages.shared_features(code) == count


def test_features_are_shared_both_ways():
    assert languages.shared_features('ja', 'ko') == languages.shared_features('ko', 'ja') == 6
