"""Files of any system's predictions, and of references.

A text file has a text on each line, an empty one for an empty text. JSONL has a record on each
line, .conll and .conllu sentences of tagged words. Predictions and references are matched by ids if
both have some, else by their order.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xlbench.data import conllu, postprocess, prepared, readers
from xlbench.data.readers import Json, sha256
from xlbench.system import errors, files
from xlbench.system.errors import UserError

_MOST_NAMED = 3  # Ids in a message.
# Formats of tagged words -> their readers.
_TAGGED: dict[str, Callable[[str], Iterable[readers.Item]]] = {
    'conll': conllu.read_conll,
    'conllu': conllu.read_conllu,
}
FORMATS = ('text', 'jsonl', *_TAGGED)


@dataclasses.dataclass(frozen=True)
class References:
    """References of predictions."""

    name: str  # For messages.
    targets: Sequence[Sequence[str]]  # One or more texts of each example.
    inputs: Sequence[str]  # Of each example; '' if unknown.
    ids: Sequence[str]  # Of each example; '0', '1', ... if the records have none.
    facts: Mapping[str, Json]  # The origin, for metrics.json.

    def first(self, count: int) -> 'References':
        """Returns the references of the first `count` examples; 0: all."""
        if not count:
            return self
        if not 0 < count <= len(self.targets):
            raise UserError(f'--num_examples={count}; {self.name} has {len(self.targets)} examples')
        parts = {key: getattr(self, key)[:count] for key in ('targets', 'inputs', 'ids')}
        return dataclasses.replace(self, **parts)


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Predictions of a system."""

    path: str
    n_best: Sequence[Sequence[str]]  # Predictions of each example, best first.
    ids: Sequence[str] | None = None  # Of each example, if the file has them.
    numbered: bool = False  # Whether the file numbers examples: the last may be missing.

    def for_references(self, references: References) -> list[list[str]]:
        """Returns the predictions of each example; UserError if numbers or ids do not match."""
        if self.ids is not None:
            return self._by_ids(self.ids, references)
        count, expected = len(self.n_best), len(references.targets)
        n_best = [list(row) for row in self.n_best]
        if self.numbered and count < expected:
            return n_best + [[] for _ in range(expected - count)]
        if count != expected:
            raise UserError(
                f'{self.path} has {count:,} predictions, and {references.name} has {expected:,} '
                'examples; there must be one for each, in the same order (empty lines count)'
            )
        return n_best

    def _by_ids(self, ids: Sequence[str], references: References) -> list[list[str]]:
        rows = dict(zip(ids, self.n_best, strict=True))
        known = dict.fromkeys(references.ids)
        # Evaluations number their predictions even if the records have ids.
        numbers = [str(i) for i in range(len(references.ids))]
        if rows.keys() == set(numbers) and not rows.keys() & known.keys():
            return [list(rows[i]) for i in numbers]
        for what, wrong in (
            (f'not in {references.name}', [i for i in rows if i not in known]),
            ('missing', [i for i in known if i not in rows]),
        ):
            if wrong:
                more = f' and {len(wrong) - _MOST_NAMED:,} more' if len(wrong) > _MOST_NAMED else ''
                named = ', '.join(map(errors.shortened, wrong[:_MOST_NAMED]))
                raise UserError(
                    f'{self.path}: ids that are {what}: {named}{more}; --id_field= leaves ids out '
                    'and takes the order of the lines'
                )
        return [list(rows[i]) for i in references.ids]


def format_of(path: str) -> str:
    """Reads the format in a file's name. Example: 'out.jsonl.gz' -> 'jsonl', 'out.de' -> 'text'"""
    suffix = path.removesuffix('.gz').rpartition('.')[2]
    return suffix if suffix in FORMATS else 'text'


