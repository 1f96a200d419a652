"""Stemmers of the multilingual ROUGE, by its English names of languages.

  load('german')('kontaktieren') -> 'kontakti'
  load('german')('werden')       -> 'werden', a stop word of German
  load('chinese')                -> None, words stay as they are

Snowball leaves stop words alone, by NLTK's lists. NLTK downloads them; bm25s ships lists that have
the same effect for ten languages (the words that matter are those the stemmer would change), so
these ten need no download. The other five need NLTK's corpus.
"""

import functools
import importlib.metadata
import importlib.util
import pathlib
import runpy
from collections.abc import Callable

from xlbench import errors

# Language -> variable of bm25s/stopwords.py. Danish is there too, but is a different list.
_BM25S_LISTS = {
    'dutch': 'STOPWORDS_DUTCH',
    'english': 'STOPWORDS_EN_PLUS',
    'french': 'STOPWORDS_FRENCH',
    'german': 'STOPWORDS_GERMAN',
    'italian': 'STOPWORDS_ITALIAN',
    'norwegian': 'STOPWORDS_NORWEGIAN',
    'portuguese': 'STOPWORDS_PORTUGUESE',
    'russian': 'STOPWORDS_RUSSIAN',
    'spanish': 'STOPWORDS_SPANISH',
    'swedish': 'STOPWORDS_SWEDISH',
}
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


@functools.cache
def load(language: str | None) -> Callable[[str], str] | None:
    """A stemmer with a memory for words, or None where the official scorer does not stem.

    Args:
        language: English name in lower case; None stands for the Porter stemmer of plain ROUGE.

    Returns:
        A function from a word to its stem.
    """
    if language is None:
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
        raise errors.UserError(
            'no stemmer for Bengali: the rules that the official scorer uses are in no package; '
            'use stem=False for bn'
        )
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
    if language == 'turkish':
        return f'stem:TurkishStemmer-{importlib.metadata.version("TurkishStemmer")}'
    return 'stem:none'


def _snowball(language: str) -> Callable[[str], str]:
    from nltk.stem import snowball

    stemmer = getattr(snowball, f'{language.capitalize()}Stemmer')()
    # What ignore_stopwords=True would set, had NLTK its corpus.
    stemmer.stopwords = _stopwords(language)[1]
    return stemmer.stem


@functools.cache
def _stopwords(language: str) -> tuple[str, frozenset[str]]:
    """The origin of the list, and its words."""
    package = importlib.util.find_spec('bm25s') if language in _BM25S_LISTS else None
    if package:
        # The one file alone: importing the package would start JAX's backend.
        file = pathlib.Path(package.submodule_search_locations[0]) / 'stopwords.py'
        words = runpy.run_path(str(file))[_BM25S_LISTS[language]]
        return f'bm25s-{importlib.metadata.version("bm25s")}', frozenset(words)
    from nltk import corpus

    try:
        return 'nltk-corpus', frozenset(corpus.stopwords.words(language))
    except (LookupError, OSError) as error:
        install = 'pip install bm25s, or: ' if language in _BM25S_LISTS else ''
        raise errors.UserError(
            f'stemming {language} needs its stop words, which are not on this machine; '
            f'run: {install}python -m nltk.downloader stopwords (or use stem=False)'
        ) from error


def _hindi(word: str) -> str:
    for length in (5, 4, 3, 2, 1):
        if len(word) > length + 1 and word[-length:] in _HINDI_SUFFIXES:
            return word[:-length]
    return word
