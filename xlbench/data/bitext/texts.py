"""One text: its characters written in one way, and its letters alone."""

import unicodedata


def letters(text: str) -> str:
    """A text without case, punctuation and spaces; one that has nothing else stays as it is.

    Example: 'Ja !' -> 'ja'; '?!' -> '?!'
    """
    # Letters, their marks, numbers.
    text = text.casefold()
    return ''.join(c for c in text if unicodedata.category(c)[0] in 'LMN') or text
