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
import pathlib
from collections.abc import Sequence

import numpy as np

from xlbench import files
from xlbench.data.prepared import Prepared
from xlbench.data.tokenizers import Tokenizer
from xlbench.errors import UserError

_READ_AT_ONCE = 10_000  # Records.
_KEYS = ('text', 'lm_score', 'cluster', 'display')  # Of a line of a copy.


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
        first: dict[str, dict] = {}
        counts: collections.Counter[str] = collections.Counter()
        for start in range(0, len(prepared), _READ_AT_ONCE):
            numbers = range(start, min(start + _READ_AT_ONCE, len(prepared)))
            for record in prepared.read(numbers):
                text = record['targets_pretokenized']
                counts[text] += 1
                first.setdefault(text, record)
        texts = list(first)
        records = list(first.values())
        where = f'{prepared.name}/{prepared.split}'
        return cls(
            texts,
            np.array(
                [
                    _number(record['lm_score'], f'{where}: response {text!r}')
                    if record.get('lm_score')
                    else math.log(counts[text] / len(prepared))
                    for text, record in first.items()
                ],
                np.float32,
            ),
            [record.get('cluster') or text.casefold() for text, record in first.items()],
            [record.get('display') or text for text, record in first.items()],
            [record['targets'] for record in records],
        )

    @classmethod
    def of_file(cls, path: str | os.PathLike, tokenizer: Tokenizer) -> 'ResponseSet':
        """A response_lm_cluster.txt, or a plain text file with a response a line.

        A line with a TAB has the three columns of the official form; of equal texts the first
        counts. Plain texts have the log-likelihood 0 and the cluster of their lower case.

        Raises:
          UserError: the file cannot be read, a line is malformed, or there is no response.
        """
        try:
            lines = pathlib.Path(path).read_text(encoding='utf-8').split('\n')
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f'{path} cannot be read as a response set: {error}') from error
        rows: dict[str, tuple[float, str]] = {}
        for number, line in enumerate(lines, 1):
            columns = [column.strip() for column in line.rstrip('\r').split('\t')]
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
            if text:
                rows.setdefault(text, (score, cluster))
        if not rows:
            raise UserError(f'{path} holds no responses')
        texts = list(rows)
        scores = np.array([score for score, _ in rows.values()], np.float32)
        clusters = [cluster for _, cluster in rows.values()]
        return cls(texts, scores, clusters, list(texts), tokenizer.encode_inputs(texts))

    def save(self, path: str | os.PathLike) -> None:
        """Writes a JSON object a line, with text, lm_score, cluster and display; see `of_copy`."""
        rows = zip(self.texts, self.lm_scores.tolist(), self.clusters, self.display, strict=True)
        lines = (json.dumps(dict(zip(_KEYS, row, strict=True)), ensure_ascii=False) for row in rows)
        files.write(path, ''.join(f'{line}\n' for line in lines))

    @classmethod
    def of_copy(cls, path: str | os.PathLike, tokenizer: Tokenizer) -> 'ResponseSet':
        """What `save` has written.

        Raises:
          UserError: the file is no such copy.
        """
        try:
            # Not splitlines: a text may hold characters that Unicode takes for ends of lines.
            lines = pathlib.Path(path).read_text(encoding='utf-8').removesuffix('\n').split('\n')
            rows = [[json.loads(line)[key] for key in _KEYS] for line in lines]
            texts, scores, clusters, display = map(list, zip(*rows, strict=True))
            strings = all(isinstance(text, str) for text in (*texts, *clusters, *display))
            lm_scores = np.array(scores, np.float32)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f'{path} is no copy of a response set: {error}') from error
        if not strings or lm_scores.shape != (len(texts),):
            raise UserError(f'{path} is no copy of a response set; name one with --responses=FILE')
        return cls(texts, lm_scores, clusters, display, tokenizer.encode_inputs(texts))

    def choose(self, ids: Sequence[int], count: int) -> list[int]:
        """The first of each cluster among ids [k], best first, until there are `count`."""
        chosen: dict[str, int] = {}
        for i in ids:
            if len(chosen) == count:
                break
            chosen.setdefault(self.clusters[i], int(i))
        return list(chosen.values())


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f'{where} has the log-likelihood {text!r}, which is no number')
    return number
