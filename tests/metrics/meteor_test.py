"""METEOR 1.5: numbers of the Java program, and of tables made here."""

import gzip
import zipfile

import pytest

from xlbench.metrics import suite as suite_lib
from xlbench.metrics.meteor import Meteor, alignment, metric as metric_lib, tables
from xlbench.metrics.meteor.settings import Statistics
from xlbench.system import errors

# Of the Java program with -m 'exact stem', and -norm where it has it: texts, the segments' scores
# and the corpus's. No text depends on the lists of prefixes in its jar.
OF_JAVA = {
    'en': (
        [
            (
                "Dr. Weber closes the old mills, doesn't he?",
                "The doctor closed an old mill; didn't he?",
            ),
            (
                'the river rose and the bridge was closed',
                'the bridge was closed because the river rose',
            ),
            ('A ferry!', ''),
        ],
        [0.21362789435718432, 0.4516759958214386, 0.0],
        0.30261804276872983,
    ),
    'de': (
        [
            (
                'Der Müller öffnete um 7 Uhr die alten Türen, z.B. das Tor.',
                'Die alte Tür öffnet der Müller um 7 Uhr.',
            ),
            ('Es regnet.', 'Es regnete gestern nicht.'),
        ],
        [0.6677111716621253, 0.3514450867052022],
        0.5656837606837606,
    ),
    'fr': (
        [
            (
                "L'eau de la rivière montait jusqu'au pont.",
                "L'eau des rivières monte au pont d'hier.",
            ),
            ('Il pleut', 'Il pleuvait fort'),
        ],
        [0.41623000002875654, 0.13793103448275862],
        0.36347078907415037,
    ),
    'es': (
        [
            ('¿Cerraron los puentes viejos?', 'Cerraron el puente viejo ayer.'),
            ('La lluvia cae', 'Llueve'),
        ],
        [0.34906568364644786, 0.0],
        0.26368271066818,
    ),
    'ru': (
        [('Река поднялась, и мост закрыли.', 'Мост закрыт: реки поднялись.'), ('Дождь', 'Дожди')],
        [0.36826658062068707, 0.5],
        0.4053790901300305,
    ),
    'it': (
        [('il ponte vecchio è chiuso .', 'i ponti vecchi sono chiusi .'), ('piove', 'pioverà')],
        [0.30614566702528345, 0.5],
        0.345394047392811,
    ),
}  # fmt: skip


@pytest.fixture
def no_jar(monkeypatch):
    monkeypatch.delenv(tables.VARIABLE, raising=False)
    monkeypatch.setattr(tables, '_PACKAGE', 'xlbench_no_such_package')


@pytest.fixture
def jar(tmp_path, monkeypatch):
    """A folder with tables of a few words in METEOR's form."""
    with zipfile.ZipFile(tmp_path / 'meteor-1.5.jar', 'w') as archive:
        archive.writestr('synonym/english.synsets', 'boat\n7\nferry\n1 7\ncat\n2\nox\n3\n')
        archive.writestr('synonym/english.exceptions', 'ox\noxen\n')
        archive.writestr(
            'nonbreaking/english.prefixes', '# those of tests\nMr\nNo #NUMERIC_ONLY#\n'
        )
    (tmp_path / 'data').mkdir()
    write_table(tmp_path / 'data/paraphrase-en.gz', [('as well as', 'and'), ('big', 'very large')])
    monkeypatch.setenv(tables.VARIABLE, str(tmp_path))
    return tmp_path


def write_table(path, rows):
    with gzip.open(path, 'wt') as file:
        file.writelines(f'0.5\n{phrase}\n{paraphrase}\n' for phrase, paraphrase in rows)


@pytest.mark.usefixtures('no_jar')
@pytest.mark.parametrize('lang', OF_JAVA)
def test_equals_the_java_program(lang):
    texts, segments, system = OF_JAVA[lang]
    metric = Meteor.without_tables(lang)
    scores, rows = metric.with_examples([r for _, r in texts], [h for h, _ in texts])
    # Its lists of prefixes were not there; Italian has none, and stems are all it has.
    name = 'meteor' if lang == 'it' else 'meteor_exact_stem_no_tables'
    assert scores == {name: pytest.approx(100 * system, rel=1e-9)}
    assert [row[name] for row in rows] == pytest.approx([100 * x for x in segments], rel=1e-9)
    assert ('prefixes:own' in metric.signature) == (lang != 'it')


@pytest.mark.usefixtures('jar')
def test_score_by_hand():
    # All of 'the old boat' and of 'the old ferry' match, the last word as a synonym with weight
    # 0.8: with one of three words a function word, (2 * 0.75 + 0.25 - 0.2 * 0.75) / 1.75.
    metric = Meteor('en')
    [one] = metric.statistics(['the old ferry'], ['the old boats'])
    none = (0, 0, 0, 0)
    modules = (1, 1, 1, 1), none, (1, 1, 0, 0), none
    assert one == Statistics((2, 2, 1, 1), modules, 1, (3, 3), 0)
    expected = (0.25 + 0.75 + 0.8 * 0.75) / 1.75
    scores = metric(['the old ferry'], ['the old boats'])
    assert scores == {'meteor': pytest.approx(100 * expected, rel=1e-9)}
    assert 'synonyms:wordnet-3.0|paraphrases:paraphrase-en.gz|prefixes:meteor' in metric.signature


