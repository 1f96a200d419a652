"""Readers of JSON lines, documents and arrays, and of question answering in SQuAD's form."""

import codecs
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import IO

from xlbench.data.readers import text_lines
from xlbench.data.readers.text_lines import BadRecord, Record, Records
from xlbench.system import errors, untrusted
from xlbench.system.files import Json


def text_field(value: Json, name: str, *, may_be_empty: bool = False) -> str:
    """Returns a JSON value that must be a text other than spaces; else ValueError names the field.

    '' is allowed with `may_be_empty`.
    """
    if not isinstance(value, str):
        raise ValueError(f'{name} is {kind_of(value)}, not a text')
    if may_be_empty and not value:
        return value
    if not value.strip():
        raise ValueError(f'{name} is empty')
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON can spell half of a surrogate pair, which no UTF-8 file can hold.
        raise ValueError(f'{name} has a lone surrogate (\\ud800 to \\udfff)') from None
    if '\0' in value:
        raise ValueError(f'{name} has a NUL (\\u0000)')
    return value


def kind_of(value: Json) -> str:
    """Names the type of a JSON value, for messages."""
    names = {dict: 'an object', list: 'a list', bool: 'a boolean', type(None): 'null'}
    return names.get(type(value), 'a number' if isinstance(value, int | float) else 'a text')


def parse_json(text: str) -> Json:
    """Parses JSON; every failure is a ValueError, also too much depth."""
    try:
        try:
            value = json.loads(text)
        except RecursionError:
            raise untrusted.too_deep('the JSON') from None
        if text.count('[') + text.count('{') > untrusted.JSON_DEPTH.value:
            untrusted.check_depth(value, 'the JSON')
        return value
    except untrusted.Exceeded as error:
        raise ValueError(str(error)) from None


def json_lines(path: str) -> Iterator[tuple[int, dict[str, Json]] | BadRecord]:
    """Yields the JSON object on each line with the line's number, or a BadRecord."""

    def numbered_object(number: int, line: str) -> Iterator[tuple[int, dict[str, Json]]]:
        if not line.strip():
            raise ValueError('the line is empty')
        try:
            value = parse_json(line)
        except json.JSONDecodeError as error:
            reason = f'not JSON: {error.msg} at column {error.colno}'
            if number == 1 and line.lstrip().startswith('['):
                reason += '; a file that is one JSON array has to end in .json'
                raise text_lines.broken_file(path, number, reason) from None
            raise ValueError(reason) from None
        if not isinstance(value, dict):
            raise ValueError(f'{kind_of(value)}, not an object')
        yield number, value

    return text_lines.convert(path, text_lines.numbered(path), numbered_object)


def check_keys(value: Json, keys: Iterable[str]) -> None:
    """Raises ValueError for a value that is no object or lacks one of the keys."""
    if not isinstance(value, dict):
        raise ValueError(f'{kind_of(value)}, not an object')
    missing = [key for key in keys if key not in value]
    if missing:
        there = ', '.join(errors.shortened(key) for key in list(value)[:20])
        raise ValueError(f'no key {missing[0]!r}; it has {there}')


def read_jsonl(path: str, fields: Mapping[str, str], may_be_empty: Container[str] = ()) -> Records:
    """Reads a JSON object on each line.

    `fields` gives the key of the object by the record's field, of which some may be ''.

    Example: {"src": "Der Zug hielt.", "tgt": "Halt"}, fields {'inputs': 'src', 'targets': 'tgt'} ->
      {'inputs': 'Der Zug hielt.', 'targets': 'Halt'}
    """

    def texts(_: int, value: dict[str, Json]) -> Iterator[Record]:
        check_keys(value, fields.values())
        yield {
            name: text_field(value[key], key, may_be_empty=name in may_be_empty)
            for name, key in fields.items()
        }

    return text_lines.convert(path, json_lines(path), texts)