def read_outputs(
    path: str,
    *,
    format: str = '',  # One of FORMATS; by default the ending of the file's name.
    # Of JSONL: a text, a list of texts, or a list of objects with a `prediction` or a `text`, best
    # first. By default `prediction`, or else `predictions`.
    field: str = '',
    id_field: str = 'id',  # Of JSONL, if a record has it; '' takes the order.
    # Lines of text begin with the number of the example, from 1, and a TAB; predictions are sorted,
    # best first. An example without a line has no prediction.
    n_best: bool = False,
    scores: bool = False,  # A number and a TAB precede each text.
    tags: bool = False,  # A list of texts has the tags of a sentence, not n-best predictions.
) -> Outputs:
    """Reads predictions; UserError if the file has another form."""
    format = format or format_of(path)
    kinds = {'field': field and 'jsonl', 'n_best': n_best and 'text', 'scores': scores and 'text'}
    for name, kind in kinds.items():
        if kind and format != kind:
            raise UserError(
                f'--{name} is for {kind}, and {path} is read as {format}; leave it out, or set '
                '--format'
            )
    if not n_best and not scores:
        predictions, ids, _ = _read(path, format, field, id_field, tags, 'Set --field')
        return Outputs(path, predictions, ids)
    if not n_best:
        return Outputs(path, [[_without_score(path, i, line)] for i, line in _lines(path)])
    rows: list[list[str]] = []
    for i, line in _lines(path):
        number, tab, text = line.partition('\t')
        if not tab or not number.isascii() or not number.isdigit():
            raise UserError(f'{path}:{i}: the line does not begin with a number and a TAB')
        # A file of few lines cannot hold examples without end.
        if not max(len(rows), 1) <= int(number[:12]) <= len(rows) + 1_000_000:
            raise UserError(
                f'{path}:{i}: example {number[:12]} comes behind example {len(rows)}; the numbers '
                'go up from 1'
            )
        rows += [[] for _ in range(int(number) - len(rows))]
        rows[-1].append(_without_score(path, i, text) if scores else text)
    return Outputs(path, rows, numbered=True)


def read_mrs(path: str) -> tuple[References, Outputs]:
    """Reads a file of microsoft/MRS eval.py: TAB-separated message, reference and predictions.

    An empty message shifts the other columns to the left, as it does there. A line without a TAB is
    a UserError.
    """
    rows = []
    for i, line in _lines(path):
        row = line.strip().split('\t')
        if len(row) < 2:
            raise UserError(f'{path}:{i}: no TAB; a line is message, reference, predictions')
        rows.append(row)
    numbers, inputs = [str(i) for i in range(len(rows))], [row[0] for row in rows]
    references = References(path, [[row[1]] for row in rows], inputs, numbers, _facts([path]))
    return references, Outputs(path, [row[2:] for row in rows])


def read_references(
    paths: Sequence[str], *, field: str = 'target', id_field: str = 'id', tags: bool = False
) -> References:
    """Reads references; several aligned files give several references of each example.

    For the options see `read_outputs`; a list of texts has several references.

    Raises:
      UserError: a file has another form, or files are not equally long.
    """
    targets: list[list[str]] = []
    ids: Sequence[str] | None = None
    inputs: Sequence[str] = ()
    for path in paths:
        rows, file_ids, file_inputs = _read(
            path, format_of(path), field, id_field, tags, 'Set --reference_field'
        )
        if [] in rows:
            line = rows.index([]) + 1
            raise UserError(f'{path}:{line}: {field} is empty; there must be a reference or more')
        if targets and len(rows) != len(targets):
            raise UserError(
                f'{path} has {len(rows):,} references, and {paths[0]} has {len(targets):,}; '
                'files of references have a line for each example'
            )
        if ids is not None and file_ids is not None and file_ids != ids:
            raise UserError(f'{path} has other ids than {paths[0]}, or another order of them')
        ids = file_ids if ids is None else ids
        inputs = inputs or file_inputs
        targets = [a + b for a, b in zip(targets or [[] for _ in rows], rows, strict=True)]
    if not targets:
        raise UserError(f'{paths[0]} has no references; is it empty?')
    numbers = [str(i) for i in range(len(targets))]
    inputs = inputs or [''] * len(targets)
    return References(', '.join(paths), targets, inputs, ids or numbers, _facts(paths))


