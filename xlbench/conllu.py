"""Strict readers of tagged words: CoNLL-U, IOB2 with numbered words, and "word TAB tag" lines.

They follow xlbench/readers.py: a generator of records, with a `BadRecord` in place of a sentence
that cannot be used and a `LeftOut` for a sound one that has nothing to learn from. A record is one
sentence, its words and its tags, each separated by single spaces:

  {'words': 'Ich fahre zu dem Bahnhof', 'tags': 'PRON VERB ADP DET NOUN'}

So no word may hold a space. Treebanks have such words, 10 000 for one; their spaces are deleted,
as google-research/xtreme does when it prepares the data of arXiv:2012.15682.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from xlbench import readers
from xlbench.readers import BadRecord, LeftOut, Record

_NUMBER = re.compile(r'[1-9][0-9]*')
# 3-4 is a word as it is written, such as "zum", before the words 3 and 4 that it stands for; 8.1 is
# a word that the syntax needs but nobody wrote. (universaldependencies.org/format.html)
_SKIPPED = re.compile(r'[0-9]+(-[0-9]+|\.[0-9]+)')
_NON_JOINER = '\u200c'
_NOTHING = '_'

Numbered = tuple[int, str | BadRecord]
Word = tuple[str, str]


def read_conllu(path: str) -> Iterator[Record | BadRecord | LeftOut]:
    """Words and universal parts of speech of a treebank in CoNLL-U.

    Multiword tokens, empty nodes and comments are skipped; spaces and U+200C inside words are
    deleted. A sentence without any tag, or of a treebank without its texts, is left out.

    Example: '1-2\\tIm\\t...', '1\\tIn\\tin\\tADP\\t...', '2\\tdem\\tder\\tDET\\t...' ->
      {'words': 'In dem', 'tags': 'ADP DET'}
    """
    return _read(path, enumerate(readers.lines(path), 1), _conllu_words)


def read_iob2(path: str) -> Iterator[Record | BadRecord | LeftOut]:
    """Words and entity tags of Universal NER: number, word, tag, and columns that are not used.

    Example: '# text = Berlin ist', '1\\tBerlin\\tB-LOC\\t-\\tx', '2\\tist\\tO\\t-\\tx' ->
      {'words': 'Berlin ist', 'tags': 'B-LOC O'}
    """
    return _read(path, enumerate(readers.lines(path), 1), _iob2_words)


def read_tagged(path: str) -> Iterator[Record | BadRecord | LeftOut]:
    """Lines of "word TAB tag", a blank line between sentences, no comments: # is a word.

    Example: 'Dogs\\tNOUN', 'bark\\tVERB' -> {'words': 'Dogs bark', 'tags': 'NOUN VERB'}
    """
    return read_tagged_lines(path, enumerate(readers.lines(path), 1))


def read_tagged_lines(
    path: str, lines: Iterable[Numbered]
) -> Iterator[Record | BadRecord | LeftOut]:
    """As `read_tagged`, of lines that are in memory; `path` is for messages."""
    return _read(path, lines, _tagged_words)


def write_tagged(sentences: Iterable[Record]) -> str:
    """The text of a file that `read_tagged` reads; without sentences it is empty."""
    blocks = (
        ''.join(f'{word}\t{tag}\n' for word, tag in words_of(sentence)) for sentence in sentences
    )
    return '\n'.join(blocks)


def words_of(sentence: Record) -> list[Word]:
    """The words of a record with their tags, [('In', 'ADP'), ('dem', 'DET')]."""
    # At spaces alone: a word may hold any other kind of space.
    return list(zip(sentence['words'].split(' '), sentence['tags'].split(' '), strict=True))


def _read(
    path: str,
    lines: Iterable[Numbered],
    words_in: Callable[[list[tuple[int, str]]], Iterator[Word]],
) -> Iterator[Record | BadRecord | LeftOut]:
    """A record for each block of lines; `words_in` raises _BadLine for what is not right."""
    for block in _blocks(lines):
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


def _blocks(lines: Iterable[Numbered]) -> Iterator[list[tuple[int, str]] | BadRecord]:
    """The lines between blank ones, numbered; for a block with a bad line, that BadRecord."""
    block: list[tuple[int, str]] = []
    bad: BadRecord | None = None
    for number, line in lines:
        if isinstance(line, BadRecord):
            bad = bad or line
        elif line.strip():
            block.append((number, line))
        elif block or bad:
            yield bad or block
            block, bad = [], None
    if block or bad:
        yield bad or block


class _BadLine(Exception):
    """The number of a line, and what is wrong with it."""


def _conllu_words(block: list[tuple[int, str]]) -> Iterator[Word]:
    """The words of one sentence."""
    for number, (_, word, _, tag, *_) in _numbered_words(block, 10):
        yield _word(number, word.replace(_NON_JOINER, ''), tag)


def _iob2_words(block: list[tuple[int, str]]) -> Iterator[Word]:
    for number, (_, word, tag, *_) in _numbered_words(block, 5):
        yield _word(number, word, tag)


def _numbered_words(
    block: list[tuple[int, str]], num_columns: int
) -> Iterator[tuple[int, list[str]]]:
    """The columns of each line that is a word, with the line's number."""
    expected = 1
    for number, line in block:
        if line.startswith('#'):
            continue
        columns = line.split('\t')
        if len(columns) != num_columns:
            raise _BadLine(number, f'{len(columns)} TAB-separated columns instead of {num_columns}')
        if _SKIPPED.fullmatch(columns[0]):
            continue
        if not _NUMBER.fullmatch(columns[0]) or int(columns[0]) != expected:
            raise _BadLine(number, f'the word is numbered {columns[0]!r}, not {expected}')
        expected += 1
        yield number, columns


def _tagged_words(block: list[tuple[int, str]]) -> Iterator[Word]:
    for number, line in block:
        columns = line.split('\t')
        if len(columns) != 2:
            raise _BadLine(number, f'{len(columns)} TAB-separated columns instead of 2 (word, tag)')
        yield _word(number, *columns)


def _word(number: int, word: str, tag: str) -> Word:
    """The word without spaces, and its tag."""
    word, tag = word.replace(' ', ''), tag.strip()
    if not word:
        raise _BadLine(number, 'the word is empty')
    if not tag or len(tag.split()) > 1:
        raise _BadLine(number, f'{tag!r} is not a tag')
    return word, tag