def json_document(path: str) -> Json:
    """Parses a JSON file; UserError if it is not JSON."""
    data = text_lines.read_whole(path)
    try:
        if data.startswith(text_lines.UTF16):
            raise ValueError('begins as UTF-16 does; save it as UTF-8')
        return parse_json(data.decode())
    except UnicodeDecodeError as error:
        line, reason = data.count(b'\n', 0, error.start) + 1, f'byte 0x{data[error.start]:02x}'
        raise text_lines.broken_file(path, line, f'not UTF-8: {reason}') from None
    except json.JSONDecodeError as error:
        reason = f'not JSON: {error.msg} at column {error.colno}'
        raise text_lines.broken_file(path, error.lineno, reason) from None
    except ValueError as error:
        raise text_lines.broken_file(path, 0, str(error)) from None


def items(value: Json, key: str, place: str) -> list[Json]:
    """Returns `value[key]`, which must be a list; ValueError names the place."""
    if not isinstance(value, dict):
        raise ValueError(f'{place} is {kind_of(value)}, not an object')
    if key not in value:
        raise ValueError(f'{place} has no {key!r}')
    if not isinstance(value[key], list):
        raise ValueError(f'{key!r} of {place} is {kind_of(value[key])}, not a list')
    return value[key]


_Found = tuple[str, Record, Json]  # The place of a value, what is known of it, and the value.


def read_squad(path: str) -> Records:
    """Reads question answering in SQuAD 1.1's JSON: a record for each question and first answer.

    No text may be empty, the passage must have the answer at `answer_start` (in code points), and
    ids must differ. Reasons count articles, paragraphs and questions from 1.

    Example: {"data": [{"title": "Rome", "paragraphs": [{"context": "Rome is old.", "qas": [
      {"id": "q1", "question": "What is old?", "answers": [{"text": "Rome", "answer_start": 0}]}
      ]}]}]} ->
      {'id': 'q1', 'title': 'Rome', 'article': '0', 'paragraph': '0', 'context': 'Rome is old.',
       'question': 'What is old?', 'answer': 'Rome'}; article and paragraph (of the article) count
      from 0.
    """
    document = json_document(path)
    try:
        articles = items(document, 'data', 'the file')
    except ValueError as error:
        raise text_lines.broken_file(path, 0, str(error)) from None
    first: dict[str, str] = {}  # Id -> the place of its first question.

    def paragraphs(number: int, article: Json) -> Iterator[tuple[int, _Found]]:
        place = f'article {number}'
        values = items(article, 'paragraphs', place)
        title = article.get('title') or ''
        title = title and text_field(title, f'title of {place}')
        for index, paragraph in enumerate(values):
            inner = f'{place} {errors.shortened(title)}, paragraph {index + 1}'
            common = {'title': title, 'article': str(number - 1), 'paragraph': str(index)}
            yield 0, (inner, common, paragraph)

    def questions(_: int, found: _Found) -> Iterator[tuple[int, _Found]]:
        place, common, paragraph = found
        values = items(paragraph, 'qas', place)
        common |= {'context': text_field(paragraph.get('context'), f'context of {place}')}
        for index, question in enumerate(values, 1):
            yield 0, (f'{place}, question {index}', common, question)

    def record(_: int, found: _Found) -> Iterator[Record]:
        place, common, question = found
        answers = items(question, 'answers', place)
        name = text_field(question.get('id'), f'id of {place}')
        asked = text_field(question.get('question'), f'question of {place}')
        if not answers or not isinstance(answers[0], dict):
            raise ValueError(f'{place} has no answer')
        answer = text_field(answers[0].get('text'), f'answer of {place}')
        start = answers[0].get('answer_start')
        at = f'answer_start of {place} is {errors.shortened(start)}'
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            raise ValueError(f'{at}, not a position')
        if not common['context'].startswith(answer, start):
            raise ValueError(f'{at}, where the context has another text')
        if (there := first.setdefault(name, place)) != place:
            raise ValueError(f'{place} has the id {errors.shortened(name)} of {there}')
        yield common | {'id': name, 'question': asked, 'answer': answer}

    found = text_lines.convert(path, enumerate(articles, 1), paragraphs, '')
    yield from text_lines.convert(path, text_lines.convert(path, found, questions, ''), record, '')


