"""Reads the inputs of xlbench.predict, writes its answers: text, JSONL, CoNLL and tables."""

import collections
import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import json
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, TypeAlias

from xlbench.config.commands import FORMATS
from xlbench.data import conllu, readers, rows
from xlbench.evaluators.generation import Example, Prediction
from xlbench.inference.answering import CHUNK_BATCHES, Classified, Suggestion, Tagged
from xlbench.inference.generator import Model
from xlbench.inference.labeller import Classifier, Tagger, Texts
from xlbench.inference.loading import Answering
from xlbench.inference.retriever import Retriever
from xlbench.system import errors, untrusted
from xlbench.system.errors import UserError
from xlbench.system.files import Json

# Formats whose sentences have several lines, with a blank line behind each.
_BLOCKS = ('conll', 'conllu')
TABLES = ('csv', 'tsv', 'parquet')
# After this many seconds without another line, the lines so far are answered.
PAUSE = 0.05
_GROUP = 8192  # Rows of a group of Parquet; fewer would make files larger and slower to read.
_SPLIT_WORD = re.compile(r'[0-9]+(-[0-9]+|\.[0-9]+)')  # Numbers of CoNLL-U that are no word's.
# Lines of CoNLL that are no words: the first of a document, and comments like '# id = 7'.
_NO_WORD = re.compile(rb'-DOCSTART-|#\s*\S+\s*=')

Record: TypeAlias = dict[str, Json]
Asked: TypeAlias = Example | Texts  # What a model takes.
Answers: TypeAlias = Sequence[Prediction | Suggestion]  # Best first.
Parsed: TypeAlias = tuple[Record, Asked]
Parse: TypeAlias = Callable[[Any], Parsed]  # Of a text, or of the row of a table.
_Unit: TypeAlias = tuple[int, bytes | Record]  # What is parsed, with its number.
Answered: TypeAlias = Answers | Classified | Tagged  # By whatever model.


def format_of(path: str) -> str:
    """The format that a file's name says. Example: 'in.jsonl.gz' -> 'jsonl', 'in.txt' -> 'text'"""
    suffix = path.removesuffix('.gz').rpartition('.')[2]
    return suffix if suffix in FORMATS and suffix != 'tsv' else 'text'


def output_format(path: str, given: str) -> str:
    """The format of a file of answers, by its name or by the format of the inputs."""
    suffix = path.rpartition('.')[2]
    if suffix in ('jsonl', 'parquet') or (suffix in TABLES and given in TABLES):
        return suffix
    return 'jsonl' if given == 'parquet' else given


class Inputs:
    """The inputs as examples, read by a thread as they come; None where the next takes a while.

    A table is read from the path `name`, everything else from the binary `file`. `parse` takes the
    text of a line or a block of lines, or the row of a table, and gives its record and example; it
    raises UserError or ValueError for what is no input.
    """

    def __init__(self, file: IO[bytes], name: str, format: str, parse: Parse, batch_size: int):
        # Of the examples that were given out; the writer of their answers removes them.
        self.records: collections.deque[Record] = collections.deque()
        self.error: UserError | None = None  # What ended the reading before its time.
        lines = readers.raw_lines(file)
        if format in TABLES:
            self._units: Iterator[_Unit] = _rows(name, format)
        else:
            self._units = _blocks(lines) if format in _BLOCKS else enumerate(lines, 1)
        self._name, self._parse = name, parse
        # Units with their numbers; None or an error ends them.
        self._read_ahead: queue.Queue[Any] = queue.Queue(CHUNK_BATCHES * batch_size)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        number, end = 0, None
        try:
            for number, unit in self._units:
                self._read_ahead.put((number, unit))
        except readers.BROKEN as error:
            end = UserError(f'{self._name}:{number + 1}: {readers.broken(error)}')
        except UserError as error:  # It names its place.
            end = error
        self._read_ahead.put(end)

    def __iter__(self) -> Iterator[Asked | None]:
        while True:
            try:
                unit = self._read_ahead.get(timeout=PAUSE)
            except queue.Empty:
                yield None
                unit = self._read_ahead.get()
            if unit is None or isinstance(unit, UserError):
                self.error = unit
                return
            number, data = unit
            try:
                text = _text(data, number) if isinstance(data, bytes) else data
                record, example = self._parse(text)
            except (UserError, ValueError) as error:
                # The answers to the lines before it come first.
                self.error = UserError(f'{self._name}:{number}: {error}')
                return
            self.records.append(record)
            yield example


