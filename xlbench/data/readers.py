"""Strict readers of official files: a generator of records for each format, no TensorFlow.

A reader yields either a record, `{field: text}`, or a `BadRecord` that says where the file is wrong
and why; whoever reads decides whether that stops it. A file that is not there is a UserError.

Line files are read as bytes and split at \\n alone (\\r\\n is accepted), so that a form feed or a
Unicode line separator inside a text never shifts the lines after it. A \\r inside a line is
refused, because other programs end a line there, and so is a NUL, which no text has; a byte order
mark is taken off the first line and is a character in others. One line is in memory at a time. A
name that ends in .gz is decompressed on the way. xlbench/limits.py has the limits on all of it.
"""

import collections
import dataclasses
import fnmatch
import gzip
import itertools
import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from xlbench import errors, limits

_BOM = b'\xef\xbb\xbf'
_UTF16 = (b'\xff\xfe', b'\xfe\xff')


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A record that cannot be used.

    Attributes:
      path: the file.
      line: 1-based; 0 if the reason is about the file as a whole or names a place inside.
      reason: what is wrong, in plain words.
      fatal: True if the rest of the file cannot be trusted either; it must not be skipped.
    """

    path: str
    line: int
    reason: str
    fatal: bool = False

    def __str__(self) -> str:
        place = f'{self.path}:{self.line}' if self.line else self.path
        return f'{place}: {self.reason}'


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A sound record that a task does without; they are counted by `reason`."""

    reason: str


class BadRecords:
    """What happens to records that cannot be used: at most `allowed()` of them are skipped.

    Attributes:
      skipped: the records that were skipped.
      left_out: reason -> number of sound records that the task did without.
      error: what stopped the reading; reading in another thread may hide the exception.
    """

    def __init__(self, allow: Callable[[], bool] = lambda: False):
        self._allow = allow
        self.skipped: list[BadRecord] = []
        self.left_out: collections.Counter[str] = collections.Counter()
        self.error: errors.UserError | None = None

    def add(self, record: BadRecord) -> None:
        """Skips the record, or raises."""
        if not record.fatal and self._allow():
            self.skipped.append(record)
            return
        hint = '' if record.fatal else '; mend it, or let --skip_bad=N skip up to N such records'
        self.error = errors.UserError(f'{record}{hint}')
        raise self.error


Record = dict[str, str]


def find(path: str) -> list[str]:
    """The files that a path stands for, sorted; empty if there is none.

    It is the file of that name, else the same with .gz; else its last part is a pattern of the
    shell, such as *.tsv*. A packed file beside its unpacked self is not read a second time.
    """
    for name in (path, f'{path}.gz'):
        if os.path.isfile(name):
            return [name]
    folder, pattern = os.path.split(path)
    try:
        names = [n for n in os.listdir(folder or '.') if fnmatch.fnmatchcase(n, pattern)]
    except OSError:
        return []
    paths = {os.path.join(folder, n) for n in names if not n.startswith('.')}
    paths = {p for p in paths if os.path.isfile(p)}
    return sorted(p for p in paths if not (p.endswith('.gz') and p.removesuffix('.gz') in paths))


def open_binary(path: str) -> IO[bytes]:
    """A file, unpacked on the way if its name ends in .gz; UserError if it is not there."""
    try:
        file = open(path, 'rb')  # noqa: SIM115
    except FileNotFoundError as error:
        raise errors.UserError(f'there is no file {path}') from error
    except OSError as error:
        raise errors.UserError(f'{path} cannot be read: {error.strerror or error}') from error
    if path.endswith('.gz'):
        return limits.open_packed(gzip.GzipFile(fileobj=file), file, 'the file')
    return file


def read_whole(path: str) -> bytes:
    """The content of a JSON file, packed or not, without a byte order mark.

    Raises:
      UserError: it cannot be read, or is over a limit.
    """
    try:
        with open_binary(path) as file:
            data = limits.read_all(file, 'the file', limits.JSON_BYTES)
    except BROKEN as error:
        raise errors.UserError(f'{path}: {broken(error)}') from error
    return data.removeprefix(_BOM)


