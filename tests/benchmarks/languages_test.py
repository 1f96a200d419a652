"""The table of languages: complete for the benchmarks, and right where others rely on it."""

import json

import own_task_file
import pytest

from xlbench import benchmarks
from xlbench.benchmarks import languages, task_files
from xlbench.metrics import Distinct, MrsRouge, MultilingualRouge, SacreBleu, words
from xlbench.system import errors


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
    assert len({row.name for row in rows}) == len({row.alpha3 for row in rows}) == len(rows)
    assert len(languages.TABLE) == 72
    # mBART-50 has 52 language tokens, one each; all are here.
    assert len({row.mbart for row in rows} - {None}) == 52
    known = {'de': 'deu', 'zh': 'zho', 'fa': 'fas', 'nl': 'nld', 'el': 'ell', 'ja': 'jpn'}
    assert {code: languages.get(code).alpha3 for code in known} == known


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
        # In Bulgarian no order of genitive and noun is dominant, as in English.
        ('en', 6), ('bg', 6), ('ru', 5), ('de', 4), ('eu', 1),
        ('ja', 3),  # Only the order of adjective, demonstrative and numeral.
        ('pt', 3), ('bn', 0), ('af', None),  # Of five, of one, of none: the others are unknown.
        ('cs', None),  # No language of the paper.
    ],
)  # fmt: skip
def test_features_shared_with_english(code, count):
    assert languages.shared_features(code) == count
    assert languages.shared_features('ja', 'ko') == languages.shared_features('ko', 'ja') == 6


@pytest.fixture
def forget():
    """Languages that a test registers are gone afterwards, and what metrics know of them."""
    with own_task_file.languages_forgotten():
        yield
    words.segmenter.cache_clear()
    words.load.cache_clear()


def test_a_language_is_registered_with_a_call(forget):
    with pytest.raises(errors.UserError, match=r"unknown language 'german'.*code"):
        languages.get('german')
    with pytest.raises(errors.UserError, match=r"unknown language 'lo'.*languages.register\("):
        languages.get('lo')
    languages.register('lo', 'lao', 'lao', segmenter='characters')
    languages.register('cy', 'welsh', 'latin', family='celtic', alpha3='cym')
    languages.register('yue', 'cantonese', 'han', segmenter='zh')
    languages.register('sd', 'sindhi', 'arabic')
    assert [languages.get(code).spaces for code in ('lo', 'cy', 'yue')] == [False, True, False]
    assert (languages.get('cy').alpha3, languages.get('yue').alpha3) == ('cym', 'yue')
    assert (languages.get('lo').direction, languages.get('sd').direction) == ('ltr', 'rtl')
    # Metrics part texts as they were told: no two syllables of Lao have a space between them.
    lao = ['ສະບາຍດີ'], ['ສະບາຍ']
    scores = MultilingualRouge('lo')(*lao)
    assert 0 < scores['rouge_l'] < 100 and 'tok:characters' in MultilingualRouge('lo').signature
    assert 0 < MrsRouge('lo')(*lao)['mrs_rouge'] < 100
    assert SacreBleu.for_language('lo').tokenize == 'char'
    assert Distinct.for_language('lo').tokenize == 'characters'
    assert MultilingualRouge('yue').signature.count('jieba') == 1
    assert MultilingualRouge('cy')(['bore da'], ['bore'])['rouge_1'] == pytest.approx(200 / 3)
    # The tokens of multilingual BERT stay where they are.
    assert tuple(languages.LANGUAGES)[:72] == languages.TABLE


def test_a_registered_language_is_kept_as_json_and_comes_back(forget):
    languages.register('lo', 'lao', 'lao', segmenter='characters')
    languages.register('cy', 'welsh', 'latin')
    kept = json.loads(json.dumps(languages.registered(['de', 'lo', None, 'lo'])))
    assert [row['code'] for row in kept] == ['lo']
    before = languages.LANGUAGES.pop('lo')
    languages.restore(kept)
    languages.restore(None)
    assert languages.get('lo') == before
    # What a file says does not replace what this process has registered.
    languages.restore([kept[0] | {'segmenter': 'spaces'}])
    assert languages.get('lo') == before
    unsafe = kept[0] | {'code': 'xx', 'segmenter': 'os:system()'}
    for strange in ([{'code': 'xx'}], [unsafe], [3], [kept[0] | {'code': []}]):
        with pytest.raises(errors.UserError, match=r'of a language|is not a language'):
            languages.restore(strange)
    # A function that only a file names is not imported.
    languages.restore([kept[0] | {'code': 'xx', 'name': 'x', 'segmenter': 'shutil:rmtree'}])
    with pytest.raises(errors.UserError, match='may not be loaded'):
        MultilingualRouge('xx')(['a'], ['a'])


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('de', 'deutsch', 'latin'), 'de is in the table already'),
        (('xx', 'german', 'latin'), 'german is the language de already'),
        (('lao', 'Lao', 'lao'), "name 'Lao' of a language is empty or not in small letters"),
        (('Lao', 'lao', 'lao'), "code 'Lao' of a language"),
    ],
)
def test_mistakes_in_a_registered_language(forget, arguments, message):
    with pytest.raises(errors.UserError, match=message):
        languages.register(*arguments)
    with pytest.raises(errors.UserError, match="unknown segmenter of xx 'character'; nearest"):
        languages.register('xx', 'x', 'latin', segmenter='character')


def test_a_segmenter_can_be_a_function_of_a_task_file(forget, tmp_path, monkeypatch):
    (tmp_path / 'lo.py').write_text(
        'from xlbench.benchmarks import languages\n\n\n'
        'def syllables(text):\n    return [text[i : i + 3] for i in range(0, len(text), 3)]\n\n\n'
        "languages.register('lo', 'lao', 'lao', segmenter=syllables)\n"
    )
    monkeypatch.setenv('XLBENCH_TASKS', str(tmp_path))
    task_files.load(task_files.find('lo'))
    assert languages.get('lo').segmenter == 'tasks/lo.py:syllables'
    metric = MultilingualRouge('lo')
    assert metric(['abcdef'], ['abcxyz'])['rouge_1'] == pytest.approx(50)
    assert 'tok:tasks/lo.py:syllables-file:' in metric.signature
