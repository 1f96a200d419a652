"""Files of texts, some of whose fields are translated while the others stay as they are."""

import dataclasses
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xlbench.data import readers
from xlbench.data.outputs import References
from xlbench.system.errors import UserError
from xlbench.translate.engines import Failure
from xlbench.translate.jobs import BREAKS, Job

FORMATS = ('text', 'jsonl', 'json', 'tsv')
_MOST_FAILURES = 10_000  # That are written down one by one.


@dataclasses.dataclass(frozen=True)
class Record:
    """A line of a file."""

    place: str  # File and line, for messages.
    content: dict[str, Any]  # Of JSONL and JSON the object, else the columns by number, from '1'.
    texts: tuple[str, ...]  # Those to translate.


@dataclasses.dataclass
class Failed:
    """The texts that were not translated."""

    count: int = 0
    # (place, text, reason) of the first ones.
    first: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)


class Form:
    """The form in which lines hold the texts to translate, one of FORMATS.

    The fields of JSONL and JSON are names, each of a text or a list of texts, and those of TSV the
    numbers of columns, from 1. `keep` names the other fields of objects that are written; by
    default all are. With `lower`, texts are lower-cased first.

    Raises:
      UserError: the fields do not suit the form.
    """

    def __init__(
        self, name: str, fields: Sequence[str], *, keep: Sequence[str] = (), lower: bool = False
    ):
        self.name, self._lower, self._has_columns = name, lower, name in ('text', 'tsv')
        self._fields = ('1',) if name == 'text' else tuple(fields)
        self._keep = tuple(dict.fromkeys((*keep, *fields))) if keep else ()
        if name == 'text' and fields:
            raise UserError('--field is for JSONL, JSON and TSV; a line of text is one text')
        if keep and self._has_columns:
            raise UserError('--keep is for JSONL and JSON; all lines and columns are kept')
        if name != 'text' and not fields:
            takes = 'the numbers of columns, from 1' if name == 'tsv' else 'their names'
            raise UserError(f'name the fields to translate: --field with {takes}, and commas')
        if name == 'tsv' and not all(re.fullmatch('[1-9][0-9]{0,3}', field) for field in fields):
            raise UserError(f'--field={",".join(fields)}; for TSV it has column numbers, from 1')
        if name == 'tsv':
            self._fields = tuple(sorted({*fields}, key=int))

    def read(self, path: str) -> Iterator[Record]:
        """The records of a file, packed or not; UserError for a malformed one."""
        if self._has_columns:
            for number, line in readers.good(readers.numbered(path)):
                columns = [line] if self.name == 'text' else line.split('\t')
                yield self._checked(path, number, {str(i): x for i, x in enumerate(columns, 1)})
            return
        items = readers.json_lines if self.name == 'jsonl' else readers.json_items
        for number, content in readers.good(items(path)):
            yield self._checked(path, number, content)

    def line(self, record: Record, translations: Sequence[str | Failure]) -> str:
        """The line that the record becomes; a Failure is an empty text."""
        texts = iter(['' if isinstance(x, Failure) else x for x in translations])
        content = {key: record.content[key] for key in self._keep or record.content}
        for field in self._fields:
            if self._has_columns:
                content[field] = BREAKS.sub(' ', next(texts))
            else:
                several = isinstance(content[field], list)
                content[field] = [next(texts) for _ in content[field]] if several else next(texts)
        if self._has_columns:
            return '\t'.join(content.values())
        reasons = [x.reason for x in translations if isinstance(x, Failure)]
        content |= {'translation_error': reasons[0]} if reasons else {}
        return json.dumps(content, ensure_ascii=False)

    def _checked(self, path: str, number: int, content: readers.Json) -> Record:
        place = f'{path}: object {number}' if self.name == 'json' else f'{path}:{number}'
        texts: list[str] = []
        try:
            if self._has_columns and len(content) < (needed := max(map(int, self._fields))):
                raise ValueError(f'{len(content)} TAB-separated columns; {needed} are needed')
            readers.check_keys(content, (*self._fields, *self._keep))
            for field in self._fields:
                value = content[field]
                several = value if isinstance(value, list) else [value]
                if not self._has_columns:
                    several = [readers.text_field(text, field) for text in several]
                texts += several
        except ValueError as error:
            raise UserError(f'{place}: {error}') from None
        if self._lower:
            texts = [text.lower() for text in texts]
        return Record(place, content, tuple(texts))


def of_examples(examples: References, inputs: Sequence[str]) -> Iterator[Record]:
    """The examples of a task as records of `id`, `inputs` and `targets`; inputs are translated."""
    rows = zip(examples.ids, inputs, examples.targets, strict=True)
    for number, text, targets in rows:
        content = {'id': number, 'inputs': text, 'targets': targets[0]}
        yield Record(f'{examples.name}:{number}', content, (text,))


def format_of(path: str) -> str:
    """The form of a file by its name."""
    ending = os.path.splitext(path.removesuffix('.gz'))[1].removeprefix('.')
    return ending if ending in FORMATS else 'text'


def translated(
    form: Form,
    records: Iterable[Record],
    job: Job,
    failed: Failed,
    *,
    unit: str = 'text',
    drop: bool = False,
) -> Iterator[str]:
    """The lines of records with their texts translated, in order; fills `failed`.

    With `drop`, records of which a text was not translated are left out; for `unit` see `Job.run`.
    """
    remaining = iter(records)
    while chunk := list(itertools.islice(remaining, job.chunk)):
        texts = [text for record in chunk for text in record.texts]
        answers = job.run(texts, unit)
        for record in chunk:
            translations = [next(answers) for _ in record.texts]
            failures = [
                (record.place, text, answer.reason)
                for text, answer in zip(record.texts, translations, strict=True)
                if isinstance(answer, Failure)
            ]
            failed.count += len(failures)
            failed.first += failures[: max(_MOST_FAILURES - len(failed.first), 0)]
            if not (failures and drop):
                yield form.line(record, translations)
