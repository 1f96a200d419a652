"""Parallel texts: files whose lines belong together, tables with tabs, translation memories (TMX).

A TMX (version 1.4b, www.gala-global.org/tmx-14b) is read by expat piece by piece, and nothing in it
is trusted: entities that it declares are refused, so that none can expand or name another file, and
its document type is never looked up.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.parsers import expat

from xlbench.data.readers.text_lines import (
    BROKEN,
    BadRecord,
    Item,
    LeftOut,
    Record,
    Value,
    broken,
    convert,
    count_lines,
    numbered,
    open_binary,
)
from xlbench.system import untrusted


def fields(line: str, columns: Sequence[str], *, unused: int = 0, strip: bool = False) -> Record:
    """Returns one line as TAB-separated columns; a single column may hold TABs.

    Args:
      line: the line.
      columns: names of the columns; none may be empty.
      unused: how many more columns there are behind them; they may hold anything.
      strip: whether spaces around a text are taken off.

    Raises:
      ValueError: the line is not like that.
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


def unequal_lines(*paths: str) -> BadRecord | None:
    """Describes the first line without partner of two files; None if both are equally long."""
    counts = [count_lines(path) for path in paths]
    if counts[0] == counts[1]:
        return None
    shorter, longer = (0, 1) if counts[0] < counts[1] else (1, 0)
    return BadRecord(
        paths[shorter],
        counts[shorter] + 1,
        f'has {counts[shorter]} lines but {paths[longer]} has {counts[longer]}; line n of both '
        'must be the same example',
        fatal=True,
    )


def read_parallel(
    source_path: str,
    target_path: str,
    source_columns: Sequence[str] = ('source',),
    target_columns: Sequence[str] = ('target',),
) -> Iterator[Record | BadRecord]:
    """Reads two files of which line n belongs together.

    Unequal numbers of lines are found before the first record is yielded: past a missing line every
    pair would be wrong, and nothing would show it.

    Args:
      source_path: one example a line.
      target_path: the same examples, in the same order.
      source_columns: names of the TAB-separated columns of a source line. With one name the line
        is one text, TABs and all.
      target_columns: likewise of a target line.

    Example: 'Rome is old.\\tRome' and 'What is old?', with source_columns ('passage', 'answer') ->
      {'passage': 'Rome is old.', 'answer': 'Rome', 'target': 'What is old?'}
    """
    if unequal := unequal_lines(source_path, target_path):
        yield unequal
        return
    sides = read_tsv(source_path, source_columns), read_tsv(target_path, target_columns)
    for both in beside(*sides):
        yield both if isinstance(both, BadRecord) else both[0] | both[1]


def beside(
    left: Iterable[Value | BadRecord], right: Iterable[Value | BadRecord]
) -> Iterator[tuple[Value, Value] | BadRecord]:
    """Yields what stands on the same line of two files; where a side is bad, that BadRecord."""
    # Not strict: a line that cannot be read ends its side early, after a fatal BadRecord.
    for both in zip(left, right, strict=False):
        yield next((side for side in both if isinstance(side, BadRecord)), both)


def read_tsv(
    path: str, columns: Sequence[str], *, unused: int = 0, strip: bool = False
) -> Iterator[Record | BadRecord]:
    """Reads TAB-separated columns; quotes mean nothing, no field holds a line end.

    Args:
      path: the file.
      columns: the name of each column, in order; a single one may hold TABs.
      unused, strip: see `fields`.

    Example: 'Der Zug hielt.\\tHalt', columns ('inputs', 'targets') ->
      {'inputs': 'Der Zug hielt.', 'targets': 'Halt'}
    """

    def of_line(_: int, line: str) -> Iterator[Record]:
        yield fields(line, columns, unused=unused, strip=strip)

    return convert(path, numbered(path), of_line)


_BLOCK = 1 << 16
_MOST_LEVELS = 64  # Elements inside each other; TMX has at most a dozen.
# Elements whose text is code of the program that the text is from, not text.
_CODE = frozenset(('bpt', 'ept', 'it', 'ph', 'ut', 'sub'))


def read_tmx(path: str, source_lang: str, target_lang: str) -> Iterator[Item]:
    """Reads the texts of both languages of each unit that has both; another one is LeftOut.

    Of several texts of a language the first counts. Regions of languages mean nothing: de-AT is
    de. White space becomes single spaces, and codes of formatting are left out. The line of a
    BadRecord is the one where the unit begins.

    Args:
      path: the file, .gz or not.
      source_lang, target_lang: ISO 639-1 codes.

    Example: <tu><tuv xml:lang="en-GB"><seg>Good <hi>morning</hi>.</seg></tuv><tuv xml:lang="de">
      <seg>Guten Morgen.</seg></tuv></tu> -> {'source': 'Good morning.', 'target': 'Guten Morgen.'}
    """
    units = _Units()
    langs = {'source': source_lang.lower(), 'target': target_lang.lower()}
    try:
        with open_binary(path) as file:
            while True:
                block = file.read(_BLOCK)
                units.feed(block)
                for line, texts in units.taken():
                    yield _item(path, line, texts, langs)
                if not block:
                    break
    except _Refused as error:
        yield BadRecord(path, units.line, str(error), fatal=True)
    except expat.ExpatError as error:
        reason = f'not well-formed XML: {expat.ErrorString(error.code)}'
        yield BadRecord(path, error.lineno, reason, fatal=True)
    except (*BROKEN, LookupError, UnicodeError) as error:  # An encoding that nobody knows.
        reason = broken(error) if isinstance(error, BROKEN) else f'cannot be read: {error}'
        yield BadRecord(path, units.line, reason, fatal=True)


def _item(path: str, line: int, texts: dict[str, str], langs: dict[str, str]) -> Item:
    if not all(lang in texts for lang in langs.values()):
        return LeftOut('units without one of the languages')
    record = {side: texts[lang] for side, lang in langs.items()}
    empty = [langs[side] for side, text in record.items() if not text]
    return BadRecord(path, line, f'the text in {empty[0]} is empty') if empty else record


class _Refused(ValueError):
    """The file has what no TMX needs."""


class _Units:
    """The units of a file that is fed in blocks: (line, {language: text})."""

    def __init__(self):
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._entity
        self._fed = 0
        self._open: list[str] = []
        self._code = 0  # How many elements of _CODE are open.
        self._line = 0
        self._lang = ''
        self._texts: dict[str, str] = {}
        self._parts: list[str] | None = None  # Of the text that is open.
        self._size = 0
        self._done: list[tuple[int, dict[str, str]]] = []

    @property
    def line(self) -> int:
        return self._parser.CurrentLineNumber

    def feed(self, block: bytes) -> None:
        """Reads on; an empty block ends the file."""
        self._fed += len(block)
        self._parser.Parse(block, not block)
        # What is not read yet is one tag, comment or the like that has no end.
        if self._fed - max(self._parser.CurrentByteIndex, 0) > untrusted.LINE_BYTES.value + _BLOCK:
            raise untrusted.LINE_BYTES.exceeded('a tag or comment is too long')

    def taken(self) -> list[tuple[int, dict[str, str]]]:
        done, self._done = self._done, []
        return done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open and name != 'tmx':
            raise _Refused(f'the outermost element is <{name[:40]}>, not <tmx>')
        self._open.append(name)
        if len(self._open) > _MOST_LEVELS:
            raise _Refused(f'has more than {_MOST_LEVELS} elements inside each other')
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
            self._done.append((self._line, self._texts))

    def _entity(self, name: str, *about: object) -> None:
        raise _Refused(f'declares the entity {name[:40]!r}, which no TMX needs; take it out')
