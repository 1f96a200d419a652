"""TMX, the exchange format of translation memories (version 1.4b, www.gala-global.org/tmx-14b).

expat reads the file piece by piece, and nothing in it is trusted: entities that it declares are
refused, so that none can expand or name another file, and its document type is never looked up.
"""

import re
from collections.abc import Iterator
from xml.parsers import expat

from xlbench import limits
from xlbench.data.readers.records import BadRecord, Item, LeftOut
from xlbench.data.readers.text_lines import BROKEN, broken, open_binary

_BLOCK = 1 << 16
_MOST_LEVELS = 64  # Elements inside each other; TMX has at most a dozen.
# Elements whose text is code of the program that the text is from, not text.
_CODE = frozenset(('bpt', 'ept', 'it', 'ph', 'ut', 'sub'))


def read_tmx(path: str, source_lang: str, target_lang: str) -> Iterator[Item]:
    """The texts of both languages of each unit that has both; another one is LeftOut.

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
        """The line that is being read, 1-based."""
        return self._parser.CurrentLineNumber

    def feed(self, block: bytes) -> None:
        """Reads on; an empty block ends the file."""
        self._fed += len(block)
        self._parser.Parse(block, not block)
        # What is not read yet is one tag, comment or the like that has no end.
        if self._fed - max(self._parser.CurrentByteIndex, 0) > limits.LINE_BYTES.value + _BLOCK:
            raise limits.LINE_BYTES.exceeded('a tag or comment is too long')

    def taken(self) -> list[tuple[int, dict[str, str]]]:
        """The units since the last time."""
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
        if self._size > limits.LINE_BYTES.value:
            raise limits.LINE_BYTES.exceeded('a text is too long')

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
