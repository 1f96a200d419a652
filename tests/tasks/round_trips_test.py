"""Texts translated there and back, and the overlap of what comes back."""

from xlbench.tasks.building import builds
from xlbench.translate import engines, jobs

# Original, what comes back, and (common, original, back) of 1 to 4 words, counted by hand.
CASES = [
    ('A dog ran.', 'A dog ran.', [(4, 4, 4), (3, 3, 3), (2, 2, 2), (1, 1, 1)]),
    ('go go go home', 'home go home go go', [(4, 4, 5), (2, 3, 4), (0, 2, 3), (0, 1, 2)]),
    ('go go stop', 'go stop stop', [(2, 3, 3), (1, 2, 2), (0, 1, 1), (0, 0, 0)]),
    ('Well, YES!', 'well yes', [(2, 4, 2), (0, 3, 1), (0, 2, 0), (0, 1, 0)]),
    ('Été_1 à-côté', 'ÉTÉ_1 a-côté', [(3, 4, 4), (1, 3, 3), (0, 2, 2), (0, 1, 1)]),
    ('It ends.', '', [(0, 3, 0), (0, 2, 0), (0, 1, 0), (0, 0, 0)]),
    ('', 'something', [(0, 0, 1), (0, 0, 0), (0, 0, 0), (0, 0, 0)]),
]


def test_ngrams_are_counted_as_by_hand():
    for original, back, expected in CASES:
        for n, counts in enumerate(expected, 1):
            found = builds.matches(original, back, n)
            assert found == counts
            assert found.overlap == (counts[0] / counts[1] if counts[1] else 0)


class Shouting:
    """An engine that writes texts in upper case, but for bad ones."""

    name, batch_size, num_cut = 'shouting', 64, 0

    def __init__(self):
        self.asked = []

    def check(self, source, target):
        del source, target

    def identity(self, source, target):
        return f'shouting {source}-{target}'

    def translate(self, texts, source, target):
        del source
        self.asked += texts
        bad = engines.Failure('no idea')
        return [bad if 'bad' in text else f'{target}:{text.upper()}' for text in texts]


def test_texts_there_and_back_by_sentences():
    engine = Shouting()
    there, back = jobs.Job(engine, 'en', 'de'), jobs.Job(engine, 'de', 'en')
    texts = ['Mr. Fox ran. Why?', '', 'A bad one. Fine.', 'Why?']
    whole = list(builds.round_trips(there, back, texts))
    assert whole[:2] == [('de:MR. FOX RAN. WHY?', 'en:DE:MR. FOX RAN. WHY?'), ('', '')]
    assert whole[2:] == [engines.Failure('no idea'), ('de:WHY?', 'en:DE:WHY?')]
    engine.asked = []
    parts = list(builds.round_trips(there, None, texts, 'sentence'))
    assert parts[:2] == [('de:MR. FOX RAN. de:WHY?', ''), ('', '')]
    assert parts[2:] == [engines.Failure('no idea'), ('de:WHY?', '')]
    assert engine.asked == ['Mr. Fox ran.', 'Why?', 'A bad one.', 'Fine.']