# What a file raises that cannot be read, packed or not, or that is over a limit.
BROKEN = (OSError, EOFError, zlib.error, limits.Exceeded)


def raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file with their ends; one of BROKEN if they cannot be read."""
    most = limits.LINE_BYTES.value
    while raw := file.readline(most + 1):
        if len(raw) > most:
            raise limits.LINE_BYTES.exceeded('the line is too long')
        yield raw


def decoded(raw: bytes, number: int, inner_cr: bool = False) -> str:
    """The text of a line, without its end.

    Args:
      raw: the line, as `raw_lines` gives it.
      number: of the line, from 1; a byte order mark is taken off the first.
      inner_cr: whether \\r may stand inside.

    Raises:
      ValueError: it is no text, and why.
    """
    text = raw.removeprefix(_BOM) if number == 1 else raw
    text = text.removesuffix(b'\n').removesuffix(b'\r')
    try:
        if b'\0' in text or (number == 1 and text.startswith(_UTF16)):
            kind = 'begins as UTF-16 does' if text.startswith(_UTF16) else 'has a NUL byte'
            raise ValueError(f'no text: it {kind}; if it is UTF-16, save it as UTF-8')
        if b'\r' in text and not inner_cr:
            raise ValueError(CR_INSIDE)
        return text.decode()
    except UnicodeDecodeError as error:
        reason = f'not UTF-8: byte 0x{text[error.start]:02x} at byte {error.start}'
        raise ValueError(reason) from None


CR_INSIDE = (
    'has a \\r (carriage return) inside; lines end with \\n or \\r\\n, and not with \\r alone'
)


def lines(path: str, inner_cr: bool = False) -> Iterator[str | BadRecord]:
    """The lines of a file as text; a BadRecord in place of each that is none.

    Args:
      path: the file.
      inner_cr: whether \\r may stand inside a line.
    """
    number = 0
    try:
        with open_binary(path) as file:
            for raw in raw_lines(file):
                number += 1
                try:
                    yield decoded(raw, number, inner_cr)
                except ValueError as error:
                    # A file without line ends, or in another encoding, is wrong as a whole.
                    whole = number == 1 and (raw[-1:] != b'\n' or raw.startswith(_UTF16))
                    yield BadRecord(path, number, str(error), fatal=whole)
    except BROKEN as error:
        yield BadRecord(path, number + 1, broken(error), fatal=True)


def broken(error: Exception) -> str:
    """Why a file cannot be read, of one of BROKEN."""
    return str(error) if isinstance(error, limits.Exceeded) else f'cannot be read: {error}'


def count_lines(path: str) -> int:
    """The number of lines; a last line without an end counts."""
    count, last = 0, b'\n'
    with open_binary(path) as file:
        try:
            while block := file.read(2**20):
                count += block.count(b'\n')
                last = block[-1:]
        except BROKEN as error:
            raise errors.UserError(f'{path}: {broken(error)}') from error
    return count + (last != b'\n')


def _fields(
    path: str,
    number: int,
    line: str,
    columns: Sequence[str],
    *,
    unused: int = 0,
    strip: bool = False,
) -> Record | BadRecord:
    """One line as TAB-separated columns; a single column may hold TABs.

    Args:
      path, number: where the line stands.
      line: the line.
      columns: names of the columns; none may be empty.
      unused: how many more columns there are behind them; they may hold anything.
      strip: whether spaces around a text are taken off.
    """
    wanted = len(columns) + unused
    parts = [line] if wanted == 1 else line.split('\t')
    if len(parts) != wanted:
        names = [*columns, *['unused'] * unused]
        return BadRecord(
            path,
            number,
            f'{len(parts)} TAB-separated columns instead of {wanted} ({", ".join(names)})',
        )
    record = {}
    for name, part in zip(columns, parts, strict=False):
        if not part.strip():
            return BadRecord(path, number, f'{name} is empty')
        record[name] = part.strip() if strip else part
    return record


def _unequal_lines(*paths: str) -> BadRecord | None:
    """Of two files of which line n belongs together: what is wrong if one has more lines."""
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
    """Two files of which line n belongs together.

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
    if unequal := _unequal_lines(source_path, target_path):
        yield unequal
        return
    # Not strict: a line that cannot be read ends its side early, after a fatal BadRecord.
    pairs = zip(lines(source_path), lines(target_path), strict=False)
    for number, (source, target) in enumerate(pairs, 1):
        record: Record = {}
        for path, line, columns in (
            (source_path, source, source_columns),
            (target_path, target, target_columns),
        ):
            part = _fields(path, number, line, columns) if isinstance(line, str) else line
            if isinstance(part, BadRecord):
                yield part
                break
            record |= part
        else:
            yield record