@pytest.mark.usefixtures('jar')
def test_paraphrases_of_several_words():
    metric = Meteor('en', text='lower')
    [one] = metric.statistics(['a big cat and an ox'], ['a very large cat as well as an ox'])
    matched = 9, 6
    assert one.matched == matched and one.chunks == 1
    # Content: very, large and well; big. Function words: as, as; and.
    assert one.modules[3] == (3, 1, 2, 1)
    irregular = Meteor('en', modules=('synonym',), text='lower')
    assert irregular(['ox'], ['oxen'])['meteor_synonym'] > 0
    assert irregular(['ox'], ['ox'])['meteor_synonym'] == 0  # Equal words are no synonyms.


@pytest.mark.usefixtures('jar')
def test_the_better_reference_counts_and_segments_add_up():
    metric = Meteor('en', modules=('exact',), text='lower')
    rows = metric.per_example([['a b c', 'a x'], 'p q'], ['a b c', 'p z'])
    name = 'meteor_exact'
    assert rows[0][name] == pytest.approx(100.0)
    # Content words a b c, p q and p z (a is a function word): 3 of 4, in one chunk that counts.
    sides = (0.25 + 3 * 0.75) / (0.25 + 4 * 0.75)
    penalty = 0.6 * (1 / 4) ** 0.2
    total = metric([['a b c', 'a x'], 'p q'], ['a b c', 'p z'])[name]
    assert total == pytest.approx(100 * sides * (1 - penalty), rel=1e-9)
    assert metric(['a b'], [''])[name] == 0.0


def test_a_match_that_is_not_exact_adds_its_half_cut():
    rows = [('a b', 'c'), ('d', 'e f g')]
    match = alignment.Paraphrases(rows)
    gains = [m.gain for m in match(['c', 'x', 'd'], list('abxefg'), 0)]
    assert gains == [1, 1]


@pytest.mark.parametrize(
    ('text', 'lang', 'words'),
    [
        ("Don't! It's the 1990's", 'en', "don 't ! it 's the 1990 's"),
        ("L'eau d'hier", 'fr', "l' eau d' hier"),
        ("L'eau", 'de', "l ' eau"),
        ('U.S. costs 5,000 to 6,x', 'en', 'us costs 5,000 to 6 , x'),
        ('No. 5, No. way. Mr. Fox', 'en', 'no. 5 , no. way . mr. fox'),
        ('No. Way ... well-known--so', 'en', 'no . way ... well known so'),
        ('“ja”\u3000‘nein’', 'ru', '" ja " \' nein \''),
    ],
)
def test_normalisation(text, lang, words):
    prefixes = {'Mr': False, 'No': True}
    assert metric_lib.normalize(text, lang, prefixes) == words


def test_normalisation_without_punctuation():
    assert metric_lib.normalize("It's A-1!", 'en', {}, keep_marks=False) == 'it s a 1'


@pytest.mark.usefixtures('no_jar')
def test_what_is_missing_is_said_before_anything_is_scored():
    for lang, what in (('en', 'pip install --no-deps'), ('de', 'paraphrase-de.gz')):
        [line] = Meteor(lang).missing()
        assert what in line and tables.VARIABLE in line
        with pytest.raises(errors.UserError, match=r'METEOR needs'):
            Meteor(lang)(['a'], ['a'])
    assert not Meteor('it').missing()


def test_files_that_are_not_meteors(tmp_path, monkeypatch):
    monkeypatch.setenv(tables.VARIABLE, str(tmp_path))
    with pytest.raises(errors.UserError, match=r'holds no meteor-1.5.jar'):
        Meteor('en').signature  # noqa: B018
    (tmp_path / 'meteor-1.5.jar').write_bytes(b'no zip')
    with pytest.raises(errors.UserError, match=r'is not meteor-1.5.jar'):
        Meteor('en', modules=('synonym',))(['a'], ['b'])
    table = tmp_path / 'table.gz'
    for content in (b'no gzip', gzip.compress(b'0.5\na\n')):
        table.write_bytes(content)
        with pytest.raises(errors.UserError, match=r'is not a table of paraphrases'):
            Meteor('de', modules=('paraphrase',), text='raw', paraphrases=str(table))(['a'], ['b'])


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(lang='zh'), "unknown language of METEOR 'zh'"),
        (dict(lang='de', task='adq'), 'no parameters for task'),
        (dict(lang='it', text='norm'), 'cannot normalise it'),
        (dict(lang='de', modules=('synonym',)), 'synonyms of English only'),
        (dict(lang='tr'), 'stems of tr'),
        (dict(lang='en', parameters=(1, 2)), '4 parameters'),
    ],
)
def test_what_the_tool_does_not_have_is_refused(arguments, message):
    with pytest.raises(errors.UserError, match=message):
        Meteor(**arguments)


def test_named():
    assert suite_lib.named('meteor', 'de')['kwargs']['lang'] == 'de'
    assert suite_lib.named('meteor_exact_stem', 'cs')['kwargs']['modules'] == ('exact',)