def _rows(path: str, format: str) -> Iterator[tuple[int, Record]]:
    layout = rows.Layout(format)
    for row in readers.good(rows.read(path, rows.columns(path, layout), layout)):
        yield row.number, dict(row.values)


def _blocks(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines between blank ones, joined, with the number of the first.

    What has no words, such as -DOCSTART- alone, is joined to the block behind it.
    """
    block: list[bytes] = []
    first, size, most = 1, 0, untrusted.LINE_BYTES.value
    for number, line in enumerate(file, 1):
        if line.strip():
            first, size = (first, size + len(line)) if block else (number, len(line))
            if size > most:
                raise untrusted.LINE_BYTES.exceeded('the sentence is too long')
            block.append(line)
        elif block and all(not part.strip() or _NO_WORD.match(part) for part in block):
            block.append(b'\n')
        elif block:
            yield first, b''.join(block)
            block = []
    if block:
        yield first, b''.join(block)


def _text(data: bytes, number: int) -> str:
    """A line, or the lines of a block, without their ends; ValueError if it is not a text."""
    lines = data.removesuffix(b'\n').split(b'\n')
    return '\n'.join(readers.decoded(line, number + i) for i, line in enumerate(lines))


# ------------------------------------------------------------------------------------------ parsers


def parser(
    model: Answering,
    format: str,
    field: str | None,  # Of the text in a record; two with a comma for pairs; None: the model's.
    langs: tuple[str | None, str | None],  # Source and target, where a record names no others.
) -> Parse:
    """The parser that turns an input into a record and an example of this model.

    Raises:
      UserError: the model cannot take inputs of that format.
    """
    if format in _BLOCKS:
        if not isinstance(model, Tagger):
            name = model.name
            raise UserError(f'{format} is for taggers, and {name} is not one; give text or JSONL')
        return functools.partial(_sentence, model, format)
    if not isinstance(model, Classifier | Tagger):
        if format == 'text':
            return lambda text: ({'inputs': text}, Example(text, *langs))
        return lambda given: _generator_record(model, _record(given), field or 'inputs', langs)
    if format == 'text':
        return functools.partial(_labelled_text, model)
    if isinstance(model, Tagger):
        fields = [field or 'tokens']
    else:
        fields = (field or ('text_a,text_b' if model.num_texts == 2 else 'text')).split(',')

    def parse(given: str | Record) -> Parsed:
        record = _record(given)
        values = [_value(record, name) for name in fields]
        return record, model.example(values[0] if len(values) == 1 else values)

    return parse


def _record(given: str | Record) -> Record:
    """Returns the row of a table, or the object of a line of JSONL."""
    if not isinstance(given, str):
        return given
    try:
        record = readers.parse_json(given)
        if '\\ud' in given.lower():  # Perhaps half of a pair, which the output cannot hold.
            json.dumps(record, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f'not JSON: {error.msg} at column {error.colno}') from None
    except UnicodeEncodeError:
        raise ValueError('the JSON has a lone surrogate (\\ud800 to \\udfff)') from None
    if not isinstance(record, dict):
        raise ValueError('not a JSON object')
    return record


def _value(record: Record, field: str) -> Json:
    errors.check_known('field', field, record, 'Set --field')
    return record[field]


def _generator_record(
    model: Model | Retriever, record: Record, field: str, langs: tuple[str | None, str | None]
) -> Parsed:
    example = Example(_value(record, field), *langs)
    if model.languages.allowed:
        named = {name: record[name] for name in example._fields[1:] if record.get(name)}
        example = example._replace(**named)
    for name, part in zip((field, *example._fields[1:]), example, strict=True):
        if not isinstance(part, str) and (part is not None or name == field):
            raise ValueError(f'{name} is {part!r}, not a text')
    model.mark(*example[1:])
    return record, example


def _labelled_text(model: Classifier | Tagger, line: str) -> Parsed:
    """A text, of a classifier also two with a TAB between them."""
    if isinstance(model, Tagger):
        return {'tokens': line.split()}, model.example(line)
    texts = line.split('\t')
    if len(texts) > 2:
        raise ValueError(f'the line has {len(texts)} texts with TABs between them; give 1 or 2')
    try:
        example = model.example(texts)
    except UserError as error:
        if model.num_texts in (None, len(texts)):
            raise
        hint = 'put both into a line, with a TAB between them'
        hint = hint if len(texts) == 1 else 'a text that holds a TAB can come as JSONL'
        raise UserError(f'{error}; {hint}') from None
    names = ('text',) if len(texts) == 1 else ('text_a', 'text_b')
    return dict(zip(names, texts, strict=True)), example


def _sentence(model: Tagger, format: str, text: str) -> Parsed:
    """The lines of a sentence of CoNLL or CoNLL-U, with the places of its words.

    The first column of CoNLL is a word; columns have TABs between them, or white space. Multiword
    tokens, empty nodes and comments of CoNLL-U have no tag.
    """
    # Not splitlines: a word may hold characters that Unicode takes for ends of lines.
    lines = text.split('\n')
    if format == 'conll':
        start = max((i + 1 for i, line in enumerate(lines) if not line.strip()), default=0)
        rows_of_words = conllu.conll_words(lines[start:])
        words = {start + place: row[0].strip() for place, row in rows_of_words}
    else:
        words = {}
        for place, line in enumerate(lines):
            columns = line.split('\t')
            if not line or line.startswith('#') or _SPLIT_WORD.fullmatch(columns[0]):
                continue
            if len(columns) != conllu.COLUMNS:
                raise ValueError(
                    f'line {place + 1} of the sentence has {len(columns)} TAB-separated columns '
                    f'instead of {conllu.COLUMNS}'
                )
            words[place] = columns[1].replace('\u200c', '')  # As conllu.py reads treebanks.
    return {'lines': lines, 'places': [*words]}, model.example([*words.values()])


# ------------------------------------------------------------------------------------------ writers


@dataclasses.dataclass(frozen=True)
class AnswerWriter:
    """Writes inputs in a format with their answers, as lines or as a table in another format.

    Raises:
      UserError: the formats do not go together.
    """

    model: Answering
    path: str  # Of the inputs.
    given: str  # Their format.
    format: str  # Of the output.
    columns: Sequence[str]  # Of a table that is read.
    scores: bool  # Whether those of the answers are written.
    count: int  # Of the answers to each input.
    _numbers: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1))

    def __post_init__(self):
        if self.format in _BLOCKS and not isinstance(self.model, Tagger):
            name = self.model.name
            raise UserError(f'--format={self.format} is for taggers, and {name} is not one')
        if self.format == 'conllu' and self.given != 'conllu':
            raise UserError('--format=conllu needs CoNLL-U as input; --format=conll takes any')
        if self.format in TABLES and self.given not in TABLES:
            raise UserError(f'--format={self.format} needs a table as input: {", ".join(TABLES)}')
        if self.format in TABLES and (there := sorted({*self._added} & {*self.columns})):
            raise UserError(
                f'{self.path} has a column {there[0]!r}, which the predictions need; rename it, '
                'or give --format=jsonl, which replaces it'
            )

    @property
    def _added(self) -> list[str]:
        """The columns of the answers."""
        names = ['prediction', *(['score'] if self.scores else [])]
        names += ['log_probability'] if self.scores and isinstance(self.model, Model) else []
        if self.count == 1:
            return names
        return [f'{name}_{i}' for i in range(1, self.count + 1) for name in names]

    @contextlib.contextmanager
    def begin(self, file: IO[bytes]) -> Iterator[Callable[[Record, Answered], None]]:
        """Begins a binary file, ends it when all is written; yields the writer of a record."""
        if self.format == 'parquet':
            with self._parquet(file) as write_row:
                yield write_row
            return
        if self.format in TABLES:
            file.write(_table_line([*self.columns, *self._added], self.format).encode())
        lines: Callable[[Record, Any], str] = self._text_or_json
        if self.format in (*TABLES, *_BLOCKS):
            lines = self._row if self.format in TABLES else self._sentence

        def write(record: Record, answered: Answered) -> None:
            file.write(lines(record, answered).encode())
            file.flush()

        yield write

    def _cells(self, answered: Answered) -> list[Record]:
        """The cells of each answer, the best first; tags of a text are a list, and their scores."""
        if isinstance(answered, Tagged):
            rounded = [round(p, 6) for p in answered.probabilities]
            found = [{'prediction': list(answered.tags), 'score': rounded}]
        else:
            if isinstance(answered, Classified):
                answered = [Suggestion(*pair) for pair in answered.probabilities.items()]
            names = ('score', 'log_probability')
            found = [
                {'prediction': one.text}
                | {name: round(getattr(one, name), 6) for name in names if hasattr(one, name)}
                for one in answered[: self.count]
            ]
        return found if self.scores else [{'prediction': one['prediction']} for one in found]

    def _text_or_json(self, record: Record, answered: Answered) -> str:
        number = next(self._numbers)
        if self.given in _BLOCKS and isinstance(answered, Tagged):
            record = {'tokens': list(answered.words)}
        # An output with an answer for each input has one for an empty message, too.
        found = self._cells(answered or ([Suggestion('', 0.0)] if self.count == 1 else []))
        if self.format != 'text':
            added = found[0] if self.count == 1 else {'predictions': found}
            return json.dumps({**record, **added}, ensure_ascii=False) + '\n'
        if self.count == 1:
            return _text_line(found[0])
        return ''.join(f'{number}\t{_text_line(one)}' for one in found)

    def _row(self, record: Record, answered: Answered) -> str:
        texts = [_spaced(x, 6) if isinstance(x, list) else x for x in self._named(answered)]
        return _table_line([*record.values(), *texts], self.format)

    def _named(self, answered: Answered) -> list[Json]:
        """The cells of the added columns; an answer that lacks has None."""
        cells = [cell for one in self._cells(answered) for cell in one.values()]
        return cells + [None] * (len(self._added) - len(cells))

    @contextlib.contextmanager
    def _parquet(self, file: IO[bytes]) -> Iterator[Callable[[Record, Answered], None]]:
        """Writes a table with its predictions as Parquet; one that lacks is null, tags are a list.

        Columns of Parquet keep their types, but the numbers of named labels become their names.
        Those of CSV and TSV are strings.
        """
        import pyarrow
        from pyarrow import parquet

        added = self._added
        kinds = rows.column_types(self.path, rows.Layout(self.given))
        for name in added:
            kind = pyarrow.string() if name.startswith('prediction') else pyarrow.float64()
            kinds[name] = pyarrow.list_(kind) if isinstance(self.model, Tagger) else kind
        schema = pyarrow.schema(kinds.items())
        waiting: list[Record] = []

        def flush() -> None:
            writer.write_table(pyarrow.Table.from_pylist(waiting, schema=schema))
            waiting.clear()

        def write(record: Record, answered: Answered) -> None:
            waiting.append(record | dict(zip(added, self._named(answered), strict=True)))
            if len(waiting) == _GROUP:
                flush()

        with parquet.ParquetWriter(file, schema) as writer:
            try:
                yield write
            finally:
                flush()

    def _sentence(self, record: Record, answer: Tagged) -> str:
        """A sentence with its tags, in a further column or in the fourth of CoNLL-U."""
        is_same = self.given == self.format
        lines = list(record['lines'] if is_same else answer.words)
        places = record['places'] if is_same else range(len(lines))
        for place, tag, p in zip(places, answer.tags, answer.probabilities, strict=True):
            if self.format == 'conllu':
                columns = lines[place].split('\t')
                columns[3] = tag
                if self.scores:
                    misc = [] if columns[9] == '_' else [columns[9]]
                    columns[9] = '|'.join([*misc, f'TagProbability={p:.4f}'])
                lines[place] = '\t'.join(columns)
                continue
            spaced = self.given == 'conll' and ' ' in lines[place] and '\t' not in lines[place]
            added = [tag, *([f'{p:.4f}'] if self.scores else [])]
            lines[place] = (' ' if spaced else '\t').join([lines[place], *added])
        return '\n'.join([*lines, '', ''])


def _spaced(value: str | float | Sequence[str | float], digits: int) -> str:
    """A cell, or those of a sentence with spaces between them."""
    values = value if isinstance(value, list) else [value]
    return ' '.join(x if isinstance(x, str) else f'{x:.{digits}f}' for x in values)


def _text_line(cells: Record) -> str:
    """A line of text: the score, if it is there, and the prediction."""
    columns = [_spaced(cells[name], 4) for name in ('score', 'prediction') if name in cells]
    return re.sub(r'[\r\n]+', ' ', '\t'.join(columns)) + '\n'


def _table_line(values: Iterable[Json], format: str) -> str:
    """A line of a table; lists and objects are JSON, and None is empty."""
    line = io.StringIO()
    writer = csv.writer(line, delimiter='\t' if format == 'tsv' else ',', lineterminator='\n')
    writer.writerow(
        json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
        for value in values
    )
    return line.getvalue()