def _facts(paths: Sequence[str]) -> dict[str, Json]:
    read = [{'file': path, 'sha256': sha256(path)} for path in paths]
    return {'data': 'files', 'manifest': '', 'references': read}


def _read(
    path: str, format: str, field: str, id_field: str, tags: bool, hint: str
) -> tuple[list[list[str]], list[str] | None, list[str]]:
    """Returns the texts of each example, and ids and inputs if there are any."""
    if format in _TAGGED:
        return [[record['tags']] for record in readers.good(_TAGGED[format](path))], None, []
    if format == 'text':
        return [[line] for _, line in _lines(path)], None, []
    records = [
        files.parse_json(line, dict[str, Any], f'{path}:{number}') for number, line in _lines(path)
    ]
    first = records[0] if records else {}
    field = field or next((f for f in ('prediction', 'predictions') if f in first), 'prediction')
    rows = [_texts(f'{path}:{i}', record, field, hint) for i, record in enumerate(records, 1)]
    rows = [[' '.join(texts)] for texts in rows] if tags else rows
    inputs = [record.get('input', '') for record in records]
    inputs = [text if isinstance(text, str) else '' for text in inputs]
    return rows, _ids(path, records, id_field), inputs


def prepared_references(task: prepared.Prepared, id_field: str = 'id') -> References:
    """Returns the references of a prepared task and split."""
    records = task.read(range(len(task)))
    ids = [record.get(id_field, '') for record in records] if id_field else []
    if not all(isinstance(i, str) and i for i in ids) or len(set(ids)) < len(records):
        ids = [str(i) for i in range(len(records))]
    return References(
        f'{task.name}/{task.split}',
        postprocess.references(task, records),
        [record.get('inputs_pretokenized', '') for record in records],
        ids,
        {'data': task.manifest['data'], 'manifest': task.sha256},
    )


def unmarked(task: prepared.Prepared, inputs: Sequence[str]) -> list[str]:
    """Removes the mark of the target language, such as `<de> `, from inputs of a prepared task.

    Models that are trained on the task need it; xlbench.predict puts its own.
    """
    mark = f'<{task.manifest.get("target_lang")}> '
    return [text.removeprefix(mark) for text in inputs]


# -------------------------------------------------------------------------------------------- lines


def _lines(path: str) -> list[tuple[int, str]]:
    return list(readers.good(readers.numbered(path)))


def _texts(place: str, record: Mapping[str, Json], field: str, hint: str) -> list[str]:
    """Returns the texts of a field: a text, a list of texts, or of objects with them."""
    if field not in record:
        raise UserError(f'{place}: {errors.unknown("field", field, record, hint)}')
    value = record[field]
    values = value if isinstance(value, list) else [value]
    texts = []
    for item in values:
        if isinstance(item, dict):
            item = item.get('prediction', item.get('text'))
        if not isinstance(item, str):
            said = f'{field} is {value!r:.60}, neither a text nor a list of texts'
            raise UserError(f'{place}: {said}')
        texts.append(item)
    return texts


def _ids(path: str, records: Sequence[Mapping[str, Json]], field: str) -> list[str] | None:
    """Returns the ids of records, if any has one; UserError for a missing or repeated one."""
    if not field or not any(field in record for record in records):
        return None
    lines: dict[str, int] = {}
    for i, record in enumerate(records, 1):
        value = record.get(field)
        if not isinstance(value, str | int) or isinstance(value, bool):
            what = f'is {value!r:.60}' if field in record else 'is missing'
            raise UserError(f'{path}:{i}: {field} {what}; it is a text or a whole number')
        if (line := lines.setdefault(str(value), i)) != i:
            raise UserError(
                f'{path}:{i}: {field} {errors.shortened(value)} is on line {line} already; '
                '--id_field= leaves ids out and takes the order of the lines'
            )
    return list(lines)


def _without_score(path: str, number: int, line: str) -> str:
    score, tab, text = line.partition('\t')
    try:
        float(score)
    except ValueError:
        tab = ''
    if not tab:
        raise UserError(f'{path}:{number}: the text does not begin with a score and a TAB')
    return text