_BLOCK = 1 << 20  # Bytes that are read at once.
_NO_SPACE = re.compile(r'[^ \t\n\r]')
_DECODER = json.JSONDecoder()


def json_items(path: str) -> Iterator[tuple[int, Json]]:
    """Yields each value of a JSON array with its place, from 1; one value is in memory at a time.

    A value has at most XLBENCH_MAX_LINE_BYTES. A fault of the array itself is a UserError.

    Example: [{"id": "a"}, {"id": "b"}] -> (1, {'id': 'a'}), (2, {'id': 'b'})
    """
    number, text = 0, None
    try:
        with text_lines.open_binary(path) as file:
            text = _Text(file)
            for number, value in enumerate(text.values(), 1):
                yield number, value
    except text_lines.BROKEN as error:
        reason = f'{text_lines.broken(error)}{_after(number)}'
        raise text_lines.broken_file(path, 0, reason) from error
    except UnicodeDecodeError as error:
        reason = f'not UTF-8: byte 0x{error.object[error.start]:02x}{_after(number)}'
        raise text_lines.broken_file(path, 0, reason) from None
    except ValueError as error:
        line = text.line if text else 0
        raise text_lines.broken_file(path, line, f'{error}{_after(number)}') from None


def _after(number: int) -> str:
    return f', after object {number}' if number else ''


class _Text:
    """The part of a file that is in memory, and a place in it."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._decoder = codecs.getincrementaldecoder('utf-8-sig')()  # Without a byte order mark.
        self._text, self._at, self._ended = '', 0, False
        self._lines = 1  # With those before the text in memory.
        self._read()

    @property
    def line(self) -> int:
        return self._lines + self._text.count('\n', 0, self._at)

    def _read(self) -> None:
        block = self._file.read(_BLOCK)
        if not self._text and block.startswith(text_lines.UTF16):
            raise ValueError('begins as UTF-16 does; save it as UTF-8')
        self._ended, self._lines = not block, self.line
        self._text = self._text[self._at :] + self._decoder.decode(block, self._ended)
        self._at = 0

    def next(self) -> str:
        """Moves to the next character that is not a space, and returns it; '' at the end."""
        while True:
            found = _NO_SPACE.search(self._text, self._at)
            self._at = found.start() if found else len(self._text)
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._read()

    def takes(self, character: str) -> bool:
        """Moves behind the next character that is not a space, if it is this one."""
        found = self.next() == character
        self._at += found
        return found

    def values(self) -> Iterator[Json]:
        """Yields the values of an array; ValueError says what is wrong with it."""
        if not self.takes('['):
            raise ValueError('the file is not a list of objects')
        if not self.takes(']'):
            yield self.value()
            while self.takes(','):
                yield self.value()
            if not self.takes(']'):
                raise ValueError('no comma' if self.next() else 'the file ends inside the list')
        if self.next():
            raise ValueError('something follows the list')

    def value(self) -> Json:
        """Returns the JSON value that comes next; ValueError if there is none."""
        self.next()
        before = -1
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # More text may complete the value, but does not mend what is wrong in front of it.
                place = error.pos - self._at
                is_wrong = place == before and not error.msg.startswith('Unterminated')
                if self._ended or is_wrong:
                    self._at = error.pos
                    raise ValueError(f'not JSON: {error.msg}') from None
                before = place
            except RecursionError:
                raise untrusted.too_deep('the JSON') from None
            else:
                # A number may go on in the next block: '1', '1e+'.
                if end + 3 < len(self._text) or self._ended:
                    break
            if len(self._text) - self._at > untrusted.LINE_BYTES.value:
                raise untrusted.LINE_BYTES.exceeded('an object is too long')
            self._read()
        levels = sum(self._text.count(bracket, self._at, end) for bracket in '[{')
        if levels > untrusted.JSON_DEPTH.value:
            untrusted.check_depth(value, 'the JSON')
        self._at = end
        return value
