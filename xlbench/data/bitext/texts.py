"""Functions of one text: normalised characters, its letters, its length."""

import functools
import re
import unicodedata

import regex

from xlbench.benchmarks import languages

# Moses' normalize-punctuation.perl writes these so; what nobody sees is left out.
_PUNCTUATION = {
    **dict.fromkeys('“”„‟«»″', '"'),
    **dict.fromkeys('‘’‚‛`´′', "'"),
    **dict.fromkeys('‐‑‒–—―−', '-'),
    '…': '...',
    '\u2028': ' ',
    '\u2029': ' ',
    **dict.fromkeys('\u00ad\u200b\u200e\u200f\u2060\ufeff', ''),
}
# Chinese and Japanese write these full-width themselves.
_WIDE_MARKS = '，。！？：；（）'
_TO_WIDE = str.maketrans(',!?:;', '，！？：；')
_UNSPACED = r'\p{Han}\p{Hiragana}\p{Katakana}'
_NARROW_MARK = regex.compile(rf'(?<=[{_UNSPACED}」』》）])[,!?:;] *(?![\d])')
_SPACES = re.compile(r'\s+')
_CONTROLS = regex.compile(r'[\p{Cc}\p{Cs}\p{Co}\p{Cn}]+')


@functools.cache
def _table(wide_marks: bool) -> dict[int, str]:
    """Characters -> what they are written as."""
    table = {ord(char): text for char, text in _PUNCTUATION.items()}
    for code in range(0xFF01, 0xFFEF):  # Full-width ASCII, half-width kana.
        char = chr(code)
        kind, _, plain = unicodedata.decomposition(char).partition(' ')
        if kind in ('<wide>', '<narrow>') and not (wide_marks and char in _WIDE_MARKS):
            table[code] = ''.join(chr(int(part, 16)) for part in plain.split())
    return table


def normalized(text: str, lang: str) -> str:
    """Returns a text with characters that look alike written in one way.

    Letters with marks are composed (NFC); full-width letters, digits and signs become those of
    ASCII, and half-width kana full-width; quotes, dashes and dots are those of ASCII; control
    characters and soft hyphens are left out, and white space is single spaces. Chinese and Japanese
    keep their own full-width marks, and have them behind their characters in place of ASCII's.

    Example, de: '„Ｇｒüße”…' -> '"Grüße"...'; zh: '２０岁,好!' -> '20岁，好！'
    """
    wide = languages.get(lang).code in ('zh', 'ja')
    text = unicodedata.normalize('NFC', text.translate(_table(wide)))
    text = _SPACES.sub(' ', _CONTROLS.sub(' ', text)).strip()
    if wide:
        text = _NARROW_MARK.sub(lambda mark: mark[0].rstrip(' ').translate(_TO_WIDE), text)
    return text


def letters(text: str) -> str:
    """Removes case, punctuation and spaces; a text that has nothing else stays.

    Example: 'Ja !' -> 'ja'; '?!' -> '?!'
    """
    # Letters, their marks, numbers.
    text = text.casefold()
    return ''.join(c for c in text if unicodedata.category(c)[0] in 'LMN') or text


def length(text: str, lang: str) -> float:
    """Counts words; in a language without spaces, characters by 1.6, a usual word."""
    if languages.get(lang).spaces:
        return text.count(' ') + 1
    return len(text) / 1.6
