"""Word segmenters of the multilingual ROUGE, for languages written without spaces.

  load('chinese')('今天天气好 我们') -> ['今天天气', '好', ' ', '我们']

jieba and newmm return each space as a token, and the official scorer keeps it: every punctuation
mark inside a Chinese text therefore counts as one token. MeCab returns the spaces of Unicode but
not the plain one. Burmese is cut into syllables, which go on over spaces.
"""

import functools
import importlib.metadata
import re
from collections.abc import Callable

from xlbench.benchmarks import languages
from xlbench.data import chinese
from xlbench.metrics import specs

# Of Myanmar script: the sign that kills a vowel (asat), the one that stacks what follows below what
# precedes, and all that hangs on the letter before it: vowels, tones and medial consonants.
_ASAT, _STACKER, _TONE = '\u103a', '\u1039', '\u1037'
_BURMESE_UNIT = re.compile('.[\u102b-\u1032\u1036-\u1038\u103a-\u103e]*', re.DOTALL)
# Of a unit with an asat; in longer ones it is part of the vowel au.
_MOST_OF_AN_END = 3


@functools.cache
def load(language: str | None) -> Callable[[str], list[str]] | None:
    """The segmenter of a language by its English name, or None where spaces separate words.

    Of a language that was registered it is the one that languages.register was told.
    """
    if row := _registered(language):
        return _of_registered(row)
    return _OWN[language][0]() if language in _OWN else None


def signature(language: str | None) -> str:
    """The part of a signature that decides the words, such as tok:jieba-0.42.1."""
    if row := _registered(language):
        if row.segmenter in ('spaces', 'characters'):
            return 'tok:characters' if row.segmenter == 'characters' else 'tok:unicode'
        if row.segmenter in languages.TABLE:
            return signature(languages.get(row.segmenter).name)
        return f'tok:{row.segmenter}-{specs.fingerprint(_function(row))}'
    if language not in _OWN:
        return 'tok:unicode'
    _, words, packages = _OWN[language]
    return f'tok:{words.format(*map(importlib.metadata.version, packages))}'


def _registered(language: str | None) -> languages.Language | None:
    """The row of a language that is not in the table, by its English name."""
    rows = (row for code, row in languages.LANGUAGES.items() if code not in languages.TABLE)
    return next((row for row in rows if row.name == language), None)


def _of_registered(language: languages.Language) -> Callable[[str], list[str]] | None:
    if language.segmenter == 'spaces':
        return None
    if language.segmenter == 'characters':
        return lambda text: [character for character in text if not character.isspace()]
    if language.segmenter in languages.TABLE:
        return load(languages.get(language.segmenter).name)
    return _function(language)


def _function(language: languages.Language) -> Callable[[str], list[str]]:
    """A user's own segmenter, under the rules for a user's own metrics."""
    return specs.function(language.segmenter)


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
    'chinese': (chinese.cutter, 'jieba-{}', ('jieba',)),
    'japanese': (_fugashi, 'fugashi-{}+unidic-lite-{}', ('fugashi', 'unidic-lite')),
    'thai': (_newmm, 'newmm-{}', ('pythainlp',)),
}
