"""METEOR 1.5: numbers of the Java program, of tables made here, and of a straight aligner."""

import dataclasses
import gzip
import random
import zipfile

import pytest
from nightly import by_day

from xlbench.metrics import suite as suite_lib
from xlbench.metrics.meteor import Meteor, alignment, metric as metric_lib, tables
from xlbench.metrics.meteor.metric import Statistics
from xlbench.system import errors

# Of the Java program with -m 'exact stem', and -norm where it has it: texts, the segments' scores
# and the corpus's. No text depends on the lists of prefixes in its jar.
OF_JAVA = {
    'en': (
        [
            ("Dr. Weber closes the old mills, doesn't he?",
             "The doctor closed an old mill; didn't he?"),
            ('the river rose and the bridge was closed',
             'the bridge was closed because the river rose'),
            ('A ferry!', ''),
        ],
        [0.21362789435718432, 0.4516759958214386, 0.0],
        0.30261804276872983,
    ),
    'de': (
        [
            ('Der Müller öffnete um 7 Uhr die alten Türen, z.B. das Tor.',
             'Die alte Tür öffnet der Müller um 7 Uhr.'),
            ('Es regnet.', 'Es regnete gestern nicht.'),
        ],
        [0.6677111716621253, 0.3514450867052022],
        0.5656837606837606,
    ),
    'fr': (
        [
            ("L'eau de la rivière montait jusqu'au pont.",
             "L'eau des rivières monte au pont d'hier."),
            ('Il pleut', 'Il pleuvait fort'),
        ],
        [0.41623000002875654, 0.13793103448275862],
        0.36347078907415037,
    ),
    'es': (
        [('¿Cerraron los puentes viejos?', 'Cerraron el puente viejo ayer.'),
         ('La lluvia cae', 'Llueve')],
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


@pytest.fixture(autouse=True)
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
    assert one == Statistics((2, 2, 1, 1), modules, (3, 3), 0)
    expected = (0.25 + 0.75 + 0.8 * 0.75) / 1.75
    scores = metric(['the old ferry'], ['the old boats'])
    assert scores == {'meteor': pytest.approx(100 * expected, rel=1e-9)}
    assert 'synonyms:wordnet-3.0|paraphrases:paraphrase-en.gz|prefixes:meteor' in metric.signature


@pytest.mark.usefixtures('jar')
def test_paraphrases_of_several_words():
    metric = Meteor('en', text='lower')
    [one] = metric.statistics(['a big cat and an ox'], ['a very large cat as well as an ox'])
    assert one.matched == (9, 6) and one.chunks == 0  # Whole, in one.
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
    match = alignment.paraphrases(rows)
    gains = [m.gain for m in match(['c', 'x', 'd'], list('abxefg'), 0)]
    assert gains == [1, 1]


@pytest.mark.parametrize(
    ('text', 'lang', 'words'),
    [("Don't! It's the 1990's", 'en', "don 't ! it 's the 1990 's"),
     ("L'eau d'hier", 'fr', "l' eau d' hier"), ("L'eau", 'de', "l ' eau"),
     ('U.S. costs 5,000 to 6,x', 'en', 'us costs 5,000 to 6 , x'),
     ('No. 5, No. way. Mr. Fox', 'en', 'no. 5 , no. way . mr. fox'),
     ('No. Way ... well-known--so', 'en', 'no . way ... well known so'),
     ('“ja”\u3000‘nein’', 'ru', '" ja " \' nein \'')],
)  # fmt: skip
def test_normalisation(text, lang, words):
    prefixes = {'Mr': False, 'No': True}
    assert metric_lib.normalize(text, lang, prefixes) == words


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
    (tmp_path / 'data').mkdir()
    table = tmp_path / 'data' / 'paraphrase-de.gz'
    for content in (b'no gzip', gzip.compress(b'0.5\na\n')):
        table.write_bytes(content)
        with pytest.raises(errors.UserError, match=r'is not a table of paraphrases'):
            Meteor('de', modules=('paraphrase',), text='raw')(['a'], ['b'])


def test_named():
    assert suite_lib.named('meteor', 'de')['kwargs']['lang'] == 'de'
    assert suite_lib.named('meteor_exact_stem', 'cs')['kwargs']['modules'] == ('exact',)


# METEOR compares words by String.hashCode() of Java. The aligner below follows the tool step by
# step, for exact matches and stems: it compares each word of one text with each word of the other,
# and copies each path of its search.

# Made-up lines are drawn from these; some of each language have equal hashes.
WORDS = {
    'fr': "je l' n' le d' be j' he me la mer rivière rivières montait monte au pont il pas a .",
    'de': "die dk' das im jN um vN tür türen öffnet öffnete müller alt alte am 7 uhr . ,",
    'es': "el la mB de f' las lbT puente puentes cerrar cerraron viejo viejos ayer , .",
    'en': 'the a of to uP at bU an on as old older door doors closed closes it jU Aa BB C# river .',
    'ru': 'мост мосты река реки в на и дождь дожди закрыт закрыли вечер вечером не оЖ он пО . ,',
    'hi': 'यह नदी पुल है स१ पर के खन में का कि बंद था घर घरों 😀 😁 . ,',
}
# (lang, hypothesis, reference) -> the program's score with -m 'exact stem' (and -norm).
BY_HASH = [
    ('fr', 'je vois la mer', "l'homme voit la mer", 0.4040123264284424),
    ('fr', "il n'a pas faim", 'le garçon a faim', 0.27906976744186046),
    ('fr', 'a\x0bb c', 'a b c', 0.1609907120743034),
    ('fr', '\x01la mer', 'la mer', 1.0),
    ('fr', 'la\x01 mer\x02', 'la mer', 0.38095238095238093),
]


def hash_code(word):
    """As the documentation of java.lang.String has it: s[0] 31^(n-1) + ... + s[n-1]."""
    units = []
    for code in map(ord, word):
        if code > 0xFFFF:
            units += [0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF)]
        else:
            units.append(code)
    return sum(unit * 31 ** (len(units) - 1 - i) for i, unit in enumerate(units)) % 2**32


def test_keys_by_hand():
    for one, other in (('je', "l'"), ("n'", 'le'), ("d'", 'be'), ("j'", 'he'), ('Aa', 'BB')):
        assert one != other and alignment.key(one) == alignment.key(other)
    assert alignment.key('je') == 106 * 31 + 101
    assert alignment.key('') == 0
    # U+1F600 is two units, and long words leave 32 bits.
    assert alignment.key('😀') == 0xD83D * 31 + 0xDE00
    assert alignment.key('polygenelubricants') == 2**31  # The smallest int of Java.
    for word in ('наводнение', 'रेलगाड़ी', 'x😁y', '\ud83d'):
        assert alignment.key(word) == hash_code(word)


@pytest.mark.parametrize(('lang', 'hypothesis', 'reference', 'score'), BY_HASH)
def test_scores_of_the_java_program(lang, hypothesis, reference, score):
    [value] = Meteor.without_tables(lang)([reference], [hypothesis]).values()
    assert value == pytest.approx(100 * score, rel=1e-9)


def test_lines_are_trimmed_as_java_trims_them():
    # Up to U+0020 at both ends; within a line U+000B parts no words.
    assert metric_lib.normalize('\x1f\x00 la\x01 \x0bmer \x01\x0b', 'fr', {}) == 'la \x01 \x0bmer'


def test_texts_with_equal_keys_are_asked_for_the_first_module_alone():
    metric = Meteor('en', modules=('stem', 'exact'), text='raw')
    [one] = metric.statistics(['BB'], ['Aa'])
    assert one.matched == (0, 0)


@dataclasses.dataclass
class Path:
    """What the tool's search keeps of a path."""

    totals: list
    chunks: int = 0
    distance: int = 0
    following: int = 0
    end: int = -1
    used: frozenset = frozenset()
    other_used: frozenset = frozenset()
    matches: tuple = ()

    def rank(self):
        return -sum(self.totals), self.chunks, self.distance

    def add(self, i, j, module):
        weight = (1.0, 0.5)[module]
        self.totals = [int(total + weight) for total in self.totals]
        self.chunks += self.end not in (-1, j)
        self.following, self.end = i + 1, j + 1
        self.matches += ((i, j, module),)


def straight(hypothesis, reference, stem):
    """The chosen matches (word of the reference, word of the hypothesis, module)."""
    codes, other_codes = [[*map(hash_code, words)] for words in (reference, hypothesis)]
    modules = [lambda i, j: codes[i] == other_codes[j]]
    if stem and codes != other_codes:
        stems, other_stems = (
            [hash_code(stem(word)) for word in words] for words in (reference, hypothesis)
        )
        modules.append(lambda i, j: stems[i] == other_stems[j] and codes[i] != other_codes[j])
    found = [
        (i, j, module)
        for i in range(len(reference))
        for module, is_match in enumerate(modules)
        for j in range(len(hypothesis))
        if is_match(i, j)
    ]
    fixed = {
        m[0]: m
        for m in found
        if sum(n[0] == m[0] for n in found) == sum(n[1] == m[1] for n in found) == 1
    }
    taken, other_taken = frozenset(fixed), frozenset(j for _, j, _ in fixed.values())
    paths = [Path([0, 0], used=taken, other_used=other_taken)]
    for current in range(len(reference)):
        paths, before = [], sorted(paths, key=Path.rank)[:40]
        for path in before:
            if current in path.used:
                if current in fixed:
                    path.distance += abs(current - fixed[current][1])
                    path.add(*fixed[current])
                    paths.append(path)
                continue
            for i, j, module in found:
                if i != current or j in path.other_used:
                    continue
                branch = dataclasses.replace(path)
                branch.used, branch.other_used = path.used | {i}, path.other_used | {j}
                branch.add(i, j, module)
                paths.append(branch)
                path.distance += abs(i - j)  # The distance of the branch goes to the other path.
            path.chunks += path.end != -1
            path.end, path.following = -1, path.following + 1
            paths.append(path)
    paths = sorted(paths, key=Path.rank)[:40]
    for path in paths:
        path.chunks += path.end != -1
    return list(min(paths, key=Path.rank).matches)


def straight_score(hypothesis, reference, matches, setting):
    """The score of W14-3348, equations 1 to 5."""
    alpha, beta, gamma, delta = setting.parameters

    def mass(word):
        return 1 - delta if word.lower() in tables.FUNCTION_WORDS else delta

    if not matches:
        return 0.0
    sums = [sum(map(mass, words)) for words in (hypothesis, reference)]
    precision = sum(setting.weights[k] * mass(hypothesis[j]) for _, j, k in matches) / sums[0]
    recall = sum(setting.weights[k] * mass(reference[i]) for i, _, k in matches) / sums[1]
    if not precision or not recall:
        return 0.0
    chunks, last = 0, (-2, -2)
    for i, j, _ in matches:
        chunks += (i - 1, j - 1) != last
        last = i, j
    is_whole = len(hypothesis) == len(reference) == len(matches) and chunks == 1
    fragments = 0 if is_whole else chunks / len(matches)
    mean = 1 / ((1 - alpha) / precision + alpha / recall)
    return max(0.0, mean * (1 - gamma * fragments**beta))


class Cased(str):
    def lower(self):
        return self


def fuzzed(lang, count):
    """Noisy copies of made-up lines of a few words, many with equal hashes."""
    rng, words = random.Random(lang), WORDS[lang].split()
    for _ in range(count):
        reference = rng.choices(words, k=rng.randint(1, 9))
        copy = [rng.choice(words) if rng.random() < 0.4 else word for word in reference]
        if rng.random() < 0.4:
            rng.shuffle(copy)
        copy[rng.randrange(len(copy)) :] += rng.choices(words, k=rng.randint(0, 2))
        yield ' '.join(copy), ' '.join(reference)


@pytest.mark.parametrize('lang', by_day(('de', 'hi'), WORDS))
def test_two_thousand_pairs_equal_the_rule_of_java(lang):
    name = lang if lang in metric_lib.STEMMERS else 'other'
    metric = dataclasses.replace(Meteor.without_tables(name), text='raw')
    stem = None
    if name != 'other':
        from nltk.stem import SnowballStemmer  # NLTK loads for seconds, and not at each start.

        snowball = SnowballStemmer(metric_lib.STEMMERS[name])
        stem = lambda word: str(snowball.stem(Cased(word)))  # noqa: E731
    pairs, by_hash = [*fuzzed(lang, 2000)], 0
    rows = metric.per_example([r for _, r in pairs], [h for h, _ in pairs])
    for (hypothesis, reference), row in zip(pairs, rows, strict=True):
        words, others = hypothesis.split(' '), reference.split(' ')
        matches = straight(words, others, stem)
        expected = 100 * straight_score(words, others, matches, metric._setting)
        [score] = row.values()
        assert score == pytest.approx(expected, rel=1e-9, abs=1e-12), (hypothesis, reference)
        by_hash += any(k == 0 and words[j] != others[i] for i, j, k in matches)
    assert by_hash > 20  # Otherwise the pairs would say nothing of hashes.
