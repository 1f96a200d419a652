"""Response sets: what a retriever may say, with what chooses among it. numpy only.

A file of the official form (arXiv:2106.02017; microsoft/MRS) has a response a line,

  log-likelihood TAB text TAB cluster id          -1.7  Thanks!  c12

and responses of one cluster say the same, so that only one of them is suggested. `display`, from a
file of its own, is what a person is shown in the text's place.
"""

import collections
import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from xlbench.data import readers
from xlbench.data.prepared import Prepared, Record
from xlbench.data.tokenizers import Tokenizer
from xlbench.system import errors, files
from xlbench.system.errors import UserError

_READ_AT_ONCE = 10_000  # Records.
_KEYS = ('text', 'lm_score', 'cluster', 'display')  # Of a line of a copy.


class _Response(msgspec.Struct):
    """A response, as a line of a copy has it."""

    text: str
    lm_score: float
    cluster: str
    display: str


@dataclasses.dataclass(frozen=True)
class ResponseSet:
    """Responses, told apart by their place: the response id.

    Attributes:
      texts: all different.
      lm_scores: [n] float32, log-probability of the text as a reply to anything, nats.
      clusters: responses with the same say the same.
      display: what a person is shown.
      ids: tokens of each text, as the right side of a dual encoder reads them.
    """

    texts: list[str]
    lm_scores: np.ndarray
    clusters: list[str]
    display: list[str]
    ids: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of_prepared(cls, prepared: Prepared) -> 'ResponseSet':
        """The different replies of a preparation, in the order of first sight.

        What a record's fields lm_score, cluster and display leave empty becomes the logarithm of
        the relative frequency, the text in lower case (str.casefold), and the text.
        """
        first: dict[str, Record] = {}
        counts: collections.Counter[str] = collections.Counter()
        for start in range(0, len(prepared), _READ_AT_ONCE):
            numbers = range(start, min(start + _READ_AT_ONCE, len(prepared)))
            for record in prepared.read(numbers):
                text = record['targets_pretokenized']
                counts[text] += 1
                first.setdefault(text, record)
        where = f'{prepared.name}/{prepared.split}'
        rows = {}
        for text, record in first.items():
            score = math.log(counts[text] / len(prepared))
            if record.get('lm_score'):
                score = _number(record['lm_score'], f'{where}: response {text!r}')
            cluster = record.get('cluster') or text.casefold()
            rows[text] = _Response(text, score, cluster, record.get('display') or text)
        return cls._of_rows(rows, [record['targets'] for record in first.values()])

    @classmethod
    def _of_rows(cls, rows: Mapping[str, _Response], ids: list[np.ndarray]) -> 'ResponseSet':
        """A set of responses by their texts, and the tokens of each."""
        return cls(
            list(rows),
            np.array([row.lm_score for row in rows.values()], np.float32),
            [row.cluster for row in rows.values()],
            [row.display for row in rows.values()],
            ids,
        )

    @classmethod
    def of_file(cls, path: str | os.PathLike, tokenizer: Tokenizer) -> 'ResponseSet':
        """A response_lm_cluster.txt, or a plain text file with a response a line.

        A line with a TAB has the three columns of the official form; equal lines are one response.
        Plain texts have the log-likelihood 0 and the cluster of their lower case.

        Raises:
          UserError: the file cannot be read, a line is malformed, a text has two scores or
            clusters, or there is no response.
        """
        rows: dict[str, _Response] = {}
        first: dict[str, int] = {}
        for number, line in readers.good(readers.numbered(os.fspath(path))):
            columns = [column.strip() for column in line.split('\t')]
            if len(columns) == 1:
                score, text, cluster = 0.0, columns[0], columns[0].casefold()
            elif len(columns) >= 3:
                text, cluster = columns[1:3]
                score = _number(columns[0], f'{path}:{number}')
            else:
                raise UserError(
                    f'{path}:{number} has 2 columns; a line is a text, or log-likelihood, text '
                    'and cluster id with TABs between them'
                )
            row = _Response(text, score, cluster, text)
            if text and rows.setdefault(text, row) != row:
                raise UserError(
                    f'{path}:{number}: {errors.shortened(text)} has another log-likelihood or '
                    f'cluster on line {first[text]}; responses must differ'
                )
            first.setdefault(text, number)
        if not rows:
            raise UserError(f'{path} has no responses')
        return cls._of_rows(rows, tokenizer.encode_inputs(list(rows)))

    def save(self, path: str | os.PathLike) -> None:
        """Writes a JSON object a line, with text, lm_score, cluster and display; see `of_copy`."""
        rows = zip(self.texts, self.lm_scores.tolist(), self.clusters, self.display, strict=True)
        lines = (json.dumps(dict(zip(_KEYS, row, strict=True)), ensure_ascii=False) for row in rows)
        files.write(path, ''.join(f'{line}\n' for line in lines))

    @classmethod
    def of_copy(cls, path: str | os.PathLike, tokenizer: Tokenizer) -> 'ResponseSet':
        """Reads what `save` has written.

        Raises:
          UserError: the file is no such copy.
        """
        rows: dict[str, _Response] = {}
        for number, line in readers.good(readers.numbered(os.fspath(path))):
            where = f'{path} is not a copy of a response set: line {number}'
            row = files.parse_json(line, _Response, where)
            if not row.text.strip():
                raise UserError(f'{where}: the text is empty')
            if rows.setdefault(row.text, row) is not row:
                raise UserError(f'{where}: {errors.shortened(row.text)} occurs twice')
            _number(row.lm_score, where)
        if not rows:
            raise UserError(f'{path} has no responses')
        return cls._of_rows(rows, tokenizer.encode_inputs(list(rows)))

    def choose(self, ids: Sequence[int], count: int) -> list[int]:
        """The first of each cluster among ids [k], best first, until there are `count`."""
        chosen: dict[str, int] = {}
        for i in ids:
            if len(chosen) == count:
                break
            chosen.setdefault(self.clusters[i], int(i))
        return list(chosen.values())


def _number(text: str | float, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) < 1e38:  # Beyond it, it is infinite as float32.
        named = errors.shortened(text)
        raise UserError(f'{where} has the log-likelihood {named}, which is not a number')
    return number
