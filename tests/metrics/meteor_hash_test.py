"""METEOR compares words by Java's String.hashCode(): the program's numbers, a straight aligner.

The aligner below follows the tool's rule step by step, for exact matches and stems: it compares
each word of one text with each word of the other, and copies each path of its search.
"""

import dataclasses
import random

import pytest
from nltk.stem import SnowballStemmer

from xlbench.metrics.meteor import Meteor, alignment, metric as metric_lib, settings, tables

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
OF_JAVA = [
    ('fr', 'je vois la mer', "l'homme voit la mer", 0.4040123264284424),
    ('fr', "il n'a pas faim", 'le garçon a faim', 0.27906976744186046),
    ('fr', 'a\x0bb c', 'a b c', 0.1609907120743034),
    ('fr', '\x01la mer', 'la mer', 1.0),
    ('fr', 'la\x01 mer\x02', 'la mer', 0.38095238095238093),
]


@pytest.fixture(autouse=True)
def no_jar(monkeypatch):
    monkeypatch.delenv(tables.VARIABLE, raising=False)
    monkeypatch.setattr(tables, '_PACKAGE', 'xlbench_no_such_package')


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


@pytest.mark.parametrize(('lang', 'hypothesis', 'reference', 'score'), OF_JAVA)
def test_scores_of_the_java_program(lang, hypothesis, reference, score):
    [value] = Meteor.without_tables(lang)([reference], [hypothesis]).values()
    assert value == pytest.approx(100 * score, rel=1e-9)


def test_lines_are_trimmed_as_java_trims_them():
    # Up to U+0020 at both ends; within a line U+000B parts no words.
    assert metric_lib.normalize('\x1f\x00 la\x01 \x0bmer \x01\x0b', 'fr', {}) == 'la \x01 \x0bmer'


def test_characters_are_units_of_utf_16():
    metric = Meteor('other', characters=True)
    [one] = metric.statistics(['😀 a'], ['😀'])
    assert one.lengths == (2, 2, 0, 1)


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


@pytest.mark.parametrize('lang', WORDS)
def test_two_thousand_pairs_equal_the_rule_of_java(lang):
    name = lang if lang in settings.STEMMERS else 'other'
    metric = dataclasses.replace(Meteor.without_tables(name), text='raw')
    stem = None
    if name != 'other':
        snowball = SnowballStemmer(settings.STEMMERS[name])
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