def text_field(value: Any, name: str) -> str:
    """A JSON value that must be a text with something in it; ValueError says what it is."""
    if not isinstance(value, str):
        raise ValueError(f'{name} is {kind_of(value)}, not a text')
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


def kind_of(value: Any) -> str:
    """What a JSON value is, for messages."""
    names = {dict: 'an object', list: 'a list', bool: 'a boolean', type(None): 'null'}
    return names.get(type(value), 'a number' if isinstance(value, int | float) else 'a text')


def parse_json(text: str) -> Any:
    """json.loads of which every failure is a ValueError, a limit on depth included."""
    try:
        try:
            value = json.loads(text)
        except RecursionError:
            raise limits.too_deep('the JSON') from None
        if text.count('[') + text.count('{') > limits.JSON_DEPTH.value:
            limits.check_depth(value, 'the JSON')
        return value
    except limits.Exceeded as error:
        raise ValueError(str(error)) from None


def json_lines(path: str) -> Iterator[tuple[int, dict[str, Any]] | BadRecord]:
    """The JSON object on each line, with the line's number; a BadRecord where there is none."""
    for number, line in enumerate(lines(path), 1):
        if isinstance(line, BadRecord):
            yield line
            continue
        try:
            if not line.strip():
                raise ValueError('the line is empty')
            value = parse_json(line)
            if not isinstance(value, dict):
                raise ValueError(f'{kind_of(value)}, not an object')
        except json.JSONDecodeError as error:
            yield BadRecord(path, number, f'not JSON: {error.msg} at column {error.colno}')
        except ValueError as error:
            yield BadRecord(path, number, str(error))
        else:
            yield number, value


