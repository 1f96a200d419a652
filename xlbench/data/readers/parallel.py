"""Readers of parallel texts: aligned files, TAB-separated tables, translation memories (TMX).

Expat reads a TMX (version 1.4b, www.gala-global.org/tmx-14b) piece by piece. Entities that it
declares are refused, so that none can expand or name another file, and its DTD is never loaded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.parsers import expat

from xlbench.data.readers import text_lines
from xlbench.data.readers.text_lines import BadRecord, Item, LeftOut, Record, Records, Value
from xlbench.system import untrusted


def fields(line: str, columns: Sequence[str], *, unused: int = 0, strip: bool = False) -> Record:
    """Splits a line into TAB-separated columns; ValueError if it has others, or an empty one.

    A single column may hold TABs. `unused` further columns may have any content. With `strip`,
    spaces around a text are removed.
    """
    num_columns = len(columns) + unused
    parts = [line] if num_columns == 1 else line.split('\t')
    if len(parts) != num_columns:
        names = [*columns, *['unused'] * unused]
        raise ValueError(
            f'{len(parts)} TAB-separated columns instead of {num_columns} ({", ".join(names)})'
        )
    record = {}
    for name, part in zip(columns, parts, strict=False):
        if not part.strip():
            raise ValueError(f'{name} is empty')
        record[name] = part.strip() if strip else part
    return record


def check_aligned(*paths: str) -> None:
    """Raises UserError, with the first line without partner, for two files of unequal lengths."""
    counts = sorted((text_lines.count_lines(path), path) for path in paths)
    (fewest, shorter), (most, longer) = counts
    if fewest < most:
        raise text_lines.broken_file(
            shorter,
            fewest + 1,
            f'has {fewest} lines but {longer} has {most}; line n of both must be the same example',
        )


def read_parallel(
    source_path: str,
    target_path: str,
    source_columns: Sequence[str] = ('source',),
    target_columns: Sequence[str] = ('target',),
) -> Records:
    """Reads two files that are aligned line by line; for the columns see `fields`.

    The lines are counted before the first record: after a missing line every pair would be wrong
    unnoticed.

    Example: 'Rome is old.\\tRome' and 'What is old?', with source_columns ('passage', 'answer') ->
      {'passage': 'Rome is old.', 'answer': 'Rome', 'target': 'What is old?'}
    """
    check_aligned(source_path, target_path)
    sides = read_tsv(source_path, source_columns), read_tsv(target_path, target_columns)
    yield from text_lines.convert(source_path, beside(*sides), lambda _, both: [both[0] | both[1]])


def beside(
    left: Iterable[Value | BadRecord], right: Iterable[Value | BadRecord]
) -> Iterator[tuple[int, tuple[Value, Value]] | BadRecord]:
    """Yields numbered pairs of the items of two files, or the BadRecord of either."""
    # One of them may have no end.
    for number, (one, other) in enumerate(zip(left, right, strict=False), 1):
        if isinstance(one, BadRecord):
            yield one
        else:
            yield other if isinstance(other, BadRecord) else (number, (one, other))


def read_tsv(path: str, columns: Sequence[str], *, unused: int = 0, strip: bool = False) -> Records:
    """Reads TAB-separated columns, see `fields`; quotes are not special.

    Example: 'Der Zug hielt.\\tHalt', columns ('inputs', 'targets') ->
      {'inputs': 'Der Zug hielt.', 'targets': 'Halt'}
    """

    def of_line(_: int, line: str) -> Iterator[Record]:
        yield fields(line, columns, unused=unused, strip=strip)

    return text_lines.convert(path, text_lines.numbered(path), of_line)


_BLOCK = 1 << 16
_MOST_LEVELS = 64  # Elements inside each other; TMX has at most a dozen.
# Elements whose text is code of the program that the text is from, not text.
_CODE = frozenset(('bpt', 'ept', 'it', 'ph', 'ut', 'sub'))


def read_tmx(path: str, source_lang: str, target_lang: str) -> Iterator[Item]:
    """Reads the texts in two languages (ISO 639-1) of a TMX; a unit without both is LeftOut.

    Of several texts in a language the first counts. Regions are ignored: de-AT is de. White space
    becomes single spaces, and codes of formatting are dropped. The line of a BadRecord is that
    where the unit begins.

    Example: <tu><tuv xml:lang="en-GB"><seg>Good <hi>morning</hi>.</seg></tuv><tuv xml:lang="de">
      <seg>Guten Morgen.</seg></tuv></tu> -> {'source': 'Good morning.', 'target': 'Guten Morgen.'}
    """
    units = _Units(path, {'source': source_lang.lower(), 'target': target_lang.lower()})
    try:
        with text_lines.open_binary(path) as file:
            block = b' '
            while block:
                block = file.read(_BLOCK)
                yield from units.feed(block)
    except expat.ExpatError as error:
        reason = f'not well-formed XML: {expat.ErrorString(error.code)}'
        raise text_lines.broken_file(path, error.lineno, reason) from None
    except (*text_lines.BROKEN, LookupError, UnicodeError) as error:  # An unknown encoding, too.
        raise text_lines.broken_file(path, units.line, text_lines.broken(error)) from error


class _Units:
    """The units of a file that is fed in blocks, as items; `langs` has the code of each side."""

    def __init__(self, path: str, langs: dict[str, str]):
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity
        self._path, self._langs, self._fed = path, langs, 0
        self._open: list[str] = []
        self._code = 0  # Open elements of _CODE.
        self._line, self._lang = 0, ''
        self._texts: dict[str, str] = {}
        self._parts: list[str] | None = None  # Of the text that is open.
        self._size = 0
        self._done: list[Item] = []

    @property
    def line(self) -> int:
        return self._parser.CurrentLineNumber

    def feed(self, block: bytes) -> list[Item]:
        """Reads on, and returns the units that end; an empty block ends the file."""
        self._fed += len(block)
        self._parser.Parse(block, not block)
        # The rest is one tag, comment or the like without end.
        if self._fed - max(self._parser.CurrentByteIndex, 0) > untrusted.LINE_BYTES.value + _BLOCK:
            raise untrusted.LINE_BYTES.exceeded('a tag or comment is too long')
        done, self._done = self._done, []
        return done

    def _refuse(self, reason: str) -> None:
        raise text_lines.broken_file(self._path, self.line, reason)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open and name != 'tmx':
            self._refuse(f'the outermost element is <{name[:40]}>, not <tmx>')
        self._open.append(name)
        if len(self._open) > _MOST_LEVELS:
            self._refuse(f'has more than {_MOST_LEVELS} elements inside each other')
        self._code += name in _CODE
        if name == 'tu':
            self._line, self._texts = self.line, {}
        elif name == 'tuv':
            tag = attributes.get('xml:lang') or attributes.get('lang') or ''
            self._lang = re.split('[-_]', tag.strip(), maxsplit=1)[0].lower()
        elif name == 'seg':
            self._parts, self._size = [], 0

    def _text(self, text: str) -> None:
        if self._parts is None or self._code:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > untrusted.LINE_BYTES.value:
            raise untrusted.LINE_BYTES.exceeded('a text is too long')

    def _end(self, name: str) -> None:
        self._open.pop()
        self._code -= name in _CODE
        if name == 'seg' and self._parts is not None:
            self._texts.setdefault(self._lang, ' '.join(''.join(self._parts).split()))
            self._parts = None
        elif name == 'tu':
            self._done.append(self._item())

    def _item(self) -> Item:
        if not self._texts.keys() >= set(self._langs.values()):
            return LeftOut('units without one of the languages')
        record = {side: self._texts[lang] for side, lang in self._langs.items()}
        empty = [lang for side, lang in self._langs.items() if not record[side]]
        reason = f'the text in {empty[0]} is empty' if empty else ''
        return BadRecord(self._path, self._line, reason) if empty else record

    def _entity(self, name: str, *about: object) -> None:
        self._refuse(f'declares the entity {name[:40]!r}, which no TMX needs; take it out')
