"""NLTK's METEOR: hand-worked numbers, and what is missing."""

import types

import pytest

from xlbench import errors
from xlbench.metrics import meteor_nltk, named
from xlbench.metrics.meteor_nltk import MeteorNltk

SETS = {'mill': ['factory'], 'factori': []}


@pytest.fixture
def wordnet(monkeypatch):
    """A WordNet in which only `mill` has a synonym."""

    def synset(lemma):
        return types.SimpleNamespace(lemmas=lambda: [types.SimpleNamespace(name=lambda: lemma)])

    reader = types.SimpleNamespace(synsets=lambda word: [synset(s) for s in SETS.get(word, ())])
    monkeypatch.setattr(meteor_nltk, '_wordnet', lambda: reader)
    monkeypatch.setattr(meteor_nltk, '_is_wordnet', lambda folder: True)


@pytest.mark.usefixtures('wordnet')
def test_by_hand():
    metric = MeteorNltk()
    # A perfect match of m words in one chunk: 1 - 0.5 / m ** 3.
    assert metric(['an old mill'], ['An old MILL'])['meteor_nltk'] == pytest.approx(100 * 53 / 54)
    # Two of three words in one chunk; F = P R / (0.9 P + 0.1 R) = 2 / 3, penalty 0.5 / 8.
    one = metric(['an old boat'], ['an old ferry'])['meteor_nltk']
    assert one == pytest.approx(100 * 2 / 3 * (1 - 0.5 / 8))
    rows = metric.per_example([['an old boat', 'a'], 'b'], ['an old ferry', ''])
    assert [row['meteor_nltk'] for row in rows] == pytest.approx([one, 0.0])
    assert MeteorNltk(gamma=0.0)(['old mills'], ['old mill'])['meteor_nltk'] == 100.0


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(meteor_nltk, '_folders', lambda: iter([tmp_path]))
    metric = MeteorNltk(**named.spec('meteor_nltk', None)['kwargs'])
    [line] = metric.missing()
    assert 'python -m nltk.downloader wordnet' in line and meteor_nltk.VARIABLE in line
    with pytest.raises(errors.UserError, match='needs WordNet'):
        metric(['a'], ['a'])
    for name in meteor_nltk._NEEDED:
        (tmp_path / name).write_text('no such thing\n')
    meteor_nltk._wordnet.cache_clear()
    with pytest.raises(errors.UserError, match='does not hold a whole WordNet'):
        metric(['a'], ['a'])