def check_keys(value: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raises ValueError for an object that lacks one of the keys."""
    missing = [key for key in keys if key not in value]
    if missing:
        there = ', '.join(errors.shortened(key) for key in list(value)[:20])
        raise ValueError(f'no key {missing[0]!r}; it has {there}')


def read_jsonl(path: str, fields: Mapping[str, str]) -> Iterator[Record | BadRecord]:
    """A JSON object on each line.

    Args:
      path: the file.
      fields: record field -> key of the object. Other keys are left out.

    Example: {"src": "Der Zug hielt.", "tgt": "Halt"}, fields {'inputs': 'src', 'targets': 'tgt'} ->
      {'inputs': 'Der Zug hielt.', 'targets': 'Halt'}
    """
    for line in json_lines(path):
        if isinstance(line, BadRecord):
            yield line
            continue
        number, value = line
        try:
            check_keys(value, fields.values())
            yield {name: text_field(value[key], key) for name, key in fields.items()}
        except ValueError as error:
            yield BadRecord(path, number, str(error))


def read_tsv(
    path: str, columns: Sequence[str], header: bool = False
) -> Iterator[Record | BadRecord]:
    """TAB-separated columns; quotes mean nothing, so a field holds neither a TAB nor a line end.

    Args:
      path: the file.
      columns: without a header, the name of each column, in order, all of them. With a header, the
        names to keep, in any order.
      header: the first line names the columns.

    Example: 'Der Zug hielt.\\tHalt', columns ('inputs', 'targets') ->
      {'inputs': 'Der Zug hielt.', 'targets': 'Halt'}
    """
    numbered: Iterator[tuple[int, str | BadRecord]] = enumerate(lines(path), 1)
    names = list(columns)
    if header:
        _, line = next(numbered, (1, ''))
        if isinstance(line, BadRecord):
            yield dataclasses.replace(line, fatal=True)
            return
        names = line.split('\t')
        for name in columns:
            if names.count(name) != 1:
                count = 'no' if name not in names else 'more than one'
                there = errors.shortened(names, 400)
                yield BadRecord(
                    path, 1, f'{count} column {name!r}; the header has {there}', fatal=True
                )
                return
    for number, line in numbered:
        if isinstance(line, BadRecord):
            yield line
            continue
        parts = line.split('\t')
        if len(parts) != len(names):
            yield BadRecord(
                path, number, f'{len(parts)} TAB-separated columns instead of {len(names)}'
            )
            continue
        record = dict(zip(names, parts, strict=True))
        empty = [name for name in columns if not record[name].strip()]
        if empty:
            yield BadRecord(path, number, f'{empty[0]} is empty')
        else:
            yield {name: record[name] for name in columns}


def read_squad(path: str) -> Iterator[Record | BadRecord]:
    """Question answering in SQuAD 1.1's JSON: one record a question, with its first answer.

    Reasons name the place by article, paragraph and question, counted from 1, because a JSON file
    has no useful lines. Every text must be there, the passage must hold the answer at
    `answer_start`, in code points, and no two questions may have the same id.

    Example: {"data": [{"title": "Rome", "paragraphs": [{"context": "Rome is old.", "qas": [
      {"id": "q1", "question": "What is old?", "answers": [{"text": "Rome", "answer_start": 0}]}
      ]}]}]} ->
      {'id': 'q1', 'title': 'Rome', 'article': '0', 'paragraph': '0', 'context': 'Rome is old.',
       'question': 'What is old?', 'answer': 'Rome'}; article and paragraph (of the article) count
      from 0.
    """
    try:
        articles = _items(json_document(path), 'data', 'the file')
    except ValueError as error:
        yield as_bad_record(path, error)
        return
    first: dict[str, str] = {}
    for article_index, article in enumerate(articles):
        place = f'article {article_index + 1}'
        try:
            paragraphs = _items(article, 'paragraphs', place)
            title = text_field(article.get('title') or '-', f'title of {place}')
            title = title if article.get('title') else ''
        except ValueError as error:
            yield BadRecord(path, 0, str(error))
            continue
        for paragraph_index, paragraph in enumerate(paragraphs):
            inner = f'{place} {errors.shortened(title)}, paragraph {paragraph_index + 1}'
            common = {
                'title': title,
                'article': str(article_index),
                'paragraph': str(paragraph_index),
            }
            yield from _squad_questions(path, paragraph, inner, common, first)


def json_document(path: str) -> Any:
    """The content of a JSON file; `as_bad_record` makes what is wrong with it a BadRecord."""
    try:
        with open_binary(path) as file:
            data = limits.read_all(file, 'the file', limits.JSON_BYTES)
    except BROKEN as error:
        raise ValueError(broken(error)) from error
    if data.startswith(_UTF16):
        raise ValueError('begins as UTF-16 does; save it as UTF-8')
    return parse_json(data.removeprefix(_BOM).decode())


def as_bad_record(path: str, error: ValueError) -> BadRecord:
    """What is wrong with a JSON file as a whole."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b'\n', 0, error.start) + 1
        return BadRecord(path, line, f'not UTF-8: byte 0x{error.object[error.start]:02x}', True)
    if isinstance(error, json.JSONDecodeError):
        return BadRecord(path, error.lineno, f'not JSON: {error.msg} at column {error.colno}', True)
    return BadRecord(path, 0, str(error), fatal=True)


def _items(value: Any, key: str, place: str) -> list[Any]:
    """`value[key]`, which must be a list; ValueError names the place."""
    if not isinstance(value, dict):
        raise ValueError(f'{place} is {kind_of(value)}, not an object')
    if key not in value:
        raise ValueError(f'{place} has no {key!r}')
    if not isinstance(value[key], list):
        raise ValueError(f'{key!r} of {place} is {kind_of(value[key])}, not a list')
    return value[key]


def _squad_questions(
    path: str, paragraph: Any, place: str, common: Record, first: dict[str, str]
) -> Iterator[Record | BadRecord]:
    """The records of one paragraph; `first` has the place of each id so far."""
    try:
        questions = _items(paragraph, 'qas', place)
        context = text_field(paragraph.get('context'), f'context of {place}')
    except ValueError as error:
        yield BadRecord(path, 0, str(error))
        return
    for index, question in enumerate(questions):
        inner = f'{place}, question {index + 1}'
        try:
            record = _squad_question(question, context, inner)
            there = first.setdefault(record['id'], inner)
            if there != inner:
                raise ValueError(f'{inner} has the id {errors.shortened(record["id"])} of {there}')
            yield common | record
        except ValueError as error:
            yield BadRecord(path, 0, str(error))


def _squad_question(question: Any, context: str, place: str) -> Record:
    """The fields of one question; ValueError names the place."""
    answers = _items(question, 'answers', place)
    record = {
        'id': text_field(question.get('id'), f'id of {place}'),
        'context': context,
        'question': text_field(question.get('question'), f'question of {place}'),
    }
    if not answers or not isinstance(answers[0], dict):
        raise ValueError(f'{place} has no answer')
    answer = text_field(answers[0].get('text'), f'answer of {place}')
    start = answers[0].get('answer_start')
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise ValueError(f'answer_start of {place} is {errors.shortened(start)}, not a position')
    if not context.startswith(answer, start):
        start = errors.shortened(start)
        raise ValueError(f'answer_start of {place} is {start}, where the context has another text')
    return record | {'answer': answer}


def read_pairs(path: str) -> Iterator[Record | BadRecord]:
    """MRS's pairs: four TAB-separated columns, message, reply and two that are not used.

    Texts are stripped. microsoft/MRS drops pairs with an empty text and reads on past lines of any
    other number of columns; here each of them is a BadRecord.

    Example: 'Hast du Zeit?\\tJa, um drei.\\t1\\t2' -> {'message': 'Hast du Zeit?', 'reply': 'Ja, um
      drei.'}
    """
    for number, line in enumerate(lines(path), 1):
        if isinstance(line, BadRecord):
            yield line
        else:
            yield _fields(path, number, line, ('message', 'reply'), unused=2, strip=True)


def read_responses(path: str, mapping: str | None = None) -> Iterator[Record | BadRecord]:
    """MRS's response set: TAB-separated score of a language model, text, cluster, maybe more.

    Args:
      path: response_lm_cluster.txt; no text may occur twice.
      mapping: response.mapping.txt: on line n the text of line n, TAB, the text to show for it.

    Example: '-3.5\\tOkay!\\t17', mapping 'Okay!\\tOK' ->
      {'lm_score': '-3.5', 'reply': 'Okay!', 'cluster': '17', 'display': 'OK'}; without a mapping
      display is ''.
    """
    if mapping and (unequal := _unequal_lines(path, mapping)):
        yield unequal
        return
    first: dict[str, int] = {}
    shown = lines(mapping) if mapping else itertools.repeat(None)
    for number, (line, other) in enumerate(zip(lines(path), shown, strict=False), 1):
        record = line if isinstance(line, BadRecord) else _response(path, number, line)
        if isinstance(record, BadRecord):
            yield record
            continue
        text = record['reply']
        display: Record | BadRecord = {'display': ''}
        if other is not None:
            display = _display(mapping, number, other, text)
        if isinstance(display, BadRecord):
            yield display
        elif text in first:
            reason = f'{text!r} is on line {first[text]} already; responses must differ'
            yield BadRecord(path, number, reason)
        else:
            first[text] = number
            yield record | display


def _response(path: str, number: int, line: str) -> Record | BadRecord:
    """One line of a response set."""
    columns = ('lm_score', 'reply', 'cluster')
    unused = max(line.count('\t') + 1 - len(columns), 0)
    record = _fields(path, number, line, columns, unused=unused, strip=True)
    if isinstance(record, BadRecord):
        return record
    try:
        finite = math.isfinite(float(record['lm_score']))
    except ValueError:
        finite = False
    if not finite:
        return BadRecord(path, number, f'lm_score is {record["lm_score"]!r}, not a number')
    return record


def _display(path: str, number: int, line: str | BadRecord, text: str) -> Record | BadRecord:
    """The text to show for a response, from one line of the mapping."""
    if isinstance(line, BadRecord):
        return line
    record = _fields(path, number, line, ('response', 'display'), strip=True)
    if isinstance(record, BadRecord):
        return record
    if record['response'] != text:
        reason = f'maps {record["response"]!r}, but this line of the response set has {text!r}'
        return BadRecord(path, number, reason, fatal=True)
    return {'display': record['display']}


# ---------------------------------------------------------------------------------------------
# Dialogues: each utterance but the last is a message, the next one its reply.


def read_dialogues(path: str, separator: str = '__eou__') -> Iterator[Record | BadRecord]:
    """A dialogue on each line.

    Spaces around an utterance are stripped and a separator behind the last one is accepted. What
    follows a TAB, such as topics and acts, is left out, unless the TAB is the separator. A dialogue
    that has an empty utterance, or a single one, is a BadRecord.

    Args:
      path: the file.
      separator: what stands between two utterances.

    Example: 'Hi . __eou__ Hello ! __eou__ Bye . __eou__\\t1\\t1 1 1' ->
      {'dialogue': '0', 'message': 'Hi .', 'reply': 'Hello !'},
      {'dialogue': '0', 'message': 'Hello !', 'reply': 'Bye .'}; dialogue counts from 0.
    """
    for number, line in enumerate(lines(path), 1):
        if isinstance(line, BadRecord):
            yield line
            continue
        text = line if '\t' in separator else line.partition('\t')[0]
        utterances = [utterance.strip() for utterance in text.split(separator)]
        if len(utterances) > 1 and not utterances[-1]:
            utterances.pop()
        if '' in utterances:
            yield BadRecord(path, number, f'utterance {utterances.index("") + 1} is empty')
        elif len(utterances) == 1:
            reason = f'has no {separator!r} with something on both sides: no reply'
            yield BadRecord(path, number, reason)
        else:
            for message, reply in itertools.pairwise(utterances):
                yield {'dialogue': str(number - 1), 'message': message, 'reply': reply}


def read_dialogues_json(path: str) -> Iterator[Record | BadRecord]:
    """A JSON list of objects whose `dialogue` is a list of utterances, or of [message, reply].

    Other keys are left out. A dialogue with anything else in it is a BadRecord, as a whole; the
    reason names it and the turn, counted from 1.

    Example: [{"persona": ["I like tea ."], "dialogue": [["hello !", "hi , tea ?"]]}] ->
      {'dialogue': '0', 'message': 'hello !', 'reply': 'hi , tea ?'}; dialogue counts from 0.
    """
    try:
        dialogues = json_document(path)
        if not isinstance(dialogues, list):
            raise ValueError(f'the file is {kind_of(dialogues)}, not a list of dialogues')
    except ValueError as error:
        yield as_bad_record(path, error)
        return
    for number, dialogue in enumerate(dialogues):
        place = f'dialogue {number + 1}'
        try:
            turns = _items(dialogue, 'dialogue', place)
            pairs = list(_turn_pairs(turns, place))
        except ValueError as error:
            yield BadRecord(path, 0, str(error))
            continue
        for message, reply in pairs:
            yield {'dialogue': str(number), 'message': message, 'reply': reply}


def _turn_pairs(turns: list[Any], place: str) -> Iterator[tuple[str, str]]:
    """Messages and replies of one dialogue; ValueError names the place."""
    paired = any(isinstance(turn, list) for turn in turns)
    if not paired and len(turns) < 2:
        raise ValueError(f'{place} has {len(turns)} utterances, no reply')
    texts = []
    for number, turn in enumerate(turns, 1):
        inner = f'turn {number} of {place}'
        if paired and not (isinstance(turn, list) and len(turn) == 2):
            raise ValueError(f'{inner} is not a list of message and reply')
        texts.append([text_field(t, inner).strip() for t in (turn if paired else [turn])])
    if paired:
        yield from map(tuple, texts)
    else:
        yield from itertools.pairwise(text for (text,) in texts)
