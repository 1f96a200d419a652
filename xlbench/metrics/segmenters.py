"""Word segmenters of the multilingual ROUGE, for languages written without spaces.

  load('chinese')('今天天气好 我们') -> ['今天天气', '好', ' ', '我们']

jieba and newmm return each space as a token, and the official scorer keeps it: every punctuation
mark inside a Chinese text therefore counts as one token. MeCab returns the spaces of Unicode but
not the plain one.
"""

import functools
import importlib.metadata
import logging
import tempfile
from collections.abc import Callable

from xlbench import errors


@functools.cache
def load(language: str | None) -> Callable[[str], list[str]] | None:
    """The segmenter of a language by its English name, or None where spaces separate words."""
    if language == 'chinese':
        return _jieba()
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
    """What decides the words, such as tok:jieba-0.42.1."""
    version = importlib.metadata.version
    if language == 'chinese':
        return f'tok:jieba-{version("jieba")}'
    if language == 'japanese':
        return f'tok:fugashi-{version("fugashi")}+unidic-lite-{version("unidic-lite")}'
    if language == 'thai':
        return f'tok:newmm-{version("pythainlp")}'
    return 'tok:unicode'


def _jieba() -> Callable[[str], list[str]]:
    import jieba

    jieba.setLogLevel(logging.ERROR)  # It announces its dictionary on standard error.
    cutter = jieba.Tokenizer()
    # jieba reads a cache of a fixed name in the shared temporary folder, which anyone could have
    # put there; a folder of our own costs a second per process.
    with tempfile.TemporaryDirectory(prefix='xlbench-jieba-') as folder:
        cutter.tmp_dir = folder
        cutter.initialize()
    return cutter.lcut


def _fugashi() -> Callable[[str], list[str]]:
    import fugashi
    import unidic_lite

    # Named, because fugashi would prefer an installed `unidic` without its dictionary, and fail.
    folder = unidic_lite.DICDIR
    tagger = fugashi.GenericTagger(f'-r "{folder}/dicrc" -d "{folder}" -O wakati')
    # Not `parse`, which drops spaces at the end. MeCab skips the plain space; a no-break or an
    # ideographic one is a token.
    return lambda text: [node.surface for node in tagger(text)]
