"""Text as METEOR 1.5's -norm has it: punctuation set apart, then lower case.

normalize("Don't go, it's 5,000 U.S. dollars.", 'en', prefixes)
  -> "don 't go , it 's 5,000 us dollars ."
"""

import re
from collections.abc import Mapping

# Languages with rules of their own; English apostrophes belong to the right, French to the left.
LANGUAGES = ('cz', 'de', 'en', 'es', 'fr', 'ru')
# What counts as a letter: Latin and Cyrillic.
_LETTERS = 'A-Za-zŠŽšžŸÀ-ÖØ-öø-ž\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f'
_SPACE = ' \\t\\n\\x0b\\f\\r'
_OTHER = re.compile(f"[^{_LETTERS}0-9{_SPACE}.'`,\\-‘’]")
_DOTS = re.compile(r'\.{2,}')
_COMMAS = [
    re.compile(pattern) for pattern in ('([^0-9]),([^0-9])', '([0-9]),([^0-9])', '([^0-9]),([0-9])')
]
_DASH = re.compile(f'([{_LETTERS}0-9.])-([{_LETTERS}0-9])')
_BETWEEN = re.compile(f"([{_LETTERS}])'([{_LETTERS}])")
_APOSTROPHES = [
    re.compile(pattern)
    for pattern in (
        f"([^{_LETTERS}])'([^{_LETTERS}])",
        f"([^{_LETTERS}0-9])'([{_LETTERS}])",
        f"([{_LETTERS}])'([^{_LETTERS}])",
    )
]
_FRENCH = [
    re.compile(pattern)
    for pattern in (
        f"([^{_LETTERS}])'([^{_LETTERS}])",
        f"([^{_LETTERS}])'([{_LETTERS}])",
        f"([{_LETTERS}])'([^{_LETTERS}])",
    )
]
_DECADE = re.compile("([0-9])'s")
_LETTER = re.compile(f'[{_LETTERS}]')
_NO_WORD = re.compile(f'[^{_LETTERS}0-9]')
_WIDE = re.compile('[ \u00a0\u2000-\u200a\u202f\u205f\u3000]+')
_TRIMMED = ''.join(map(chr, range(0x21)))  # What Java's trim() takes from the ends of a line.
_ASCII_SPACE = re.compile('[ \\t\\n\\f\\r]+')
_KEPT_DOTS = '\ue000'  # A run of dots while single ones are looked at; n of them stand for n dots.


def split(text: str) -> list[str]:
    """A line's words: between white space of ASCII, as Java's StringTokenizer has it."""
    return [word for word in _ASCII_SPACE.split(text) if word]


def normalize(text: str, lang: str, prefixes: Mapping[str, bool], keep_marks: bool = True) -> str:
    """A line, as the tool prints it.

    Args:
        text: one line.
        lang: METEOR's name of one of `LANGUAGES`.
        prefixes: words that a dot belongs to; True: before a number only.
        keep_marks: False removes punctuation, as -noPunct does.
    """
    text = _OTHER.sub(r' \g<0> ', f' {text} ')
    text = _DOTS.sub(lambda match: f' {_KEPT_DOTS * len(match[0])} ', text)
    for pattern in _COMMAS:
        text = pattern.sub(r'\1 , \2', text)
    text = text.replace('`', "'").replace('‘', "'").replace('’', "'")
    text = text.replace("''", ' " ').replace('“', ' " ').replace('”', ' " ')
    text = text.replace('–', '-').replace('--', '-')
    text = _DASH.sub(r'\1 \2', text)
    text = _apart(text, lang)
    words = split(text)
    text = ' '.join(_dotted(place, words, prefixes) for place in range(len(words)))
    text = text.replace(_KEPT_DOTS, '.')
    if not keep_marks:
        text = _NO_WORD.sub(' ', text)
    return _WIDE.sub(' ', text).strip(_TRIMMED).lower()


def _apart(text: str, lang: str) -> str:
    """Apostrophes, each with the word it belongs to."""
    if lang not in ('en', 'fr'):
        return text.replace("'", " ' ")
    for pattern in _APOSTROPHES if lang == 'en' else _FRENCH:
        text = pattern.sub(r"\1 ' \2", text)
    if lang == 'fr':
        return _BETWEEN.sub(r"\1' \2", text)
    return _DECADE.sub(r"\1 's", _BETWEEN.sub(r"\1 '\2", text))


def _dotted(place: int, words: list[str], prefixes: Mapping[str, bool]) -> str:
    """A word, its last dot set apart where it ends a sentence."""
    word = words[place]
    if not word.endswith('.') or word == '.':
        return word
    rest, following = word[:-1], words[place + 1][0] if place + 1 < len(words) else ''
    if '.' in rest and _LETTER.search(rest):
        return word.replace('.', '')
    before_number = prefixes.get(rest)
    if before_number is False or 'a' <= following <= 'z':
        return word
    return word if before_number and '0' <= following <= '9' else f'{rest} .'
