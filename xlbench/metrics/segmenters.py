"""Word segmenters of the multilingual ROUGE, for languages written without spaces.

  load('chinese')('今天天气好 我们') -> ['今天天气', '好', ' ', '我们']

jieba and newmm return each space as a token, and the official scorer keeps it: every punctuation
mark inside a Chinese text therefore counts as one token. MeCab returns the spaces of Unicode but
not the plain one.
"""

import functools
import importlib.metadata
from collections.abc import Callable

from xlbench import errors
from xlbench.benchmarks import languages
from xlbench.data import chinese
from xlbench.metrics import specs


@functools.cache
def load(language: str | None) -> Callable[[str], list[str]] | None:
    """The segmenter of a language by its English name, or None where spaces separate words.

    Of a language that was registered it is the one that languages.register was told.
    """
    if row := _registered(language):
        return _of_registered(row)
    if language == 'chinese':
        return chinese.cutter()
    if language == 'japanese':
        return _fugashi()
    if language == 'thai':
        from pythainlp import tokenize

        return functools.partial(tokenize.word_tokenize, engine='newmm')
    if language == 'burmese':
        raise errors.UserError(
            'ROUGE for Burmese is not offered: the syllable rules of the official scorer are in '
            'no package; use SacreBleu("char") or ChrF() for my'
        )
    return None


def signature(language: str | None) -> str:
    """The part of a signature that decides the words, such as tok:jieba-0.42.1."""
    version = importlib.metadata.version
    if row := _registered(language):
        if row.segmenter in ('spaces', 'characters'):
            return 'tok:characters' if row.segmenter == 'characters' else 'tok:unicode'
        if row.segmenter in languages.TABLE:
            return signature(languages.get(row.segmenter).name)
        return f'tok:{row.segmenter}-{specs.fingerprint(_function(row))}'
    if language == 'chinese':
        return f'tok:jieba-{version("jieba")}'
    if language == 'japanese':
        return f'tok:fugashi-{version("fugashi")}+unidic-lite-{version("unidic-lite")}'
    if language == 'thai':
        return f'tok:newmm-{version("pythainlp")}'
    return 'tok:unicode'


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
    return specs.function(language.segmenter, specs.trusted())


def _fugashi() -> Callable[[str], list[str]]:
    import fugashi
    import unidic_lite

    # Named, because fugashi would prefer an installed `unidic` without its dictionary, and fail.
    folder = unidic_lite.DICDIR
    tagger = fugashi.GenericTagger(f'-r "{folder}/dicrc" -d "{folder}" -O wakati')
    # Not `parse`, which drops spaces at the end. MeCab skips the plain space; a no-break or an
    # ideographic one is a token.
    return lambda text: [node.surface for node in tagger(text)]
