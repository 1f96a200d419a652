"""Strict readers of tagged words: CoNLL and CoNLL-U, IOB2 with numbered words, "word TAB tag".

As in xlbench/data/readers, a `BadRecord` stands for a sentence that cannot be used, and a `LeftOut`
for one without words or tags. A record is a sentence, with single spaces between words and tags:

  {'words': 'Ich fahre zu dem Bahnhof', 'tags': 'PRON VERB ADP DET NOUN'}

Spaces inside a word, such as 10 000 in treebanks, are deleted, as google-research/xtreme does for
the data of arXiv:2012.15682.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from xlbench.data import readers
from xlbench.data.readers import BadRecord, Item, LeftOut, Record
from xlbench.system import errors, untrusted

# 3-4 is a written word, such as "zum", before its parts 3 and 4; 8.1 is an empty node of the syntax
# (universaldependencies.org/format.html).
_SKIPPED = re.compile(r'[0-9]+(-[0-9]+|\.[0-9]+)')
_NON_JOINER = '\u200c'
_NOTHING = '_'
COLUMNS = 10  # Of CoNLL-U: number, word, ..., UPOS is the fourth, MISC the last.
_ATTRIBUTE = re.compile(r'#\s*\S+\s+=\s')
_DOCUMENT = '-DOCSTART-'  # Begins a document.

Line = tuple[int, str]  # With its number.
Word = tuple[str, str]


def read_conllu(path: str, tag_column: int = 3) -> Iterator[Item]:
    """Reads words and tags in CoNLL-U; column 3 (from 0) is UPOS, 4 the treebank's own XPOS.

    Multiword tokens, empty nodes and comments are skipped; spaces and U+200C inside words are
    deleted. A sentence without any tag, or of a treebank without its texts, is left out.

    Example: '1-2\\tIm\\t...', '1\\tIn\\tin\\tADP\\t...', '2\\tdem\\tder\\tDET\\t...' ->
      {'words': 'In dem', 'tags': 'ADP DET'}
    """
    return _read(path, lambda block: _numbered_words(block, COLUMNS, tag_column, _NON_JOINER))


def read_iob2(path: str) -> Iterator[Item]:
    """Reads words and entity tags of Universal NER: number, word, tag, unused columns.

    Example: '# text = Berlin ist', '1\\tBerlin\\tB-LOC\\t-\\tx', '2\\tist\\tO\\t-\\tx' ->
      {'words': 'Berlin ist', 'tags': 'B-LOC O'}
    """
    return _read(path, lambda block: _numbered_words(block, 5, 2))


def read_conll(path: str, word_column: int = 0, tag_column: int = -1) -> Iterator[Item]:
    """Reads a word on each line with its columns (from 0), as in the shared tasks of CoNLL.

    Columns are separated by TABs or, in a line without one, by spaces. # can be a word: before the
    first word, a line with # is a comment only if it has other columns or is like '# id = 7'.
    Lines with -DOCSTART- are skipped.

    Example: 'EU NNP B-NP B-ORG', 'rejects VBZ B-VP O' -> {'words': 'EU rejects', 'tags': 'B-ORG O'}
    """
    return _read(path, lambda block: _conll_words(block, word_column, tag_column))


def read_tagged(path: str, lines: Iterable[Line] | None = None) -> Iterator[Item]:
    """Reads lines of "word TAB tag", with blank lines between sentences; # is a word.

    With `lines`, which are in memory, the path is for messages.

    Example: 'Dogs\\tNOUN', 'bark\\tVERB' -> {'words': 'Dogs bark', 'tags': 'NOUN VERB'}
    """
    return _read(path, _tagged_words, lines)


def write_tagged(sentences: Iterable[Record]) -> str:
    """Returns the content of a file for `read_tagged`."""
    blocks = (
        ''.join(f'{word}\t{tag}\n' for word, tag in words_of(sentence)) for sentence in sentences
    )
    return '\n'.join(blocks)


def words_of(sentence: Record) -> list[Word]:
    """Returns the words of a record with their tags, [('In', 'ADP'), ('dem', 'DET')]."""
    # At spaces alone: a word may hold any other kind of space.
    return list(zip(sentence['words'].split(' '), sentence['tags'].split(' '), strict=True))


def _read(
    path: str,
    words_in: Callable[[list[Line]], Iterator[Word]],
    lines: Iterable[Line | BadRecord] | None = None,
) -> Iterator[Item]:
    """Reads a record for each block of lines; `words_in` may raise _BadLine."""
    for block in _blocks(path, readers.numbered(path) if lines is None else lines):
        if isinstance(block, BadRecord):
            yield block
            continue
        try:
            words = list(words_in(block))
        except _BadLine as error:
            yield BadRecord(path, *error.args)
            continue
        if not words:
            continue  # Comments only.
        if any(all(word[side] == _NOTHING for word in words) for side in (0, 1)):
            yield LeftOut('no word has a text, or none has a tag')
            continue
        yield {'words': ' '.join(w for w, _ in words), 'tags': ' '.join(tag for _, tag in words)}


def _blocks(path: str, lines: Iterable[Line | BadRecord]) -> Iterator[list[Line] | BadRecord]:
    """Yields numbered blocks between blank lines, or the bad line of a block."""
    block: list[Line] = []
    bad: BadRecord | None = None
    size, most = 0, untrusted.LINE_BYTES.value
    for item in lines:
        if isinstance(item, BadRecord):
            bad = bad or item
            continue
        number, line = item
        if line.strip():
            size = size + len(line) if block else len(line)
            if size > most:
                reason = str(untrusted.LINE_BYTES.exceeded('the sentence is too long'))
                raise readers.broken_file(path, number, reason)
            block.append((number, line))
        elif block or bad:
            yield bad or block
            block, bad = [], None
    if block or bad:
        yield bad or block


class _BadLine(Exception):
    """A fault in a line: its number, and the reason."""


def _conll_words(block: list[Line], word_column: int, tag_column: int) -> Iterator[Word]:
    lines = [line for _, line in block]
    width = len(_columns(lines[-1]))
    for place, columns in conll_words(lines):
        number = block[place][0]
        if len(columns) != width:
            raise _BadLine(number, f'{len(columns)} columns instead of {width}')
        if not max(word_column, tag_column) < width or width < 2:
            needed = max(word_column + 1, tag_column + 1, 2)
            raise _BadLine(number, f'{width} columns; there must be {needed} or more')
        yield _word(number, columns[word_column], columns[tag_column])


def conll_words(lines: Sequence[str]) -> list[tuple[int, list[str]]]:
    """Returns the words of a block of CoNLL, (place, columns); see read_conll."""
    rows = list(map(_columns, lines))
    start = 0
    for line, columns in zip(lines, rows, strict=True):
        same = len(columns) == len(rows[-1])
        if not line.startswith('#') or (same and not _ATTRIBUTE.match(line)):
            break
        start += 1
    places = range(start, len(lines))
    return [(place, rows[place]) for place in places if rows[place][0] != _DOCUMENT]


def _columns(line: str) -> list[str]:
    return line.split('\t') if '\t' in line else line.split()


def _numbered_words(
    block: list[Line], num_columns: int, tag_column: int, deleted: str = ''
) -> Iterator[Word]:
    """Yields the words of lines that number them; `deleted` is a character that none keeps."""
    expected = 1
    for number, line in block:
        if line.startswith('#'):
            continue
        columns = line.split('\t')
        if len(columns) != num_columns:
            raise _BadLine(number, f'{len(columns)} TAB-separated columns instead of {num_columns}')
        if _SKIPPED.fullmatch(columns[0]):
            continue
        if columns[0] != str(expected):
            named = errors.shortened(columns[0])
            raise _BadLine(number, f'the word is numbered {named}, not {expected}')
        expected += 1
        yield _word(number, columns[1].replace(deleted, ''), columns[tag_column])


def _tagged_words(block: list[Line]) -> Iterator[Word]:
    for number, line in block:
        columns = line.split('\t')
        if len(columns) != 2:
            raise _BadLine(number, f'{len(columns)} TAB-separated columns instead of 2 (word, tag)')
        yield _word(number, *columns)


def _word(number: int, word: str, tag: str) -> Word:
    """Returns the word without spaces, and its tag."""
    word, tag = word.replace(' ', ''), tag.strip()
    if not word:
        raise _BadLine(number, 'the word is empty')
    if not tag or len(tag.split()) > 1:
        raise _BadLine(number, f'{errors.shortened(tag)} is not a tag')
    return word, tag
