"""JSON files that hold one large array, read value by value."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO

from xlbench import limits
from xlbench.data.readers.json_records import Json
from xlbench.data.readers.records import BadRecord
from xlbench.data.readers.text_lines import BOM, BROKEN, UTF16, broken, open_binary

_BLOCK = 1 << 20  # Bytes that are read at once.
_SPACE = re.compile(r'[ \t\n\r]*')
_DECODER = json.JSONDecoder()


def json_items(path: str) -> Iterator[tuple[int, Json] | BadRecord]:
    """Each value of a JSON array with its place, from 1; one of them is in memory at a time.

    A value may be as long as a line of a text file may be (XLBENCH_MAX_LINE_BYTES). What is wrong
    with the array itself is one last BadRecord.

    Args:
      path: the file.

    Example: [{"id": "a"}, {"id": "b"}] -> (1, {'id': 'a'}), (2, {'id': 'b'})
    """
    number = 0
    try:
        with open_binary(path) as file:
            for number, value in enumerate(_values(_Text(file)), 1):
                yield number, value
    except BROKEN as error:
        yield BadRecord(path, 0, f'{broken(error)}, behind object {number}', fatal=True)
    except UnicodeDecodeError as error:
        reason = f'not UTF-8: byte 0x{error.object[error.start]:02x}, behind object {number}'
        yield BadRecord(path, 0, reason, fatal=True)
    except ValueError as error:
        yield BadRecord(path, 0, f'{error}, behind object {number}', fatal=True)


class _Text:
    """The part of a file that is in memory, and a place in it.

    Args:
      file: of which nothing was read.
    """

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._decoder = codecs.getincrementaldecoder('utf-8')()
        self._text, self._at, self._ended = '', 0, False
        first = file.read(_BLOCK)
        if first.startswith(UTF16):
            raise ValueError('begins as UTF-16 does; save it as UTF-8')
        self._add(first.removeprefix(BOM), not first)

    def _add(self, block: bytes, ended: bool) -> None:
        self._ended = ended
        self._text = self._text[self._at :] + self._decoder.decode(block, ended)
        self._at = 0

    def _read(self) -> None:
        block = self._file.read(_BLOCK)
        self._add(block, not block)

    def next(self) -> str:
        """The next character that is no space; '' at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read()

    def skip(self) -> None:
        """Goes behind the next character."""
        self._at += 1

    def value(self) -> Json:
        """The JSON value that begins here; ValueError if there is none."""
        before = -1
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # More text may complete the value, but does not mend what is wrong in front of it.
                place = error.pos - self._at
                is_wrong = place == before and not error.msg.startswith('Unterminated')
                if self._ended or is_wrong:
                    raise ValueError(f'not JSON: {error.msg}') from None
                before = place
            except RecursionError:
                raise limits.too_deep('the JSON') from None
            else:
                # A number may go on in the next block: '1', '1e+'.
                if end + 3 < len(self._text) or self._ended:
                    break
            if len(self._text) - self._at > limits.LINE_BYTES.value:
                raise limits.LINE_BYTES.exceeded('an object is too long')
            self._read()
        levels = sum(self._text.count(bracket, self._at, end) for bracket in '[{')
        if levels > limits.JSON_DEPTH.value:
            limits.check_depth(value, 'the JSON')
        self._at = end
        return value


def _values(text: _Text) -> Iterator[Json]:
    """The values of an array; ValueError says what is wrong with it."""
    if text.next() != '[':
        raise ValueError('the file is not a list of objects')
    text.skip()
    if text.next() != ']':
        yield text.value()
        while text.next() == ',':
            text.skip()
            text.next()
            yield text.value()
        if (character := text.next()) != ']':
            raise ValueError('no comma' if character else 'the file ends inside the list')
    text.skip()
    if text.next():
        raise ValueError('something follows the list')
